"""The rows that a model was trained on, read again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from numpy.typing import NDArray

from ..asking import TableModel
from ..data import Schema, Splits, load_splits, read_table
from ..data.events import as_known
from ..data.parsing import parse_evidence
from ..data.readers import STANDARD_INPUT
from ..data.streams import Stream
from ..data.tables import TABLES, find_table
from ..learning.checkpoint import table_digest
from .output import tell

if TYPE_CHECKING:
    import pyarrow as pa


def open_table(source: str, data_dir: str | None = None, **reading: Any) -> pa.Table:
    """Reads a table from a file, standard input (``-``), or by its name."""
    paths = find_table(source, data_dir) if source in TABLES else {"": source}
    return read_table(paths.get("", paths.get("train", "")), **reading)


def open_table_for(model: TableModel, source: str, data_dir: str | None, notes: list[str]) -> pa.Table:
    """Reads a table in which the same words are missing values as in the table that a model was trained on."""
    missing_values = model.circuit.notes.get("reading", {}).get("missing_values")
    return open_table(source, data_dir, missing_values=missing_values, notes=notes)


def digests(splits: Splits) -> list[str]:
    """Short names of the contents of train, valid and test rows."""
    return [
        rows.digest() if isinstance(rows, Stream) else table_digest(torch.from_numpy(np.ascontiguousarray(rows)))
        for rows in splits[1:4]
    ]


def splits_of(model: TableModel, data_dir: str | None = None) -> Splits:
    """Train, valid and test rows of the table that a model was trained on, read through the model's columns."""
    notes = model.circuit.notes
    source = notes["data"]
    if source == STANDARD_INPUT:
        raise ValueError("the model was trained on standard input, which is gone: give rows with --data")
    try:
        reading = notes.get("reading", {})
        splits = load_splits(source, notes["seed"], notes["drop"], data_dir, schema=model.schema, **reading)
    except FileNotFoundError as error:
        raise ValueError(f"the table that the model was trained on is not there any more: {error}") from error
    if notes.get("digests", digests(splits)) != digests(splits):
        tell([f"{source} has changed since the model was trained on it"])
    return splits


def count_matches(schema: Schema, given: str, x: NDArray[np.floating]) -> int:
    """How many encoded rows, (rows, variables), are as the evidence says; of pooled categories, by their shares."""
    share = np.ones(len(x))
    for name, event in parse_evidence(given, schema.names).items():
        variable = schema.index(name)
        known = as_known(schema.columns[variable], event)
        if known.event is not None and not known.is_probability:
            raise ValueError(f"expected events to count rows, found likelihoods of column {name!r}")
        values = x[:, variable]
        if known.event is None:
            share *= values == known.value
        elif known.event.ndim == 1:
            holes = np.isnan(values)
            share *= np.where(holes, 0.0, known.event[np.where(holes, 0, values).astype(int)])
        else:
            low, high = known.event.T[:, :, None]  # (intervals, 1)
            share *= ((low <= values) & ((values < high) | ((values == low) & np.isinf(low)))).any(0)
    return round(float(share.sum()))
