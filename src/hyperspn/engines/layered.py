"""The layered engine: PyTorch, log space, layer by layer. The reference for every other engine."""

from __future__ import annotations

from collections.abc import Callable
from math import log
from typing import NamedTuple

import torch

from torch import Tensor

from ..leaves import Evidence, Leaves
from ..sectors import Sectors, SumLayer
from ..weights import WeightSource, normalize

VALUES_AT_ONCE = 2**25

Combine = Callable[[Tensor, Tensor], Tensor]


class Source(NamedTuple):
    """Factors of a layer's products: values ``slots`` of a layer go into products ``targets``."""

    layer: int  # -1 for the leaf distributions
    slots: Tensor
    targets: Tensor


def log_sum(inputs: Tensor, log_weights: Tensor) -> Tensor:
    """log sum_j exp(log_weights[u, o, j] + inputs[u, b, j]): (U, batch, J), (U, O, J) -> (U, batch, O).

    A matrix product once the largest input is factored out, unless a weight is so small that a sum could vanish
    before its logarithm is taken; then term by term.
    """
    if log_weights.min() > 0.7 * log(torch.finfo(inputs.dtype).tiny):
        shift = _finite(inputs.detach().amax(-1, keepdim=True))  # (U, batch, 1)
        return shift + _log((inputs - shift).exp() @ log_weights.exp().mT)
    terms = inputs[:, :, None] + log_weights[:, None]  # (U, batch, O, J)
    shift = _finite(terms.detach().amax(-1, keepdim=True))
    return (shift + _log((terms - shift).exp().sum(-1, keepdim=True)))[..., 0]


def log_max(inputs: Tensor, log_weights: Tensor) -> Tensor:
    """max_j log_weights[u, o, j] + inputs[u, b, j]: (U, batch, J), (U, O, J) -> (U, batch, O)."""
    return (inputs[:, :, None] + log_weights[:, None]).amax(-1)


class LayeredEngine:
    """Evaluates all regions of a layer at once, on any device, in float32 or float64, with autograd.

    Arguments:
        sectors: The layers of the circuit.
    """

    def __init__(self, sectors: Sectors) -> None:
        self.sectors = sectors
        self.sources = [self._sources_of(layer) for layer in sectors.layers]
        roots = torch.from_numpy(sectors.structure.roots)
        self.root_sources = self._grouped(roots, torch.arange(len(roots), device=roots.device))

    def __repr__(self) -> str:
        return "layered"

    @property
    def rows_upward(self) -> int:
        """How many rows to send upward at a time where memory matters."""
        per_row = sum((len(layer.offsets) - 1) * layer.columns for layer in self.sectors.layers)
        return max(1, VALUES_AT_ONCE // per_row)

    @property
    def rows_at_once(self) -> int:
        """How many rows to ask for log-values at a time where memory matters."""
        return self.rows_upward

    def log_values(self, evidence: Evidence, leaves: Leaves, weights: WeightSource) -> Tensor:
        """The log-value of every root, (batch, roots)."""
        return self.upward(leaves.log_prob(evidence), weights)[0]

    def log_values_of(self, leaf_log_probs: Tensor, weights: WeightSource) -> Tensor:
        """The same for given log-densities of the leaves, (batch, variables, l), and with gradients only for these."""
        return self.upward(leaf_log_probs, lambda kind, ids: weights(kind, ids).detach())[0]

    def upward(
        self,
        leaf_log_probs: Tensor,
        weights: Callable[[int, Tensor], Tensor],
        combine: Combine = log_sum,
    ) -> tuple[Tensor, list[Tensor]]:
        """Evaluates the circuit from the leaves to the roots.

        Arguments:
            leaf_log_probs: The log-densities of the variables, (batch, variables, l).
            weights: Who writes the weights.
            combine: What a sum node does: `log_sum` or `log_max`.

        Returns:
            The log-values of the roots, (batch, roots), and the inputs of each layer's sums, (U, batch, P columns).
        """
        leaves = leaf_log_probs.transpose(0, 1)  # (variables, batch, l)
        outputs: list[Tensor] = []
        inputs: list[Tensor] = []
        for layer, sources in zip(self.sectors.layers, self.sources, strict=True):
            products = _products(layer, sources, outputs, leaves)  # (U, batch, P columns)
            inputs.append(products)
            if layer.has_sums:
                logits = weights(layer.kind_index, layer.sectors.flatten().to(leaves.device))
                outputs.append(combine(products, normalize(layer.assemble(logits))))  # (U, batch, rows)
            else:
                outputs.append(products)
        roots = _gathered(self.root_sources, outputs, leaves, len(self.sectors.structure.roots))  # (roots, batch, 1)
        return roots[..., 0].T, inputs

    def _sources_of(self, layer: SumLayer) -> list[list[Source]]:
        """Of all factors together, or of the left ones and of the right ones."""
        targets = torch.arange(len(layer.offsets) - 1, device="cpu").repeat_interleave(layer.offsets.diff())
        if layer.is_leaf:
            return [[Source(-1, layer.factors, targets)]]
        sides = 2 if layer.is_outer else 1
        return [self._grouped(layer.factors[side::sides], targets[side::sides]) for side in range(sides)]

    def _grouped(self, regions: Tensor, targets: Tensor) -> list[Source]:
        """Groups factors by the layer that holds their values."""
        layers, slots = self.sectors.layer_of[regions], self.sectors.slot_of[regions]
        return [Source(layer, slots[layers == layer], targets[layers == layer]) for layer in layers.unique().tolist()]


def _finite(largest: Tensor) -> Tensor:
    return largest.masked_fill(largest == -torch.inf, 0)


def _log(values: Tensor) -> Tensor:
    """The logarithm, with gradient 0 where it is -inf."""
    zero = values == 0
    return values.masked_fill(zero, 1).log().masked_fill(zero, -torch.inf)


def _products(layer: SumLayer, sources: list[list[Source]], outputs: list[Tensor], leaves: Tensor) -> Tensor:
    """The products of all partitions of a layer, in log space: (U, batch, P columns)."""
    count = len(layer.offsets) - 1
    left, *others = (_gathered(side, outputs, leaves[..., : layer.columns], count) for side in sources)
    products = left  # (U P, batch, columns)
    for right in others:
        products = (right[..., None] + left[..., None, :]).flatten(2)
    return products.unflatten(0, (-1, layer.partitions)).transpose(1, 2).flatten(2)


def _gathered(sources: list[Source], outputs: list[Tensor], leaves: Tensor, count: int) -> Tensor:
    """Multiplies the sources' values element by element into `count` products, in log space: (count, batch, values)."""
    total: Tensor | None = None
    for layer, slots, targets in sources:
        values = leaves if layer < 0 else outputs[layer]  # (slots, batch, values)
        if total is None:
            total = values.new_zeros(count, *values.shape[1:])
        total = total.index_add(0, targets.to(values.device), values.index_select(0, slots.to(values.device)))
    assert total is not None
    return total
