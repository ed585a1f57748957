"""Recognizes what the columns of a table are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from numpy.typing import NDArray

from .columns import MAX_DECIMALS, MAX_LEVELS, Column, Schema, as_numbers
from .tables import Table, check_known, missing_cells


def recognize(
    table: Table,
    train: NDArray[np.integer] | None = None,
    categories: Mapping[str, Sequence[str | float]] | None = None,
    numeric_strings: bool = True,
) -> Schema:
    """Finds out what each column is.

    Numbers with decimals, or with more than 20 different values, are continuous; two values are binary; all else is
    categorical. Categories are those of the whole table, so that each part of it can be encoded.

    Arguments:
        table: The table.
        train: The training rows, whose mean and standard deviation count; all rows by default.
        categories: For some columns the categories, in place of those found; none of them if it is continuous.
        numeric_strings: Whether strings that look like numbers are numbers, as in a CSV file, or categories.
    """
    rows = np.arange(len(table)) if train is None else train
    given = categories or {}
    for name in given:
        check_known(name, table.names)
    columns = []
    for name, values in zip(table.names, table.columns, strict=True):
        if name not in given:
            columns.append(_recognize(name, values, rows, numeric_strings))
        elif len(given[name]):
            columns.append(_categorical(name, given[name]))
        else:
            columns.append(_continuous(name, values, rows))
    return Schema(tuple(columns))


def _recognize(name: str, values: np.ndarray, train: NDArray[np.integer], numeric_strings: bool) -> Column:
    known = _known(name, values)
    numbers = as_numbers(known)
    strange = np.isnan(numbers)
    if not numeric_strings:
        strange |= [isinstance(value, str) for value in known]
    if strange.any():
        strings = sorted({str(value) for value in known})
        if len(strings) > max(MAX_LEVELS, len(known) / 2):
            raise ValueError(
                f"expected numbers or repeated strings in column {name!r}, found {len(strings)} different values "
                f"in {len(known)} rows, like {known[strange][0]!r}: drop the column or mend it"
            )
        return _categorical(name, strings)
    levels = np.unique(numbers)
    decimals = _decimals(levels)
    if len(levels) > 1 and (decimals != 0 or len(levels) > MAX_LEVELS):
        return _continuous(name, values, train)
    return _categorical(name, [int(level) if decimals == 0 else float(level) for level in levels])


def _categorical(name: str, categories: Iterable[str | float]) -> Column:
    plain = [value.item() if isinstance(value, np.generic) else value for value in categories]
    values = {int(value) if isinstance(value, bool) else value for value in plain}
    ordered = tuple(sorted(values, key=lambda value: (isinstance(value, str), value)))
    return Column(name, "binary" if len(ordered) == 2 else "categorical", ordered)


def _continuous(name: str, values: np.ndarray, train: NDArray[np.integer]) -> Column:
    known = _known(name, values)
    numbers = as_numbers(known)
    if np.isnan(numbers).any():
        raise ValueError(f"expected numbers in column {name!r}, found {known[np.isnan(numbers)][0]!r}")
    trained = as_numbers(values[train])
    trained = trained[~np.isnan(trained)]
    moments = _moments(trained if len(set(trained)) > 1 else numbers)
    return Column(name, "continuous", (), *moments, _decimals(numbers))


def _known(name: str, values: np.ndarray) -> np.ndarray:
    known = values[~missing_cells(values)]
    if len(known) == 0:
        raise ValueError(f"expected values in column {name!r}, found only missing ones: drop the column")
    return known


def _decimals(numbers: NDArray[np.float64]) -> int | None:
    """The fewest decimals that all numbers can be written with, if not too many."""
    with np.errstate(over="ignore"):
        return next((d for d in range(MAX_DECIMALS + 1) if (numbers.round(d) == numbers).all()), None)


def _moments(numbers: NDArray[np.float64]) -> tuple[float, float]:
    with np.errstate(over="ignore", invalid="ignore"):
        return float(numbers.mean()), float(numbers.std())
