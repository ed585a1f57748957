from functools import partial

import pytest
import torch

from torch.func import functional_call

from hyperspn import Categorical, EiNet, HyperSPN, RegionGraph, load
from hyperspn.structures import binary_trees, poon_domingos
from hyperspn.weights.direct import DirectWeights
from hyperspn.weights.factored import FactoredWeights
from hyperspn.weights.hyper import HyperWeights
from hyperspn.weights.sectors import Sectors
from hyperspn.weights.source import normalize

SOURCES = [DirectWeights, HyperWeights, FactoredWeights]
RANKED = [partial(HyperWeights, rank=1), partial(FactoredWeights, rank=1)]


@pytest.fixture
def sectors():
    """Two replicas of one tree."""
    first, second = (
        [{"variables": [v]} for v in range(4)] + [{"partitions": [[c, c + 1, c + 2]]}, {"partitions": [[c + 4, c + 3]]}]
        for c in (0, 6)
    )
    return Sectors(RegionGraph.from_regions(first + second, spare_sectors=4), 3, [2, 3, 6, 6])


def test_direct_weights_are_their_parameters(sectors):
    source = DirectWeights(sectors)
    assert torch.equal(source(1, torch.tensor([2, 0])), source.logits[1][[2, 0]])
    assert source.num_parameters == sectors.num_weights - 2


def test_hyper_weights_are_the_network_of_the_embeddings(sectors):
    source = HyperWeights(sectors, embedding_dim=4, hidden=(6,))
    for kind, first, size in ((0, 0, 9), (1, 12, 18)):
        embedding = source.embeddings[first + 3]
        hidden = torch.relu(source.net[0].weight @ embedding + source.net[0].bias)
        expected = source.heads[kind].weight @ hidden + source.heads[kind].bias
        torch.testing.assert_close(source(kind, torch.tensor([3])), expected.view(1, size))
    assert source.num_parameters == 16 * 4 + (4 * 6 + 6) + (6 * 9 + 9) + (6 * 18 + 18)


