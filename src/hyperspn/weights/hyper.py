"""Hyper weights: a small network writes them from one embedding per sector (section 3, Figures 2 and 3)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from torch import Tensor, nn

from .network import relu_network
from .sectors import Sectors
from .source import Init, WeightSource, _rows, initial


class HyperWeights(WeightSource):
    """A small network maps an embedding of each sector to its weights: a HyperSPN.

        weights(s) = head relu(... relu(net_1 embeddings[s]))

    The hidden layers `net` serve all sectors; each sector kind has its own linear layer in `heads`.

    Arguments:
        sectors: The sectors to write.
        embedding_dim: The size of a sector's embedding (5 in all published RAT-SPN runs).
        hidden: The widths of the hidden layers; the paper's "embedding dimension h" is the last one of (20, h).
        init: How the embeddings start: "uniform" in [0, 1), or standard "normal".
    """

    def __init__(
        self,
        sectors: Sectors,
        embedding_dim: int = 5,
        hidden: Sequence[int] = (20, 20),
        init: Init = "uniform",
    ) -> None:
        super().__init__()
        widths = (embedding_dim, *hidden)
        if min(widths) < 1:
            raise ValueError(f"expected embedding_dim and hidden widths >= 1, found {widths}")
        self.hidden = tuple(hidden)
        self.init = init
        self.learning_rates = (1e-2, 3e-4) if sectors.product == "outer" else (5e-3, 5e-3)
        self.first_rows = [sum(kind.count for kind in sectors.kinds[:index]) for index in range(len(sectors.kinds))]
        self.embeddings = nn.Parameter(initial(sectors.num_sectors, embedding_dim, init=init))
        self.net = nn.ModuleList(nn.Linear(inputs, outputs) for inputs, outputs in pairwise(widths))
        self.heads = nn.ModuleList(nn.Linear(widths[-1], kind.size) for kind in sectors.kinds)

    def forward(self, kind: int, ids: Tensor | slice) -> Tensor:
        embeddings = _rows(self.embeddings[self.first_rows[kind] :], ids)
        return relu_network([*self.net, self.heads[kind]], embeddings)

    def parameter_groups(self) -> list[dict[str, Any]]:
        embeddings, network = self.learning_rates
        return [
            {"name": "embeddings", "params": [self.embeddings], "lr": embeddings},
            {"name": "network", "params": [*self.net.parameters(), *self.heads.parameters()], "lr": network},
        ]

    def config(self) -> dict[str, Any]:
        return {"embedding_dim": self.embeddings.shape[1], "hidden": list(self.hidden), "init": self.init}

    def extra_repr(self) -> str:
        return f"embedding_dim={self.embeddings.shape[1]}, hidden={self.hidden}, init={self.init!r}"
