"""Describes the columns of a table: what was recognized, and what it costs."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from .columns import Column
from .schema import Schema

if TYPE_CHECKING:
    import pyarrow as pa

MEMBERS = 32  # normal distributions of a numeric column
DOMINANT = 0.5
CHEAP = 100  # so many distributions are no burden


class Description(NamedTuple):
    """What is known of a column.

    Arguments:
        name: The name of the column.
        kind: What it is, or "left out".
        missing: The number of missing values.
        distinct: The number of different values.
        point_masses: How many values of a numeric column occur often.
        bounds: Its bounds, like ``0..100``.
        distributions: The number of leaf distributions that it needs.
        cost: Its share of all of them, and so about of the work at the leaves.
        reason: Why it is left out.
    """

    name: str
    kind: str
    missing: int
    distinct: int
    point_masses: int = 0
    bounds: str = ""
    distributions: int = 0
    cost: float = 0.0
    reason: str = ""


def describe(schema: Schema, table: pa.Table, notes: list[str] | None = None) -> list[Description]:
    """Every column of the table: what it is, what it holds, what it costs.

    Arguments:
        schema: What was recognized.
        table: The table.
        notes: A list to which a sentence is added about a column that dominates the time of training.
    """
    import pyarrow.compute as pc

    columns, reasons = {column.name: column for column in schema.columns}, dict(schema.left_out)
    total = sum(map(_distributions, schema.columns))
    described = []
    for name, values in zip(table.column_names, table.columns, strict=True):
        missing = pc.sum(values.is_null(nan_is_null=True)).as_py() or 0
        distinct = len(values.drop_null().unique())
        if name not in columns:
            described.append(Description(name, "left out", missing, distinct, reason=reasons.get(name, "")))
            continue
        column = columns[name]
        points = len(column.scale.points) if column.scale else 0
        count = _distributions(column)
        described.append(
            Description(name, column.kind, missing, distinct, points, column.bounds(), count, count / total)
        )
        if notes is not None and count > CHEAP and count > DOMINANT * total:
            notes.append(
                f"column {name!r} takes {count / total:.0%} of the work at the leaves ({count:,} of {total:,} "
                "distributions): drop it if it does not matter"
            )
    return described


def _distributions(column: Column) -> int:
    if column.scale is None:
        return column.size
    return MEMBERS + len(column.scale.points) + column.missing_as_data