def test_factored_weights_are_a_head_per_region_of_the_features_of_each_replica(sectors):
    source = FactoredWeights(sectors, latent_dim=4, features=3, hidden=(6,))
    hidden = torch.relu(source.latents @ source.net[0].weight.T + source.net[0].bias)
    features = hidden @ source.net[1].weight.T + source.net[1].bias  # (replicas, features)
    for kind, size, corners in ((0, 9, [(3, 1), (3, 2), (3, 2), (1, 2)]), (1, 18, [(3, 5), (3, 5)])):
        written = source(kind, torch.arange(2 * len(corners))).view(2, len(corners), size)
        place = 0
        for region, (rows, columns) in enumerate(corners):
            own = slice(place, place + rows * columns)
            expected = torch.zeros(2, 3, size // 3)
            corner = source.bases[kind][own] + torch.einsum("rf,fw->rw", features, source.heads[kind][:, own])
            expected[:, :rows, :columns] = corner.view(2, rows, columns)
            torch.testing.assert_close(written[:, region], expected.flatten(1))
            place += rows * columns
        assert source.bases[kind].shape == (place,)
    assert source.num_parameters == 2 * 4 + (4 * 6 + 6) + (6 * 3 + 3) + (17 + 30) * (1 + 3)


@pytest.fixture
def large():
    """Two replicas of one tree with sectors of 7 x 7, 7 x 20 and bells."""
    first, second = ([*({"variables": [v]} for v in range(3)), {"partitions": [[c, c + 1, c + 2]]}] for c in (0, 4))
    return Sectors(RegionGraph.from_regions(first + second), 7, [2, 20, 31], grids=[(), (), tuple(range(30))])


def test_a_rank_is_for_large_sectors_that_are_no_bells(large):
    assert [kind.columns for kind in large.kinds] == [7, 20, 31]
    for source in (HyperWeights, FactoredWeights):
        for rank, expected in ((None, [None] * 3), (3, [3, 3, None]), (4, [None, 4, None]), (5, [None, 5, None])):
            assert [layout.rank for layout in source(large, rank=rank).layouts] == expected
        assert [layout.rank for layout in source(large, rank=6).layouts] == [None] * 3


def test_hyper_weights_of_low_rank_are_products_of_two_factors(large):
    source = HyperWeights(large, embedding_dim=4, hidden=(6,), rank=3)
    for kind, first, columns in ((0, 0, 7), (1, 4, 20)):
        hidden = torch.relu(source.net[0].weight @ source.embeddings[first + 1] + source.net[0].bias)
        numbers = (source.heads[kind].weight @ hidden + source.heads[kind].bias).tolist()
        a, b = numbers[: 7 * 3], numbers[7 * 3 :]
        expected = [
            sum(a[3 * o + r] * b[3 * j + r] for r in range(3)) / 3**0.5 for o in range(7) for j in range(columns)
        ]
        torch.testing.assert_close(source(kind, torch.tensor([1])), torch.tensor([expected]))
    heads = sum(6 * size + size for size in ((7 + 7) * 3, (7 + 20) * 3, 7 * 4))
    assert source.num_parameters == 8 * 4 + (4 * 6 + 6) + heads


def test_factored_weights_of_low_rank_are_products_of_two_factors(large):
    """A leaf of two categories has 7 x 1 free weights, of rank 1, and so has a root, with 1 x 6."""
    source = FactoredWeights(large, latent_dim=4, features=5, hidden=(6,), rank=3)
    hidden = torch.relu(source.latents @ source.net[0].weight.T + source.net[0].bias)
    features = hidden @ source.net[1].weight.T + source.net[1].bias  # (replicas, features)
    for kind, columns, corners in ((0, 7, [(7, 1, 1), (1, 6, 1)]), (1, 20, [(7, 19, 3)])):
        written = source(kind, slice(0, 2 * len(corners))).view(2, len(corners), 7, columns)
        numbers = source.bases[kind] + features @ source.heads[kind]  # (replicas, numbers)
        for region, (rows, free, rank) in enumerate(corners):
            a, b, numbers = numbers.split([rows * rank, free * rank, numbers.shape[1] - (rows + free) * rank], 1)
            product = torch.einsum("xor,xjr->xoj", a.view(2, rows, rank), b.view(2, free, rank)) / 3**0.5
            expected = torch.zeros(2, 7, columns)
            expected[:, :rows, :free] = product
            torch.testing.assert_close(written[:, region], expected)
        assert numbers.shape[1] == 0
    counts = (7 + 1) + (1 + 6) + (7 + 19) * 3 + 7 * 3
    assert source.num_parameters == 2 * 4 + (4 * 6 + 6) + (6 * 5 + 5) + counts * (1 + 5)


@pytest.mark.parametrize(("rows", "columns"), [(7, 20), (7, 4), (1, 20)])
def test_the_base_of_low_rank_begins_with_what_comes_nearest(large, rows, columns):
    """The same sums up to rank 3; beyond, their centered logits lack the smaller singular values."""
    layout = FactoredWeights(large, rank=3).layouts[1]
    generator = torch.Generator().manual_seed(0)
    wanted = torch.randn(rows, columns, generator=generator, dtype=torch.float64)
    wanted = wanted - wanted[:, -1:]
    block = layout.block(wanted)
    assert not block[~torch.from_numpy(layout.corner_mask(rows, columns - 1))].abs().gt(1e-6).any()
    corner = layout.sectors(block.view(1, -1)).view(7, 20)[:rows, :columns]
    torch.testing.assert_close(corner[:, -1], torch.zeros(rows, dtype=torch.float64))
    centered = lambda logits: logits - logits.mean(1, keepdim=True)
    missed = torch.linalg.svdvals(centered(wanted))[3:].square().sum()
    torch.testing.assert_close((centered(corner) - centered(wanted)).square().sum(), missed)


@pytest.mark.parametrize("weights", ["hyper", "factored"])
def test_ranks_are_saved_and_none_is_not_mentioned(weights, tmp_path):
    circuit = HyperSPN(6, 7, 2, weights=weights, rank=2, leaves=Categorical(9), seed=1)
    plain = HyperSPN(6, 7, 2, weights=weights, leaves=Categorical(9), seed=1)
    assert circuit.weights.num_parameters < plain.weights.num_parameters
    assert "rank" not in plain.weights.config()
    assert "rank" not in repr(plain.weights)
    assert "rank=2" in repr(circuit.weights)
    circuit.save(tmp_path / "ranked.safetensors")
    again = load(tmp_path / "ranked.safetensors")
    assert again.weights.config() == circuit.weights.config()
    assert [layout.rank for layout in again.weights.layouts] == [2, 2]
    x = torch.randint(0, 9, (5, 6))
    torch.testing.assert_close(again.log_prob(x), circuit.log_prob(x))
    for rank in (0, 1.5, True):
        with pytest.raises(ValueError, match="rank to be a whole number >= 1"):
            HyperSPN(6, 7, 2, weights=weights, rank=rank)


def test_factored_weights_need_replicas_of_one_tree():
    for structure in (
        binary_trees(5, replicas=2),
        RegionGraph.from_regions([*_pair(0), {"variables": [0, 1]}]),
        RegionGraph.from_regions([*_pair(0), {"variables": [0]}, {"variables": [1]}, {"partitions": [[4, 3]]}]),
    ):
        with pytest.raises(ValueError, match="replicas of one tree"):
            FactoredWeights(Sectors(structure, 2, [2] * structure.num_variables))
    FactoredWeights(Sectors(RegionGraph.from_regions(_pair(0) + _pair(3)), 2, [2, 2]))


def _pair(first):
    return [{"variables": [0]}, {"variables": [1]}, {"partitions": [[first, first + 1]]}]


@pytest.mark.parametrize("source", SOURCES + RANKED)
def test_any_sectors_can_be_asked_for(sectors, source):
    weights = source(sectors)
    for kind, count in ((0, 8), (1, 4)):
        everything = weights(kind, torch.arange(count))
        for ids in ([3, 1], [2, 2], [], [0, 3, 1, 2]):
            torch.testing.assert_close(weights(kind, torch.tensor(ids, dtype=torch.int64)), everything[ids])
        for first in range(count):
            for last in range(first, count + 1):
                torch.testing.assert_close(weights(kind, slice(first, last)), everything[first:last])


@pytest.mark.parametrize("ids", [torch.tensor([5, 0, 3, 5]), slice(1, 7), slice(5, 7)])
@pytest.mark.parametrize("source", [HyperWeights, FactoredWeights, *RANKED])
def test_gradients(sectors, source, ids):
    weights = source(sectors, hidden=(4,)).double()
    parameters = dict(weights.named_parameters())
    assert torch.autograd.gradcheck(
        lambda *values: functional_call(weights, dict(zip(parameters, values, strict=True)), (0, ids)),
        tuple(parameters.values()),
    )


@pytest.mark.parametrize(
    ("source", "rates"),
    [
        (DirectWeights, [2e-2]),
        (HyperWeights, [5e-3, 5e-3]),
        (FactoredWeights, [6e-2, 1.5e-2]),
        (RANKED[1], [6e-2, 1.5e-2]),
    ],
)
def test_parameter_groups_cover_everything_once(sectors, source, rates):
    weights = source(sectors)
    groups = weights.parameter_groups()
    assert [group["lr"] for group in groups] == rates
    assert {id(p) for g in groups for p in g["params"]} == {id(p) for p in weights.parameters()}
    torch.optim.Adam(groups)


def test_initialization_is_uniform_or_normal(sectors):
    uniform = HyperWeights(sectors, embedding_dim=200).embeddings
    assert uniform.min() >= 0
    assert uniform.max() < 1
    normal = DirectWeights(Sectors(binary_trees(50), 5, [2] * 50), init="normal").logits[0]
    assert normal.mean().abs() < 0.02
    assert abs(normal.std() - 1) < 0.02
    with pytest.raises(ValueError, match="'uniform' or 'normal'"):
        DirectWeights(sectors, init="zero")


def test_widths_must_be_positive(sectors):
    with pytest.raises(ValueError, match=">= 1"):
        HyperWeights(sectors, embedding_dim=0)
    with pytest.raises(ValueError, match=">= 1"):
        HyperWeights(sectors, hidden=(5, 0))
    for options in ({"latent_dim": 0}, {"features": 0}, {"hidden": (0,)}):
        with pytest.raises(ValueError, match=">= 1"):
            FactoredWeights(sectors, **options)


def test_normalized_weights_sum_to_one():
    log_weights = normalize(torch.tensor([[0.0, 300.0, -300.0]], dtype=torch.float64))
    assert log_weights.exp().sum() == 1
    assert log_weights[0].tolist() == [-300.0, 0.0, -600.0]


@pytest.mark.parametrize("init", ["uniform", "normal"])
@pytest.mark.parametrize("hidden", [(20, 5), (20, 10), (7,)])
def test_a_careful_start_keeps_all_units_alive(hidden, init):
    for seed in range(5):
        x = HyperSPN(12, 3, 4, seed=seed, hidden=hidden, init=init, start="careful").weights
        rows = x.embeddings
        for layer in x.net:
            inputs = layer(rows)
            shares = (inputs > 0).float().mean(0)
            assert ((shares > 0.2) & (shares < 0.8)).all()
            torch.testing.assert_close(inputs.std(0, correction=0), torch.full_like(shares, 2.0))
            rows = inputs.relu()


def test_starts_are_saved_and_a_plain_one_is_not_mentioned(tmp_path):
    plain, careful = HyperSPN(6, 2, 2), HyperSPN(6, 2, 2, start="careful")
    assert plain.weights.config() == {"embedding_dim": 5, "hidden": [20, 20], "init": "uniform"}
    assert plain.num_parameters == careful.num_parameters
    torch.testing.assert_close(plain.weights.embeddings, careful.weights.embeddings)
    careful.save(tmp_path / "careful.safetensors")
    again = load(tmp_path / "careful.safetensors")
    assert again.weights.start == "careful"
    x = torch.randint(0, 2, (5, 6))
    torch.testing.assert_close(again.log_prob(x), careful.log_prob(x))
    with pytest.raises(ValueError, match="expected start 'plain' or 'careful', found 'bold'"):
        HyperSPN(6, start="bold")
    with pytest.raises(ValueError, match="expected no start beside weights='factored'"):
        HyperSPN(6, weights="factored", start="careful")


def test_an_einet_draws_only_the_weights_that_it_has(monkeypatch):
    from hyperspn.circuits import models

    monkeypatch.setattr(models, "DirectWeights", None)
    assert EiNet(poon_domingos((2, 2), delta=1), 3, weights="hyper").weights.num_parameters
