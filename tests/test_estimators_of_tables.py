"""Imputer, outlier detector, classifier and regressor, on the frames people have."""

import pickle

from functools import partial

import joblib
import numpy as np
import pytest
import sklearn

from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import make_column_transformer
from sklearn.inspection import permutation_importance
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.tree import DecisionTreeClassifier

from hyperspn import (
    HyperSPNClassifier,
    HyperSPNDensity,
    HyperSPNImputer,
    HyperSPNOutlierDetector,
    HyperSPNRegressor,
    TableModel,
)

pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")
pa = pytest.importorskip("pyarrow")
pytestmark = pytest.mark.usefixtures("one_thread")

Tiny = partial(dict, recipe="chow-liu", steps=150, options={"layer_size": 4, "replicas": 2}, random_state=0)
TYPES = {"size": "category", "weight": "float32", "count": "Int64", "sold": "boolean", "day": "datetime64[us]"}


def frame(rows=400, seed=0, holes=0.1):
    """Sizes, and what depends on them, with holes, in many types."""
    generator = np.random.default_rng(seed)
    large = generator.random(rows) < 0.5
    columns = {
        "size": np.where(large, "large", "small"),
        "weight": generator.normal(np.where(large, 200.0, 100.0), 10).round(1),
        "count": generator.poisson(np.where(large, 9, 2)),
        "sold": generator.random(rows) < np.where(large, 0.9, 0.2),
        "day": np.datetime64("2020-01-01") + np.where(large, 300, 0) + generator.integers(0, 60, rows),
        "name": [f"item {i}" for i in range(rows)],
    }
    table = pd.DataFrame(columns).convert_dtypes().astype(TYPES)
    return table.mask(generator.random(table.shape) < holes).astype(table.dtypes)


@pytest.fixture(scope="module")
def imputer(one_thread):
    return HyperSPNImputer(**Tiny()).fit(frame())


@pytest.fixture(scope="module")
def classifier(one_thread):
    X = frame(holes=0)
    return HyperSPNClassifier(**Tiny()).fit(X.drop(columns="size"), X["size"])


def test_imputed_frames_keep_their_types(imputer):
    X = frame(seed=1)
    full = imputer.transform(X)
    modeled = X.columns.drop("name")
    pd.testing.assert_series_equal(full.dtypes, X.dtypes)
    pd.testing.assert_frame_equal(full.where(X.notna()), X)
    assert not full[modeled].isna().any(axis=None)
    truth = frame(seed=1, holes=0)
    hidden = X["size"].isna()
    assert (full["size"] == truth["size"])[hidden].mean() > 0.9
    far = (full["weight"] - truth["weight"]).abs()[X["weight"].isna()]
    assert far.mean() < 20


def test_other_kinds_of_tables(imputer):
    X = frame(seed=1)
    full = imputer.transform(X)
    arrow = pa.Table.from_pandas(X, preserve_index=False)
    for kind, table in (("polars", pl.from_arrow(arrow)), ("pyarrow", arrow)):
        out = imputer.transform(table)
        assert type(out) is type(table), kind
        assert out.schema == table.schema
        assert (
            pa.table(out.to_arrow() if kind == "polars" else out).column("count").to_pylist() == full["count"].tolist()
        )
    model = HyperSPNImputer(**Tiny(steps=4)).fit(pl.from_arrow(arrow))
    assert isinstance(model.sample(3), pl.DataFrame)
    np.testing.assert_array_equal(model.feature_names_in_, X.columns)


def test_outputs_that_are_asked_for(imputer):
    X = frame(seed=1)
    arrow = pa.Table.from_pandas(X, preserve_index=False)
    wanted = clone(imputer).set_params(add_indicator=True, steps=4).set_output(transform="polars").fit(X)
    names = wanted.get_feature_names_out().tolist()
    assert names == [*X.columns, *(f"missingindicator_{name}" for name in X.columns)]
    out = wanted.transform(X)
    assert isinstance(out, pl.DataFrame)
    assert out.columns == names
    assert out["missingindicator_weight"].to_list() == X["weight"].isna().tolist()
    assert list(wanted.set_output(transform="pandas").transform(arrow).columns) == names
    numbers = np.array([[1.5, np.nan], [2.5, 1.0]] * 20, np.float32)
    filled = HyperSPNImputer(**Tiny(steps=4), add_indicator=True).fit_transform(numbers)
    assert filled.dtype == np.float32
    np.testing.assert_array_equal(filled[:, 2], np.isnan(numbers[:, 1]))


