import pytest
import torch

from hyperspn.sectors import Sectors
from hyperspn.structures import binary_trees
from hyperspn.weights import DirectWeights, HyperWeights, normalize


@pytest.fixture
def sectors():
    return Sectors(binary_trees(4, replicas=2), 3, [2, 3, 6, 6])


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


@pytest.mark.parametrize("source", [DirectWeights, HyperWeights])
def test_any_sectors_can_be_asked_for(sectors, source):
    weights = source(sectors)
    everything = weights(0, torch.arange(12))
    torch.testing.assert_close(weights(0, torch.tensor([7, 1])), everything[[7, 1]])


@pytest.mark.parametrize(("source", "rates"), [(DirectWeights, [2e-2]), (HyperWeights, [5e-3, 5e-3])])
def test_parameter_groups_cover_everything_once(sectors, source, rates):
    weights = source(sectors)
    groups = weights.parameter_groups()
    assert [group["lr"] for group in groups] == rates
    assert {id(p) for g in groups for p in g["params"]} == {id(p) for p in weights.parameters()}
    torch.optim.Adam(groups)


def test_initialisation_is_uniform_or_normal(sectors):
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


def test_normalized_weights_sum_to_one():
    log_weights = normalize(torch.tensor([[0.0, 300.0, -300.0]], dtype=torch.float64))
    assert log_weights.exp().sum() == 1
    assert log_weights[0].tolist() == [-300.0, 0.0, -600.0]
