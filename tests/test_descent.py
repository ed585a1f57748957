"""The way down in the kernel: the choices of the layered engine, exact posteriors, and the same draws on any thread."""

import os
import subprocess
import sys

from copy import deepcopy
from pathlib import Path

import numpy as np
import pytest
import torch

from worlds import STRUCTURES, agreeing, all_worlds, make, missing_patterns, mixed_families

from hyperspn import HCLT, SPN, Categorical, Circuit, Gaussian, Numeric
from hyperspn.data.scales import Scale
from hyperspn.engines import LayeredEngine, NativeEngine, native_descent
from hyperspn.kernel import kernel

pytestmark = pytest.mark.skipif(kernel is None, reason="needs the compiled kernel")

DRAWS = 20_000


def layered(circuit: Circuit) -> Circuit:
    other = deepcopy(circuit)
    other.engine = LayeredEngine(circuit.sectors)
    return other


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def table(rows: int = 300) -> tuple[np.ndarray, Circuit]:
    """A circuit of numbers with point masses and holes, of numbers in cells, of categories and of Gaussians."""
    random = np.random.default_rng(1)
    x = random.standard_normal((rows, 1)) + random.standard_normal((rows, 5)) * [1, 3, 1, 1, 1]
    x[:, 1], x[:, 2] = x[:, 1].round(), (x[:, 2] > 0) * 2
    x[random.random(rows) < 0.3, 0] = 0
    families = [Numeric(Scale.fit(x[:, 0]), 4), Numeric(Scale.fit(x[:, 1]), 4), Categorical(20)]
    families += [Gaussian(3), Categorical(3)]
    x[:, 4] = random.integers(0, 3, rows)
    circuit = HCLT(x, layer_size=6, replicas=4, leaves=families, init="normal").double()
    return x, circuit


def assert_same_completions() -> None:
    """For all shapes of trees, small and large layers, more categories than lanes, events and numbers."""
    for name, k in (("trees1", 2), ("trees10", 1), ("caterpillar", 5), ("chow-liu", 19)):
        n = STRUCTURES[name].num_variables
        circuit = make(name, "direct", k, leaves=[(Categorical(2), Categorical(40))[v % 2] for v in range(n)])
        rows = circuit.sample(200, generator=seeded())
        missing = missing_patterns(circuit, 200)
        assert torch.equal(circuit.most_probable(rows, missing), layered(circuit).most_probable(rows, missing))
    x, circuit = table()
    missing = torch.rand(x.shape, generator=seeded()) < 0.5
    events = [{0: [(-1.0, 0.5)], 4: [1.0, 0.5, 0.0]} if row % 2 else {} for row in range(len(x))]
    for evidence in (circuit.read(x, missing), circuit.leaves.read(x, missing, events)):
        torch.testing.assert_close(circuit.most_probable(evidence), layered(circuit).most_probable(evidence))


def test_most_probable_completions_are_those_of_the_layered_engine():
    assert_same_completions()


