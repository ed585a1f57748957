import numpy as np
import pytest
import torch

from scipy import stats

from hyperspn.leaves.continuous import Gaussian
from hyperspn.leaves.discrete import Binomial, Categorical
from hyperspn.leaves.evidence import Evidence
from hyperspn.leaves.leaves import Leaves

MIXED = [Categorical(3), Gaussian(2, max_variance=4.0), Categorical(2), Binomial(4, total=10), Gaussian(3)]


@pytest.fixture
def leaves():
    torch.manual_seed(0)
    return Leaves(MIXED).double()


def row(*values):
    return torch.tensor([values], dtype=torch.float64)


def test_log_densities(leaves):
    log_prob = leaves.log_prob(leaves.read(row(2, 0.3, 0, 7, -1.5)))[0]
    assert log_prob.shape == (5, 4)
    assert log_prob[0].tolist() == [-np.inf, -np.inf, 0, -np.inf]
    assert log_prob[2].tolist() == [0, -np.inf, -np.inf, -np.inf]
    for variable, raw, width in ((1, leaves.raw[1][0], 2), (4, leaves.raw[4][0], 3)):
        mean, spread = raw[:, 0], raw[:, 1]
        variance = 1e-6 + (spread.exp() if variable == 4 else (4 - 1e-6) * spread.sigmoid())
        expected = stats.norm.logpdf([0.3, -1.5][variable == 4], mean.detach(), variance.sqrt().detach())
        np.testing.assert_allclose(log_prob[variable, :width].detach(), expected, rtol=1e-12)
        assert (log_prob[variable, width:] == -np.inf).all()
    expected = stats.binom.logpmf(7, 10, leaves.raw[3][0, :, 0].sigmoid().detach())
    np.testing.assert_allclose(log_prob[3].detach(), expected, rtol=1e-10)


def test_missing_values_are_integrated_out_or_at_the_mode(leaves):
    evidence = leaves.read(torch.full((1, 5), torch.nan, dtype=torch.float64))
    log_prob = leaves.log_prob(evidence)[0]
    for variable, family in enumerate(MIXED):
        assert (log_prob[variable, : family.width] == 0).all()
    at_modes = leaves.log_prob(evidence, modes=True)[0]
    for j in range(4):
        members = torch.tensor([[min(j, family.width - 1) for family in MIXED]])
        known = leaves.log_prob(leaves.read(leaves.modes(members)))[0]
        for variable, member in enumerate(members[0].tolist()):
            torch.testing.assert_close(at_modes[variable, member], known[variable, member])
    around = leaves.log_prob(leaves.read(leaves.modes(members) + torch.tensor([0, 1e-3, 0, 0, 1e-3])))[0]
    assert around[1, 1] < at_modes[1, 1]


@pytest.mark.parametrize("family", [Gaussian(4), Gaussian(4, 1e-6, 0.01), Binomial(4, total=9)])
def test_whole_regions_are_sums_over_their_variables(family):
    torch.manual_seed(1)
    leaves = Leaves([family] * 7).double()
    regions = torch.tensor([[6, 0, 3], [1, 2, 4]])
    x = leaves.sample(torch.randint(4, (5, 7))).detach()
    for missing in (torch.zeros(5, 7, dtype=torch.bool), torch.rand(5, 7) < 0.5):
        evidence = leaves.read(x, missing)
        expected = leaves.log_prob(evidence)[:, regions].sum(2).transpose(0, 1)  # (regions, batch, members)
        torch.testing.assert_close(leaves.region_log_prob(evidence, regions), expected, rtol=1e-10, atol=1e-9)


@pytest.mark.parametrize("offset", [0.0, 0.5, 1000.0])
@pytest.mark.parametrize("variance", [1e-6, 1e-5, 1e-3])
def test_gaussian_regions_keep_their_precision_near_the_lower_bound_of_the_variance(variance, offset):
    torch.manual_seed(0)
    single, double = (Leaves([Gaussian(6, 1e-6, 0.01)] * 256) for _ in range(2))
    single.raw[0].data[..., 0] = offset + 0.3 * torch.randn(256, 6)
    single.raw[0].data[..., 1] = torch.logit(torch.tensor((variance - 1e-6) / (0.01 - 1e-6)), eps=1e-12)
    double.double().load_state_dict(single.state_dict())
    means = single.raw[0].data[..., 0].T  # (members, variables)
    x = torch.cat([means + variance**0.5 * torch.randn(6, 256), offset + 0.3 * torch.randn(4, 256)])
    regions = torch.arange(256).view(2, 128)
    found = single.region_log_prob(single.read(x), regions).double()
    expected = double.region_log_prob(double.read(x.double()), regions)
    exact = double.log_prob(double.read(x.double())).view(10, 2, 128, 6).sum(2).transpose(0, 1)
    torch.testing.assert_close(expected, exact, rtol=1e-9, atol=1e-6)
    torch.testing.assert_close(found, exact, rtol=1e-5, atol=1e-4)


def test_gradients_where_terms_cancel():
    torch.manual_seed(0)
    leaves = Leaves([Gaussian(2, 1e-6, 0.01)] * 4)
    leaves.raw[0].data[..., 1] = -20
    x = (leaves.raw[0].data[:, 1, 0] + 1e-3 * torch.randn(3, 4)).requires_grad_()
    found = torch.autograd.grad(
        leaves.region_log_prob(leaves.read(x), torch.arange(4)[None])[..., 1].sum(), [x, leaves.raw[0]]
    )
    expected = torch.autograd.grad(leaves.log_prob(leaves.read(x))[..., 1].sum(), [x, leaves.raw[0]])
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-2)