def test_several_imputations(imputer):
    X = frame(seed=1)
    several = clone(imputer).set_params(strategy="sample", n_imputations=3, steps=4).fit(X)
    tables = several.transform(X)
    assert len(tables) == 3
    weights = np.stack([table["weight"] for table in tables])
    hidden = X["weight"].isna().to_numpy()
    assert (weights[:, hidden].std(0) > 0).all()
    assert (weights[:, ~hidden] == weights[0, ~hidden]).all()
    for first, second in zip(tables, several.transform(X), strict=True):
        pd.testing.assert_frame_equal(first, second)
    with pytest.raises(ValueError, match="expected strategy 'sample' for several imputations"):
        HyperSPNImputer(n_imputations=2).fit(X)
    with pytest.raises(ValueError, match="expected strategy best, median, sample, found 'mode'"):
        clone(imputer).set_params(strategy="mode", steps=4).fit_transform(X)


def test_guesses_are_those_of_the_exact_posterior(imputer):
    """The best guess, the median and the bounds of a count, from the probabilities of all its values."""
    X = frame(seed=1).head(30).assign(count=pd.array([None] * 30, "Int64"))
    column = imputer.schema_.columns[imputer.schema_.index("count")]
    values = np.array(column.categories)
    arrow = pa.Table.from_pandas(X, preserve_index=False)
    log_p = np.stack(
        [imputer.model_.log_likelihood(arrow.set_column(2, "count", [[value] * 30])) for value in values.tolist()]
    )
    p = np.exp(log_p - log_p.max(0))
    p /= p.sum(0)
    np.testing.assert_array_equal(imputer.transform(X)["count"], values[p.argmax(0)])
    reached = [values[(p.cumsum(0) >= level - 1e-12).argmax(0)] for level in (0.05, 0.5, 0.95)]
    ends = imputer.intervals(X, coverage=0.9)
    np.testing.assert_array_equal(ends["count.low"], reached[0])
    np.testing.assert_array_equal(ends["count.high"], reached[2])
    median = HyperSPNImputer(strategy="median")._open(imputer.model_)
    np.testing.assert_array_equal(median.transform(X)["count"], reached[1])


def test_intervals(imputer):
    X = frame(seed=1)
    ends = imputer.intervals(X, coverage=0.8)
    hidden = X["weight"].isna()
    assert list(ends.columns) == [f"{name}.{end}" for name in ("weight", "count", "day") for end in ("low", "high")]
    assert (ends["weight.low"].isna() == ~hidden).all()
    assert (ends["weight.low"] < ends["weight.high"])[hidden].all()
    truth = frame(800, seed=2, holes=0)
    ends = imputer.intervals(truth.assign(weight=np.float32("nan")), coverage=0.8)
    covered = (ends["weight.low"] <= truth["weight"]) & (truth["weight"] <= ends["weight.high"])
    assert 0.72 < covered.mean() < 0.88
    array = HyperSPNImputer(**Tiny(steps=4)).fit([["a", 1.5], ["b", 2.5]] * 20).intervals([[None, None], ["a", 1.5]])
    assert array.shape == (2, 2, 2)
    assert np.isnan(array).sum() == 6


