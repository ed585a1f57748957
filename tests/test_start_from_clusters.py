import sys

import numpy as np
import pytest
import torch

from worlds import all_worlds

from hyperspn import Categorical, Gaussian, HyperSPN, start_from_clusters
from hyperspn.structures import binary_trees, chow_liu, poon_domingos

pytestmark = pytest.mark.usefixtures("one_thread")


def one_of(rows, n, seed=0):
    """Rows with a single 1, at any place."""
    return np.eye(n)[np.random.default_rng(seed).integers(0, n, rows)]


def started(x, layer_size=6, rank=None, **options):
    tree = binary_trees(x.shape[1], 3, data=x, shared=True)
    circuit = HyperSPN(x.shape[1], layer_size, structure=tree, weights="factored", rank=rank, seed=0)
    with torch.no_grad():
        for head in circuit.weights.heads:
            head.zero_()
    start_from_clusters(circuit, x, **options)
    return circuit


def test_without_noise_it_is_the_latent_tree_of_the_clusters(monkeypatch):
    module = sys.modules[start_from_clusters.__module__]
    monkeypatch.setattr(module, "NOISE", 0.0)
    monkeypatch.setattr(module, "PSEUDOCOUNT", 1e-9)
    x = one_of(1000, 4)
    circuit = started(x)
    with torch.no_grad():
        found = circuit.double().log_prob(all_worlds(circuit)).exp()
    expected = np.zeros(16)
    np.add.at(expected, (x @ [8, 4, 2, 1]).astype(int), 1e-3)
    assert found.numpy() == pytest.approx(expected, abs=1e-6)


def test_it_is_a_distribution_and_better_than_a_cold_start():
    x = one_of(2000, 8)
    circuit = started(x, layer_size=5)
    with torch.no_grad():
        assert circuit.log_prob(all_worlds(circuit)).exp().sum().item() == pytest.approx(1, abs=1e-5)
        assert circuit.log_prob(x).mean() > -3 > -4 > started(x, layer_size=1).log_prob(x).mean() - 1


def test_a_low_rank_begins_near_the_clusters():
    x = one_of(2000, 8)
    full, *ranked = (started(x, layer_size=20, rank=rank) for rank in (None, 9, 3))
    values = []
    with torch.no_grad():
        for circuit in (full, *ranked):
            assert circuit.log_prob(all_worlds(circuit)).exp().sum().item() == pytest.approx(1, abs=1e-5)
            values.append(circuit.log_prob(x).mean().item())
    assert values[0] == pytest.approx(values[1], abs=0.2)
    assert values[1] > values[2] > -8 * np.log(2)


def test_the_seed_decides():
    x = one_of(300, 8)
    first, again, other = (started(x, seed=seed).weights.bases[0] for seed in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_mixed_tables_with_holes():
    generator = np.random.default_rng(0)
    x = np.column_stack([generator.integers(0, 2, 400), generator.integers(0, 7, 400), generator.normal(size=400)])
    x[::5, 0] = x[1::5, 1] = x[2::5, 2] = np.nan
    leaves = [Categorical(2), Categorical(7), Gaussian(3)]
    cold = HyperSPN(3, 4, structure=chow_liu(x, 2, shared=True), weights="factored", leaves=leaves, seed=0)
    before = [base.clone() for base in cold.weights.bases]
    with torch.no_grad():
        cold_value = cold.log_prob(x).mean()
        start_from_clusters(cold, x)
        assert cold.log_prob(x).isfinite().all()
        assert cold.log_prob(x).mean() > cold_value
    assert any((base != old).any() for base, old in zip(cold.weights.bases, before, strict=True))
    unknown = np.full((10, 3), np.nan)
    start_from_clusters(cold, unknown)
    assert cold.log_prob(x).isfinite().all()


def test_a_single_variable():
    x = np.array([[0], [1], [1], [1]] * 100)
    circuit = HyperSPN(1, 3, structure=chow_liu(x, 2, shared=True), weights="factored")
    with torch.no_grad():
        circuit.weights.heads[0].zero_()
        start_from_clusters(circuit, x)
        assert circuit.log_prob(np.array([[1]])).exp().item() == pytest.approx(0.75, abs=0.06)


def test_other_circuits_are_refused():
    with pytest.raises(TypeError, match="factored weights, found HyperWeights"):
        start_from_clusters(HyperSPN(4), one_of(10, 4))
    image = poon_domingos((2, 2), axes=[0], delta=1)
    circuit = HyperSPN(4, 2, structure=image, weights="factored", leaves=[Categorical(2)] * 4)
    with pytest.raises(ValueError, match="one variable each"):
        start_from_clusters(circuit, one_of(10, 4))
