"""Tables from files and arrays, and back into files."""

from __future__ import annotations

import csv
import os

from collections.abc import Callable, Iterable, Sequence
from importlib import import_module
from math import nan
from pathlib import Path
from typing import Any

import numpy as np

from .tables import Table, missing_cells

MISSING = ("", "NA", "NaN", "nan", "null", "?")


def read_table(path: str | os.PathLike[str]) -> Table:
    """Reads a .csv or .tsv file with a header, a .parquet file, or a .npy file of numbers or strings.

    Empty cells, NA, NaN, nan, null and ? are missing.
    """
    path = Path(path)
    reader = READERS.get(path.suffix.lower())
    if reader is None:
        raise ValueError(f"expected a table {', '.join(READERS)}, found {path}")
    if not path.is_file():
        raise FileNotFoundError(f"expected a table, found no file at {path}")
    try:
        table = reader(path)
        if len(table) == 0:
            raise ValueError("expected at least one row, found none")
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
    return table


def write_table(table: Table, path: str | os.PathLike[str]) -> None:
    """Writes a .csv or .tsv file with a header; missing values are empty cells."""
    path = Path(path)
    if path.suffix.lower() not in DELIMITERS:
        raise ValueError(f"expected a file {' or '.join(DELIMITERS)} to write, found {path}")
    path.write_text(table.to_csv(DELIMITERS[path.suffix.lower()]), encoding="utf-8", newline="")


def table_of(x: np.ndarray, names: Sequence[str] | None = None) -> Table:
    """The table of an array, (rows, columns); by default its columns are named "column 0" and so on.

    NaN is missing, so are None and the NA of pandas among objects, and among strings what is missing in a CSV file.
    Objects without a string among them are numbers.
    """
    if x.ndim != 2 or x.dtype.kind not in "biufUO":
        raise ValueError(
            f"expected an array of numbers or strings, (rows, columns), found {x.dtype} of shape {x.shape}"
        )
    names = [f"column {i}" for i in range(x.shape[1])] if names is None else names
    if len(names) != x.shape[1]:
        raise ValueError(f"expected {x.shape[1]} names of columns, found {len(names)}")
    return Table(tuple(names), tuple(_column(*named) for named in zip(names, x.T, strict=True)))


def _read_csv(path: Path) -> Table:
    delimiter = DELIMITERS[path.suffix.lower()]
    with open(path, encoding="utf-8-sig", newline="") as file:
        reader = csv.reader(file, delimiter=delimiter, skipinitialspace=True, strict=True)
        try:
            lines = [(reader.line_num, cells) for cells in reader]
        except UnicodeDecodeError as error:
            raise ValueError("expected text in UTF-8, found other bytes: save the file as UTF-8") from error
        except csv.Error as error:
            raise ValueError(
                f"expected cells with {delimiter!r} between, found {error} in line {reader.line_num}"
            ) from error
    while lines and not lines[-1][1]:
        lines.pop()
    if not lines:
        raise ValueError("expected a header and rows, found an empty file")
    names = tuple(name.strip() for name in lines.pop(0)[1])
    if len(names) == 1 and ({",", ";", "\t"} - {delimiter}) & set(names[0]):
        raise ValueError(
            f"expected cells with {delimiter!r} between, found the one column {names[0]!r}: save it with commas or as .tsv"
        )
    for number, cells in lines:
        if len(cells) != len(names):
            raise ValueError(f"expected {len(names)} cells as in the header, found {len(cells)} in line {number}")
    rows = [cells for _, cells in lines]
    return Table(names, tuple(as_strings(row[i] for row in rows) for i in range(len(names))))


def _read_parquet(path: Path) -> Table:
    try:
        arrow, parquet = import_module("pyarrow"), import_module("pyarrow.parquet")
    except ModuleNotFoundError as error:
        raise ValueError("expected pyarrow to read it, found none: pip install 'hyperspn[parquet]'") from error
    try:
        with parquet.ParquetFile(path) as file:
            table = file.read()
    except (arrow.ArrowException, OSError) as error:
        raise ValueError(f"expected a Parquet file, found another or a damaged one ({error})") from error
    names, columns = tuple(table.column_names), table.columns
    return Table(names, tuple(_from_arrow(arrow.types, *named) for named in zip(names, columns, strict=True)))


def _from_arrow(types: Any, name: str, column: Any) -> np.ndarray:
    if types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if types.is_integer(column.type) or types.is_floating(column.type):
        return column.cast("float64", safe=False).to_numpy()
    if any(test(column.type) for test in (types.is_boolean, types.is_string, types.is_large_string, types.is_null)):
        return as_strings(column.cast("string").to_pylist())
    raise ValueError(f"expected numbers, strings or booleans in column {name!r}, found {column.type}: drop the column")


def _read_npy(path: Path) -> Table:
    with open(path, "rb") as file:
        return table_of(np.lib.format.read_array(file, allow_pickle=False))


def _column(name: str, values: np.ndarray) -> np.ndarray:
    """A column of an array as tables hold it."""
    if values.dtype.kind == "U":
        return as_strings(values)
    if values.dtype.kind != "O":
        return values.astype(np.uint8) if values.dtype.kind == "b" else values
    holes = missing_cells(values)
    if any(isinstance(value, str) for value in values):
        return np.array([None if hole else value for hole, value in zip(holes, values, strict=True)], object)
    try:
        return np.where(holes, nan, values).astype(np.float64)
    except TypeError as error:
        raise TypeError(f"column {name!r}: {error}") from error


def as_strings(cells: Iterable[str | None]) -> np.ndarray:
    """A column of strings, None where missing."""
    stripped = [(cell or "").strip() for cell in cells]
    return np.array([None if cell in MISSING else cell for cell in stripped], object)


DELIMITERS = {".csv": ",", ".tsv": "\t"}


READERS: dict[str, Callable[[Path], Table]] = {
    ".csv": _read_csv,
    ".tsv": _read_csv,
    ".parquet": _read_parquet,
    ".npy": _read_npy,
}