def test_outliers():
    X = frame(holes=0).drop(columns="name")
    detector = HyperSPNOutlierDetector(**Tiny(), contamination=0.05).fit(X)
    assert (detector.predict(X) == -1).mean() == pytest.approx(0.05, abs=0.005)
    np.testing.assert_allclose(detector.score_samples(X), detector.model_.log_likelihood(X))
    swapped = X.copy()
    swapped.loc[:49, "weight"] = X["weight"].to_numpy()[X["weight"].rank().astype(int).to_numpy()[:50] - 1][::-1]
    strange = (X["size"] == "large")[:50] != (swapped["weight"] > 150)[:50]
    scores = detector.decision_function(swapped)
    assert scores[:50][strange].mean() < scores[50:].mean()
    cells = detector.explain(swapped)
    assert list(cells.columns) == list(X.columns)
    assert (cells.loc[:49][strange].idxmax(axis=1) == "weight").mean() > 0.5
    rest = detector.model_.log_likelihood(swapped.assign(size=None))
    np.testing.assert_allclose(cells["size"], (rest - detector.model_.log_likelihood(swapped)) / np.log(2), atol=1e-6)
    assert detector.explain(X.assign(size=None))["size"].isna().all()
    assert detector.predict(X.assign(weight=np.float32(1e30)))[0] == -1
    assert np.isfinite(detector.decision_function(X.assign(weight=np.float32(1e30)))).all()
    unseen = detector.score_samples(X.assign(size="huge"))
    assert (unseen < detector.score_samples(X.assign(size=None))).all()
    automatic = HyperSPNOutlierDetector(**Tiny(steps=4)).fit(X)
    low, high = np.percentile(automatic.score_samples(X), [25, 75])
    assert automatic.offset_ == pytest.approx(low - 1.5 * (high - low))


def test_probabilities_of_classes(classifier):
    X = frame(seed=1)
    assert classifier.target_ == "size"
    np.testing.assert_array_equal(classifier.classes_, ["large", "small"])
    p = classifier.predict_proba(X.drop(columns="size"))
    np.testing.assert_array_equal(classifier.predict_proba(X), p)
    joint = np.stack([classifier.model_.log_likelihood(X.assign(size=size)) for size in classifier.classes_], 1)
    np.testing.assert_allclose(np.log(p), joint - np.logaddexp(*joint.T)[:, None], atol=1e-9)
    known = X["size"].notna()
    assert classifier.score(X[known].drop(columns="size"), X["size"][known].astype(str)) > 0.95
    drawn = classifier.sample(50, given="size=large, count>5")
    assert (drawn["count"] > 5).all()
    assert set(drawn["size"]) == {"large"}


def test_classes_of_any_kind():
    X = frame(60)[["weight", "count"]]
    for y in (np.arange(60) % 3 - 1, np.arange(60) % 2 == 0, np.array(["b", "a"] * 30), np.array([1.0, 2.0] * 30)):
        model = HyperSPNClassifier(**Tiny(steps=4)).fit(X, y)
        assert model.predict(X).dtype == y.dtype
        assert set(model.predict(X)) <= set(y)
        np.testing.assert_array_equal(model.classes_, np.unique(y))


def test_numbers():
    X, truth = frame(), frame(500, seed=1, holes=0)
    known = X["weight"].notna()
    y = X["weight"][known].astype(float)
    model = HyperSPNRegressor(**Tiny()).fit(X[known].drop(columns="weight"), y)
    assert model.target_ == "weight"
    features = truth.drop(columns="weight")
    assert model.score(features, truth["weight"].astype(float)) > 0.8
    low, middle, high = model.predict(features, quantiles=[0.05, 0.5, 0.95]).T
    assert 0.85 < ((low <= truth["weight"]) & (truth["weight"] <= high)).mean() < 0.95
    assert (low <= middle).all()
    assert (middle <= high).all()
    mean = model.predict(features.head(5), quantiles=np.arange(0.005, 1, 0.01)).mean(1)
    np.testing.assert_allclose(model.predict(features.head(5)), mean, rtol=0.01)
    with pytest.raises(ValueError, match="expected quantiles between 0 and 1"):
        model.predict(features, quantiles=[50])


