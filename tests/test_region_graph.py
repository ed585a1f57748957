import pytest

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
