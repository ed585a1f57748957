"""Events: what may be known of a column, and as a circuit sees it."""

from __future__ import annotations

import re

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any, NamedTuple

import numpy as np

from numpy.typing import NDArray

from ..checks import plural
from .arrays import numbers_of
from .columns import OTHER, Column

Event = Any  # a value, a tuple (low, high), a set of values, or one of the classes below
FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class Above:
    """Larger than a value: above 50 begins at 50.5 where whole numbers are recorded."""

    value: Any


@dataclass(frozen=True)
class AtLeast:
    """A value, or larger."""

    value: Any


@dataclass(frozen=True)
class Below:
    """Smaller than a value."""

    value: Any


@dataclass(frozen=True)
class AtMost:
    """A value, or smaller."""

    value: Any


@dataclass(frozen=True)
class Not:
    """Any other value, but not missing."""

    event: Event


@dataclass(frozen=True)
class Missing:
    """Nothing was recorded; only where missing values are modeled as data."""


@dataclass(frozen=True, init=False)
class AnyOf:
    """One of several events.

    Example:
        >>> AnyOf((None, 20), (60, None))  # at most 20, or at least 60
        AnyOf(events=((None, 20), (60, None)))
    """

    events: tuple[Event, ...]

    def __init__(self, *events: Event) -> None:
        object.__setattr__(self, "events", events)


@dataclass(frozen=True)
class Likely:
    """Likelihood ratios of categories (Pearl's virtual evidence), 0 for those not named."""

    likelihoods: Mapping[Any, float]


class Known(NamedTuple):
    """An event as a circuit sees it: a value with a density, likelihoods of codes, (codes,), or intervals, (intervals, 2)."""

    value: float | None = None
    event: FloatArray | None = None
    is_probability: bool = True


def as_known(column: Column, event: Event) -> Known:
    """An event of a column as a circuit sees it."""
    if isinstance(event, Likely):
        return Known(event=_likelihoods(column, event), is_probability=False)
    if not column.is_numeric:
        weights = _weights(column, event)
        return Known(event=np.minimum(weights, 1.0))
    if _is_value(event) and _width(column) == 0:
        return Known(value=_code(column, event), is_probability=_is_point(column, event))
    intervals = _intervals(column, event)
    return Known(event=(intervals - column.mean) / column.std if column.is_continuous else intervals)


def present(column: Column) -> FloatArray:
    """The event that some value was recorded, where "missing" is data."""
    return np.array([[-inf, inf]]) if column.is_numeric else (np.arange(column.size) < column.size - 1).astype(float)


def intersect(first: Known, second: Known | None) -> Known:
    """What is known where two events of a column are."""
    if second is None:
        return first
    if first.event is None or second.event is None:
        raise ValueError("expected ranges, found a single value of a continuous column that is known and asked for")
    is_probability = first.is_probability and second.is_probability
    if first.event.ndim == 1:
        return Known(event=first.event * second.event, is_probability=is_probability)
    low = np.maximum(first.event[:, None, 0], second.event[None, :, 0])  # (intervals, intervals)
    high = np.minimum(first.event[:, None, 1], second.event[None, :, 1])
    kept = (low < high) | ((low == high) & np.isinf(low))
    pairs = np.stack([low[kept], high[kept]], 1)
    return Known(event=pairs if len(pairs) else np.zeros((1, 2)), is_probability=is_probability)


def _is_value(event: Event) -> bool:
    return not isinstance(
        event, (tuple, set, frozenset, list, Above, AtLeast, Below, AtMost, Not, Missing, AnyOf, Likely)
    )


def _code(column: Column, value: Any) -> float:
    """The code or number of a single value; a `ValueError` if the column has no such value."""
    import pyarrow as pa

    try:
        return float(column.encode(pa.chunked_array([pa.array([_plain(column, value)])]), strict=True)[0])
    except (pa.ArrowInvalid, pa.ArrowTypeError, ValueError) as error:
        if str(error).startswith("expected"):
            raise ValueError(re.sub(r" in row 1(?=;|$)", "", str(error))) from None
        raise ValueError(f"expected {column.support()} for column {column.name!r}, found {value!r}") from None