def test_predicting_can_count_more():
    """With weight 1 nothing else is learned: targets are predicted at least as well, and rows are less likely."""
    generator = np.random.default_rng(0)
    noise = generator.normal(size=(400, 4)).round(2)
    y = (noise[:, 0] + 0.3 * generator.normal(size=400) > 0).astype(int)
    models = {w: HyperSPNClassifier(**Tiny(steps=100), discriminative_weight=w).fit(noise, y) for w in (0, 1.0)}
    table = pa.table([*noise.T, y], [*(f"column {i}" for i in range(4)), "y"])
    joint = {w: model.model_.log_likelihood(table).mean() for w, model in models.items()}
    loss = {w: model.model_.conditional_log_likelihood(table, "y").mean() for w, model in models.items()}
    assert loss[1.0] > loss[0]
    assert joint[1.0] < joint[0]
    chosen = HyperSPNClassifier(**Tiny(steps=4), discriminative_weight="auto").fit(noise, y)
    assert chosen.discriminative_weight_ in (0, 0.5, 0.9, 0.99)
    for weight in (1.5, -1):
        with pytest.raises(ValueError, match="expected discriminative_weight"):
            HyperSPNClassifier(discriminative_weight=weight).fit(noise, y)


def test_files(classifier, imputer, tmp_path):
    X = frame(seed=1)
    classifier.save(tmp_path / "model.safetensors")
    again = HyperSPNClassifier.load(tmp_path)
    np.testing.assert_array_equal(again.predict_proba(X), classifier.predict_proba(X))
    assert TableModel.load(tmp_path).probability("size=large", given="count>8") > 0.5
    other = HyperSPNClassifier.load(tmp_path / "model.safetensors", target="sold")
    np.testing.assert_array_equal(other.classes_, [False, True])
    assert other.predict(X.drop(columns="sold")).dtype == bool
    weight = HyperSPNRegressor.load(tmp_path, target="weight")
    assert weight.predict(X).shape == (400,)
    density = HyperSPNDensity.load(tmp_path)
    np.testing.assert_allclose(density.score_samples(X), classifier.model_.log_likelihood(X))
    assert HyperSPNOutlierDetector.load(tmp_path).predict(X).mean() > 0.7
    for estimator, target, message in (
        (HyperSPNClassifier, "weight", "expected a target with categories, found the numeric column 'weight'"),
        (HyperSPNRegressor, "size", "expected a target of numbers, found the categories of column 'size'"),
        (HyperSPNClassifier, "colr", "expected the name of a column, found 'colr'"),
    ):
        with pytest.raises(ValueError, match=message):
            estimator.load(tmp_path, target=target)
    imputer.save(tmp_path / "imputer.safetensors")
    with pytest.raises(ValueError, match="expected the name of a column as target, one of size, "):
        HyperSPNClassifier.load(tmp_path / "imputer.safetensors")
    pd.testing.assert_frame_equal(
        HyperSPNImputer.load(tmp_path / "imputer.safetensors").transform(X), imputer.transform(X)
    )


def test_weights_of_rows():
    X, y = np.zeros((200, 1)), np.arange(200) % 2
    X[:, 0] = np.random.default_rng(0).normal(size=200)
    model = HyperSPNClassifier(**Tiny()).fit(X, y, sample_weight=np.where(y == 1, 9.0, 1.0))
    assert model.predict_proba(X)[:, 1].mean() == pytest.approx(0.9, abs=0.05)
    heavy = HyperSPNClassifier(**Tiny(steps=4)).fit(X, y, sample_weight=y)
    assert heavy.model_.num_rows == 90


@pytest.fixture(scope="module")
def things(one_thread):
    """X and y apart."""
    table = frame(120)
    table = table[table["size"].notna()].drop(columns="name")
    return table.drop(columns="size"), table["size"].astype(str)


@pytest.fixture(scope="module")
def small(things):
    return HyperSPNClassifier(**Tiny(steps=30)).fit(*things)


def test_cross_validation_on_threads(things):
    factored = HyperSPNClassifier(**Tiny(steps=30) | {"recipe": "factored"})
    with joblib.parallel_backend("threading"):
        assert cross_val_score(factored, *things, cv=2, n_jobs=2).min() > 0.6


