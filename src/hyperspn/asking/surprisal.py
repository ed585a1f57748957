"""Surprisal: how strange rows are, which of their cells make them so, and what would have been expected."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from math import inf, isinf, log, log2, nan
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from numpy.typing import NDArray
from torch import Tensor

from ..checks import plural, whole
from ..data import Column, table_of
from .numbers import pieces, quantiles, unit_of
from .reading import FloatArray, Model, width_of

if TYPE_CHECKING:
    import pyarrow as pa

ROWS_AT_ONCE = 1000
USUAL = (0.05, 0.95)
ALMOST = 1 + 1e-9  # two probabilities are the same up to rounding


class Surprisal(NamedTuple):
    """How strange rows and their cells are, in bits.

    Arguments:
        rows: -log2 P(row), (rows,).
        cells: -log2 P(cell | rest of the row), (rows, columns), in the order of the model's columns.
        rarity: -log2 P(a value at most as probable | rest of the row), (rows, columns): 10 bits are one row in a
            thousand. That can be compared between columns; the surprisal of a number that is recorded to many digits is
            large whatever it is.
    """

    rows: FloatArray
    cells: FloatArray
    rarity: FloatArray


@dataclass(frozen=True)
class StrangeCell:
    """A cell that makes a row strange.

    Arguments:
        column: The name of its column.
        value: What the table holds; None for a hole, where "missing" is data.
        surprisal: -log2 P(cell | rest of the row).
        rarity: -log2 P(a value at most as probable | rest of the row).
        expected: What the rest of the row says in its place, in words.
        is_new: Whether the model has never seen such a value.
    """

    column: str
    value: Any
    surprisal: float
    rarity: float
    expected: str
    is_new: bool = False

    @property
    def frequency(self) -> str:
        """The rarity in words, like ``one in 300``."""
        if self.is_new:
            return "never seen"
        rows = inf if isinf(self.rarity) else float(f"{2**self.rarity:.2g}")
        return "impossible" if isinf(rows) else f"one in {rows:,.0f}" if rows <= 1e9 else "one in over a billion"


@dataclass(frozen=True)
class StrangeRow:
    """A strange row of a table.

    Arguments:
        row: Its number, from 0.
        surprisal: -log2 P(row).
        cells: The cells that make it so, the rarest first.
    """

    row: int
    surprisal: float
    cells: tuple[StrangeCell, ...]

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "cells": [asdict(cell) for cell in self.cells]}


def surprisal(model: Model, frame: Any, notes: list[str] | None = None) -> Surprisal:
    """How strange each row is, and each of its cells given the rest of the row, in bits.

    A recorded number counts by the probability of its cell, a continuous one by that of a cell that is as wide as a
    thousandth of what holds the middle 90 % of the column. A hole is no surprise, 0, unless "missing" is data. A value that
    the model has never seen counts log2(N + 1), N the number of training rows, and as unknown for the rest of its row;
    one outside the bounds of its column is infinitely strange.

    Arguments:
        model: The model.
        frame: A DataFrame, table or array.
        notes: A list to which sentences about the table are added.
    """
    rows = _Rows(model, table_of(frame), notes)
    starts = range(0, max(len(rows.x), 1), ROWS_AT_ONCE)
    parts = [rows.cells(slice(first, first + ROWS_AT_ONCE))[:2] for first in starts]
    return Surprisal(rows.surprisal(), *map(np.concatenate, zip(*parts, strict=True)))


def surprisal_of_rows(model: Model, frame: Any) -> FloatArray:
    """How strange each row is, -log2 P(row) in bits, (rows,), without a look at its cells (see `surprisal`)."""
    return _Rows(model, table_of(frame), None).surprisal()


def anomalies(
    model: Model, frame: Any, top: int = 10, cells: int = 3, notes: list[str] | None = None
) -> list[StrangeRow]:
    """The strangest rows by surprisal, the strangest first, and in each the cells that are rarest given the rest.

    Arguments:
        model: The model.
        frame: A DataFrame, table or array.
        top: How many rows.
        cells: How many cells of each, at most: those less rare than one row in two are not told.
        notes: A list to which sentences about the table are added.
    """
    whole("top", top)
    table = table_of(frame)
    rows = _Rows(model, table, notes)
    bits = rows.surprisal()
    strangest = np.argsort(-bits, kind="stable")[:top]
    cell_bits, rarity, posterior = rows.cells(strangest)
    answer = []
    for place, row in enumerate(strangest.tolist()):
        rarest = [v for v in np.argsort(-rarity[place], kind="stable")[:cells] if rarity[place, v] > 1]
        strange = [
            StrangeCell(
                model.schema.names[v],
                _value(table, model.schema.names[v], row),
                float(cell_bits[place, v]),
                float(rarity[place, v]),
                expectation(model, v, posterior[place : place + 1, v, : width_of(model, v)]),
                bool(rows.is_new[row, v]),
            )
            for v in rarest
        ]
        answer.append(StrangeRow(row, float(bits[row]), tuple(strange)))
    return answer


def expectation(model: Model, variable: int, posterior: Tensor) -> str:
    """What a posterior of the leaf distributions, (1, l), says of a column, in words."""
    column = model.schema.columns[variable]
    if not column.is_numeric:
        code = int(posterior[0].argmax())
        return f"{column.labels[code]} ({float(posterior[0, code]):.0%})"
    points = getattr(model.circuit.leaves.families[variable], "points", ())
    likeliest = int(posterior[0, posterior.shape[1] - len(points) :].argmax()) if points else 0
    chance = float(posterior[0, posterior.shape[1] - len(points) + likeliest]) if points else 0.0
    if chance > 0.5:
        point = points[likeliest]
        return f"{'missing' if point == inf else column.decode(np.array([point]))[0].as_py()} ({chance:.0%})"
    low, high = column.decode(quantiles(model.circuit, variable, posterior, USUAL)[0]).to_pylist()
    return f"{_short(low)} to {_short(high)}"


class _Rows:
    """The rows of a table as a circuit sees them, with the values that it has never seen."""

    def __init__(self, model: Model, table: pa.Table, notes: list[str] | None) -> None:
        self.model, columns = model, model.schema.columns
        self.x = model.schema.encode(table, notes=notes)
        self.is_new = np.zeros(self.x.shape, bool)
        self.log_shares = np.zeros(self.x.shape)
        for v, column in enumerate(columns):
            if column.name in table.column_names:
                values = table.column(column.name)
                self.is_new[:, v] = new = _are_new(column, values, self.x[:, v])
                self.log_shares[:, v] = column.log_shares(values)
                if new.any() and notes is not None:
                    first = values[int(new.argmax())].as_py()
                    notes.append(
                        f"column {column.name!r}: {plural(int(new.sum()), 'value')} never seen before, like {first!r}"
                    )
        self.x[self.is_new] = nan
        self.units = np.array([unit_of(model.circuit, v) if c.is_numeric else 1.0 for v, c in enumerate(columns)])

    def surprisal(self) -> FloatArray:
        """-log2 P(row), (rows,)."""
        log_p = self.model.circuit.log_prob(self.x).double().numpy() + self._log_units(self.x).sum(1)
        return -(log_p + self.log_shares.sum(1)) / log(2) + self.is_new.sum(1) * self._bits_of_new()

    def cells(self, rows: slice | NDArray[np.intp]) -> tuple[FloatArray, FloatArray, Tensor]:
        """Surprisal and rarity of the cells of some rows, (rows, variables), and the posteriors that are expected."""
        x, is_new, shares = self.x[rows], self.is_new[rows], self.log_shares[rows]
        log_density, posterior = self.model.circuit.leave_one_out(x)
        log_p = log_density.double().numpy() + self._log_units(x)
        known = ~np.isnan(x)
        log_rarity = np.stack([self._log_rarity(v, log_p[:, v], posterior[:, v]) for v in range(x.shape[1])], 1)
        bits, rarity = (
            np.where(is_new, self._bits_of_new(), np.where(known, -(part + shares) / log(2), 0.0))
            for part in (log_p, log_rarity)
        )
        return np.maximum(bits, 0.0), np.maximum(rarity, 0.0), posterior

    def _log_rarity(self, variable: int, log_p: FloatArray, posterior: Tensor) -> FloatArray:
        """log P(a value at most as probable), (rows,), for the log-probabilities of cells and posteriors, (rows, l)."""
        p = posterior[:, : width_of(self.model, variable)].double().numpy()
        cells = np.ones(p.shape[1])
        if self.model.schema.columns[variable].is_numeric:
            parts = pieces(self.model.circuit, variable)
            p, cells = p @ parts.masses, parts.cells  # (rows, pieces)
        with np.errstate(divide="ignore"):
            rarer = (p * (p / cells <= np.exp(log_p)[:, None] * ALMOST)).sum(1)
            return np.maximum(np.log(rarer), np.minimum(log_p, 0.0))

    def _log_units(self, x: FloatArray) -> FloatArray:
        """What turns the log-densities of numbers into log-probabilities of cells, (rows, variables)."""
        is_density = np.isfinite(x)
        for v, column in enumerate(self.model.schema.columns):
            if column.scale is not None and column.scale.decimals is None:
                is_density[:, v] &= ~np.isin(x[:, v], column.scale.points)
        return is_density * np.log(self.units)

    def _bits_of_new(self) -> float:
        return log2((self.model.num_rows or 0) + 1)


def _are_new(column: Column, values: pa.ChunkedArray, codes: FloatArray) -> NDArray[np.bool_]:
    """Which values the model has never seen, (rows,): strange words, and whole numbers that are none of the categories."""
    is_new = np.isnan(codes) & np.asarray(values.is_valid())
    if column.categories and not isinstance(column.categories[0], str):
        numbers = column.numbers(values)
        is_new |= ~np.isnan(numbers) & ~np.isin(numbers, np.array([*column.categories, *column.pooled], np.float64))
    return is_new


def _value(table: pa.Table, name: str, row: int) -> Any:
    return table.column(name)[row].as_py() if name in table.column_names else None


def _short(value: Any) -> str:
    return f"{round(value, 9):.4g}" if isinstance(value, float) else str(value)
