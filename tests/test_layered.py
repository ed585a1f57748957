import copy

import pytest
import torch

from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from worlds import STRUCTURES, all_worlds, einet_value, make, missing_patterns, mixed_families, sharpened, value

from hyperspn import SPN, Binomial, Categorical, Gaussian, Histogram
from hyperspn.engines.layered import log_max, log_sum
from hyperspn.leaves.evidence import Evidence


@pytest.mark.parametrize(
    ("name", "weights"),
    [(name, weights) for name in STRUCTURES for weights in ("direct", "hyper")]
    + [(name, "factored") for name in ("one tree", "caterpillar", "shared")],
)
def test_probabilities_follow_the_definition_node_by_node(name, weights):
    circuit = make(name, weights)
    worlds = all_worlds(circuit)
    some = worlds[:: max(1, len(worlds) // 20)]
    expected = torch.tensor([value(circuit, row.tolist()) for row in some], dtype=torch.float64)
    torch.testing.assert_close(circuit.log_prob(some).exp(), expected, rtol=1e-10, atol=0)


@pytest.mark.parametrize("leaves", [Categorical(2), Categorical(5), Binomial(3, total=1), Histogram(3, 2)])
@pytest.mark.parametrize("weights", ["direct EiNet", "hyper EiNet"])
@pytest.mark.parametrize("name", STRUCTURES)
def test_einets_follow_the_definition_node_by_node(name, weights, leaves):
    circuit = make(name, weights, leaves=leaves)
    rows = torch.randint(2, (2, circuit.num_variables), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        expected = torch.tensor([einet_value(circuit, row.tolist()) for row in rows], dtype=torch.float64)
    torch.testing.assert_close(circuit.log_prob(rows).exp(), expected, rtol=1e-10, atol=1e-300)


def test_mixed_leaves_follow_the_definition_node_by_node():
    families = [Gaussian(4, max_variance=2.0), Categorical(7), Gaussian(2), Categorical(2), Categorical(3)]
    circuit = make("trees5", "hyper", leaves=families)
    rows = torch.tensor([[0.3, 6, -1.2, 1, 0], [2.0, 0, 0.1, 0, 2]], dtype=torch.float64)
    expected = torch.tensor([value(circuit, row.tolist()) for row in rows], dtype=torch.float64)
    torch.testing.assert_close(circuit.log_prob(rows).exp(), expected, rtol=1e-10, atol=0)


@pytest.mark.parametrize(
    ("name", "weights"),
    [
        (name, weights)
        for name in ("trees5", "shared", "caterpillar", "wide leaves")
        for weights in ("direct", "hyper", "direct EiNet", "hyper EiNet")
    ]
    + [("one tree", "factored")],
)
def test_gradients(name, weights):
    n = STRUCTURES[name].num_variables
    families = [Gaussian(2, max_variance=3.0)] * n if name == "wide leaves" else mixed_families(n)
    options = {"embedding_dim": 2, "hidden": (3,)} if weights.startswith("hyper") else {}
    circuit = make(name, weights, layer_size=2, leaves=families, **options)
    x = torch.rand(3, n, dtype=torch.float64).round()
    missing = missing_patterns(circuit, 3)
    parameters = dict(circuit.named_parameters())

    def log_prob(*values):
        return torch.func.functional_call(circuit, dict(zip(parameters, values, strict=True)), (x, missing))

    assert torch.autograd.gradcheck(log_prob, tuple(parameters.values()), fast_mode="EiNet" in weights)


def test_gradients_with_respect_to_continuous_values():
    circuit = make("trees3", "direct", leaves=Gaussian(2))
    assert torch.autograd.gradcheck(circuit, torch.randn(4, 3, dtype=torch.float64, requires_grad=True))


def test_very_improbable_rows_keep_their_precision():
    circuit = sharpened(SPN(1200, layer_size=4, replicas=2, init="normal"))
    for logits in circuit.weights.logits:
        logits.data *= 4
    x = torch.randint(2, (4, 1200), generator=torch.Generator().manual_seed(0))
    single = circuit.log_prob(x)
    double = circuit.double().log_prob(x)
    assert double.max() < -1000
    torch.testing.assert_close(single.double(), double, rtol=1e-5, atol=0)


def test_log_likelihoods_near_minus_5000():
    circuit = SPN(100, layer_size=3, replicas=2, leaves=Gaussian(3, max_variance=1.0))
    x = torch.full((2, 100), 8.3)
    single = circuit.log_prob(x)
    double = circuit.double().log_prob(x)
    assert -5200 < double.min() < double.max() + 1 < -4800
    torch.testing.assert_close(single.double(), double, rtol=1e-5, atol=0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_sums_are_exact_where_weights_would_vanish(dtype):
    inputs = torch.tensor([[[0.0, -3000.0]]], dtype=dtype)
    log_weights = torch.tensor([[[-2900.0, 0.0]]], dtype=dtype).log_softmax(-1)
    assert log_sum(inputs, log_weights).item() == pytest.approx(-2900)
    assert log_max(inputs, log_weights).item() == pytest.approx(-2900)


def test_impossible_parts_leave_no_nan_in_gradients():
    inputs = torch.tensor([[[-torch.inf, -torch.inf], [0.0, -torch.inf]]], requires_grad=True)
    log_weights = torch.tensor([[[0.3, 0.7]]]).log().requires_grad_()
    total = log_sum(inputs, log_weights)
    assert total[0, :, 0].tolist() == [-torch.inf, pytest.approx(-1.2039728)]
    total.exp().sum().backward()
    assert inputs.grad.isfinite().all()
    assert log_weights.grad.isfinite().all()


class OnMeta(TorchDispatchMode):
    """Refuses all tensors elsewhere; whatever depends on values, of which there are none, is answered somehow."""

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        elsewhere = [x for x in tree_leaves((args, kwargs)) if isinstance(x, torch.Tensor) and x.device.type != "meta"]
        assert not elsewhere, f"{function} of {elsewhere}"
        if function is torch.ops.aten._local_scalar_dense.default:
            return False
        if function is torch.ops.aten.nonzero.default:
            return torch.empty(args[0].numel(), args[0].ndim, dtype=torch.int64, device="meta")
        if function is torch.ops.aten._unique2.default:
            return args[0], args[0], args[0]
        return function(*args, **(kwargs or {}))


@pytest.mark.parametrize(
    ("name", "weights"),
    [("trees5", "direct"), ("shared", "hyper"), ("grid", "direct EiNet"), ("one tree", "factored")],
)
def test_nothing_stays_behind_when_a_circuit_is_moved(name, weights):
    """There is no GPU here: the device "meta" stands for one, on which tensors have shapes but no values."""
    circuit = make(name, weights, leaves=mixed_families(STRUCTURES[name].num_variables))
    files, moved = list(circuit.state_dict()), copy.deepcopy(circuit).to("meta")
    assert len(list(moved.buffers())) == len(list(circuit.buffers())) > 5
    assert {tensor.device.type for tensor in (*moved.parameters(), *moved.buffers())} == {"meta"}
    assert list(moved.state_dict()) == files
    assert not any("placed" in name or "variables" in name or "numbers" in name for name in files)
    rows = torch.zeros(3, circuit.num_variables, dtype=torch.float64, device="meta")
    evidence = Evidence(rows, rows.bool())
    with OnMeta():
        values = moved.engine.log_values(evidence, moved.leaves, moved.weights)
        best = moved.engine.upward(moved.leaves.log_prob(evidence), moved.weights, log_max)[0]
    assert values.device.type == "meta"
    assert values.shape == best.shape == (3, len(circuit.mixture))
