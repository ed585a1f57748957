import sys

from itertools import product

import numpy as np
import pytest

from scipy.sparse.csgraph import minimum_spanning_tree

from hyperspn.structures import RegionGraph, chow_liu, mutual_information
from hyperspn.structures.chow_liu import OUTER_SHARE, spanning_tree


def dependent_rows(n, rows=200, seed=0, holes=0.0):
    """Each column copies an earlier one, with noise."""
    generator = np.random.default_rng(seed)
    data = generator.integers(0, 2, (rows, n)).astype(float)
    for column in range(1, n):
        copied = generator.random(rows) < generator.uniform(0.3, 0.9)
        data[copied, column] = data[copied, generator.integers(column)]
    return np.where(generator.random(data.shape) < holes, np.nan, data)


def all_trees(n):
    """The edges of every tree on n >= 2 nodes, by Prüfer's sequences."""
    for sequence in product(range(n), repeat=n - 2):
        degree = [1 + sequence.count(node) for node in range(n)]
        edges = []
        for node in sequence:
            leaf = degree.index(1)
            edges.append((leaf, node))
            degree[leaf] -= 1
            degree[node] -= 1
        yield [*edges, tuple(node for node in range(n) if degree[node] == 1)]


def edges_of(graph: RegionGraph, tree: int) -> set:
    """The pairs of variables that are neighbors in a tree, from its regions."""
    edges, pending = set(), [int(graph.roots[tree])]
    while pending:
        region = pending.pop()
        for part in graph.partitions(region):
            (variable,) = graph.variables(part[0])
            edges |= {frozenset((variable, variable_of(graph, child))) for child in part[1:]}
            pending += part[1:]
    return edges


def variable_of(graph: RegionGraph, region: int) -> int:
    own = graph.partitions(region)[0][0] if graph.partition_counts[region] else region
    return graph.variables(own)[0]


@pytest.mark.parametrize("n", [2, 3, 4, 5, 6])
@pytest.mark.parametrize("holes", [0.0, 0.3])
def test_no_tree_has_more_mutual_information(n, holes):
    data = dependent_rows(n, seed=n, holes=holes)
    information = mutual_information(data)
    trees = list(all_trees(n))
    assert len(trees) == n ** (n - 2)
    best = max(trees, key=lambda edges: sum(information[edge] for edge in edges))
    assert edges_of(chow_liu(data, replicas=1), 0) == {frozenset(edge) for edge in best}


def test_what_outer_variables_say_about_each_other_counts_less():
    data, is_outer = dependent_rows(6, seed=6), np.arange(6) < 3
    information = mutual_information(data)
    information[np.ix_(is_outer, is_outer)] *= OUTER_SHARE
    best = max(all_trees(6), key=lambda edges: sum(information[edge] for edge in edges))
    edges = edges_of(chow_liu(data, replicas=1, outer=is_outer), 0)
    assert edges == {frozenset(edge) for edge in best} != edges_of(chow_liu(data, replicas=1), 0)


def test_every_variable_is_its_leaf_times_what_is_below():
    data = dependent_rows(12)
    graph = chow_liu(data, replicas=3)
    assert graph.is_forest
    assert graph.num_variables == 12
    assert len(graph.roots) == 3
    for tree, root in enumerate(graph.roots):
        assert graph.scope(root) == tuple(range(12))
        assert len(edges_of(graph, tree)) == 11
    firsts = np.concatenate([[0], graph.roots[:-1] + 1])
    for first in firsts:
        assert [graph.variables(region) for region in range(first, first + 12)] == [[v] for v in range(12)]


def test_one_variable_is_a_leaf():
    graph = chow_liu(np.zeros((3, 1)), replicas=2)
    assert graph.num_regions == len(graph.roots) == 2


def test_seeds_decide_everything():
    data = dependent_rows(15, rows=30)
    graph = chow_liu(data, replicas=4)
    assert graph == chow_liu(data, replicas=4) != chow_liu(data, replicas=4, seed=1)
    assert len({frozenset(edges_of(graph, tree)) for tree in range(4)}) > 1


def test_the_first_tree_is_that_of_all_rows_and_can_be_shared():
    data = dependent_rows(15, rows=30)
    one, several, shared = chow_liu(data, 1), chow_liu(data, 3), chow_liu(data, 3, shared=True)
    size = one.num_regions
    assert shared.num_regions == 3 * size
    for replica in range(3):
        assert edges_of(shared, replica) == edges_of(one, 0) == edges_of(several, 0)
        assert shared.partitions(size * (replica + 1) - 1)[0] == [
            size * replica + c for c in one.partitions(size - 1)[0]
        ]


def test_the_kind_of_a_variable_can_be_given():
    data = np.random.default_rng(0).integers(0, 200, (500, 1)) * [1, 1, 1] % [200, 8, 7]
    assert edges_of(chow_liu(data, 1, continuous=[False] * 3), 0) == {frozenset((0, 1)), frozenset((0, 2))}


def test_a_replica_is_needed():
    with pytest.raises(ValueError, match="at least one replica, found 0"):
        chow_liu(np.zeros((3, 2)), replicas=0)


@pytest.mark.parametrize("size", [1, 2, 5, 30])
def test_a_tree_that_grows_from_a_few_rows_at_a_time_is_the_best_one(size, monkeypatch):
    information = np.random.default_rng(size).random((size, size))
    information += information.T
    best = minimum_spanning_tree(np.triu(-1 - information, 1)).toarray()
    for rows in (1, 4, 100):
        monkeypatch.setattr(sys.modules["hyperspn.structures.chow_liu"], "ROWS_AT_ONCE", rows)
        assert np.array_equal(spanning_tree(information).toarray(), best)
