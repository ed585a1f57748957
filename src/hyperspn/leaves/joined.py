"""Joined leaves: the distributions of several circuits over the same variables, seen as those of one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch

from torch import Tensor
from torch.nn import functional

from .family import LeafFamily
from .leaves import Leaves


class JoinedLeaves:
    """The leaf distributions of all components of a mixture.

    Those with parameters are others in each component: first come those of the first component, then those of the next, and
    last the distributions without parameters, which are the same in all components.

    Arguments:
        parts: The leaves of each component, of the same families.
    """

    def __init__(self, parts: Sequence[Leaves]) -> None:
        self.parts = parts
        self.families = tuple(family.times(len(parts)) for family in parts[0].families)

    def parameters_of(self, variable: int) -> Tensor:
        """The parameters of one variable's distributions, (1, l, parameters)."""
        if self.families[variable].num_parameters == 0:
            return self.parts[0].parameters_of(variable)
        return torch.cat([leaves.parameters_of(variable) for leaves in self.parts], 1)

    def posterior(self, parts: Tensor) -> Tensor:
        """Posteriors in the components, (components, batch, variables, their l), as one of all: (batch, variables, l)."""
        columns = []
        for family, variables, (raw, *_) in self._groups():
            learned = raw.shape[1] if family.num_parameters else 0
            part = parts[:, :, variables, : family.width]  # (components, batch, group, l)
            different = part[..., :learned].permute(1, 2, 0, 3).flatten(2)  # (batch, group, components learned)
            columns.append(torch.cat([different, part[..., learned:].sum(0)], -1))
        width = max(column.shape[-1] for column in columns)
        return self._in_order([functional.pad(column, (0, width - column.shape[-1])) for column in columns])

    def guess(self, posterior: Tensor) -> Tensor:
        """The best single value under each variable's mixture, (batch, variables, l) -> (batch, variables)."""
        guesses = []
        for family, variables, raw in self._groups():
            extra = (len(raw) - 1) * raw[0].shape[1] if family.num_parameters else 0
            members = torch.cat(raw, 1) if family.num_parameters else raw[0]
            guesses.append(family.guess(members, posterior[:, variables, : family.width + extra]))
        return self._in_order(guesses)

    def _groups(self) -> Iterator[tuple[LeafFamily, Tensor, list[Tensor]]]:
        """Each leaf family with its variables and their parameters in every component, (group, learned, parameters)."""
        first = self.parts[0]
        parameters = zip(*(leaves.raw for leaves in self.parts), strict=True)
        for family, variables, group in zip(first.groups, first.variables, parameters, strict=True):
            yield family, variables, list(group)

    def _in_order(self, columns: list[Tensor]) -> Tensor:
        """Puts the columns of all families into the order of their variables."""
        return torch.cat(columns, 1)[:, torch.cat(self.parts[0].variables).argsort()]
