"""Mutual information: how much the columns of a table say about each other."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations_with_replacement
from typing import NamedTuple

import numpy as np

from numpy.typing import ArrayLike, NDArray

from .region_graph import IntArray

BINS = 8
PSEUDOCOUNT = 0.5
MOST_CATEGORIES = 32
BOOTSTRAP_ROWS = 10_000
ROWS_AT_ONCE = 2**13
COLUMNS_AT_ONCE = 2**9

FloatArray = NDArray[np.float64]
CodeArray = NDArray[np.int32]


def mutual_information(
    data: ArrayLike, bins: int = BINS, pseudocount: float = PSEUDOCOUNT, continuous: ArrayLike | None = None
) -> FloatArray:
    """The mutual information of each pair of variables, in nats: (variables, variables), 0 on the diagonal.

        I(i, j) = sum_{a, b} p(a, b) log(p(a, b) / (p(a) p(b))) - (A - 1) (B - 1) / 2N
        p(a, b) = (count(x_i = a, x_j = b) + pseudocount) / N

    Only rows count where both values are known. What is subtracted is what independent variables with A and B values
    seem to share in a table of finite length; the result is at least 0.

    Arguments:
        data: A table of numbers, (rows, variables), NaN where a value is unknown.
        bins: Into how many intervals of about equally many values a continuous variable is cut.
        pseudocount: What is added to the count of each pair of values.
        continuous: Which variables are continuous, (variables,); by default those with values that are not whole
            numbers, or with more than `MOST_CATEGORIES` different ones. The others are categorical.

    Example:
        >>> x = np.arange(1000)
        >>> mutual_information(np.stack([x % 2, x % 4, x % 3], 1)).round(2)
        array([[0.  , 0.68, 0.  ],
               [0.68, 0.  , 0.  ],
               [0.  , 0.  , 0.  ]])
    """
    if not pseudocount > 0:
        raise ValueError(f"expected pseudocount > 0, found {pseudocount}")
    return _information(encode(data, bins, continuous), pseudocount)


def bootstrapped_information(
    data: ArrayLike, replicas: int, generator: np.random.Generator, continuous: ArrayLike | None = None
) -> Iterator[FloatArray]:
    """Yields one matrix of mutual information per replica: of all rows, then of rows drawn with replacement."""
    codes = encode(data, continuous=continuous)
    rows = codes.shape[1]
    yield _information(codes)
    for _ in range(replicas - 1):
        yield _information(codes.take(generator.integers(rows, size=min(rows, BOOTSTRAP_ROWS)), axis=1))


def encode(data: ArrayLike, bins: int = BINS, continuous: ArrayLike | None = None) -> CodeArray:
    """Every value as the number of its category or interval, -1 where it is unknown: (variables, rows)."""
    if bins < 2:
        raise ValueError(f"expected bins >= 2, found {bins}")
    table = as_array(data)
    codes = np.full(table.T.shape, -1, np.int32)
    for variable, choice in enumerate(_choices(continuous, table.shape[1])):
        column = table[:, variable].astype(np.float64)
        known = ~np.isnan(column)
        codes[variable, known] = np.searchsorted(_limits(column[known], bins, choice), column[known])
    return codes


def as_array(data: ArrayLike) -> NDArray:
    """The table as an array, once it is known to hold numbers."""
    table = np.asarray(data)
    if table.ndim != 2 or 0 in table.shape or table.dtype.kind not in "biuf":
        raise ValueError(f"expected a table of numbers, found {table.dtype} of shape {table.shape}")
    if np.isinf(table).any():
        raise ValueError("expected numbers, NaN where unknown, found infinity")
    return table


def _choices(continuous: ArrayLike | None, num_variables: int) -> list[bool] | list[None]:
    """For each variable whether it is continuous, None where its values decide."""
    if continuous is None:
        return [None] * num_variables
    given = np.asarray(continuous)
    if given.dtype != bool or given.shape != (num_variables,):
        raise ValueError(f"expected {num_variables} booleans as continuous, found {given.dtype} of shape {given.shape}")
    return given.tolist()


def _limits(values: NDArray, bins: int, continuous: bool | None) -> NDArray:
    """The upper ends of the intervals of a variable; of a categorical one, the categories."""
    levels = np.unique(values)
    if continuous is None:
        continuous = len(levels) > MOST_CATEGORIES or bool((levels % 1).any())
    if continuous and len(values):
        return np.unique(np.quantile(values, np.arange(1, bins) / bins))
    return levels


class _Block(NamedTuple):
    """Variables with equally many categories."""

    variables: IntArray
    categories: int

    def indicators(self, codes: CodeArray) -> NDArray[np.float32]:
        """Whether a variable has a category: (categories variables, rows)."""
        equal = codes[self.variables] == np.arange(self.categories, dtype=np.int32)[:, None, None]
        return equal.reshape(-1, codes.shape[1]).astype(np.float32)


def _information(codes: CodeArray, pseudocount: float = PSEUDOCOUNT) -> FloatArray:
    information = np.zeros((len(codes),) * 2)
    for one, other in combinations_with_replacement(_blocks(codes), 2):
        counts = _counts(codes, one, other) + pseudocount  # (a, variables, b, variables)
        total = counts.sum((0, 2))  # (variables, variables)
        shared = _x_log_x(counts).sum((0, 2)) + _x_log_x(total)
        shared -= _x_log_x(counts.sum(2)).sum(0) + _x_log_x(counts.sum(0)).sum(1)
        shared -= (one.categories - 1) * (other.categories - 1) / 2
        information[np.ix_(one.variables, other.variables)] = shared / total
        information[np.ix_(other.variables, one.variables)] = (shared / total).T
    np.fill_diagonal(information, 0)
    return information.clip(min=0, out=information)


def _blocks(codes: CodeArray) -> list[_Block]:
    categories = np.maximum(codes.max(1) + 1, 1)
    blocks = []
    for count in np.unique(categories).tolist():
        variables = np.flatnonzero(categories == count)
        width = max(1, COLUMNS_AT_ONCE // count)
        blocks += [_Block(variables[first : first + width], count) for first in range(0, len(variables), width)]
    return blocks


def _counts(codes: CodeArray, one: _Block, other: _Block) -> FloatArray:
    """The number of rows with each pair of values: (categories, variables, categories, variables)."""
    shape = (one.categories, len(one.variables), other.categories, len(other.variables))
    counts = np.zeros((shape[0] * shape[1], shape[2] * shape[3]))
    for first in range(0, codes.shape[1], ROWS_AT_ONCE):
        rows = codes[:, first : first + ROWS_AT_ONCE]
        left = one.indicators(rows)
        counts += left @ (left if one is other else other.indicators(rows)).T
    return counts.reshape(shape)


def _x_log_x(x: FloatArray) -> FloatArray:
    return x * np.log(x)
