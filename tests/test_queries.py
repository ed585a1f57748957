"""Every query against the enumeration of all worlds, or numerical integration."""

import numpy as np
import pytest
import torch

from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from worlds import STRUCTURES, agreeing, all_worlds, make, missing_patterns, mixed_families, sharpened

from hyperspn import SPN, Binomial, Categorical, EiNet, Gaussian, Histogram, HyperSPN, RegionGraph
from hyperspn.circuits.queries import leave_one_out, root_states
from hyperspn.engines import layered
from hyperspn.structures import poon_domingos

CASES = [(name, weights, "binary") for name in STRUCTURES if name != "wide leaves" for weights in ("direct", "hyper")]
CASES += [(name, weights, "mixed") for name in ("trees5", "shared", "caterpillar") for weights in ("direct", "hyper")]
CASES += [("one tree", "factored", leaves) for leaves in ("binary", "mixed")]
CASES += [("wide leaves", weights, "counts") for weights in ("direct", "hyper")]
CASES += [(name, "direct EiNet", "binary") for name in ("trees1", "trees6", "caterpillar", "grid")]
CASES += [
    ("shared", "hyper EiNet", "mixed"),
    ("grid", "hyper EiNet", "no sums"),
    ("wide leaves", "direct EiNet", "counts"),
    ("wide leaves", "hyper EiNet", "histograms"),
]


@pytest.fixture(params=CASES, ids=[" ".join(case) for case in CASES], scope="module")
def discrete(request):
    """A circuit, all its worlds, and their probabilities."""
    name, weights, leaves = request.param
    n = STRUCTURES[name].num_variables
    families = {"binary": Categorical(2), "mixed": mixed_families(n), "counts": Binomial(4, total=2)}
    families |= {"no sums": Binomial(3, total=1), "histograms": Histogram(3, categories=3)}
    circuit = make(name, weights, leaves=families[leaves])
    worlds = all_worlds(circuit)
    with torch.no_grad():
        return circuit, worlds, circuit.log_prob(worlds).exp()


def some_rows(worlds, count=6):
    return worlds[torch.randint(len(worlds), (count,), generator=torch.Generator().manual_seed(1))]


def test_probabilities_sum_to_one(discrete):
    _, _, p = discrete
    assert abs(p.sum() - 1) < 1e-10


def test_marginals_are_sums_of_worlds(discrete):
    circuit, worlds, p = discrete
    rows = some_rows(worlds)
    missing = missing_patterns(circuit, len(rows))
    expected = torch.stack([p[agreeing(worlds, row, hole)].sum() for row, hole in zip(rows, missing, strict=True)])
    torch.testing.assert_close(circuit.log_prob(rows, missing).exp(), expected, rtol=1e-10, atol=0)
    with_nan = rows.double().masked_fill(missing, torch.nan)
    assert torch.equal(circuit.log_prob(with_nan), circuit.log_prob(rows, missing))


def test_everything_missing_has_probability_one(discrete):
    circuit, _, _ = discrete
    log_prob = circuit.log_prob(torch.full((2, circuit.num_variables), torch.nan))
    torch.testing.assert_close(log_prob, torch.zeros_like(log_prob), rtol=0, atol=1e-12)


def test_each_value_given_the_rest_of_its_row(discrete):
    """Also with holes: log p(x_v | rest) is a ratio of sums over worlds, and the posterior does not know x_v."""
    circuit, worlds, p = discrete
    rows = some_rows(worlds)
    missing = missing_patterns(circuit, len(rows), seed=4)
    log_p, posterior = leave_one_out(circuit, rows, missing)
    for b, (row, hole) in enumerate(zip(rows, missing, strict=True)):
        for v in range(circuit.num_variables):
            rest = hole | (torch.arange(len(hole)) == v)
            expected = p[agreeing(worlds, row, hole)].sum() / p[agreeing(worlds, row, rest)].sum()
            torch.testing.assert_close(log_p[b, v].exp(), expected, rtol=1e-9, atol=0)
            torch.testing.assert_close(posterior[b, v], circuit.marginals(row[None], rest[None])[0, v])


