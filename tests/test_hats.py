"""Hats, the bells over them, and columns of numbers in both engines."""

from __future__ import annotations

from copy import deepcopy
from math import inf

import numpy as np
import pytest
import torch

from scipy.integrate import quad

from hyperspn import EM, SPN, Categorical, Gaussian, HyperSPN, Numeric
from hyperspn.data.scales import Scale
from hyperspn.engines import LayeredEngine, NativeEngine
from hyperspn.kernel import kernel
from hyperspn.leaves import Leaves
from hyperspn.leaves.hats import Hats
from hyperspn.structures import binary_trees, chow_liu
from hyperspn.weights.bells import bell_logits, bell_numbers, move_bells, quantiles
from hyperspn.weights.sector_kind import SectorKind

BANK = Hats(10)
CONTINUOUS = Scale(knots=tuple(np.linspace(-3, 3, 30)))
RECORDED = Scale(knots=(0.5, 2.5, 8.0, 20.0), points=(0.0, 7.0), lower=0.0, decimals=0)
FAMILIES = [
    Numeric(CONTINUOUS, 12),
    Categorical(3),
    Numeric(RECORDED, 12),
    Numeric(RECORDED, 12, has_missing=True),
    Gaussian(4),
    Numeric(Scale(knots=(1.0, 2.0), points=(1.5,)), 20),
]
needs_kernel = pytest.mark.skipif(kernel is None, reason="needs the compiled kernel")


def rows(count: int, seed: int = 0, holes: float = 0.2) -> torch.Tensor:
    """Rows of all families, some of them far out, at point masses, or outside the bounds."""
    random = np.random.default_rng(seed)
    x = np.stack(
        [
            2 * random.standard_normal(count),
            random.integers(0, 3, count),
            random.integers(0, 30, count),
            random.choice([0.0, 3.0, 7.0, 50.0, inf], count),
            random.standard_normal(count),
            random.choice([1.5, 0.3, 1.2, 4.0], count),
        ],
        axis=1,
    )
    x[random.random(x.shape) < holes] = np.nan
    x[0, 0], x[1, 0], x[2, 0] = 30.0, -30.0, 9.0
    x[3, 2] = -5.0
    return torch.from_numpy(x)


def circuits(layer_size: int, dtype: torch.dtype) -> list:
    structure = binary_trees(len(FAMILIES), 3, seed=1, shared=True)
    options = {"structure": structure, "leaves": FAMILIES, "init": "normal"}
    made = [SPN(6, layer_size, **options), HyperSPN(6, layer_size, **options)]
    return [circuit.to(dtype) for circuit in [*made, HyperSPN(6, layer_size, weights="factored", **options)]]


def layered(circuit):
    twin = deepcopy(circuit)
    twin.engine = LayeredEngine(twin.sectors)
    return twin


@pytest.mark.parametrize("hat", [0, 1, 5, 9])
def test_densities_integrate_to_their_masses(hat):
    def density(z):
        return float(BANK.density(z, np.array(hat)))

    random = np.random.default_rng(hat)
    for low, high in np.sort(random.normal(0, 4, (20, 2)), axis=1):
        inside = [place for place in BANK.places if low < place < high]
        mass = quad(density, low, high, points=inside or None, limit=200)[0]
        assert BANK.mass(low, high, np.array(hat)) == pytest.approx(mass, abs=1e-9)
    assert BANK.mass(-inf, inf, np.array(hat)) == pytest.approx(1)
    assert BANK.mass(2.0, 1.0, np.array(hat)) == 0


def test_far_masses_are_precise():
    far = BANK.mass(20.0, 21.0, np.array(9))
    assert far == pytest.approx(BANK.outer / 4.5 * np.exp(-4.5 * 15.5) * -np.expm1(-4.5), rel=1e-12)
    assert far == BANK.mass(-21.0, -20.0, np.array(0))
    narrow = BANK.mass(0.3, 0.3 + 1e-11, np.array(5))
    assert narrow == pytest.approx(1e-11 * BANK.density(0.3, np.array(5)), rel=1e-4)


def test_quantiles_are_the_inverse_of_masses():
    random = np.random.default_rng(0)
    low, width, share = random.normal(0, 4, 500), random.exponential(2, 500), random.random(500)
    for hat in range(10):
        every = np.full(500, hat)
        mass = BANK.mass(low, low + width, every)
        z = BANK.quantile(low, low + width, share, every)
        likely = mass > 1e-9
        assert ((z >= low) & (z <= low + width)).all()
        np.testing.assert_allclose(
            (BANK.mass(low, z, every) / np.where(likely, mass, 1))[likely], share[likely], atol=1e-6
        )


