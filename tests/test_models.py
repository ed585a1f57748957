from concurrent.futures import ThreadPoolExecutor
from functools import partial
from time import sleep

import numpy as np
import pytest
import torch

from worlds import CATERPILLAR, make

from hyperspn import HCLT, RATSPN, SPN, Categorical, EiNet, Gaussian, HyperSPN
from hyperspn.structures import binary_trees, chow_liu

FACTORED = partial(HyperSPN, weights="factored")


@pytest.mark.parametrize("assemble", [SPN, HyperSPN, FACTORED])
def test_seeds_decide_everything_and_leave_the_global_state_alone(assemble):
    before = torch.get_rng_state()
    first, second, other = (assemble(9, seed=seed) for seed in (3, 3, 4))
    assert torch.equal(torch.get_rng_state(), before)
    assert first.structure == second.structure != other.structure
    for name, value in first.state_dict().items():
        assert torch.equal(value, second.state_dict()[name])
    assert not torch.equal(first.mixture, other.mixture)


def test_seeds_decide_in_threads_too(monkeypatch):
    structure, seeds = binary_trees(40, replicas=5), range(8)
    manual_seed = torch.manual_seed
    monkeypatch.setattr(torch, "manual_seed", lambda seed: (manual_seed(seed), sleep(0.01)))  # let others in
    with ThreadPoolExecutor(4) as threads:
        circuits = list(threads.map(lambda seed: HyperSPN(40, seed=seed, structure=structure), seeds))
    for seed, circuit in zip(seeds, circuits, strict=True):
        alone = HyperSPN(40, seed=seed, structure=structure).state_dict()
        assert all(torch.equal(value, alone[name]) for name, value in circuit.state_dict().items())


def test_the_defaults_are_the_published_ones():
    spn, hyper = SPN(16), HyperSPN(16)
    assert spn.num_parameters == 40050
    assert hyper.num_parameters == 9115
    assert spn.structure == hyper.structure == binary_trees(16, replicas=50, seed=0)
    for parameter in (spn.mixture, spn.weights.logits[0], hyper.weights.embeddings):
        assert 0 <= parameter.min() < parameter.max() < 1


def test_a_further_replica_of_a_factored_hyperspn_costs_a_latent_vector_and_a_mixture_weight():
    few, many = FACTORED(16, replicas=10), FACTORED(16, replicas=30, latent_dim=4)
    assert many.num_parameters - few.num_parameters == 20 * (4 + 1)
    assert many.structure == binary_trees(16, replicas=30, shared=True)


def test_each_latent_vector_writes_the_weights_of_its_own_replica():
    circuit = make("one tree", "factored")
    evidence = circuit.leaves.read(torch.randint(2, (20, 6), generator=torch.Generator().manual_seed(0)))
    roots = lambda: circuit.engine.log_values(evidence, circuit.leaves, circuit.weights).detach()  # (batch, 3)
    before = roots()
    circuit.weights.latents.data[1] = circuit.weights.latents.data[2]
    after = roots()
    torch.testing.assert_close(after[:, [0, 2, 2]], before[:, [0, 2, 2]])
    torch.testing.assert_close(after[:, 1], before[:, 2])
    assert not torch.allclose(before[:, 1], before[:, 2])


def test_weights_are_written_in_one_of_two_ways():
    with pytest.raises(ValueError, match="'hyper' or 'factored', found 'direct'"):
        HyperSPN(4, weights="direct")


def test_a_given_structure_is_used():
    assert SPN(5, structure=CATERPILLAR).structure is CATERPILLAR
    with pytest.raises(ValueError, match="structure of 4 variables, found one of 5"):
        HyperSPN(4, structure=CATERPILLAR)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: SPN(5, replicas=3, structure=CATERPILLAR), "structure or a number of replicas, found both"),
        (lambda: FACTORED(5, 2, 1, structure=CATERPILLAR), "structure or a number of replicas, found both"),
        (lambda: HyperSPN(5, latent_dim=4), "no latent_dim beside weights='hyper', found 4"),
        (lambda: HyperSPN(5, features=8), "no features beside weights='hyper', found 8"),
        (lambda: FACTORED(5, embedding_dim=5), "no embedding_dim beside weights='factored', found 5"),
        (lambda: EiNet(CATERPILLAR, embedding_dim=5), "no embedding_dim beside weights='direct', found 5"),
        (lambda: EiNet(CATERPILLAR, hidden=(3,)), "no hidden beside weights='direct', found"),
    ],
)
def test_what_would_be_ignored_is_refused(build, message):
    with pytest.raises(ValueError, match=message):
        build()


def test_names_of_the_field():
    assert RATSPN is SPN
    rows = np.random.default_rng(0).integers(0, 4, (200, 1)).repeat(3, axis=1).astype(float)
    rows[:, 1] %= 2
    rows[:, 2] -= 0.5
    rows[3, 0] = np.nan
    circuit = HCLT(rows, layer_size=6, replicas=2, seed=1)
    assert circuit.leaves.families == (Categorical(4), Categorical(2), Gaussian(6, min_variance=1e-4))
    assert circuit.structure == chow_liu(rows, 2, 1, continuous=[False, False, True])
    assert circuit.sectors.layer_size == 6
    assert HCLT(rows, leaves=Gaussian(3)).leaves.distinct == (Gaussian(3),)
    assert HCLT(np.full((5, 2), np.nan)).leaves.distinct == (Categorical(1),)
    with pytest.raises(ValueError, match="table of numbers"):
        HCLT(["a", "b"])


@pytest.mark.parametrize("leaves", [[Categorical(2)] * 3, "Categorical", [2] * 4])
def test_leaves_must_fit(leaves):
    with pytest.raises(ValueError, match="one for each of 4 variables"):
        SPN(4, leaves=leaves)


@pytest.mark.parametrize("assemble", [SPN, HyperSPN, FACTORED])
def test_training_raises_the_likelihood(assemble):
    circuit = assemble(8, replicas=5)
    x = torch.randint(2, (64, 1), generator=torch.Generator().manual_seed(0)).expand(-1, 8)
    optimizer = torch.optim.Adam(circuit.parameter_groups())
    before = circuit(x).mean()
    for _ in range(100):
        optimizer.zero_grad()
        (-circuit(x).sum()).backward()
        optimizer.step()
    assert circuit(x).mean() > before + 3
