import sys
import tracemalloc

import networkx
import numpy as np
import pytest

from matplotlib import pyplot
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


def test_descriptions_are_a_few_lines():
    lines = ["RegionGraph over 5 variables", "1 tree, 4 high", "5 leaf regions of 1 variable"]
    lines.append("4 inner regions with 4 partitions into 1 to 3 regions")
    assert [line.strip() for line in repr(CATERPILLAR).splitlines()] == lines
    assert "1 root above shared regions, 3 high" in repr(SHARED)
    assert "5 leaf regions of 1 to 3 variables" in repr(WIDE_LEAVES)
    assert len(repr(binary_trees(1, 1)).splitlines()) == 3


@pytest.mark.parametrize("name", STRUCTURES)
def test_networkx_sees_the_same_graph(name):
    structure = STRUCTURES[name]
    graph = structure.to_networkx()
    assert networkx.is_directed_acyclic_graph(graph)
    assert sorted(node for node, degree in graph.in_degree if degree == 0) == structure.roots.tolist()
    for node, attributes in graph.nodes(data=True):
        parts = [graph.nodes[child]["scope"] for child in graph.successors(node)]
        if attributes["kind"] == "region":
            assert attributes["scope"] == structure.scope(node)
            assert set(parts) <= {attributes["scope"]}
            assert len(parts) == structure.partition_counts[node]
        else:
            assert sorted(v for part in parts for v in part) == list(attributes["scope"])


def test_without_networkx_an_error_names_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "networkx", None)
    with pytest.raises(ImportError, match="needs networkx"):
        SHARED.to_networkx()


@pytest.mark.parametrize("name", STRUCTURES)
def test_a_drawing_shows_every_region_below_the_root_at_a_place_of_its_own(name):
    structure = STRUCTURES[name]
    root = int(structure.roots[-1])
    names = [f"variable {v}" for v in range(structure.num_variables)]
    axes = structure.plot(root, names)
    below = networkx.descendants(structure.to_networkx(), root) | {root}
    assert (
        len({text.get_position() for text in axes.texts}) == len(axes.texts) == sum(isinstance(n, int) for n in below)
    )
    shown = " ".join(text.get_text() for text in axes.texts)
    assert all(label in shown for label in names)
    assert structure.plot(ax=axes) is axes
    pyplot.close(axes.figure)


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


@pytest.mark.parametrize("name", ["partition_counts", "arities", "leaf_sizes"])
def test_counts_whose_sum_wraps_around_are_refused(name):
    arrays = SHARED.arrays()
    counts = arrays[name].copy()
    counts[:4] += 2**62
    assert counts.sum() == arrays[name].sum()
    with pytest.raises(ValueError, match="counts that add up"):
        RegionGraph(4, **{**arrays, name: counts})


@pytest.mark.parametrize("num_variables", [float("nan"), 4.0, True, "4", None])
def test_a_number_of_variables_is_a_whole_number(num_variables):
    with pytest.raises(ValueError, match="num_variables"):
        RegionGraph(num_variables, **SHARED.arrays())


def test_a_variable_that_hides_a_missing_one_is_found():
    leaves = [{"variables": [v]} for v in range(3)]
    with pytest.raises(ValueError, match="roots over all 3 variables, each once"):
        RegionGraph.from_regions([*leaves, {"partitions": [[0, 0, 1]]}, {"partitions": [[0, 1, 2]]}])


def test_scopes_that_double_in_each_region_are_refused_at_once():
    regions = [{"variables": [0]}, *({"partitions": [[region, region]]} for region in range(5000))]
    with pytest.raises(ValueError, match="overlap in region 1"):
        RegionGraph.from_regions(regions)


def test_many_variables_need_no_more_memory_than_their_number():
    n = 300_000
    none = np.array([], np.int64)
    tracemalloc.start()
    graph = RegionGraph(n, np.array([0]), none, none, np.array([n]), np.arange(n))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert graph.roots.tolist() == [0]
    assert peak < 300 * n