def test_a_bell_has_its_mean_and_width_and_share():
    grid = torch.from_numpy(Hats(96).places)
    mean, std = torch.tensor([[-1.0, 0.4, 2.0]]).double(), torch.tensor([[0.2, 0.7, 0.3]]).double()
    numbers = torch.stack(
        [*bell_numbers(mean, std, float(grid[1] - grid[0])), torch.full((1, 3), -0.5), torch.zeros(1, 3)], -1
    )
    weights = bell_logits(numbers.double(), grid).softmax(-1)  # (1, 3, 97)
    hats = weights[..., :96] / weights[..., :96].sum(-1, keepdim=True)
    torch.testing.assert_close((hats * grid).sum(-1), mean, atol=1e-6, rtol=0)
    torch.testing.assert_close((hats * grid.square()).sum(-1) - mean.square(), std.square(), atol=1e-6, rtol=0)
    share = torch.tensor([-0.5, 0.0]).softmax(0)[0].double().expand(1, 3)
    torch.testing.assert_close(weights[..., 96], share, atol=1e-7, rtol=0)


def test_sources_write_few_numbers_for_a_bell():
    kind = SectorKind(4, 98, 5, tuple(Hats(96).places.tolist()))
    assert kind.numbers_per_row == 2 + 2 + 1
    assert kind.logits(torch.zeros(5, kind.size)).shape == (5, 4, 98)
    direct = SPN(2, 3, 2, leaves=[Numeric(CONTINUOUS), Numeric(RECORDED)])
    assert [tuple(logits.shape) for logits in direct.weights.logits][1:] == [(2, 3 * 3), (2, 3 * 5)]


def test_a_category_is_no_bell_where_both_have_as_many_columns():
    circuit = SPN(2, 2, 1, leaves=[Numeric(CONTINUOUS, 8), Categorical(8)], init="normal")
    twins = [circuit.region_weights(region) for region in circuit.structure.leaf_regions.tolist()]
    of_category = twins[int(circuit.structure.leaf_variables.tolist().index(1))]
    torch.testing.assert_close(of_category, circuit.weights.logits[1].view(2, 8).softmax(-1))
    assert sum(circuit.log_prob(torch.tensor([[np.nan, code]])).exp().item() for code in range(8)) == pytest.approx(1)


def test_bells_move_to_the_flows():
    grid = torch.from_numpy(Hats(96).places)
    written = torch.zeros(1, 2, 3).double().requires_grad_()
    flows = torch.rand(1, 2, 96, generator=torch.Generator().manual_seed(0)).double()
    (gradient,) = torch.autograd.grad(bell_logits(written, grid), written, flows)
    moved = move_bells(written.detach(), gradient, grid, 1.0)
    shares = flows / flows.sum(-1, keepdim=True)
    mean = (shares * grid).sum(-1)
    std = ((shares * grid.square()).sum(-1) - mean.square()).sqrt()
    expected = torch.stack(bell_numbers(mean, std, float(grid[1] - grid[0])), -1)
    torch.testing.assert_close(moved[..., :2], expected)
    torch.testing.assert_close(move_bells(written.detach(), torch.zeros_like(gradient), grid, 1.0), written.detach())
    assert quantiles(2).tolist() == pytest.approx([-0.6744897, 0.6744897])


@needs_kernel
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("layer_size", [1, 3, 8, 17, 33])
def test_engines_agree_on_numbers(layer_size, dtype):
    x, tolerance = rows(150), 2e-4 if dtype == torch.float32 else 1e-9
    for circuit in circuits(layer_size, dtype):
        twin = layered(circuit)
        values, expected = circuit.log_prob(x), twin.log_prob(x)
        assert expected[3] == -inf
        torch.testing.assert_close(values, expected, rtol=tolerance, atol=tolerance)
        for one in (circuit, twin):
            log_p = one.log_prob(x)
            log_p[log_p > -inf].sum().backward()
        for own, other in zip(circuit.parameters(), twin.parameters(), strict=True):
            if other.grad is not None and other.numel():
                scale = float(other.grad.abs().max()) + 1e-2
                torch.testing.assert_close(own.grad / scale, other.grad / scale, rtol=0, atol=20 * tolerance)


@needs_kernel
@pytest.mark.parametrize("layer_size", [3, 17])
def test_bells_in_chunks_agree(layer_size):
    x = rows(40)
    for circuit in circuits(layer_size, torch.float64):
        parts = deepcopy(circuit)
        parts.engine = NativeEngine(parts.sectors, parts.leaves, weights_at_once=500)
        for one in (circuit, parts):
            log_p = one.log_prob(x)
            log_p[log_p > -inf].sum().backward()
        torch.testing.assert_close(parts.log_prob(x), circuit.log_prob(x))
        for own, other in zip(parts.parameters(), circuit.parameters(), strict=True):
            torch.testing.assert_close(own.grad, other.grad)


