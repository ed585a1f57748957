"""Reading: what is known in the words of a table, as its circuit sees it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf, nan
from typing import Any, Protocol

import numpy as np

from numpy.typing import NDArray
from torch import Tensor

from ..circuits import Circuit
from ..data import Schema
from ..data.events import Event, Known, as_known, present
from ..data.parsing import parse_evidence
from ..leaves import Evidence

Given = str | Mapping[str, Event] | None
FloatArray = NDArray[np.float64]


class Model(Protocol):
    """What a question needs to know of the model of a table."""

    circuit: Circuit
    schema: Schema
    frame: Any
    num_rows: int | None


def events_of(schema: Schema, given: Given) -> dict[str, Event]:
    """Evidence by column, in the order in which it is given."""
    return parse_evidence(given, schema.names) if isinstance(given, str) else dict(given or {})


def known_of(schema: Schema, given: Given) -> dict[int, Known]:
    """Evidence by variable, as the circuit sees it."""
    variables = {schema.index(name): event for name, event in events_of(schema, given).items()}
    return {variable: as_known(schema.columns[variable], event) for variable, event in variables.items()}


def values_of(schema: Schema, known: Mapping[int, Known]) -> FloatArray:
    """One row of the values in evidence, (1, variables), NaN elsewhere."""
    x = np.full((1, len(schema.columns)), nan)
    for variable, entry in known.items():
        if entry.value is not None:
            x[0, variable] = entry.value
    return x


def possible(schema: Schema, x: FloatArray) -> FloatArray:
    """Rows, (rows, variables), changed: nothing is known where a number has no probability."""
    for variable, column in enumerate(schema.columns):
        x[column.impossible(x[:, variable]), variable] = nan
    return x


def read(model: Model, *known: Mapping[int, Known]) -> Evidence:
    """Evidence of several rows for the circuit."""
    events = [{v: entry.event for v, entry in row.items() if entry.event is not None} for row in known]
    return model.circuit.read(np.concatenate([values_of(model.schema, row) for row in known]), events=events)


def read_present(model: Model, x: FloatArray, variables: Sequence[int] = ()) -> Evidence:
    """Evidence for rows with holes to fill: where "missing" is data, these hold some value, and so do some variables."""
    x = x.copy()
    events: list[dict[int, FloatArray]] = [{} for _ in x]
    for variable, column in enumerate(model.schema.columns):
        if column.missing_as_data:
            holes = ~(x[:, variable] < (inf if column.is_numeric else column.size - 1))
            x[holes, variable] = nan
            for row in np.flatnonzero(holes | (variable in variables)):
                events[row][variable] = present(column)
    return model.circuit.read(x, events=events)


def log_prob(model: Model, *known: Mapping[int, Known]) -> FloatArray:
    """The log-probability of evidence, (rows,)."""
    return model.circuit.log_prob(read(model, *known)).double().numpy()


def log_prob_of_possible(model: Model, known: Mapping[int, Known]) -> float:
    """The log-probability of evidence, which is an error if it is impossible."""
    log_p = float(log_prob(model, known)[0])
    if log_p == -inf:
        raise ValueError("the evidence is impossible under the model: no row can be like that")
    return log_p


def posteriors(model: Model, *known: Mapping[int, Known]) -> Tensor:
    """The posterior of all leaf distributions given evidence, (rows, variables, l)."""
    return model.circuit.marginals(read(model, *known))


def width_of(model: Model, variable: int) -> int:
    """The number of leaf distributions of a variable."""
    return model.circuit.leaves.families[variable].width
