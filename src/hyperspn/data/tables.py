"""Tables: rows with named columns."""

from __future__ import annotations

import csv
import io
import sys

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import isnan
from typing import Any

import numpy as np

from numpy.typing import NDArray

from ..checks import did_you_mean


@dataclass(frozen=True, eq=False)
class Table:
    """Named columns of equal length.

    Arguments:
        names: The names of the columns, all different.
        columns: The values, each (rows,): numbers with NaN where missing, or objects (strings or numbers) with None.
    """

    names: tuple[str, ...]
    columns: tuple[np.ndarray, ...]

    def __post_init__(self) -> None:
        check_names(self.names)
        shapes = [column.shape for column in self.columns]
        if len(shapes) != len(self.names) or len(set(shapes)) != 1 or len(shapes[0]) != 1:
            raise ValueError(f"expected {len(self.names)} columns of equal length, found shapes {shapes}")
        for name, column in zip(self.names, self.columns, strict=True):
            if column.dtype.kind == "f" and np.isinf(column).any():
                row = np.isinf(column).argmax() + 1
                raise ValueError(f"expected finite numbers in column {name!r}, found an infinite one in row {row}")

    def __len__(self) -> int:
        return len(self.columns[0])

    def take(self, rows: NDArray[np.integer]) -> Table:
        """The table of the given rows, numbered from 0."""
        return Table(self.names, tuple(column[rows] for column in self.columns))

    def drop(self, names: Iterable[str]) -> Table:
        """The table without the given columns."""
        dropped = set(names)
        for name in dropped:
            check_known(name, self.names)
        kept = [i for i, name in enumerate(self.names) if name not in dropped]
        return Table(tuple(self.names[i] for i in kept), tuple(self.columns[i] for i in kept))

    def to_csv(self, delimiter: str = ",") -> str:
        """The text of a CSV file with a header; missing values are empty cells."""
        text = io.StringIO()
        rows = [self.names, *zip(*map(as_objects, self.columns), strict=True)]
        returns = any(isinstance(cell, str) and "\r" in cell for row in rows for cell in row)
        options: dict[str, Any] = {"quoting": csv.QUOTE_ALL} if returns else {}
        csv.writer(text, delimiter=delimiter, lineterminator="\n", **options).writerows(rows)
        return text.getvalue()


def as_objects(values: np.ndarray) -> np.ndarray:
    """A column as objects, None where missing; numbers that are all whole become int."""
    if values.dtype.kind == "O":
        return values
    objects, known = np.full(len(values), None, object), ~np.isnan(values)
    whole = (values[known] == np.floor(values[known])).all()
    objects[known] = [int(value) for value in values[known]] if whole else values[known]
    return objects


def missing_cells(values: np.ndarray) -> NDArray[np.bool_]:
    if values.dtype.kind != "O":
        return np.isnan(values)
    return np.array([is_missing(value) for value in values], bool)


def is_missing(value: Any) -> bool:
    is_nan = isinstance(value, float | np.floating) and isnan(value)
    return value is None or is_nan or type(value).__name__ in ("NAType", "NaTType")


def is_finite(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= sys.float_info.max


def check_names(names: tuple[str, ...]) -> None:
    if not names or not all(isinstance(name, str) and name for name in names):
        raise ValueError(f"expected a name for each column, found {', '.join(map(repr, names)) or 'no column'}")
    repeated = [name for name, count in Counter(names).items() if count > 1]
    if repeated:
        raise ValueError(f"expected column names that differ, as in a header, found {repeated[0]!r} more than once")


def check_known(name: str, names: Sequence[str]) -> None:
    if name not in names:
        raise ValueError(f"expected the name of a column, found {name!r}{did_you_mean(name, names)}")