@needs_kernel
@pytest.mark.parametrize("factor", [10.0, 100.0])
def test_extreme_weights(factor):
    """What is too small for linear space is evaluated in log space."""
    x = rows(60, holes=0.1)
    for layer_size in (3, 17):
        circuit = circuits(layer_size, torch.float32)[0]
        with torch.no_grad():
            for parameter in circuit.weights.parameters():
                parameter.mul_(factor).clamp_(max=80)
        expected = layered(circuit).double().log_prob(x)
        values = circuit.log_prob(x).double()
        torch.testing.assert_close(values, expected, rtol=1e-4, atol=1e-3)


@needs_kernel
def test_samples_given_numbers_follow_the_layered_engine():
    circuit = circuits(4, torch.float64)[0]
    x = torch.tensor([[0.2, np.nan, 3.0, np.nan, np.nan, 1.2]]).double().repeat(4000, 1)
    drawn = circuit.sample_given(x, generator=torch.Generator().manual_seed(0))[:, 0]
    p = layered(circuit).marginals(x[:1])[0]
    counts = torch.bincount(drawn[:, 1].long(), minlength=3) / len(drawn)
    torch.testing.assert_close(counts.double(), p[1, :3], atol=0.03, rtol=0)
    assert (drawn[:, [0, 2, 5]] == x[:, [0, 2, 5]]).all()
    missing = (drawn[:, 3] == inf).double().mean()
    torch.testing.assert_close(missing, p[3, FAMILIES[3].width - 1], atol=0.03, rtol=0)
    best = circuit.most_probable(x[:5])
    torch.testing.assert_close(best, layered(circuit).most_probable(x[:5]))


def test_a_sum_over_recorded_numbers_is_1():
    leaves = Leaves([FAMILIES[2]])
    numbers = torch.arange(0.0, 4000.0)[:, None].double()
    log_p = leaves.log_prob(leaves.read(numbers))[:, 0]  # (numbers, l)
    torch.testing.assert_close(log_p.double().exp().sum(0), torch.ones(FAMILIES[2].width).double(), atol=1e-5, rtol=0)


def test_the_density_of_continuous_numbers_integrates_to_1():
    leaves = Leaves([FAMILIES[0]]).double()
    numbers = torch.linspace(-20, 20, 400_001)[:, None].double()
    density = leaves.log_prob(leaves.read(numbers))[:, 0].exp()
    torch.testing.assert_close(torch.trapezoid(density, numbers, dim=0), torch.ones(12).double(), atol=1e-3, rtol=0)


def test_learning_finds_what_numbers_depend_on():
    random = np.random.default_rng(0)
    x = random.standard_normal((800, 1)) + 0.2 * random.standard_normal((800, 2))
    leaves = [Numeric(Scale.fit(column)) for column in x.T]
    circuit = SPN(
        2,
        12,
        leaves=leaves,
        structure=chow_liu(np.stack([f.scale.bins(c) for f, c in zip(leaves, x.T, strict=True)], 1)),
    )
    em = EM(circuit, pseudocount=0.1)
    values = [float(em.step(torch.from_numpy(x)).mean()) for _ in range(30)]
    correlated = -0.5 * np.log((2 * np.pi * np.e) ** 2 * (1.04**2 - 1))
    assert values[-1] > values[0] + 0.5
    assert values[-1] > correlated - 0.15


def test_too_many_hats_are_refused():
    for members in (1, 5000):
        with pytest.raises(ValueError, match=r"expected members 2..1024, found"):
            Numeric(CONTINUOUS, members)


def test_gradients_of_bells():
    written = torch.randn(2, 3, 5, generator=torch.Generator().manual_seed(0)).double().requires_grad_()
    grid = torch.from_numpy(Hats(9).places)
    assert torch.autograd.gradcheck(lambda numbers: bell_logits(numbers, grid), (written,))


def test_bells_of_any_numbers_are_distributions():
    grid = torch.from_numpy(Hats(30).places).float()
    numbers = torch.tensor([1e30, -1e30, 300.0, -300.0, 0.0])
    written = torch.cartesian_prod(numbers, numbers, torch.zeros(1)).requires_grad_()[:, None]
    logits = bell_logits(written, grid)
    assert logits.softmax(-1).isfinite().all()
    (gradient,) = torch.autograd.grad(logits.softmax(-1)[..., 3].sum(), written)
    assert gradient.isfinite().all()
