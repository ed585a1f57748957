"""Numeric leaves: point masses, and hats over the normal scores of all other numbers."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import inf, log

import numpy as np
import torch

from numpy.typing import NDArray
from torch import Generator, Tensor

from ..checks import whole
from ..data.scales import Scale
from .evidence import Reading
from .family import LeafFamily, pick
from .hats import Hats, hats

QUANTILES = 100
FARTHEST = 40.0  # normal scores beyond have no mass
LARGEST_BANK = 1024

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class Numeric(LeafFamily):
    """The numbers of a column with its own scale: the family of the numeric columns of tables.

    The first `members` distributions are hats p_j over the scores z of the scale (see `Hats`), each further one is a
    point mass:

        p_j(cell) = mass of [z_low, z_high] under hat j
        p_i(cell) = 1 if the cell holds point i, else 0

    They have no parameters. A sum over them has a mean and a width in place of one weight for each hat, so that it is a
    bell (see `SectorKind`). The density of a recorded number is the probability of its cell, divided by the width of the
    cell. That of a continuous number is p_j(z) dz/dx, or the probability of a point mass.

    Arguments:
        scale: The scale of the column.
        members: The number of hats.
        has_missing: Whether "missing" is one more point mass, the last one; in rows it is inf.
    """

    scale: Scale
    members: int = 96
    has_missing: bool = False
    is_discrete = False
    is_prepared = True

    def __post_init__(self) -> None:
        if not 2 <= whole("members", self.members) <= LARGEST_BANK:
            raise ValueError(f"expected members 2..{LARGEST_BANK}, found {self.members}")
        if isinstance(self.scale, Mapping):
            object.__setattr__(self, "scale", Scale(**self.scale))

    @property
    def points(self) -> tuple[float, ...]:
        return self.scale.points + ((inf,) if self.has_missing else ())

    @property
    def width(self) -> int:
        return self.members + len(self.points)

    @property
    def grid(self) -> tuple[float, ...]:
        return tuple(hats(self.members).places.tolist())

    def point_numbers(self, x: FloatArray) -> NDArray[np.int64]:
        """Which of the points each number is, -1 for none."""
        numbers = np.full(len(x), -1)
        for index, value in enumerate(self.points):
            numbers[x == value] = index
        return numbers

    def kin(self) -> Hashable:
        return Numeric, self.members

    @staticmethod
    def join(families: Sequence[LeafFamily]) -> LeafFamily:
        return NumericColumns([family for family in families if isinstance(family, Numeric)])


class NumericColumns(LeafFamily):
    """Several columns of numbers together, each with its own scale (see `Numeric`)."""

    is_discrete = False
    is_prepared = True

    def __init__(self, families: Sequence[Numeric]) -> None:
        self.families = families
        self.members = families[0].members
        self.num_points = max(len(family.points) for family in families)
        points = [(*family.points, *[np.nan] * (self.num_points - len(family.points))) for family in families]
        self.points = torch.from_numpy(np.array(points, np.float64))  # (variables, points)

    @property
    def width(self) -> int:
        return self.members + self.num_points

    @property
    def hats(self) -> Hats:
        return hats(self.members)

    def misfits(self, x: Tensor) -> Tensor:
        allowed = torch.tensor([family.has_missing for family in self.families], device=x.device)
        return (x == -torch.inf) | ((x == torch.inf) & ~allowed)

    def support(self) -> str:
        return "a finite number"

    def read(self, x: Tensor, dtype: torch.dtype) -> Reading:
        """The levels of each column."""
        return tuple(
            _read_column(family, column.cpu().numpy()).to(x.device, dtype)
            for family, column in zip(self.families, x.T, strict=True)
        )

    def log_prob(self, parameters: Tensor, x: Reading) -> Tensor:  # type: ignore[override]
        return torch.stack([levels.log_prob(self.width) for levels in x], 1).to(parameters.dtype)

    def read_events(self, events: Tensor) -> Reading:
        """The ends of intervals of normal scores, (batch, variables, intervals), and the mass under each distribution."""
        low, high = events.unbind(-1)
        ends = [torch.empty_like(low), torch.empty_like(high)]
        for target, numbers in zip(ends, (low, high), strict=True):
            for v, family in enumerate(self.families):
                target[:, v] = torch.from_numpy(family.scale.scores(numbers[:, v].cpu().numpy()))
        masses = self._masses(*ends)
        points = self.points[:, None].to(low.device)  # (variables, 1, points)
        inside = (low[..., None] <= points) & (
            (points < high[..., None]) | ((points == low[..., None]) & low[..., None].isinf())
        )
        return *ends, torch.cat([masses, inside.any(2).double()], -1)

    def log_mass(self, parameters: Tensor, events: Reading) -> Tensor:
        return events[2].log().to(parameters.dtype)

    def sample(self, parameters: Tensor, members: Tensor, generator: Generator | None) -> Tensor:
        everything = torch.full(members.shape, -torch.inf, dtype=torch.float64)
        return self._draw(members, everything, -everything, generator)

    def sample_within(
        self, parameters: Tensor, members: Tensor, events: Reading, generator: Generator | None
    ) -> Tensor:
        low, high, _ = events
        hat = members.clamp(max=self.members - 1)[..., None].expand(low.shape).numpy()
        masses = torch.from_numpy(self.hats.mass(low.numpy(), high.numpy(), hat))
        noise = torch.empty_like(masses).exponential_(generator=generator).clamp(min=torch.finfo(masses.dtype).tiny)
        chosen = (masses / noise).argmax(-1, keepdim=True)  # an interval, by its mass
        return self._draw(members, low.gather(-1, chosen)[..., 0], high.gather(-1, chosen)[..., 0], generator)

    def moments(self, parameters: Tensor) -> tuple[Tensor, Tensor]:
        """By quadrature: averages over equal steps of probability."""
        means, variances = zip(*(_moments(family) for family in self.families), strict=True)
        points = self.points.masked_fill(~self.points.isfinite(), 0)
        mean = torch.cat([torch.from_numpy(np.stack(means)), points], -1)
        variance = torch.cat([torch.from_numpy(np.stack(variances)), torch.zeros_like(points)], -1)
        return mean.to(parameters.device), variance.to(parameters.device)

    def modes(self, parameters: Tensor) -> Tensor:
        modes = torch.from_numpy(np.stack([_modes(family) for family in self.families]))
        return torch.cat([modes, self.points.nan_to_num(nan=0.0)], -1).to(parameters.device)

    def guess(self, parameters: Tensor, posterior: Tensor) -> Tensor:
        mean = (posterior * self.moments(parameters)[0]).sum(-1)
        return torch.stack(
            [torch.from_numpy(f.scale.round(m.numpy())) for f, m in zip(self.families, mean.T, strict=True)], 1
        )

    def _masses(self, low: Tensor, high: Tensor) -> Tensor:
        """The mass of unions of intervals under each hat: (..., intervals) -> (..., members)."""
        total = low.new_zeros(*low.shape[:-1], self.members)
        every = np.arange(self.members)
        for start, end in zip(low.unbind(-1), high.unbind(-1), strict=True):
            total += torch.from_numpy(
                self.hats.mass(start[..., None].cpu().numpy(), end[..., None].cpu().numpy(), every)
            )
        return total

    def _draw(self, members: Tensor, low: Tensor, high: Tensor, generator: Generator | None) -> Tensor:
        """Recorded numbers from the chosen hats within intervals of scores, or the chosen points, (batch, variables)."""
        share = torch.rand(members.shape, dtype=torch.float64, generator=generator).numpy()
        hat = members.clamp(max=self.members - 1).cpu().numpy()
        scores = self.hats.quantile(low.cpu().numpy(), high.cpu().numpy(), share, hat)
        columns = [f.scale.round(f.scale.values(z)) for f, z in zip(self.families, scores.T, strict=True)]
        numbers = torch.from_numpy(np.stack(columns, 1)).to(members.device)
        if not self.num_points:
            return numbers
        points = pick(self.points.to(members.device), (members - self.members).clamp(min=0))
        return torch.where(members >= self.members, points, numbers)


@dataclass(frozen=True)
class Levels:
    """What is read of a column: of each different number, a level, and where each row has its own.

    Arguments:
        places: (rows,).
        members: The distributions under which a number is possible, first, and others, (w, levels).
        likelihoods: Its likelihoods there, divided by the largest, and 0 for others, (w, levels).
        counts: Under how many distributions it is possible, (levels,).
        logs: What to add to their logarithms, (levels,).
    """

    places: Tensor
    members: Tensor
    likelihoods: Tensor
    counts: Tensor
    logs: Tensor

    def __getitem__(self, rows: Tensor | slice) -> Levels:
        return replace(self, places=self.places[rows])

    def to(self, device: torch.device, dtype: torch.dtype) -> Levels:
        likelihoods, logs = self.likelihoods.to(device, dtype), self.logs.to(device, dtype)
        return Levels(self.places.to(device), self.members.to(device), likelihoods, self.counts.to(device), logs)

    def log_prob(self, width: int) -> Tensor:
        """The log-likelihoods of the number of each row under all distributions, (rows, width)."""
        members, likelihoods = self.members[:, self.places].T, self.likelihoods[:, self.places].T
        dense = likelihoods.new_zeros(len(members), width).scatter_add(1, members.long(), likelihoods)
        return dense.log() + self.logs[self.places, None]


def _read_column(family: Numeric, x: FloatArray) -> Levels:
    levels, places = np.unique(x, return_inverse=True)
    point = family.point_numbers(levels)
    finite = np.where(np.isfinite(levels), levels, np.median(family.scale.knots))
    members, likelihoods, offset = (_read_continuous if family.scale.decimals is None else _read_recorded)(
        family, finite
    )
    is_plain = np.isfinite(levels) & ((point < 0) | (family.scale.decimals is not None))
    likelihoods, offset = likelihoods * is_plain[:, None], np.where(is_plain, offset, 0.0)
    if family.points:
        members = np.append(members, family.members + np.maximum(point, 0)[:, None], 1)
        likelihoods = np.append(likelihoods, (point >= 0)[:, None].astype(np.float64), 1)
    largest = likelihoods.max(1, initial=0)
    likelihoods = likelihoods / np.where(largest > 0, largest, 1)[:, None]
    logs = np.where(largest > 0, offset + np.log(np.where(largest > 0, largest, 1)), 0.0)
    order = np.argsort(likelihoods == 0, axis=1, kind="stable")
    members, likelihoods = (np.take_along_axis(part, order, 1).T.copy() for part in (members, likelihoods))
    arrays = places, members.astype(np.int32), likelihoods, (likelihoods > 0).sum(0), logs
    return Levels(*map(torch.from_numpy, arrays))


def _read_continuous(family: Numeric, x: FloatArray) -> tuple[NDArray[np.int64], FloatArray, FloatArray]:
    """Of continuous numbers: the two hats at their scores, the densities of these, and log dz/dx."""
    bank, scores, slopes = hats(family.members), family.scale.scores(x), family.scale.log_slopes(x)
    members = bank.first(scores)[:, None] + np.arange(2)
    inside = np.isfinite(slopes)
    return members, bank.density(scores[:, None], members) * inside[:, None], np.where(inside, slopes, 0.0)


def _read_recorded(family: Numeric, x: FloatArray) -> tuple[NDArray[np.int64], FloatArray, FloatArray]:
    """Of recorded numbers: the hats that their cells touch, the masses of these, and -log of the width of a cell."""
    bank, scale = hats(family.members), family.scale
    low, high = (scale.scores(edge).clip(-FARTHEST, FARTHEST) for edge in scale.cells(x))
    first, last = bank.first(low), bank.first(high) + 1
    members = first[:, None] + np.arange((last - first).max(initial=1) + 1)
    is_touched = members <= last[:, None]
    members = np.minimum(members, family.members - 1)
    return members, bank.mass(low[:, None], high[:, None], members) * is_touched, np.full(len(x), -log(scale.width))


@lru_cache(maxsize=1024)
def _moments(family: Numeric) -> tuple[FloatArray, FloatArray]:
    """Mean and variance of each hat in numbers, (members,)."""
    levels = (np.arange(QUANTILES) + 0.5) / QUANTILES
    every = np.arange(family.members)[:, None]
    numbers = family.scale.values(hats(family.members).quantile(-inf, inf, levels, every))  # (members, quantiles)
    return numbers.mean(1), numbers.var(1)


@lru_cache(maxsize=1024)
def _modes(family: Numeric) -> FloatArray:
    """The most probable number of each hat among those at its place and between the knots of the scale, (members,)."""
    knots = np.asarray(family.scale.knots)
    candidates = np.concatenate([family.scale.values(hats(family.members).places), (knots[1:] + knots[:-1]) / 2])
    x = family.scale.round(candidates)
    dense = _read_column(family, x).log_prob(family.width)
    return x[dense[:, : family.members].argmax(0).numpy()]
