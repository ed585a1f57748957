"""Hyper weights: a small network writes them from one embedding per sector (section 3, Figures 2 and 3)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Literal

import torch

from torch import Tensor, nn

from ..checks import whole
from .layouts import Layout
from .network import relu_network
from .sectors import Sectors
from .source import Init, WeightSource, _rows, arguments_as_text, initial

Start = Literal["plain", "careful"]

SPREAD, FEWEST, MOST = 2.0, 0.25, 0.75


class HyperWeights(WeightSource):
    """A small network maps an embedding of each sector to its weights: a HyperSPN.

        weights(s) = head relu(... relu(net_1 embeddings[s]))

    The hidden layers `net` serve all sectors; each sector kind has its own linear layer in `heads`.

    Arguments:
        sectors: The sectors to write.
        embedding_dim: The size of a sector's embedding (5 in all published RAT-SPN runs).
        hidden: The widths of the hidden layers; the paper's "embedding dimension h" is the last one of (20, h).
        init: How the embeddings start: "uniform" in [0, 1), or standard "normal".
        start: How the hidden layers start: "plain", as PyTorch draws them and as published, or "careful" (see `keep_alive`).
        rank: Heads write k x c sectors as A B^T / sqrt(rank), by the factors A (k, rank) and B (c, rank), in kinds where
            these are fewer numbers, (k + c) rank < k c, and that are no bells; None for every weight. The factors start
            near standard normal ones that the sectors of a kind share: products of small numbers learn slowly.
    """

    def __init__(
        self,
        sectors: Sectors,
        embedding_dim: int = 5,
        hidden: Sequence[int] = (20, 20),
        init: Init = "uniform",
        start: Start = "plain",
        rank: int | None = None,
    ) -> None:
        super().__init__()
        widths = (embedding_dim, *hidden)
        if min(widths) < 1:
            raise ValueError(f"expected embedding_dim and hidden widths >= 1, found {widths}")
        if start not in ("plain", "careful"):
            raise ValueError(f"expected start 'plain' or 'careful', found {start!r}")
        self.hidden = tuple(hidden)
        self.init, self.start = init, start
        self.rank = None if rank is None else whole("rank", rank)
        self.layouts = [Layout.of(kind, self.rank) for kind in sectors.kinds]
        self.learning_rates = (1e-2, 3e-4) if sectors.product == "outer" else (5e-3, 5e-3)
        self.first_rows = [sum(kind.count for kind in sectors.kinds[:index]) for index in range(len(sectors.kinds))]
        self.embeddings = nn.Parameter(initial(sectors.num_sectors, embedding_dim, init=init))
        self.net = nn.ModuleList(nn.Linear(inputs, outputs) for inputs, outputs in pairwise(widths))
        self.heads = nn.ModuleList(nn.Linear(widths[-1], layout.size) for layout in self.layouts)
        for head, layout in zip(self.heads, self.layouts, strict=True):
            if layout.rank:
                head.bias = nn.Parameter(initial(layout.size, init="normal"))
        if start == "careful" and not self.embeddings.is_meta:
            keep_alive(list(self.net), self.embeddings)

    def forward(self, kind: int, ids: Tensor | slice) -> Tensor:
        embeddings = _rows(self.embeddings[self.first_rows[kind] :], ids)
        return self.layouts[kind].sectors(relu_network([*self.net, self.heads[kind]], embeddings))

    def parameter_groups(self) -> list[dict[str, Any]]:
        embeddings, network = self.learning_rates
        return [
            {"name": "embeddings", "params": [self.embeddings], "lr": embeddings},
            {"name": "network", "params": [*self.net.parameters(), *self.heads.parameters()], "lr": network},
        ]

    def config(self) -> dict[str, Any]:
        sizes = {"embedding_dim": self.embeddings.shape[1], "hidden": list(self.hidden), "init": self.init}
        further = {"start": None if self.start == "plain" else self.start, "rank": self.rank}
        return sizes | {name: value for name, value in further.items() if value is not None}

    def extra_repr(self) -> str:
        return arguments_as_text(self.config())


@torch.no_grad()
def keep_alive(layers: list[Any], x: Tensor) -> None:
    """Scales and shifts the units of ReLU layers, so that each is active for a fair share of the rows x, (rows, inputs).

    The inputs of unit u to its ReLU get standard deviation 2 over the rows, and its bias is set so that a share from a
    quarter to three quarters of them, another one for each unit, is positive. A unit whose inputs spread less than a few
    steps of the optimizer move its bias is soon silent for all rows, and then it gets no gradient any more.
    """
    for layer in layers:
        spread = (x @ layer.weight.T).std(0, correction=0)  # (units,)
        layer.weight *= SPREAD / torch.where(spread > 0, spread, SPREAD)[:, None]
        ordered = (x @ layer.weight.T).sort(0).values  # (rows, units)
        shares = FEWEST + (MOST - FEWEST) * (torch.randperm(len(spread)) + 0.5) / len(spread)
        places = ((1 - shares) * (len(x) - 1)).round().long()
        layer.bias.copy_(-ordered.gather(0, places[None])[0])
        x = layer(x).relu()
