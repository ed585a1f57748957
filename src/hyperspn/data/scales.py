"""Scales: what the numbers of a column are to a circuit, point masses and normal scores."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, isfinite

import numpy as np

from numpy.typing import ArrayLike, NDArray

FloatArray = NDArray[np.float64]

MOST_KNOTS = 200
POINT_SHARE, POINT_ROWS = 0.01, 20
MOST_DECIMALS = 6
OUTER = 0.01


@dataclass(frozen=True)
class Scale:
    """The scale of a numeric column, in the units of its table.

    Values that occur often are point masses. All others have normal scores,

        z = Phi^-1(F(x)),

    F piecewise linear between the knots, F(knots[i]) = (i + 1/2) / m, with exponential tails outside, which end at
    the bounds. A number that is recorded to d decimals stands for its cell, [x - 10^-d / 2, x + 10^-d / 2).

    Arguments:
        knots: Quantiles of the values that are no point masses, ascending.
        points: The point masses, ascending.
        tails: The scales of the lower and of the upper tail.
        smallest: The smallest training value.
        largest: The largest training value.
        lower: No value is smaller, if there is such a bound.
        upper: No value is larger, if there is such a bound.
        decimals: To how many decimals numbers are recorded; None if they are continuous.
    """

    knots: tuple[float, ...]
    points: tuple[float, ...] = ()
    tails: tuple[float, float] = (1.0, 1.0)
    smallest: float = -inf
    largest: float = inf
    lower: float | None = None
    upper: float | None = None
    decimals: int | None = None

    def __post_init__(self) -> None:
        for name in ("knots", "points", "tails"):  # JSON has lists
            object.__setattr__(self, name, tuple(float(value) for value in getattr(self, name)))
        numbers = [*self.knots, *self.points, *self.tails]
        ascending = all((np.diff(values) > 0).all() for values in (self.knots, self.points))
        if not self.knots or not ascending or not all(map(isfinite, numbers)) or min(self.tails) <= 0:
            raise ValueError("expected ascending knots and points, and tails > 0, found others")
        if self.decimals is not None and not 0 <= self.decimals <= MOST_DECIMALS:
            raise ValueError(f"expected decimals 0..{MOST_DECIMALS}, found {self.decimals}")
        first, last = self.ends
        if not first < self.knots[0] <= self.knots[-1] < last:
            raise ValueError(
                f"expected knots between {first:g} and {last:g}, found {self.knots[0]:g} to {self.knots[-1]:g}"
            )

    def __repr__(self) -> str:
        recorded = "continuous" if self.decimals is None else f"{self.decimals} decimals"
        return f"Scale({self.smallest:g} to {self.largest:g}, {recorded}, {len(self.points)} point masses)"

    @classmethod
    def fit(cls, values: ArrayLike, lower: float | None = None, upper: float | None = None) -> Scale:
        """The scale of training values, none of them unknown.

        Arguments:
            values: The values, (rows,).
            lower: A lower bound, if any (see `bounds_of`).
            upper: An upper bound, if any.
        """
        x = np.sort(np.asarray(values, np.float64))
        if len(x) == 0 or not np.isfinite(x).all():
            raise ValueError("expected finite numbers, at least one, found none or others")
        levels, _, counts = _runs(x)
        decimals = decimals_of(levels)
        points = levels[counts > max(POINT_SHARE * len(x), POINT_ROWS)]
        spread = _spread(x[~np.isin(x, points)], decimals)
        if len(spread) < 2:
            spread = _spread(x, decimals)
        knots = _knots(spread, _ends(lower, upper, decimals))
        return cls(tuple(knots), tuple(points), _tails(spread), float(x[0]), float(x[-1]), lower, upper, decimals)

    @property
    def width(self) -> float:
        """The width of a cell; 0 if numbers are continuous."""
        return 0.0 if self.decimals is None else 10.0**-self.decimals

    @property
    def ends(self) -> tuple[float, float]:
        """Where the support begins and ends."""
        return _ends(self.lower, self.upper, self.decimals)

    def cells(self, x: ArrayLike) -> tuple[FloatArray, FloatArray]:
        """The lower and upper edges of the cells of recorded values; the value itself twice if continuous."""
        values = np.asarray(x, np.float64)
        return values - self.width / 2, values + self.width / 2

    def round(self, x: ArrayLike) -> FloatArray:
        """The recorded values of numbers within the support."""
        values = np.asarray(x, np.float64)
        if self.decimals is not None:
            values = np.round(values, self.decimals) + 0.0  # without -0.0
        return np.clip(values, self.lower, self.upper) if (self.lower, self.upper) != (None, None) else values

    def scores(self, x: ArrayLike) -> FloatArray:
        """Normal scores; -inf and inf at the ends of the support and beyond."""
        from scipy.special import ndtri_exp

        below, above = self._log_levels(np.asarray(x, np.float64))
        return np.where(below < above, ndtri_exp(below), -ndtri_exp(above))

    def values(self, scores: ArrayLike) -> FloatArray:
        """The numbers that have these normal scores."""
        from scipy.special import log_ndtr, ndtr

        z, knots = np.asarray(scores, np.float64), np.asarray(self.knots)
        levels, (first, last) = self._levels, self.ends
        x = np.interp(ndtr(z), levels, knots)
        left, right = self.tails
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            low = _inverse_tail(log_ndtr(z) - np.log(levels[0]), left, knots[0] - first)
            high = _inverse_tail(log_ndtr(-z) - np.log(levels[0]), right, last - knots[-1])
        x = np.where(ndtr(z) < levels[0], knots[0] - low, x)
        return np.where(ndtr(-z) < levels[0], knots[-1] + high, x)

    def bins(self, x: ArrayLike, count: int = 16) -> NDArray[np.int64]:
        """The number of the point mass of each value, or after those of its interval of equal probability; -1 for NaN."""
        values = np.asarray(x, np.float64)
        known = np.where(np.isfinite(values), values, self.knots[0])
        levels = np.searchsorted(self.values(_normal_quantiles(count)), known, side="right")
        point = np.searchsorted(self.points, known).clip(max=max(len(self.points) - 1, 0))
        is_point = np.isin(known, self.points)
        codes = np.where(is_point, point, len(self.points) + levels)
        codes = np.where(np.isinf(values), len(self.points) + count, codes)
        return np.where(np.isnan(values), -1, codes)

    def log_slopes(self, x: ArrayLike) -> FloatArray:
        """log dz/dx, which turns densities of normal scores into densities of numbers."""
        values, knots, levels = np.asarray(x, np.float64), np.asarray(self.knots), self._levels
        slopes = np.diff(levels) / np.diff(knots) if len(knots) > 1 else np.array([1.0])
        piece = np.clip(np.searchsorted(knots, values, side="right") - 1, 0, len(slopes) - 1)
        below, above = self._log_levels(values)
        first, last = self.ends
        log_slope = np.log(slopes)[piece]
        for inside, tail, reach in (
            (knots[0] - values, self.tails[0], knots[0] - first),
            (values - knots[-1], self.tails[1], last - knots[-1]),
        ):
            density = np.log(levels[0]) - inside / tail - np.log(tail) - np.log(-np.expm1(-reach / tail))
            log_slope = np.where(inside > 0, density, log_slope)
        with np.errstate(invalid="ignore"):
            scores = self.scores(values)
            outside = np.isinf(below) | np.isinf(above)
            return np.where(outside, -inf, log_slope + 0.5 * scores**2 + 0.5 * np.log(2 * np.pi))

    @property
    def _levels(self) -> FloatArray:
        return (np.arange(len(self.knots)) + 0.5) / len(self.knots)

    def _log_levels(self, x: FloatArray) -> tuple[FloatArray, FloatArray]:
        """log F(x) and log(1 - F(x))."""
        knots, levels, (first, last) = np.asarray(self.knots), self._levels, self.ends
        level = np.interp(x, knots, levels)
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            low = np.log(levels[0]) + _log_tail(knots[0] - x, self.tails[0], knots[0] - first)
            high = np.log(levels[0]) + _log_tail(x - knots[-1], self.tails[1], last - knots[-1])
            below = np.where(x < knots[0], low, np.where(x > knots[-1], np.log1p(-np.exp(high)), np.log(level)))
            above = np.where(x > knots[-1], high, np.where(x < knots[0], np.log1p(-np.exp(low)), np.log1p(-level)))
        return below, above


def decimals_of(values: FloatArray) -> int | None:
    """The fewest decimals that all numbers can be written with, if not too many."""
    with np.errstate(over="ignore"):
        exact = (d for d in range(MOST_DECIMALS + 1) if (np.round(values, d) == values).all())
        return next(exact, None)


def bounds_of(values: FloatArray) -> tuple[float | None, float | None]:
    """The bounds that training values suggest: 0 below if none is negative, 1 or 100 above if reached and not exceeded."""
    largest = float(values.max())
    return (0.0 if values.min() >= 0 else None), (largest if largest in (1.0, 100.0) else None)


def _normal_quantiles(count: int) -> FloatArray:
    """Normal scores between which there is equal probability, (count - 1,)."""
    from scipy.special import ndtri

    return ndtri(np.arange(1, count) / count)


def _ends(lower: float | None, upper: float | None, decimals: int | None) -> tuple[float, float]:
    half = 0.0 if decimals is None else 0.5 * 10.0**-decimals
    return (-inf if lower is None else lower - half), (inf if upper is None else upper + half)


def _runs(x: FloatArray) -> tuple[FloatArray, NDArray[np.intp], NDArray[np.intp]]:
    """The different values of numbers in ascending order, where each begins, and how often it occurs."""
    first = np.flatnonzero(np.append(True, x[1:] != x[:-1])[: len(x)])
    return x[first], first, np.diff(np.append(first, len(x)))


def _spread(x: FloatArray, decimals: int | None) -> FloatArray:
    """Recorded values spread evenly over their cells, in ascending order."""
    if decimals is None:
        return x
    levels, first, counts = _runs(x)
    place = (np.arange(len(x)) - np.repeat(first, counts) + 0.5) / np.repeat(counts, counts)
    return np.repeat(levels, counts) + (place - 0.5) * 10.0**-decimals


def _knots(x: FloatArray, ends: tuple[float, float]) -> FloatArray:
    """Quantiles at the levels (i + 1/2) / m: fewer where some coincide."""
    x = x[(x > ends[0]) & (x < ends[1])] if len(x) > 1 else x
    for count in range(min(MOST_KNOTS, len(x)), 1, -1):
        knots = np.quantile(x, (np.arange(count) + 0.5) / count)
        if (np.diff(knots) > 0).all():
            return knots
    middle = float(np.median(x)) if len(x) else float(np.mean(np.clip(ends, -1e300, 1e300)))
    return np.array([middle])


def _tails(x: FloatArray) -> tuple[float, float]:
    """The mean distance of the outer values from the quantiles inside which they are not."""
    low, high = np.quantile(x, [OUTER, 1 - OUTER])
    least = max(1e-9, 1e-6 * float(np.abs(x).max()))
    return max(float(np.mean(low - x[x <= low])), least), max(float(np.mean(x[x >= high] - high)), least)


def _log_tail(distance: FloatArray, tail: float, reach: float) -> FloatArray:
    """log of the part of a tail, exponential and cut off at `reach`, beyond a distance from the outer knot."""
    if not isfinite(reach):
        return -distance / tail
    beyond = np.where(distance < reach, -np.expm1(-(reach - distance) / tail), 0.0)
    return -distance / tail + np.log(beyond) - np.log(-np.expm1(-reach / tail))


def _inverse_tail(log_part: FloatArray, tail: float, reach: float) -> FloatArray:
    """The distance beyond which there is this part of a tail."""
    end = np.exp(-reach / tail)
    return np.minimum(-tail * np.log(end + (1 - end) * np.exp(log_part)), reach)
