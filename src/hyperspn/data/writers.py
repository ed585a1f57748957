"""Tables into files."""

from __future__ import annotations

import gzip
import json
import os
import re

from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import files
from .arrays import is_text
from .csv_files import DELIMITERS
from .dates import write_durations
from .readers import suffix_of

if TYPE_CHECKING:
    import pyarrow as pa

FORMULA = "^[=+@\t\r-]"
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")


def write_table(table: pa.Table | Iterable[pa.Table], path: str | os.PathLike[str], excel_safe: bool = False) -> None:
    """Writes a table, or one after another: .csv, .tsv, .parquet, .feather, .arrow, .jsonl or .npy, text also with .gz.

    The file appears under its name only when it is complete.

    Arguments:
        table: The table, or tables with the same columns, of which only one at a time is in memory.
        path: The file.
        excel_safe: Whether cells of text that a spreadsheet would run as a formula begin with a single quote.
    """
    import pyarrow as pa

    suffix = suffix_of(path)
    if suffix not in WRITERS:
        raise ValueError(f"expected a file {', '.join(WRITERS)} to write, found {os.fspath(path)}")
    tables = [table] if isinstance(table, pa.Table) else table
    with files.draft(path) as file:
        if Path(path).suffix.lower() != ".gz":
            WRITERS[suffix](tables, file, suffix, excel_safe)
            return
        with gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0) as zipped:
            WRITERS[suffix](tables, zipped, suffix, excel_safe)


def csv_text(table: pa.Table, delimiter: str = ",", header: bool = True, excel_safe: bool = False) -> str:
    """The text of a CSV file; missing values are empty cells."""
    import pyarrow as pa
    import pyarrow.compute as pc

    names = pa.table([pa.array([name]) for name in table.column_names], table.column_names)
    parts = [names] * header + [table] * (len(table) > 0)
    lines = [
        pc.binary_join_element_wise(
            *(_cells(column, delimiter, excel_safe, alone) for column in part.columns), delimiter
        )
        for part in parts
        for alone in [len(part.columns) == 1]
    ]
    return "".join(f"{line}\n" for part in lines for line in part.to_pylist())


def printable(text: str) -> str:
    """Text without characters that would control a terminal: they are shown as in Python."""
    return CONTROL.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


def _cells(column: pa.ChunkedArray, delimiter: str, excel_safe: bool, alone: bool) -> pa.ChunkedArray:
    """The cells of a column as text, in quotes where they need them."""
    import pyarrow as pa
    import pyarrow.compute as pc

    column = write_durations(column) if pa.types.is_duration(column.type) else column
    text = pc.fill_null(column.cast(pa.string()), "")
    if not is_text(column):
        return pc.if_else(pc.equal(text, ""), '""', text) if alone else text
    if excel_safe:
        text = pc.if_else(pc.match_substring_regex(text, FORMULA), pc.binary_join_element_wise("'", text, ""), text)
    needed = pc.match_substring_regex(text, rf'[{re.escape(delimiter)}"\r\n]|^\s|\s$' + ("|^$" if alone else ""))
    if not pc.any(needed).as_py():
        return text
    quoted = pc.binary_join_element_wise('"', pc.replace_substring(text, '"', '""'), '"', "")
    return pc.if_else(needed, quoted, text)


def _write_csv(tables: Iterable[pa.Table], file: Any, suffix: str, excel_safe: bool) -> None:
    for number, table in enumerate(tables):
        for start in range(0, max(1, len(table)), 100_000):
            header = number == 0 and start == 0
            part = table.slice(start, 100_000)
            file.write(csv_text(part, DELIMITERS[suffix], header, excel_safe).encode())


def _write_arrow(tables: Iterable[pa.Table], file: Any, suffix: str, excel_safe: bool) -> None:
    import pyarrow as pa
    import pyarrow.parquet

    tables = iter(tables)
    first = next(tables)
    make = pyarrow.parquet.ParquetWriter if suffix == ".parquet" else pa.ipc.new_file
    with make(file, first.schema) as writer:
        for table in chain([first], tables):
            writer.write_table(table)


def _write_jsonl(tables: Iterable[pa.Table], file: Any, suffix: str, excel_safe: bool) -> None:
    for row in _rows(tables):
        file.write(json.dumps(row, ensure_ascii=False, default=str).encode() + b"\n")


def _rows(tables: Iterable[pa.Table]) -> Iterator[dict[str, Any]]:
    for table in tables:
        for batch in table.to_batches(10_000):
            yield from batch.to_pylist()


def _write_npy(tables: Iterable[pa.Table], file: Any, suffix: str, excel_safe: bool) -> None:
    """An array of numbers, or of strings if there are any."""
    import pyarrow as pa

    table = pa.concat_tables(tables)
    is_text = any(not pa.types.is_integer(kind) and not pa.types.is_floating(kind) for kind in table.schema.types)
    if is_text:
        columns = [np.array(column.cast(pa.string()).fill_null("").to_pylist(), str) for column in table.columns]
    else:
        columns = [column.cast(pa.float64()).to_numpy() for column in table.columns]
    np.lib.format.write_array(file, np.stack(columns, 1), allow_pickle=False)


WRITERS = {
    ".csv": _write_csv,
    ".tsv": _write_csv,
    ".parquet": _write_arrow,
    ".feather": _write_arrow,
    ".arrow": _write_arrow,
    ".jsonl": _write_jsonl,
    ".npy": _write_npy,
}
