"""Numbers under a posterior: distribution functions, quantiles and moments of single columns."""

from __future__ import annotations

from math import inf
from typing import NamedTuple

import numpy as np
import torch

from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from ..circuits import Circuit

FloatArray = NDArray[np.float64]

HALVINGS = 60
MOST_CELLS = 20_000
SCORES = np.concatenate([np.arange(-40, -8, 0.25), np.arange(-3200, 3201) / 400, np.arange(8.25, 40.25, 0.25)])
FINEST = 1000
FAR_TAILS = 40


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
    part, whole = interval_masses(circuit, variable, below), interval_masses(circuit, variable, support[None])
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
    low, high = (np.full(rows * count, end) for end in _range(circuit, variable, _ends(within)))
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        enough = cumulative(circuit, variable, expanded, middle, within) >= targets
        low, high = np.where(enough, low, middle), np.where(enough, middle, high)
    scale = getattr(circuit.leaves.families[variable], "scale", None)
    return (high if scale is None else scale.round(high)).reshape(rows, count)


class Pieces(NamedTuple):
    """The numbers of a column in pieces so small that all in one of them are about as probable.

    Arguments:
        values: A number for each piece, (pieces,): the recorded one, or that in the middle; inf for "missing".
        edges: Where each finite piece begins, in ascending order, and where the last one ends.
        cells: How many recorded numbers are in each piece, (pieces,); of continuous ones, its width in units of `unit_of`.
        masses: The probability of each piece under each leaf distribution, (l, pieces).
    """

    values: FloatArray
    edges: FloatArray
    cells: FloatArray
    masses: FloatArray


def pieces(circuit: Circuit, variable: int, within: ArrayLike | None = None) -> Pieces:
    """The pieces of a column of numbers, or of the part of it that is within intervals, (intervals, 2).

    Where not too many numbers can be recorded, each is a piece, and sums over pieces are exact.
    """
    support = np.array([[-inf, inf]]) if within is None else np.asarray(within, np.float64)
    unit = unit_of(circuit, variable)
    ends = _ends(support)
    edges = np.unique(np.concatenate([_edges(circuit, variable, ends), ends]))
    low, high = np.append(-inf, edges), np.append(edges, inf)
    values = np.append(edges[0] - unit / 2, np.append((edges[1:] + edges[:-1]) / 2, edges[-1] + unit / 2))
    inside = ((support[:, :1] <= low) & (high <= support[:, 1:])).any(0)
    masses = interval_masses(circuit, variable, np.stack([low, high], -1)[:, None]).T * inside
    is_alone = np.isin(low, getattr(circuit.leaves.families[variable], "points", ())) | np.isinf(high - low)
    cells = np.where(is_alone, 1.0, (high - low) / unit)
    if getattr(circuit.leaves.families[variable], "has_missing", False):
        is_inside = bool(np.isposinf(support[:, 0]).any()) or within is None
        values, cells = np.append(values, inf), np.append(cells, 1.0)
        masses = np.append(masses, np.eye(len(masses))[:, -1:] * is_inside, 1)
    return Pieces(values, edges, cells, masses)


def mean_and_std(
    circuit: Circuit, variable: int, posterior: Tensor, within: ArrayLike | None = None
) -> tuple[FloatArray, FloatArray]:
    """Mean and standard deviation of one variable in each row, within intervals if they are known: two of (rows,)."""
    center, whole, first, second = _moments(circuit, variable, within)
    weights = posterior.double().numpy() * (whole > 0)
    total = weights.sum(1)
    mean = weights @ first / total
    return center + mean, np.sqrt(np.maximum(weights @ second / total - mean**2, 0.0))


