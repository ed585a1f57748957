"""The native engine against the layered one, in every way a circuit can be cut."""

import copy
import gc
import math
import os
import pickle
import subprocess
import sys

from contextlib import suppress
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from hypothesis import given, settings
from hypothesis import strategies as st
from worlds import ROWS, SHARED, WIDE_LEAVES, missing_patterns, sharpened

from hyperspn import SPN, Binomial, Categorical, Gaussian, HyperSPN, RegionGraph
from hyperspn.engines import LayeredEngine, NativeEngine
from hyperspn.engines.trees import Trees
from hyperspn.kernel import array, kernel, rounded_subnormals
from hyperspn.structures import binary_trees, chow_liu
from hyperspn.weights.sectors import Sectors

LEAVES = {
    "binary": [Categorical(2)],
    "categories": [Categorical(2), Categorical(7), Categorical(40), Categorical(1)],
    "many categories": [Categorical(200), Categorical(3)],
    "gaussian": [Gaussian(4, max_variance=2.0)],
    "mixed": [Categorical(3), Gaussian(2), Binomial(6, total=9), Categorical(2), Gaussian(5, 0.1, 1.0)],
}


def random_forest(n: int, trees: int, seed: int) -> RegionGraph:
    """Trees of any shape: regions are merged at random, a few at a time, sometimes alone."""
    generator = np.random.default_rng(seed)
    regions: list[dict] = []
    for _ in range(trees):
        alive = list(range(len(regions), len(regions) + n))
        regions += [{"variables": [int(v)]} for v in generator.permutation(n)]
        while len(alive) > 1 or generator.random() < 0.3:
            arity = min(len(alive), int(generator.choice([1, 2, 2, 2, 3, 5])))
            chosen = generator.choice(alive, arity, replace=False).tolist()
            alive = [region for region in alive if region not in chosen] + [len(regions)]
            regions.append({"partitions": [chosen]})
    return RegionGraph.from_regions(regions)


STRUCTURES = {
    "one variable": binary_trees(1, replicas=3),
    "balanced": binary_trees(11, replicas=4),
    "random": random_forest(9, trees=3, seed=1),
    "star": RegionGraph.from_regions([{"variables": [v]} for v in range(12)] + [{"partitions": [list(range(12))]}]),
    "one tree": binary_trees(13, replicas=1),
    "shared balanced": binary_trees(7, replicas=3, shared=True),
    "shared chow-liu": chow_liu(ROWS, replicas=4, shared=True),
    "chow-liu": chow_liu(ROWS, replicas=4),
}


def in_chunks(circuit, weights_at_once):
    """The same circuit with a native engine that materializes so many weights at a time."""
    circuit.engine = NativeEngine(circuit.sectors, circuit.leaves, weights_at_once=weights_at_once)
    return circuit


def pair(
    structure, assemble=HyperSPN, leaves="binary", layer_size=3, dtype=torch.float64, seed=0, weights_at_once=2**22
):
    """The same circuit with both engines."""
    families = [LEAVES[leaves][v % len(LEAVES[leaves])] for v in range(structure.num_variables)]
    make = lambda engine: sharpened(
        assemble(structure.num_variables, layer_size, structure=structure, leaves=families, engine=engine), seed
    ).to(dtype)
    return in_chunks(make("native"), weights_at_once), make("layered")


def rows_of(circuit, count=37, seed=3):
    """Rows of the circuit's own samples, with holes, one row without any and one with nothing else."""
    x = circuit.sample(count, torch.Generator().manual_seed(seed)).to(circuit.mixture.dtype)
    missing = missing_patterns(circuit, count, seed) & (torch.arange(count) % 3 > 0)[:, None]
    missing[-1] = True
    return x.masked_fill(missing, torch.nan)


def gradients(circuit, x):
    circuit.zero_grad()
    (circuit.log_prob(x) * torch.linspace(-1, 2, len(x), dtype=circuit.mixture.dtype)).sum().backward()
    learnable = ((name, p) for name, p in circuit.named_parameters() if p.numel())
    return {name: torch.zeros_like(p) if p.grad is None else p.grad.clone() for name, p in learnable}


