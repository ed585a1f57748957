"""Distributions: of a column, and of several together, given evidence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise, product
from math import inf
from typing import Any

import numpy as np

from torch import Tensor

from ..data.events import Known, as_known, intersect
from .numbers import mean_and_std, quantiles
from .reading import Given, Model, known_of, log_prob, log_prob_of_possible, posteriors, width_of

LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)
QUARTILES = (0.25, 0.5, 0.75)
MOST_JOINT = 10_000


@dataclass(frozen=True)
class Categories:
    """The distribution of a column with categories.

    Arguments:
        column: The name of the column.
        probabilities: The probability of each category, the largest first.
    """

    column: str
    probabilities: dict[Any, float]

    def to_dict(self) -> dict[str, Any]:
        return {"probabilities": {str(category): p for category, p in self.probabilities.items()}}


@dataclass(frozen=True)
class Numbers:
    """The distribution of a column of numbers or dates.

    Arguments:
        column: The name of the column.
        quantiles: Values at levels of probability, as the table writes them.
        mean: The mean; of dates, as the table writes it; None where it is known that nothing was recorded.
        std: The standard deviation, in the unit of the column.
        points: Values of positive probability, with these.
        missing: The probability that nothing was recorded, where this is modeled; all else is then of recorded values.
    """

    column: str
    quantiles: dict[float, Any]
    mean: Any
    std: float
    points: dict[Any, float] = field(default_factory=dict)
    missing: float | None = None

    def to_dict(self) -> dict[str, Any]:
        missing = {} if self.missing is None else {"missing": self.missing}
        quantiles = {f"{level:g}": value for level, value in self.quantiles.items()}
        points = {str(value): p for value, p in self.points.items()}
        return {"mean": self.mean, "std": self.std, "quantiles": quantiles, "points": points, **missing}


@dataclass(frozen=True)
class Joint:
    """The joint distribution of several columns: categories, or ranges of numbers.

    Arguments:
        columns: The names of the columns.
        probabilities: The probability of each combination.
    """

    columns: tuple[str, ...]
    probabilities: dict[tuple[Any, ...], float]

    def to_dict(self) -> dict[str, Any]:
        rows = [[*map(str, labels), p] for labels, p in self.probabilities.items()]
        return {"columns": list(self.columns), "probabilities": rows}


Distribution = Categories | Numbers | Joint


def distribution(model: Model, columns: str | Sequence[str], given: Given = None) -> Distribution:
    """The exact distribution of a column, or the joint one of several, given evidence."""
    names = [columns] if isinstance(columns, str) else list(columns)
    variables = [model.schema.index(name) for name in names]
    known = known_of(model.schema, given)
    log_given = log_prob_of_possible(model, known)
    if len(names) > 1:
        return _joint(model, names, known, log_given)
    (variable,) = variables
    posterior = posteriors(model, known)[:, variable, : width_of(model, variable)]
    column = model.schema.columns[variable]
    if column.is_numeric:
        return _numbers(model, variable, posterior, known.get(variable))
    probabilities = zip(column.labels, posterior[0].double().tolist(), strict=True)
    return Categories(column.name, dict(_largest_first(probabilities)))


def _numbers(model: Model, variable: int, posterior: Tensor, known: Known | None) -> Numbers:
    """The distribution of a column of numbers from the posterior of its leaf distributions, (1, l)."""
    column, family = model.schema.columns[variable], model.circuit.leaves.families[variable]
    within = None if known is None else known.event
    if within is not None and np.isposinf(within[:, 0]).all():
        return Numbers(column.name, {}, None, 0.0, missing=1.0)
    at_levels = quantiles(model.circuit, variable, posterior, LEVELS, within)[0]
    ((mean,), (std,)) = mean_and_std(model.circuit, variable, posterior, within)
    points = getattr(family, "points", ())
    chances = dict(zip(points, posterior[0, family.width - len(points) :].double().tolist(), strict=True))
    missing = chances.pop(inf, None)
    written = column.decode(np.array([mean, *at_levels, *chances])).to_pylist()
    levels, values = written[1 : len(LEVELS) + 1], written[len(LEVELS) + 1 :]
    return Numbers(
        column.name,
        dict(zip(LEVELS, levels, strict=True)),
        written[0] if column.kind == "date" else float(mean * column.std + column.mean),
        float(std * column.std),
        dict(_largest_first(zip(values, chances.values(), strict=True))),
        missing,
    )


def _joint(model: Model, names: Sequence[str], known: Mapping[int, Known], log_given: float) -> Joint:
    """All combinations of categories, or of ranges between the quartiles of numbers."""
    choices = [_alternatives(model, name) for name in names]
    count = int(np.prod([len(choice) for choice in choices]))
    if count > MOST_JOINT:
        raise ValueError(
            f"expected at most {MOST_JOINT:,} combinations of values, found {count:,}: ask for fewer columns"
        )
    variables = [model.schema.index(name) for name in names]
    combinations = {
        tuple(label for label, _ in entries): {v: event for v, (_, event) in zip(variables, entries, strict=True)}
        for entries in product(*(choice.items() for choice in choices))
    }
    rows = [{**known, **{v: intersect(e, known.get(v)) for v, e in row.items()}} for row in combinations.values()]
    probabilities = np.exp(log_prob(model, *rows) - log_given).tolist()
    return Joint(tuple(names), dict(zip(combinations, probabilities, strict=True)))


def _alternatives(model: Model, name: str) -> dict[Any, Known]:
    """Disjoint events of a column by their labels: each category, or the ranges between the quartiles of numbers."""
    column = model.schema.columns[model.schema.index(name)]
    if not column.is_numeric:
        return {label: Known(event=np.eye(column.size)[code]) for code, label in enumerate(column.labels)}
    answer = distribution(model, name)
    assert isinstance(answer, Numbers)
    limits = list(dict.fromkeys(answer.quantiles[level] for level in QUARTILES))
    ends = [as_known(column, (None, limit)).event for limit in limits]
    cuts = [-inf, *(float(end[0, 1]) for end in ends if end is not None), inf]
    labels = [f"<= {limits[0]}", *(f"{low} to {high}" for low, high in pairwise(limits)), f"> {limits[-1]}"]
    ranges = {label: Known(event=np.array([cut])) for label, cut in zip(labels, pairwise(cuts), strict=True)}
    return ranges | ({"missing": Known(event=np.array([[inf, inf]]))} if column.missing_as_data else {})


def _largest_first(probabilities: Any) -> list[tuple[Any, float]]:
    return sorted(probabilities, key=lambda entry: -entry[1])
