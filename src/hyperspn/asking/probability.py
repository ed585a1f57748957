"""Probabilities of events."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..data.events import intersect
from .reading import Given, Model, known_of, log_prob, log_prob_of_possible, values_of


class Chance(NamedTuple):
    """How probable evidence is.

    Arguments:
        log_p: The logarithm of its probability, or of its density.
        is_probability: Whether it is a probability: not where exact values of continuous numbers or likelihoods are given.
        rows: About how many rows of the table are like that: its length times the probability.
    """

    log_p: float
    is_probability: bool
    rows: float | None


def chance(model: Model, given: Given) -> Chance:
    """How probable evidence is."""
    known = known_of(model.schema, given)
    log_p = float(log_prob(model, known)[0] - model.schema.log_scale(values_of(model.schema, known))[0])
    is_probability = all(event.is_probability for event in known.values())
    rows = float(model.num_rows * np.exp(log_p)) if is_probability and model.num_rows is not None else None
    return Chance(log_p, is_probability, rows)


def probability(model: Model, event: Given, given: Given = None) -> float:
    """P(event | given), exact, in one pass.

    Example:
        >>> import numpy as np
        >>> from hyperspn import fit_table
        >>> rows = np.array([["red", 1], ["red", 1], ["blue", 2], ["blue", 3]] * 30, dtype=object)
        >>> model = fit_table(rows, names=["color", "size"], recipe="chow-liu", steps=100, progress=False)
        >>> bool(model.probability("color=red", given="size=1") > 0.9)
        True
    """
    asked, condition = known_of(model.schema, event), known_of(model.schema, given)
    for variable, entry in asked.items():
        if not entry.is_probability:
            raise ValueError(
                f"column {model.schema.names[variable]!r} is continuous, where a single value has a density and no "
                "probability: ask for a range, like 1.5..2.5"
            )
    both = {**condition, **{v: intersect(entry, condition.get(v)) for v, entry in asked.items()}}
    return float(np.exp(log_prob(model, both)[0] - log_prob_of_possible(model, condition)))