def assert_same(one, other, x):
    """Values and gradients agree, to the precision of the circuits."""
    relative, of_largest = (1e-10, 1e-10) if one.mixture.dtype == torch.float64 else (1e-5, 1e-4)
    torch.testing.assert_close(one.log_prob(x), other.log_prob(x), rtol=relative, atol=relative)
    found, expected = gradients(one, x), gradients(other, x)
    largest = max(gradient.abs().max().item() for gradient in expected.values())
    for name, gradient in expected.items():
        torch.testing.assert_close(found[name], gradient, rtol=0, atol=of_largest * max(largest, 1), msg=name)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])
@pytest.mark.parametrize("leaves", LEAVES)
@pytest.mark.parametrize("assemble", [SPN, HyperSPN])
@pytest.mark.parametrize("structure", STRUCTURES.values(), ids=STRUCTURES)
def test_both_engines_agree(structure, assemble, leaves, dtype):
    one, other = pair(structure, assemble, leaves, dtype=dtype)
    assert_same(one, other, rows_of(one))


@pytest.mark.parametrize("layer_size", [1, 2, 4, 5, 7, 8, 9, 12, 16, 20, 33])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])
def test_both_engines_agree_for_every_layer_size(layer_size, dtype):
    one, other = pair(STRUCTURES["random"], SPN, "mixed", layer_size, dtype)
    assert_same(one, other, rows_of(one, count=150))


@pytest.mark.parametrize("weights_at_once", [1, 60, 150, 300])
@pytest.mark.parametrize("leaves", ["binary", "mixed"])
@pytest.mark.parametrize("assemble", [SPN, HyperSPN])
@pytest.mark.parametrize("name", ["balanced", "random", "star", "one variable"])
def test_chunks_of_every_size_agree(name, assemble, leaves, weights_at_once):
    one, other = pair(STRUCTURES[name], assemble, leaves, weights_at_once=weights_at_once)
    pieces = one.engine.values.trees.pieces
    assert name in ("one variable", "star") or len(pieces) > 1 or len(pieces[0].chunks) > 1
    assert_same(one, other, rows_of(one))
    torch.testing.assert_close(one.marginals(rows_of(one)), other.marginals(rows_of(one)))


@pytest.mark.parametrize("weights_at_once", [1, 60, 150, 300, 2**22])
@pytest.mark.parametrize("leaves", ["binary", "mixed"])
@pytest.mark.parametrize("name", ["shared balanced", "shared chow-liu"])
def test_chunks_of_factored_weights_agree(name, leaves, weights_at_once):
    factored = partial(HyperSPN, weights="factored")
    one, other = pair(STRUCTURES[name], factored, leaves, weights_at_once=weights_at_once)
    assert_same(one, other, rows_of(one))
    torch.testing.assert_close(one.marginals(rows_of(one)), other.marginals(rows_of(one)))


@settings(max_examples=40, deadline=None)
@given(
    n=st.integers(1, 12),
    trees=st.integers(1, 4),
    layer_size=st.integers(1, 9),
    seed=st.integers(0, 10_000),
    leaves=st.sampled_from(list(LEAVES)),
    at_once=st.sampled_from([1, 100, 2**22]),
)
def test_random_forests_agree(n, trees, layer_size, seed, leaves, at_once):
    forest = random_forest(n, trees, seed)
    one, other = pair(forest, SPN, leaves, layer_size, seed=seed, weights_at_once=at_once)
    assert_same(one, other, rows_of(one, count=5, seed=seed))


@pytest.mark.parametrize("leaves", ["categories", "mixed"])
def test_every_query_agrees(leaves):
    one, other = pair(STRUCTURES["balanced"], HyperSPN, leaves)
    x = rows_of(one)
    torch.testing.assert_close(one.marginals(x), other.marginals(x))
    for mine, theirs in zip(one.moments(x), other.moments(x)):
        torch.testing.assert_close(mine, theirs)
    torch.testing.assert_close(one.impute(x), other.impute(x))
    torch.testing.assert_close(one.most_probable(x), other.most_probable(x))
    torch.testing.assert_close(one.sample_given(x, generator=torch.Generator().manual_seed(0)).shape[0], 37)


