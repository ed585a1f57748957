from itertools import pairwise

import numpy as np
import pytest

from hypothesis import given
from hypothesis import strategies as st

from hyperspn.structures import binary_trees


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


def planted(blocks, size, seed=0):
    """Rows whose columns, in a random order, are noisy copies of one bit per block; and the block of each column."""
    generator = np.random.default_rng(seed)
    rows = generator.integers(0, 2, (1000, blocks)).repeat(size, axis=1)
    rows ^= generator.random(rows.shape) < 0.1
    order = generator.permutation(blocks * size)
    return rows[:, order], order // size


def continuous(rows, generator):
    return rows + generator.normal(0, 0.3, rows.shape)


def with_holes(rows, generator):
    return np.where(generator.random(rows.shape) < 0.3, np.nan, rows)


def mixed(rows, generator):
    """Categories, and real numbers in every third column, with holes."""
    categories = 2 * rows + generator.integers(0, 2, rows.shape)
    third = np.arange(rows.shape[1]) % 3 == 0
    return with_holes(np.where(third, continuous(rows, generator), categories), generator)


@pytest.mark.parametrize(("blocks", "size"), [(4, 4), (3, 4), (2, 16), (8, 2)])
@pytest.mark.parametrize("table", [lambda rows, _: rows, continuous, with_holes, mixed])
def test_learned_orders_find_planted_blocks(blocks, size, table):
    rows, block_of = planted(blocks, size)
    graph = binary_trees(blocks * size, replicas=4, data=table(rows, np.random.default_rng(1)))
    found = block_of[graph.leaf_variables].reshape(4, blocks, size)
    assert (found == found[:, :, :1]).all()


def test_learned_orders_keep_the_shape_and_the_seed():
    rows, _ = planted(5, 7)
    learned, random = binary_trees(35, 3, data=rows), binary_trees(35, 3)
    assert learned == binary_trees(35, 3, data=rows) != binary_trees(35, 3, seed=1, data=rows)
    for name, array in learned.arrays().items():
        assert name == "leaf_variables" or np.array_equal(array, random.arrays()[name])
    orders = learned.leaf_variables.reshape(3, 35)
    assert (np.sort(orders) == np.arange(35)).all()
    assert (orders[0] != orders[1]).any()


@pytest.mark.parametrize("data", [None, planted(3, 3)[0]])
def test_one_tree_for_all_replicas(data):
    orders = binary_trees(9, 4, data=data, shared=True).leaf_variables.reshape(4, 9)
    assert (orders == binary_trees(9, 1, data=data).leaf_variables).all()


def test_data_must_have_the_variables():
    with pytest.raises(ValueError, match="table of 3 variables, found one of shape"):
        binary_trees(3, data=np.zeros((5, 4)))
