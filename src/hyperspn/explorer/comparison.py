"""Comparison: real rows beside sampled ones, column by column and in pairs."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

import numpy as np

from numpy.typing import NDArray

from ..data import Column, Schema

FloatArray = NDArray[np.float64]

BINS, PAIR_BINS = 24, 10
SPIKE, MOST_SPIKES = 0.1, 4
TOP = 8
SKEWED = 20


@dataclass(frozen=True)
class ColumnComparison:
    """The shares of the values of a column, among real and sampled rows.

    Arguments:
        column: The column.
        labels: What the shares are of: categories or single values, then bins of numbers, named where they begin.
        real: The real shares, (labels,).
        sampled: The sampled shares, (labels,).
        spikes: How many of the labels stand for single values.
        rows: How many real and how many sampled rows there are.
    """

    column: Column
    labels: tuple[str, ...]
    real: FloatArray
    sampled: FloatArray
    spikes: int
    rows: tuple[int, int]

    @property
    def difference(self) -> float:
        """The total variation distance: the share of rows that would have to change."""
        return float(np.abs(self.real - self.sampled).sum() / 2)

    @property
    def chance(self) -> float:
        """The difference to be expected of two samples of one distribution: half the sum of mean absolute deviations."""
        variance = self.real * (1 - self.real) * sum(1 / max(count, 1) for count in self.rows)
        return float(np.sqrt(2 / np.pi * variance).sum() / 2)


def compare_columns(schema: Schema, real: FloatArray, sampled: FloatArray) -> list[ColumnComparison]:
    """Each column of real and of sampled rows, both encoded, (rows, variables)."""
    return [
        (_compare_numbers if column.is_numeric else _compare_categories)(column, real[:, v], sampled[:, v])
        for v, column in enumerate(schema.columns)
    ]


def dependence(schema: Schema, x: FloatArray, like: FloatArray) -> FloatArray:
    """How much pairs of columns depend on each other, (columns, columns): 0 not at all, 1 as much as is possible.

        2 I(a; b) / (H(a) + H(b))

    Numbers are in ten intervals between quantiles of the rows `like`.
    """
    codes = [_codes(column, x[:, v], like[:, v]) for v, column in enumerate(schema.columns)]
    matrix = np.zeros((len(codes), len(codes)))
    entropies = [_entropy(code) for code in codes]
    for i, first in enumerate(codes):
        for j, second in enumerate(codes[:i]):
            total = entropies[i] + entropies[j]
            both = _entropy(first * (int(second.max()) + 1) + second)
            matrix[i, j] = matrix[j, i] = max(0.0, 2 * (total - both) / total) if total > 0 else 0.0
    return matrix


def _compare_categories(column: Column, real: FloatArray, sampled: FloatArray) -> ColumnComparison:
    shares = [_shares(values[np.isfinite(values)].astype(int), column.size) for values in (real, sampled)]
    order = np.argsort(-shares[0], kind="stable")
    kept = order[:TOP] if len(order) > TOP + 1 else order
    labels = [str(column.labels[code]) for code in kept]
    rest = np.setdiff1d(order, kept)
    if len(rest):
        labels.append(f"{len(rest)} others")
        shares = [np.append(share[kept], share[rest].sum()) for share in shares]
    else:
        shares = [share[kept] for share in shares]
    return ColumnComparison(column, tuple(labels), shares[0], shares[1], len(labels), (len(real), len(sampled)))


def _compare_numbers(column: Column, real: FloatArray, sampled: FloatArray) -> ColumnComparison:
    points = _spikes(column, real, sampled)
    rest = real[np.isfinite(real) & ~np.isin(real, points)]
    edges = _bins(rest) if len(rest) else np.zeros(0)
    shares = []
    for values in (real, sampled):
        known = values[~np.isnan(values)]
        single = [np.mean(known == point) if len(known) else 0.0 for point in points]
        bins = np.searchsorted(edges[1:-1], known[np.isfinite(known) & ~np.isin(known, points)], side="right")
        counts = np.bincount(bins, minlength=max(len(edges) - 1, 0))[: max(len(edges) - 1, 0)]
        shares.append(np.append(single, counts / max(len(known), 1)))
    labels = [_label(column, point) for point in points]
    named = {0, (len(edges) - 1) // 2, len(edges) - 2}
    labels += [_label(column, edge) if i in named else "" for i, edge in enumerate(edges[:-1])]
    return ColumnComparison(column, tuple(labels), shares[0], shares[1], len(points), (len(real), len(sampled)))


def _spikes(column: Column, real: FloatArray, sampled: FloatArray) -> list[float]:
    """Values that are frequent, and "missing" as inf where it is data: at most so many that each can be seen."""
    points = [] if column.scale is None else list(column.scale.points)
    frequent = [point for point in points if max(np.mean(real == point), np.mean(sampled == point)) >= SPIKE]
    missing = [inf] if column.missing_as_data else []
    return sorted(sorted(frequent, key=lambda point: -np.mean(real == point))[:MOST_SPIKES]) + missing


def _bins(values: FloatArray) -> FloatArray:
    """Edges between the outer hundredths: equally far from each other, or by equal factors where most values are small."""
    low, middle, high = np.quantile(values, [0.01, 0.5, 0.99])
    if high <= low:
        return np.array([low - 0.5, low + 0.5])
    if low > 0 and high - low > SKEWED * (middle - low):
        return np.geomspace(low, high, BINS + 1)
    if np.all(values == np.round(values)) and high - low < BINS:
        return np.arange(np.floor(low), np.ceil(high) + 2)
    return np.linspace(low, high, BINS + 1)


def _label(column: Column, number: float) -> str:
    if number == inf:
        return "missing"
    value = column.decode(np.array([number]))[0].as_py()
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _codes(column: Column, values: FloatArray, like: FloatArray) -> NDArray[np.int64]:
    """Categories or bins, with one more for holes, (rows,)."""
    if not column.is_numeric:
        return np.where(np.isnan(values), column.size, np.nan_to_num(values)).astype(np.int64)
    known = like[np.isfinite(like)]
    edges = np.unique(np.quantile(known, np.arange(1, PAIR_BINS) / PAIR_BINS)) if len(known) else np.zeros(0)
    codes = np.searchsorted(edges, np.where(np.isfinite(values), values, 0), side="right")
    return np.where(np.isfinite(values), codes, len(edges) + 1).astype(np.int64)


def _shares(codes: NDArray[np.int_], size: int) -> FloatArray:
    return np.bincount(codes, minlength=size) / max(len(codes), 1)


def _entropy(codes: NDArray[np.int64]) -> float:
    counts = np.unique(codes, return_counts=True)[1]
    p = counts / counts.sum()
    return float(-(p * np.log(p)).sum())
