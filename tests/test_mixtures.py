import math

import numpy as np
import pytest
import torch

from scipy import stats
from worlds import all_worlds, sharpened

from hyperspn import SPN, Categorical, ClusterMixture, EiNet, Gaussian, fit_clusters
from hyperspn.structures import poon_domingos

pytestmark = pytest.mark.usefixtures("one_thread")

WEIGHTS, SCALE = torch.tensor([0.2, 0.5, 0.3], dtype=torch.float64), 4.0
CENTERS = torch.tensor([[0.0, 1.0], [8.0, -5.0], [-6.0, 3.0]], dtype=torch.float64)
STEP = 0.5
GRID = torch.arange(-40, 40, STEP, dtype=torch.float64)


@pytest.fixture(scope="module")
def mixture():
    structure = poon_domingos((1, 2), delta=1)
    circuits = [sharpened(EiNet(structure, 2, Gaussian(2, 0.1, 1.0)).double(), seed) for seed in range(3)]
    return ClusterMixture(circuits, WEIGHTS, CENTERS, SCALE)


@pytest.fixture(scope="module")
def mass(mixture):
    """The probability of each cell of a grid, by the change of variables done by hand."""
    points = torch.cartesian_prod(GRID, GRID)
    with torch.no_grad():
        density = sum(
            w * circuit.log_prob((points - center) / SCALE).exp() / SCALE**2
            for w, circuit, center in zip(WEIGHTS, mixture.components, CENTERS, strict=True)
        )
        torch.testing.assert_close(mixture.log_prob(points).exp(), density, rtol=1e-9, atol=1e-300)
    return density.view(len(GRID), len(GRID)) * STEP**2


def test_the_density_is_that_of_the_rows_in_their_own_units(mass):
    assert abs(mass.sum() - 1) < 1e-4


def test_marginals_conditionals_and_moments(mixture, mass):
    row = torch.tensor([[torch.nan, GRID[85]]], dtype=torch.float64)
    column = mass[:, 85]
    assert mixture.log_prob(row).exp().item() == pytest.approx(column.sum().item() / STEP, rel=1e-4)
    full = torch.tensor([[GRID[78], GRID[85]]], dtype=torch.float64)
    conditional = mixture.conditional_log_prob(full, torch.tensor([True, False])).exp()
    assert conditional.item() == pytest.approx((column[78] / column.sum()).item() / STEP, rel=1e-4)
    mean, variance = mixture.moments(row)
    p = column / column.sum()
    expected = (p * GRID).sum()
    assert mean[0].tolist() == pytest.approx([expected.item(), GRID[85].item()], rel=1e-4)
    assert variance[0].tolist() == pytest.approx([(p * (GRID - expected) ** 2).sum().item(), 0.0], rel=1e-3)
    torch.testing.assert_close(mixture.impute(row), mean)


def test_samples(mixture, mass):
    drawn = mixture.sample(10_000, generator=torch.Generator().manual_seed(0))
    row = torch.tensor([[torch.nan, GRID[85]]], dtype=torch.float64)
    given = mixture.sample_given(row, n=10_000, generator=torch.Generator().manual_seed(0))[0]
    assert (given[:, 1] == GRID[85]).all()
    for some, p in ((drawn, mass.sum(1)), (given, mass[:, 85] / mass[:, 85].sum())):
        cumulative = p.cumsum(0)
        assert stats.kstest(some[:, 0].numpy(), lambda v, c=cumulative: np.interp(v, GRID + STEP / 2, c)).pvalue > 1e-4


