"""Starting values from clusters: hidden states that begin as clusters of rows."""

from __future__ import annotations

from types import NoneType

import numpy as np
import torch

from numpy.typing import ArrayLike, NDArray

from ..circuits.circuit import Circuit
from ..circuits.models import countable
from ..leaves import Categorical, LeafFamily, Numeric
from ..leaves.hats import REACH
from ..structures import RegionGraph
from ..structures.mutual_information import encode
from ..weights.bells import MEAN_AND_WIDTH, bell_numbers
from ..weights.factored import FactoredWeights

MOST_ROWS = 5000
PSEUDOCOUNT = 1.0
NOISE = 0.1

States = NDArray[np.int64]  # for each row the state of a region, or the category of a variable; -1 where unknown


def start_from_clusters(circuit: Circuit, data: ArrayLike, seed: int = 0) -> None:
    """Lets a tree with factored weights begin as a latent tree model of a table, before it is trained.

    Product j of a region stands for its hidden state j. From the leaves up, rows become clusters by the states of a
    region's children, k-means with k clusters: these are its states. Then each weight begins as a smoothed frequency,

        base_u[o, j] = log P(state of u = j | state of the region above = o) + noise,

    where the state of a categorical leaf is its category. A leaf of numbers begins with the means and deviations of
    their normal scores in each state, and with the frequencies of its point masses. Leaves of other distributions keep
    their weights.

    Arguments:
        circuit: A circuit whose weights are `FactoredWeights`, which is changed.
        data: A table of numbers, (rows, variables), NaN where a value is unknown; some rows of a long one.
        seed: Determines rows, clusters and noise.

    Example:
        >>> from hyperspn import HyperSPN
        >>> from hyperspn.structures import chow_liu
        >>> rows = np.random.default_rng(0).integers(0, 2, (500, 1)).repeat(6, axis=1)
        >>> circuit = HyperSPN(6, 2, structure=chow_liu(rows, 4, shared=True), weights="factored")
        >>> before = circuit.log_prob(rows).mean()
        >>> start_from_clusters(circuit, rows)
        >>> bool(circuit.log_prob(rows).mean() > before + 1)
        True
    """
    if not isinstance(circuit.weights, FactoredWeights):
        raise TypeError(f"expected factored weights, found {type(circuit.weights).__name__}")
    if circuit.structure.leaf_sizes.max() > 1:
        raise ValueError("expected leaf regions of one variable each, found some of several")
    generator = np.random.default_rng(seed)
    table = np.asarray(data)
    table = table[generator.permutation(len(table))[:MOST_ROWS]]
    children = _children_of_one_tree(circuit.structure)
    states = _states(circuit, table, children, generator)
    above = {child: region for region, below in children.items() for child in below}
    for region, state in states.items():
        layer = circuit.sectors.layers[circuit.sectors.layer_of[region]]
        family = _family(circuit, region) if layer.is_leaf else None
        if not isinstance(family, (Categorical, Numeric, NoneType)):
            continue
        given = states[above[region]] if region in above else np.zeros(len(table), np.int64)
        if isinstance(family, Numeric):
            numbers = _bells(family, table[:, circuit.structure.scope(region)[0]], given, layer.rows)
        else:
            numbers = np.log(_frequencies(given, state, layer.rows, layer.columns))
        numbers += NOISE * generator.standard_normal(numbers.shape)
        numbers[:, MEAN_AND_WIDTH * isinstance(family, Numeric) :] -= numbers[:, -1:]
        sector = int(layer.sectors[circuit.sectors.slot_of[region], 0])
        circuit.weights.begin(layer.kind_index, sector, torch.from_numpy(numbers))


def _children_of_one_tree(structure: RegionGraph) -> dict[int, list[int]]:
    """The children of the inner regions of the first tree, from the bottom up."""
    inner = np.flatnonzero(structure.partition_counts[: structure.roots[0] + 1])
    ends = np.cumsum(structure.arities)[: len(inner)]
    return {
        int(region): structure.children[end - arity : end].tolist()
        for region, end, arity in zip(inner, ends, structure.arities[: len(inner)], strict=True)
    }


