import copy
import itertools
import pickle

from functools import partial

import numpy as np
import pytest

from scipy.integrate import trapezoid
from scipy.special import logsumexp
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import check_classifiers_train, check_regressors_train, parametrize_with_checks

import hyperspn

from hyperspn import (
    HyperSPNClassifier,
    HyperSPNDensity,
    HyperSPNImputer,
    HyperSPNOutlierDetector,
    HyperSPNRegressor,
)
from hyperspn.learning.recipes import QUALITIES

pytestmark = pytest.mark.usefixtures("one_thread")

COLORS, SIZES = ("blue", "green", "red"), (1, 2)
Small = partial(HyperSPNDensity, replicas=3, layer_size=3, steps=60, random_state=0)


Tiny = partial(dict, recipe="chow-liu", steps=4, options={"layer_size": 2, "replicas": 2}, random_state=0)
ESTIMATORS = [
    HyperSPNDensity(recipe="chow-liu", layer_size=2, replicas=2, steps=4, random_state=0),
    HyperSPNImputer(**Tiny()),
    HyperSPNOutlierDetector(**Tiny()),
    HyperSPNClassifier(**Tiny()),
    HyperSPNRegressor(**Tiny()),
]
RANDOM_ROWS = (
    "rows are dealt at random to training, validation and batches, where a row twice is not a row of twice the weight"
)
FAILURES = {"check_sample_weight_equivalence_on_dense_data": RANDOM_ROWS}
LEARNING = {"check_classifiers_train": "four steps are too few to learn", "check_regressors_train": "as above"}


def expected_failures(estimator):
    has_output = hasattr(estimator, "predict") or hasattr(estimator, "decision_function")
    is_supervised = isinstance(estimator, HyperSPNClassifier | HyperSPNRegressor)
    return (FAILURES if has_output else {}) | (LEARNING if is_supervised else {})


checks = parametrize_with_checks(ESTIMATORS, expected_failed_checks=expected_failures)


@pytest.mark.parametrize(checks.args[0], list(checks.args[1]), ids=checks.kwargs["ids"])  # scikit-learn 1.6 iterates
def test_scikit_learn(estimator, check):
    check(estimator)


@pytest.mark.parametrize(
    ("check", "estimator"),
    [(check_classifiers_train, HyperSPNClassifier), (check_regressors_train, HyperSPNRegressor)],
)
def test_scikit_learn_finds_that_enough_steps_teach(check, estimator):
    check(estimator.__name__, estimator(**Tiny(steps=200, options={"layer_size": 4, "replicas": 2})))


def rows(count=200, seed=0):
    """Color, size and weight that depend on each other, with holes: heavy and red things are large."""
    generator = np.random.default_rng(seed)
    size = generator.integers(1, 3, count)
    color = np.where(generator.random(count) < 0.9, np.where(size == 2, "red", "blue"), "green")
    weight = generator.normal(100 * size, 20.0).round(1)
    X = np.stack([color.astype(object), size, weight], axis=1).astype(object)
    X[generator.random(X.shape) < 0.1] = None
    return X


@pytest.fixture(scope="module")
def density(one_thread):
    return Small(target=0).fit(rows())


def filled_in(row, column, values):
    """The row once for each value of one column."""
    X = np.array([row] * len(values), dtype=object)
    X[:, column] = values
    return X


def grid(density, row):
    """All weights with one decimal that matter, and the densities of the row with each."""
    weights = np.arange(-1000, 15000) / 10
    return weights, np.exp(density.score_samples(filled_in(row, 2, weights)))


def test_densities_sum_to_one_in_the_units_of_the_table(density):
    assert [column.kind for column in density.schema_.columns] == ["categorical", "categorical", "numeric"]
    integrals = []
    for color, size in itertools.product(COLORS, SIZES):
        weights, densities = grid(density, [color, size, None])
        integrals.append(trapezoid(densities, weights))
        assert np.log(integrals[-1]) == pytest.approx(density.score_samples([[color, size, None]])[0], abs=1e-4)
    assert sum(integrals) == pytest.approx(1, abs=1e-4)