def test_states_of_the_roots(discrete):
    """The gradient of log p by the logits of the mixture is P(r | row) - mixture_r."""
    circuit, worlds, _ = discrete
    rows = some_rows(worlds)
    states = root_states(circuit, rows)
    torch.testing.assert_close(states.sum((1, 2)), torch.ones(len(rows), dtype=states.dtype))
    gradients = []
    for row in rows:
        mixture = circuit.mixture.detach().clone().requires_grad_()
        roots = circuit.engine.upward(circuit.leaves.log_prob(circuit.read(row[None])), circuit.weights)[0]
        gradients.append(torch.autograd.grad((roots[0].detach() + mixture.log_softmax(0)).logsumexp(0), mixture)[0])
    expected = torch.stack(gradients) + circuit.mixture.softmax(0)
    torch.testing.assert_close(states.sum(2), expected)


def test_states_of_a_root_by_hand():
    """A root over two variables, k = 3: P(s | row) ~ w_s p_s(x_0) p_s(x_1)."""
    structure = RegionGraph.from_regions([{"variables": [0]}, {"variables": [1]}, {"partitions": [[0, 1]]}])
    circuit = sharpened(SPN(2, 3, structure=structure).double())
    rows = all_worlds(circuit).double()
    first, second, root = (circuit.region_weights(region) for region in range(3))
    for row, states in zip(rows.long(), root_states(circuit, rows), strict=True):
        joint = root[0] * first[:, row[0]] * second[:, row[1]]
        torch.testing.assert_close(states[0], joint / joint.sum())


def test_what_is_impossible_in_itself_says_nothing_of_the_rest():
    circuit = make("trees3", "direct", leaves=[Categorical(2), Histogram(2, 3), Categorical(2)])
    with torch.no_grad():
        circuit.leaves.raw[1][:, :, 2] = -torch.inf  # category 2 is impossible
    rows = torch.tensor([[0.0, 2.0, 1.0], [0.0, torch.nan, 1.0]])
    log_p, posterior = leave_one_out(circuit, rows)
    assert log_p[0, 1] == -torch.inf
    torch.testing.assert_close(log_p[0, [0, 2]], log_p[1, [0, 2]])
    torch.testing.assert_close(posterior[0], posterior[1])


def test_conditionals_are_ratios(discrete):
    circuit, worlds, p = discrete
    rows = some_rows(worlds)
    missing = missing_patterns(circuit, len(rows), seed=2)
    query = missing_patterns(circuit, 1, seed=3)[0]
    found = circuit.conditional_log_prob(rows, query, missing)
    for row, hole, log_prob in zip(rows, missing, found, strict=True):
        joint = p[agreeing(worlds, row, hole)].sum()
        rest = p[agreeing(worlds, row, hole | query)].sum()
        assert log_prob.item() == pytest.approx((joint / rest).log().item(), abs=1e-10)


def test_posteriors_means_and_variances(discrete):
    circuit, worlds, p = discrete
    rows = some_rows(worlds, 3)
    missing = missing_patterns(circuit, len(rows), seed=4)
    posterior = circuit.marginals(rows, missing)
    mean, variance = circuit.moments(rows, missing)
    for index, (row, hole) in enumerate(zip(rows, missing, strict=True)):
        weights = p * agreeing(worlds, row, hole)
        weights = weights / weights.sum()
        means = (weights[:, None] * worlds).sum(0)
        torch.testing.assert_close(mean[index], means)
        expected = (weights[:, None] * (worlds - means) ** 2).sum(0)
        torch.testing.assert_close(variance[index], expected, rtol=1e-9, atol=1e-12)
        torch.testing.assert_close(posterior[index].sum(-1), torch.ones_like(mean[index]))
        for variable, family in enumerate(circuit.leaves.families):
            if isinstance(family, Categorical):
                counts = torch.bincount(worlds[:, variable], weights, minlength=posterior.shape[2])
                torch.testing.assert_close(posterior[index, variable], counts, rtol=1e-9, atol=1e-12)


def test_imputation_keeps_what_is_known_and_guesses_the_rest(discrete):
    circuit, worlds, p = discrete
    rows = some_rows(worlds, 3)
    missing = missing_patterns(circuit, len(rows), seed=5)
    filled = circuit.impute(rows, missing)
    assert filled.dtype == torch.int64
    assert (filled[~missing] == rows[~missing]).all()
    for row, hole, guess in zip(rows, missing, filled, strict=True):
        weights = p * agreeing(worlds, row, hole)
        for variable in hole.nonzero()[:, 0].tolist():
            if isinstance(circuit.leaves.families[variable], Categorical):
                assert guess[variable] == torch.bincount(worlds[:, variable], weights).argmax()


