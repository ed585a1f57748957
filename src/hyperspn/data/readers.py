"""Tables from files."""

from __future__ import annotations

import csv
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

from numpy.typing import NDArray

from ..checks import counted, did_you_mean
from .arrays import in_threads, levels_of
from .frames import MISSING, check_names, standard_table, table_of

if TYPE_CHECKING:
    import pyarrow as pa

DELIMITERS = {".csv": ",", ".tsv": "\t"}
GUESSED = (",", ";", "\t")
MAGIC = {b"PAR1": ".parquet", b"ARROW1": ".feather", b"\x93NUMPY": ".npy", b"{": ".jsonl"}
BLOCK = 1 << 21
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
        raise FileNotFoundError(f"expected a table, found no file at {name}")
    try:
        content = _content(name)
        suffix = suffix or next((kind for magic, kind in MAGIC.items() if content.startswith(magic)), ".csv")
        table = _without(READERS[suffix](content, suffix), drop)
        del content
        notes = [] if notes is None else notes
        table = _named(table, notes)
        check_names(table.column_names)
        if len(table) == 0:
            raise ValueError("expected at least one row, found none")
        table = standard_table(table) if suffix in DELIMITERS else _trimmed(standard_table(table))
        words = MISSING if missing_values is None else ("", *missing_values)
        return _with_holes(table, words, notes)
    except ValueError as error:
        raise ValueError(f"{'standard input' if name == STANDARD_INPUT else name}: {error}") from error


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


def _without(table: pa.Table, drop: Collection[str]) -> pa.Table:
    """The table without some columns, of which several may have one name."""
    for name in drop:
        check_known(name, table.column_names)
    return table.select([i for i, name in enumerate(table.column_names) if name not in set(drop)])


def check_known(name: str, names: Sequence[str]) -> None:
    if name not in names:
        raise ValueError(f"expected the name of a column, found {name!r}{did_you_mean(name, names)}")


def _named(table: pa.Table, notes: list[str]) -> pa.Table:
    """The table with a name for its first column, which has none where row names were written with a table."""
    names = table.column_names
    if len(names) < 2 or names[0] or "column 0" in names:
        return table
    notes.append("the first column has no name: it is called 'column 0'")
    return table.rename_columns(["column 0", *names[1:]])


def _with_holes(table: pa.Table, words: Collection[str], notes: list[str]) -> pa.Table:
    """The table with null where a string means that a value is missing."""
    import pyarrow as pa
    import pyarrow.compute as pc

    listed, places, counts = pa.array(list(words)), defaultdict(list), Counter[str]()

    def with_holes(column: pa.ChunkedArray) -> tuple[pa.ChunkedArray, list[dict[str, Any]]]:
        if not pa.types.is_string(column.type):
            return column, []
        if len(column) > SAMPLE and pc.count_distinct(column[:SAMPLE]).as_py() < SAMPLE // 10:
            return _coded(column, listed)
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
        f"{word!r} counts as missing: {counted(count, 'cell')} of {_listed(places[word])}"
        for word, count in counts.most_common()
        if word
    ]
    return pa.table(list(columns), table.column_names)


def _coded(column: pa.ChunkedArray, words: pa.Array) -> tuple[pa.ChunkedArray, list[dict[str, Any]]]:
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


def _trimmed(table: pa.Table) -> pa.Table:
    """The table without blanks around its strings."""
    import pyarrow as pa
    import pyarrow.compute as pc

    def trim(column: pa.ChunkedArray) -> pa.ChunkedArray:
        return pc.utf8_trim_whitespace(column) if pa.types.is_string(column.type) else column

    return pa.table(in_threads(trim, table.columns), table.column_names)


def _listed(names: list[str], most: int = 5) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def _read_csv(content: bytes, suffix: str) -> pa.Table:
    import pyarrow as pa
    import pyarrow.csv as arrow_csv

    content = content.removeprefix(b"\xef\xbb\xbf")
    content = content.rstrip(b"\r\n") if content.endswith((b"\n\n", b"\n\r\n")) else content
    if not content or content.isspace():
        raise ValueError("expected a header and rows, found an empty file")
    delimiter = _delimiter(content, DELIMITERS.get(suffix, ","))
    tidy = content if _is_tidy(content, delimiter) else _tidied(content, delimiter)
    names, start = _header(tidy, delimiter)
    columns = [str(i) for i in range(len(names))]
    if start == len(tidy):
        return pa.table([pa.array([], "string")] * len(names), names)
    rows = pa.py_buffer(tidy).slice(start)
    parsing = arrow_csv.ParseOptions(
        delimiter=delimiter, newlines_in_values=b'"' in tidy, ignore_empty_lines=len(names) > 1
    )
    strings = arrow_csv.ConvertOptions(column_types=dict.fromkeys(columns, pa.string()), strings_can_be_null=False)
    try:
        for block in (BLOCK, len(tidy)):
            try:
                reading = arrow_csv.ReadOptions(column_names=columns, block_size=block)
                table = arrow_csv.read_csv(pa.BufferReader(rows), reading, parsing, strings)
                break
            except pa.ArrowInvalid as error:
                if "straddl" not in str(error):  # a row that is longer than the block
                    raise
    except pa.ArrowInvalid as error:
        _check_lines(content, delimiter)
        raise ValueError(f"expected cells with {delimiter!r} between, found a fault: {error}") from error
    if len(names) > 1 and len(table) != tidy.count(b"\n", start) + (not tidy.endswith(b"\n")):
        _check_lines(content, delimiter)  # there is an empty line, or a cell of several lines
    table = table.rename_columns(names)
    return _trimmed(table) if _has_blanks(tidy, delimiter) else table


