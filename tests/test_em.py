import itertools
import json
import math

import numpy as np
import pytest
import torch

from test_train import mean, noisy_copies, quietly
from worlds import STRUCTURES, densities, make

from hyperspn import SPN, Binomial, Categorical, Gaussian, Histogram, HyperSPN, load
from hyperspn.engines import NativeEngine, layered, native
from hyperspn.learning import EM
from hyperspn.learning.regularizers import Softening

pytestmark = pytest.mark.usefixtures("one_thread")

ENGINES = ["auto", "layered"]
BOUNDED = Gaussian(3, min_variance=0.5, max_variance=2.0)
AGREE = 0.9**2 + 0.1**2
ENTROPY = 3 * (math.log(2) - AGREE * math.log(AGREE) - (1 - AGREE) * math.log(1 - AGREE))  # of noisy_copies
MIXED = [Categorical(3), Gaussian(2), Binomial(3, total=4), Categorical(2), BOUNDED]
LEAVES = {
    "binary": [Categorical(2)],
    "categories": [Categorical(5)],
    "gaussian": [Gaussian(3)],
    "bounded": [BOUNDED],
    "binomial": [Binomial(3, total=9)],
    "histogram": [Histogram(3, categories=4)],
    "mixed": MIXED,
}


def families(structure, leaves):
    return list(itertools.islice(itertools.cycle(leaves), STRUCTURES[structure].num_variables))


def rows_of(circuit, rows, missing=0.2, seed=0):
    """Random values that fit the leaves, with holes, in float64."""
    generator = np.random.default_rng(seed)
    columns = []
    for family in circuit.leaves.families:
        if isinstance(family, Gaussian):
            columns.append(generator.normal(size=rows) + 4.0 * generator.integers(0, 2, rows))
        else:
            values = family.total + 1 if isinstance(family, Binomial) else family.categories
            columns.append(generator.integers(0, values, rows))
    x = np.stack(columns, 1).astype(np.float64)
    x[generator.random(x.shape) < missing] = np.nan
    return torch.from_numpy(x)


def sums_of(circuit):
    """The weights of every sum by (region, output), each by edge (partition, column); and of the mixture."""
    k, graph = circuit.sectors.layer_size, json.loads(circuit.structure.to_json())["regions"]
    children = {child for region in graph for part in region.get("partitions", []) for child in part}
    used = [0] * len(circuit.sectors.kinds)
    mixture = torch.softmax(circuit.mixture.detach(), 0).tolist()
    sums = {"mixture": dict(zip([index for index in range(len(graph)) if index not in children], mixture))}
    for index, region in enumerate(graph):
        columns = circuit.leaves.families[region["variables"][0]].width if "variables" in region else k
        kind = 0 if columns <= k else [kind.columns for kind in circuit.sectors.kinds].index(columns)
        blocks = []
        for _ in region.get("partitions", [None]):
            blocks.append(circuit.weights.logits[kind][used[kind]].detach().view(k, -1)[:, :columns])
            used[kind] += 1
        weights = torch.softmax(torch.cat(blocks, 1), 1).tolist()
        edges = list(itertools.product(range(len(blocks)), range(columns)))
        for output in range(k if index in children else 1):
            sums[index, output] = dict(zip(edges, weights[output]))
    return sums


def explanations(circuit, sums, row, softening):
    """Every choice of one edge for each sum on the way down that can make the row: its probability and its edges."""
    graph = json.loads(circuit.structure.to_json())["regions"]

    def density(variable, member):
        if math.isnan(row[variable]):
            return 1.0
        found = densities(circuit, variable, row[variable])[member]
        family = circuit.leaves.families[variable]
        if isinstance(family, Categorical):
            return (1 - softening) * found + softening / family.categories
        return found

    def ways(index, output):
        for (part, column), weight in sums[index, output].items():
            edge = ((index, output), (part, column))
            if "variables" in graph[index]:
                variables = graph[index]["variables"]
                chances = [density(variable, column) for variable in variables]
                yield weight * math.prod(chances), [edge, *((("leaf", variable), column) for variable in variables)]
                continue
            below = [list(ways(child, column)) for child in graph[index]["partitions"][part]]
            for combination in itertools.product(*below):
                chance = weight * math.prod(chance for chance, _ in combination)
                yield chance, [edge, *(found for _, edges in combination for found in edges)]

    for root, weight in sums["mixture"].items():
        for chance, edges in ways(root, 0):
            yield weight * chance, [("mixture", root), *edges]