def chi_square(drawn, worlds, p):
    """The p-value of draws under the probabilities of the worlds, rare worlds taken together."""
    codes = np.ravel_multi_index(worlds.numpy().T, worlds.amax(0).numpy() + 1)
    observed = np.bincount(np.searchsorted(codes, np.ravel_multi_index(drawn.numpy().T, worlds.amax(0).numpy() + 1)))
    observed = np.pad(observed, (0, len(worlds) - len(observed)))
    expected = p.numpy() / p.sum().item() * len(drawn)
    assert (observed[expected == 0] == 0).all()
    order = np.argsort(-expected)
    groups = np.minimum(np.arange(len(order)), max(0, (expected > 10).sum() - 1))
    observed, expected = (np.bincount(groups, counts[order]) for counts in (observed, expected))
    return stats.chisquare(observed, expected).pvalue if len(observed) > 1 else 1.0


def test_samples_follow_the_distribution(discrete):
    circuit, worlds, p = discrete
    drawn = circuit.sample(20_000, generator=torch.Generator().manual_seed(0))
    assert drawn.shape == (20_000, circuit.num_variables)
    assert chi_square(drawn, worlds, p) > 1e-4


def test_conditional_samples_follow_the_posterior(discrete):
    circuit, worlds, p = discrete
    rows = some_rows(worlds, 2)
    missing = missing_patterns(circuit, 2, seed=6)
    missing[0, 0] = True
    drawn = circuit.sample_given(rows, missing, n=20_000, generator=torch.Generator().manual_seed(0))
    assert drawn.shape == (2, 20_000, circuit.num_variables)
    for row, hole, some in zip(rows, missing, drawn, strict=True):
        assert (some[:, ~hole] == row[~hole]).all()
        weights = p * agreeing(worlds, row, hole)
        assert chi_square(some, worlds, weights / weights.sum()) > 1e-4


def test_generators_are_respected(discrete):
    circuit, worlds, _ = discrete
    row, hole = worlds[:1], torch.ones(1, circuit.num_variables, dtype=torch.bool)
    before = torch.get_rng_state()
    for draw in (circuit.sample, lambda n, generator: circuit.sample_given(row, hole, n, generator)):
        first, second = (draw(50, generator=torch.Generator().manual_seed(7)) for _ in range(2))
        assert torch.equal(first, second)
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("n", [1, 2, 5, 9])
@pytest.mark.parametrize("family", [Categorical(2), Categorical(3)])
def test_most_probable_completion_of_a_deterministic_circuit(n, family):
    if family.categories**n > 2000:
        n = 6
    circuit = sharpened(SPN(n, layer_size=1, replicas=1, leaves=family).double(), seed=n)
    worlds = all_worlds(circuit)
    p = circuit.log_prob(worlds)
    rows = some_rows(worlds)
    missing = missing_patterns(circuit, len(rows), seed=8)
    for row, hole, completed in zip(rows, missing, circuit.most_probable(rows, missing), strict=True):
        best = worlds[p.masked_fill(~agreeing(worlds, row, hole), -torch.inf).argmax()]
        assert torch.equal(completed, best)


def test_most_probable_completion_of_a_mixture_that_is_deterministic_by_its_weights():
    """Two replicas, one for each value of the first variable: only one explains a row."""
    circuit = sharpened(SPN(3, layer_size=1, replicas=2).double(), seed=3)
    leaf_logits = circuit.weights.logits[1].data.view(2, 3, 2)
    for replica in range(2):
        place = circuit.structure.leaf_variables.reshape(2, 3)[replica].tolist().index(0)
        leaf_logits[replica, place, replica] = -torch.inf
    worlds = all_worlds(circuit)
    p = circuit.log_prob(worlds)
    assert abs(p.exp().sum() - 1) < 1e-12
    completed = circuit.most_probable(torch.full((1, 3), torch.nan))
    assert torch.equal(completed[0], worlds[p.argmax()])


