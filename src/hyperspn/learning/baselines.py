"""Baselines: two plain models of a table that show what a circuit adds."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from numpy.typing import NDArray

from ..data import Column, Schema
from ..data.scales import Scale
from ..structures.chow_liu import spanning_tree
from ..structures.mutual_information import mutual_information

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

BINS = 10
ROWS_AT_ONCE = 4096


def independent_columns(schema: Schema, train: np.ndarray, *rows: np.ndarray) -> list[FloatArray]:
    """The log-likelihoods of rows if no column said anything about another, one array for each array of rows.

        p(x) = prod_i P(code_i) p(x_i | code_i),   P(code) = (count + 1) / (rows + codes)

    See `chow_liu_tree` for the arguments.
    """
    cells, codes = _encode(schema, train)
    marginals = [_marginal(column, cell.possible) for column, cell in zip(codes, cells, strict=True)]
    answers = []
    for x in rows:
        total = np.zeros(len(x))
        for variable, (cell, marginal) in enumerate(zip(cells, marginals, strict=True)):
            code, log_density = cell.read(x[:, variable])
            total += np.where(code < 0, 0.0, _log(marginal)[code]) + log_density
        answers.append(total)
    return answers


def chow_liu_tree(schema: Schema, train: np.ndarray, *rows: np.ndarray) -> list[FloatArray]:
    """The log-likelihoods of rows under the best tree without hidden states (Chow and Liu 1968).

        p(x) = prod_i P(code_i | code_above(i)) p(x_i | code_i),   P(b | a) = (count(a, b) + P(b)) / (count(a) + 1)

    Numbers have codes, too: their point masses, and `BINS` intervals of about equally many values, in which they are
    spread as the column's scale has them. So the densities are exact, in the units of the table. Unknown values are
    integrated out.

    Arguments:
        schema: The columns.
        train: The rows from which to learn, (rows, variables).
        rows: The rows to judge, (rows, variables).
    """
    cells, codes = _encode(schema, train)
    tree = _Tree.learn(codes, [cell.possible for cell in cells])
    parts = [[_judge(tree, cells, part) for part in _parts(x)] for x in rows]
    return [np.concatenate([np.zeros(0), *part]) for part in parts]


def _parts(x: np.ndarray) -> list[np.ndarray]:
    return [x[start : start + ROWS_AT_ONCE] for start in range(0, len(x), ROWS_AT_ONCE)]


class _Cells:
    """The codes of one column: categories, or point masses and intervals of numbers."""

    def __init__(self, column: Column) -> None:
        self.scale = column.scale
        self.possible = np.ones(column.size, bool)  # (codes,)
        if self.scale is not None:
            self.points = np.array(self.scale.points)
            self.edges = _edges(self.scale)
            self.log_masses, room = self._intervals(self.scale)
            self.possible = np.array([*np.ones(len(self.points), bool), *room, *[True] * column.missing_as_data])

    def read(self, values: np.ndarray) -> tuple[IntArray, FloatArray]:
        """Codes, -1 where unknown, and the log-densities of values within their codes, both (rows,)."""
        x = values.astype(np.float64)
        unknown = np.isnan(x)
        if self.scale is None:
            return np.where(unknown, -1, np.where(unknown, 0, x)).astype(np.int64), np.zeros(len(x))
        missing = x == np.inf
        x = np.where(unknown | missing, self.scale.knots[0], x)
        place = np.searchsorted(self.points, x)
        is_point = np.isin(x, self.points)
        interval = np.searchsorted(self.edges, x, side="right")
        code = np.where(is_point, place, len(self.points) + interval)
        within = _log_density(self.scale, x) - self.log_masses[interval]
        log_density = np.where(is_point, _log_unit(self.scale), within)
        code = np.where(unknown, -1, np.where(missing, len(self.possible) - 1, code))
        return code, np.where(unknown | missing, 0.0, log_density)

    def _intervals(self, scale: Scale) -> tuple[FloatArray, NDArray[np.bool_]]:
        """log of how much of the scale's distribution is in each, and whether there is room beside point masses."""
        ends = np.array([scale.ends[0], *self.edges, scale.ends[1]])
        masses, room = np.diff(_levels(scale, ends)), np.diff(ends)
        if scale.decimals is not None:
            low, high = scale.cells(self.points)
            place = np.searchsorted(self.edges, self.points, side="right")
            np.subtract.at(masses, place, _levels(scale, high) - _levels(scale, low))
            np.subtract.at(room, place, scale.width)
        fits = room > scale.width / 2
        return np.log(np.where(fits, masses, 1.0)), fits