@pytest.mark.parametrize("weights_at_once", [60, 2**22])
@pytest.mark.parametrize("assemble", [SPN, partial(HyperSPN, embedding_dim=2, hidden=(3, 3))], ids=["SPN", "HyperSPN"])
def test_gradcheck(assemble, weights_at_once):
    trees = binary_trees(5, replicas=2)
    circuit, _ = pair(trees, assemble, "mixed", layer_size=2, weights_at_once=weights_at_once)
    x = rows_of(circuit, count=3)
    parameters = {name: p for name, p in circuit.named_parameters() if p.requires_grad}

    def log_prob(*values):
        return torch.func.functional_call(circuit, dict(zip(parameters, values)), (x,))

    assert torch.autograd.gradcheck(log_prob, tuple(parameters.values()))


def test_gradients_of_continuous_values_and_of_frozen_parameters():
    one, other = pair(STRUCTURES["random"], SPN, "gaussian")
    for circuit in (one, other):
        circuit.weights.requires_grad_(False)
    x = torch.randn(4, 9, dtype=torch.float64, requires_grad=True)
    (found,) = torch.autograd.grad(one.log_prob(x).sum(), x)
    (expected,) = torch.autograd.grad(other.log_prob(x).sum(), x)
    torch.testing.assert_close(found, expected)
    assert_same(one, other, x.detach())


def test_gradients_twice_over_one_graph():
    circuit, _ = pair(STRUCTURES["balanced"])
    total = circuit.log_prob(rows_of(circuit)).sum()
    total.backward(retain_graph=True)
    first = circuit.mixture.grad.clone(), circuit.weights.embeddings.grad.clone()
    total.backward()
    torch.testing.assert_close((circuit.mixture.grad / 2, circuit.weights.embeddings.grad / 2), first)


@pytest.mark.parametrize("weights_at_once", [3000, 2**22])
def test_log_likelihoods_below_minus_10000(weights_at_once):
    trees = binary_trees(1500, replicas=2)
    one, other = pair(trees, SPN, layer_size=4, dtype=torch.float32, weights_at_once=weights_at_once)
    for circuit in (one, other):
        circuit.weights.logits[0].data *= 50
    x = torch.randint(2, (20, 1500), generator=torch.Generator().manual_seed(0))
    found, single = one.log_prob(x), gradients(one, x)
    exact = other.double()
    expected = exact.log_prob(x)
    assert expected.max() < -10_000
    torch.testing.assert_close(found.double(), expected, rtol=1e-5, atol=0)
    for name, gradient in gradients(exact, x).items():
        torch.testing.assert_close(single[name].double(), gradient, rtol=0, atol=1e-4 * gradient.abs().max().item())


DEEP = {
    "balanced": binary_trees(40, replicas=2),
    "random": random_forest(40, trees=2, seed=0),
    "chain": RegionGraph.from_regions(
        [{"variables": [v]} for v in range(40)] + [{"partitions": [[38 + v if v > 1 else 0, v]]} for v in range(1, 40)]
    ),
}


@pytest.mark.parametrize("share", [0.03, 1.0], ids=["some", "all"])
@pytest.mark.parametrize("gap", [15, 60, 250])
@pytest.mark.parametrize("structure", DEEP.values(), ids=DEEP)
def test_weights_that_are_nearly_zero(structure, gap, share):
    """What vanishes in single precision is small at the root, or is found again in double precision."""
    one, other = pair(structure, SPN, layer_size=5, dtype=torch.float32)
    generator = torch.Generator().manual_seed(0)
    for ours, theirs in zip(one.weights.parameters(), other.weights.parameters(), strict=True):
        sharp = torch.rand(ours.shape, generator=generator) < share
        ours.data = theirs.data = torch.randn(ours.shape, generator=generator) * torch.where(sharp, gap, 1)
    x = one.sample(20, generator)
    x = torch.cat([x, torch.randint(2, (20, 40), generator=generator)])
    exact = other.double()
    torch.testing.assert_close(one.log_prob(x).double(), exact.log_prob(x), rtol=1e-5, atol=1e-5)
    found = gradients(one, x)
    for name, gradient in gradients(exact, x).items():
        torch.testing.assert_close(found[name].double(), gradient, rtol=0, atol=1e-4 * gradient.abs().max().item())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_sixteen_leaves_at_exp_minus_50(dtype):
    circuit = SPN(16, layer_size=3, replicas=2, leaves=Gaussian(2), engine="native").to(dtype)
    circuit.leaves.raw[0].data.zero_()
    variance = 1 + 1e-6
    distance = math.sqrt(2 * variance * (50 - 0.5 * math.log(2 * math.pi * variance)))
    x = torch.full((3, 16), distance, dtype=torch.float64)
    assert circuit.log_prob(x).tolist() == pytest.approx([-800] * 3, rel=1e-6)


