from itertools import pairwise

import numpy as np
import pytest

from hypothesis import given
from hypothesis import strategies as st
from worlds import CATERPILLAR, SHARED, STRUCTURES, WIDE_LEAVES

from hyperspn.structures import RegionGraph, binary_trees


@pytest.mark.parametrize("graph", STRUCTURES.values(), ids=STRUCTURES.keys())
def test_json_round_trip(graph):
    again = RegionGraph.from_json(graph.to_json())
    assert again == graph
    assert hash(again) == hash(graph)
    assert again != binary_trees(7)


def test_roots_heights_and_scopes_of_a_shared_graph():
    assert SHARED.roots.tolist() == [8]
    assert SHARED.heights.tolist() == [0, 0, 0, 0, 1, 1, 1, 2, 3]
    assert SHARED.partitions(7) == [[4, 2], [0, 6]]
    assert SHARED.scope(7) == (0, 1, 2)
    assert SHARED.scope(8) == (0, 1, 2, 3)
    assert not SHARED.is_forest
    assert CATERPILLAR.is_forest
    assert WIDE_LEAVES.is_forest
    assert WIDE_LEAVES.scope(5) == (1, 2, 3)


def test_arrays_are_frozen():
    with pytest.raises(ValueError, match="read-only"):
        SHARED.children[0] = 1
    with pytest.raises(AttributeError):
        SHARED.num_variables = 3


@pytest.mark.parametrize(
    ("regions", "message"),
    [
        ([], "at least one region"),
        ([{"variables": []}], "empty"),
        ([{"variables": [1]}], "each of 2 variables"),
        ([{"variables": [-1]}], "variables 0"),
        ([{"variables": [0]}, {"partitions": [[]]}], "empty"),
        ([{"variables": [0]}, {"partitions": [[1]]}], "before their parents"),
        ([{"variables": [0]}, {"partitions": [[-1]]}], "before their parents"),
        ([{"variables": [0]}, {"variables": [0, 1]}, {"partitions": [[0, 1]]}], "overlap"),
        ([{"variables": [0, 0]}], "overlap"),
        ([{"variables": [0]}, {"variables": [1]}], "roots over all 2 variables"),
        ([{"variables": [0]}, {"variables": [1]}, {"partitions": [[0], [1]]}], "different ones"),
        ([{"variables": [0.5]}], "vector of integers"),
        ([{"scope": [0]}], "'variables' or 'partitions'"),
        (["x"], "'variables' or 'partitions'"),
    ],
)
def test_bad_graphs_are_refused(regions, message):
    with pytest.raises(ValueError, match=message):
        RegionGraph.from_regions(regions)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"regions": 3}', '{"regions": [{"variables": ["a"]}]}', "[" * 99999])
def test_bad_json_is_refused(text):
    with pytest.raises(ValueError, match="expected"):
        RegionGraph.from_json(text)


def test_inconsistent_arrays_are_refused():
    arrays = SHARED.arrays()
    for name in arrays:
        with pytest.raises(ValueError, match="expected"):
            RegionGraph(4, **{**arrays, name: arrays[name][:-1]})
    with pytest.raises(ValueError, match="spare_sectors"):
        RegionGraph(4, **arrays, spare_sectors=-1)


@given(n=st.integers(1, 40), replicas=st.integers(1, 4), seed=st.integers(0, 5))
def test_binary_trees(n, replicas, seed):
    graph = binary_trees(n, replicas, seed)
    size = 2 * n - n.bit_count()
    assert graph.is_forest
    assert graph.num_regions == replicas * size
    assert graph.spare_sectors == replicas * n.bit_count()
    assert len(graph.roots) == replicas
    for replica, root in enumerate(graph.roots):
        assert graph.scope(root) == tuple(range(n))
        widths = np.bincount(graph.heights[replica * size : (replica + 1) * size]).tolist()
        assert widths[0] == n
        assert widths[-1] == 1
        assert all(above == below // 2 for below, above in pairwise(widths))
    assert graph == binary_trees(n, replicas, seed)


def test_binary_trees_merge_the_last_three_of_an_odd_level():
    graph = binary_trees(7, replicas=1)
    assert [graph.partitions(region)[0] for region in range(7, 11)] == [[0, 1], [2, 3], [4, 5, 6], [7, 8, 9]]


def test_binary_trees_differ_by_seed_and_replica():
    orders = binary_trees(30, replicas=2, seed=0).leaf_variables.reshape(2, 30)
    assert (orders[0] != orders[1]).any()
    assert binary_trees(30, seed=0) != binary_trees(30, seed=1)


@pytest.mark.parametrize(("n", "replicas"), [(0, 1), (3, 0), (-1, 1)])
def test_binary_trees_need_a_variable_and_a_replica(n, replicas):
    with pytest.raises(ValueError, match="at least one"):
        binary_trees(n, replicas)


def test_large_structures_stay_small():
    graph = binary_trees(4096, replicas=50)
    assert sum(array.nbytes for array in graph.arrays().values()) < 20e6
