"""What commands print."""

from __future__ import annotations

import json
import sys

from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table as RichTable

from ..data import Schema, csv_text, write_table
from ..data.writers import printable
from ..experiments import Report

if TYPE_CHECKING:
    import pyarrow as pa

SHORT = 20


def write_or_print(table: pa.Table, path: Path | None) -> None:
    if path is None:
        print(printable(csv_text(table)), end="")
    else:
        write_table(table, path)


def show_columns(schema: Schema) -> None:
    kinds: dict[str, list[str]] = {}
    for column in schema.columns:
        kinds.setdefault(column.kind, []).append(column.name)
    for kind, names in kinds.items():
        listed = ", ".join(names[:8]) + (", ..." if len(names) > 8 else "")
        print(f"{len(names)} {kind}: {listed}")


def print_values(found: dict[str, Any], rows: list[Any], header: tuple[str, ...], as_json: bool) -> None:
    """Prints JSON, or a table."""
    if as_json:
        print(json.dumps(found))
        return
    table = RichTable(*header)
    for name, *cells in rows:
        table.add_row(str(name), *(_formatted(cell) for cell in cells))
    Console(markup=False, emoji=False).print(table)


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


def _formatted(cell: Any) -> str:
    if isinstance(cell, float):
        return f"{cell:,.4f}"
    return f"{cell:,}" if isinstance(cell, int) else str(cell)
