"""Explanations: what each piece of evidence adds to an answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from math import inf, log2
from typing import Any

import numpy as np

from ..data.events import Event, Known
from ..data.parsing import OPERATORS, write_event
from .distributions import Categories, distribution
from .numbers import mean_and_std
from .probability import probability
from .reading import Given, Model, events_of, known_of, log_prob_of_possible, posteriors, width_of


@dataclass(frozen=True)
class Step:
    """What one piece of evidence adds.

    Arguments:
        evidence: What becomes known, as text.
        added: How much the answer changes by it.
        answer: The answer with all evidence up to it.
    """

    evidence: str
    added: float
    answer: float


@dataclass(frozen=True)
class Explanation:
    """How evidence, piece by piece in the order given, leads to an answer.

    Arguments:
        of: What is explained: an event, or a column of numbers.
        quantity: "log-odds" of the event, in bits, log2(p / (1 - p)); or the "mean" of the column.
        start: The answer without evidence.
        steps: What each piece of evidence adds.
    """

    of: str
    quantity: str
    start: float
    steps: tuple[Step, ...]

    @property
    def answer(self) -> float:
        return self.steps[-1].answer if self.steps else self.start

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "steps": [asdict(step) for step in self.steps], "answer": self.answer}


def explain(model: Model, of: str | Mapping[str, Event], given: Given) -> Explanation:
    """What each piece of evidence, in the order given, adds to the log-odds of an event, or to the mean of a number.

    Arguments:
        model: The model.
        of: An event like ``income=>50K``; a column of numbers; or one of categories, for the most probable of them.
        given: The evidence.
    """
    events = events_of(model.schema, given)
    prefixes = [dict(list(events.items())[:count]) for count in range(len(events) + 1)]
    if isinstance(of, str) and (of in model.schema.names or not OPERATORS.search(of)):
        variable = model.schema.index(of)
        if model.schema.columns[variable].is_numeric:
            answers = [_mean(model, variable, known_of(model.schema, prefix)) for prefix in prefixes]
            return _explanation(of, "mean", events, answers)
        answer = distribution(model, of, events)
        assert isinstance(answer, Categories)
        of = {of: next(iter(answer.probabilities))}
    answers = [_log_odds(probability(model, of, prefix)) for prefix in prefixes]
    text = of if isinstance(of, str) else ", ".join(write_event(name, event) for name, event in of.items())
    return _explanation(text, "log-odds", events, answers)


def _explanation(of: str, quantity: str, events: Mapping[str, Event], answers: list[float]) -> Explanation:
    steps = [
        Step(write_event(column, event), after - before, after)
        for (column, event), before, after in zip(events.items(), answers[:-1], answers[1:], strict=True)
    ]
    return Explanation(of, quantity, answers[0], tuple(steps))


def _mean(model: Model, variable: int, known: Mapping[int, Known]) -> float:
    """The mean of a column of numbers given evidence, in the units of the table."""
    column, entry = model.schema.columns[variable], known.get(variable)
    log_prob_of_possible(model, known)
    if entry is not None and entry.value is not None:
        mean = np.array([entry.value])
    else:
        posterior = posteriors(model, known)[:, variable, : width_of(model, variable)]
        mean = mean_and_std(model.circuit, variable, posterior, None if entry is None else entry.event)[0]
    return float(mean[0] * column.std + column.mean)


def _log_odds(p: float) -> float:
    return inf if p >= 1 else -inf if p <= 0 else log2(p) - log2(1 - p)
