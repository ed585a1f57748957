"""The command that shows what the columns of a table are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..data import Column, Schema
from .options import (
    TABLES,
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

if TYPE_CHECKING:
    import pyarrow as pa

app = typer.Typer()
DOMINATES, MANY_STATES = 0.5, 200
HEADER = ("column", "kind", "missing", "distinct", "point masses", "bounds", "cost")


@app.command(rich_help_panel=TABLES)
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
    from ..data import recognize

    notes: list[str] = []
    table = open_table(data, data_dir, drop=drop or (), missing_values=words(missing_values), notes=notes)
    schema = recognize(table, notes=notes, **wishes(kind, bounds, missing_as_data))
    described = describe(schema, table)
    notes += [
        f"column {entry['column']!r} takes about {entry['cost']:.0%} of the training time"
        for entry in described
        if entry["cost"] > DOMINATES and entry["states"] > MANY_STATES
    ]
    if as_json:
        print_json({"rows": len(table), "columns": described, "notes": notes})
        return
    tell(note for note in notes if " is left out: " not in note)
    print_table(HEADER, [[_cell(entry, name.replace(" ", "_")) for name in HEADER] for entry in described], plain=True)
    print(f"{len(table):,} rows; cost is a column's part of the work; --kind column=... decides otherwise")


def describe(schema: Schema, table: pa.Table) -> list[dict[str, Any]]:
    """What was recognized for every column of a table, in its order."""
    modeled = {column.name: column for column in schema.columns}
    states = {name: _states(column) for name, column in modeled.items()}
    left_out, total = dict(schema.left_out), sum(states.values())
    return [
        {
            "column": name,
            "kind": modeled[name].kind if name in modeled else "left out",
            "reason": left_out.get(name),
            "missing": values.null_count,
            "distinct": len(values.unique().drop_null()),
            "point_masses": _points(modeled.get(name)),
            "bounds": modeled[name].bounds() if name in modeled else "",
            "states": states.get(name, 0),
            "cost": states.get(name, 0) / total,
        }
        for name, values in zip(table.column_names, table.columns, strict=True)
    ]


def _states(column: Column) -> int:
    """The number of leaf distributions of a column."""
    from ..learning.recipes import leaf_families

    return leaf_families(Schema((column,)))[0].width


def _points(column: Column | None) -> list[Any]:
    import numpy as np

    return [] if column is None or column.scale is None else column.decode(np.array(column.scale.points)).to_pylist()


def _cell(entry: dict[str, Any], name: str) -> Any:
    value = entry[name]
    if name == "kind" and entry["reason"]:
        return f"{value}: {entry['reason']}"
    if name == "cost":
        return f"{value:.0%}" if value else ""
    if isinstance(value, list):
        return ", ".join(map(str, value[:2])) + (f", ... ({len(value)})" if len(value) > 2 else "")
    return value