def expected_uses(circuit, x, softening=0.0):
    """How often each edge of each sum is used in expectation; and by row, each leaf distribution."""
    sums = sums_of(circuit)
    uses = {place: dict.fromkeys(edges, 0.0) for place, edges in sums.items()}
    members = np.zeros((*x.shape, max(family.width for family in circuit.leaves.families)))
    for index, row in enumerate(x.tolist()):
        found = list(explanations(circuit, sums, row, softening))
        total = sum(chance for chance, _ in found)
        for chance, edges in found:
            for place, edge in edges:
                if place[0] == "leaf":
                    members[index, place[1], edge] += chance / total
                else:
                    uses[place][edge] += chance / total
    return uses, members


def moments_of(circuit):
    """The mean and the mean square of every leaf distribution that has parameters, by (variable, member)."""
    found = {}
    for family, own, raw in zip(circuit.leaves.distinct, circuit.leaves.variables, circuit.leaves.raw):
        for place, member in itertools.product(range(len(own)), range(family.width if family.num_parameters else 0)):
            mean, variance = (moment[place, member].item() for moment in family.moments(raw))
            found[own[place].item(), member] = (mean, variance + mean**2)
    return found


def moved(weights, uses, step_size, pseudocount):
    total = sum(uses.values()) + pseudocount
    if total == 0:
        return weights
    target = {edge: (use + pseudocount / len(uses)) / total for edge, use in uses.items()}
    return {edge: (1 - step_size) * weights[edge] + step_size * target[edge] for edge in weights}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("step_size", "pseudocount", "softening"), [(1.0, 0.0, 0.0), (0.3, 2.0, 0.0), (1.0, 0.5, 0.2)])
@pytest.mark.parametrize(
    ("structure", "leaves"),
    [
        ("trees2", [Categorical(2)]),
        ("trees5", MIXED),
        ("shared", [Categorical(3)]),
        ("shared", MIXED),
        ("caterpillar", [Categorical(2)]),
    ],
)
def test_a_step_is_that_of_all_explanations(structure, leaves, step_size, pseudocount, softening, engine):
    circuit = make(structure, "direct", layer_size=2, leaves=families(structure, leaves), engine=engine)
    x = rows_of(circuit, 4)
    before, (uses, members) = sums_of(circuit), expected_uses(circuit, x, softening)
    old = moments_of(circuit)
    em = EM(circuit, step_size, pseudocount)
    em.step(x, Softening(circuit.weights, circuit.sectors, circuit.leaves, softening))
    after = sums_of(circuit)
    for place, weights in before.items():
        assert after[place] == pytest.approx(moved(weights, uses[place], step_size, pseudocount), abs=1e-12)
    found = moments_of(circuit)
    for variable, member in found:
        family, values = circuit.leaves.families[variable], x[:, variable].numpy()
        counts = np.where(np.isnan(values), 0, members[:, variable, member])
        first, second = old[variable, member]
        if counts.sum() > 0:
            target = [(counts * np.nan_to_num(values) ** power).sum() / counts.sum() for power in (1, 2)]
            first = (1 - step_size) * first + step_size * target[0]
            second = (1 - step_size) * second + step_size * target[1]
        assert found[variable, member][0] == pytest.approx(first, abs=1e-9)
        if isinstance(family, Gaussian):
            variance = min(max(second - first**2, family.min_variance), family.max_variance or math.inf)
            assert found[variable, member][1] - first**2 == pytest.approx(variance, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("structure", "leaves"),
    [
        *itertools.product(["trees1", "trees6", "shared", "caterpillar"], LEAVES),
        *(("wide leaves", leaves) for leaves in LEAVES if leaves != "mixed"),
    ],
)
def test_the_likelihood_never_falls(structure, leaves, engine):
    check_that_the_likelihood_never_falls(structure, "direct", leaves, engine=engine)


@pytest.mark.parametrize("structure", ["grid", "line", "trees6", "shared"])
@pytest.mark.parametrize("leaves", LEAVES)
def test_the_likelihood_of_an_einet_never_falls(structure, leaves):
    check_that_the_likelihood_never_falls(structure, "direct EiNet", leaves)


def check_that_the_likelihood_never_falls(structure, weights, leaves, **options):
    circuit = make(structure, weights, leaves=families(structure, LEAVES[leaves]), **options)
    x = rows_of(circuit, 40)
    if structure == "wide leaves" and leaves in ("binary", "categories"):
        x = x[:, :1].expand(-1, 5)
    em = EM(circuit)
    course = [em.step(x).sum().item() for _ in range(20)]
    for before, after in itertools.pairwise(course):
        assert after >= before - 1e-9 * abs(before)
    assert course[-1] > course[0]
    assert circuit.log_prob(x).sum().item() >= course[-1] - 1e-9 * abs(course[-1])
    assert all((parameter < torch.inf).all() for parameter in circuit.parameters())