def _states(
    circuit: Circuit, table: NDArray, children: dict[int, list[int]], generator: np.random.Generator
) -> dict[int, States]:
    """The state of every row in every region of one tree."""
    counted, continuous = countable(table, circuit.leaves.families)
    codes = encode(counted, continuous=continuous)  # (variables, rows)
    for variable, family in enumerate(circuit.leaves.families):
        if isinstance(family, Categorical):
            codes[variable] = np.nan_to_num(table[:, variable], nan=-1)
        elif isinstance(family, Numeric):
            codes[variable] = family.scale.bins(table[:, variable])
    leaves = np.flatnonzero(circuit.structure.partition_counts[: circuit.structure.roots[0] + 1] == 0)
    states = {
        int(leaf): codes[variable].astype(np.int64)
        for leaf, variable in zip(leaves, circuit.structure.leaf_variables, strict=False)
    }
    for region, below in children.items():
        together = np.stack([states[child] for child in below], axis=1)  # (rows, children)
        states[region] = _clusters(together, circuit.sectors.layer_size, generator)
    return states


def _clusters(rows: States, clusters: int, generator: np.random.Generator) -> States:
    """The cluster of each row of categories, (rows, columns) -> (rows,)."""
    from sklearn.cluster import KMeans

    different, which, counts = np.unique(rows, axis=0, return_inverse=True, return_counts=True)
    which = which.ravel()
    if len(different) <= clusters:
        return which
    indicators = [_indicators(column) for column in different.T]
    k_means = KMeans(clusters, n_init=1, max_iter=20, random_state=int(generator.integers(2**31)))
    return k_means.fit(np.concatenate(indicators, axis=1).astype(np.float32), sample_weight=counts).labels_[which]


def _indicators(column: States) -> NDArray[np.bool_]:
    """Whether a column has each of its values, (rows, values); of two values, the second one only."""
    values = np.unique(column[column >= 0])
    return column[:, None] == (values[1:] if len(values) == 2 else values)


def _frequencies(given: States, state: States, rows: int, columns: int) -> NDArray[np.float64]:
    """P(state | given state), (rows, columns), drawn towards P(state), and that towards equal parts."""
    known = state >= 0
    counts = np.zeros((rows, columns))
    np.add.at(counts, (given[known], state[known]), 1)
    overall = counts.sum(0) + PSEUDOCOUNT / columns
    counts += PSEUDOCOUNT * overall / overall.sum()
    return counts / counts.sum(1, keepdims=True)


def _bells(family: Numeric, x: NDArray, given: States, rows: int) -> NDArray[np.float64]:
    """What to write for a leaf of numbers, (rows, points + 3): each state is drawn towards all of them together."""
    point = family.point_numbers(x)
    plain = (point < 0) & ~np.isnan(x)
    point[plain] = len(family.points)
    frequencies = _frequencies(given, point, rows, len(family.points) + 1)
    scores, states = family.scale.scores(x[plain]).clip(-REACH, REACH), given[plain]
    counts = np.bincount(states, minlength=rows) + PSEUDOCOUNT
    means = np.bincount(states, scores, rows) / counts
    squares = (np.bincount(states, scores**2, rows) + PSEUDOCOUNT) / counts
    mean, std = torch.from_numpy(means), torch.from_numpy(np.sqrt(np.maximum(squares - means**2, 0)))
    bells = bell_numbers(mean, std, family.grid[1] - family.grid[0])
    return np.concatenate([np.stack([part.numpy() for part in bells], 1), np.log(frequencies)], 1)


def _family(circuit: Circuit, leaf: int) -> LeafFamily:
    return circuit.leaves.families[circuit.structure.scope(leaf)[0]]