def _edges(scale: Scale) -> FloatArray:
    """The numbers between intervals of about equally many values, at the edges of recorded cells."""
    from scipy.special import ndtri

    edges = scale.values(ndtri(np.arange(1, BINS) / BINS))
    if scale.decimals is not None:
        edges = (np.floor(edges / scale.width) + 0.5) * scale.width
    return np.unique(edges[(edges > scale.ends[0]) & (edges < scale.ends[1])])


def _levels(scale: Scale, x: FloatArray) -> FloatArray:
    """F(x) of the scale."""
    from scipy.special import ndtr

    return ndtr(scale.scores(x))


def _log_density(scale: Scale, x: FloatArray) -> FloatArray:
    """log F'(x), or of a recorded number log P(cell) / width."""
    from scipy.special import ndtr

    if scale.decimals is None:
        z = scale.scores(x)
        with np.errstate(invalid="ignore"):
            density = scale.log_slopes(x) - 0.5 * z**2 - 0.5 * np.log(2 * np.pi)
        return np.where(np.isinf(z), -np.inf, density)
    low, high = (scale.scores(edge) for edge in scale.cells(x))
    upper = low > 0  # where small masses are differences of small numbers
    masses = np.where(upper, ndtr(-low) - ndtr(-high), ndtr(high) - ndtr(low))
    return _log(masses) - np.log(scale.width)


def _log_unit(scale: Scale) -> float:
    return 0.0 if scale.decimals is None else -float(np.log(scale.width))


def _log(p: FloatArray) -> FloatArray:
    with np.errstate(divide="ignore"):
        return np.log(p)


def _encode(schema: Schema, train: np.ndarray) -> tuple[list[_Cells], list[IntArray]]:
    cells = [_Cells(column) for column in schema.columns]
    return cells, [cell.read(train[:, variable])[0] for variable, cell in enumerate(cells)]


def _marginal(codes: IntArray, possible: NDArray[np.bool_]) -> FloatArray:
    counts = np.bincount(codes[codes >= 0], minlength=len(possible)) + possible
    return counts / counts.sum()


class _Tree(NamedTuple):
    """The variables from the root down, the one above each (-1 for the root), and P(code | code above), (above, codes)."""

    order: list[int]
    above: list[int]
    tables: list[FloatArray]

    @classmethod
    def learn(cls, codes: list[IntArray], possible: list[NDArray[np.bool_]]) -> _Tree:
        from scipy.sparse.csgraph import breadth_first_order

        known = np.stack([np.where(column < 0, np.nan, column).astype(np.float32) for column in codes], 1)
        information = mutual_information(known, continuous=np.zeros(len(codes), bool))
        edges = spanning_tree(information)
        order, above = breadth_first_order(edges, 0, directed=False)
        above[order[0]] = -1
        tables = [_conditional(codes, possible, variable, parent) for variable, parent in enumerate(above.tolist())]
        return cls(order.tolist(), above.tolist(), tables)


def _conditional(codes: list[IntArray], possible: list[NDArray[np.bool_]], variable: int, above: int) -> FloatArray:
    marginal = _marginal(codes[variable], possible[variable])
    if above < 0:
        return marginal[None]
    both = (codes[variable] >= 0) & (codes[above] >= 0)
    shape = len(possible[above]), len(marginal)
    pairs = codes[above][both] * shape[1] + codes[variable][both]
    counts = np.bincount(pairs, minlength=shape[0] * shape[1]).reshape(shape)
    return (counts + marginal) / (counts.sum(1, keepdims=True) + 1)


def _judge(tree: _Tree, cells: list[_Cells], x: np.ndarray) -> FloatArray:
    """The log-likelihoods of some rows, from the leaves of the tree up to its root."""
    total = np.zeros(len(x))
    beliefs: list[Any] = []
    for variable, cell in enumerate(cells):
        code, log_density = cell.read(x[:, variable])
        total += log_density
        beliefs.append(
            np.where(code[:, None] < 0, 1.0, code[:, None] == np.arange(len(cell.possible)))
        )  # (rows, codes)
    for variable in reversed(tree.order):
        message = beliefs[variable] @ tree.tables[variable].T  # (rows, codes above)
        largest = message.max(1, keepdims=True)
        total += _log(largest[:, 0])
        if tree.above[variable] >= 0:
            beliefs[tree.above[variable]] *= message / np.where(largest > 0, largest, 1.0)
        beliefs[variable] = None
    return total