def test_missing_values_are_summed_out(density):
    for row in ([None, 2, 150.0], ["red", None, 150.0], [None, None, None]):
        column = row.index(None)
        every = filled_in(row, column, COLORS if column == 0 else SIZES)
        assert density.score_samples([row])[0] == pytest.approx(logsumexp(density.score_samples(every)), abs=1e-9)


def test_score_is_the_mean(density):
    X = rows(50, seed=1)
    assert density.score(X) == pytest.approx(np.mean([density.score_samples(X[i : i + 1])[0] for i in range(50)]))
    assert isinstance(density.score(X), float)


def test_learning(density):
    X = rows(100, seed=1)
    alone = [density.score(np.where(np.arange(3) == i, X, None)) for i in range(3)]
    assert density.score(X) > sum(alone) + 0.3
    known = X[[color is not None for color in X[:, 0]]]
    assert (density.predict(known) == known[:, 0]).mean() > 0.8


def test_probabilities_of_the_target(density):
    X = rows(20, seed=1)
    joint = np.exp([density.score_samples(filled_in(row, 0, COLORS)) for row in X])  # (rows, classes)
    np.testing.assert_allclose(density.predict_proba(X), joint / joint.sum(1, keepdims=True), atol=1e-9)
    np.testing.assert_array_equal(density.predict(X), np.array(COLORS)[joint.argmax(1)])
    np.testing.assert_array_equal(density.classes_, COLORS)


@pytest.mark.parametrize("value", [None, np.nan, "blue", "pink", 3])
def test_the_target_is_not_looked_at(density, value):
    X = rows(20, seed=1)
    other = X.copy()
    other[:, 0] = value
    np.testing.assert_array_equal(density.predict_proba(other), density.predict_proba(X))


def test_without_a_target_nothing_is_predicted():
    density = Small(steps=4).fit(rows())
    assert not any(hasattr(density, name) for name in ("predict", "predict_proba", "classes_"))
    density.set_params(target=-2)
    np.testing.assert_array_equal(density.classes_, SIZES)
    assert density.predict_proba(rows(4)).shape == (4, 2)


def test_samples_have_the_frequencies_of_their_probabilities(density):
    sample = density.sample(20_000, random_state=1)
    assert sample.shape == (20_000, 3)
    for color, size in itertools.product(COLORS, SIZES):
        drawn = (sample[:, 0] == color) & (sample[:, 1] == size)
        assert drawn.mean() == pytest.approx(np.exp(density.score_samples([[color, size, None]])[0]), abs=0.012)
    weights, densities = grid(density, [None, None, None])
    mean = trapezoid(densities * weights, weights)
    spread = trapezoid(densities * (weights - mean) ** 2, weights) ** 0.5
    assert sample[:, 2].mean() == pytest.approx(mean, abs=4 * spread / 20_000**0.5)
    assert sample[:, 2].astype(float).std() == pytest.approx(spread, rel=0.05)


def test_imputation_is_the_best_guess(density):
    filled = density.impute([["red", None, 190.5], [None, 1, None], ["blue", 2, 3.25]])
    sizes = density.score_samples(filled_in(["red", None, 190.5], 1, SIZES))
    assert filled[0].tolist() == ["red", SIZES[sizes.argmax()], 190.5]
    weights, densities = grid(density, [None, 1, None])
    assert filled[1, 2] == pytest.approx(trapezoid(densities * weights, weights) / trapezoid(densities, weights), 1e-3)
    assert filled[2].tolist() == ["blue", 2, 3.25]


@pytest.mark.parametrize("random_state", [0, 1])
def test_random_states(random_state):
    X = rows(60)
    first, second = (Small(steps=10).set_params(random_state=random_state).fit(X) for _ in range(2))
    np.testing.assert_array_equal(first.score_samples(X), second.score_samples(X))
    np.testing.assert_array_equal(first.sample(5), second.sample(5))
    np.testing.assert_array_equal(first.sample(5, random_state=3), second.sample(5, random_state=3))
    assert (first.sample(5) != first.sample(5, random_state=3)).any()
    other = Small(steps=10, random_state=np.random.RandomState(2)).fit(X)
    assert other.score(X) != first.score(X)
    assert (other.sample(5) != other.sample(5)).any()