def test_samples_follow_the_chosen_members(leaves):
    members = torch.tensor([[1, 1, 0, 3, 2]]).expand(20_000, -1)
    x = leaves.sample(members, torch.Generator().manual_seed(0)).detach().numpy()
    assert (x[:, 0] == 1).all()
    assert (x[:, 2] == 0).all()
    mean, variance = leaves.distinct[1].moments(leaves.raw[1])
    assert stats.kstest(x[:, 1], stats.norm(mean[0, 1].item(), variance[0, 1].sqrt().item()).cdf).pvalue > 1e-3
    success = leaves.raw[3][0, 3, 0].sigmoid().item()
    counts = np.bincount(x[:, 3].astype(int), minlength=11)
    expected = stats.binom.pmf(range(11), 10, success) * len(x)
    likely = expected > 5
    observed = [*counts[likely], counts[~likely].sum()]
    assert stats.chisquare(observed, [*expected[likely], expected[~likely].sum()]).pvalue > 1e-3


def test_moments_of_a_mixture(leaves):
    posterior = torch.rand(1, 5, 4, dtype=torch.float64)
    for variable, family in enumerate(MIXED):
        posterior[:, variable, family.width :] = 0
    posterior /= posterior.sum(-1, keepdim=True)
    mean, variance = leaves.moments(posterior)
    codes = torch.arange(3.0, dtype=torch.float64)
    torch.testing.assert_close(mean[0, 0], (posterior[0, 0, :3] * codes).sum())
    expected = (posterior[0, 0, :3] * codes**2).sum() - mean[0, 0] ** 2
    torch.testing.assert_close(variance[0, 0], expected)
    means, variances = (m[0] for m in leaves.distinct[1].moments(leaves.raw[1]))
    weights = posterior[0, 1, :2]
    second = (weights * (variances + means**2)).sum()
    torch.testing.assert_close(variance[0, 1], second - mean[0, 1] ** 2)


def test_guesses_fit_the_kind_of_variable(leaves):
    posterior = torch.zeros(1, 5, 4, dtype=torch.float64)
    posterior[0, :, 1] = 1.0
    guess = leaves.guess(posterior)[0]
    assert guess[0] == 1
    assert guess[3] == guess[3].round()
    torch.testing.assert_close(guess[1], leaves.raw[1][0, 1, 0])


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (row(3, 0, 0, 0, 0), "category 0..2 in column 0, found 3 in row 1"),
        (row(-1, 0, 0, 0, 0), "category 0..2 in column 0, found -1"),
        (row(0.5, 0, 0, 0, 0), "found 0.5"),
        (row(0, torch.inf, 0, 0, 0), "finite number in column 1, found inf"),
        (row(0, 0, -torch.inf, 0, 0), "found -inf"),
        (row(0, 0, 0, 11, 0), "whole number 0..10 in column 3, found 11"),
        (row(0, 0, 0), r"shape \(batch, 5\), found \(1, 3\)"),
        (torch.zeros(5), r"shape \(batch, 5\), found \(5,\)"),
        (torch.zeros(1, 5, dtype=torch.complex64), "complex64"),
        (np.array([["a"] * 5]), "<U1"),
        (np.array([[None] * 5]), "object"),
        ([[0, 0, 0, 0, 0]], "found list"),
        ("abc", "found str"),
        (None, "found NoneType"),
    ],
)
def test_bad_tables_are_refused(leaves, x, message):
    with pytest.raises(ValueError, match=message):
        leaves.read(x)


def test_bad_masks_are_refused(leaves):
    for missing in (
        torch.zeros(1, 5),
        torch.zeros(2, 5, dtype=torch.bool),
        torch.zeros(1, dtype=torch.bool),
        [True] * 5,
    ):
        with pytest.raises(ValueError, match="missing"):
            leaves.read(row(0, 0, 0, 0, 0), missing)


def test_tables_of_every_type_are_read_alike():
    leaves = Leaves([Categorical(2)] * 3)
    expected = leaves.read(torch.tensor([[0.0, 1.0, 1.0]]))
    table = np.array([[0, 1, 1]])
    kinds = (bool, np.uint8, np.int8, np.int16, np.uint32, np.uint64, np.float16, np.float32, np.float64, np.longdouble)
    readable = [table.astype(kind) for kind in kinds] + [
        table.astype(">f8"),
        np.asfortranarray(table),
        table[:, ::-1][:, ::-1],
    ]
    frozen = table.copy()
    frozen.flags.writeable = False
    tensors = [torch.tensor(table).to(kind) for kind in (torch.bool, torch.uint8, torch.int32, torch.bfloat16)]
    for x in [*readable, frozen, *tensors]:
        evidence = leaves.read(x)
        assert torch.equal(evidence.values, expected.values)
        assert torch.equal(evidence.missing, expected.missing)


def test_a_masked_value_may_be_anything(leaves):
    x = row(99, torch.inf, -4, torch.nan, 0)
    mask = torch.tensor([True, True, True, False, False])
    evidence = leaves.read(x, mask)
    assert evidence.missing.tolist() == [[True, True, True, True, False]]
    assert evidence.values.tolist() == [[0, 0, 0, 0, 0]]
    assert isinstance(leaves.read(x.numpy(), mask.numpy()[None]), Evidence)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Categorical(0),
        lambda: Categorical(2.0),
        lambda: Gaussian(0),
        lambda: Gaussian(2, min_variance=0.0),
        lambda: Gaussian(2, min_variance=1.0, max_variance=0.5),
        lambda: Binomial(3, total=0),
    ],
)
def test_bad_families_are_refused(make):
    with pytest.raises(ValueError, match="expected"):
        make()
