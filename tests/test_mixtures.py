import math

import numpy as np
import pytest
import torch

from scipy import stats
from worlds import SHARED, agreeing, all_worlds, missing_patterns, sharpened

import hyperspn

from hyperspn import SPN, Binomial, Categorical, EiNet, Gaussian, Histogram, HyperSPN, Mixture, Numeric, fit_clusters
from hyperspn.data.scales import Scale
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
    return Mixture(circuits, WEIGHTS, CENTERS, SCALE)


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


SHARES = torch.tensor([3.0, 5.0, 0.0, 2.0], dtype=torch.float64)
FAMILIES = {
    "binary": [Categorical(2)] * 4,
    "mixed": [Categorical(2), Binomial(2, total=3), Categorical(3), Histogram(3, categories=2)],
}


@pytest.fixture(scope="module", params=FAMILIES)
def discrete(request):
    """A mixture of circuits of several kinds, all worlds, and their probabilities.

    The second component cannot explain a 0 in the first column, and the third has no weight.
    """
    leaves = FAMILIES[request.param]
    circuits = [
        SPN(4, 2, 2, leaves=leaves),
        SPN(4, 1, 1, leaves=leaves),
        EiNet(SHARED, 2, leaves=leaves),
        HyperSPN(4, 3, structure=SHARED, leaves=leaves),
    ]
    circuits = [sharpened(circuit.double(), seed) for seed, circuit in enumerate(circuits)]
    layer = next(layer for layer in circuits[1].sectors.layers if layer.is_leaf and 0 in layer.factors)
    sector = layer.sectors[layer.factors.tolist().index(0), 0]
    circuits[1].weights.logits[layer.kind_index].data[sector, 0] = -torch.inf
    worlds = all_worlds(circuits[0])
    with torch.no_grad():
        p = sum(share / 10 * circuit.log_prob(worlds).exp() for share, circuit in zip(SHARES, circuits))
    assert not circuits[1].log_prob(worlds[worlds[:, 0] == 0]).isfinite().any()
    return Mixture(circuits, SHARES), worlds, p


