"""Numbers under a posterior: distribution functions and quantiles of single columns."""

from __future__ import annotations

from math import inf

import numpy as np
import torch

from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from ..circuits import Circuit

FloatArray = NDArray[np.float64]

HALVINGS = 60


def cumulative(
    circuit: Circuit, variable: int, posterior: Tensor, x: ArrayLike, within: ArrayLike | None = None
) -> FloatArray:
    """P(X <= x) of one variable in each row, (rows,).

    Arguments:
        circuit: The circuit.
        variable: The number of the variable.
        posterior: The posterior of its leaf distributions, (rows, l).
        x: The numbers, (rows,), included.
        within: Intervals that are known to hold the variable, (intervals, 2); by default all finite numbers.
    """
    limits = np.nextafter(np.asarray(x, np.float64), inf)
    support = np.array([[-inf, inf]]) if within is None else np.asarray(within, np.float64)
    below = np.minimum(support[None], limits[:, None, None])  # (rows, intervals, 2)
    part, whole = _masses(circuit, variable, below), _masses(circuit, variable, support[None])
    shares = np.divide(part, whole, out=np.zeros_like(part), where=whole > 0)
    weights = posterior.double().numpy() * (whole > 0)
    return (weights * shares).sum(1) / weights.sum(1)


def quantiles(
    circuit: Circuit, variable: int, posterior: Tensor, levels: ArrayLike, within: ArrayLike | None = None
) -> FloatArray:
    """The quantiles of one variable in each row, (rows, levels), by bisection; as recorded, where numbers are."""
    wanted = np.asarray(levels, np.float64)
    rows, count = len(posterior), len(wanted)
    expanded = posterior.repeat_interleave(count, 0)
    targets = np.tile(wanted, rows)
    low, high = (np.full(rows * count, end) for end in _range(circuit, variable))
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        enough = cumulative(circuit, variable, expanded, middle, within) >= targets
        low, high = np.where(enough, low, middle), np.where(enough, middle, high)
    scale = getattr(circuit.leaves.families[variable], "scale", None)
    return (high if scale is None else scale.round(high)).reshape(rows, count)


def _masses(circuit: Circuit, variable: int, intervals: FloatArray) -> FloatArray:
    """The mass of intervals, (rows, intervals, 2), under each leaf distribution of a variable: (rows, l)."""
    family = circuit.leaves.families[variable]
    single = type(family).join([family])
    events = single.read_events(torch.from_numpy(np.ascontiguousarray(intervals))[:, None])
    with torch.no_grad():
        return single.log_mass(circuit.leaves.parameters_of(variable), events)[:, 0].double().exp().numpy()


def _range(circuit: Circuit, variable: int) -> tuple[float, float]:
    """Numbers below and above which there is next to nothing."""
    scale = getattr(circuit.leaves.families[variable], "scale", None)
    if scale is not None:
        low, high = scale.values(np.array([-8.0, 8.0]))
        return float(min(low, *scale.points, low)), float(max(high, *scale.points, high))
    mean, variance = circuit.leaves.families[variable].moments(circuit.leaves.parameters_of(variable))
    spread = 12 * variance.sqrt()
    return float((mean - spread).min()), float((mean + spread).max())
