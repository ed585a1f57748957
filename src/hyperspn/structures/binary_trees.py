"""Replicas of balanced binary trees: the structure of the paper's RAT-SPNs (section 2.1)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from numpy.typing import ArrayLike, NDArray

from .mutual_information import FloatArray, bootstrapped_information
from .region_graph import IntArray, RegionGraph

NOISE = 0.5
TRIES = 2


def binary_trees(
    num_variables: int,
    replicas: int = 50,
    seed: int = 0,
    data: ArrayLike | None = None,
    *,
    shared: bool = False,
    continuous: ArrayLike | None = None,
) -> RegionGraph:
    """Balanced binary trees, each over its own order of the variables: random, or learned from data.

    A level of w regions becomes one of floor(w / 2): neighbors are multiplied in pairs, and where w is odd
    the last three together. A tree has 2n - popcount(n) regions; 2n sectors are allocated for each, so that
    the number of stored weights is the published one, 2 n k^2 r + r.

    A learned order puts variables that say much about each other close together: from the root down, the variables
    of a region are divided among its children so that little mutual information is cut. The first tree is that of
    all rows; the others are those of bootstrap samples, with some noise on top.

    Arguments:
        num_variables: The number of variables n.
        replicas: The number of trees r.
        seed: Determines the order of the variables in every tree.
        data: A table of numbers to learn the orders from, (rows, variables), NaN where a value is unknown.
        shared: Whether all replicas have the first tree.
        continuous: Which variables of the data are continuous (see `mutual_information`).
    """
    if num_variables < 1 or replicas < 1:
        raise ValueError(
            f"expected at least one variable and one replica, found {num_variables} variables and {replicas} replicas"
        )
    if data is not None and np.shape(data)[1:] != (num_variables,):
        raise ValueError(f"expected a table of {num_variables} variables, found one of shape {np.shape(data)}")
    generator = np.random.default_rng(seed)
    arities = _arities(num_variables)  # (inner regions,)
    different = 1 if shared else replicas
    if data is None:
        orders = [generator.permutation(num_variables) for _ in range(different)]
    else:
        matrices = _add_noise(bootstrapped_information(data, different, generator, continuous), generator)
        orders = [_learned_order(information, arities, generator) for information in matrices]
    size = num_variables + len(arities)
    first_regions = size * np.arange(replicas)[:, None]  # (r, 1)
    return RegionGraph(
        num_variables,
        partition_counts=np.tile(np.repeat([0, 1], [num_variables, len(arities)]), replicas),
        arities=np.tile(arities, replicas),
        children=(first_regions + np.arange(size - 1)).ravel(),
        leaf_sizes=np.ones(num_variables * replicas, np.int64),
        leaf_variables=np.tile(np.concatenate(orders), replicas // different),
        spare_sectors=replicas * (2 * num_variables - size),
    )


def _arities(width: int) -> IntArray:
    """The number of children of each inner region of one tree, from the leaves' parents to the root."""
    arities: list[int] = []
    while width > 1:
        odd, width = width % 2, width // 2
        arities += [2] * (width - 1) + [2 + odd]
    return np.asarray(arities, np.int64)


def _add_noise(matrices: Iterator[FloatArray], generator: np.random.Generator) -> Iterator[FloatArray]:
    """Multiplies all matrices but the first with log-normal noise."""
    yield next(matrices)
    for matrix in matrices:
        noise = np.triu(NOISE * generator.standard_normal(matrix.shape), 1)
        yield matrix * np.exp(noise + noise.T)


def _learned_order(information: FloatArray, arities: IntArray, generator: np.random.Generator) -> IntArray:
    """The variables in the order of the leaves: those of each region divided among its children, from the root down."""
    order = np.arange(len(information))
    for bounds in reversed(_bounds(arities)):
        for first, last in pairwise(bounds[:-1]):
            rest = order[first : bounds[-1]]
            chosen = _choose(information[np.ix_(rest, rest)], last - first, generator)
            order[first : bounds[-1]] = np.concatenate([rest[chosen], rest[~chosen]])
    return order


def _bounds(arities: IntArray) -> list[list[int]]:
    """For each inner region above others, the leaves where its children begin, and where the last one ends."""
    leaves = 1 + int((arities - 1).sum())
    bounds = [[leaf, leaf + 1] for leaf in range(leaves)]
    first = 0
    for arity in arities.tolist():
        children = bounds[first : first + arity]
        bounds.append([children[0][0], *(child[-1] for child in children)])
        first += arity
    return [ends for ends in bounds[leaves:] if ends[-1] - ends[0] > len(ends) - 1]


def _choose(information: FloatArray, size: int, generator: np.random.Generator) -> NDArray[np.bool_]:
    """Chooses variables that say little about the others: the best of some tries."""
    tries = [_swap(information, _grow(information, size, generator)) for _ in range(TRIES)]
    return min(tries, key=lambda chosen: information[np.ix_(chosen, ~chosen)].sum())


def _grow(information: FloatArray, size: int, generator: np.random.Generator) -> NDArray[np.bool_]:
    """Begins with any variable, and adds the one that shares most information with those chosen before."""
    chosen = np.zeros(len(information), bool)
    shared = np.zeros(len(information))
    newest = int(generator.integers(len(information)))
    for _ in range(size):
        chosen[newest] = True
        shared += information[newest]
        shared[newest] = -np.inf
        newest = int(shared.argmax())
    return chosen


def _swap(information: FloatArray, chosen: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Exchanges a chosen variable for another one as long as this lowers the information between them and the others."""
    inward = 2 * information[:, chosen].sum(1) - information.sum(1)  # shared with the chosen, minus with the others
    for _ in range(len(information)):
        leaving = int(np.where(chosen, inward, np.inf).argmin())
        entering = int(np.where(chosen, -np.inf, inward).argmax())
        gain = inward[entering] - inward[leaving] - 2 * information[entering, leaving]
        if gain < 1e-12:
            break
        chosen[leaving], chosen[entering] = False, True
        inward += 2 * (information[entering] - information[leaving])
    return chosen
