"""Distributions: the answers to questions about columns."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)


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
        mean: The mean; of dates, as the table writes it.
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
