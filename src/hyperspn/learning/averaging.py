"""Averaging: an optimizer that remembers where the parameters have been."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from torch import Tensor
from torch.optim import Optimizer


class Averaging:
    """An optimizer that also keeps an average of the parameters over its steps.

        average <- d average + (1 - d) parameters,   d = min(decay, t / (t + 1)) after t steps

    So the first steps count alike, and later ones the less the longer ago they were.

    Arguments:
        optimizer: The optimizer.
        decay: How much of the average remains at a step, > 0 and < 1.
    """

    def __init__(self, optimizer: Optimizer, decay: float) -> None:
        if not 0 < decay < 1:
            raise ValueError(f"expected averaging between 0 and 1, like 0.999, found {decay}")
        self.optimizer, self.decay, self.steps = optimizer, decay, 0
        self.average = [parameter.detach().clone() for parameter in self.parameters]

    @property
    def param_groups(self) -> list[dict[str, Any]]:
        return self.optimizer.param_groups

    @property
    def parameters(self) -> list[Tensor]:
        return [parameter for group in self.param_groups for parameter in group["params"]]

    def zero_grad(self) -> None:
        self.optimizer.zero_grad()

    @torch.no_grad()
    def step(self) -> None:
        self.optimizer.step()
        self.steps += 1
        remains = min(self.decay, self.steps / (self.steps + 1))
        torch._foreach_lerp_(self.average, self.parameters, 1 - remains)

    @contextmanager
    def use_average(self) -> Iterator[None]:
        """Lets the parameters be their averages for a while."""
        parameters = [parameter.detach().clone() for parameter in self.parameters]
        self._set(self.average)
        try:
            yield
        finally:
            self._set(parameters)

    def state_dict(self) -> dict[str, Any]:
        return {**self.optimizer.state_dict(), "average": self.average, "steps": self.steps}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        optimizer_state = {name: value for name, value in state_dict.items() if name not in ("average", "steps")}
        self.optimizer.load_state_dict(optimizer_state)
        self.average, self.steps = [part.clone() for part in state_dict["average"]], state_dict["steps"]

    @torch.no_grad()
    def _set(self, values: list[Tensor]) -> None:
        for parameter, value in zip(self.parameters, values, strict=True):
            parameter.copy_(value)