@pytest.mark.parametrize("copied", [lambda it: pickle.loads(pickle.dumps(it)), copy.deepcopy])
def test_copies(density, copied):
    X = rows(20, seed=1)
    again = copied(density)
    np.testing.assert_array_equal(again.score_samples(X), density.score_samples(X))
    np.testing.assert_array_equal(again.sample(5), density.sample(5))
    with pytest.raises(NotFittedError):
        clone(density).score(X)


def test_searching_for_the_best_model():
    X = rows(60)
    search = GridSearchCV(Small(steps=4), {"layer_size": np.array([1, 4]), "model": ["spn", "hyperspn"]}, cv=2).fit(X)
    scores = [cross_val_score(Small(steps=4, **p), X, cv=2).mean() for p in search.cv_results_["params"]]
    np.testing.assert_allclose(search.cv_results_["mean_test_score"], scores)
    assert search.score(X) == search.best_estimator_.score(X)
    assert (cross_val_score(Small(target=1), X, X[:, 1] == 2, cv=2, scoring=accuracy) > 0.6).all()


def accuracy(estimator, X, y):
    return ((estimator.predict(X) == 2) == y).mean()


def test_in_a_pipeline():
    X = np.random.default_rng(0).lognormal(size=(60, 2))
    pipeline = make_pipeline(FunctionTransformer(np.log), Small(steps=10)).fit(X)
    expected = Small(steps=10).fit(np.log(X))
    np.testing.assert_array_equal(pipeline.score_samples(X), expected.score_samples(np.log(X)))
    assert pipeline.score(X) == expected.score(np.log(X))
    columns = make_column_transformer((FunctionTransformer(np.log), [0]), remainder="passthrough")
    assert make_pipeline(columns, Small(steps=4)).fit(X).score_samples(X).shape == (60,)


@pytest.mark.parametrize(
    "X",
    [
        np.ones((1, 3)),
        np.full((5, 1), 2.5),
        np.array([[0.5], [1.5]]),
        np.array([[1, 0], [0, 1], [1, 1]], bool),
        np.array([[1.5, 1], [2.5, 1], [np.nan, 1]], np.float32),
        np.array([["a", "1"], ["b", "nan"], ["", "2"]]),
        [["a", 1], [None, 2], ["b", float("nan")]],
    ],
)
@pytest.mark.parametrize("validation_fraction", [0, 0.1])
def test_small_tables(X, validation_fraction):
    density = Small(steps=4, validation_fraction=validation_fraction).fit(X)
    assert np.isfinite(density.score_samples(X)).all()
    assert density.history_.stopped_early is False
    assert bool(density.history_.valid) == (validation_fraction > 0 and len(X) > 1)
    assert np.isfinite(density.score(density.sample(20)))
    full = density.impute(X)
    assert full.dtype == (object if "a" in full else np.float64)
    assert not {"", "nan", "None"} & set(full.astype(str).flat)


def test_strings_that_look_like_numbers_are_categories():
    X = np.array([["0", 1.5], ["1", 2.5], ["0", 3.5]] * 3, object)
    density = Small(steps=4, target=0).fit(X)
    assert set(density.predict(X)) <= {"0", "1"}
    assert set(density.sample(50)[:, 0]) == {"0", "1"}


