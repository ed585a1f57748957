"""Columns: what the values of a table mean, and how a circuit sees them."""

from __future__ import annotations

import csv
import re

from dataclasses import asdict, dataclass
from math import isfinite, log, nan
from typing import Any

import numpy as np

from numpy.typing import NDArray

from ..checks import did_you_mean
from .tables import Table, as_objects, check_known, check_names, is_finite, missing_cells

MAX_LEVELS = 20


MAX_DECIMALS = 8


NUMBER = re.compile(r"[+-]?(?!0\d)(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)  # 007 is a string


@dataclass(frozen=True)
class Column:
    """What the values of a column are, and how a circuit sees them.

    Arguments:
        name: The name of the column.
        kind: "binary" or "categorical", seen as codes 0..c-1, or "continuous", seen as (x - mean) / std.
        categories: The values in the order of their codes, strings or numbers; none if continuous.
        mean: The mean of the training rows, if continuous.
        std: Their standard deviation, if continuous.
        decimals: How many decimals the numbers have, if continuous and not too many; 0 for whole numbers.
    """

    name: str
    kind: str
    categories: tuple[str | int | float, ...] = ()
    mean: float = 0.0
    std: float = 1.0
    decimals: int | None = None

    def __post_init__(self) -> None:
        count = len(self.categories)
        fits = {"binary": count == 2, "categorical": count > 0, "continuous": count == 0}
        if not fits.get(self.kind, False):
            raise ValueError(
                f"expected column {self.name!r} to be binary with 2 categories, categorical with some or continuous "
                f"with none, found {self.kind} with {count}"
            )
        alike = all(isinstance(value, str) for value in self.categories) or all(map(is_finite, self.categories))
        if not alike or list(self.categories) != sorted(set(self.categories)):
            raise ValueError(f"expected strings or numbers in ascending order, found {self.categories}")
        if not (is_finite(self.mean) and is_finite(self.std) and self.std > 0):
            raise ValueError(f"expected finite mean and std > 0 of column {self.name!r}, found {self.mean}, {self.std}")
        if self.decimals is not None and (type(self.decimals) is not int or not 0 <= self.decimals <= MAX_DECIMALS):
            raise ValueError(f"expected decimals 0..{MAX_DECIMALS} of column {self.name!r}, found {self.decimals}")

    @property
    def is_continuous(self) -> bool:
        return self.kind == "continuous"

    def support(self) -> str:
        """The possible values in words, for error messages."""
        if self.is_continuous:
            return "a number"
        listed = ", ".join(map(repr, self.categories[:MAX_LEVELS]))
        return f"one of {listed}{', ...' if len(self.categories) > MAX_LEVELS else ''}"

    def encode(self, values: np.ndarray) -> NDArray[np.float64]:
        """Codes or standardized numbers, (rows,); NaN for what is missing or not in the support."""
        if self.is_continuous:
            return (as_numbers(values) - self.mean) / self.std
        if isinstance(self.categories[0], str):
            codes = {category: float(code) for code, category in enumerate(self.categories)}
            return np.array([nan if value is None else codes.get(str(value), nan) for value in values])
        numbers, categories = as_numbers(values), np.array(self.categories, np.float64)
        places = np.searchsorted(categories, numbers).clip(max=len(categories) - 1)
        return np.where(categories[places] == numbers, places, nan)

    def decode(self, codes: NDArray[np.floating]) -> np.ndarray:
        """The values that codes or standardized numbers stand for, (rows,), as objects."""
        values, holes = np.full(len(codes), None, object), np.isnan(codes)
        known = codes[~holes].astype(np.float64)
        fits = np.isfinite(known) if self.is_continuous else np.isin(known, np.arange(len(self.categories)))
        if not fits.all():
            expected = "a finite number" if self.is_continuous else f"a code 0..{len(self.categories) - 1}"
            raise ValueError(f"expected {expected} in column {self.name!r}, found {known[~fits][0]:g}")
        if not self.is_continuous:
            values[~holes] = np.array(self.categories, object)[known.astype(int)]
            return values
        numbers = known * self.std + self.mean
        numbers = numbers if self.decimals is None else numbers.round(self.decimals)
        values[~holes] = [int(number) for number in numbers] if self.decimals == 0 else numbers
        return values


@dataclass(frozen=True)
class Schema:
    """The columns of a table: how it becomes an array for a circuit, and how arrays become tables again.

    Arguments:
        columns: The columns, in the order of the circuit's variables.

    Example:
        >>> from hyperspn.data import recognize
        >>> table = Table(("color", "size"), (np.array(["red", "blue", None], object), np.array([1.5, 2.5, 3.5])))
        >>> schema = recognize(table)
        >>> [column.kind for column in schema.columns]
        ['binary', 'continuous']
        >>> schema.encode(table)[:, 0]
        array([ 1.,  0., nan])
        >>> schema.evidence("color=red")
        array([[ 1., nan]])
    """

    columns: tuple[Column, ...]

    def __post_init__(self) -> None:
        check_names(self.names)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)

    def index(self, name: str) -> int:
        """The number of a column."""
        check_known(name, self.names)
        return self.names.index(name)

    def encode(self, table: Table) -> NDArray[np.float64]:
        """The table as codes and standardized numbers, (rows, variables), NaN where missing.

        Columns are found by their names; others are ignored. Error messages count rows from 1.
        """
        x = np.empty((len(table), len(self.columns)))
        found = dict(zip(table.names, table.columns, strict=True))
        for variable, column in enumerate(self.columns):
            if column.name not in found:
                hint = did_you_mean(column.name, table.names)
                raise ValueError(f"expected a column named {column.name!r}, found none{hint}")
            values = found[column.name]
            x[:, variable] = column.encode(values)
            misfits = np.isnan(x[:, variable]) & ~missing_cells(values)
            if misfits.any():
                row = int(misfits.argmax())
                value = values[row : row + 1].tolist()[0]
                raise ValueError(
                    f"expected {column.support()} in column {column.name!r}, found {value!r} in row {row + 1}"
                )
        return x

    def decode(self, x: NDArray[np.floating]) -> Table:
        """The table of codes and standardized numbers, (rows, variables), NaN where missing."""
        if x.ndim != 2 or x.shape[1] != len(self.columns):
            raise ValueError(f"expected x of shape (rows, {len(self.columns)}), found {x.shape}")
        return Table(self.names, tuple(column.decode(codes) for column, codes in zip(self.columns, x.T, strict=True)))

    def numbers(self, x: NDArray[np.floating]) -> NDArray[np.float64]:
        """The values of codes and standardized numbers where all columns have numbers, (rows, variables)."""
        try:
            return np.stack([column.astype(np.float64) for column in self.decode(x).columns], 1)
        except ValueError as error:
            raise ValueError(f"expected columns of numbers, found others ({error})") from error

    def fill(self, table: Table, x: NDArray[np.floating]) -> Table:
        """The table with its missing values taken from an array, (rows, variables), and all else as it was."""
        decoded = self.decode(x)
        new = dict(zip(decoded.names, decoded.columns, strict=True))
        columns = [
            np.where(missing_cells(old), new[name], as_objects(old)) if name in new else old
            for name, old in zip(table.names, table.columns, strict=True)
        ]
        return Table(table.names, tuple(columns))

    def evidence(self, text: str) -> NDArray[np.float64]:
        """One row, (1, variables), from text like ``color=red,size=3``; NaN elsewhere.

        A part with a comma in it is quoted as in CSV files: ``"city=Washington, D.C.",size=3``.
        """
        x = np.full((1, len(self.columns)), nan)
        try:
            parts = next(csv.reader([text], skipinitialspace=True, strict=True), [])
        except csv.Error as error:
            raise ValueError(f"expected evidence like color=red,size=3, found {text!r} ({error})") from error
        for part in parts:
            cuts = [(part[:i].strip(), part[i + 1 :].strip()) for i, mark in enumerate(part) if mark == "="]
            if not cuts:
                raise ValueError(f"expected evidence like color=red,size=3, found {part!r}")
            name, value = next((cut for cut in cuts if cut[0] in self.names), cuts[0])
            variable = self.index(name)
            column = self.columns[variable]
            if not np.isnan(x[0, variable]):
                raise ValueError(f"expected one value of column {name!r}, found two")
            x[0, variable] = column.encode(np.array([value], object))[0]
            if np.isnan(x[0, variable]):
                raise ValueError(f"expected {column.support()} for column {name!r}, found {value!r}")
        return x

    def log_scale(self, x: NDArray[np.floating]) -> NDArray[np.float64]:
        """What to subtract from the log-densities of an array to have those of the table, (rows,).

        log p(table) = log p(x) - sum log std   over the continuous values that are known
        """
        return ~np.isnan(x) @ np.array([log(column.std) for column in self.columns])

    def to_dict(self) -> dict[str, Any]:
        """The schema as lists, strings and numbers, for JSON."""
        return {"columns": [{**asdict(column), "categories": list(column.categories)} for column in self.columns]}

    @classmethod
    def from_dict(cls, entries: Any) -> Schema:
        """The schema that `to_dict` wrote; anything else is a `ValueError`."""
        try:
            return cls(
                tuple(Column(**{**entry, "categories": tuple(entry["categories"])}) for entry in entries["columns"])
            )
        except (KeyError, TypeError) as error:
            raise ValueError(f"expected a description of columns, found a fault in it: {error}") from error


def as_numbers(values: np.ndarray) -> NDArray[np.float64]:
    """A column as numbers, NaN for what is missing or none."""
    if values.dtype.kind != "O":
        return values.astype(np.float64)
    return np.array([as_number(value) for value in values], np.float64)


def as_number(value: Any) -> float:
    if value is None or (isinstance(value, str) and not NUMBER.fullmatch(value)):
        return nan
    number = float(value)
    return number if isfinite(number) else nan
