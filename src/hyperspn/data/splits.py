"""Data as a circuit sees it: train, valid and test rows, and what their columns mean."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from numpy.typing import NDArray

from ..checks import did_you_mean
from . import datasets
from .arrays import numbers_of
from .columns import Column
from .pieces import is_files
from .readers import READERS, check_known, is_table, read_table
from .recognize import recognize
from .schema import Schema
from .streams import Stream, load_files
from .tables import TABLES, find_table

if TYPE_CHECKING:
    import pyarrow as pa

SHARES = (0.7, 0.1, 0.2)


class Splits(NamedTuple):
    """A data set as a circuit sees it: three arrays, each (rows, variables), and what their columns mean.

    The training rows of files that are read in parts are a stream.

    Arguments:
        schema: The columns.
        train: The rows to learn.
        valid: The rows by which to choose.
        test: The rows to judge by.
        weights: The weights of the rows of each of the three, if there is such a column.
        notes: Sentences about the table that the user may want to read.
    """

    schema: Schema
    train: np.ndarray | Stream
    valid: np.ndarray
    test: np.ndarray
    weights: tuple[NDArray[np.float64], ...] | None = None
    notes: tuple[str, ...] = ()


def load_splits(
    source: str,
    seed: int = 0,
    drop: Sequence[str] = (),
    data_dir: str | None = None,
    *,
    valid: str | None = None,
    test: str | None = None,
    weight: str | None = None,
    missing_values: Collection[str] | None = None,
    schema: Schema | None = None,
    **wishes: Any,
) -> Splits:
    """Reads a table of the user's own, and splits it by the seed; or a data set by its name or folder.

    Arguments:
        source: A table (see `read_table`), a folder or pattern of them (see `load_files`), the name of a real table, or
            whatever `datasets.load_dataset` takes.
        seed: Determines the split of a table, or the data of a built-in set.
        drop: Columns of a table to leave out.
        data_dir: Where to look for data sets.
        valid: A table with the validation rows; by default they are cut from the source.
        test: A table with the test rows; by default they are cut from the source.
        weight: A column with the weights of rows.
        missing_values: The words that are missing values (see `read_table`).
        schema: What the columns are; by default they are recognized.
        **wishes: What is asked of single columns (see `recognize`).
    """
    if source in TABLES:
        paths = find_table(source, data_dir)
        source, test = str(paths.get("", paths.get("train"))), test or (str(paths["test"]) if "test" in paths else None)
    elif is_files(source) and source not in datasets.BENCHMARKS:
        if valid or test or weight:
            raise ValueError(
                f"expected no table of held-out rows and no weights with several files, found them with {source}"
            )
        return _load_files(source, seed, drop, missing_values, schema, wishes)
    elif not is_table(source) or source in datasets.BENCHMARKS:
        return _load_dataset(source, seed, drop, data_dir)
    notes: list[str] = []
    table, weights = _read(source, drop, missing_values, weight, notes)
    rows = split(len(table), seed, _shares(valid, test))
    schema = schema or recognize(table, rows[0], notes=notes, **wishes)
    x = schema.encode(table, notes=notes)
    parts, heavy = [x[part] for part in rows], [weights[part] for part in rows]
    for i, other in ((1, valid), (2, test)):
        if other is not None:
            table, heavy[i] = _read(other, drop, missing_values, weight, notes)
            parts[i] = schema.encode(table, notes=notes)
    return Splits(schema, parts[0], parts[1], parts[2], tuple(heavy) if weight else None, tuple(notes))


def _load_files(
    source: str,
    seed: int,
    drop: Sequence[str],
    missing_values: Collection[str] | None,
    schema: Schema | None,
    wishes: dict[str, Any],
) -> Splits:
    notes: list[str] = []
    train, valid, test = load_files(source, seed, drop, missing_values, schema, notes, **wishes)
    return Splits(train.schema, train, valid, test, None, tuple(notes))


def split(rows: int, seed: int = 0, shares: Sequence[float] = SHARES) -> list[NDArray[np.intp]]:
    """Deals the row numbers 0..rows-1 to train, valid and test at random, at least one to each that has a share."""
    if len(shares) != 3 or min(shares) < 0 or abs(sum(shares) - 1) > 1e-6:
        raise ValueError(f"expected three shares that sum to 1, found {shares}")
    valid, test = (max(1, round(share * rows)) if share else 0 for share in shares[1:])
    if rows <= valid + test:
        raise ValueError(f"expected enough rows to split into train, valid and test, found {rows}")
    return np.split(np.random.default_rng(seed).permutation(rows), [rows - valid - test, rows - test])


def _shares(valid: str | None, test: str | None) -> list[float]:
    """The shares of a table's rows: none for what is given."""
    shares = [share if given is None else 0.0 for share, given in zip(SHARES, (None, valid, test), strict=True)]
    return [share / sum(shares) for share in shares]


def _read(
    path: str, drop: Sequence[str], missing_values: Collection[str] | None, weight: str | None, notes: list[str]
) -> tuple[pa.Table, NDArray[np.float64]]:
    """A table without the column of weights, and the weights, (rows,)."""
    table = read_table(path, drop, missing_values, notes)
    if weight is None:
        return table, np.ones(len(table))
    check_known(weight, table.column_names)
    weights = numbers_of(table.column(weight))
    misfits = ~(np.isfinite(weights) & (weights >= 0))
    if misfits.any():
        row = int(misfits.argmax())
        raise ValueError(
            f"{path}: expected a weight >= 0 in column {weight!r}, found {table.column(weight)[row].as_py()!r} in row {row + 1}"
        )
    return table.drop_columns([weight]), weights


def _load_dataset(source: str, seed: int, drop: Sequence[str], data_dir: str | None) -> Splits:
    if source not in datasets.BENCHMARKS and Path(source).is_file():
        raise ValueError(f"expected a table {', '.join(READERS)}, found {source}")
    if drop:
        raise ValueError(f"expected a table to drop columns from, found the data set {source!r}")
    if source not in datasets.BENCHMARKS and not Path(source).is_dir():
        hint = did_you_mean(source, (*TABLES, *datasets.BENCHMARKS))
        raise ValueError(f"expected a table, a folder or the name of a data set, found {source!r}{hint}")
    data = datasets.load_dataset(source, seed, data_dir)
    return Splits(Schema(tuple(Column(str(i), "categorical", (0, 1)) for i in range(data.train.shape[1]))), *data)