def test_a_search_in_processes(things):
    """A fold may lack a category or a class; nothing becomes NaN, and one process finds the same."""
    X, y = things
    rare = X.assign(color=["red"] * (len(X) - 1) + ["blue"])
    grid = {"recipe": ["random", "chow-liu"], "options": [{"layer_size": 2, "replicas": 2}]}
    searches = [
        GridSearchCV(HyperSPNClassifier(**Tiny(steps=10)), grid, cv=2, n_jobs=jobs, error_score="raise").fit(rare, y)
        for jobs in (1, 2)
    ]
    scores = [search.cv_results_["mean_test_score"] for search in searches]
    assert np.isfinite(scores[0]).all()
    np.testing.assert_allclose(scores[0], scores[1])
    assert searches[0].best_estimator_.predict(rare).shape == (len(X),)


def test_calibration(things):
    X, y = things[0][["weight", "count"]].astype(float), things[1]
    calibrated = CalibratedClassifierCV(HyperSPNClassifier(**Tiny(steps=30)), cv=2).fit(X, y)
    assert (calibrated.predict(X) == y).mean() > 0.8
    np.testing.assert_allclose(calibrated.predict_proba(X).sum(1), 1)


def test_importance_of_columns(small, things):
    X, y = things
    noise = X.assign(noise=np.random.default_rng(0).normal(size=len(X)))
    fitted = clone(small).set_params(steps=150).fit(noise, y)
    importance = permutation_importance(fitted, noise, y, n_repeats=3, random_state=0).importances_mean
    assert importance.shape == (5,)
    assert importance[:4].max() > importance[4] + 0.01


def test_pickles_and_clones(small, things):
    X = things[0]
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(small)).predict_proba(X), small.predict_proba(X))
    again = clone(small)
    assert again.get_params() == small.get_params()
    np.testing.assert_array_equal(again.fit(*things).predict_proba(X), small.predict_proba(X))


OLD = pytest.mark.skipif(sklearn.__version__ < "1.7", reason="scikit-learn 1.6 cannot select columns of polars 2")


@pytest.mark.parametrize("output", ["default", "pandas", pytest.param("polars", marks=OLD)])
def test_in_pipelines(things, output):
    """Filled in, then scaled and coded column by column, then classified by another."""
    X, y = things
    columns = make_column_transformer(
        (StandardScaler(), ["weight", "count"]), (OneHotEncoder(sparse_output=False), ["sold"])
    )
    imputer = HyperSPNImputer(**Tiny(steps=30))
    pipeline = make_pipeline(imputer, columns, DecisionTreeClassifier(max_depth=3)).set_output(transform=output)
    assert pipeline.fit(X, y).score(X, y) > 0.9
    inside = make_column_transformer(
        (HyperSPNImputer(**Tiny(steps=10)), ["weight", "count"]), remainder="drop", verbose_feature_names_out=False
    ).set_output(transform="pandas")
    filled = inside.fit_transform(X)
    assert list(filled.columns) == ["weight", "count"]
    assert not filled.isna().any(axis=None)


def test_a_target_of_a_polars_series(things):
    X, y = things
    frames = pl.from_arrow(pa.Table.from_pandas(X, preserve_index=False)), pl.Series("size", y.tolist())
    model = HyperSPNClassifier(**Tiny(steps=30)).fit(*frames)
    assert model.target_ == "size"
    assert (model.predict(frames[0]) == y.to_numpy()).mean() > 0.8


def test_weights_of_rows_reach_every_estimator():
    """Rows of weight 0 are as if they were not there, up to the dealing of rows."""
    X = frame(200, holes=0)[["size", "weight"]]
    is_large = (X["size"] == "large").to_numpy().astype(float)
    for estimator in (HyperSPNImputer, HyperSPNOutlierDetector, HyperSPNDensity):
        arguments = Tiny(steps=30)
        arguments |= arguments.pop("options") if estimator is HyperSPNDensity else {}
        model = estimator(**arguments).fit(X, sample_weight=is_large)
        assert set(model.sample(50)["size"]) == {"large"}
    regressor = HyperSPNRegressor(**Tiny()).fit(X[["size"]], X["weight"].astype(float), sample_weight=is_large + 1e-3)
    assert regressor.predict(pd.DataFrame({"size": [None]})) > 180
