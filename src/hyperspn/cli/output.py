"""What commands print."""

from __future__ import annotations

import json
import sys

from collections.abc import Iterable, Sequence
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from numpy.typing import NDArray
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table as RichTable

from ..data import csv_text, write_table
from ..data.writers import printable

if TYPE_CHECKING:
    import pyarrow as pa

    from ..experiments import Report

SHORT = 20
BAR = 24
UNIT = "mean log-likelihood of a row, in nats"


def tell(notes: Iterable[str]) -> None:
    """Prints sentences that the user may want to read, one per line, on standard error."""
    for note in dict.fromkeys(notes):
        print(f"note: {one_line(note)}", file=sys.stderr)


def impossible_rows(log_p: NDArray[np.float64], rows: str = "rows") -> list[str]:
    """A sentence that says why the mean of log-likelihoods, (rows,), is minus infinity, if it is."""
    count = int(np.isneginf(log_p).sum())
    verb = "has" if count == 1 else "have"
    sentence = f"{count:,} of {len(log_p):,} {rows} {verb} probability 0, and so the mean is minus infinity"
    return [sentence] if count else []


def one_line(text: Any) -> str:
    """Text that neither breaks a line nor controls a terminal."""
    return printable(str(text)).replace("\n", "\\n").replace("\t", "\\t")


def write_or_print(table: pa.Table, path: Path | None, excel_safe: bool = False, header: bool = True) -> None:
    if path is None:
        print(printable(csv_text(table, header=header, excel_safe=excel_safe)), end="")
    else:
        write_table(table, path, excel_safe)


def print_json(answer: Any) -> None:
    """Prints JSON, with null for numbers that are not finite, which it does not have."""
    print(json.dumps(_finite(answer), default=str, allow_nan=False))


def print_values(answer: dict[str, Any], rows: list[Any], header: tuple[str, ...], as_json: bool) -> None:
    """Prints JSON, or a table."""
    if as_json:
        print_json(answer)
    else:
        print_table(header, rows)


def print_table(header: Sequence[Any], rows: Iterable[Sequence[Any]]) -> None:
    """Prints a table, numbers to the right."""
    shown = RichTable(box=SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False)
    cells = [list(row) for row in rows]
    for i, label in enumerate(header):
        numbers = bool(cells) and all(isinstance(row[i], int | float) for row in cells)
        shown.add_column(one_line(label), justify="right" if numbers else "left", overflow="fold", no_wrap=i == 0)
    for row in cells:
        shown.add_row(*(_format_cell(cell) for cell in row))
    Console(markup=False, emoji=False, highlight=False).print(shown)


def show_report(report: Report) -> None:
    """Prints as many columns as there is room for; cells of up to `SHORT` characters are not broken."""
    console = Console(width=None if sys.stdout.isatty() else 240)
    shown = RichTable(title=report.title, title_justify="left", box=SIMPLE_HEAD, padding=0)
    room = console.width - 2
    for label, *cells in zip([column.label for column in report.columns], *report.cells(), strict=True):
        longest = max((len(text) for text, _ in cells), default=0)
        width = max(min(longest, SHORT), *map(len, label.split()))
        room -= width + 1
        if room < 0 and shown.columns:
            break
        shown.add_column(label, min_width=width, justify="right" if shown.columns and longest <= SHORT else "left")
    for row in report.cells():
        shown.add_row(*(f"[bold]{text}[/bold]" if bold else text for text, bold in row[: len(shown.columns)]))
    console.print(shown)


def probability(p: float) -> str:
    """A probability with as many digits as say something."""
    return f"{p:.4f}" if p >= 0.001 or p == 0 else f"{p:.2g}"


def bar(share: float) -> str:
    """A bar that is as long as a share of 1."""
    can_draw = (sys.stdout.encoding or "").lower().startswith("utf")
    return ("█" if can_draw else "#") * round(BAR * share)


def _format_cell(cell: Any) -> str:
    if isinstance(cell, float):
        return f"{cell:,.4f}"
    return f"{cell:,}" if isinstance(cell, int) and not isinstance(cell, bool) else one_line(cell)


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(entry) for entry in value]
    return None if isinstance(value, float) and not isfinite(value) else value
