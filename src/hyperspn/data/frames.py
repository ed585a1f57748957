"""Tables from DataFrames and arrays, and back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import isnan, nan
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import pyarrow as pa

MISSING = (
    *("", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "<NA>", "N/A"),
    *("NA", "NULL", "NaN", "None", "n/a", "nan", "null", "?"),
)


def table_of(x: Any, names: Sequence[str] | None = None) -> pa.Table:
    """The table of a DataFrame of pandas, polars or pyarrow, or of an array, (rows, columns).

    The columns of an array are named "column 0" and so on by default. NaN is missing, so are None and the NA of pandas
    among objects, and among strings what is missing in a CSV file. Objects without a string among them are numbers.
    """
    return _table_of_array(x, names) if isinstance(x, np.ndarray) else _table_of_frame(x)


def like(frame: Any, table: pa.Table) -> Any:
    """A table as a DataFrame of the caller's kind: with the types of its columns, and its index if the rows are as many.

    Columns that the frame does not have keep the types of the table. A type that cannot hold the values, as that of whole
    numbers where there are holes, is left out.
    """
    import narwhals.stable.v1 as nw
    import pyarrow as pa

    if isinstance(frame, pa.Table):
        return _like_arrow(frame, table)
    mold = nw.from_native(frame, eager_only=True)
    native = nw.from_arrow(table, native_namespace=mold.__native_namespace__()).to_native()
    if not hasattr(frame, "iloc"):
        return _like_polars(frame, native)
    for name in set(native.columns) & set(frame.columns):
        native[name] = _like_series(frame[name], native[name])
    return native.set_index(frame.index) if len(native) == len(frame) else native


def standard_table(table: pa.Table) -> pa.Table:
    """The table with strings, numbers, booleans, dates and times; a column of any other type is an error."""
    columns = [_standard(name, column) for name, column in zip(table.column_names, table.columns, strict=True)]
    return type(table).from_arrays(columns, table.column_names)


def check_names(names: Sequence[str]) -> None:
    if not names or not all(isinstance(name, str) and name for name in names):
        raise ValueError(f"expected a name for each column, found {', '.join(map(repr, names)) or 'no column'}")
    repeated = [name for name, count in Counter(names).items() if count > 1]
    if repeated:
        raise ValueError(f"expected column names that differ, as in a header, found {repeated[0]!r} more than once")


def _table_of_frame(frame: Any) -> pa.Table:
    import narwhals.stable.v1 as nw
    import pyarrow as pa

    if isinstance(frame, pa.Table):
        table = frame
    else:
        data = nw.from_native(frame, eager_only=True)
        check_names(data.columns)
        table = pa.table({name: _series(data, name) for name in data.columns})
    check_names(table.column_names)
    return standard_table(table)


def _series(data: Any, name: str) -> pa.ChunkedArray:
    """A column of a frame; objects of several types become strings."""
    import pyarrow as pa

    try:
        return pa.chunked_array([data.get_column(name).to_arrow()])
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        return pa.chunked_array([_column(name, data.get_column(name).to_numpy().astype(object))])


def _standard(name: str, column: pa.ChunkedArray) -> pa.ChunkedArray:
    import pyarrow as pa

    from pyarrow import types

    if types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if types.is_large_string(column.type) or types.is_string_view(column.type) or types.is_null(column.type):
        return column.cast(pa.string())
    if types.is_date64(column.type):
        return column.cast(pa.timestamp("ms"))
    tests = (types.is_string, types.is_boolean, types.is_integer, types.is_floating, types.is_decimal)
    if not any(test(column.type) for test in (*tests, types.is_temporal)) or types.is_interval(column.type):
        raise ValueError(
            f"expected strings, numbers, booleans, dates or times in column {name!r}, found {column.type}: "
            "drop the column"
        )
    return column


def _table_of_array(x: np.ndarray, names: Sequence[str] | None) -> pa.Table:
    import pyarrow as pa

    if x.ndim != 2 or x.dtype.kind not in "biufUO":
        raise ValueError(
            f"expected an array of numbers or strings, (rows, columns), found {x.dtype} of shape {x.shape}"
        )
    names = [f"column {i}" for i in range(x.shape[1])] if names is None else list(names)
    if len(names) != x.shape[1]:
        raise ValueError(f"expected {x.shape[1]} names of columns, found {len(names)}")
    check_names(names)
    return pa.table([_column(name, values) for name, values in zip(names, x.T, strict=True)], names)


def _column(name: str, values: np.ndarray) -> pa.Array:
    """A column of an array as tables hold it."""
    import pyarrow as pa

    if values.dtype.kind == "U":
        stripped = np.char.strip(values)
        return pa.array(stripped.tolist(), pa.string(), mask=np.isin(stripped, MISSING))
    if values.dtype.kind != "O":
        numbers = np.ascontiguousarray(values.astype(np.uint8) if values.dtype.kind == "b" else values)
        return pa.array(numbers, from_pandas=True)
    holes = np.array([is_missing(value) for value in values], bool)
    if any(isinstance(value, str) for value in values):
        return pa.array([None if hole else str(value) for hole, value in zip(holes, values, strict=True)], pa.string())
    try:
        return pa.array(np.where(holes, nan, values).astype(np.float64), from_pandas=True)
    except TypeError as error:
        raise TypeError(f"column {name!r}: {error}") from error


def is_missing(value: Any) -> bool:
    is_nan = isinstance(value, float | np.floating) and isnan(value)
    return value is None or is_nan or type(value).__name__ in ("NAType", "NaTType")


def _like_arrow(frame: pa.Table, table: pa.Table) -> pa.Table:
    import pyarrow as pa

    for i, name in enumerate(table.column_names):
        if name in frame.column_names:
            try:
                table = table.set_column(i, name, table.column(name).cast(frame.schema.field(name).type))
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
                continue
    return table


def _like_polars(frame: Any, native: Any) -> Any:
    for name in set(native.columns) & set(frame.columns):
        try:
            native = native.with_columns(native[name].cast(frame[name].dtype))
        except Exception as error:  # polars has its errors to itself
            if not type(error).__module__.startswith("polars"):
                raise
    return native


def _like_series(old: Any, new: Any) -> Any:
    """A column of pandas with the type of another."""
    try:
        return new.astype(old.dtype)
    except (TypeError, ValueError):
        return new
