"""Wide layers in the native engine: sums as products of matrices, against the layered engine."""

import os
import subprocess
import sys

from functools import partial
from pathlib import Path

import pytest
import torch

from test_native import STRUCTURES, assert_same, gradients, pair, rows_of

from hyperspn import SPN, Categorical, HyperSPN
from hyperspn.engines import native
from hyperspn.structures import binary_trees

pytestmark = pytest.mark.skipif(native.kernel is None, reason="needs the compiled kernel")

WIDE = [8, 9, 15, 16, 17, 33, 65]  # around the crossover, and with odd remainders


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])
@pytest.mark.parametrize("layer_size", WIDE)
@pytest.mark.parametrize("leaves", ["binary", "many categories", "mixed"])
@pytest.mark.parametrize("name", ["random", "chow-liu"])
def test_both_engines_agree(name, leaves, layer_size, dtype):
    one, other = pair(STRUCTURES[name], SPN, leaves, layer_size, dtype)
    assert_same(one, other, rows_of(one, count=70))


@pytest.mark.parametrize("weights_at_once", [1, 3000])
@pytest.mark.parametrize("leaves", ["categories", "mixed"])
@pytest.mark.parametrize("name", ["balanced", "random", "one variable"])
def test_chunks_agree(name, leaves, weights_at_once):
    one, other = pair(STRUCTURES[name], HyperSPN, leaves, layer_size=17, weights_at_once=weights_at_once)
    assert_same(one, other, rows_of(one))


@pytest.mark.parametrize("weights_at_once", [1, 3000, 2**22])
@pytest.mark.parametrize("weights", ["hyper", "factored"])
@pytest.mark.parametrize("leaves", ["categories", "mixed"])
def test_weights_of_low_rank_agree(leaves, weights, weights_at_once):
    low_rank = partial(HyperSPN, weights=weights, rank=4)
    one, other = pair(STRUCTURES["shared chow-liu"], low_rank, leaves, layer_size=17, weights_at_once=weights_at_once)
    assert one.weights.layouts[0].rank == 4
    assert_same(one, other, rows_of(one))


@pytest.mark.parametrize("weights_at_once", [3000, 2**22])
@pytest.mark.parametrize("scale", [1, 10, 30, 300])
@pytest.mark.parametrize("name", ["random", "chow-liu"])
def test_sharp_weights_in_single_precision(name, scale, weights_at_once):
    """What vanishes in single precision is found again in double precision or in log space."""
    one, other = pair(STRUCTURES[name], SPN, "categories", 17, torch.float32, weights_at_once=weights_at_once)
    generator = torch.Generator().manual_seed(0)
    for ours, theirs in zip(one.weights.parameters(), other.weights.parameters(), strict=True):
        ours.data = theirs.data = torch.randn(ours.shape, generator=generator) * scale
    x, exact = rows_of(one), other.double()
    torch.testing.assert_close(one.log_prob(x).double(), exact.log_prob(x.double()), rtol=1e-5, atol=1e-5)
    expected = gradients(exact, x.double())
    largest = max(1.0, *(gradient.abs().max().item() for gradient in expected.values()))
    for parameter, gradient in gradients(one, x).items():
        torch.testing.assert_close(gradient.double(), expected[parameter], rtol=0, atol=1e-4 * largest)


def test_impossible_rows_and_rows_of_which_nothing_is_known():
    circuit = SPN(4, 20, replicas=2, leaves=Categorical(3), engine="native")
    (leaves,) = (layer for layer in circuit.sectors.layers if layer.columns == 3)
    table = circuit.weights.logits[leaves.kind_index].data.view(-1, leaves.kind.rows, leaves.kind.columns)
    table[leaves.sectors[:, 0], :, 2] = -torch.inf
    x = torch.tensor([[0.0, 1, 0, 1], [2, 0, 0, 0], [torch.nan] * 4])
    values = circuit.log_prob(x)
    assert values[0].isfinite()
    assert values[1] == -torch.inf
    assert values[2].item() == pytest.approx(0, abs=1e-5)
    values[:1].sum().backward()
    assert circuit.weights.logits[leaves.kind_index].grad.isfinite().all()


@pytest.mark.parametrize("layer_size", [8, 17, 33])
def test_flows_are_weights_times_gradients(layer_size):
    """F = w dL/dw, of which the gradient of the logits is F - w sum(F)."""
    circuit, _ = pair(STRUCTURES["random"], SPN, "mixed", layer_size)
    x = circuit.sample(50, torch.Generator().manual_seed(0)).to(torch.float64)
    evidence = circuit.leaves.read(x)
    found = []
    for flows in (True, False):
        circuit.zero_grad()
        circuit.engine.log_values(evidence, circuit.leaves, circuit.weights, flows).sum().backward()
        found.append([table.grad.clone() for table in circuit.weights.logits])
    for layer in circuit.sectors.layers:
        kind, sectors = layer.kind, layer.sectors[:, 0]
        shape = (-1, kind.rows, kind.columns)
        tables = [table[layer.kind_index].view(shape)[sectors, : layer.rows, : layer.columns] for table in found]
        logits = circuit.weights.logits[layer.kind_index].detach().view(shape)[sectors, : layer.rows, : layer.columns]
        expected = tables[0] - logits.softmax(-1) * tables[0].sum(-1, keepdim=True)
        torch.testing.assert_close(tables[1], expected)


def test_the_same_numbers_again_for_every_number_of_threads():
    circuit, other = pair(binary_trees(6, replicas=3), SPN, "categories", layer_size=33, dtype=torch.float32)
    x = rows_of(circuit, count=300)
    before = torch.get_num_threads()
    try:
        for threads in (1, 2, 5):
            torch.set_num_threads(threads)
            first, again = gradients(circuit, x), gradients(circuit, x)
            assert all(torch.equal(first[name], again[name]) for name in first)
            assert_same(circuit, other, x)
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("isa", ["baseline", "avx2", "avx512"])
def test_every_instruction_set(isa):
    if isa not in native.kernel.instruction_sets():
        pytest.skip(f"this machine has no {isa}")
    code = (
        "import torch, test_native as t\n"
        "for dtype in (torch.float32, torch.float64):\n"
        "    for k in (8, 37):\n"
        "        one, other = t.pair(t.STRUCTURES['random'], t.SPN, 'mixed', k, dtype)\n"
        "        t.assert_same(one, other, t.rows_of(one, count=40))\n"
    )
    environment = os.environ | {"HYPERSPN_ISA": isa, "HYPERSPN_WIDE": "8", "PYTHONPATH": str(Path(__file__).parent)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
