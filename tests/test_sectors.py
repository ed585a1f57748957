import pytest
import torch

from worlds import CATERPILLAR, SHARED, WIDE_LEAVES

from hyperspn.structures import binary_trees
from hyperspn.weights.sectors import Sectors
from hyperspn.weights.source import normalize


def test_every_sector_is_used_once():
    for graph, widths in ((SHARED, [2, 7, 2, 3]), (CATERPILLAR, [2] * 5), (WIDE_LEAVES, [4] * 5)):
        sectors = Sectors(graph, 3, widths)
        for index, kind in enumerate(sectors.kinds):
            used = torch.cat(
                [layer.sectors.flatten() for layer in sectors.layers if layer.kind_index == index] or [torch.empty(0)]
            )
            assert sorted(used.tolist()) == list(range(kind.count))
        assert sectors.num_sectors == graph.partition_counts.sum() + len(graph.leaf_regions)


def test_leaves_with_more_distributions_than_sums_have_their_own_kind():
    sectors = Sectors(binary_trees(4, replicas=2), 3, [2, 3, 6, 6])
    assert [(kind.rows, kind.columns, kind.count) for kind in sectors.kinds] == [(3, 3, 12), (3, 6, 4)]
    assert sectors.num_weights == 12 * 9 + 4 * 18 + 2
    assert sectors.num_used_weights == 2 * (3 * 2 + 3 * 3 + 2 * 3 * 6 + 2 * 9 + 3) + 2


def test_every_sector_of_outer_products_is_used_once():
    for graph, widths in ((SHARED, [2, 7, 2, 3]), (CATERPILLAR.in_pairs(), [3] * 5), (WIDE_LEAVES.in_pairs(), [4] * 5)):
        sectors = Sectors(graph, 3, widths, "outer")
        ids = [[layer.sectors.flatten() for layer in sectors.layers if layer.kind_index == q] for q in range(2)]
        for kind, own in zip(sectors.kinds, ids, strict=False):
            assert sorted(torch.cat(own).tolist()) == list(range(kind.count))


def test_einsum_weights_are_normalized_in_each_partition_and_mixed():
    layer = Sectors(SHARED, 2, [2] * 4, "outer").layers[-1]
    assert (layer.rows, layer.partitions, layer.columns, layer.sectors.shape) == (1, 2, 4, (1, 6))
    logits = torch.tensor([[0.0, 1], [2, 3], [4, 6], [8, 10], [5, 99], [7, 99]])
    weights = layer.assemble(logits, normalize).exp()
    mixing = torch.tensor([5.0, 7]).softmax(0)
    inner = torch.tensor([[0.0, 1, 2, 3], [4, 6, 8, 10]]).softmax(1)
    torch.testing.assert_close(weights, (mixing[:, None] * inner).view(1, 1, 8))
    columns, is_right = torch.tensor([0, 1, 2, 3]), torch.tensor([False, False, True, True])
    assert layer.element(columns, is_right).tolist() == [0, 1, 1, 1]


def test_outer_products_need_pairs():
    for graph in (CATERPILLAR, binary_trees(3), WIDE_LEAVES):
        with pytest.raises(ValueError, match="partitions of two regions"):
            Sectors(graph, 2, [2] * graph.num_variables, "outer")
    with pytest.raises(ValueError, match="'elementwise' or 'outer'"):
        Sectors(SHARED, 2, [2] * 4, "inner")


def test_one_variable_is_a_single_sum():
    sectors = Sectors(binary_trees(1, replicas=4), 5, [2])
    assert sectors.num_weights == 2 * 25 * 4 + 4
    assert sectors.num_used_weights == 4 * 2 + 4


def test_assemble_takes_corners_and_joins_partitions():
    layer = Sectors(SHARED, 2, [2] * 4).layers[-1]
    logits = torch.arange(8.0).view(2, 4)
    assert layer.sums(logits)[0].tolist() == [[[0, 1, 4, 5]]]


def test_bad_sizes_are_refused():
    with pytest.raises(ValueError, match="layer_size >= 1"):
        Sectors(SHARED, 0, [2] * 4)
    with pytest.raises(ValueError, match="leaves for 4 variables"):
        Sectors(SHARED, 2, [2] * 3)
    with pytest.raises(ValueError, match="differ"):
        Sectors(WIDE_LEAVES, 2, [2, 2, 2, 2, 3])
