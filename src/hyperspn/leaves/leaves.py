"""Leaves: the distributions of all variables at the bottom of a circuit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from numpy.typing import ArrayLike
from torch import Generator, Tensor, nn
from torch.nn import functional

from .evidence import Evidence, Reading, Rows, as_tensor
from .family import LeafFamily, pick

Events = Sequence[Mapping[int, ArrayLike]]  # for each row, events by variable


class Leaves(nn.Module):
    """The leaf distributions of all variables, shared by all replicas.

    Where variables differ in their number of distributions, arrays over them are padded up to the largest, l.
    Families of equal kin are a group, which is evaluated together.

    Arguments:
        families: The family of each variable.
    """

    def __init__(self, families: Sequence[LeafFamily]) -> None:
        super().__init__()
        self.families = tuple(families)
        self.distinct = tuple(dict.fromkeys(self.families))
        numbers = {family: index for index, family in enumerate(self.distinct)}
        self.family_of = torch.from_numpy(np.array([numbers[family] for family in self.families]))
        kin = list(dict.fromkeys(family.kin() for family in self.distinct))
        group_of = torch.from_numpy(np.array([kin.index(family.kin()) for family in self.families]))
        for index in range(len(kin)):
            self.register_buffer(f"variables_{index}", (group_of == index).nonzero()[:, 0], persistent=False)
        self.groups = [
            type(self.families[members[0]]).join([self.families[v] for v in members])
            for members in (variables.tolist() for variables in self.variables)
        ]
        self.raw = nn.ParameterList(
            nn.Parameter(family.initial(len(variables)), family.num_parameters > 0)
            for family, variables in zip(self.groups, self.variables, strict=True)
        )

    @property
    def variables(self) -> list[Tensor]:
        """Those of each group."""
        return list(self._buffers.values())  # type: ignore[arg-type]

    @property
    def is_discrete(self) -> bool:
        return all(family.is_discrete for family in self.groups)

    @property
    def dtype(self) -> torch.dtype:
        return self.raw[0].dtype

    def parameters_of(self, variable: int) -> Tensor:
        """The parameters of one variable's distributions, (1, l, parameters)."""
        group = next(i for i, variables in enumerate(self.variables) if variable in variables)
        index = int((self.variables[group] == variable).nonzero()[0, 0])
        return self.raw[group][index : index + 1]

    def parameter_groups(self) -> list[dict[str, Any]]:
        learnable = [parameter for parameter in self.raw if parameter.requires_grad]
        return [{"name": "leaves", "params": learnable, "lr": 1e-2}] if learnable else []

    def read(self, x: Rows | Evidence, missing: Rows | None = None, events: Events | None = None) -> Evidence:
        """Checks rows and finds their holes: NaN, or True in `missing`.

        Arguments:
            x: The rows, (batch, variables), of bool, integer or float; or evidence that was read before.
            missing: Where values are to be ignored, (batch, variables) or (variables,), of bool.
            events: For each row what is known beside values, by variable: for a family with codes the likelihood of
                each, (codes,), for others disjoint intervals [low, high), (intervals, 2). They replace values.
        """
        if isinstance(x, Evidence):
            return x if missing is None else x.without(as_tensor(missing, "missing").to(x.missing.device))
        values = as_tensor(x, "x").to(self.raw[0].device)
        values = values.byte() if values.dtype == torch.bool else values
        if torch._C._functorch.is_batchedtensor(values):
            raise ValueError("rows cannot be checked inside torch.func.vmap: give them all in one batch")
        if values.ndim != 2 or values.shape[1] != len(self.families):
            raise ValueError(f"expected x of shape (batch, {len(self.families)}), found {tuple(values.shape)}")
        holes = values.isnan() | self._mask(missing, values)
        is_event, readings = self._read_events(events, holes)
        values = values.masked_fill(holes if is_event is None else holes | is_event, 0)
        self._check_support(values)
        prepared = {
            index: family.read(self.columns(values, variables).double(), self.dtype)
            for index, (family, variables, _) in enumerate(self._groups())
            if family.is_prepared
        }
        values = values.to(torch.float64 if prepared else self.dtype)
        return Evidence(values, holes if is_event is None else holes & ~is_event, prepared, readings, is_event)

    def _mask(self, missing: Rows | None, values: Tensor) -> Tensor:
        if missing is None:
            return torch.zeros((), dtype=torch.bool, device=values.device)
        mask = as_tensor(missing, "missing").to(values.device)
        if mask.dtype != torch.bool or mask.shape not in (values.shape, values.shape[1:]):
            raise ValueError(
                f"expected missing to be bool of shape {tuple(values.shape)}, found {mask.dtype} {tuple(mask.shape)}"
            )
        return mask

    def _check_support(self, values: Tensor) -> None:
        misfits = [family.misfits(self.columns(values, variables)) for family, variables, _ in self._groups()]
        is_misfit = _in_order(misfits, self.variables)
        if is_misfit.any():
            row, column = is_misfit.nonzero()[0].tolist()
            expected, value = self.families[column].support(), values[row, column].item()
            raise ValueError(f"expected {expected} in column {column}, found {value:g} in row {row + 1}")

    def _read_events(self, events: Events | None, holes: Tensor) -> tuple[Tensor | None, dict[int, Reading]]:
        """Where events are known, (batch, variables), and what the families made of them."""
        if not events or not any(events):
            return None, {}
        if len(events) != len(holes):
            raise ValueError(f"expected events for each of {len(holes)} rows, found {len(events)}")
        is_event = torch.zeros_like(holes)
        for row, of_row in enumerate(events):
            is_event[row, list(of_row)] = True
        readings = {}
        for index, (family, variables, _) in enumerate(self._groups()):
            if is_event[:, variables].any():
                parts = [[of_row.get(v) for v in variables.tolist()] for of_row in events]
                readings[index] = family.read_events(_stack_events(family, parts).to(holes.device))
        return is_event, readings

    def log_prob(self, evidence: Evidence, modes: bool = False) -> Tensor:
        """The log-density of each variable under each of its distributions, (batch, variables, l), padded with -inf.

        The log-mass, where an event is known. A missing value is integrated out, log 1 = 0, or stands at each
        distribution's own mode if `modes`.
        """
        width = max(family.width for family in self.groups)
        columns = [
            functional.pad(self.group_log_prob(evidence, group, modes), (0, width - family.width), value=-torch.inf)
            for group, family in enumerate(self.groups)
        ]
        return _in_order(columns, self.variables)

    def group_log_prob(self, evidence: Evidence, group: int, modes: bool = False) -> Tensor:
        """The same for the variables of one group, (batch, variables of the group, their l)."""
        family, raw, variables = self.groups[group], self.raw[group], self.variables[group]
        known = family.log_prob(raw, self.reading(evidence, group))
        if group in evidence.events and evidence.is_event is not None:
            masses = family.log_mass(raw, evidence.events[group])
            known = torch.where(evidence.is_event[:, variables, None], masses, known)
        unknown = self._log_modes(family, raw) if modes else known.new_zeros(())
        return torch.where(self.columns(evidence.missing, variables)[..., None], unknown, known)

    def _log_modes(self, family: LeafFamily, raw: Tensor) -> Tensor:
        """The log-density of each distribution at its own mode, (variables, l)."""
        modes: Any = family.modes(raw).T  # (l, variables)
        if family.is_prepared:
            modes = family.read(modes.double(), self.dtype)
        return family.log_prob(raw, modes).diagonal(dim1=0, dim2=2)

    def is_linear(self, regions: Tensor) -> bool:
        """Whether `region_log_prob` serves regions of these variables, (U, V)."""
        return len(self.groups) == 1 and self.groups[0].is_linear and regions.shape[1] > 1

    def region_log_prob(self, evidence: Evidence, regions: Tensor) -> Tensor:
        """The log-density of regions of V variables under each of their distributions: (U, V) -> (U, batch, l)."""
        x, missing = (rows[:, regions].transpose(0, 1) for rows in (evidence.values, evidence.missing))  # (U, batch, V)
        return self.groups[0].region_log_prob(self.raw[0][regions], x, ~missing)

    def sample(self, members: Tensor, generator: Generator | None = None) -> Tensor:
        """Draws each variable from the chosen one of its distributions, (batch, variables)."""
        drawn = [family.sample(raw, members[:, variables], generator) for family, variables, raw in self._groups()]
        return _in_order(drawn, self.variables)

    def complete(self, evidence: Evidence, members: Tensor, generator: Generator | None = None) -> Tensor:
        """Draws what is unknown from the chosen distributions, within events where these are known, (batch, variables)."""
        drawn = torch.where(evidence.missing, self.sample(members, generator), evidence.values)
        for i, (family, variables, raw) in enumerate(self._groups()):
            if i in evidence.events and evidence.is_event is not None:
                within = family.sample_within(raw, members[:, variables], evidence.events[i], generator)
                drawn[:, variables] = torch.where(
                    evidence.is_event[:, variables], within.to(drawn), drawn[:, variables]
                )
        return drawn

    def modes(self, members: Tensor) -> Tensor:
        """The most probable value of the chosen distributions, (batch, variables)."""
        modes = [pick(family.modes(raw), members[:, variables]) for family, variables, raw in self._groups()]
        return _in_order(modes, self.variables)

    def guess(self, posterior: Tensor) -> Tensor:
        """The best single value under each variable's mixture, (batch, variables, l) -> (batch, variables)."""
        guesses = [
            family.guess(raw, posterior[:, variables, : family.width]) for family, variables, raw in self._groups()
        ]
        return _in_order(guesses, self.variables)

    def moments(self, posterior: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and variance of each variable's mixture, (batch, variables, l) -> two of (batch, variables)."""
        means, variances = [], []
        for family, variables, raw in self._groups():
            weights = posterior[:, variables, : family.width]
            mean, variance = family.moments(raw)
            means.append((weights * mean).sum(-1))
            variances.append((weights * (variance + (mean - means[-1][..., None]).square())).sum(-1))
        return _in_order(means, self.variables), _in_order(variances, self.variables)

    def statistics(self, evidence: Evidence, posterior: Tensor) -> list[Tensor]:
        """What a batch says about the distributions j of each variable v, as far as its values x are known.

            sum_b posterior[b, v, j] (1, T(x_bv))

        Arguments:
            evidence: The batch.
            posterior: The posterior of each variable's distributions, (batch, variables, l).

        Returns:
            The sums for each group that has parameters, (variables, l, 1 + parameters), in float64.
        """
        known = posterior.masked_fill(evidence.missing[..., None], 0).double()
        sums = []
        for i, (family, variables, raw) in enumerate(self._groups()):
            if family.num_parameters:
                x = self.reading(evidence, i)
                counted = functional.pad(family.expected_statistics(raw, x), (1, 0), value=1)  # (batch, v, 1 or l, s)
                weights = known[:, variables, : raw.shape[1]]  # (batch, v, l)
                if counted.shape[2] == 1:
                    sums.append(torch.einsum("bvj,bvs->vjs", weights, counted[:, :, 0]))
                else:
                    sums.append(torch.einsum("bvj,bvjs->vjs", weights, counted))
        return sums

    @torch.no_grad()
    def maximize(self, statistics: Sequence[Tensor], step_size: float) -> None:
        """Moves the expectation of T under each distribution towards its mean in such sums; those unseen stay."""
        learnable = [(family, raw) for family, _, raw in self._groups() if family.num_parameters]
        for (family, raw), sums in zip(learnable, statistics, strict=True):
            counts, totals = sums[..., :1], sums[..., 1:]
            expectations = family.expectations(raw.double()).lerp(totals / counts, step_size)
            raw.copy_(torch.where(counts > 0, family.fitted(expectations), raw))

    def _groups(self) -> Iterator[tuple[LeafFamily, Tensor, Tensor]]:
        """Each group's family with its variables and their parameters."""
        yield from zip(self.groups, self.variables, self.raw, strict=True)

    def reading(self, evidence: Evidence, group: int) -> Any:
        """What the family of a group takes: the values of its variables, or what it made of them."""
        columns = self.columns(evidence.values, self.variables[group])
        return evidence.readings.get(group, columns.to(self.dtype))

    def columns(self, rows: Tensor, variables: Tensor) -> Tensor:
        """The columns of one group."""
        return rows if len(self.groups) == 1 else rows[:, variables]


def _in_order(columns: list[Tensor], variables: list[Tensor]) -> Tensor:
    """Puts the columns of several groups into the order of their variables."""
    if len(columns) == 1:
        return columns[0]
    dtype = torch.float64 if any(column.dtype == torch.float64 for column in columns) else columns[0].dtype
    return torch.cat([column.to(dtype) for column in columns], 1).index_select(1, torch.cat(variables).argsort())


def _stack_events(family: LeafFamily, events: list[list[ArrayLike | None]]) -> Tensor:
    """The events of a group, one list for each row, as one tensor (see `LeafFamily.read_events`)."""
    if family.codes is not None:
        shape: tuple[int, ...] = (family.codes,)
        default = torch.ones(shape, dtype=torch.float64)
    else:
        most = max(len(torch.as_tensor(event)) for of_row in events for event in of_row if event is not None)
        shape = (max(most, 1), 2)
        default = torch.zeros(shape, dtype=torch.float64)
    stacked = default.expand(len(events), len(events[0]), *shape).clone()
    for row, of_row in enumerate(events):
        for column, event in enumerate(of_row):
            if event is not None:
                part = torch.as_tensor(event, dtype=torch.float64)
                if family.codes is not None and (
                    part.shape != shape or not (part >= 0).all() or not part.isfinite().all()
                ):
                    raise ValueError(f"expected likelihoods >= 0 of {family.codes} codes, found {part.tolist()}")
                stacked[row, column, : len(part)] = part
    return stacked
