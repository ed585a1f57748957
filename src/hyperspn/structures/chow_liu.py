"""Hidden Chow-Liu trees: each variable below the one that says most about it."""

from __future__ import annotations

from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from numpy.typing import ArrayLike

from .mutual_information import FloatArray, bootstrapped_information
from .region_graph import RegionGraph

ROWS_AT_ONCE = 2**11
OUTER_SHARE = 0.4  # of the mutual information of two outer variables


def chow_liu(
    data: ArrayLike,
    replicas: int = 8,
    seed: int = 0,
    *,
    shared: bool = False,
    continuous: ArrayLike | None = None,
    outer: ArrayLike | None = None,
) -> RegionGraph:
    """Trees of maximal mutual information between neighbors, each with a root of its own.

        region(i) = leaf(i) x region(j_1) x region(j_2) x ...,   j_1, j_2, ... the variables below i

    A variable with nothing below it is its leaf alone. So every edge of the tree is a sum of k hidden states. The first
    tree is that of all rows, the others are those of bootstrap samples.

    Arguments:
        data: A table of numbers, (rows, variables), NaN where a value is unknown.
        replicas: The number of trees r.
        seed: Determines the bootstrap samples and the roots.
        shared: Whether all replicas have the first tree.
        continuous: Which variables are continuous (see `mutual_information`).
        outer: Which variables rather belong to the ends of the tree, (variables,), bool: those of a few categories, which
            hidden states carry along a path, while the numbers of the others need neighbors. What two of them say about
            each other counts for `OUTER_SHARE` of itself.

    Example:
        >>> graph = chow_liu([[0, 0, 0], [0, 0, 1], [1, 1, 0], [1, 1, 1], [1, 0, 1]], replicas=1)
        >>> graph.num_regions, graph.scope(graph.roots[0])
        (5, (0, 1, 2))
    """
    if replicas < 1:
        raise ValueError(f"expected at least one replica, found {replicas}")
    generator = np.random.default_rng(seed)
    matrices = bootstrapped_information(data, 1 if shared else replicas, generator, continuous)
    trees = [_tree(_discounted(information, outer), generator) for information in matrices]
    return _forest(np.shape(data)[1], trees * replicas if shared else trees)


def _discounted(information: FloatArray, outer: ArrayLike | None) -> FloatArray:
    """Mutual information as it counts for a tree (see `chow_liu`)."""
    if outer is not None:
        variables = np.flatnonzero(np.asarray(outer))
        information[np.ix_(variables, variables)] *= OUTER_SHARE
    return information


def spanning_tree(information: FloatArray) -> Any:
    """The tree with the largest mutual information between neighbors, as a sparse matrix with an entry for each edge.

    It grows from some rows of the matrix at a time: an edge that is in no tree of these rows is in no tree of all.
    """
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import minimum_spanning_tree

    tree, size = csr_array(information.shape), len(information)
    for first in range(0, size, ROWS_AT_ONCE):
        part = csr_array(np.triu(-1 - information[first : first + ROWS_AT_ONCE], first + 1))
        ends = np.pad(part.indptr, (first, size - first - part.shape[0]), mode="edge")
        tree = minimum_spanning_tree(csr_array((part.data, part.indices, ends), information.shape) + tree)
    return tree


class _Tree(NamedTuple):
    """The inner regions of a tree. They come after the leaf regions of all variables, the root last."""

    arities: list[int]
    children: list[int]


def _tree(information: FloatArray, generator: np.random.Generator) -> _Tree:
    """The maximum spanning tree below a random root."""
    from scipy.sparse.csgraph import breadth_first_order

    num_variables = len(information)
    edges = spanning_tree(information)
    order, above = breadth_first_order(edges, int(generator.integers(num_variables)), directed=False)
    below: list[list[int]] = [[] for _ in range(num_variables)]
    for variable in order[1:].tolist():
        below[above[variable]].append(variable)
    inner = [variable for variable in order[::-1].tolist() if below[variable]]
    region = list(range(num_variables))
    for place, variable in enumerate(inner):
        region[variable] = num_variables + place
    children = [[variable, *(region[other] for other in below[variable])] for variable in inner]
    return _Tree([len(regions) for regions in children], list(chain(*children)))


def _forest(num_variables: int, trees: list[_Tree]) -> RegionGraph:
    sizes = np.array([num_variables + len(tree.arities) for tree in trees])
    first_regions = np.cumsum(sizes) - sizes
    return RegionGraph(
        num_variables,
        partition_counts=np.concatenate([np.arange(size) >= num_variables for size in sizes]).astype(np.int64),
        arities=np.concatenate([np.array(tree.arities, np.int64) for tree in trees]),
        children=np.concatenate(
            [first + np.array(tree.children, np.int64) for first, tree in zip(first_regions, trees, strict=True)]
        ),
        leaf_sizes=np.ones(num_variables * len(trees), np.int64),
        leaf_variables=np.tile(np.arange(num_variables), len(trees)),
    )