def _plain(column: Column, value: Any) -> Any:
    """A number, if it is written as one, but not as its column writes numbers: 10 in a column of ``10 %``."""
    import pyarrow as pa

    if column.spelling is None or not isinstance(value, str):
        return value
    text = pa.array([value])
    number = numbers_of(text)[0]
    return value if np.isnan(number) or not np.isnan(numbers_of(text, column.spelling)[0]) else float(number)


def _number(column: Column, value: Any) -> float:
    """A number in the units of the table."""
    code = _code(column, value)
    if np.isnan(code):
        raise ValueError(f"expected {column.support()} for column {column.name!r}, found {value!r}")
    return code * column.std + column.mean if column.is_continuous else code


def _weights(column: Column, event: Event) -> FloatArray:
    """How much of each code of a column with categories an event holds, (codes,)."""
    if isinstance(event, Missing):
        _check_missing(column)
        return _one_hot(column, column.size - 1)
    if isinstance(event, Not):
        weights = 1.0 - np.minimum(_weights(column, event.event), 1.0)
        if column.missing_as_data:
            weights[-1] = 0.0
        return weights
    if isinstance(event, (AnyOf, set, frozenset, list)):
        return np.sum([_weights(column, part) for part in dict.fromkeys(_parts(column, event))], axis=0)
    if _is_value(event):
        return _weights_of_value(column, event)
    return _weights_of_range(column, *_range(event))


def _check_missing(column: Column) -> None:
    if not column.missing_as_data:
        raise ValueError(f"column {column.name!r} is not modeled with missing values: train with --missing-as-data")


def _weights_of_value(column: Column, value: Any) -> FloatArray:
    if column.pooled and value == OTHER:
        return _one_hot(column, len(column.categories))
    code = _code(column, value)
    weights = _one_hot(column, int(code))
    if column.pooled and code == len(column.categories):
        weights *= column.shares[column.pooled.index(_like(column.pooled, value))] / sum(column.shares)
    return weights


def _weights_of_range(column: Column, low: Any, high: Any, closed: tuple[bool, bool]) -> FloatArray:
    if not column.categories or isinstance(column.categories[0], str):
        raise ValueError(f"column {column.name!r} has no order: give values with | between them, like a|b")
    values = np.array(column.categories, float)
    try:
        low, high = (limit if limit is None else float(limit) for limit in (low, high))
    except (TypeError, ValueError):
        raise ValueError(f"expected a number for column {column.name!r}, found {low!r} to {high!r}") from None
    inside = np.ones(len(values), bool)
    if low is not None:
        inside &= values >= low if closed[0] else values > low
    if high is not None:
        inside &= values <= high if closed[1] else values < high
    weights = np.zeros(column.size)
    weights[: len(values)] = inside
    return weights


def _likelihoods(column: Column, event: Likely) -> FloatArray:
    if column.is_numeric:
        raise ValueError(f"expected categories for likelihoods, found the numbers of column {column.name!r}")
    weights = np.zeros(column.size)
    for value, likelihood in event.likelihoods.items():
        if not 0 <= float(likelihood) < inf:
            raise ValueError(f"expected likelihoods >= 0, found {likelihood} of {value!r}")
        weights += float(likelihood) * _weights_of_value(column, value)
    if not weights.any():
        raise ValueError(f"expected a likelihood > 0 of some category of column {column.name!r}, found none")
    return weights


def _one_hot(column: Column, code: int) -> FloatArray:
    weights = np.zeros(column.size)
    weights[code] = 1.0
    return weights


def _like(categories: Sequence[Any], value: Any) -> Any:
    """The category that is written or valued like this."""
    return next(category for category in categories if category == value or str(category) == str(value))


