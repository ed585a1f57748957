"""Regularizers that act on the weights of a circuit while it learns."""

from __future__ import annotations

from copy import copy
from math import log1p

import numpy as np
import torch

from torch import Tensor

from ..leaves.discrete import Categorical
from ..leaves.leaves import Leaves
from ..weights.sectors import Sectors
from ..weights.source import WeightSource

GOLDEN, FACTORS = -0x61C8864680B583EB, ((30, -0x40A7B892E31B1A47), (27, -0x6B2FB644ECCEEE15))


class Dropout(WeightSource):
    """Probabilistic dropout: each edge of a sum node is dropped with probability `rate`, anew at every step (see `at`).

        logit(s, o, j) = -inf if u(s, o, j) < rate and u(s, o, j) < max_j' u(s, o, j')

    The numbers u in [0, 1) are a function of seed, step, kind and sector, so that a sector that is asked for again
    gets the same answer; the largest in the used part of each row stays. The mixing weights of an EiNet stay too.

    Arguments:
        weights: The source that writes the weights.
        sectors: The sectors that it writes.
        rate: The probability of an edge to be dropped.
        seed: What the numbers are drawn by, with the step.
        leaves: Whether the sums over leaf distributions lose edges too. Where these are categories, rows may then
            have probability zero. Bells (see `SectorKind`) stay whole.
    """

    def __init__(
        self, weights: WeightSource, sectors: Sectors, rate: float, seed: int = 0, leaves: bool = False
    ) -> None:
        super().__init__()
        if not 0 <= rate < 1:
            raise ValueError(f"expected a dropout rate >= 0 and < 1, found {rate}")
        self.source = weights
        self.kinds = sectors.kinds
        self.seed = seed
        self.step = 0
        self.rates = [torch.full((kind.count,), rate, dtype=torch.float32) for kind in sectors.kinds]
        self.used_columns = [torch.full((kind.count,), kind.numbers_per_row) for kind in sectors.kinds]
        for layer in sectors.layers:
            edge_sectors, columns = layer.edges()
            self.used_columns[layer.kind_index][edge_sectors] = columns
            self.rates[layer.kind_index][layer.sectors] = 0
            if (leaves or not layer.is_leaf) and not layer.kind.grid:
                self.rates[layer.kind_index][edge_sectors] = rate

    def at(self, step: int) -> Dropout:
        """The same source at this step: other edges are dropped."""
        dropout = copy(self)
        dropout.step = step
        return dropout

    def forward(self, kind: int, ids: Tensor | slice) -> Tensor:
        logits = self.source(kind, ids)
        return logits.masked_fill(~self.remaining_edges(kind, ids).to(logits.device).flatten(1), -torch.inf)

    def remaining_edges(self, kind: int, ids: Tensor | slice) -> Tensor:
        """Which edges of these sectors stay at this step, (ids, rows, columns)."""
        rows, columns, count = self.kinds[kind].rows, self.kinds[kind].numbers_per_row, self.kinds[kind].count
        ids = torch.arange(count)[ids] if isinstance(ids, slice) else ids.cpu()
        key = np.random.SeedSequence((self.seed, self.step, kind + 1)).generate_state(1, np.uint64).view(np.int64)[0]
        draws = _uniform(int(key), ids[:, None] * (rows * columns) + torch.arange(rows * columns))
        draws = draws.view(-1, rows, columns)
        used = torch.arange(columns) < self.used_columns[kind][ids, None, None]  # (ids, 1, columns)
        largest = draws.masked_fill(~used, -1).amax(-1, keepdim=True)  # (ids, rows, 1)
        return draws >= largest.minimum(self.rates[kind][ids, None, None])


class Softening(WeightSource):
    """Data softening: an observed category x counts as evidence for all C categories of its variable v.

        log p(soft x) = log sum_y p(y) prod_v evidence(x_v, y_v),   evidence(x, y) = (1 - rate) [x = y] + rate / C

    A sum over the categories of a variable, whose value at x is its weight w[x], then takes the value
    w'[x] = (1 - rate) w[x] + rate / C. So that is the weight written here, with the rows as they are; in logits

        logit(s, o, x) <- log((1 - rate) exp(logit(s, o, x)) + rate / C sum_y exp(logit(s, o, y)))

    Soft evidence is from A. Liu and G. Van den Broeck, Tractable regularization of probabilistic circuits, NeurIPS
    2021. It takes rows for noisy observations: the best weights of a single sum alone are those for which w', and
    not w, are the frequencies in the data. Variables that are not categorical stay as they are.

    Arguments:
        weights: The source that writes the weights.
        sectors: The sectors that it writes.
        leaves: The distributions of the variables.
        rate: The part of the evidence that goes to all categories alike.
    """

    def __init__(self, weights: WeightSource, sectors: Sectors, leaves: Leaves, rate: float) -> None:
        super().__init__()
        if not 0 <= rate < 1:
            raise ValueError(f"expected softening >= 0 and < 1, found {rate}")
        self.source = weights
        self.kinds = sectors.kinds
        self.rate = rate
        sizes = [family.categories if isinstance(family, Categorical) else 0 for family in leaves.families]
        self.categories = [torch.zeros(kind.count, dtype=torch.int64) for kind in sectors.kinds]
        for layer in (layer for layer in sectors.layers if layer.is_leaf):
            categories = torch.tensor(sizes)[layer.factors]
            variables = layer.offsets.diff()  # of each leaf region
            if categories[variables.repeat_interleave(variables) > 1].any():
                raise ValueError("expected leaf regions of one variable for softening, found several variables in one")
            if categories.any() and not layer.has_sums:
                raise ValueError("expected sums over all categories for softening, found leaf regions without them")
            self.categories[layer.kind_index][layer.sectors] = categories[layer.offsets[:-1], None]

    def forward(self, kind: int, ids: Tensor | slice) -> Tensor:
        logits = self.source(kind, ids)
        categories = self.categories[kind][ids if isinstance(ids, slice) else ids.cpu()].to(logits.device)
        blocks = logits.unflatten(1, (self.kinds[kind].rows, -1))  # (ids, rows, columns)
        (soft,) = categories.nonzero(as_tuple=True)
        hard, categories = blocks[soft], categories[soft, None, None]
        used = torch.arange(hard.shape[-1], device=logits.device) < categories  # (soft, 1, columns)
        total = hard.masked_fill(~used, -torch.inf).logsumexp(-1, keepdim=True)  # (soft, rows, 1)
        mixed = torch.logaddexp(hard + log1p(-self.rate), total + (self.rate / categories.to(logits.dtype)).log())
        return blocks.index_copy(0, soft, mixed).flatten(1)


def _uniform(key: int, counters: Tensor) -> Tensor:
    """Random numbers in [0, 1), one for each counter: the top bits of splitmix64."""
    bits = counters * GOLDEN + key
    for shift, factor in FACTORS:
        bits = (bits ^ _shift(bits, shift)) * factor
    return _shift(bits ^ _shift(bits, 31), 40).float() / 2**24


def _shift(bits: Tensor, places: int) -> Tensor:
    """A shift to the right that brings in zeros."""
    return (bits >> places) & ((1 << (64 - places)) - 1)