@pytest.mark.parametrize("weights_at_once", [20, 2**22])
@pytest.mark.parametrize("gap", [30, 80, 200, 2000])
def test_children_that_contradict_each_other(gap, weights_at_once):
    """Products whose values all vanish in linear space are found again in log space."""
    trees = binary_trees(8, replicas=2, seed=1)
    one, other = pair(trees, SPN, layer_size=2, dtype=torch.float32, weights_at_once=weights_at_once)
    for circuit in (one, other):
        circuit.weights.logits[0].data.round_().mul_(gap)
    x = torch.randint(2, (64, 8), generator=torch.Generator().manual_seed(0))
    expected = other.double()
    torch.testing.assert_close(one.log_prob(x).double(), expected.log_prob(x), rtol=1e-5, atol=1e-5)
    found = gradients(one, x)
    for name, gradient in gradients(expected, x).items():
        scale = max(1.0, gradient.abs().max().item())
        torch.testing.assert_close(found[name].double(), gradient, rtol=0, atol=1e-4 * scale)


@pytest.mark.parametrize("weights_at_once", [1, 2**22])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])
@pytest.mark.parametrize("children", [1, 2])
def test_likelihoods_far_below_those_of_the_best_member(children, dtype, weights_at_once):
    """The better of two Gaussians has weight e^-10000: the other one counts, however small its likelihood is."""
    regions = [{"variables": [v]} for v in range(children)] + [{"partitions": [list(range(children))]}]
    circuit = SPN(children, 2, structure=RegionGraph.from_regions(regions), leaves=Gaussian(2)).to(dtype)
    in_chunks(circuit, weights_at_once)
    circuit.leaves.raw[0].data = torch.tensor([[0.0, 0.0], [90.0, 0.0]], dtype=dtype).repeat(children, 1, 1)
    circuit.weights.logits[0].data = torch.tensor([0.0, -1e4, 0.0, -1e4], dtype=dtype).repeat(children + 1, 1)
    variance = 1 + 1e-6
    x = torch.full((3, children), 90.0, dtype=dtype, requires_grad=True)
    log_prob = circuit.log_prob(x)
    expected = children * (-(90**2) / (2 * variance) - 0.5 * math.log(2 * math.pi * variance))
    assert log_prob.tolist() == pytest.approx([expected] * 3, rel=1e-6)
    (gradient,) = torch.autograd.grad(log_prob.sum(), x)
    assert gradient.flatten().tolist() == pytest.approx([-90 / variance] * 3 * children, rel=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])
@pytest.mark.parametrize("weights_at_once", [1, 2**22])
def test_gradients_at_extreme_weights_are_numbers(dtype, weights_at_once):
    """Weights of 2^-1000 that matter: the gradient of such a weight is 2^1000 times its flow."""
    for seed in range(25):
        torch.manual_seed(seed)
        circuit = HyperSPN(4, 3, 2, 13, leaves=Categorical(3)).to(dtype)
        for parameter in circuit.parameters():
            parameter.data *= 10
        exact = copy.deepcopy(circuit).double()
        exact.engine = LayeredEngine(circuit.sectors)
        x = torch.randint(3, (50, 4))
        computed = gradients(in_chunks(circuit, weights_at_once), x)
        for name, gradient in gradients(exact, x).items():
            limit = (1e-9 if dtype == torch.float64 else 1e-3) * max(1, gradient.abs().max().item())
            torch.testing.assert_close(computed[name].double(), gradient, rtol=0, atol=limit, msg=name)


@pytest.mark.parametrize("factor", [1e-25, 1e25])
def test_gradients_of_losses_of_any_size(factor):
    circuit, other = pair(DEEP["balanced"], SPN, layer_size=5, dtype=torch.float32)
    for model in (circuit, other):
        model.weights.logits[0].data *= 20
    x = circuit.sample(20, torch.Generator().manual_seed(0))
    (circuit.log_prob(x).sum() * factor).backward()
    other.double().log_prob(x).sum().backward()
    for ours, theirs in zip(circuit.parameters(), other.parameters(), strict=True):
        if ours.numel() and theirs.grad is not None:
            limit = 1e-4 * max(1, theirs.grad.abs().max().item())
            torch.testing.assert_close(ours.grad.double() / factor, theirs.grad, rtol=0, atol=limit)


