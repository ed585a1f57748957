"""Pieces: files of any size, read a part at a time."""

from __future__ import annotations

import os

from collections.abc import Collection, Iterator
from glob import glob, has_magic
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from .csv_files import DELIMITERS, read_csv
from .readers import suffix_of, tidy_table

if TYPE_CHECKING:
    import pyarrow as pa

BLOCK = 1 << 24  # bytes of a text file that are read together
FORMATS = (".parquet", *DELIMITERS)


class Piece(NamedTuple):
    """A part of a file: a row group of Parquet, or lines of text.

    Arguments:
        path: The file.
        name: Its name below the folder of all files.
        start: The number of the row group, or the byte where the lines begin.
        stop: One more, or the byte where they end.
        first: The number of the first row in the file.
        rows: The number of rows.
    """

    path: str
    name: str
    start: int
    stop: int
    first: int
    rows: int


def is_files(source: str | os.PathLike[str]) -> bool:
    """Whether it names several files: a folder with tables, or a pattern like ``rows/*.parquet``."""
    name = os.fspath(source)
    if Path(name).is_dir():
        return bool(_tables_in(name))
    return has_magic(name) and not Path(name).exists()


def find_files(source: str | os.PathLike[str]) -> list[str]:
    """The Parquet, CSV and TSV files of a folder or pattern, or the file itself, in the order of their names."""
    name = os.fspath(source)
    if Path(name).is_file():
        paths = [name]
    else:
        paths = _tables_in(name) if Path(name).is_dir() else sorted(glob(name, recursive=True))
    if not paths:
        raise FileNotFoundError(f"expected files {', '.join(FORMATS)}, found none at {name}")
    for path in paths:
        if suffix_of(path) not in FORMATS or path.endswith(".gz"):
            raise ValueError(f"expected files {', '.join(FORMATS)} to read in parts, found {path}")
    return paths


def _tables_in(folder: str) -> list[str]:
    return sorted(str(path) for path in Path(folder).rglob("*") if path.suffix.lower() in FORMATS)


def pieces_of(source: str | os.PathLike[str]) -> list[Piece]:
    """The pieces of all files (see `find_files`), without those that have no rows."""
    files = find_files(source)
    root = os.path.commonpath([os.path.dirname(os.path.abspath(path)) for path in files])
    pieces: list[Piece] = []
    for path in files:
        name = Path(os.path.relpath(path, root)).as_posix()
        pieces += _row_groups(path, name) if suffix_of(path) == ".parquet" else _blocks(path, name)
    return [piece for piece in pieces if piece.rows]


def read_piece(piece: Piece, drop: Collection[str] = (), missing_values: Collection[str] | None = None) -> pa.Table:
    """Reads the rows of a piece, as `read_table` reads those of a whole file."""
    suffix = suffix_of(piece.path)
    try:
        table = _read_rows(piece) if suffix == ".parquet" else read_csv(_read_lines(piece), suffix)
        if len(table) != piece.rows:
            raise ValueError(f"expected {piece.rows:,} rows from row {piece.first + 1:,} on, found {len(table):,}")
        return tidy_table(table, suffix, drop, missing_values, [])
    except ValueError as error:
        raise ValueError(f"{piece.path}: {error}") from error


def _row_groups(path: str, name: str) -> Iterator[Piece]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        footer = pq.read_metadata(path)
    except (pa.ArrowException, OSError) as error:
        raise ValueError(f"{path}: expected a Parquet file, found another or a damaged one ({error})") from error
    first = 0
    for group in range(footer.num_row_groups):
        rows = footer.row_group(group).num_rows
        yield Piece(path, name, group, group + 1, first, rows)
        first += rows


def _read_rows(piece: Piece) -> pa.Table:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(piece.path) as file:
            return file.read_row_group(piece.start)
    except (pa.ArrowException, OSError) as error:
        raise ValueError(f"expected a Parquet file, found another or a damaged one ({error})") from error


def _blocks(path: str, name: str) -> Iterator[Piece]:
    """Cuts a text file at ends of lines that are not within quotes."""
    with open(path, "rb") as file:
        start = len(file.readline())
        file.seek(start)
        first, rest = 0, b""
        while block := file.read(BLOCK):
            lines = rest + block
            end = _last_end(lines) if len(block) == BLOCK else len(lines)
            rest = lines[end:]
            if end:
                rows = _count_rows(path, lines[:end])
                yield Piece(path, name, start, start + end, first, rows)
                first, start = first + rows, start + end
        if rest:
            yield Piece(path, name, start, start + len(rest), first, _count_rows(path, rest))


def _last_end(lines: bytes) -> int:
    """Where the last line ends that is complete."""
    end = lines.rfind(b"\n") + 1
    while end and lines.count(b'"', 0, end) % 2:
        end = lines.rfind(b"\n", 0, end - 1) + 1
    return end


def _count_rows(path: str, lines: bytes) -> int:
    if b'"' not in lines and b"\n\n" not in lines and b"\r" not in lines:
        return lines.count(b"\n") + (not lines.endswith(b"\n"))
    return len(read_csv(_header(path) + lines, suffix_of(path)))


def _header(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.readline().rstrip(b"\r\n") + b"\n"


def _read_lines(piece: Piece) -> bytes:
    with open(piece.path, "rb") as file:
        file.seek(piece.start)
        return _header(piece.path) + file.read(piece.stop - piece.start)
