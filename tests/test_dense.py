"""Numeric leaves in the kernel: against mpmath, and against autograd through the formulas of the leaves."""

from __future__ import annotations

import subprocess
import sys

from copy import deepcopy
from pathlib import Path

import mpmath
import numpy as np
import pytest
import torch

from hyperspn import Categorical, Gaussian, Numeric
from hyperspn.data.scales import Scale
from hyperspn.engines.dense import NumberRows, Numbers, dense_rows, scaled
from hyperspn.kernel import kernel
from hyperspn.leaves import Leaves
from hyperspn.leaves.numeric import MIN_STD, NumericColumns

pytestmark = pytest.mark.skipif(kernel is None, reason="needs the compiled kernel")

SCALE = Scale(knots=tuple(np.linspace(-3, 3, 30)), decimals=1)
DENSE = [0, 1, 2, 3, 5]  # variables of `table` that are not categorical
DTYPES = [torch.float32, torch.float64]


def exact(low: float, high: float, mean: float, std: float) -> tuple[float, float, float]:
    """log(Phi(b) - Phi(a)), and its derivatives by mean and std, in 80 digits."""
    with mpmath.workdps(80):
        a, b = ((mpmath.mpf(x) - mpmath.mpf(mean)) / mpmath.mpf(std) for x in (low, high))
        if low == high:
            return float(mpmath.log(mpmath.npdf(a) / std)), float(a / std), float((a * a - 1) / std)
        first, last = (a, b) if a + b < 0 else (-b, -a)
        mass = mpmath.ncdf(last) - mpmath.ncdf(first)
        at_mean = (mpmath.npdf(a) - mpmath.npdf(b)) / mass / std
        at_std = (a * mpmath.npdf(a) - b * mpmath.npdf(b)) / mass / std
        return float(mpmath.log(mass)), float(at_mean), float(at_std)