def _delimiter(content: bytes, usual: str) -> str:
    """What stands between cells: that which cuts the first lines into the most cells, equally many in each."""
    lines = content[: 1 << 16].decode(errors="replace").splitlines(keepends=True)[:20]
    best, most = usual, (False, 1)
    for delimiter in (usual, *GUESSED):
        try:
            widths = [len(cells) for cells in _csv_rows(lines, delimiter)]
        except csv.Error:
            continue
        cut = (widths[0] > 1 and len(set(widths)) == 1, widths[0])
        best, most = (delimiter, cut) if cut > most else (best, most)
    return best


def _csv_rows(lines: Any, delimiter: str) -> Any:
    return csv.reader(lines, delimiter=delimiter, skipinitialspace=True, strict=True)


def _is_tidy(content: bytes, delimiter: str, block: int = BLOCK) -> bool:
    """Whether quotes stand only around whole cells, and in pairs within: then all readers agree about them."""
    if b'"' not in content:
        return b"\n" in content or b"\r" not in content
    text, is_edge = np.frombuffer(content, np.uint8), _edges(delimiter)
    opened = 0
    for start in range(0, len(text), block):
        quotes = start + np.flatnonzero(text[start : start + block] == ord('"'))
        before, after = _neighbors(text, quotes[opened::2])[0], _neighbors(text, quotes[1 - opened :: 2])[1]
        if not (is_edge[before].all() and is_edge[after].all()):
            return False
        opened = (opened + len(quotes)) % 2
    return opened == 0


def _has_blanks(content: bytes, delimiter: str, block: int = BLOCK) -> bool:
    """Whether a cell may begin or end with a blank: with one of ASCII, or with any other character."""
    text, is_edge = np.frombuffer(content, np.uint8), _edges(delimiter)
    for start in range(0, len(text), block):
        unusual = start + np.flatnonzero(text[start : start + block].view(np.int8) <= ord(" "))  # also above 127
        before, after = _neighbors(text, unusual[~is_edge[text[unusual]]])
        if is_edge[before].any() or is_edge[after].any():
            return True
    return bool(text[-1] == ord(" ") or text[-1] > 127)


def _edges(delimiter: str) -> NDArray[np.bool_]:
    """Which bytes may stand before and after a cell, (256,)."""
    return np.isin(np.arange(256), list(b'"\r\n' + delimiter.encode()))


def _neighbors(text: NDArray[np.uint8], places: NDArray[np.intp]) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """The bytes before and after; at the ends of the text the byte itself."""
    return text[(places - 1).clip(0)], text[(places + 1).clip(max=len(text) - 1)]


def _tidied(content: bytes, delimiter: str) -> bytes:
    """The same cells, all of them in quotes."""
    _check_lines(content, delimiter)
    tidy = io.StringIO()
    rows = _csv_rows(io.StringIO(content.decode(), newline=""), delimiter)
    csv.writer(tidy, delimiter=delimiter, lineterminator="\n", quoting=csv.QUOTE_ALL).writerows(rows)
    return tidy.getvalue().encode().rstrip(b"\n")


def _check_lines(content: bytes, delimiter: str) -> None:
    """Raises an error that names the first line at fault."""
    try:
        rows = _csv_rows(io.StringIO(content.decode(), newline=""), delimiter)
    except UnicodeDecodeError as error:
        raise ValueError("expected text in UTF-8, found other bytes: save the file as UTF-8") from error
    width = None
    try:
        for cells in rows:
            width = len(cells) if width is None else width
            if len(cells) != width:
                raise ValueError(f"expected {width} cells as in the header, found {len(cells)} in line {rows.line_num}")
    except csv.Error as error:
        raise ValueError(f"expected cells with {delimiter!r} between, found {error} in line {rows.line_num}") from error


def _header(content: bytes, delimiter: str) -> tuple[list[str], int]:
    """The names of the columns, and where the rows begin."""
    lines = io.BytesIO(content)
    try:
        names = next(_csv_rows((line.decode() for line in lines), delimiter))
    except (csv.Error, UnicodeDecodeError):
        _check_lines(content, delimiter)
        raise
    return [name.strip() for name in names], lines.tell()


def _read_arrow(content: bytes, suffix: str) -> pa.Table:
    import pyarrow as pa
    import pyarrow.feather
    import pyarrow.json
    import pyarrow.parquet

    readers = {
        ".parquet": ("a Parquet file", pyarrow.parquet.read_table),
        ".jsonl": ("lines of JSON", pyarrow.json.read_json),
    }
    what, read = readers.get(suffix, ("an Arrow file", pyarrow.feather.read_table))
    try:
        table = read(pa.BufferReader(content))
        table.validate(full=True)
    except (pa.ArrowException, OSError) as error:
        raise ValueError(f"expected {what}, found another or a damaged one ({error})") from error
    return table


def _read_npy(content: bytes, suffix: str) -> pa.Table:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            array = np.lib.format.read_array(io.BytesIO(content), allow_pickle=False)
    except (MemoryError, OverflowError, RecursionError, SyntaxError, TypeError, tokenize.TokenError) as error:
        raise ValueError(f"expected an array of NumPy, found another file or a damaged one ({error})") from error
    return table_of(array)


READERS: dict[str, Callable[[bytes, str], Any]] = {
    ".csv": _read_csv,
    ".tsv": _read_csv,
    ".parquet": _read_arrow,
    ".feather": _read_arrow,
    ".arrow": _read_arrow,
    ".jsonl": _read_arrow,
    ".npy": _read_npy,
}
