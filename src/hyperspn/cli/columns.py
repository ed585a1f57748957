"""The command that shows what the columns of a table are."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from ..data import Description, describe, recognize
from .options import (
    TABLES_PANEL,
    Bounds,
    DataDir,
    Drop,
    Json,
    Kind,
    MissingAsData,
    MissingValues,
    wishes,
    words,
)
from .output import print_json, print_table, tell
from .rows import open_table

app = typer.Typer()
HEADER = ("column", "kind", "missing", "distinct", "point masses", "bounds", "cost")


@app.command(rich_help_panel=TABLES_PANEL)
def columns(
    data: Annotated[str, typer.Argument(help="A table: a file, - for standard input, or a name like penguins.")],
    drop: Drop = None,
    kind: Kind = None,
    bounds: Bounds = None,
    missing_as_data: MissingAsData = False,
    missing_values: MissingValues = None,
    data_dir: DataDir = None,
    as_json: Json = False,
) -> None:
    """Show what each column of a table is taken for, before any training.

    Example: hyperspn columns people.csv --kind zip=categorical
    """
    notes: list[str] = []
    table = open_table(data, data_dir, drop=drop or (), missing_values=words(missing_values), notes=notes)
    schema = recognize(table, notes=notes, **wishes(kind, bounds, missing_as_data))
    described = describe(schema, table, notes)
    if as_json:
        print_json({"rows": len(table), "columns": [column._asdict() for column in described], "notes": notes})
        return
    tell(note for note in notes if " is left out: " not in note)
    print_table(HEADER, map(_cells, described))
    print(f"{len(table):,} rows; cost is a column's part of the work; --kind column=... decides otherwise")


def _cells(column: Description) -> list[Any]:
    kind = f"{column.kind}: {column.reason}" if column.reason else column.kind
    cost = f"{column.cost:.0%}" if column.distributions else ""
    return [column.name, kind, column.missing, column.distinct, column.point_masses or "", column.bounds, cost]
