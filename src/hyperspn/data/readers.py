"""Tables from files."""

from __future__ import annotations

import gzip
import io
import os
import sys
import tokenize
import warnings
import zlib

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..checks import did_you_mean, plural
from .arrays import in_threads, levels_of
from .csv_files import DELIMITERS, read_csv, trim
from .frames import MISSING, check_names, standard_table, table_of

if TYPE_CHECKING:
    import pyarrow as pa

MAGIC = {b"PAR1": ".parquet", b"ARROW1": ".feather", b"\x93NUMPY": ".npy", b"{": ".jsonl"}
SAMPLE = 10_000  # rows that show whether a column has few different strings
STANDARD_INPUT = "-"


def read_table(
    path: str | os.PathLike[str],
    drop: Collection[str] = (),
    missing_values: Collection[str] | None = None,
    notes: list[str] | None = None,
) -> pa.Table:
    """Reads a table: .csv, .tsv, .parquet, .feather, .arrow, .jsonl or .npy, the text ones also with .gz.

    The cells of .csv and .tsv files stay strings; what they mean is for `recognize` to say. Semicolons and tabs are seen
    by themselves.

    Arguments:
        path: The file, or "-" for standard input.
        drop: Columns to leave out before anything else is done with them.
        missing_values: The words that are missing values beside empty cells, in place of `MISSING`.
        notes: A list to which sentences are added that the user may want to read.
    """
    name, suffix = os.fspath(path), suffix_of(path)
    if name != STANDARD_INPUT and suffix not in READERS:
        raise ValueError(f"expected a table {', '.join(READERS)}, found {name}")
    if name != STANDARD_INPUT and not Path(name).is_file():
        raise FileNotFoundError(f"expected a table, found no file at {name}{_did_you_mean_file(Path(name))}")
    try:
        content = _content(name)
        suffix = suffix or next((kind for magic, kind in MAGIC.items() if content.startswith(magic)), ".csv")
        table = READERS[suffix](content, suffix)
        del content
        if len(table) == 0:
            raise ValueError("expected at least one row, found none")
        return tidy_table(table, suffix, drop, missing_values, [] if notes is None else notes)
    except ValueError as error:
        raise ValueError(f"{'standard input' if name == STANDARD_INPUT else name}: {error}") from error


def tidy_table(
    table: pa.Table, suffix: str, drop: Collection[str], missing_values: Collection[str] | None, notes: list[str]
) -> pa.Table:
    """What was read from a file with this suffix, without dropped columns, blanks and words that mean "missing"."""
    table = _name_columns(_without(table, drop), notes)
    check_names(table.column_names)
    table = standard_table(table) if suffix in DELIMITERS else trim(standard_table(table))
    return _with_holes(table, MISSING if missing_values is None else ("", *missing_values), notes)


def suffix_of(path: str | os.PathLike[str]) -> str:
    """What kind of file it is: the end of its name, before ``.gz``."""
    file = Path(path)
    return (file.with_suffix("") if file.suffix.lower() == ".gz" else file).suffix.lower()


def is_table(source: str | os.PathLike[str]) -> bool:
    """Whether it can be read as a table, by its name."""
    return os.fspath(source) == STANDARD_INPUT or suffix_of(source) in READERS


def _content(name: str) -> bytes:
    content = sys.stdin.buffer.read() if name == STANDARD_INPUT else Path(name).read_bytes()
    if not content.startswith(b"\x1f\x8b"):
        return content
    try:
        return gzip.decompress(content)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise ValueError(f"the gzip file is damaged ({error}): copy or fetch it again") from error


def _did_you_mean_file(path: Path) -> str:
    tables = [file for file in path.parent.glob("*") if is_table(file)]
    return did_you_mean(str(path), [str(file) for file in tables if did_you_mean(path.stem, [file.stem])])


def _without(table: pa.Table, drop: Collection[str]) -> pa.Table:
    """The table without some columns, of which several may have one name."""
    for name in drop:
        check_known(name, table.column_names)
    return table.select([i for i, name in enumerate(table.column_names) if name not in set(drop)])


def check_known(name: str, names: Sequence[str]) -> None:
    if name not in names:
        raise ValueError(f"expected the name of a column, found {name!r}{did_you_mean(name, names)}")


def _name_columns(table: pa.Table, notes: list[str]) -> pa.Table:
    """The table with names for columns without: row names that were written with it, or what follows a last comma."""
    named = [name or f"column {i}" for i, name in enumerate(table.column_names)]
    new = [name for name, old in zip(named, table.column_names, strict=True) if not old]
    if not new or len(new) == len(named) or len(set(named)) < len(named):
        return table
    notes.append(f"{plural(len(new), 'column')} without a name: called {list_names([*map(repr, new)])}")
    return table.rename_columns(named)