@pytest.mark.parametrize("weights_at_once", [20, 2**22])
def test_impossible_values(weights_at_once):
    circuit = in_chunks(SPN(2, layer_size=2, replicas=2), weights_at_once)
    for replica in range(2):
        place = circuit.structure.leaf_variables.reshape(2, 2)[replica].tolist().index(0)
        circuit.weights.logits[0].data.view(-1, 2, 2)[replica * 3 + place, :, 1] = -torch.inf
    x = torch.tensor([[0, 1], [1, 1]])
    log_prob = circuit.log_prob(x)
    assert log_prob[0].isfinite()
    assert log_prob[1] == -torch.inf
    log_prob.exp().sum().backward()
    assert all(p.grad is None or p.grad.isfinite().all() for p in circuit.parameters())
    with pytest.raises(ValueError, match="impossible values in row 2"):
        circuit.marginals(x)


def test_everything_missing_is_certain():
    circuit, _ = pair(STRUCTURES["random"], SPN, "mixed")
    log_prob = circuit.log_prob(torch.full((5, 9), torch.nan))
    torch.testing.assert_close(log_prob, torch.zeros_like(log_prob), rtol=0, atol=1e-12)


@pytest.mark.parametrize("batch", [0, 1, 2, 15, 16, 17, 63, 64, 65, 129, 300])
def test_every_batch_size(batch):
    one, other = pair(STRUCTURES["balanced"], HyperSPN, "categories")
    x = rows_of(one, count=300)[:batch]
    assert one.log_prob(x).shape == (batch,)
    if batch:
        assert_same(one, other, x)


def test_the_same_numbers_again_for_every_number_of_threads():
    circuit, other = pair(STRUCTURES["balanced"], HyperSPN, "mixed", dtype=torch.float32)
    x = rows_of(circuit, count=333)
    threads = torch.get_num_threads()
    try:
        for count in (1, 2, 3):
            torch.set_num_threads(count)
            first, second = gradients(circuit, x), gradients(circuit, x)
            assert all(torch.equal(first[name], second[name]) for name in first)
            assert_same(circuit, other, x)
    finally:
        torch.set_num_threads(threads)