def _range(event: Event) -> tuple[Any, Any, tuple[bool, bool]]:
    """The ends of an event, and whether they belong to it."""
    if isinstance(event, (Above, AtLeast)):
        return _end(event.value, -inf), None, (isinstance(event, AtLeast), True)
    if isinstance(event, (Below, AtMost)):
        return None, _end(event.value, inf), (True, isinstance(event, AtMost))
    if isinstance(event, tuple) and len(event) == 2:
        return _end(event[0], -inf), _end(event[1], inf), (True, True)
    raise ValueError(f"expected an event like a value, (30, 40) or a set of values, found {event!r}")


def _end(value: Any, open_end: float) -> Any:
    """The end of a range; None where it is infinite, in text, too."""
    try:
        return None if float(value) == open_end else value
    except (TypeError, ValueError):
        return value


def _width(column: Column) -> float:
    """How wide the cells of recorded numbers are; 0 if these are continuous."""
    if column.scale is not None:
        return column.scale.width
    return 0.0  # numbers of version 0.1.0 have densities


def _is_point(column: Column, value: Any) -> bool:
    return column.scale is not None and _number(column, value) in column.scale.points


def _intervals(column: Column, event: Event) -> FloatArray:
    """Disjoint half-open intervals in the units of the table, (intervals, 2)."""
    if isinstance(event, Missing):
        _check_missing(column)
        return np.array([[inf, inf]])
    if isinstance(event, Not):
        return _complement(_intervals(column, event.event))
    if isinstance(event, (AnyOf, set, frozenset, list)):
        return _union(np.concatenate([_intervals(column, part) for part in _parts(column, event)]))
    low, high, closed = (event, event, (True, True)) if _is_value(event) else _range(event)
    start = -inf if low is None else _edge(column, low, below=closed[0])
    end = inf if high is None else _edge(column, high, below=not closed[1])
    if low is not None and high is not None and start >= end:
        raise ValueError(_no_values(column, low, high))
    return np.array([[start, end]])


def _parts(column: Column, event: Event) -> Sequence[Event]:
    parts = event.events if isinstance(event, AnyOf) else list(event)
    if not parts:
        raise ValueError(f"expected at least one value of column {column.name!r}, found none")
    return parts


def _no_values(column: Column, low: Any, high: Any) -> str:
    if low != high:
        return f"expected a range with values of column {column.name!r} in it, found {low}..{high}"
    recorded = "whole" if column.decimals == 0 else f"recorded to {plural(column.decimals or 0, 'decimal')}"
    return (
        f"expected a number like others in column {column.name!r}, which are {recorded}, found {low}: ask for a range"
    )


def _edge(column: Column, value: Any, below: bool) -> float:
    """The edge of recorded values just below a value, which then belongs to what follows, or just above it."""
    number, width = _number(column, value), _width(column)
    if width == 0:
        return number if below else float(np.nextafter(number, inf))
    steps = number / width
    nearest = round(steps)
    if abs(steps - nearest) > 1e-6:
        return float((np.floor(steps) + 0.5) * width)
    return (nearest - 0.5 if below else nearest + 0.5) * width


def _union(intervals: FloatArray) -> FloatArray:
    merged: list[list[float]] = []
    for low, high in intervals[np.argsort(intervals[:, 0])].tolist():
        if merged and low <= merged[-1][1] and low < inf:
            merged[-1][1] = max(merged[-1][1], high)
        else:
            merged.append([low, high])
    return np.array(merged)


def _complement(intervals: FloatArray) -> FloatArray:
    finite = _union(intervals[intervals[:, 0] < inf]) if (intervals[:, 0] < inf).any() else np.empty((0, 2))
    edges = [-inf, *finite.ravel().tolist(), inf]
    pairs = [[low, high] for low, high in zip(edges[::2], edges[1::2], strict=True) if low < high]
    return np.array(pairs) if pairs else np.array([[0.0, 0.0]])
