import pytest

from hyperspn.structures import binary_trees, poon_domingos


def boxes(graph, shape):
    """Each region's set of cells, from the definition of a region graph alone."""
    return [frozenset(divmod(cell, shape[1]) for cell in graph.scope(region)) for region in range(graph.num_regions)]


def rectangles(heights, widths):
    return {
        frozenset((row, column) for row in range(top, bottom) for column in range(left, right))
        for top in heights
        for bottom in heights
        for left in widths
        for right in widths
        if top < bottom and left < right
    }


def test_the_published_structure():
    graph = poon_domingos((32, 32), axes=[1], delta=8)
    assert (graph.num_regions, len(graph.arities)) == (10, 10)
    assert set(boxes(graph, (32, 32))) == rectangles([0, 32], [0, 8, 16, 24, 32])
    assert graph.leaf_sizes.tolist() == [256] * 4
    assert graph.partition_counts.tolist() == [0] * 4 + [1] * 3 + [2] * 2 + [3]
    assert poon_domingos((32, 32), axes=[1], delta=[8]) == poon_domingos((32, 32), axes=[1], delta=[[8]]) == graph


def test_two_axes_share_every_rectangle():
    graph = poon_domingos((4, 6), delta=2)
    found = boxes(graph, (4, 6))
    assert len(found) == len(set(found)) == 3 * 6
    assert set(found) == rectangles([0, 2, 4], [0, 2, 4, 6])
    for region, cells in enumerate(found):
        rows, columns = (len({cell[axis] for cell in cells}) // 2 for axis in (0, 1))
        assert graph.partition_counts[region] == rows - 1 + columns - 1
        assert all(len(partition) == 2 for partition in graph.partitions(region))


def test_a_delta_for_each_axis_that_does_not_divide_it():
    graph = poon_domingos((5, 7), delta=[[2, 3]])
    assert set(boxes(graph, (5, 7))) == rectangles([0, 2, 4, 5], [0, 3, 6, 7])
    assert set(boxes(poon_domingos((1, 5), delta=1.5), (1, 5))) == rectangles([0, 1], [0, 2, 3, 5])


def test_several_deltas_go_from_coarse_to_fine():
    graph = poon_domingos((1, 8), axes=[1], delta=[4, 2])
    assert set(boxes(graph, (1, 8))) == rectangles([0, 1], [0, 4, 8]) | {
        frozenset((0, column) for column in range(start, start + 2)) for start in (0, 2, 4, 6)
    }
    assert graph.partition_counts[-1] == 1


def test_channels_stay_together():
    graph = poon_domingos((2, 4), axes=[1], delta=2, channels=3)
    assert graph.num_variables == 24
    assert graph.variables(0) == [*range(6), *range(12, 18)]


def test_a_grid_without_lines_is_one_leaf():
    graph = poon_domingos((4, 4), delta=4)
    assert graph.num_regions == 1
    assert graph.variables(0) == list(range(16))


@pytest.mark.parametrize(
    "options",
    [
        {"shape": ()},
        {"shape": (4, 0)},
        {"shape": (4, 2.5)},
        {"shape": (4, 4), "axes": [2]},
        {"shape": (4, 4), "axes": [1, 1]},
        {"shape": (4, 4), "delta": 0.5},
        {"shape": (4, 4), "delta": [[2]]},
        {"shape": (4, 4), "channels": 0},
    ],
)
def test_bad_grids_are_refused(options):
    with pytest.raises(ValueError, match="expected"):
        poon_domingos(**options)


def test_partitions_of_three_become_nested_pairs():
    graph = binary_trees(7, replicas=2)
    pairs = graph.in_pairs()
    assert graph.arities.max() == 3
    assert pairs.arities.max() == 2
    assert pairs.num_regions == 2 * (2 * 7 - 1)
    scopes, of_pairs = ([g.scope(region) for region in range(g.num_regions)] for g in (graph, pairs))
    assert set(scopes) < set(of_pairs)
    assert pairs.in_pairs() == pairs
