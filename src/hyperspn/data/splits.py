"""Data as a circuit sees it: train, valid and test rows, and what their columns mean."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from numpy.typing import NDArray

from . import datasets
from .columns import Column, Schema
from .readers import (
    READERS,
    read_table,
)
from .recognize import recognize


class Splits(NamedTuple):
    """A data set as a circuit sees it: three arrays, each (rows, variables), and what their columns mean."""

    schema: Schema
    train: np.ndarray
    valid: np.ndarray
    test: np.ndarray


def load_splits(source: str, seed: int = 0, drop: Sequence[str] = (), data_dir: str | None = None) -> Splits:
    """Reads a table of the user's own, and splits it by the seed; or a data set by its name or folder.

    Arguments:
        source: A file .csv, .tsv, .parquet or .npy, or whatever `datasets.load_dataset` takes.
        seed: Determines the split of a table, or the data of a built-in set.
        drop: Columns of a table to leave out.
        data_dir: Where to look for data sets.
    """
    if Path(source).suffix.lower() in READERS:
        table = read_table(source).drop(drop)
        parts = split(len(table), seed)
        schema = recognize(table, parts[0])
        x = schema.encode(table)
        return Splits(schema, *(x[rows] for rows in parts))
    if source not in datasets.BENCHMARKS and Path(source).is_file():
        raise ValueError(f"expected a table {', '.join(READERS)}, found {source}")
    if drop:
        raise ValueError(f"expected a table to drop columns from, found the data set {source!r}")
    data = datasets.load_dataset(source, seed, data_dir)
    schema = Schema(tuple(Column(str(i), "binary", (0, 1)) for i in range(data.train.shape[1])))
    return Splits(schema, *data)


def split(rows: int, seed: int = 0, shares: Sequence[float] = (0.7, 0.1, 0.2)) -> list[NDArray[np.intp]]:
    """Deals the row numbers 0..rows-1 to train, valid and test at random, at least one to each that has a share."""
    if len(shares) != 3 or min(shares) < 0 or abs(sum(shares) - 1) > 1e-6:
        raise ValueError(f"expected three shares that sum to 1, found {shares}")
    valid, test = (max(1, round(share * rows)) if share else 0 for share in shares[1:])
    if rows <= valid + test:
        raise ValueError(f"expected enough rows to split into train, valid and test, found {rows}")
    return np.split(np.random.default_rng(seed).permutation(rows), [rows - valid - test, rows - test])
