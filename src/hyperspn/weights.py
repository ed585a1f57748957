"""Weight sources: who writes the sum weights of a circuit (section 3, Figures 2 and 3)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Literal

import torch

from torch import Tensor, nn

from .network import relu_network
from .sectors import Sectors

Initialisation = Literal["uniform", "normal"]


class WeightSource(nn.Module):
    """Answers "the unnormalised weights of these sectors, please".

    Nothing else in the library knows whether a parameter tensor or a network wrote them. Called with the index
    of a sector kind and sector ids, as a tensor (ids,) or a slice, it returns the weights, (ids, size of the kind).
    """

    init: Initialisation

    def forward(self, kind: int, ids: Tensor | slice) -> Tensor:
        raise NotImplementedError

    def parameter_groups(self) -> list[dict[str, Any]]:
        """Groups for `torch.optim`, each with its published learning rate."""
        raise NotImplementedError

    def config(self) -> dict[str, Any]:
        """The keyword arguments that make this source again, beside its sectors."""
        raise NotImplementedError

    @property
    def num_parameters(self) -> int:
        """The number of learnable parameters, without the mixture weights of the circuit."""
        return sum(parameter.numel() for parameter in self.parameters())


class DirectWeights(WeightSource):
    """One parameter per weight: a plain sum-product network.

    Arguments:
        sectors: The sectors to write.
        init: "uniform" in [0, 1) as published for RAT-SPNs, or standard "normal" as for EiNets.
    """

    def __init__(self, sectors: Sectors, init: Initialisation = "uniform") -> None:
        super().__init__()
        self.init = init
        self.learning_rate = 1e-2 if sectors.product == "outer" else 2e-2
        self.logits = nn.ParameterList(initial(kind.count, kind.size, init=init) for kind in sectors.kinds)

    def forward(self, kind: int, ids: Tensor | slice) -> Tensor:
        return _rows(self.logits[kind], ids)

    def parameter_groups(self) -> list[dict[str, Any]]:
        return [{"name": "weights", "params": list(self.logits), "lr": self.learning_rate}]

    def config(self) -> dict[str, Any]:
        return {"init": self.init}

    def extra_repr(self) -> str:
        return f"init={self.init!r}"


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
        init: Initialisation = "uniform",
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


def initial(*shape: int, init: Initialisation) -> Tensor:
    """Starting values for weights, embeddings and mixture weights."""
    if init == "uniform":
        return torch.rand(shape)
    if init == "normal":
        return torch.randn(shape)
    raise ValueError(f"expected init 'uniform' or 'normal', found {init!r}")


def _rows(table: Tensor, ids: Tensor | slice) -> Tensor:
    return table[ids] if isinstance(ids, slice) else table.index_select(0, ids)


def normalize(logits: Tensor) -> Tensor:
    """The logarithms of the weights of sum nodes: softmax over the last axis."""
    return logits.log_softmax(-1)
