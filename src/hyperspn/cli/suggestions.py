"""Commands to try next, with the columns and values of a table filled in."""

from __future__ import annotations

import re
import shlex

import numpy as np

from numpy.typing import NDArray

from ..data import Column, Schema

PLAIN = re.compile(r"[\w.+-]+( [\w.+-]+)*")


def suggestions(schema: Schema, run: str, data: str, train: NDArray[np.floating]) -> list[str]:
    """Commands: a question, samples under an event, and holes filled, or the question turned round."""
    columns = list(schema.columns)
    categorical = [column for column in columns if not column.is_numeric and column.size <= 20]
    words = [column for column in categorical if isinstance(column.categories[0], str)]
    target = (words or categorical or columns)[-1]
    others = sorted((column for column in columns if column is not target), key=lambda column: not column.is_numeric)
    known, *_ = [*others, target]
    events = [_event(column, train[:, columns.index(column)]) for column in (known, target)]
    folder = shlex.quote(run)
    question = f"hyperspn query {folder} --of {shlex.quote(target.name)}"
    given = f" --given {shlex.quote(events[0])}" if others else ""
    commands = [question + given, f"hyperspn sample {folder} -n 5 --given {shlex.quote(events[1])}"]
    if np.isnan(train).any() and data != "-":
        return [*commands, f"hyperspn impute {folder} {shlex.quote(data)} --out filled.csv"]
    turned = f"hyperspn query {folder} --of {shlex.quote(events[0])} --given {shlex.quote(events[1])}"
    return [*commands, turned] if others else commands


def _event(column: Column, values: NDArray[np.floating]) -> str:
    """An event that many rows have: the most frequent category, or above the median."""
    known = values[np.isfinite(values)]
    if column.is_numeric:
        middle = column.decode(np.array([np.median(known)]))[0].as_py()
        return f"{_quote(column.name)}>{_quote(str(middle))}"
    codes = known.astype(int)
    code = np.bincount(codes[codes < len(column.categories)]).argmax()
    return f"{_quote(column.name)}={_quote(str(column.labels[code]))}"


def _quote(value: str) -> str:
    """A name or value in evidence, in quotes if it could be read otherwise."""
    is_plain = PLAIN.fullmatch(value) and ".." not in value and value != "missing"
    return value if is_plain else '"' + value.replace('"', '""') + '"'
