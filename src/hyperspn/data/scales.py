"""Scales: what the numbers of a column are to a circuit, point masses and normal scores."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, isfinite
from typing import NamedTuple

import numpy as np

from numpy.typing import ArrayLike, NDArray

FloatArray = NDArray[np.float64]

MOST_KNOTS = 200
POINT_SHARE, POINT_ROWS, POINT_RATIO = 0.01, 20, 3.0
MOST_DECIMALS, ODD_SHARE = 6, 1e-3
MOST_HEAPS, HEAP_ROWS, HEAP_RATIO, NEIGHBORS = 500, 5, 4.0, 6
INSIDE = 0.499  # of a cell on each side of a heap: cells that touch have edges of their own
OUTER = 0.01


class Counted(NamedTuple):
    """The different numbers of a column in ascending order, and how often each occurs."""

    values: FloatArray
    counts: NDArray[np.int64]

    @property
    def total(self) -> int:
        return int(self.counts.sum())

    def rows(self) -> FloatArray:
        """The number of each row, in ascending order."""
        return np.repeat(self.values, self.counts)

    def where(self, chosen: NDArray[np.bool_]) -> Counted:
        return Counted(self.values[chosen], self.counts[chosen])


@dataclass(frozen=True)
class Scale:
    """The scale of a numeric column, in the units of its table.

    Values that occur often are point masses. All others have normal scores,

        z = Phi^-1(F(x)),

    F piecewise linear between the knots, F(knots[i]) = levels[i], with exponential tails outside, which end at the
    bounds. A number that is recorded to d decimals stands for its cell, [x - 10^-d / 2, x + 10^-d / 2). Recorded values
    that are much more frequent than their neighbors are heaps: F is steep in their cells.

    Arguments:
        knots: Quantiles of the values that are no point masses, and the edges of heaps, ascending.
        points: The point masses, ascending.
        tails: The scales of the lower and of the upper tail.
        smallest: The smallest training value.
        largest: The largest training value.
        lower: No value is smaller, if there is such a bound.
        upper: No value is larger, if there is such a bound.
        decimals: To how many decimals numbers are recorded; None if they are continuous.
        levels: The values of F at the knots; (i + 1/2) / m if none are given.
        has_odd: Whether a few training values have more decimals; they stand for cells of the same width.
    """

    knots: tuple[float, ...]
    points: tuple[float, ...] = ()
    tails: tuple[float, float] = (1.0, 1.0)
    smallest: float = -inf
    largest: float = inf
    lower: float | None = None
    upper: float | None = None
    decimals: int | None = None
    levels: tuple[float, ...] = ()
    has_odd: bool = False

    def __post_init__(self) -> None:
        for name in ("knots", "points", "tails", "levels"):  # JSON has lists
            object.__setattr__(self, name, tuple(float(value) for value in getattr(self, name)))
        numbers = [*self.knots, *self.points, *self.tails]
        ascending = all((np.diff(values) > 0).all() for values in (self.knots, self.points))
        if not self.knots or not ascending or not all(map(isfinite, numbers)) or min(self.tails) <= 0:
            raise ValueError("expected ascending knots and points, and tails > 0, found others")
        if not (np.diff([0, *self._levels, 1]) > 0).all() or len(self._levels) != len(self.knots):
            raise ValueError("expected an ascending level between 0 and 1 of each knot, found others")
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
        return cls.fit_counts(count_numbers(np.asarray(values, np.float64)), lower, upper)

    @classmethod
    def fit_counts(cls, counted: Counted, lower: float | None = None, upper: float | None = None) -> Scale:
        """The scale of training values that are counted (see `fit`)."""
        x = counted.values
        if len(x) == 0 or not np.isfinite(x).all():
            raise ValueError("expected finite numbers, at least one, found none or others")
        points = _points(counted)
        rest = counted.where(~np.isin(x, points))
        rest = rest if rest.total > 1 else counted
        decimals = decimals_of(counted)
        knots, levels = _distribution(rest, _heaps(counted, decimals), decimals, _ends(lower, upper, decimals))
        facts = (float(x[0]), float(x[-1]), lower, upper, decimals)
        has_odd = decimals is not None and bool((np.round(x, decimals) != x).any())
        return cls(tuple(knots), tuple(points), _tails(rest.rows()), *facts, tuple(levels), has_odd)

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
            high = _inverse_tail(log_ndtr(-z) - np.log1p(-levels[-1]), right, last - knots[-1])
        x = np.where(ndtr(z) < levels[0], knots[0] - low, x)
        return np.where(ndtr(-z) < 1 - levels[-1], knots[-1] + high, x)

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
        for inside, mass, tail, reach in (
            (knots[0] - values, levels[0], self.tails[0], knots[0] - first),
            (values - knots[-1], 1 - levels[-1], self.tails[1], last - knots[-1]),
        ):
            density = np.log(mass) - inside / tail - np.log(tail) - np.log(-np.expm1(-reach / tail))
            log_slope = np.where(inside > 0, density, log_slope)
        with np.errstate(invalid="ignore"):
            scores = self.scores(values)
            outside = np.isinf(below) | np.isinf(above)
            return np.where(outside, -inf, log_slope + 0.5 * scores**2 + 0.5 * np.log(2 * np.pi))

    @property
    def _levels(self) -> FloatArray:
        return np.asarray(self.levels) if self.levels else _even_levels(len(self.knots))

    def _log_levels(self, x: FloatArray) -> tuple[FloatArray, FloatArray]:
        """log F(x) and log(1 - F(x))."""
        knots, levels, (first, last) = np.asarray(self.knots), self._levels, self.ends
        level = np.interp(x, knots, levels)
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            low = np.log(levels[0]) + _log_tail(knots[0] - x, self.tails[0], knots[0] - first)
            high = np.log1p(-levels[-1]) + _log_tail(x - knots[-1], self.tails[1], last - knots[-1])
            below = np.where(x < knots[0], low, np.where(x > knots[-1], np.log1p(-np.exp(high)), np.log(level)))
            above = np.where(x > knots[-1], high, np.where(x < knots[0], np.log1p(-np.exp(low)), np.log1p(-level)))
        return below, above


def count_numbers(numbers: FloatArray) -> Counted:
    """The numbers, counted: this is faster than to sort them."""
    import pyarrow as pa

    values, counts = (field.to_numpy() for field in pa.array(numbers + 0.0).value_counts().flatten())  # without -0.0
    order = values.argsort()
    return Counted(values[order], counts[order])


def decimals_of(counted: Counted) -> int | None:
    """The fewest decimals that all numbers but one in a thousand can be written with.

    Nothing if these are too many, or if float64 cannot tell the edges of a cell from a number as large as the largest.
    """
    values, counts = counted
    odd = int(ODD_SHARE * counted.total)
    finest = 2 * np.spacing(np.abs(values).max())
    with np.errstate(over="ignore"):
        enough = (d for d in range(MOST_DECIMALS + 1) if counts[np.round(values, d) != values].sum() <= odd)
        decimals = next(enough, None)
    return None if decimals is None or 10.0**-decimals < finest else decimals


def bounds_of(counted: Counted) -> tuple[float | None, float | None]:
    """The bounds that training values suggest: 0 below if none is negative, above the largest if it is a cap.

    That is a point mass; or 1 or 100, but not where numbers are continuous: the density at the bound would be 0.
    """
    smallest, largest = counted.values[[0, -1]].tolist()
    is_cap = largest in _points(counted) or (largest in (1.0, 100.0) and decimals_of(counted) is not None)
    return (0.0 if smallest >= 0 else None), (largest if is_cap else None)


def _normal_quantiles(count: int) -> FloatArray:
    """Normal scores between which there is equal probability, (count - 1,)."""
    from scipy.special import ndtri

    return ndtri(np.arange(1, count) / count)


def _ends(lower: float | None, upper: float | None, decimals: int | None) -> tuple[float, float]:
    half = 0.0 if decimals is None else 0.5 * 10.0**-decimals
    return (-inf if lower is None else lower - half), (inf if upper is None else upper + half)


def _spread(counted: Counted, decimals: int | None) -> FloatArray:
    """Recorded values spread evenly over their cells, in ascending order."""
    counts, rows = counted.counts, counted.rows()
    if decimals is None:
        return rows
    first = np.cumsum(counts) - counts
    place = (np.arange(len(rows)) - np.repeat(first, counts) + 0.5) / np.repeat(counts, counts)
    return rows + (place - 0.5) * 10.0**-decimals


def _knots(x: FloatArray, ends: tuple[float, float]) -> FloatArray:
    """Quantiles at the levels (i + 1/2) / m: fewer where some coincide."""
    x = x[(x > ends[0]) & (x < ends[1])] if len(x) > 1 else x
    for count in range(min(MOST_KNOTS, len(x)), 1, -1):
        knots = np.quantile(x, _even_levels(count))
        if (np.diff(knots) > 0).all():
            return knots
    middle = float(np.median(x)) if len(x) else float(np.mean(np.clip(ends, -1e300, 1e300)))
    return np.array([middle])


def _even_levels(count: int) -> FloatArray:
    return (np.arange(count) + 0.5) / count


def _points(counted: Counted) -> FloatArray:
    """Frequent values, each much more so than the different values next to it, ascending."""
    values, counts = counted
    around = np.pad(counts.astype(np.float64), NEIGHBORS, constant_values=np.nan)
    windows = np.lib.stride_tricks.sliding_window_view(around, 2 * NEIGHBORS + 1)
    often = np.flatnonzero(counts > max(POINT_SHARE * counted.total, POINT_ROWS))
    usual = np.nanmedian(windows[often], axis=1)
    return values[often[counts[often] > POINT_RATIO * usual]]


def _heaps(counted: Counted, decimals: int | None) -> FloatArray:
    """Recorded values that are much more frequent than the density of their neighbors suggests, ascending."""
    values, counts = counted
    if decimals is None or len(values) < 2:
        return np.zeros(0)
    total = np.append(0, np.cumsum(counts))
    first = np.maximum(np.arange(len(values)) - NEIGHBORS, 0)
    last = np.minimum(np.arange(len(values)) + NEIGHBORS, len(values) - 1)
    expected = (total[last + 1] - total[first] - counts) / (values[last] - values[first]) * 10.0**-decimals
    often = np.flatnonzero((counts >= HEAP_ROWS) & (counts > HEAP_RATIO * expected))
    return values[np.sort(often[np.argsort(-counts[often], kind="stable")[:MOST_HEAPS]])]


def _distribution(
    counted: Counted, heaps: FloatArray, decimals: int | None, ends: tuple[float, float]
) -> tuple[FloatArray, FloatArray]:
    """The knots of the distribution function of values, and its levels there if these are not even."""
    is_heap = np.isin(counted.values, heaps)
    rest = counted.where(~is_heap)
    knots = _knots(_spread(rest if rest.total > 1 else counted, decimals), ends)
    if decimals is None or not is_heap.any():
        return knots, np.zeros(0)
    values, counts = counted.where(is_heap)
    shares = counts / (counted.total + 1)
    edges = (values[:, None] + 10.0**-decimals * np.array([-INSIDE, INSIDE])).ravel()
    smooth, levels = knots, _even_levels(len(knots))
    if edges[0] < knots[0]:
        smooth, levels = np.append(edges[0], smooth), np.append(levels[0] / 2, levels)
    if edges[-1] > knots[-1]:
        smooth, levels = np.append(smooth, edges[-1]), np.append(levels, (1 + levels[-1]) / 2)
    reached = np.repeat(np.cumsum(shares), 2)
    reached[::2] -= shares
    knots = np.union1d(smooth, edges)
    return knots, (1 - shares.sum()) * np.interp(knots, smooth, levels) + np.interp(knots, edges, reached)


def _tails(x: FloatArray) -> tuple[float, float]:
    """The mean distance of the outer values from the next ones inside."""
    low, high = np.quantile(x, [OUTER, 1 - OUTER])
    least = 1e-6 * float(np.abs(x).max()) or 1e-9
    above, below = x[x > low].min(initial=x[-1]), x[x < high].max(initial=x[0])
    return max(float(np.mean(above - x[x <= low])), least), max(float(np.mean(x[x >= high] - below)), least)


def _log_tail(distance: FloatArray, tail: float, reach: float) -> FloatArray:
    """log of the part of a tail, exponential and cut off at `reach`, beyond a distance from the outer knot."""
    if not isfinite(reach):
        return -distance / tail
    beyond = np.where(distance < reach, -np.expm1(-(reach - distance) / tail), 0.0)
    return -distance / tail + np.log(beyond) - np.log(-np.expm1(-reach / tail))


def _inverse_tail(log_part: FloatArray, tail: float, reach: float) -> FloatArray:
    """The distance beyond which there is this part of a tail."""
    end = -reach / tail
    return np.minimum(-tail * np.logaddexp(end, np.log1p(-np.exp(end)) + log_part), reach)
