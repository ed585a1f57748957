"""Weight sources: who writes the sum weights of a circuit (section 3, Figures 2 and 3)."""

from __future__ import annotations

from typing import Any, Literal

import torch

from torch import Tensor, nn

Init = Literal["uniform", "normal"]


class WeightSource(nn.Module):
    """Answers "the unnormalized weights of these sectors, please".

    Nothing else in the library knows whether a parameter tensor or a network wrote them. Called with the index
    of a sector kind and sector ids, as a tensor (ids,) or a slice, it returns the weights, (ids, size of the kind).

    A file is loaded into parameters on the device "meta", which take no memory. So tensors that are no parameters are
    made of numpy arrays, which stay where they are.
    """

    init: Init

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


def initial(*shape: int, init: Init) -> Tensor:
    """Starting values for weights, embeddings and mixture weights."""
    if init == "uniform":
        return torch.rand(shape)
    if init == "normal":
        return torch.randn(shape)
    raise ValueError(f"expected init 'uniform' or 'normal', found {init!r}")


def arguments_as_text(config: dict[str, Any]) -> str:
    """Keyword arguments as they are typed."""
    plain = {name: tuple(value) if isinstance(value, list) else value for name, value in config.items()}
    return ", ".join(f"{name}={value!r}" for name, value in plain.items())


def _rows(table: Tensor, ids: Tensor | slice) -> Tensor:
    return table[ids] if isinstance(ids, slice) else table.index_select(0, ids)


def normalize(logits: Tensor) -> Tensor:
    """The logarithms of the weights of sum nodes: softmax over the last axis."""
    return logits.log_softmax(-1)