def _moments(
    circuit: Circuit, variable: int, within: ArrayLike | None
) -> tuple[float, FloatArray, FloatArray, FloatArray]:
    """A center; under each leaf distribution the mass of numbers within intervals, E(x - center) and E(x - center)^2: (l,)."""
    family = circuit.leaves.families[variable]
    if within is None and getattr(family, "scale", None) is None:
        mean, variance = family.moments(circuit.leaves.parameters_of(variable).detach().double())
        first = mean[0].numpy()
        return 0.0, np.ones_like(first), first, variance[0].numpy() + first**2
    parts = pieces(circuit, variable, within)
    finite = np.isfinite(parts.values)
    masses, values = parts.masses[:, finite], parts.values[finite]
    center, whole = float(values[len(values) // 2]), masses.sum(1)
    first, second = (masses @ (values - center) ** power / np.where(whole > 0, whole, 1) for power in (1, 2))
    return center, whole, first, second


def unit_of(circuit: Circuit, variable: int) -> float:
    """The width of a recorded number's cell; of continuous ones, a thousandth of what holds the middle 90 % of them."""
    scale = getattr(circuit.leaves.families[variable], "scale", None)
    if scale is not None and scale.decimals is not None:
        return scale.width
    low, high = (-1.645, 1.645) if scale is None else scale.values(np.array([-1.645, 1.645]))
    return float(high - low) / FINEST


def interval_masses(circuit: Circuit, variable: int, intervals: FloatArray) -> FloatArray:
    """The mass of intervals, (rows, intervals, 2), under each leaf distribution of a variable: (rows, l)."""
    family = circuit.leaves.families[variable]
    single = type(family).join([family])
    events = single.read_events(torch.from_numpy(np.ascontiguousarray(intervals))[:, None])
    with torch.no_grad():
        return single.log_mass(circuit.leaves.parameters_of(variable), events)[:, 0].double().exp().numpy()


def _edges(circuit: Circuit, variable: int, ends: FloatArray) -> FloatArray:
    """The edges of all recorded numbers, or of pieces in which distributions hardly change; points are alone in theirs.

    Beyond the ends of intervals that are far out there are small pieces, too, where all that is inside is near them.
    """
    scale = getattr(circuit.leaves.families[variable], "scale", None)
    if scale is None:
        low, high = _range(circuit, variable, ends[:0])
        near = ends[:, None] + np.linspace(-1, 1, FINEST) * (high - low) / 24
        return np.concatenate([np.linspace(low, high, len(SCORES)), near.ravel()])
    far, points = np.unique(scale.values(SCORES)), np.array(scale.points)
    near = (ends[:, None] + np.linspace(-FAR_TAILS, FAR_TAILS, 4 * FINEST) * max(scale.tails)).ravel()
    numbers = np.concatenate([far[np.isfinite(far)], near, scale.knots])
    if scale.decimals is None:
        return np.concatenate([numbers, points, np.nextafter(points, inf)])
    low, high = _range(circuit, variable, ends)
    if (high - low) / scale.width <= MOST_CELLS:
        cells = np.arange(np.floor(low / scale.width), np.ceil(high / scale.width) + 1) * scale.width
        numbers = np.concatenate([numbers[(numbers < low) | (numbers > high)], cells])
    numbers = np.concatenate([numbers, points, points + scale.width])
    return np.unique(np.floor(numbers / scale.width + 0.5) - 0.5) * scale.width


def _ends(within: ArrayLike | None) -> FloatArray:
    """The finite ends of intervals."""
    ends = np.asarray([] if within is None else within, np.float64)
    return ends[np.isfinite(ends)]


def _range(circuit: Circuit, variable: int, ends: FloatArray) -> tuple[float, float]:
    """Numbers below and above which there is next to nothing, also within intervals with these ends."""
    scale = getattr(circuit.leaves.families[variable], "scale", None)
    if scale is not None:
        low, high = scale.values(np.array([-8.0, 8.0]))
        beyond, inside = FAR_TAILS * max(scale.tails), [low, high, *scale.points]
    else:
        mean, variance = circuit.leaves.families[variable].moments(circuit.leaves.parameters_of(variable))
        spread = 12 * variance.sqrt()
        beyond, inside = spread.max().item(), [(mean - spread).min().item(), (mean + spread).max().item()]
    return float(min(*inside, *(ends - beyond))), float(max(*inside, *(ends + beyond)))
