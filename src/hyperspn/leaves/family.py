"""Leaf families: what a distribution at the bottom of a circuit can do."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from torch import Generator, Tensor

DOUBLE = torch.finfo(torch.float64)


@dataclass(frozen=True)
class LeafFamily:
    """A family of distributions with l = `width` members per variable.

    A family is only a description. Parameters, where it has any, have shape (variables, l, parameters) and are
    passed in; x has shape (batch, variables).
    """

    is_discrete = True
    is_linear = False
    num_parameters = 0

    @property
    def width(self) -> int:
        raise NotImplementedError

    def misfits(self, x: Tensor) -> Tensor:
        """Which of the values, (batch, variables), are not in the support."""
        raise NotImplementedError

    def support(self) -> str:
        """The support in words, for error messages."""
        raise NotImplementedError

    def log_prob(self, parameters: Tensor, x: Tensor) -> Tensor:
        """The log-density under each member, (batch, variables, l)."""
        raise NotImplementedError

    def region_log_prob(self, parameters: Tensor, x: Tensor, known: Tensor) -> Tensor:
        """The log-densities of whole regions of V variables, as matrix products, for families that are `is_linear`.

        Arguments:
            parameters: Of U regions, (U, V, l, parameters).
            x: The values, (U, batch, V).
            known: Which of them count, (U, batch, V).

        Returns:
            The sum over the variables of each region, (U, batch, l).
        """
        raise NotImplementedError

    def moments(self, parameters: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and variance of each member, (variables, l)."""
        raise NotImplementedError

    def modes(self, parameters: Tensor) -> Tensor:
        """The most probable value of each member, (variables, l)."""
        raise NotImplementedError

    def sample(self, parameters: Tensor, members: Tensor, generator: Generator | None) -> Tensor:
        """Draws from the chosen members, (batch, variables)."""
        raise NotImplementedError

    def statistics(self, x: Tensor) -> Tensor:
        """The sufficient statistics T of each value, (batch, variables, parameters)."""
        raise NotImplementedError

    def expectations(self, parameters: Tensor) -> Tensor:
        """The mean of T under each member, (variables, l, parameters)."""
        raise NotImplementedError

    def fitted(self, expectations: Tensor) -> Tensor:
        """The parameters under which T has these means, or the most likely ones within their bounds."""
        raise NotImplementedError

    def guess(self, parameters: Tensor, posterior: Tensor) -> Tensor:
        """The best single value under a mixture of the members, (batch, variables, l) -> (batch, variables)."""
        mean = (posterior * self.moments(parameters)[0]).sum(-1)
        return mean.round() if self.is_discrete else mean


def pick(values: Tensor, members: Tensor) -> Tensor:
    """Picks ``values[v, members[b, v]]`` for every row b and variable v: (variables, l, ...) -> (batch, variables, ...)."""
    return values[torch.arange(len(values), device=members.device), members]