@pytest.mark.skipif(native.kernel is None, reason="needs the compiled kernel")
@pytest.mark.parametrize("softening", [0.0, 0.1])
@pytest.mark.parametrize("weights_at_once", [2**22, 300, 60])
@pytest.mark.parametrize("leaves", [[Categorical(2), Categorical(6)], MIXED], ids=["codes", "densities"])
def test_engines_agree_also_in_small_parts(leaves, weights_at_once, softening, monkeypatch):
    circuits = []
    for engine in ("native", "layered"):
        circuit = make("trees10", "direct", leaves=families("trees10", leaves), engine=engine)
        if engine == "native":
            circuit.engine = NativeEngine(circuit.sectors, circuit.leaves, weights_at_once=weights_at_once)
        circuits.append(circuit)
        x = rows_of(circuit, 50)
        em = EM(circuit, 0.5, 0.1)
        source = Softening(circuit.weights, circuit.sectors, circuit.leaves, softening)
        for _ in range(3):
            em.step(x, source)
        monkeypatch.setattr(layered, "VALUES_AT_ONCE", 2000)
    for ours, theirs in zip(*(circuit.parameters() for circuit in circuits), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("engine", ENGINES)
def test_values_that_underflow_in_linear_space(engine):
    circuit = make("trees10", "direct", leaves=Gaussian(3), engine=engine).float()
    exact = make("trees10", "direct", leaves=Gaussian(3), engine="layered")
    x = rows_of(circuit, 30) * 5
    for model in (circuit, exact):
        assert EM(model, 0.5).step(x).min() < -1000
    for ours, theirs in zip(circuit.parameters(), exact.parameters(), strict=True):
        torch.testing.assert_close(ours.double(), theirs, rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("engine", ENGINES)
def test_what_nothing_reaches_stays_as_it_is(engine):
    circuit = make("trees3", "direct", leaves=Categorical(3), engine=engine)
    circuit.mixture.data[1] = -torch.inf
    x = rows_of(circuit, 20)
    before = sums_of(circuit)
    EM(circuit).step(x)
    after = sums_of(circuit)
    assert after["mixture"][list(before["mixture"])[1]] == 0
    kept = [place for place in before if before[place] == pytest.approx(after[place], abs=1e-12)]
    assert len(kept) == (len(before) - 1) / 3
    EM(circuit, pseudocount=1.0).step(x)
    for place in kept:
        assert sums_of(circuit)[place] == pytest.approx(dict.fromkeys(after[place], 1 / len(after[place])))


@pytest.mark.parametrize("engine", ENGINES)
def test_weights_of_zero_stay_zero_and_harmless(engine):
    circuit = make("trees6", "direct", engine=engine)
    x = rows_of(circuit, 30)
    x[:, 2] = 1
    em = EM(circuit)
    course = [em.step(x).sum().item() for _ in range(5)]
    zeros = (circuit.weights.logits[0] == -torch.inf).sum()
    assert zeros == 3 * 3
    assert course == sorted(course)
    x[0, 2] = 0
    parameters = [parameter.clone() for parameter in circuit.parameters()]
    assert em.step(x)[0] == -torch.inf
    assert all(torch.equal(*pair) for pair in zip(circuit.parameters(), parameters, strict=True))


def test_unknown_values_say_nothing_about_leaf_distributions():
    circuit = make("trees3", "direct", leaves=Gaussian(3))
    x = rows_of(circuit, 20, missing=0.0)
    x[:, 1] = torch.nan
    raw, logits = circuit.leaves.raw[0].clone(), circuit.weights.logits[0].clone()
    EM(circuit).step(x)
    assert torch.equal(circuit.leaves.raw[0][1], raw[1])
    assert not (circuit.leaves.raw[0][[0, 2]] == raw[[0, 2]]).any()
    assert not torch.equal(circuit.weights.logits[0], logits)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_leaf_parameters_stay_within_their_bounds(dtype):
    narrow, wide, counts = Gaussian(1, min_variance=0.25), BOUNDED, Binomial(1, total=7)
    circuit = SPN(4, 1, replicas=1, leaves=[narrow, wide, counts, counts]).to(dtype)
    x = torch.tensor([[3.0, -100, 0, 7], [3.0, 100, 0, 7]], dtype=dtype)
    em = EM(circuit)
    for _ in range(3):
        em.step(x)
    means, variances = circuit.moments(torch.full((1, 4), torch.nan, dtype=dtype))
    assert means[0].tolist() == pytest.approx([3, 0, 0, 7], abs=1e-6)
    assert variances[0, 0].item() == 0.25
    assert variances[0, 1].item() >= 2.0 - 1e-6
    assert all(parameter.isfinite().all() for parameter in circuit.leaves.parameters())
    x[0, 2:] = 3
    assert circuit.log_prob(x).isfinite().all()


def test_fit_by_em_never_falls_and_reaches_the_truth():
    rows = noisy_copies(2000)
    circuit = SPN(6, 4, replicas=8)
    history = quietly(circuit, rows, optimizer="em", batch_size=len(rows), steps=40, evaluate_every=1)
    assert all(after > before - 1e-5 for before, after in itertools.pairwise(history.train))
    assert mean(circuit, rows) == history.train[-1] == pytest.approx(-ENTROPY, abs=0.05)


@pytest.mark.parametrize("engine", ENGINES)
def test_stochastic_em_learns(engine):
    train, valid = noisy_copies(2000), noisy_copies(1000, seed=1)
    circuit = SPN(6, 4, replicas=4, engine=engine)
    options = {"optimizer": "em", "step_size": 0.2, "pseudocount": 0.1, "batch_size": 200, "patience": 3}
    history = quietly(circuit, train, valid, **options)
    assert history.best_valid == pytest.approx(-ENTROPY, abs=0.05)
    assert mean(circuit, valid) == history.best_valid


def test_an_interrupted_run_goes_on(tmp_path, monkeypatch):
    options = {"optimizer": "em", "step_size": 0.5, "pseudocount": 0.1, "softening": 0.05}
    train, valid = noisy_copies(200), noisy_copies(100, seed=1)
    expected = quietly(SPN(6, 3, replicas=2), train, valid, **options)
    step, calls = EM.step, []

    def interrupted(self, x, weights):
        calls.append(x)
        if len(calls) == 47:
            raise KeyboardInterrupt
        return step(self, x, weights)

    monkeypatch.setattr(EM, "step", interrupted)
    with pytest.raises(KeyboardInterrupt):
        quietly(SPN(6, 3, replicas=2), train, valid, folder=tmp_path, **options)
    found = quietly(SPN(6, 3, replicas=2), train, valid, folder=tmp_path, **options)
    assert found._replace(seconds=0) == expected._replace(seconds=0)
    assert len(calls) == 47 + 20
    assert mean(load(tmp_path / "model.safetensors"), valid) == found.best_valid
    with pytest.raises(ValueError, match=r"found step_size 0\.4 instead of 0\.5"):
        quietly(SPN(6, 3, replicas=2), train, valid, folder=tmp_path, **{**options, "step_size": 0.4})
    with pytest.raises(ValueError, match="expected the arguments of the run"):
        quietly(SPN(6, 3, replicas=2), train, valid, folder=tmp_path, softening=0.05)


def test_rows_that_become_impossible_stop_the_run_with_advice():
    train = noisy_copies(30)
    train[:, 0] = 0
    valid = noisy_copies(30)
    with pytest.raises(FloatingPointError, match=r"-inf at step 20: .*pseudocount"):
        quietly(SPN(6, 2, replicas=1), train, valid, optimizer="em")
    assert quietly(SPN(6, 2, replicas=1), train, valid, optimizer="em", pseudocount=0.1).best_valid > -10


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"optimizer": "sgd"}, "optimizer 'adam' or 'em', found 'sgd'"),
        ({"optimizer": "em", "weight_decay": 0.1}, r"no weight_decay with optimizer 'em', found 0\.1"),
        ({"optimizer": "em", "dropout": 0.1}, "no dropout with optimizer 'em'"),
        ({"optimizer": "em", "learning_rate": 0.1}, "no learning_rate with optimizer 'em'"),
        ({"step_size": 0.5}, r"no step_size with optimizer 'adam', found 0\.5"),
        ({"pseudocount": 0.5}, "no pseudocount with optimizer 'adam'"),
        ({"optimizer": "em", "step_size": 0.0}, r"step_size > 0 and <= 1, found 0\.0"),
        ({"optimizer": "em", "step_size": 1.5}, r"step_size > 0 and <= 1, found 1\.5"),
        ({"optimizer": "em", "pseudocount": -1.0}, r"pseudocount to be a number >= 0, found -1\.0"),
    ],
)
def test_settings_are_checked(options, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        quietly(SPN(6, 2, replicas=1), noisy_copies(5), folder=tmp_path / "run", **options)
    assert not (tmp_path / "run").exists()


def test_weights_must_be_direct():
    with pytest.raises(ValueError, match="DirectWeights for EM, found HyperWeights"):
        EM(HyperSPN(4, replicas=1))
    for options in ({"step_size": math.nan}, {"pseudocount": math.inf}, {"pseudocount": -0.1}):
        with pytest.raises(ValueError, match="expected a"):
            EM(SPN(4, replicas=1), **options)
