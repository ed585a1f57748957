"""CSV and TSV files."""

from __future__ import annotations

import csv
import io

from typing import TYPE_CHECKING, Any

import numpy as np

from numpy.typing import NDArray

from .arrays import in_threads

if TYPE_CHECKING:
    import pyarrow as pa

DELIMITERS = {".csv": ",", ".tsv": "\t"}
GUESSED = (",", ";", "\t", "|")
BLOCK, PARSED_BLOCK = 1 << 21, 1 << 23


def read_csv(content: bytes, suffix: str) -> pa.Table:
    import pyarrow as pa

    content = content.removeprefix(b"\xef\xbb\xbf")
    content = content.rstrip(b"\r\n") if content.endswith((b"\n\n", b"\n\r\n")) else content
    if not content or content.isspace():
        raise ValueError("expected a header and rows, found an empty file")
    delimiter = _delimiter(content, DELIMITERS.get(suffix, ","))
    tidy = content if _is_tidy(content, delimiter) else _quote_cells(content, delimiter)
    names, start = _header(tidy, delimiter)
    if start == len(tidy):
        return pa.table([pa.array([], "string")] * len(names), names)
    try:
        table = _parse(pa.py_buffer(tidy).slice(start), len(names), delimiter, b'"' in tidy)
    except pa.ArrowInvalid as error:
        _check_lines(content, delimiter)
        raise ValueError(f"expected cells with {delimiter!r} between, found a fault: {error}") from error
    lines, has_blanks = _lines_and_blanks(memoryview(tidy)[start:], delimiter)
    if len(names) > 1 and len(table) != lines:
        _check_lines(content, delimiter)  # there is an empty line, or a cell of several lines
    table = table.rename_columns(names)
    return trim(table) if has_blanks else table


def _parse(rows: pa.Buffer, width: int, delimiter: str, has_quotes: bool) -> pa.Table:
    """Rows of so many strings."""
    import pyarrow as pa
    import pyarrow.csv as arrow_csv

    names = [str(i) for i in range(width)]
    parsing = arrow_csv.ParseOptions(delimiter=delimiter, newlines_in_values=has_quotes, ignore_empty_lines=width > 1)
    strings = arrow_csv.ConvertOptions(column_types=dict.fromkeys(names, pa.string()), strings_can_be_null=False)

    def parse(block: int) -> pa.Table:
        reading = arrow_csv.ReadOptions(column_names=names, block_size=block, use_threads=rows.size > block)
        return arrow_csv.read_csv(pa.BufferReader(rows), reading, parsing, strings)

    try:
        return parse(PARSED_BLOCK)
    except pa.ArrowInvalid as error:
        if "straddl" not in str(error):  # a row that is longer than a block
            raise
        return parse(rows.size)


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


def _lines_and_blanks(rows: memoryview, delimiter: str, block: int = BLOCK) -> tuple[int, bool]:
    """The number of lines, and whether a cell may begin or end with a blank: one of ASCII, or any other character."""
    text, is_edge = np.frombuffer(rows, np.uint8), _edges(delimiter)
    lines, has_blanks = int(text[-1] != ord("\n")), bool(text[-1] == ord(" ") or text[-1] > 127)
    for start in range(0, len(text), block):
        unusual = start + np.flatnonzero(text[start : start + block].view(np.int8) <= ord(" "))  # also above 127
        characters = text[unusual]
        lines += np.count_nonzero(characters == ord("\n"))
        before, after = _neighbors(text, unusual[~is_edge[characters]])
        has_blanks = has_blanks or bool(is_edge[before].any() or is_edge[after].any())
    return lines, has_blanks


def _edges(delimiter: str) -> NDArray[np.bool_]:
    """Which bytes may stand before and after a cell, (256,)."""
    return np.isin(np.arange(256), list(b'"\r\n' + delimiter.encode()))


def _neighbors(text: NDArray[np.uint8], places: NDArray[np.intp]) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """The bytes before and after; at the ends of the text the byte itself."""
    return text[(places - 1).clip(0)], text[(places + 1).clip(max=len(text) - 1)]


def _quote_cells(content: bytes, delimiter: str) -> bytes:
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


def trim(table: pa.Table) -> pa.Table:
    """The table without blanks around its strings."""
    import pyarrow as pa
    import pyarrow.compute as pc

    def trim(column: pa.ChunkedArray) -> pa.ChunkedArray:
        return pc.utf8_trim_whitespace(column) if pa.types.is_string(column.type) else column

    return pa.table(in_threads(trim, table.columns), table.column_names)
