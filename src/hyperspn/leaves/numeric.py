"""Numeric leaves: point masses, and normal distributions of the normal scores of all other numbers."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from math import inf, log, pi
from typing import Any

import numpy as np
import torch

from torch import Generator, Tensor
from torch.nn import functional

from ..checks import whole
from ..data.scales import Scale
from .evidence import Reading
from .family import DOUBLE, LeafFamily, pick
from .intervals import interval_moments, log_interval_mass, sample_intervals

MIN_STD = 0.01
NARROW = {torch.float32: 1e-3, torch.float64: 1e-7}  # cells of normal scores in which a density is as good as constant
QUANTILES = 400
FARTHEST = 40.0  # normal scores beyond have no mass


@dataclass(frozen=True)
class Numeric(LeafFamily):
    """The numbers of a column with its own scale: the family of the numeric columns of tables.

    The first `members` distributions are normal in the scores z of the scale, each further one is a point mass:

        p_j(cell) = Phi((z_high - mean_j) / std_j) - Phi((z_low - mean_j) / std_j),   std = min_std + exp(raw)
        p_i(cell) = 1 if the cell holds point i, else 0

    The density of a recorded number is the probability of its cell, divided by the width of the cell. That of a
    continuous number is N(z | mean_j, std_j^2) dz/dx, or the probability of a point mass.

    Arguments:
        scale: The scale of the column.
        members: The number of normal distributions.
        has_missing: Whether "missing" is one more point mass, the last one; in rows it is inf.
    """

    scale: Scale
    members: int = 32
    has_missing: bool = False
    is_discrete = False
    is_prepared = True
    num_parameters = 2

    def __post_init__(self) -> None:
        whole("members", self.members)
        if isinstance(self.scale, Mapping):
            object.__setattr__(self, "scale", Scale(**self.scale))

    @property
    def points(self) -> tuple[float, ...]:
        return self.scale.points + ((inf,) if self.has_missing else ())

    @property
    def width(self) -> int:
        return self.members + len(self.points)

    def nearest_members(self, x: np.ndarray, means: np.ndarray) -> np.ndarray:
        """The distribution that each number is likeliest from: its point mass, or that with the nearest mean; -1 for NaN."""
        scores = self.scale.scores(np.where(np.isfinite(x), x, self.scale.knots[0]))
        nearest = np.abs(scores[:, None] - means).argmin(1)
        for index, point in enumerate(self.points):
            nearest[x == point] = self.members + index
        return np.where(np.isnan(x), -1, nearest)

    def kin(self) -> Hashable:
        return Numeric, self.members

    @staticmethod
    def join(families: Sequence[LeafFamily]) -> LeafFamily:
        return NumericColumns([family for family in families if isinstance(family, Numeric)])


class NumericColumns(LeafFamily):
    """Several columns of numbers together, each with its own scale (see `Numeric`)."""

    is_discrete = False
    is_prepared = True
    num_parameters = 2

    def __init__(self, families: Sequence[Numeric]) -> None:
        self.families = families
        self.members = families[0].members
        self.num_points = max(len(family.points) for family in families)
        points = [(*family.points, *[np.nan] * (self.num_points - len(family.points))) for family in families]
        self.points = torch.from_numpy(np.array(points, np.float64))  # (variables, points)
        units = torch.from_numpy(np.array([_log_unit(family.scale) for family in families], np.float64))
        self.units = torch.where(self.points == inf, 0.0, units[:, None])  # (variables, points)

    @property
    def width(self) -> int:
        return self.members + self.num_points

    def initial(self, variables: int) -> Tensor:
        """Means at equal steps of probability, each as wide as it is far from the next."""
        means = torch.special.ndtri((torch.arange(self.members) + 0.5) / self.members)
        steps = means.diff() if self.members > 1 else torch.ones(1)
        widths = torch.maximum(torch.cat([steps, steps[-1:]]), torch.cat([steps[:1], steps]))
        return torch.stack([means, (widths - MIN_STD).clamp(min=0.1).log()], -1).repeat(variables, 1, 1)

    def misfits(self, x: Tensor) -> Tensor:
        allowed = torch.tensor([family.has_missing for family in self.families], device=x.device)
        return (x == -torch.inf) | ((x == torch.inf) & ~allowed)

    def support(self) -> str:
        return "a finite number"

    def read(self, x: Tensor, dtype: torch.dtype) -> Reading:
        """The ends of the cells' normal scores, what to add to the log-masses, and the point masses, all (batch, variables).

        Where both ends are the same, the density of this score counts in place of a mass.
        """
        columns = [_cells(family, x[:, v].cpu().numpy(), NARROW[dtype]) for v, family in enumerate(self.families)]
        *scores, point = (torch.from_numpy(np.stack(parts, 1)).to(x.device) for parts in zip(*columns, strict=True))
        return *(part.to(dtype) for part in scores), point

    def log_prob(self, parameters: Tensor, x: Reading) -> Tensor:  # type: ignore[override]
        low, high, offset, point = x
        low, high, offset = (part.to(parameters)[..., None] for part in (low, high, offset))  # (batch, variables, 1)
        mean, std = self._normal(parameters)
        is_point_only = low.isnan()
        low, high = low.nan_to_num(nan=0.0), high.nan_to_num(nan=0.0)
        is_density = low == high
        z = (torch.where(is_density, low, 0) - mean) / std
        density = -0.5 * z.square() - std.log() - 0.5 * log(2 * pi)
        if not is_density.all():
            below, above = ((ends.masked_fill(is_density, 0) - mean) / std for ends in (low, high))
            density = torch.where(is_density, density, log_interval_mass(below, above))
        density = torch.where(is_point_only, -torch.inf, density + offset)
        is_point = point[..., None] == torch.arange(self.num_points, device=point.device)
        points = torch.where(is_point, self.units.to(parameters), -torch.inf)  # (batch, variables, points)
        return torch.cat([density, points], -1)

    def log_prob_by_value(self, parameters: Tensor, x: Reading, values: Tensor) -> Tensor:
        columns = []
        for v, family in enumerate(self.families):
            levels, places = values[:, v].unique(return_inverse=True)
            rows = places.new_empty(len(levels)).scatter_(0, places, torch.arange(len(places), device=places.device))
            reading = tuple(part[rows, v : v + 1] for part in x)
            log_p = NumericColumns([family]).log_prob(parameters[v : v + 1], reading)[:, 0]  # (levels, l)
            columns.append(functional.pad(log_p, (0, self.width - log_p.shape[1]), value=-torch.inf)[places])
        return torch.stack(columns, 1)

    def read_events(self, events: Tensor) -> Reading:
        """The ends of intervals of normal scores, (batch, variables, intervals), and the points in them, (..., points)."""
        low, high = events.unbind(-1)
        scores = [torch.empty_like(low), torch.empty_like(high)]
        for target, ends in zip(scores, (low, high), strict=True):
            for v, family in enumerate(self.families):
                target[:, v] = torch.from_numpy(family.scale.scores(ends[:, v].cpu().numpy()))
        points = self.points[:, None]  # (variables, 1, points)
        inside = (low[..., None] <= points) & (
            (points < high[..., None]) | ((points == low[..., None]) & low[..., None].isinf())
        )
        return scores[0], scores[1], inside.any(2)

    def log_mass(self, parameters: Tensor, events: Reading) -> Tensor:
        low, high, inside = events
        mean, std = self._normal(parameters.double())
        below, above = ((ends[:, :, None] - mean[..., None]) / std[..., None] for ends in (low, high))
        masses = log_interval_mass(below, above).logsumexp(-1)  # (batch, variables, members)
        return torch.cat([masses, inside.double().log()], -1).to(parameters.dtype)

    def sample(self, parameters: Tensor, members: Tensor, generator: Generator | None) -> Tensor:
        mean, std = (pick(part.double(), members.clamp(max=self.members - 1)) for part in self._normal(parameters))
        noise = torch.randn(mean.shape, dtype=torch.float64, device=mean.device, generator=generator)
        return self._numbers(members, mean + std * noise)

    def sample_within(
        self, parameters: Tensor, members: Tensor, events: Reading, generator: Generator | None
    ) -> Tensor:
        low, high, _ = events
        mean, std = (pick(part.double(), members.clamp(max=self.members - 1)) for part in self._normal(parameters))
        return self._numbers(members, sample_intervals(mean, std, low, high, generator))

    def moments(self, parameters: Tensor) -> tuple[Tensor, Tensor]:
        """By quadrature: averages over equal steps of probability."""
        mean, std = self._normal(parameters.double())
        levels = torch.special.ndtri((torch.arange(QUANTILES, dtype=torch.float64) + 0.5) / QUANTILES)
        scores = mean[..., None] + std[..., None] * levels  # (variables, members, quantiles)
        numbers = torch.stack(
            [torch.from_numpy(f.scale.values(z)) for f, z in zip(self.families, scores.detach().numpy(), strict=True)]
        )
        points = self.points.masked_fill(~self.points.isfinite(), 0)
        means = torch.cat([numbers.mean(-1), points], -1)
        variances = torch.cat([numbers.var(-1, correction=0), torch.zeros_like(points)], -1)
        return means.to(parameters.device), variances.to(parameters.device)

    def modes(self, parameters: Tensor) -> Tensor:
        """The most probable among the numbers at the mean and at the knots of the scale."""
        mean, _ = self._normal(parameters.double())
        points = self.points.nan_to_num(nan=0.0)  # (variables, points)
        modes = []
        for v, family in enumerate(self.families):
            knots = np.asarray(family.scale.knots)
            candidates = np.concatenate([family.scale.values(mean[v].detach().numpy()), (knots[1:] + knots[:-1]) / 2])
            x = torch.from_numpy(family.scale.round(candidates))
            single = NumericColumns([family])
            densities = single.log_prob(parameters[v : v + 1].double(), single.read(x[:, None], torch.float64))[
                :, 0, : self.members
            ]
            modes.append(torch.cat([x[densities.argmax(0)], points[v]]))
        return torch.stack(modes)

    def expected_statistics(self, parameters: Tensor, x: Tensor | Reading) -> Tensor:
        """z and z^2, in expectation over the cell under each normal distribution: (batch, variables, members, 2)."""
        low, high = (ends.double()[..., None].nan_to_num() for ends in x[:2])
        mean, std = self._normal(parameters.double())
        first, second = interval_moments((low - mean) / std, (high - mean) / std)
        return torch.stack([mean + std * first, mean.square() + 2 * mean * std * first + std.square() * second], -1)

    def expectations(self, parameters: Tensor) -> Tensor:
        mean, std = self._normal(parameters)
        return torch.stack([mean, std.square() + mean.square()], -1)

    def fitted(self, expectations: Tensor) -> Tensor:
        mean, square = expectations.unbind(-1)
        std = (square - mean.square()).clamp(min=0).sqrt()
        return torch.stack([mean, (std - MIN_STD).clamp(DOUBLE.tiny).log()], -1)

    def guess(self, parameters: Tensor, posterior: Tensor) -> Tensor:
        mean = (posterior * self.moments(parameters)[0]).sum(-1)
        return torch.stack(
            [torch.from_numpy(f.scale.round(m.numpy())) for f, m in zip(self.families, mean.T, strict=True)], 1
        )

    def _normal(self, parameters: Tensor) -> tuple[Tensor, Tensor]:
        """Means and standard deviations, (variables, members)."""
        mean, raw = parameters.unbind(-1)
        return mean, MIN_STD + raw.exp()

    def _numbers(self, members: Tensor, scores: Tensor) -> Tensor:
        """The recorded numbers of normal scores, or of the chosen points, (batch, variables)."""
        columns = [f.scale.round(f.scale.values(z)) for f, z in zip(self.families, scores.T.cpu().numpy(), strict=True)]
        numbers = torch.from_numpy(np.stack(columns, 1)).to(scores.device)
        if not self.num_points:
            return numbers
        points = pick(self.points.to(scores.device), (members - self.members).clamp(min=0))
        return torch.where(members >= self.members, points, numbers)


def _log_unit(scale: Scale) -> float:
    """What turns the log-probability of a cell into a log-density."""
    return 0.0 if scale.decimals is None else -log(scale.width)


def _cells(family: Numeric, x: np.ndarray, narrow: float) -> tuple[Any, Any, Any, Any]:
    """Of one column: the ends of normal scores, NaN where there is no mass but a point's; offsets; the points."""
    scale, points = family.scale, np.asarray(family.points)
    point = np.full(len(x), -1)
    for index, value in enumerate(points):
        point[x == value] = index
    x = np.where(np.isfinite(x), x, np.median(scale.knots))
    low, high = (scale.scores(edge).clip(-FARTHEST, FARTHEST) for edge in scale.cells(x))
    if scale.decimals is None:
        offset = scale.log_slopes(x)
        low = high = np.where((point >= 0) | np.isinf(offset), np.nan, scale.scores(x))
    else:
        middle, is_narrow = 0.5 * (low + high), high - low < narrow
        with np.errstate(divide="ignore"):
            offset = np.where(is_narrow, np.log(np.where(is_narrow, high - low, 1)), 0) - log(scale.width)
        empty = ~(high > low)
        low, high = (np.where(empty, np.nan, np.where(is_narrow, middle, edge)) for edge in (low, high))
    is_missing = point == len(points) - 1 if family.has_missing else np.zeros(len(x), bool)
    low, high = np.where(is_missing, np.nan, low), np.where(is_missing, np.nan, high)
    return low, high, np.nan_to_num(offset, neginf=0.0), point
