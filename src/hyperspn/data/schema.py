"""Schema: the columns of a table together."""

from __future__ import annotations

import hashlib
import json

from dataclasses import dataclass
from math import log, nan
from typing import TYPE_CHECKING, Any

import numpy as np

from numpy.typing import NDArray

from ..checks import did_you_mean
from .arrays import in_threads, is_text
from .columns import Column
from .frames import check_names
from .readers import check_known, list_names

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class Schema:
    """The columns of a table: how it becomes rows for a circuit, and how rows become tables again.

    Arguments:
        columns: The columns, in the order of the circuit's variables.
        left_out: Names of columns that are not modeled, each with the reason.

    Example:
        >>> import pyarrow as pa
        >>> from hyperspn.data import recognize
        >>> table = pa.table({"color": ["red", "blue", None], "size": [1.5, 2.5, 3.5]})
        >>> schema = recognize(table)
        >>> [column.kind for column in schema.columns]
        ['categorical', 'numeric']
        >>> schema.encode(table)[:, 0]
        array([ 1.,  0., nan])
    """

    columns: tuple[Column, ...]
    left_out: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        check_names(self.names)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)

    def index(self, name: str) -> int:
        """The number of a column."""
        if name in dict(self.left_out):
            raise ValueError(f"column {name!r} is not modeled: {dict(self.left_out)[name]}")
        check_known(name, self.names)
        return self.names.index(name)

    def encode(self, table: pa.Table, strict: bool = False, notes: list[str] | None = None) -> NDArray[np.float64]:
        """The table as codes and numbers, (rows, variables), NaN where missing.

        Columns are looked up by their names; others are ignored. A column that is absent counts as missing, and so does
        a value that the model does not know (see `Column.encode`). Messages count rows from 1.

        Arguments:
            table: The table.
            strict: Whether absent columns and unknown values are errors.
            notes: A list to which sentences about them are added.
        """
        absent = [name for name in self.names if name not in table.column_names]
        others = [name for name in table.column_names if name not in self.names]
        if absent and (strict or len(absent) == len(self.columns)):
            raise ValueError(f"expected a column named {absent[0]!r}, found none{did_you_mean(absent[:1], others)}")
        if absent and notes is not None:
            what = "is no column {}: it counts" if len(absent) == 1 else "are no columns {}: they count"
            listed = list_names([*map(repr, absent)], most=20)
            notes.append(f"there {what.format(listed)} as missing{did_you_mean(absent, others)}")
        x = np.empty((len(table), len(self.columns)), order="F")

        def encode(variable: int, column: Column) -> list[str]:
            told: list[str] = []
            is_absent = column.name in absent
            x[:, variable] = nan if is_absent else column.encode(table.column(column.name), strict, told)
            return told

        for told in in_threads(encode, range(len(self.columns)), self.columns):
            if notes is not None:
                notes += told
        return x

    def decode(self, x: NDArray[np.floating], seed: int | None = None) -> pa.Table:
        """The table of codes and numbers, (rows, variables), null where they are NaN or "missing".

        With a seed, pooled categories are drawn by their shares (see `Column.decode`).
        """
        import pyarrow as pa

        if x.ndim != 2 or x.shape[1] != len(self.columns):
            raise ValueError(f"expected x of shape (rows, {len(self.columns)}), found {x.shape}")
        return pa.table(
            [column.decode(codes, seed) for column, codes in zip(self.columns, x.T, strict=True)], self.names
        )

    def numbers(self, x: NDArray[np.floating]) -> NDArray[np.float64]:
        """The values of codes and numbers where all columns have numbers, (rows, variables)."""
        import pyarrow as pa

        columns = self.decode(x).columns
        for name, column in zip(self.names, columns, strict=True):
            if not pa.types.is_integer(column.type) and not pa.types.is_floating(column.type):
                raise ValueError(f"expected columns of numbers, found {column.type} in column {name!r}")
        return np.stack([column.to_numpy().astype(np.float64) for column in columns], 1)

    def fill(self, table: pa.Table, x: NDArray[np.floating]) -> pa.Table:
        """The table with its missing values taken from rows, (rows, variables), and all else as it was."""
        decoded = self.decode(x)
        for i, name in enumerate(table.column_names):
            if name in decoded.column_names:
                table = table.set_column(i, name, _fill_holes(table.column(name), decoded.column(name)))
        return table

    def outside(self, x: NDArray[np.float64]) -> dict[str, int]:
        """How many rows are outside the bounds of each column where any is; they have probability 0."""
        counts = {column.name: int(column.outside(x[:, i]).sum()) for i, column in enumerate(self.columns)}
        return {name: count for name, count in counts.items() if count}

    def log_scale(self, x: NDArray[np.floating]) -> NDArray[np.float64]:
        """What to subtract from the log-densities of rows to have those of the table, (rows,).

        log p(table) = log p(x) - sum log std   over the known values of columns that are standardized
        """
        return ~np.isnan(x) @ np.array([log(column.std) for column in self.columns])

    def digest(self) -> str:
        """A short name of all that the schema says: two that differ have different ones."""
        text = json.dumps(self.to_dict(), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def to_dict(self) -> dict[str, Any]:
        """The schema as lists, strings and numbers, for JSON."""
        left_out = {"left_out": [list(entry) for entry in self.left_out]} if self.left_out else {}
        return {"columns": [column.to_dict() for column in self.columns]} | left_out

    @classmethod
    def from_dict(cls, entries: Any) -> Schema:
        """The schema that `to_dict` wrote; anything else is a `ValueError`."""
        try:
            left_out = tuple((str(name), str(reason)) for name, reason in entries.get("left_out", ()))
            return cls(tuple(map(Column.from_dict, entries["columns"])), left_out)
        except (AttributeError, KeyError, TypeError, OverflowError) as error:
            raise ValueError(f"expected a description of columns, found a fault in it: {error}") from error


def _fill_holes(old: pa.ChunkedArray, new: pa.ChunkedArray) -> pa.ChunkedArray:
    """A column with its holes taken from another, in its own type if that can hold them."""
    import pyarrow as pa
    import pyarrow.compute as pc

    old = old.cast(pa.string()) if is_text(old) else old
    holes = pc.is_null(old, nan_is_null=True)
    if not pc.any(holes).as_py():
        return old
    try:
        return pc.if_else(holes, new.cast(old.type), old)
    except pa.ArrowInvalid:
        wider = pa.float64() if pa.types.is_floating(new.type) else new.type
        return pc.if_else(holes, new.cast(wider), old.cast(wider))
