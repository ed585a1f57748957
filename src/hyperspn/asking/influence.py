"""Influence: how much a column would tell about another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import Any

import numpy as np

from ..data import Column
from ..data.events import Known, intersect
from .numbers import interval_masses
from .reading import FloatArray, Given, Model, known_of, log_prob, log_prob_of_possible, posteriors, width_of

BINS = 20


@dataclass(frozen=True)
class Influence:
    """How much each column would tell about a target, given what is known.

    Arguments:
        target: The name of the target.
        entropy: What is not known of the target, in bits.
        bits: The mutual information of each other column with the target, the largest first.
        known: The columns of which something is known.
    """

    target: str
    entropy: float
    bits: dict[str, float]
    known: tuple[str, ...] = ()

    @property
    def next(self) -> str | None:
        """The most informative column of which nothing is known yet."""
        return next((name for name in self.bits if name not in self.known), None)

    def to_dict(self) -> dict[str, Any]:
        return {"target": self.target, "entropy": self.entropy, "bits": self.bits, "next": self.next}


def influence(model: Model, target: str, given: Given = None) -> Influence:
    """The mutual information of every column with a target given evidence, in bits.

        I(T; C | e) = sum_t P(t | e) sum_c P(c | t, e) log2(P(c | t, e) / P(c | e))

    The values t and c are categories; of numbers, their point masses and 20 intervals between quantiles of the others.
    For each t, one upward and one downward pass give P(c | t, e) of all columns.
    """
    schema, variable, known = model.schema, model.schema.index(target), known_of(model.schema, given)
    if variable in known and known[variable].value is not None:
        raise ValueError(f"expected a target that is not known, found column {target!r} among what is given")
    log_given = log_prob_of_possible(model, known)
    rows = [{**known, variable: intersect(part, known.get(variable))} for part in parts_of(schema.columns[variable])]
    p = np.exp(log_prob(model, *rows) - log_given)  # (parts,)
    posterior = posteriors(model, *(row for row, chance in zip(rows, p, strict=True) if chance > 0)).double().numpy()
    weights = p[p > 0] / p.sum()
    bits = {}
    for other, column in enumerate(schema.columns):
        if other != variable:
            shares = _shares(model, other, known.get(other))  # (l, parts)
            bits[column.name] = _information(weights, posterior[:, other, : len(shares)] @ shares)
    ranked = dict(sorted(bits.items(), key=lambda entry: -entry[1]))
    return Influence(target, _entropy(weights), ranked, tuple(schema.names[v] for v in known))


def parts_of(column: Column) -> list[Known]:
    """Disjoint events that are a whole column: categories, or point masses and intervals of numbers; and "missing"."""
    if not column.is_numeric:
        return [Known(event=one) for one in np.eye(column.size)]
    points, limits = _points(column), _limits(column)
    edges = np.unique([-inf, *points.ravel(), *limits, inf])
    low, high = edges[:-1], edges[1:]
    place = np.searchsorted(limits, low, side="right")
    for index, (first, last) in enumerate(points):
        place[(first <= low) & (high <= last)] = len(limits) + 1 + index
    intervals = [np.stack([low, high], 1)[place == part] for part in np.unique(place)]
    missing = [np.array([[inf, inf]])] if column.missing_as_data else []
    return [Known(event=part) for part in (*intervals, *missing)]


def _points(column: Column) -> FloatArray:
    """The cells of the point masses, (points, 2)."""
    points = np.array(() if column.scale is None else column.scale.points)
    if column.scale is None or column.scale.decimals is None:
        return np.stack([points, np.nextafter(points, inf)], 1)
    steps = np.round(points / column.scale.width)
    return np.stack([steps - 0.5, steps + 0.5], 1) * column.scale.width


def _limits(column: Column) -> FloatArray:
    """Numbers between which there are about equally many of those that are no point masses, at the edges of their cells."""
    from scipy.special import ndtri

    scores = ndtri(np.arange(1, BINS) / BINS)
    if column.scale is None:
        return scores
    limits, width = column.scale.values(scores), column.scale.width
    return np.unique(limits if width == 0 else (np.floor(limits / width) + 0.5) * width)


def _shares(model: Model, variable: int, known: Known | None) -> FloatArray:
    """How what is known of a column, under each of its leaf distributions, is divided into its parts: (l, parts)."""
    column = model.schema.columns[variable]
    if known is not None and known.value is not None:
        return np.ones((width_of(model, variable), 1))
    events = [intersect(part, known).event for part in parts_of(column)]
    if column.is_numeric:
        masses = interval_masses(model.circuit, variable, _pad([e for e in events if e is not None])).T
    else:
        masses = np.stack([e for e in events if e is not None], 1)
    return masses / np.maximum(masses.sum(1, keepdims=True), np.finfo(np.float64).tiny)


def _pad(intervals: Sequence[FloatArray]) -> FloatArray:
    """Lists of intervals of one length, filled up with empty ones: (lists, intervals, 2)."""
    padded = np.zeros((len(intervals), max(map(len, intervals)), 2))
    for row, entries in zip(padded, intervals, strict=True):
        row[: len(entries)] = entries
    return padded


def _information(weights: FloatArray, conditional: FloatArray) -> float:
    """The mutual information in bits of P(t), (t,), and P(c | t), (t, c)."""
    total = weights @ conditional
    ratio = np.divide(conditional, total, out=np.ones_like(conditional), where=conditional > 0)
    return max(0.0, float(weights @ (conditional * np.log2(ratio)).sum(1)))


def _entropy(p: FloatArray) -> float:
    return float(-(p * np.log2(p)).sum())