def _with_holes(table: pa.Table, words: Collection[str], notes: list[str]) -> pa.Table:
    """The table with null where a string means that a value is missing."""
    import pyarrow as pa
    import pyarrow.compute as pc

    listed, places, counts = pa.array(list(words)), defaultdict(list), Counter[str]()

    def with_holes(column: pa.ChunkedArray) -> tuple[pa.ChunkedArray, list[dict[str, Any]]]:
        if not pa.types.is_string(column.type):
            return column, []
        if len(column) > SAMPLE and pc.count_distinct(column[:SAMPLE]).as_py() < SAMPLE // 10:
            return _encode_words(column, listed)
        missing = pc.is_in(column, value_set=listed)
        if not pc.any(missing).as_py():
            return column, []
        return pc.if_else(missing, None, column), pc.value_counts(column.filter(missing)).to_pylist()

    columns, holes = zip(*in_threads(with_holes, table.columns), strict=True)
    for name, entries in zip(table.column_names, holes, strict=True):
        for entry in entries:
            counts[entry["values"]] += entry["counts"]
            places[entry["values"]].append(name)
    notes += [
        f"{word!r} counts as missing: {plural(count, 'cell')} of {list_names(places[word])}"
        for word, count in counts.most_common()
        if word
    ]
    return pa.table(list(columns), table.column_names)


def _encode_words(column: pa.ChunkedArray, words: pa.Array) -> tuple[pa.ChunkedArray, list[dict[str, Any]]]:
    """A column of few different strings as codes of them, null where one is among the words, and how often these occur."""
    import pyarrow as pa
    import pyarrow.compute as pc

    column = column.dictionary_encode()
    missing = np.asarray(pc.is_in(column.chunk(0).dictionary, value_set=words))
    if not missing.any():
        return column, []
    levels, codes = levels_of(column)
    counts = np.bincount(codes, minlength=len(levels))[missing].tolist()
    holes = [
        {"values": word, "counts": count}
        for word, count in zip(levels.filter(missing).to_pylist(), counts, strict=True)
    ]
    places = np.where(missing, -1, np.cumsum(~missing) - 1).astype(np.int32)[codes]
    coded = pa.DictionaryArray.from_arrays(pa.array(places, mask=places < 0), levels.filter(~missing))
    return pa.chunked_array([coded]), holes


def list_names(names: list[str], most: int = 5) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def _read_arrow(content: bytes, suffix: str) -> pa.Table:
    import pyarrow as pa
    import pyarrow.feather
    import pyarrow.json
    import pyarrow.parquet

    readers = {
        ".parquet": ("a Parquet file", pyarrow.parquet.read_table),
        ".jsonl": ("lines of JSON", _read_json),
    }
    what, read = readers.get(suffix, ("an Arrow file", pyarrow.feather.read_table))
    try:
        table = read(pa.BufferReader(content))
        table.validate(full=True)
    except (pa.ArrowException, OSError) as error:
        raise ValueError(f"expected {what}, found another or a damaged one ({error})") from error
    return table


def _read_json(lines: pa.BufferReader) -> pa.Table:
    """Lines of JSON, in which dates stay text, as they are written."""
    import pyarrow as pa
    import pyarrow.json

    table = pyarrow.json.read_json(lines)
    dates = [field.with_type(pa.string()) for field in table.schema if pa.types.is_temporal(field.type)]
    if not dates:
        return table
    lines.seek(0)
    parsing = pyarrow.json.ParseOptions(explicit_schema=pa.schema(dates))
    return pyarrow.json.read_json(lines, parse_options=parsing).select(table.column_names)


def _read_npy(content: bytes, suffix: str) -> pa.Table:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            array = np.lib.format.read_array(io.BytesIO(content), allow_pickle=False)
    except (MemoryError, OverflowError, RecursionError, SyntaxError, TypeError, tokenize.TokenError) as error:
        raise ValueError(f"expected an array of NumPy, found another file or a damaged one ({error})") from error
    return table_of(array)


READERS: dict[str, Callable[[bytes, str], Any]] = {
    ".csv": read_csv,
    ".tsv": read_csv,
    ".parquet": _read_arrow,
    ".feather": _read_arrow,
    ".arrow": _read_arrow,
    ".jsonl": _read_arrow,
    ".npy": _read_npy,
}
