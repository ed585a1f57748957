"""Replicas of balanced binary trees: the structure of the paper's RAT-SPNs (section 2.1)."""

from __future__ import annotations

import numpy as np

from .region_graph import IntArray, RegionGraph


def binary_trees(num_variables: int, replicas: int = 50, seed: int = 0) -> RegionGraph:
    """Balanced binary trees, each over its own random order of the variables.

    A level of w regions becomes one of floor(w / 2): neighbours are multiplied in pairs, and where w is odd
    the last three together. A tree has 2n - popcount(n) regions; 2n sectors are allocated for each, so that
    the number of stored weights is the published one, 2 n k^2 r + r.

    Arguments:
        num_variables: The number of variables n.
        replicas: The number of trees r.
        seed: Determines the order of the variables in every tree.
    """
    if num_variables < 1 or replicas < 1:
        raise ValueError(
            f"expected at least one variable and one replica, found {num_variables} variables and {replicas} replicas"
        )
    generator = np.random.default_rng(seed)
    orders = np.stack([generator.permutation(num_variables) for _ in range(replicas)])  # (r, n)
    arities = _arities(num_variables)  # (inner regions,)
    size = num_variables + len(arities)
    first_regions = size * np.arange(replicas)[:, None]  # (r, 1)
    return RegionGraph(
        num_variables,
        partition_counts=np.tile(np.repeat([0, 1], [num_variables, len(arities)]), replicas),
        arities=np.tile(arities, replicas),
        children=(first_regions + np.arange(size - 1)).ravel(),
        leaf_sizes=np.ones(orders.size, np.int64),
        leaf_variables=orders.ravel(),
        spare_sectors=replicas * (2 * num_variables - size),
    )


def _arities(width: int) -> IntArray:
    """The number of children of each inner region of one tree, from the leaves' parents to the root."""
    arities: list[int] = []
    while width > 1:
        odd, width = width % 2, width // 2
        arities += [2] * (width - 1) + [2 + odd]
    return np.asarray(arities, np.int64)