def test_given_categories():
    X = rows()
    dense = Small(steps=4, categories={0: [*COLORS, "pink"], 1: np.arange(5), 2: []}, target=0).fit(X)
    listed = Small(steps=4, categories=[["pink", *COLORS], range(5), "auto"], target=0).fit(X)
    assert dense.schema_ == listed.schema_
    np.testing.assert_array_equal(dense.classes_, ["blue", "green", "pink", "red"])
    every = [[color, size, None] for color in dense.classes_ for size in range(5)]
    assert logsumexp(dense.score_samples(every)) == pytest.approx(0, abs=1e-9)
    continuous = Small(steps=4, categories={1: []}).fit(X)
    assert continuous.schema_.columns[1].is_numeric
    assert np.isfinite(continuous.score_samples([[None, 7.5, None]])).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"model": "einet"}, "expected model 'hyperspn' or 'spn', found 'einet'"),
        ({"recipe": "chow-lu"}, "expected recipe auto, .* found 'chow-lu'; did you mean chow-liu"),
        ({"layer_size": 2.5}, "expected layer_size to be a whole number >= 1, found 2.5"),
        ({"hidden": (20, 0)}, "expected a width in hidden to be a whole number >= 1, found 0"),
        ({"steps": 0}, "expected steps to be a whole number >= 1, found 0"),
        ({"validation_fraction": 1.0}, "expected validation_fraction >= 0 and < 1, found 1.0"),
        ({"target": 3}, "expected the name or position of one of 3 columns, found 3"),
        ({"target": 0.0}, "expected the name or position of one of 3 columns, found 0.0"),
        ({"target": "color"}, "expected the name of a column, found 'color'"),
        ({"target": 2}, "expected a target with categories, found the numeric column 'column 2'"),
        ({"categories": "automatic"}, "expected categories 'auto', a dict or a list of 3, found 'automatic'"),
        ({"categories": [["red"]]}, "expected categories 'auto', a dict or a list of 3, found"),
        ({"categories": {0: "red"}}, "expected 'auto' or a list of categories for column 'column 0', found 'red'"),
        ({"categories": {"color": ["red"]}}, "expected the name of a column, found 'color'"),
        ({"categories": {0: []}}, "expected numbers in column 'column 0', found "),
        ({"categories": {0: ["red", 1]}}, "expected strings or numbers in ascending order"),
    ],
)
def test_bad_arguments(options, message):
    with pytest.raises(ValueError, match=message):
        Small(**options).fit(rows())


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (np.zeros((0, 2)), r"0 sample\(s\)"),
        (np.full((3, 1), np.nan), "there is no column to model: 'column 0' has only missing values"),
        (np.array([[1.5], [np.inf]]), "expected finite numbers in column 'column 0', found an infinite one in row 2"),
        (np.array([[1.5, "a"], [np.inf, "a"]], object), "expected finite numbers in column 'column 0'"),
        (np.array([[f"id{i}"] for i in range(30)]), "'column 0' has 30 different strings in 30 rows, like 'id0'"),
    ],
)
def test_bad_tables(X, message):
    with pytest.raises(ValueError, match=message):
        Small().fit(X)


@pytest.mark.parametrize(("column", "value"), [(0, "pink"), (1, 2.5), (2, "heavy")])
def test_unseen_values(density, column, value):
    """They count as missing; in scores, as one value among all rows."""
    row, other = ["red", 1, 90.5], ["red", 1, 90.5]
    row[column], other[column] = value, None
    count = density.model_.num_rows
    assert density.score_samples([row])[0] == pytest.approx(density.score_samples([other])[0] - np.log(count + 1))
    np.testing.assert_array_equal(density.predict_proba([row]), density.predict_proba([other]))
    assert density.impute([row])[0].tolist() == row


def test_impossible_values_count_as_missing(density):
    for weight in (-1e9, 1e9):
        np.testing.assert_array_equal(
            density.predict_proba([["red", 1, weight]]), density.predict_proba([[None, 1, None]])
        )
        assert density.impute([[None, 1, weight]])[0, 2] == weight


@pytest.mark.parametrize("n_samples", [0, -1, 2.5])
def test_bad_numbers_of_samples(density, n_samples):
    with pytest.raises(ValueError, match="expected n_samples to be a whole number >= 1, found"):
        density.sample(n_samples)