def posteriors(discrete):
    """Rows with holes, and for each the probability of every world given what is known."""
    mixture, worlds, p = discrete
    rows = worlds[:: 1 + len(worlds) // 12]
    missing = missing_patterns(mixture, len(rows))
    given = torch.stack([p * agreeing(worlds, row, holes) for row, holes in zip(rows, missing)])  # (batch, worlds)
    return rows, missing, given.sum(1), given / given.sum(1, keepdim=True)


def test_probabilities_are_those_of_all_worlds(discrete):
    mixture, worlds, p = discrete
    assert p.sum().item() == pytest.approx(1)
    torch.testing.assert_close(mixture.log_prob(worlds).exp(), p)
    rows, missing, p_known, _ = posteriors(discrete)
    torch.testing.assert_close(mixture.log_prob(rows, missing).exp(), p_known)
    torch.testing.assert_close(mixture.log_prob(mixture.read(rows, missing)).exp(), p_known)
    query = torch.tensor([True, False, True, False])
    rest = torch.stack([p[agreeing(worlds, row, query)].sum() for row in rows])
    expected = torch.stack([p[(worlds == row).all(1)].sum() for row in rows]) / rest
    torch.testing.assert_close(mixture.conditional_log_prob(rows, query).exp(), expected)


def test_marginals_moments_and_guesses_are_those_of_all_worlds(discrete):
    mixture, worlds, _ = discrete
    rows, missing, _, posterior = posteriors(discrete)
    marginals, (mean, variance) = mixture.marginals(rows, missing), mixture.moments(rows, missing)
    guesses = mixture.impute(rows, missing)
    torch.testing.assert_close(marginals.sum(-1), torch.ones_like(mean))
    codes = worlds.double()
    expected = posterior @ codes  # (batch, variables)
    torch.testing.assert_close(mean, expected)
    torch.testing.assert_close(variance, posterior @ codes.square() - expected.square(), rtol=1e-9, atol=1e-12)
    for variable, family in enumerate(mixture.components[0].leaves.families):
        indicators = torch.nn.functional.one_hot(worlds[:, variable]).double()
        distribution = posterior @ indicators  # (batch, categories)
        if isinstance(family, Categorical):
            torch.testing.assert_close(marginals[:, variable, : family.categories], distribution)
        else:  # the distributions of one component after those of another
            shares = marginals[:, variable, : 4 * family.width].view(len(rows), 4, -1).sum(-1)
            torch.testing.assert_close(shares, mixture.joint_log_prob(rows, missing).softmax(1))
        best = mean[:, variable].round() if isinstance(family, Binomial) else distribution.argmax(1)
        assert torch.equal(guesses[:, variable], best.long())


def test_discrete_samples(discrete):
    mixture, worlds, p = discrete
    generator = torch.Generator().manual_seed(0)
    rows, missing, _, posterior = posteriors(discrete)
    whole = missing.sum(1).argmax()
    given = mixture.sample_given(rows[whole, None], missing[whole, None], 20_000, generator)[0]
    assert (given == rows[whole])[:, ~missing[whole]].all()
    for drawn, expected in ((mixture.sample(20_000, generator), p), (given, posterior[whole])):
        assert drawn.dtype == torch.int64
        places = {tuple(world): place for place, world in enumerate(worlds.tolist())}
        counts = torch.tensor([places[tuple(row)] for row in drawn.tolist()]).bincount(minlength=len(worlds))
        assert not counts[expected == 0].any()
        large = expected * 20_000 > 5
        rest = [float(counts[~large].sum()), float(expected[~large].sum() * 20_000)]
        frequencies = [*counts[large].tolist(), rest[0]], [*(expected[large] * 20_000).tolist(), rest[1]]
        pairs = [(f, e) for f, e in zip(*frequencies) if e > 0]
        assert stats.chisquare(*zip(*pairs)).pvalue > 1e-4


def test_completions_and_their_bound(discrete):
    mixture, worlds, p = discrete
    rows, missing, *_ = posteriors(discrete)
    completed, bound = mixture.most_probable(rows, missing), mixture.most_probable_bound(rows, missing)
    largest = torch.stack([p[agreeing(worlds, row, holes)].max() for row, holes in zip(rows, missing)])
    assert completed.dtype == torch.int64
    assert ((completed == rows) | missing).all()
    assert (mixture.log_prob(completed).exp() <= largest * (1 + 1e-9)).all()
    assert (mixture.log_prob(completed) > -torch.inf).all()
    assert (largest.log() <= bound + 1e-9).all()


def test_components_that_explain_different_rows_are_completed_exactly():
    """One component has only worlds that begin with 0 and the other only ones that begin with 1."""
    circuits = [sharpened(SPN(3, 1, 1, seed=seed).double(), seed) for seed in (1, 2)]
    for first, circuit in enumerate(circuits):
        leaf = circuit.structure.leaf_variables.tolist().index(0)
        circuit.weights.logits[1].data[leaf, 1 - first] = -torch.inf
    mixture = Mixture(circuits, torch.tensor([0.4, 0.6]).double())
    worlds = all_worlds(circuits[0])
    p = mixture.log_prob(worlds)
    for row in (torch.full((3,), torch.nan), torch.tensor([1.0, torch.nan, 0.0]), torch.tensor([torch.nan, 1.0, 1.0])):
        allowed = agreeing(worlds, row, row.isnan())
        best = worlds[p.masked_fill(~allowed, -torch.inf).argmax()]
        assert torch.equal(mixture.most_probable(row[None])[0], best)
        assert mixture.most_probable_bound(row[None]).item() >= p[allowed].max() - 1e-9


def test_numbers_of_a_table_and_events():
    """Whole numbers 0 to 60 with a point mass at 0: all worlds of two columns, in cells of width 1."""
    generator = np.random.default_rng(0)
    column = np.where(generator.random(300) < 0.3, 0, generator.gamma(4, 3, 300).round())
    leaves = [Numeric(Scale.fit(column, lower=0), members=3), Categorical(2)]
    circuits = [sharpened(SPN(2, 2, 2, leaves=leaves).double(), seed) for seed in range(2)]
    mixture = Mixture(circuits, torch.tensor([0.3, 0.7]).double())
    numbers = torch.arange(0.0, 2000)
    worlds = torch.cartesian_prod(numbers, torch.arange(2.0)).double()
    p = mixture.log_prob(worlds).exp()
    assert p.sum().item() == pytest.approx(1, abs=1e-3)
    nothing = torch.full((1, 2), torch.nan).double()
    events = [{0: np.array([[-np.inf, 3.5], [9.5, 20.5]])}]
    inside = (worlds[:, 0] <= 3) | ((worlds[:, 0] >= 10) & (worlds[:, 0] <= 20))
    assert mixture.log_prob(mixture.read(nothing, events=events)).exp().item() == pytest.approx(p[inside].sum().item())
    given = worlds[:, 1] == 1
    row, posterior = torch.tensor([[torch.nan, 1.0]]).double(), p[given] / p[given].sum()
    assert mixture.moments(row)[0][0, 0].item() == pytest.approx((posterior * worlds[given, 0]).sum().item(), abs=0.2)
    assert mixture.impute(row)[0, 0] == mixture.moments(row)[0][0, 0].round()
    drawn = mixture.sample_given(mixture.read(nothing, events=events), n=500)[0, :, 0]
    assert ((drawn <= 3) | ((drawn >= 10) & (drawn <= 20))).all()
    assert (drawn == 0).any()
    torch.testing.assert_close(mixture.marginals(row).sum(-1), torch.ones(1, 2).double())


def test_around_centers_there_are_no_events(mixture):
    evidence = mixture.read(torch.zeros(1, 2), events=[{0: np.array([[0.0, 1.0]])}])
    with pytest.raises(ValueError, match="expected values, found events"):
        mixture.log_prob(evidence)


def impossible_mixture():
    circuits = [SPN(2, 1, 1, seed=seed).double() for seed in (1, 2)]
    for circuit in circuits:
        leaf = circuit.structure.leaf_variables.tolist().index(0)
        circuit.weights.logits[1].data[leaf, 1] = -torch.inf
    return Mixture(circuits, torch.ones(2).double())


X, HOLES = torch.tensor([[0, 0], [1, 0]]), torch.tensor([[False, True], [False, True]])


@pytest.mark.parametrize(
    "query",
    [
        lambda mixture: mixture.conditional_log_prob(X, torch.tensor([False, True])),
        lambda mixture: mixture.marginals(X, HOLES),
        lambda mixture: mixture.moments(X, HOLES),
        lambda mixture: mixture.impute(X, HOLES),
        lambda mixture: mixture.sample_given(X, HOLES),
        lambda mixture: mixture.most_probable(X, HOLES),
    ],
)
def test_impossible_evidence_is_refused(query):
    with pytest.raises(ValueError, match="positive probability, found impossible values in row"):
        query(impossible_mixture())


def test_impossible_rows_have_probability_zero_and_no_gradient():
    mixture = impossible_mixture()
    log_p = mixture.log_prob(X)
    assert log_p.isfinite().tolist() == [True, False]
    assert mixture.most_probable_bound(X, HOLES).isfinite().tolist() == [True, False]
    log_p[1].backward()
    assert all((p.grad == 0).all() for p in mixture.parameters() if p.grad is not None)


@pytest.mark.parametrize(
    ("query", "message"),
    [
        (lambda mixture: mixture.log_prob(torch.tensor([[0, 2]])), "a category 0..1 in column 1, found 2"),
        (lambda mixture: mixture.log_prob(torch.zeros(2, 3)), r"shape \(batch, 2\)"),
        (lambda mixture: mixture.conditional_log_prob(X, torch.tensor([1, 0])), "query to be bool of shape"),
        (lambda mixture: mixture.conditional_log_prob(X, torch.tensor([True])), "query to be bool of shape"),
        (lambda mixture: mixture.moments(X, torch.tensor([True])), "missing to be bool"),
        (lambda mixture: mixture.sample(-1), "number of samples"),
        (lambda mixture: mixture.sample_given(X[:1], n=0), "number of samples"),
    ],
)
def test_bad_questions_are_refused(query, message):
    with pytest.raises(ValueError, match=message):
        query(impossible_mixture())


def test_no_rows_have_no_answers(discrete):
    mixture, worlds, _ = discrete
    nothing = worlds[:0]
    assert mixture.log_prob(nothing).shape == mixture.most_probable_bound(nothing).shape == (0,)
    assert mixture.sample(0).shape == mixture.impute(nothing).shape == mixture.most_probable(nothing).shape == (0, 4)
    assert mixture.sample_given(nothing, n=3).shape == (0, 3, 4)
    assert mixture.moments(nothing)[1].shape == (0, 4)


def test_the_old_name_works_and_names_the_new_one(tmp_path):
    with pytest.warns(FutureWarning, match=r"hyperspn\.ClusterMixture is now hyperspn\.Mixture"):
        old = hyperspn.ClusterMixture
    mixture = old([SPN(3, 2, 1)], torch.ones(1), torch.zeros(1, 3))
    mixture.save(tmp_path)
    x = torch.tensor([[0, 1, 1]])
    torch.testing.assert_close(old.load(tmp_path).log_prob(x), mixture.log_prob(x))
    torch.testing.assert_close(Mixture([SPN(3, 2, 1)], torch.ones(1)).log_prob(x), mixture.log_prob(x))


def test_a_description_is_short(mixture, discrete):
    assert "Mixture of 3 circuits around centers, in units of 4\n  weights 0.2, 0.5, 0.3\n" in repr(mixture)
    assert len(repr(discrete[0]).splitlines()) == 10


def test_save_and_load(mixture, tmp_path):
    mixture.save(tmp_path / "mixture")
    assert torch.equal(Mixture.load(tmp_path / "mixture").centers, mixture.centers)
    again = Mixture.load(tmp_path / "mixture")
    x = torch.randn(5, 2, dtype=torch.float64)
    torch.testing.assert_close(again.log_prob(x), mixture.log_prob(x), rtol=1e-12, atol=0)
    with pytest.raises(FileNotFoundError, match="found no mixture"):
        Mixture.load(tmp_path)
    plain = Mixture(list(mixture.components), WEIGHTS)
    plain.save(tmp_path / "plain")
    assert Mixture.load(tmp_path / "plain").centers is None
    torch.testing.assert_close(Mixture.load(tmp_path / "plain").log_prob(x), plain.log_prob(x), rtol=1e-12, atol=0)
    (tmp_path / "mixture").write_bytes(b"nothing")
    with pytest.raises(ValueError, match="damaged or foreign"):
        Mixture.load(tmp_path / "mixture")


def test_one_file_holds_a_mixture_with_its_notes(discrete, tmp_path):
    mixture, worlds, _ = discrete
    mixture.notes = {"names": ["a", "b"]}
    mixture.save(tmp_path / "one.safetensors")
    again = hyperspn.load(tmp_path / "one.safetensors")
    assert isinstance(again, Mixture)
    assert again.notes == mixture.notes
    assert [type(part.weights) for part in again.components] == [type(part.weights) for part in mixture.components]
    torch.testing.assert_close(again.log_prob(worlds), mixture.log_prob(worlds), rtol=1e-12, atol=0)
    SPN(4).save(tmp_path / "circuit.safetensors")
    with pytest.raises(ValueError, match="expected a mixture, found a single circuit"):
        Mixture.load(tmp_path / "circuit.safetensors")


def test_what_the_rest_of_a_row_says(discrete):
    mixture, worlds, p = discrete
    rows, missing, *_ = posteriors(discrete)
    log_density, posterior = mixture.leave_one_out(rows, missing)
    for row, holes, densities, leaf_posteriors in zip(rows, missing, log_density, posterior):
        for variable, family in enumerate(mixture.components[0].leaves.families):
            rest = holes.clone()
            rest[variable] = True
            p_rest = p[agreeing(worlds, row, rest)].sum()
            expected = p[agreeing(worlds, row, holes)].sum() / p_rest
            assert densities[variable].exp().item() == pytest.approx(expected.item(), rel=1e-9)
            if isinstance(family, Categorical):
                for code in range(family.categories):
                    p_code = p[agreeing(worlds, row, rest) & (worlds[:, variable] == code)].sum() / p_rest
                    assert leaf_posteriors[variable, code].item() == pytest.approx(p_code.item(), rel=1e-9, abs=1e-12)


def test_hidden_states_are_those_of_the_components(discrete):
    mixture, worlds, _ = discrete
    rows = worlds[worlds[:, 0] == 1][:5]
    states = mixture.root_states(rows)
    torch.testing.assert_close(states.sum((1, 2)), torch.ones(5).double())
    shares = mixture.joint_log_prob(rows).softmax(1)
    first = 0
    for c, circuit in enumerate(mixture.components):
        own = circuit.root_states(rows) * shares[:, c, None, None]
        torch.testing.assert_close(states[:, first : first + own.shape[1], : own.shape[2]], own)
        first += own.shape[1]


def test_joined_leaves_are_those_of_all_components(discrete):
    mixture, *_ = discrete
    for variable, family in enumerate(mixture.leaves.families):
        own = [circuit.leaves.parameters_of(variable) for circuit in mixture.components]
        single = mixture.components[0].leaves.families[variable]
        if single.num_parameters:
            assert family.width == 4 * single.width
            torch.testing.assert_close(mixture.leaves.parameters_of(variable), torch.cat(own, 1))
        else:
            assert family == single


@pytest.mark.parametrize("jobs", [1, 2])
def test_clusters_are_learned(jobs, tmp_path):
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
            lambda: Mixture([small_einet()], torch.ones(2), torch.zeros(1, 4)),
            "weight and a center for each of 1",
        ),
        (lambda: Mixture([small_einet()], torch.ones(1), torch.zeros(1, 3)), r"centers \(1, 3\)"),
        (lambda: Mixture([small_einet()], -torch.ones(1), torch.zeros(1, 4)), "weights >= 0"),
        (lambda: Mixture([small_einet()], torch.ones(1), torch.zeros(1, 4), 0.0), "scale > 0"),
        (lambda: Mixture([SPN(4, leaves=Categorical(3))], torch.ones(1), torch.ones(1, 4)), "continuous"),
        (lambda: Mixture([], torch.ones(0)), "circuits over the same variables"),
        (lambda: Mixture([SPN(3), SPN(4)], torch.ones(2)), r"same variables, found numbers of variables \[3, 4\]"),
        (
            lambda: Mixture([SPN(2), SPN(2, leaves=Categorical(3))], torch.ones(2)),
            r"same leaf family in all circuits, found Categorical\(categories=2\) and",
        ),
        (
            lambda: Mixture([SPN(2, leaves=[Categorical(2), Gaussian(2)])], torch.ones(1), torch.ones(1, 2)),
            "continuous",
        ),
        (lambda: Mixture([small_einet()], torch.ones(1), scale=2.0), "centers beside a scale"),
        (lambda: fit_clusters(small_einet, np.zeros((3, 4)), clusters=4), "1 to 3 clusters"),
    ],
)
def test_bad_mixtures_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()