@pytest.mark.parametrize("isa", ["baseline", "avx2"])
def test_completions_on_every_instruction_set(isa):
    if isa not in kernel.instruction_sets():
        pytest.skip(f"this machine has no {isa}")
    environment = {**os.environ, "HYPERSPN_ISA": isa, "PYTHONPATH": str(Path(__file__).parent)}
    command = [sys.executable, "-c", "import test_descent as t; t.assert_same_completions()"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def frequencies(drawn: torch.Tensor, worlds: torch.Tensor) -> torch.Tensor:
    places = {tuple(world): index for index, world in enumerate(worlds.tolist())}
    return torch.bincount(torch.tensor([places[tuple(row)] for row in drawn.tolist()]), minlength=len(worlds))


@pytest.mark.parametrize("sharpness", [1.0, 300.0])
def test_draws_in_single_precision_follow_the_posterior(sharpness):
    """Also with weights that are far below the smallest number of the format."""
    circuit = make("trees5", "direct", 4, leaves=mixed_families(5)[:2] * 2 + [Categorical(3)])
    for parameter in circuit.weights.parameters():
        parameter.data.mul_(sharpness)
    worlds = all_worlds(circuit)
    p = layered(circuit).log_prob(worlds).exp()
    row, missing = worlds[p.argmin()], torch.tensor([False, True, False, True, True])
    circuit = circuit.float()
    for drawn, exact in (
        (circuit.sample(DRAWS, generator=seeded()), p),
        (circuit.sample_given(row[None], missing[None], DRAWS, seeded())[0], p * agreeing(worlds, row, missing)),
    ):
        exact = exact / exact.sum()
        errors = (frequencies(drawn, worlds) / DRAWS - exact).abs()
        assert (errors <= 5 * (exact * (1 - exact) / DRAWS).sqrt() + 1e-4).all()


def test_draws_within_events_follow_the_posterior():
    x, circuit = table()
    holes = torch.tensor([[True, False, True, True, True]])
    likelihoods = [1.0, 0.5, 0.0]
    evidence = circuit.leaves.read(x[:1], holes, [{0: [(-1.0, 1.0)], 4: likelihoods}])
    drawn = circuit.sample_given(evidence, n=DRAWS, generator=seeded())[0]
    posterior = circuit.marginals(evidence)[0]
    assert ((drawn[:, 0] >= -1) & (drawn[:, 0] < 1)).all()
    for variable, categories in ((2, 20), (4, 3)):
        share = torch.bincount(drawn[:, variable].long(), minlength=categories) / DRAWS
        assert (share - posterior[variable, :categories]).abs().max() < 0.02
    is_point = (drawn[:, 0] == 0).double().mean()
    assert abs(is_point - posterior[0, 4:].sum()) < 0.02
    assert abs(drawn[:, 3].mean() - circuit.moments(evidence)[0][0, 3]) < 0.05


def test_draws_are_the_same_on_any_number_of_threads():
    x, circuit = table()
    missing = torch.rand(x.shape, generator=seeded()) < 0.5
    threads, results = torch.get_num_threads(), []
    try:
        for count in (1, 3):
            torch.set_num_threads(count)
            given = circuit.sample_given(x, missing, n=3, generator=seeded())
            results.append((circuit.sample(1000, generator=seeded()), given, circuit.most_probable(x, missing)))
    finally:
        torch.set_num_threads(threads)
    assert all(torch.equal(one, other) for one, other in zip(*results, strict=True))
    assert not torch.equal(results[0][0], circuit.sample(1000, generator=seeded(1)))


@pytest.mark.parametrize("weights_at_once", [300, 20])
def test_weights_in_chunks_give_the_same(weights_at_once, monkeypatch):
    """In several pieces the same draws; trees that are cut are left to the layered engine."""
    circuit = SPN(12, 3, 6, init="normal").double()
    rows, missing = circuit.sample(50, generator=seeded()), missing_patterns(circuit, 50)
    small = deepcopy(circuit)
    small.engine = NativeEngine(circuit.sectors, circuit.leaves, weights_at_once=weights_at_once)
    assert torch.equal(small.most_probable(rows, missing), circuit.most_probable(rows, missing))
    if weights_at_once == 300:
        assert len(small.engine.values.trees.pieces) > 1
        assert torch.equal(small.sample(50, generator=seeded()), rows)
        expected = circuit.sample_given(rows, missing, 2, seeded())
        assert torch.equal(small.sample_given(rows, missing, 2, seeded()), expected)
    else:
        monkeypatch.setattr(native_descent, "kernel", None)
        assert small.sample_given(rows, missing, 2, seeded()).shape == (50, 2, 12)


def test_nothing_to_draw():
    _, circuit = table()
    assert circuit.sample(0).shape == (0, 5)
    assert circuit.most_probable(torch.empty(0, 5)).shape == (0, 5)
    assert circuit.sample_given(torch.empty(0, 5), n=2).shape == (0, 2, 5)