def cells(count: int, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    """Ends of cells from very narrow to very wide, near and far, and some without width, as rows of one column."""
    random = np.random.default_rng(0)
    middle, width = 12 * random.standard_normal(count), 10 ** random.uniform(-3, 2, count)
    width[random.random(count) < 0.1] = 0
    low = torch.from_numpy(middle - width / 2).to(dtype)
    high = torch.where(torch.from_numpy(width > 0), torch.from_numpy(middle + width / 2).to(dtype), low)
    return low[:, None], high[:, None]


@pytest.mark.parametrize("dtype", DTYPES)
def test_masses_and_slopes_are_precise(dtype: torch.dtype) -> None:
    low, high = cells(100, dtype)
    raw = torch.tensor([[[0.3, 0.2], [-1.2, -2.0], [2.5, 1.0]]], dtype=dtype, requires_grad=True)
    reading = (low, high, torch.zeros_like(low), torch.full(low.shape, -1))
    column = NumericColumns([Numeric(SCALE, members=3)])
    numbers = Numbers(column, reading, torch.zeros_like(low, dtype=torch.bool), torch.tensor([3]), dtype)
    rows, largest = NumberRows.apply(numbers, raw)
    log_masses = (rows + largest).detach().double().numpy()
    precision = torch.finfo(dtype).eps
    for j, (mean, log_std) in enumerate(raw[0].tolist()):
        ends = zip(low[:, 0].tolist(), high[:, 0].tolist(), strict=True)
        expected = np.array([exact(a, b, mean, MIN_STD + np.exp(log_std)) for a, b in ends])
        assert np.allclose(log_masses[j], expected[:, 0], rtol=8 * precision, atol=20 * precision)
        slopes = np.array([torch.autograd.grad(row, raw, retain_graph=True)[0][0, j].tolist() for row in rows[j]])
        errors = np.abs(slopes / [1, np.exp(log_std)] - expected[:, 1:]) / (1 + np.abs(expected[:, 1:]))
        assert (errors < 40 * precision * (1 + np.abs(expected[:, :1]))).all()


def table(rows: int = 70) -> tuple[torch.Tensor, Leaves]:
    """Columns of every kind, with holes: recorded, continuous, with point masses, with "missing" as a value."""
    random = np.random.default_rng(1)
    x = random.standard_normal((rows, 6)) * [1, 5, 30, 1, 1, 1]
    x[:, 0], x[:, 1], x[:, 4] = x[:, 0].round(1), x[:, 1].round(), random.integers(0, 3, rows)
    x[random.random(rows) < 0.3, 1] = 7
    scales = [Scale.fit(x[:, v]) for v in range(4)]
    x[random.random(rows) < 0.2, 2] = np.inf
    x[random.random(x.shape) < 0.1] = np.nan
    families = [Numeric(scale, 5, v == 2) for v, scale in enumerate(scales[:3])]
    return torch.from_numpy(x), Leaves([*families, Numeric(scales[3], 2), Categorical(3), Gaussian(4)])


def assert_same_rows(dtype: torch.dtype) -> None:
    """The kernel's rows and their gradients in one precision, and those of the formulas in float64."""
    x, leaves = table()
    reference = deepcopy(leaves).double()
    widths = torch.tensor([leaves.families[v].width for v in DENSE])
    expected, expected_scale = scaled(reference.log_prob(reference.read(x))[:, DENSE], widths)
    rows, scale = dense_rows(leaves.to(dtype), leaves.read(x))
    seeds = torch.rand(rows.shape, generator=torch.Generator().manual_seed(0))
    tolerance = 1e-4 if dtype == torch.float32 else 1e-7  # of what is narrow enough to be a density
    for result, other in ((rows.exp(), expected.exp()), (scale, expected_scale)):
        torch.testing.assert_close(result.double(), other, rtol=tolerance, atol=tolerance)
    for own, one in zip((rows, expected), (leaves, reference), strict=True):
        (own * seeds.to(own)).masked_fill(own == -torch.inf, 0).sum().backward()
        assert one.raw[0].grad is not None
    for ours, theirs in zip(leaves.raw, reference.raw, strict=True):
        if theirs.grad is not None:
            assert ours.grad is not None
            torch.testing.assert_close(ours.grad.double(), theirs.grad, rtol=10 * tolerance, atol=10 * tolerance)


@pytest.mark.parametrize("dtype", DTYPES)
def test_rows_and_gradients_are_those_of_the_leaves(dtype: torch.dtype) -> None:
    assert_same_rows(dtype)


@pytest.mark.parametrize("isa", ["baseline", "avx2"])
def test_rows_on_every_instruction_set(isa: str) -> None:
    if isa not in kernel.instruction_sets():
        pytest.skip(f"this machine has no {isa}")
    code = "import test_dense as t\nfor dtype in t.DTYPES:\n    t.assert_same_rows(dtype)"
    environment = {"HYPERSPN_ISA": isa, "PYTHONPATH": str(Path(__file__).parent)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_rows_are_the_same_on_any_number_of_threads() -> None:
    x, leaves = table()
    threads, results = torch.get_num_threads(), []
    try:
        for count in (1, 3):
            torch.set_num_threads(count)
            rows, _ = dense_rows(leaves, leaves.read(x))
            results.append((rows, *torch.autograd.grad(rows.exp().sum(), leaves.raw[0])))
    finally:
        torch.set_num_threads(threads)
    assert all(torch.equal(one, other) for one, other in zip(*results, strict=True))


def test_rows_with_events() -> None:
    x, leaves = table()
    leaves = leaves.double()
    evidence = leaves.read(x, events=[{0: [(-1.0, 0.5), (2.0, 3.0)]} if row % 2 else {} for row in range(len(x))])
    rows, scale = dense_rows(leaves, evidence)
    widths = torch.tensor([leaves.families[v].width for v in DENSE])
    torch.testing.assert_close((rows, scale), scaled(leaves.log_prob(evidence)[:, DENSE], widths), rtol=1e-7, atol=1e-7)