def test_the_most_probable_completion_is_one_of_the_components(mixture):
    rows = torch.tensor([[torch.nan, 1.0], [torch.nan, -5.0], [2.0, 3.0]], dtype=torch.float64)
    completed = mixture.most_probable(rows)
    assert torch.equal(completed[:, 1], rows[:, 1])
    assert torch.equal(completed[2], rows[2])
    alternatives = [
        circuit.most_probable((rows - center) / SCALE) * SCALE + center
        for circuit, center in zip(mixture.components, CENTERS, strict=True)
    ]
    joint = torch.stack([mixture.joint_log_prob(a)[:, c] for c, a in enumerate(alternatives)])
    best = torch.stack(alternatives)[joint.argmax(0), torch.arange(3)]
    torch.testing.assert_close(completed, best)


def test_discrete_components_sum_to_one():
    mixture = ClusterMixture([SPN(3, 2, 1, seed) for seed in range(2)], torch.ones(2), torch.zeros(2, 3))
    assert mixture.log_prob(all_worlds(mixture.components[0])).exp().sum().item() == pytest.approx(1, rel=1e-5)
    assert mixture.sample(4).dtype == mixture.impute(torch.full((1, 3), torch.nan)).dtype == torch.int64


def test_save_and_load(mixture, tmp_path):
    mixture.save(tmp_path / "mixture")
    again = ClusterMixture.load(tmp_path / "mixture")
    x = torch.randn(5, 2, dtype=torch.float64)
    torch.testing.assert_close(again.log_prob(x), mixture.log_prob(x), rtol=1e-12, atol=0)
    with pytest.raises(FileNotFoundError, match="found no mixture"):
        ClusterMixture.load(tmp_path)
    (tmp_path / "mixture" / "mixture.safetensors").write_bytes(b"nothing")
    with pytest.raises(ValueError, match="damaged or foreign"):
        ClusterMixture.load(tmp_path / "mixture")


@pytest.mark.parametrize("jobs", [1, 2])
def test_clusters_are_found_and_learnt(jobs, tmp_path):
    generator = np.random.default_rng(0)
    rows = np.concatenate([generator.normal(center, 5, (60, 4)) for center in (40, 200)]).astype(np.float32)
    options = {"steps": 20, "batch_size": 20, "evaluate_every": 10, "folder": tmp_path}
    mixture, histories = fit_clusters(small_einet, rows[::2], rows[1::2], clusters=2, jobs=jobs, **options)
    assert sorted(mixture.centers.mean(1).round(decimals=-1).tolist()) == [40, 200]
    torch.testing.assert_close(mixture.log_weights, torch.full((2,), -math.log(2)))
    assert [history.steps for history in histories] == [[0, 10, 20]] * 2
    assert all(history.best_valid > history.valid[0] for history in histories)
    nearest = mixture.joint_log_prob(rows[1::2]).argmax(1)
    assert torch.equal(nearest[:30], nearest[:1].expand(30))
    assert nearest[0] != nearest[-1]
    local = (torch.from_numpy(rows[:1]) - mixture.centers[nearest[0]]) / 255
    expected = mixture.components[nearest[0]].log_prob(local) - math.log(2) - 4 * math.log(255)
    torch.testing.assert_close(mixture.log_prob(rows[:1]), expected)


def small_einet():
    return EiNet(poon_domingos((2, 2), delta=1), 3)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: ClusterMixture([small_einet()], torch.ones(2), torch.zeros(1, 4)),
            "weight and a center for each of 1",
        ),
        (lambda: ClusterMixture([small_einet()], torch.ones(1), torch.zeros(1, 3)), r"centers \(1, 3\)"),
        (lambda: ClusterMixture([small_einet()], -torch.ones(1), torch.zeros(1, 4)), "weights >= 0"),
        (lambda: ClusterMixture([small_einet()], torch.ones(1), torch.zeros(1, 4), 0.0), "scale > 0"),
        (lambda: ClusterMixture([SPN(4, leaves=Categorical(3))], torch.ones(1), torch.ones(1, 4)), "continuous"),
        (lambda: fit_clusters(small_einet, np.zeros((3, 4)), clusters=4), "1 to 3 clusters"),
    ],
)
def test_bad_mixtures_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()