@pytest.mark.parametrize("isa", ["baseline", "avx2", "avx512"])
def test_every_instruction_set(isa):
    if isa not in kernel.instruction_sets():
        pytest.skip(f"this machine has no {isa}")
    code = (
        "import torch, test_native as t\n"
        "from hyperspn.kernel import kernel\n"
        f"assert kernel.instruction_set() == {isa!r}\n"
        "for dtype in (torch.float32, torch.float64):\n"
        "    for k in (3, 5, 12):\n"
        "        one, other = t.pair(t.STRUCTURES['random'], t.SPN, 'mixed', k, dtype)\n"
        "        t.assert_same(one, other, t.rows_of(one, count=100))\n"
    )
    command = [sys.executable, "-c", code]
    environment = {**os.environ, "HYPERSPN_ISA": isa, "PYTHONPATH": str(Path(__file__).parent)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("n", [2, 3, 4, 7, 16, 100, 163, 1024, 4096])
def test_few_vectors_are_alive(n):
    """Proposition 1: on a balanced tree at most log2 n + 2, counted by walking the program."""
    trees = Trees(Sectors(binary_trees(n, replicas=1), 2, [2] * n), 2**22)
    alive, most = set(), 0
    for node in range(len(trees.slots)):
        own = trees.children[trees.child_offsets[node] : trees.child_offsets[node + 1]]
        for child in own:
            if trees.slots[child] >= 0:
                alive.remove((int(child), int(trees.slots[child])))
        if trees.slots[node] >= 0:
            assert trees.slots[node] not in {slot for _, slot in alive}
            alive.add((node, int(trees.slots[node])))
        most = max(most, len(alive))
    assert not alive
    assert most <= math.log2(n) + 2
    assert max(trees.slots) + 1 == most


def test_the_neediest_child_goes_first():
    """A caterpillar needs one slot, whichever side its long branch is on."""
    for long_first in (True, False):
        regions = [{"variables": [v]} for v in range(200)]
        spine = 0
        for v in range(1, 200):
            regions.append({"partitions": [[spine, v] if long_first else [v, spine]]})
            spine = len(regions) - 1
        trees = Trees(Sectors(RegionGraph.from_regions(regions), 2, [2] * 200), 2**22)
        assert trees.slots.max() == 0


def test_long_chains():
    regions = [{"variables": [0]}] + [{"partitions": [[v]]} for v in range(3000)]
    one, other = pair(RegionGraph.from_regions(regions), SPN)
    assert_same(one, other, rows_of(one, count=5))


def test_copies_and_pickles():
    circuit, _ = pair(STRUCTURES["balanced"], HyperSPN, "mixed")
    x = rows_of(circuit)
    expected = circuit.log_prob(x)
    for again in (copy.deepcopy(circuit), pickle.loads(pickle.dumps(circuit))):
        assert torch.equal(again.log_prob(x), expected)


def test_the_choice_of_engine(monkeypatch):
    assert type(SPN(3).engine) is NativeEngine
    assert type(SPN(3, engine="layered").engine) is LayeredEngine
    assert type(SPN(4, structure=SHARED).engine) is LayeredEngine
    with pytest.raises(ValueError, match="not a forest"):
        SPN(4, structure=SHARED, engine="native")
    with pytest.raises(ValueError, match="several variables"):
        SPN(5, structure=WIDE_LEAVES, engine="native")
    with pytest.raises(ValueError, match="'auto', 'native' or 'layered', found 'fast'"):
        SPN(3, engine="fast")
    monkeypatch.setenv("HYPERSPN_ENGINE", "layered")
    assert type(SPN(3).engine) is LayeredEngine
    assert type(SPN(3, engine="native").engine) is NativeEngine
    monkeypatch.setenv("HYPERSPN_ENGINE", "quick")
    with pytest.raises(ValueError, match="'quick'"):
        SPN(3)


def test_without_the_kernel_one_message_comes_at_import():
    code = (
        "import sys, warnings\n"
        "sys.modules['hyperspn._kernel'] = None\n"
        "with warnings.catch_warnings(record=True) as caught:\n"
        "    warnings.simplefilter('always')\n"
        "    import hyperspn, torch\n"
        "    circuit = hyperspn.SPN(3)\n"
        "    circuit.log_prob(torch.zeros(1, 3))\n"
        "print(len([w for w in caught if 'compiled kernel' in str(w.message)]), circuit.engine)\n"
        "try: hyperspn.SPN(3, engine='native')\n"
        "except ValueError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[0] == "1 layered"
    assert "without the compiled kernel" in done.stdout


def test_half_precision_is_refused():
    for dtype in (torch.bfloat16, torch.float16):
        circuit = SPN(4, engine="native").to(dtype)
        with pytest.raises(ValueError, match=f"expected a circuit in float32 or float64 .* found {dtype}"):
            circuit.log_prob(torch.zeros(2, 4))


def test_transforms_of_functions_are_refused():
    circuit = SPN(4, engine="native")
    stacked = {name: parameter.detach()[None] for name, parameter in circuit.named_parameters()}
    log_prob = lambda parameters: torch.func.functional_call(circuit, parameters, (torch.zeros(2, 4),))
    with pytest.raises(ValueError, match=r"plain batches, not inside torch.func.vmap"):
        torch.func.vmap(log_prob)(stacked)
    with pytest.raises(ValueError, match=r"plain batches, not inside torch.func.vmap"):
        torch.func.grad(lambda x: circuit.log_prob(x).sum())(torch.zeros(2, 4))
    with pytest.raises(ValueError, match=r"inside torch.func.vmap: give them all in one batch"):
        torch.func.vmap(circuit)(torch.zeros(3, 2, 4))


@pytest.mark.filterwarnings("ignore:The .grad attribute")  # of the compiler itself
@pytest.mark.parametrize("leaves", ["binary", "mixed"])
def test_compiled_circuits_are_the_same(leaves):
    circuit, _ = pair(STRUCTURES["balanced"], HyperSPN, leaves)
    x = rows_of(circuit)
    expected, gradient = circuit(x), gradients(circuit, x)
    circuit.zero_grad()
    compiled = torch.compile(circuit, backend="eager")(x)
    torch.testing.assert_close(compiled, expected)
    (compiled * torch.linspace(-1, 2, len(x), dtype=torch.float64)).sum().backward()
    for name, parameter in circuit.named_parameters():
        if parameter.grad is not None:
            torch.testing.assert_close(parameter.grad, gradient[name])


def test_subnormal_numbers_survive_in_the_rest_of_the_process():
    circuit, _ = pair(STRUCTURES["balanced"], SPN, dtype=torch.float32)
    gradients(circuit, rows_of(circuit))
    assert (torch.tensor([1e-40]) * 0.5).item() > 0
    assert np.float32(1e-40) * np.float32(0.5) > 0


def test_subnormal_numbers_are_rounded_on_all_threads_and_only_inside():
    small = torch.full((1_000_000,), 1e-40)
    with suppress(KeyError), rounded_subnormals():
        assert (small * 0.5 == 0).all()
        with rounded_subnormals():
            pass
        assert (small * 0.5 == 0).all()
        raise KeyError
    assert (small * 0.5 > 0).all()


def kernel_inputs(batch=20):
    """Reading, logits and codes of a small circuit, as the kernel takes them."""
    circuit, _ = pair(STRUCTURES["balanced"], SPN)
    reading = circuit.engine.values
    kinds = zip(circuit.sectors.kinds, circuit.weights.logits)
    logits = [array(table.view(-1, kind.rows, kind.columns)) for kind, table in kinds]
    evidence = circuit.leaves.read(rows_of(circuit, batch))
    return reading, logits, array(reading.batch(evidence, circuit.leaves).codes)


def start_walk(reading, codes, trees=(0, 4), dtype="float64", tape=False):
    return kernel.Walk(kernel.Batch(reading.program, codes, None, None, dtype, 1), *trees, tape, 1)


def test_flows_are_expected_counts():
    """F = w dL/dw: each used sum node's flow adds up to how often it is used; the logits' gradient is F - w sum(F)."""
    reading, logits, codes = kernel_inputs()
    seeds, nodes = np.ones((4, codes.shape[1])), (0, len(reading.trees.slots))
    (flows,), _ = start_walk(reading, codes).backward(logits, [0], *nodes, seeds, True)
    (gradient,), _ = start_walk(reading, codes).backward(logits, [0], *nodes, seeds, False)
    roots = reading.trees.numbers[reading.trees.offsets[1:] - 1]
    np.testing.assert_allclose(flows[roots].sum((1, 2)), codes.shape[1])
    inner = reading.trees.numbers[(reading.trees.variables < 0) & (reading.trees.slots >= 0)]
    weights = torch.from_numpy(logits[0]).softmax(-1).numpy()[inner]
    expected = flows[inner] - weights * flows[inner].sum(-1, keepdims=True)
    np.testing.assert_allclose(gradient[inner], expected, atol=1e-12)


@pytest.mark.parametrize("weights_at_once", [1, 2**22])
def test_the_kernel_calls_no_python_code(monkeypatch, weights_at_once):
    """There an interrupt would be raised, and the binding would drop it as it does every error of a conversion."""
    called, inside = set(), []

    def watched(function):
        def call(*arguments):
            inside.append(function)
            gc.disable()  # hypothesis has it call Python code, at any time
            sys.setprofile(lambda frame, event, _: event == "call" and called.add(frame.f_code.co_name))
            try:
                return function(*arguments)
            finally:
                sys.setprofile(None)
                gc.enable()

        return call

    def walk(*arguments, make=kernel.Walk):
        made = watched(make)(*arguments)
        methods = ("forward", "finished", "values", "backward")
        return SimpleNamespace(**{name: watched(getattr(made, name)) for name in methods})

    for name in ("Batch", "network_forward", "network_backward"):
        monkeypatch.setattr(kernel, name, watched(getattr(kernel, name)))
    monkeypatch.setattr(kernel, "Walk", walk)
    circuit, _ = pair(STRUCTURES["balanced"], leaves="mixed", weights_at_once=weights_at_once)
    gradients(circuit, rows_of(circuit))
    assert len(inside) >= 8
    assert not called


def test_the_kernel_checks_what_it_is_given():
    reading, (logits,), codes = kernel_inputs()
    nodes = (0, len(reading.trees.slots))
    for bad in (codes[:5].copy(), codes.astype(np.float64), np.full_like(codes, 2), np.full_like(codes, -2)):
        with pytest.raises(ValueError, match="expected"):
            start_walk(reading, bad)
    with pytest.raises(ValueError, match="expected float32 or float64, found int8"):
        start_walk(reading, codes, dtype="int8")
    for trees in ((0, 9), (-1, 2), (2, 2)):
        with pytest.raises(ValueError, match="expected trees"):
            start_walk(reading, codes, trees)
    for arguments in (
        ([], [0], *nodes),
        ([logits], [], *nodes),
        ([logits[:5].copy()], [0], *nodes),
        ([logits.astype(np.float32)], [0], *nodes),
        ([np.full_like(logits, np.nan)], [0], *nodes),
        ([logits], [1], *nodes),
        ([logits], [0], 1, nodes[1]),
        ([logits], [0], 0, nodes[1] + 1),
        ([logits], [0], 0, 5),  # of four trees
    ):
        with pytest.raises(ValueError, match="expected"):
            start_walk(reading, codes).forward(*arguments)


def test_a_walk_keeps_its_order():
    reading, logits, codes = kernel_inputs()
    last, seeds = int(reading.trees.offsets[1]), np.ones((1, codes.shape[1]))
    cut = last - 1
    walk = start_walk(reading, codes, (0, 1), tape=True)
    with pytest.raises(ValueError, match="expected a finished walk"):
        walk.values()
    with pytest.raises(ValueError, match="expected a finished walk with a tape"):
        walk.backward(logits, [0], cut, last, seeds, False)
    walk.forward(logits, [0], 0, cut)
    with pytest.raises(ValueError, match="expected nodes from"):
        walk.forward(logits, [0], 0, cut)
    walk.forward(logits, [0], cut, last)
    assert walk.finished()
    with pytest.raises(ValueError, match="not finished"):
        walk.forward(logits, [0], 0, cut)
    with pytest.raises(ValueError, match="expected nodes that end at"):
        walk.backward(logits, [0], 0, cut, seeds, False)
    (upper,), _ = walk.backward(logits, [0], cut, last, seeds, False)
    (lower,), _ = walk.backward(logits, [0], 0, cut, seeds, False)
    (whole,), _ = start_walk(reading, codes, (0, 1)).backward(logits, [0], 0, last, seeds, False)
    np.testing.assert_allclose(upper + lower, whole, atol=1e-12)


@settings(max_examples=60, deadline=None)
@given(
    name=st.sampled_from(["offsets", "variables", "kinds", "numbers", "child_offsets", "children", "slots"]),
    place=st.integers(0, 200),
    number=st.integers(-(2**31), 2**31 - 1),
)
def test_a_damaged_program_is_refused_or_harmless(name, place, number):
    circuit = SPN(11, layer_size=3, structure=STRUCTURES["balanced"])
    reading = circuit.engine.values
    array = getattr(reading.trees, name).copy()
    array[place % len(array)] = number
    setattr(reading.trees, name, array)
    with suppress(ValueError, IndexError):
        circuit.log_prob(torch.zeros(3, 11))


def test_data_parallel_training(tmp_path):
    """Two processes, each with half of a batch, get the mean of the halves' gradients (DDP)."""
    code = (
        "import sys, torch, test_native as t\n"
        "rank, path = int(sys.argv[1]), sys.argv[2]\n"
        "torch.set_num_threads(1)\n"
        "torch.distributed.init_process_group('gloo', f'file://{path}/store', rank=rank, world_size=2)\n"
        "circuit, _ = t.pair(t.STRUCTURES['balanced'], t.HyperSPN, 'mixed')\n"
        "x = t.rows_of(circuit, count=40)\n"
        "parallel = torch.nn.parallel.DistributedDataParallel(circuit)\n"
        "parallel(x[rank::2]).sum().backward()\n"
        "found = [p.grad.clone() for p in circuit.parameters() if p.requires_grad]\n"
        "circuit.zero_grad()\n"
        "circuit(x).sum().backward()\n"
        "expected = [p.grad / 2 for p in circuit.parameters() if p.requires_grad]\n"
        "torch.testing.assert_close(found, expected)\n"
        "torch.distributed.destroy_process_group()\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent), "GLOO_SOCKET_IFNAME": "lo"}
    command = [sys.executable, "-c", code]
    processes = [
        subprocess.Popen([*command, str(rank), str(tmp_path)], env=environment, stderr=subprocess.PIPE, text=True)
        for rank in range(2)
    ]
    for process in processes:
        _, errors = process.communicate(timeout=120)
        assert process.returncode == 0, errors
