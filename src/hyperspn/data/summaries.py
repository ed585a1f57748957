"""Summaries of columns and rows that do not fit into memory: of bounded size, the same in whatever order parts are added."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np

from numpy.typing import NDArray

from .arrays import numbers_of, without_nan
from .values import RARE

if TYPE_CHECKING:
    import pyarrow as pa

LEVELS = 20_000  # of a column with more different values a sample counts
SHOWN = 200_000  # values that stand for those of a whole column

Keys = NDArray[np.uint64]


def row_keys(name: str, first: int, rows: int, seed: int) -> Keys:
    """A random number for each of some rows of a file, which depends on seed, name of the file and number of the row."""
    entropy = [seed, *name.encode()]
    start, step = np.random.SeedSequence(entropy).generate_state(2, np.uint64)
    with np.errstate(over="ignore"):
        bits = start + np.arange(first, first + rows, dtype=np.uint64) * (step | np.uint64(1))
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):  # the finish of splitmix64
            bits = (bits ^ (bits >> np.uint64(shift))) * np.uint64(factor)
    return bits ^ (bits >> np.uint64(31))


class Sample:
    """The rows with the smallest keys: equally likely any of them, the same in whatever order they are added.

    Arguments:
        size: The largest number of rows.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self.rows = 0
        self.keys: Keys = np.empty(0, np.uint64)
        self.tables: list[pa.Table] = []

    def add(self, table: pa.Table, keys: Keys) -> None:
        """Adds rows with their keys."""
        import pyarrow as pa

        self.rows += len(table)
        small = np.full(len(keys), True) if len(self.keys) < self.size else keys < self.keys.max()
        self.tables.append(table.filter(pa.array(small)))
        self.keys = np.concatenate([self.keys, keys[small]])
        if len(self.keys) > 2 * self.size:
            self._reduce()

    def table(self) -> pa.Table:
        """The rows, in the order of their keys."""
        self._reduce()
        return self.tables[0]

    def _reduce(self) -> None:
        import pyarrow as pa

        smallest = np.argsort(self.keys, kind="stable")[: self.size]
        try:
            joined = pa.concat_tables(self.tables, promote_options="permissive")
        except pa.ArrowTypeError as error:
            raise ValueError(f"expected files with the same types of columns, found others: {error}") from error
        self.keys, self.tables = self.keys[smallest], [joined.take(pa.array(smallest)).combine_chunks()]


class Range:
    """The number of known values, and the smallest and the largest number among them, as they are written."""

    def __init__(self) -> None:
        self.known = 0
        self.ends: list[tuple[float, Any]] = []  # numbers, and the values that they come from

    def add(self, values: pa.ChunkedArray) -> None:
        import pyarrow as pa

        self.known += len(values) - values.null_count
        if pa.types.is_temporal(values.type):
            return
        numbers = numbers_of(values)
        if not np.isnan(numbers).all():
            rows = int(np.nanargmin(numbers)), int(np.nanargmax(numbers))
            ends = [*self.ends, *((float(numbers[row]), values[row].as_py()) for row in rows)]
            self.ends = [min(ends, key=lambda end: end[0]), max(ends, key=lambda end: end[0])]

    @property
    def is_run(self) -> bool:
        """Whether there are as many values as whole numbers between the outermost: row numbers."""
        whole = [number for number, _ in self.ends if number == np.floor(number)]
        return len(whole) == 2 and whole[1] - whole[0] + 1 == self.known


class ColumnSummary:
    """How often each value of a column occurs in training rows, as long as these are not too many, and the outermost."""

    def __init__(self) -> None:
        self.counts: Counter[Any] | None = Counter()
        self.train, self.all = Range(), Range()
        self.has_holes = False

    def add(self, values: pa.ChunkedArray, is_train: pa.Array) -> None:
        """Adds the values of some rows."""
        import pyarrow.compute as pc

        values = without_nan(values)
        train = values.filter(is_train)
        self.all.add(values)
        self.train.add(train)
        self.has_holes = self.has_holes or train.null_count > 0
        if self.counts is not None:
            levels, counts = pc.value_counts(train.drop_null()).flatten()
            for level, count in zip(levels.to_pylist(), counts.to_pylist(), strict=True):
                self.counts[level] += count
            if len(self.counts) > LEVELS:
                self.counts = None

    def values(self, sample: pa.ChunkedArray) -> pa.ChunkedArray:
        """Values that stand for all of them: in proportion to their counts, or those of a sample with the outermost ones.

        There is a hole among them if there is one in the column. No value of few is lost, and a rare one stays rare.
        """
        import pyarrow as pa

        if self.counts is None:
            listed = [*sample.drop_null().to_pylist(), *(value for _, value in self.train.ends)]
        else:
            share = min(1.0, SHOWN / max(1, self.train.known))
            levels = sorted(self.counts.items(), key=lambda entry: entry[0])
            listed = [value for value, count in levels for _ in range(max(min(count, RARE), round(share * count)))]
        return pa.chunked_array([pa.array([*listed, *[None] * self.has_holes], sample.type)])

    @property
    def is_run(self) -> bool:
        """Whether these are row numbers, in a table of many rows."""
        return self.counts is None and self.all.is_run
