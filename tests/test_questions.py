"""Surprisal, influence, similarity and explanations: against sums of probabilities, and on rows that are strange."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

from hyperspn import fit_table
from hyperspn.asking.influence import parts_of

ROWS = 600
COLORS, SIZES, GRADES = ("blue", "green", "red"), (1, 2, 4), ("a", "b")


def goods(seed=0):
    """Colors tell sizes, both tell weights; many weights are 0."""
    generator = np.random.default_rng(seed)
    color = generator.choice(COLORS, ROWS, p=[0.5, 0.3, 0.2])
    size = np.where(generator.random(ROWS) < 0.9, np.select([color == "blue", color == "green"], [1, 2], 4), 2)
    weight = np.where(generator.random(ROWS) < 0.3, 0, (30 * size + generator.normal(0, 8, ROWS)).round()).astype(int)
    depth = size / 3 + generator.normal(0, 0.1, ROWS)
    grade = generator.choice(GRADES, ROWS)
    return pd.DataFrame({"color": color, "size": size, "weight": weight, "depth": depth, "grade": grade})


OPTIONS = {"recipe": "factored", "layer_size": 4, "replicas": 2, "steps": 150, "progress": False}


@pytest.fixture(scope="module")
def model():
    return fit_table(goods(), **OPTIONS)


@pytest.fixture(scope="module")
def words():
    """A model without continuous columns, which knows holes as values."""
    frame = goods().drop(columns="depth")
    frame.loc[frame["color"] == "red", "weight"] = np.nan
    frame.loc[::7, "grade"] = None
    return fit_table(frame, missing_as_data=True, **OPTIONS)


def bits(p):
    return -np.log2(p)


def probabilities(model, known, name, values):
    """P(known, value) of each of some values of a column, (values,): of recorded ones, whose cells are 1 wide."""
    frame = pd.DataFrame([known] * len(values)).reindex(columns=model.schema.names).assign(**{name: list(values)})
    return np.exp(model.log_likelihood(frame))


def test_surprisal_is_minus_log_probability(model):
    frame = goods(1).head(5).assign(depth=None)
    frame.loc[2, "color"] = None
    answer = model.surprisal(frame)
    for i, row in enumerate(frame.to_dict("records")):
        known = {name: value for name, value in row.items() if value is not None}
        assert answer.rows[i] == pytest.approx(bits(model.probability(known)), rel=1e-9)
        for v, name in enumerate(frame):
            rest = {other: value for other, value in known.items() if other != name}
            expected = bits(model.probability({name: row[name]}, rest)) if name in known else 0.0
            assert answer.cells[i, v] == pytest.approx(expected, rel=1e-9)


def test_a_hole_is_a_value_where_missing_is_data(words):
    frame = pd.DataFrame({"color": ["red", "blue"], "size": [4, 1], "weight": [np.nan, np.nan], "grade": [None, "a"]})
    rows = ["color=red, size=4, weight=missing, grade=missing", "color=blue, size=1, weight=missing, grade=a"]
    answer = words.surprisal(frame)
    for i, row in enumerate(rows):
        assert answer.rows[i] == pytest.approx(bits(words.probability(row)), rel=1e-9)
        rest = row.replace("weight=missing, ", "")
        assert answer.cells[i, 2] == pytest.approx(bits(words.probability("weight=missing", rest)), rel=1e-9)
    assert answer.cells[1, 2] > answer.cells[0, 2] + 2


def test_rarity_is_the_probability_of_all_that_is_no_more_probable(model):
    frame = goods(1).head(6)
    answer = model.surprisal(frame)
    for i, row in enumerate(frame.to_dict("records")):
        for v, values in ((0, COLORS), (2, range(3000))):
            p = probabilities(model, row, frame.columns[v], values)
            own = p[list(values).index(row[frame.columns[v]])]
            assert answer.rarity[i, v] == pytest.approx(
                bits(p[p <= own * (1 + 1e-9)].sum() / p.sum()), rel=1e-6, abs=1e-9
            )


def quadrature(model, low=-2.0, high=5.0):
    """Numbers of the column "depth" and their weights, exact where densities are smooth: between the knots of its scale."""
    knots = np.array(model.schema.columns[3].scale.knots)
    breaks = np.unique([*np.linspace(low, high, 30), *[0.0] * (low < 0), *knots[(low < knots) & (knots < high)]])
    nodes, weights = np.polynomial.legendre.leggauss(8)
    half = np.diff(breaks)[:, None] / 2
    return (breaks[:-1, None] + half * (1 + nodes)).ravel(), (half * weights).ravel()


def test_rarity_of_continuous_numbers(model):
    """The mass of all where the density is lower, by quadrature."""
    frame, (grid, weights) = goods(1).head(4), quadrature(model)
    answer = model.surprisal(frame)
    for i, row in enumerate(frame.to_dict("records")):
        density, own = (probabilities(model, row, "depth", values) for values in (grid, [row["depth"]]))
        p = density * weights
        assert 2 ** -answer.rarity[i, 3] == pytest.approx(p[density <= own].sum() / p.sum(), abs=5e-3)


def test_units_do_not_matter(model):
    frame = goods(1).head(20)
    thousand = fit_table(goods().assign(depth=goods()["depth"] * 1000), **OPTIONS)
    answer, other = model.surprisal(frame), thousand.surprisal(frame.assign(depth=frame["depth"] * 1000))
    np.testing.assert_allclose(answer.cells[:, 3], other.cells[:, 3], atol=0.05)
    np.testing.assert_allclose(answer.rows, other.rows, atol=0.1)


def test_values_never_seen_are_named(model):
    frame = goods(1).head(3).assign(color=["purple", "red", "red"], size=[1, 3, 1])
    notes = []
    answer, without = model.surprisal(frame, notes), model.surprisal(frame.assign(color=None))
    new = bits(1 / (model.num_rows + 1))
    assert answer.cells[0, 0] == answer.rarity[0, 0] == pytest.approx(new)
    assert answer.cells[1, 1] == pytest.approx(new)
    assert answer.rows[0] == pytest.approx(new + without.rows[0])
    np.testing.assert_allclose(answer.cells[0, 1:], without.cells[0, 1:])
    assert "column 'color': 1 value never seen before, like 'purple'" in notes
    assert "column 'size': 1 value never seen before, like 3" in notes


def test_what_is_outside_the_bounds_is_infinitely_strange(model):
    frame = goods(1).head(2)
    frame.loc[0, "weight"] = -5
    answer, rest = model.surprisal(frame), model.surprisal(frame.assign(weight=None))
    assert answer.rows[0] == answer.cells[0, 2] == np.inf
    np.testing.assert_allclose(answer.cells[0, [0, 1, 3, 4]], rest.cells[0, [0, 1, 3, 4]])


def test_pooled_values_count_by_their_share():
    generator = np.random.default_rng(0)
    names = np.where(generator.random(3000) < 0.7, "often", [f"name{i}" for i in generator.integers(0, 400, 3000)])
    frame = pd.DataFrame({"name": names, "side": generator.choice(["left", "right"], 3000)})
    model = fit_table(frame, **(OPTIONS | {"steps": 20}))
    column = model.schema.columns[0]
    rare = column.pooled[0]
    answer = model.surprisal(pd.DataFrame({"name": [rare], "side": ["left"]}))
    assert answer.cells[0, 0] == pytest.approx(bits(model.probability({"name": rare}, "side=left")))


def test_anomalies_tell_the_strange_cell(model):
    frame = goods(1).head(200)
    frame.loc[17, ["color", "size", "weight", "depth"]] = ["blue", 1, 31, 1.6]
    frame.loc[60, "weight"] = 900
    frame.loc[90, "color"] = "purple"
    strange = model.anomalies(frame, top=3)
    assert {row.row for row in strange} == {17, 60, 90}
    first = {row.row: row.cells[0] for row in strange}
    assert [first[i].column for i in (17, 60, 90)] == ["depth", "weight", "color"]
    assert (first[90].value, first[90].is_new) == ("purple", True)
    assert [row.surprisal for row in strange] == sorted((row.surprisal for row in strange), reverse=True)
    low, high = map(float, first[17].expected.split(" to "))
    assert 0.0 < low < 0.33 < high < 0.7
    assert strange[0].to_dict()["cells"][0].keys() >= {"column", "value", "surprisal", "rarity", "expected"}
    whole = model.surprisal(frame)
    assert [row.surprisal for row in strange] == pytest.approx(sorted(whole.rows, reverse=True)[:3])


def test_frames_of_other_kinds(model):
    frame = goods(1).head(3)
    np.testing.assert_allclose(model.surprisal(pl.from_pandas(frame)).cells, model.surprisal(frame).cells)
    assert [part.shape for part in model.surprisal(frame.head(0))] == [(0,), (0, 5), (0, 5)]


def mutual_information(joint):
    joint = np.asarray(joint)
    product_of = joint.sum(1, keepdims=True) * joint.sum(0)
    return float((joint[joint > 0] * np.log2(joint[joint > 0] / product_of[joint > 0])).sum())


@pytest.mark.parametrize("given", ["", "weight>40", "size=1|2, grade=a", "color!=red"])
def test_influence_is_mutual_information(model, given):
    answer = model.influence("color", given)
    joint = [[model.probability({"color": c, "size": s}, given) for s in SIZES] for c in COLORS]
    assert answer.bits["size"] == pytest.approx(mutual_information(joint), abs=1e-9)
    p = np.array([model.probability({"color": c}, given) for c in COLORS])
    assert answer.entropy == pytest.approx(-(p[p > 0] * np.log2(p[p > 0])).sum())
    assert list(answer.bits.values()) == sorted(answer.bits.values(), reverse=True)
    assert answer.next not in given


def test_influence_of_a_number_by_counting(model):
    """All weights that the model can draw, as the parts of the column have them."""
    weights = np.arange(5000)
    joint = np.stack([probabilities(model, {"color": color, "size": 2}, "weight", weights) for color in COLORS])
    edges = [part.event for part in parts_of(model.schema.columns[2])]
    members = [((low[:, None] <= weights) & (weights < high[:, None])).any(0) for low, high in (e.T for e in edges)]
    assert (np.sum(members, 0) == 1).all()
    expected = mutual_information(joint @ np.array(members).T / joint.sum())
    assert model.influence("color", "size=2").bits["weight"] == pytest.approx(expected, rel=1e-6)


def test_the_parts_of_a_column_are_disjoint_and_all_of_it(model, words):
    for each, name in ((model, "weight"), (model, "depth"), (words, "weight")):
        column = each.schema.columns[each.schema.index(name)]
        intervals = np.concatenate([part.event for part in parts_of(column)])
        finite = intervals[np.isfinite(intervals[:, 0]) | np.isneginf(intervals[:, 0])]
        finite = finite[finite[:, 0].argsort()]
        assert (finite[0, 0], finite[-1, 1]) == (-np.inf, np.inf)
        assert (finite[1:, 0] == finite[:-1, 1]).all()
        assert (intervals[:, 0] == np.inf).sum() == column.missing_as_data


def test_influence_of_numbers_and_of_holes(model, words):
    assert model.influence("weight").bits["color"] == pytest.approx(model.influence("color").bits["weight"], abs=1e-9)
    assert model.influence("depth").next == "size"
    p = np.array([words.probability({"color": c}) for c in COLORS])
    missing = np.array([words.probability("weight=missing", {"color": c}) for c in COLORS])
    least = mutual_information(np.stack([p * missing, p * (1 - missing)]))
    assert words.influence("color").bits["weight"] > least > 0.3


def test_what_is_known_has_no_influence(model):
    answer = model.influence("color", "size=4, depth=1.3")
    assert answer.bits["size"] == pytest.approx(0, abs=1e-12)
    assert answer.bits["depth"] == pytest.approx(0, abs=1e-12)
    assert answer.known == ("size", "depth")


def test_similar_rows(model):
    frame = goods(1).head(60)
    frame.loc[3, "weight"] = -7  # impossible, and so unknown
    row = frame.iloc[[0]]
    answer = model.similar(row, frame)
    assert answer.shape == (60,)
    assert ((answer > 0) & (answer <= 1)).all()
    np.testing.assert_allclose(
        model.similar(row.assign(weight=None), frame)[0], model.similar(frame.iloc[[0]], row.assign(weight=None))[0]
    )
    same, other = frame["color"] == "red", frame["color"] == "blue"
    from_red = model.similar("color=red, size=4", frame)
    assert from_red[same].mean() > 1.5 * from_red[other].mean()
    np.testing.assert_allclose(
        model.similar(None, frame.assign(**dict.fromkeys(frame, None))), (model_prior(model) ** 2).sum()
    )


def model_prior(model):
    """P(replica, state) from the weights."""
    circuit = model.circuit
    mixture = circuit.mixture.softmax(0).tolist()
    roots = circuit.structure.roots.tolist()
    return np.array([m * circuit.region_weights(root)[0].numpy() for m, root in zip(mixture, roots, strict=True)])


def test_explanations_add_up(model):
    given = {"size": 4, "weight": (50, None), "grade": "a"}
    answer = model.explain("color=red", given)
    assert (answer.quantity, [step.evidence for step in answer.steps]) == (
        "log-odds",
        ["size=4", "weight=50..", "grade=a"],
    )
    odds = [model.probability("color=red", dict(list(given.items())[:n])) for n in range(4)]
    odds = np.log2(odds) - np.log2(1 - np.array(odds))
    assert answer.start == pytest.approx(odds[0])
    np.testing.assert_allclose([step.answer for step in answer.steps], odds[1:])
    np.testing.assert_allclose([step.added for step in answer.steps], np.diff(odds), atol=1e-12)
    assert answer.answer == answer.steps[-1].answer
    assert model.explain("color", given).of == "color=red"
    mean = model.explain("weight", "size=4, weight=100..")
    assert mean.quantity == "mean"
    assert mean.start == pytest.approx(model.distribution("weight").mean)
    assert mean.answer == pytest.approx(model.distribution("weight", "size=4, weight=100..").mean)


@pytest.mark.parametrize(
    ("given", "known", "inside"),
    [
        ("", {}, lambda w: w >= 0),
        ("weight>=20", {}, lambda w: w >= 20),
        (
            "weight=10..40|90..120, color=blue",
            {"color": "blue"},
            lambda w: ((w >= 10) & (w <= 40)) | ((w >= 90) & (w <= 120)),
        ),
        ("weight=400.., size=1", {"size": 1}, lambda w: w >= 400),
    ],
)
def test_mean_and_deviation_are_exact(model, given, known, inside):
    weights = np.arange(5000)
    p = probabilities(model, known, "weight", weights) * inside(weights)
    mean = p @ weights / p.sum()
    answer = model.distribution("weight", given)
    assert answer.mean == pytest.approx(mean, rel=1e-7)
    assert answer.std == pytest.approx(np.sqrt(p @ (weights - mean) ** 2 / p.sum()), rel=1e-5)


def test_answers_far_from_all_rows_are_as_given(model):
    for name, given, least in (("weight", "weight>3000", 3001), ("depth", "depth>20", 20)):
        answer = model.distribution(name, given)
        assert least <= answer.quantiles[0.05] < answer.quantiles[0.95]
        assert answer.quantiles[0.05] < answer.mean < answer.quantiles[0.95]
        assert (model.sample(5, given)[name] >= least).all()


@pytest.mark.parametrize(("given", "ends"), [("size=1", ()), ("size=1, depth=0.4..0.9", (0.4, 0.9))])
def test_mean_of_continuous_numbers(model, given, ends):
    grid, weights = quadrature(model, *ends)
    p = probabilities(model, {"size": 1}, "depth", grid) * weights
    mean = p @ grid / p.sum()
    answer = model.distribution("depth", given)
    assert answer.mean == pytest.approx(mean, rel=5e-5)
    assert answer.std == pytest.approx(np.sqrt(p @ (grid - mean) ** 2 / p.sum()), rel=1e-4)


def test_swapped_cells_are_found():
    """In cells with the value of another row, the strangeness is where it was put: more often than by chance."""
    frame = goods(2)
    model = fit_table(goods(), **(OPTIONS | {"steps": 300}))
    generator = np.random.default_rng(3)
    swapped = generator.choice(["color", "size", "depth"], ROWS)
    other = frame.iloc[generator.permutation(ROWS)].reset_index(drop=True)
    broken = frame.copy()
    for name in ("color", "size", "depth"):
        broken[name] = np.where(swapped == name, other[name], frame[name])
    changed = np.array([broken.loc[i, name] != frame.loc[i, name] for i, name in enumerate(swapped)])
    rarest = np.array(model.schema.names)[model.surprisal(broken).rarity.argmax(1)]
    assert (rarest == swapped)[changed].mean() > 2 / 5


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda m: m.influence("colr"), "did you mean color"),
        (lambda m: m.influence("depth", "depth=1.5"), "expected a target that is not known"),
        (lambda m: m.influence("color", "weight=-5"), "the evidence is impossible"),
        (lambda m: m.similar(goods().head(2), goods()), "expected one row to compare others with, found 2"),
        (lambda m: m.explain("depth=1.5", "size=1"), "a single value has a density"),
        (lambda m: m.anomalies(goods(), top=0), "expected top to be a whole number >= 1, found 0"),
    ],
)
def test_mistakes(model, ask, message):
    with pytest.raises(ValueError, match=message):
        ask(model)