def frame(pandas):
    X = pandas.DataFrame(rows(), columns=["color", "size", "weight"], index=np.arange(200) * 2)
    return X.assign(
        color=X["color"].astype("string"),
        size=X["size"].astype("Int64"),
        weight=X["weight"].astype("float32"),
        sold=pandas.array([True, False, None, True] * 50, dtype="boolean"),
        shop=pandas.Categorical(["a", "b", None, "b"] * 50, categories=["c", "b", "a"]),
        year=np.arange(200) % 30 + 1990,
    )


def test_the_package_has_no_other_attributes():
    assert hyperspn.HyperSPNDensity is HyperSPNDensity
    with pytest.raises(AttributeError, match="module 'hyperspn' has no attribute 'Density'"):
        hyperspn.Density  # noqa: B018


def test_frames():
    pandas = pytest.importorskip("pandas")
    X = frame(pandas)
    density = Small(target="shop").fit(X)
    kinds = ["categorical", "categorical", "numeric", "categorical", "categorical", "categorical"]
    assert [column.kind for column in density.schema_.columns] == kinds
    np.testing.assert_array_equal(density.feature_names_in_, X.columns)
    np.testing.assert_array_equal(density.classes_, ["a", "b", "c"])
    joint = [density.score_samples(X.assign(shop=shop)) for shop in density.classes_]
    np.testing.assert_allclose(logsumexp(joint, axis=0), density.score_samples(X.assign(shop=None)), atol=1e-9)
    np.testing.assert_allclose(np.log(density.predict_proba(X).T), joint - logsumexp(joint, axis=0), atol=1e-9)

    full = density.impute(X)
    assert not full.isna().any(axis=None)
    pandas.testing.assert_frame_equal(full.where(X.notna()), X)
    sample = density.sample(20)
    pandas.testing.assert_series_equal(sample.dtypes, X.dtypes)
    assert density.score(sample) > -20
    unknown = density.impute(pandas.DataFrame({name: [np.nan] for name in X.columns}))
    assert unknown["color"].isin(COLORS).all()
    assert unknown["year"].between(1990, 2019).all()
    assert density.score(X.assign(color="pink")) < density.score(X.assign(color=None))
    np.testing.assert_array_equal(density.score_samples(X[X.columns[::-1]]), density.score_samples(X))
    with pytest.warns(UserWarning, match="there is no column 'color': what is absent counts as missing"):
        absent = density.score_samples(X.drop(columns="color"))
    np.testing.assert_array_equal(absent, density.score_samples(X.assign(color=None)))
    with pytest.raises(ValueError, match="Feature names unseen at fit time"):
        density.score(X.assign(hue="red"))


def test_frames_and_their_arrays_are_the_same():
    X = frame(pytest.importorskip("pandas")).drop(columns="shop").astype({"weight": float})
    by_frame, by_array = Small(steps=4).fit(X), Small(steps=4).fit(X.to_numpy())
    np.testing.assert_array_equal(by_frame.score_samples(X), by_array.score_samples(X.to_numpy()))
    np.testing.assert_array_equal(by_frame.sample(5).to_numpy(), by_array.sample(5))


def test_the_recipe_suits_the_table():
    X = rows()
    for recipe, weights in (("random", "HyperWeights"), ("factored", "FactoredWeights")):
        assert type(Small(recipe=recipe).fit(X).circuit_.weights).__name__ == weights
    (name,) = QUALITIES["good"].small
    np.testing.assert_array_equal(Small().fit(X).score_samples(X), Small(recipe=name).fit(X).score_samples(X))
    unseen = Small(validation_fraction=0, steps=4)
    expected = Small(validation_fraction=0, steps=4, recipe="learned").fit(X)
    np.testing.assert_array_equal(unseen.fit(X).score_samples(X), expected.score_samples(X))


def test_the_old_name_of_recipes():
    X = rows(60)
    with pytest.warns(FutureWarning, match="structure is now recipe"):
        old = Small(steps=4, structure="chow-liu").fit(X)
    np.testing.assert_array_equal(old.score_samples(X), Small(steps=4, recipe="chow-liu").fit(X).score_samples(X))
