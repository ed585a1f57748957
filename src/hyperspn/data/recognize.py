"""Recognizes what the columns of a table are."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from numpy.typing import NDArray

from .arrays import in_threads, without_nan
from .columns import Column
from .readers import check_known
from .schema import Schema
from .values import Bounds, UnsuitableError, Values, Wish

if TYPE_CHECKING:
    import pyarrow as pa

CHOICES = ("numeric", "categorical", "date", "drop")


def recognize(
    table: pa.Table | Mapping[str, pa.ChunkedArray],
    train: NDArray[np.integer] | None = None,
    categories: Mapping[str, Sequence[Any]] | None = None,
    numeric_strings: bool = True,
    *,
    kinds: Mapping[str, str] | None = None,
    bounds: Mapping[str, Bounds] | None = None,
    missing_as_data: bool | Collection[str] = False,
    leave_out: bool | Literal["unusable"] = True,
    notes: list[str] | None = None,
) -> Schema:
    """Finds out what each column is.

    Strings, booleans and at most 50 different whole numbers are categories, other numbers are numeric, dates and times
    are dates. Left out are columns with no value or a single one, row numbers (whole numbers in a run without gaps) and
    strings of which more than 95 % differ.

    Arguments:
        table: The table, or its columns by name.
        train: The training rows, whose categories and quantiles count; all rows by default.
        categories: For some columns the categories, in place of those of the table; none of them if it is numeric.
        numeric_strings: Whether strings that look like numbers are numbers, as in a CSV file, or categories.
        kinds: For some columns what they are: numeric, categorical, date (or the format of its dates, like %d/%m/%Y), drop.
        bounds: For some columns the smallest and the largest possible value, None for no bound. By default it is 0 below if
            no value is negative, and above the largest value if that is 1 or 100 or a point mass.
        missing_as_data: Whether "missing" is a value like others, for all columns with holes or for those listed.
        leave_out: Whether columns may be left out; else those with a single value are categories, row numbers are numbers,
            and others are errors, or left out as well with "unusable".
        notes: A list to which sentences are added that the user may want to read.
    """
    notes = [] if notes is None else notes
    categories, kinds, bounds = categories or {}, kinds or {}, bounds or {}
    listed = missing_as_data if isinstance(missing_as_data, Collection) else ()
    by_name = table if isinstance(table, Mapping) else dict(zip(table.column_names, table.columns, strict=True))
    for name in (*listed, *categories, *kinds, *bounds):
        check_known(name, list(by_name))
    is_train = None
    if train is not None:
        is_train = np.bincount(train, minlength=len(next(iter(by_name.values())))) > 0

    def column(name: str, values: pa.ChunkedArray) -> tuple[Column | str, list[str]]:
        as_data = missing_as_data is True or name in listed
        kind, may_leave_out = _kind(name, kinds.get(name)), leave_out is True
        wish = Wish(kind, bounds.get(name), categories.get(name), numeric_strings, may_leave_out, as_data)
        counts = np.ones(len(values), bool) if is_train is None else is_train
        return _column(name, values, counts, wish, bool(leave_out))

    columns, left_out = [], []
    for name, (answer, sentences) in zip(by_name, in_threads(column, by_name.keys(), by_name.values()), strict=True):
        notes += sentences
        if isinstance(answer, Column):
            columns.append(answer)
        else:
            left_out.append((name, answer))
    if not columns:
        raise ValueError(f"there is no column to model: {'; '.join(f'{name!r} has {why}' for name, why in left_out)}")
    return Schema(tuple(columns), tuple(left_out))


def _column(
    name: str, values: pa.ChunkedArray, is_train: NDArray[np.bool_], wish: Wish, leave_out: bool
) -> tuple[Column | str, list[str]]:
    """The column, or why it is left out, and notes."""
    notes: list[str] = []
    try:
        return Values(name, without_nan(values), is_train, wish, notes).column(), notes
    except UnsuitableError as reason:
        if not leave_out:
            raise ValueError(f"{reason} in column {name!r}: drop or fix the column") from None
        return str(reason), [*notes, f"column {name!r} is left out: {reason}"]


def _kind(name: str, kind: str | None) -> str | None:
    if kind is not None and kind not in CHOICES and not kind.startswith("%"):
        raise ValueError(f"expected column {name!r} to be {', '.join(CHOICES)}, found {kind!r}")
    return kind
