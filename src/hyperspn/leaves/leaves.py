"""Leaves: the distributions of all variables at the bottom of a circuit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch

from torch import Generator, Tensor, nn
from torch.nn import functional

from .discrete import Categorical
from .evidence import Evidence, as_tensor
from .family import LeafFamily, pick


class Leaves(nn.Module):
    """The leaf distributions of all variables, shared by all replicas.

    Where variables differ in their number of distributions, arrays over them are padded up to the largest, l.

    Arguments:
        families: The family of each variable.
    """

    def __init__(self, families: Sequence[LeafFamily]) -> None:
        super().__init__()
        self.families = tuple(families)
        self.distinct = tuple(dict.fromkeys(self.families))
        numbers = {family: index for index, family in enumerate(self.distinct)}
        self.family_of = torch.tensor([numbers[family] for family in self.families], device="cpu")
        self.variables = [(self.family_of == index).nonzero()[:, 0] for index in range(len(self.distinct))]
        self.raw = nn.ParameterList(
            nn.Parameter(torch.randn(len(own), family.width, family.num_parameters), family.num_parameters > 0)
            for family, own in zip(self.distinct, self.variables, strict=True)
        )

    @property
    def is_discrete(self) -> bool:
        return all(family.is_discrete for family in self.distinct)

    def parameter_groups(self) -> list[dict[str, Any]]:
        learnable = [parameter for parameter in self.raw if parameter.requires_grad]
        return [{"name": "leaves", "params": learnable, "lr": 1e-2}] if learnable else []

    def read(self, x: Tensor | np.ndarray, missing: Tensor | np.ndarray | None = None) -> Evidence:
        """Checks a table and finds its holes: NaN, or True in `missing`.

        Arguments:
            x: The table, (batch, variables), of bool, integer or float.
            missing: Where values are to be ignored, (batch, variables) or (variables,), of bool.
        """
        values = as_tensor(x, "x").to(self.raw[0].device)
        values = values.byte() if values.dtype == torch.bool else values
        if values.ndim != 2 or values.shape[1] != len(self.families):
            raise ValueError(f"expected x of shape (batch, {len(self.families)}), found {tuple(values.shape)}")
        holes = values.isnan()
        if missing is not None:
            mask = as_tensor(missing, "missing").to(values.device)
            if mask.dtype != torch.bool or mask.shape not in (values.shape, values.shape[1:]):
                raise ValueError(
                    f"expected missing to be bool of shape {tuple(values.shape)}, found {mask.dtype} {tuple(mask.shape)}"
                )
            holes = holes | mask
        values = values.masked_fill(holes, 0)
        self._check_support(values)
        return Evidence(values.to(self.raw[0].dtype), holes)

    def _check_support(self, values: Tensor) -> None:
        found = [family.misfits(self._own(values, own)) for family, own, _ in self._groups()]
        misfits = _ordered(found, self.variables)
        if misfits.any():
            row, column = misfits.nonzero()[0].tolist()
            expected, value = self.families[column].support(), values[row, column].item()
            raise ValueError(f"expected {expected} in column {column}, found {value:g} in row {row}")

    def log_prob(self, evidence: Evidence, modes: bool = False, categorical: bool = True) -> Tensor:
        """The log-density of each variable under each of its distributions, (batch, variables, l), padded with -inf.

        A missing value is integrated out, log 1 = 0, or stands at each distribution's own mode if `modes`.
        Without `categorical` variables where only the others are wanted.
        """
        groups = [group for group in self._groups() if categorical or not isinstance(group[0], Categorical)]
        width = max(family.width for family, _, _ in groups)
        columns = []
        for family, own, raw in groups:
            known = family.log_prob(raw, self._own(evidence.values, own))  # (batch, own, width)
            unknown = known.new_zeros(())
            if modes:
                unknown = family.log_prob(raw, family.modes(raw).T).diagonal(dim1=0, dim2=2)  # (own, width)
            filled = torch.where(self._own(evidence.missing, own)[..., None], unknown, known)
            columns.append(functional.pad(filled, (0, width - family.width), value=-torch.inf))
        return _ordered(columns, [own for _, own, _ in groups])

    def is_linear(self, regions: Tensor) -> bool:
        """Whether `region_log_prob` serves regions of these variables, (U, V)."""
        return len(self.distinct) == 1 and self.distinct[0].is_linear and regions.shape[1] > 1

    def region_log_prob(self, evidence: Evidence, regions: Tensor) -> Tensor:
        """The log-density of regions of V variables under each of their distributions: (U, V) -> (U, batch, l)."""
        regions = regions.to(evidence.values.device)
        x, missing = (table[:, regions].transpose(0, 1) for table in evidence)  # (U, batch, V)
        return self.distinct[0].region_log_prob(self.raw[0][regions], x, ~missing)

    def sample(self, members: Tensor, generator: Generator | None = None) -> Tensor:
        """Draws each variable from the chosen one of its distributions, (batch, variables)."""
        drawn = [family.sample(raw, members[:, own], generator) for family, own, raw in self._groups()]
        return _ordered(drawn, self.variables)

    def modes(self, members: Tensor) -> Tensor:
        """The most probable value of the chosen distributions, (batch, variables)."""
        modes = [pick(family.modes(raw), members[:, own]) for family, own, raw in self._groups()]
        return _ordered(modes, self.variables)

    def guess(self, posterior: Tensor) -> Tensor:
        """The best single value under each variable's mixture, (batch, variables, l) -> (batch, variables)."""
        guesses = [family.guess(raw, posterior[:, own, : family.width]) for family, own, raw in self._groups()]
        return _ordered(guesses, self.variables)

    def moments(self, posterior: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and variance of each variable's mixture, (batch, variables, l) -> two of (batch, variables)."""
        means, variances = [], []
        for family, own, raw in self._groups():
            weights = posterior[:, own, : family.width]
            mean, variance = family.moments(raw)
            means.append((weights * mean).sum(-1))
            variances.append((weights * (variance + (mean - means[-1][..., None]).square())).sum(-1))
        return _ordered(means, self.variables), _ordered(variances, self.variables)

    def statistics(self, evidence: Evidence, posterior: Tensor) -> list[Tensor]:
        """What a batch says about the distributions j of each variable v, as far as its values x are known.

            sum_b posterior[b, v, j] (1, T(x_bv))

        Arguments:
            evidence: The batch.
            posterior: The posterior of each variable's distributions, (batch, variables, l).

        Returns:
            The sums for each family that has parameters, (own variables, l, 1 + parameters), in float64.
        """
        known = posterior.masked_fill(evidence.missing[..., None], 0).double()
        sums = []
        for family, own, _ in self._learnable():
            statistics = family.statistics(self._own(evidence.values, own).double())  # (batch, own, parameters)
            counted = functional.pad(statistics, (1, 0), value=1)  # (batch, own, 1 + parameters)
            sums.append(torch.einsum("bvj,bvs->vjs", known[:, own, : family.width], counted))
        return sums

    @torch.no_grad()
    def maximize(self, statistics: Sequence[Tensor], step_size: float) -> None:
        """Moves the expectation of T under each distribution towards its mean in such sums; those unseen stay."""
        for (family, _, raw), sums in zip(self._learnable(), statistics, strict=True):
            counts, totals = sums[..., :1], sums[..., 1:]
            expectations = family.expectations(raw.double()).lerp(totals / counts, step_size)
            raw.copy_(torch.where(counts > 0, family.fitted(expectations), raw))

    def _learnable(self) -> Iterator[tuple[LeafFamily, Tensor, Tensor]]:
        return (group for group in self._groups() if group[0].num_parameters)

    def _groups(self) -> Iterator[tuple[LeafFamily, Tensor, Tensor]]:
        """Each distinct family with its variables and their parameters."""
        for family, own, raw in zip(self.distinct, self.variables, self.raw, strict=True):
            yield family, own.to(raw.device), raw

    def _own(self, table: Tensor, variables: Tensor) -> Tensor:
        """The columns of one family."""
        return table if len(self.distinct) == 1 else table[:, variables]


def _ordered(columns: list[Tensor], variables: list[Tensor]) -> Tensor:
    """Puts the columns of several families into the order of their variables."""
    if len(columns) == 1:
        return columns[0]
    return torch.cat(columns, 1).index_select(1, torch.cat(variables).argsort().to(columns[0].device))