def test_no_completion_is_more_probable_than_the_bound(discrete):
    circuit, worlds, probabilities = discrete
    rows = worlds[:: 1 + len(worlds) // 20]
    missing = missing_patterns(circuit, len(rows))
    bounds, of_known = circuit.most_probable_bound(rows, missing), circuit.log_prob(rows, missing)
    for row, holes, bound in zip(rows, missing, bounds, strict=True):
        assert probabilities[agreeing(worlds, row, holes)].max().log() <= bound + 1e-9
    if all(isinstance(family, Categorical) for family in circuit.leaves.families):
        assert (bounds <= of_known + 1e-9).all()
    torch.testing.assert_close(circuit.most_probable_bound(rows), circuit.log_prob(rows))


def test_the_bound_of_independent_variables_is_their_most_probable_world():
    circuit = sharpened(SPN(4, 1, 1, leaves=[Categorical(2), Categorical(5), Binomial(1, total=3), Categorical(3)]))
    nothing_known = torch.full((1, 4), torch.nan)
    largest = circuit.log_prob(all_worlds(circuit)).max()
    torch.testing.assert_close(circuit.most_probable_bound(nothing_known)[0], largest)


def test_most_probable_completion_maximizes_over_hidden_choices_too(discrete):
    circuit, worlds, p = discrete
    completed = circuit.most_probable(worlds[:1], torch.ones(1, circuit.num_variables, dtype=torch.bool))
    assert circuit.log_prob(completed).exp() <= p.max() * (1 + 1e-9)
    assert torch.equal(circuit.most_probable(worlds[:4]), worlds[:4])


GRID = torch.linspace(-12, 12, 401, dtype=torch.float64)


@pytest.fixture(params=["direct", "hyper", "direct EiNet", "hyper EiNet"])
def gaussian(request):
    """Two continuous variables and a binary one, with the density on a grid."""
    families = [Gaussian(3, 0.1, 4.0), Categorical(2), Gaussian(2, 0.2)]
    circuit = make("line" if "EiNet" in request.param else "trees3", request.param, layer_size=2, leaves=families)
    a, b, c = torch.meshgrid(GRID, torch.tensor([0.0, 1.0], dtype=torch.float64), GRID, indexing="ij")
    points = torch.stack([a, b, c], -1).view(-1, 3)
    with torch.no_grad():
        return circuit, points, circuit.log_prob(points).exp() * (GRID[1] - GRID[0]) ** 2


def test_densities_integrate_to_one(gaussian):
    _, _, mass = gaussian
    assert abs(mass.sum() - 1) < 1e-6


def test_continuous_marginals_conditionals_and_moments(gaussian):
    circuit, points, mass = gaussian
    row = torch.tensor([[torch.nan, 1.0, GRID[210]]], dtype=torch.float64)
    step = GRID[1] - GRID[0]
    near = (points[:, 1] == 1) & (points[:, 2] == GRID[210])
    joint = mass[near].sum() / step
    assert circuit.log_prob(row).exp().item() == pytest.approx(joint.item(), rel=1e-6)
    mean, variance = circuit.moments(row)
    weights = mass[near] / mass[near].sum()
    expected = (weights * points[near, 0]).sum()
    assert mean[0].tolist() == pytest.approx([expected.item(), 1.0, GRID[210].item()], rel=1e-6)
    spread = (weights * (points[near, 0] - expected) ** 2).sum()
    assert variance[0].tolist() == pytest.approx([spread.item(), 0.0, 0.0], rel=1e-6)
    query = torch.tensor([False, True, False])
    rest = mass[points[:, 2] == GRID[210]].sum() / step
    assert circuit.conditional_log_prob(row, query).exp().item() == pytest.approx((joint / rest).item(), rel=1e-6)
    torch.testing.assert_close(circuit.impute(row), mean)


def test_continuous_samples(gaussian):
    circuit, points, mass = gaussian
    drawn = circuit.sample(20_000, generator=torch.Generator().manual_seed(0))
    assert drawn.dtype == torch.float64
    cumulative = torch.stack([mass[points[:, 0] <= value].sum() for value in GRID])
    assert stats.kstest(drawn[:, 0].numpy(), lambda v: np.interp(v, GRID + 0.03, cumulative)).pvalue > 1e-4
    row = torch.tensor([[torch.nan, 1.0, GRID[210]]], dtype=torch.float64)
    given = circuit.sample_given(row, n=20_000, generator=torch.Generator().manual_seed(1))[0]
    near = (points[:, 1] == 1) & (points[:, 2] == GRID[210])
    cumulative = torch.stack([mass[near & (points[:, 0] <= value)].sum() for value in GRID]) / mass[near].sum()
    assert stats.kstest(given[:, 0].numpy(), lambda v: np.interp(v, GRID + 0.03, cumulative)).pvalue > 1e-4


@pytest.mark.parametrize("weights", ["direct EiNet", "hyper EiNet"])
def test_densities_of_wide_gaussian_regions_integrate_to_one_and_to_their_marginals(weights):
    structure = poon_domingos((1, 3), delta=2)
    circuit = sharpened(EiNet(structure, 3, Gaussian(3, 0.3, 2.0), weights.split()[0]).double())
    grid = torch.linspace(-8, 8, 65, dtype=torch.float64)
    points = torch.cartesian_prod(grid, grid, grid)
    with torch.no_grad():
        p = circuit.log_prob(points).exp().view(65, 65, 65) * 0.25**3
        half = circuit.log_prob(torch.tensor([[torch.nan, grid[30], torch.nan]])).exp()
    assert abs(p.sum() - 1) < 1e-5
    assert half.item() == pytest.approx(p[:, 30].sum().item() / 0.25, rel=1e-5)
    row = torch.tensor([[torch.nan, grid[30], torch.nan]], dtype=torch.float64)
    weight = p[:, 30].sum(1) / p[:, 30].sum()
    mean, variance = circuit.moments(row)
    assert mean[0, 0].item() == pytest.approx((weight * grid).sum().item(), abs=1e-5)
    assert variance[0, 0].item() == pytest.approx((weight * (grid - mean[0, 0]) ** 2).sum().item(), rel=1e-5)
    drawn = circuit.sample_given(row, n=5000, generator=torch.Generator().manual_seed(0))[0]
    cumulative = weight.cumsum(0)
    assert stats.kstest(drawn[:, 0].numpy(), lambda v: np.interp(v, grid + 0.125, cumulative)).pvalue > 1e-4


def test_no_density_is_larger_than_the_bound():
    circuit = sharpened(SPN(2, 2, 2, leaves=Gaussian(3)).double())
    grid = torch.linspace(-6, 6, 400, dtype=torch.float64)
    bound = circuit.most_probable_bound(torch.tensor([[torch.nan, torch.nan], [torch.nan, 0.3]]))
    assert circuit.log_prob(torch.cartesian_prod(grid, grid)).max() <= bound[0]
    assert circuit.log_prob(torch.stack([grid, torch.full_like(grid, 0.3)], 1)).max() <= bound[1] < bound[0]


def test_most_probable_continuous_value_is_a_mode():
    circuit = sharpened(SPN(2, layer_size=1, replicas=1, leaves=Gaussian(1)).double())
    completed = circuit.most_probable(torch.full((1, 2), torch.nan))
    torch.testing.assert_close(completed[0], circuit.leaves.raw[0][:, 0, 0].detach())


@settings(max_examples=30, deadline=None)
@given(
    n=st.integers(1, 6),
    k=st.integers(1, 4),
    r=st.integers(1, 3),
    seed=st.integers(0, 10_000),
    hyper=st.booleans(),
    data=st.data(),
)
def test_marginals_of_random_circuits(n, k, r, seed, hyper, data):
    categories = data.draw(st.lists(st.integers(1, 4), min_size=n, max_size=n))
    hole = torch.tensor(data.draw(st.lists(st.booleans(), min_size=n, max_size=n)))
    assemble = HyperSPN if hyper else SPN
    circuit = sharpened(assemble(n, k, r, seed, leaves=[Categorical(c) for c in categories]).double(), seed)
    worlds = all_worlds(circuit)
    p = circuit.log_prob(worlds).exp()
    assert abs(p.sum() - 1) < 1e-10
    row = worlds[seed % len(worlds)][None]
    expected = p[agreeing(worlds, row[0], hole)].sum()
    torch.testing.assert_close(circuit.log_prob(row, hole).exp()[0], expected, rtol=1e-10, atol=0)


@pytest.fixture
def impossible():
    """A circuit whose first variable is never 1."""
    circuit = SPN(2, layer_size=2, replicas=2)
    logits = circuit.weights.logits[0].data.view(2, -1, 2, 2)
    for replica in range(2):
        place = circuit.structure.leaf_variables.reshape(2, 2)[replica].tolist().index(0)
        circuit.weights.logits[0].data.view(-1, 2, 2)[replica * 3 + place, :, 1] = -torch.inf
    assert logits.isinf().any()
    return circuit


def test_impossible_evidence(impossible):
    x = torch.tensor([[0, 1], [1, 1]])
    log_prob = impossible.log_prob(x)
    assert log_prob[0].isfinite()
    assert log_prob[1] == -torch.inf
    holes = torch.tensor([[False, True], [False, True]])
    for ask in (
        lambda: impossible.conditional_log_prob(x, torch.tensor([False, True])),
        lambda: impossible.marginals(x, holes),
        lambda: impossible.moments(x, holes),
        lambda: impossible.impute(x, holes),
        lambda: impossible.sample_given(x, holes),
        lambda: impossible.most_probable(x, holes),
    ):
        with pytest.raises(ValueError, match="impossible values in row 2"):
            ask()
    assert impossible.conditional_log_prob(x, torch.tensor([True, False]))[1] == -torch.inf
    drawn = impossible.sample(1000, generator=torch.Generator().manual_seed(0))
    assert (drawn[:, 0] == 0).all()


def test_impossible_rows_leave_gradients_of_the_others_finite(impossible):
    impossible.log_prob(torch.tensor([[0, 1], [1, 1]])).exp().sum().backward()
    assert all(parameter.grad is None or not parameter.grad.isnan().any() for parameter in impossible.parameters())


@pytest.mark.parametrize("leaves", [Categorical(2), Gaussian(2)])
def test_empty_batches(leaves):
    circuit = SPN(3, replicas=2, leaves=leaves)
    x = torch.empty(0, 3)
    assert circuit.log_prob(x).shape == (0,)
    assert circuit.conditional_log_prob(x, torch.tensor([True, False, False])).shape == (0,)
    assert circuit.marginals(x).shape == (0, 3, 2)
    assert circuit.moments(x)[0].shape == (0, 3)
    assert circuit.sample(0).shape == (0, 3)
    assert circuit.sample_given(x, n=4).shape == (0, 4, 3)
    assert circuit.most_probable(x).shape == circuit.impute(x).shape == (0, 3)


def test_bad_arguments_are_refused():
    circuit = SPN(3, replicas=2)
    x = torch.zeros(1, 3)
    for ask, message in (
        (lambda: circuit.sample(-1), ">= 0"),
        (lambda: circuit.sample_given(x, n=0), ">= 1"),
        (lambda: circuit.conditional_log_prob(x, torch.tensor([True])), r"bool of shape \(3,\)"),
        (lambda: circuit.conditional_log_prob(x, torch.ones(3)), "float32"),
        (lambda: circuit.conditional_log_prob(x, "abc"), "found str"),
    ):
        with pytest.raises(ValueError, match=message):
            ask()


def test_large_batches_are_cut_into_parts(monkeypatch):
    circuit = sharpened(SPN(5, replicas=3))
    x = circuit.sample(40, generator=torch.Generator().manual_seed(0))
    holes = missing_patterns(circuit, 40)
    whole = [circuit.log_prob(x, holes), circuit.marginals(x, holes), circuit.most_probable(x, holes)]
    monkeypatch.setattr(layered, "VALUES_AT_ONCE", 1000)
    with torch.no_grad():
        parts = [circuit.log_prob(x, holes), circuit.marginals(x, holes), circuit.most_probable(x, holes)]
    for one, other in zip(whole, parts, strict=True):
        torch.testing.assert_close(one, other)
    assert circuit.sample(100).shape == (100, 5)
    assert circuit.sample_given(x, holes, n=3).shape == (40, 3, 5)


def test_queries_leave_nothing_behind_and_work_in_inference_mode():
    circuit = sharpened(SPN(5, replicas=3))
    x = circuit.sample(4)
    holes = missing_patterns(circuit, 4)
    before = {name: value.clone() for name, value in circuit.state_dict().items()}
    with torch.inference_mode():
        inside = circuit.marginals(x, holes)
    torch.testing.assert_close(inside, circuit.marginals(x, holes))
    assert not circuit.marginals(x, holes).requires_grad
    assert all(parameter.grad is None for parameter in circuit.parameters())
    assert all(torch.equal(value, before[name]) for name, value in circuit.state_dict().items())


@pytest.mark.parametrize("engine", ["layered", "native"])
def test_weights_learn_from_events(engine):
    """The gradient of log P(x_0 in {0, 2}, rest) is that of log (p(0, rest) + p(2, rest))."""
    circuit = SPN(3, 2, leaves=[Categorical(3), Categorical(2), Categorical(2)], replicas=2, engine=engine).double()
    circuit = sharpened(circuit)
    rows = torch.tensor([[0.0, 1.0, 0.0], [2.0, 1.0, 0.0]], dtype=torch.float64)
    event = circuit.read(rows[:1], events=[{0: [1.0, 0.0, 1.0]}])
    parameters = [parameter for parameter in circuit.parameters() if parameter.requires_grad]
    found = torch.autograd.grad(circuit.log_prob(event)[0], parameters)
    expected = torch.autograd.grad(circuit.log_prob(rows).logsumexp(0), parameters)
    assert max(part.abs().max() for part in expected) > 0.01
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours, theirs)
