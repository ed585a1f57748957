"""Similarity: which rows are alike, on whatever is known of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..data import table_of
from .reading import FloatArray, Model, known_of, possible, read

ROWS_AT_ONCE = 5000


def similar(model: Model, row: Any, frame: Any, notes: list[str] | None = None) -> FloatArray:
    """How alike one row and each row of a table are, (rows,): the probability that they come from the same hidden state.

        similarity(a, b) = sum_s P(s | a) P(s | b)   over the replicas and the states at their roots

    Unknown values are integrated out, and so are those that the model cannot explain.

    Arguments:
        model: The model.
        row: A table of one row, or evidence.
        frame: The table to search.
        notes: A list to which sentences about the tables are added.
    """
    if row is None or isinstance(row, str | Mapping):
        one = model.circuit.root_states(read(model, known_of(model.schema, row)))
    else:
        one = model.circuit.root_states(possible(model.schema, model.schema.encode(table_of(row), notes=notes)))
    if len(one) != 1:
        raise ValueError(f"expected one row to compare others with, found {len(one)}")
    x = possible(model.schema, model.schema.encode(table_of(frame), notes=notes))
    parts = [
        model.circuit.root_states(x[first : first + ROWS_AT_ONCE]).flatten(1) @ one.flatten()
        for first in range(0, len(x), ROWS_AT_ONCE)
    ]
    return np.concatenate([np.zeros(0), *(part.double().numpy() for part in parts)])
