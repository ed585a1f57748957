"""Imputing: what fills the holes of rows, and between which bounds it would be."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import numpy as np
import torch

from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from ..circuits import Circuit
from ..data import Schema
from ..data.columns import Column
from ..leaves import Evidence
from .numbers import quantiles

FloatArray = NDArray[np.float64]
Strategy = Literal["best", "median", "sample"]

STRATEGIES = ("best", "median", "sample")
FEW_LEVELS = 20  # of so few numbers the most probable one is better than the one nearest to the mean


def fill(circuit: Circuit, schema: Schema, evidence: Evidence, strategy: Strategy, seed: int) -> FloatArray:
    """Rows whose holes are filled, (rows, variables).

    Arguments:
        circuit: The circuit.
        schema: The columns, one for each variable.
        evidence: What is known of the rows.
        strategy: "best" for the mean of numbers and the most probable category, also of at most 20 whole numbers; "median"
            for the median of all numbers; "sample" for draws of all holes of a row together.
        seed: Determines the draws.
    """
    if strategy not in STRATEGIES:
        raise ValueError(f"expected strategy {', '.join(STRATEGIES)}, found {strategy!r}")
    if strategy == "sample":
        generator = torch.Generator().manual_seed(seed)
        return circuit.sample_given(evidence, n=1, generator=generator)[:, 0].double().numpy()
    posterior = circuit.marginals(evidence)
    guesses = torch.where(evidence.known, evidence.values, circuit.leaves.guess(posterior))
    filled = guesses.double().numpy()
    is_median = strategy == "median"
    for variable, column in enumerate(schema.columns):
        holes = ~evidence.known[:, variable]
        marginal = posterior[holes, variable, : circuit.leaves.families[variable].width]
        if is_median and (column.is_numeric or has_order(column)):
            filled[holes.numpy(), variable] = at_levels(circuit, column, variable, marginal, [0.5])[:, 0]
        elif not is_median and has_order(column, FEW_LEVELS):
            filled[holes.numpy(), variable] = _means(column, marginal)
    return filled


def bounds(
    circuit: Circuit, schema: Schema, evidence: Evidence, coverage: float
) -> Iterator[tuple[Column, FloatArray]]:
    """For each column of numbers the bounds that hold its values with this probability, (rows, 2), NaN where known."""
    if not 0 < coverage < 1:
        raise ValueError(f"expected an interval between 0 and 1, found {coverage}")
    levels = [(1 - coverage) / 2, (1 + coverage) / 2]
    posterior = circuit.marginals(evidence)
    for variable, column in enumerate(schema.columns):
        if column.is_numeric or has_order(column):
            holes = ~evidence.known[:, variable]
            ends = np.full((len(evidence), 2), np.nan)
            marginal = posterior[holes, variable, : circuit.leaves.families[variable].width]
            ends[holes.numpy()] = at_levels(circuit, column, variable, marginal, levels)
            yield column, ends


def has_order(column: Column, few: int = 2) -> bool:
    """Whether the categories of a column are more than a few numbers, which have a mean and quantiles."""
    return len(column.categories) > few and not isinstance(column.categories[0], str | bool)


def at_levels(circuit: Circuit, column: Column, variable: int, posterior: Tensor, levels: ArrayLike) -> FloatArray:
    """The quantiles of a column of numbers, as a circuit sees them, (rows, levels)."""
    if column.is_numeric:
        return quantiles(circuit, variable, posterior, levels)
    reached = _shares(column, posterior).cumsum(1)[:, None] >= np.asarray(levels)[:, None] - 1e-12
    return reached.argmax(2).astype(np.float64)


def _means(column: Column, posterior: Tensor) -> FloatArray:
    """The codes of the categories that are nearest to the means, (rows,)."""
    values = np.array(column.categories, np.float64)
    means = _shares(column, posterior) @ values
    above = np.searchsorted(values, means).clip(1, len(values) - 1)
    is_below = means - values[above - 1] <= values[above] - means
    return np.where(is_below, above - 1, above).astype(np.float64)


def _shares(column: Column, posterior: Tensor) -> FloatArray:
    """The probabilities of the categories, those that are pooled and "missing" left aside, (rows, categories)."""
    weights = posterior[:, : len(column.categories)].double().numpy()
    return weights / weights.sum(1, keepdims=True)
