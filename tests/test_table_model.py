"""TableModel: exact answers about a small table, checked by enumeration, quadrature and counting."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch

from scipy import stats

from hyperspn import TableModel, fit_table
from hyperspn.asking import Numbers
from hyperspn.data.events import Above, AnyOf, Likely, Missing, Not

ROWS = 600
AGES = range(300)


def people(seed=0):
    generator = np.random.default_rng(seed)
    age = generator.integers(17, 90, ROWS)
    gain = np.where(generator.random(ROWS) < 0.8, 0, generator.exponential(3000, ROWS).round())
    height = 1.5 + age / 300 + generator.normal(0, 0.1, ROWS)
    job = np.where(age < 30, "student", np.where(age > 60, "retired", "employed"))
    job[generator.random(ROWS) < 0.2] = "employed"
    frame = pd.DataFrame({"age": age, "gain": gain.astype(int), "height": height, "job": job, "grade": age % 3})
    frame.loc[generator.random(ROWS) < 0.1, "job"] = None
    return frame


OPTIONS = {"recipe": "chow-liu", "layer_size": 3, "replicas": 2, "steps": 60, "progress": False}


@pytest.fixture(scope="module")
def model():
    return fit_table(people(), **OPTIONS)


def test_probabilities_of_a_partition_sum_to_1(model):
    given = {"gain": Above(0)}
    assert sum(model.probability({"age": age}, given) for age in AGES) == pytest.approx(1)
    pieces = ["age<30", "age=30..40", "age=41|42|43", "age>43"]
    assert sum(model.probability(piece, given) for piece in pieces) == pytest.approx(1)
    assert model.probability("job=student") + model.probability("job!=student") == pytest.approx(1)
    assert model.probability("height<1.7") + model.probability("height>=1.7") == pytest.approx(1)


def test_a_range_is_the_sum_of_its_values(model):
    given = "job=student|retired"
    values = sum(model.probability({"age": age}, given) for age in range(30, 41))
    assert model.probability("age=30..40", given) == pytest.approx(values)
    outside = model.probability({"age": AnyOf((None, 29), (41, None))}, given)
    assert outside == pytest.approx(1 - values)


def test_a_point_mass_belongs_to_its_value(model):
    zero = model.probability("gain=0")
    assert zero == pytest.approx((people()["gain"] == 0).mean(), abs=0.1)
    assert model.probability("gain<=0") == pytest.approx(zero)
    assert model.probability("gain>0") == pytest.approx(1 - zero)
    assert model.probability("gain<0") == 0


def test_the_density_integrates_to_1(model):
    x = np.full((60_001, 5), np.nan)
    x[:, 2] = np.linspace(-1, 5, len(x))
    density = np.exp(model.log_likelihood_of_rows(x))
    assert np.trapezoid(density, x[:, 2]) == pytest.approx(1, abs=5e-3)
    inside = (x[:, 2] >= 1.6) & (x[:, 2] <= 1.8)
    assert np.trapezoid(density[inside], x[inside, 2]) == pytest.approx(model.probability("height=1.6..1.8"), abs=5e-3)


def test_likelihoods_reweigh_categories(model):
    weights = {"student": 0.7, "retired": 0.3}
    ages = ["age<30", "age>=30"]
    expected = [sum(w * model.probability(f"{age}, job={job}") for job, w in weights.items()) for age in ages]
    posterior = [model.probability(age, {"job": Likely(weights)}) for age in ages]
    np.testing.assert_allclose(posterior, np.array(expected) / sum(expected))
    assert not model.chance({"job": Likely(weights)}).is_probability


def test_asking_about_a_column_that_is_known(model):
    both, condition = model.probability("age>50"), model.probability("age>30")
    assert model.probability("age>50", "age>30") == pytest.approx(both / condition)
    assert model.probability("age<20", "age>30") == 0


def test_distributions(model):
    jobs = model.distribution("job", "age<30").probabilities
    assert jobs == pytest.approx({job: model.probability({"job": job}, "age<30") for job in jobs})
    assert list(jobs.values()) == sorted(jobs.values(), reverse=True)
    joint = model.distribution(["job", "grade"], "age<30").probabilities
    assert sum(joint.values()) == pytest.approx(1)
    assert joint["student", 1] == pytest.approx(model.probability("job=student, grade=1", "age<30"))


def test_the_distribution_of_a_number(model):
    p = np.array([model.probability({"age": age}, "job=student") for age in AGES])
    answer = model.distribution("age", "job=student")
    mean = p @ AGES
    assert answer.mean == pytest.approx(mean, rel=5e-3)
    assert answer.std == pytest.approx(np.sqrt(p @ (np.array(AGES) - mean) ** 2), rel=2e-2)
    for level, value in answer.quantiles.items():
        assert p.cumsum()[value - 1] < level + 1e-9 <= p.cumsum()[value] + 2e-9
    gain = model.distribution("gain")
    assert gain.points[0] <= model.probability("gain=0") + 1e-9
    within = model.distribution("age", "age=30..40")
    assert all(30 <= value <= 40 for value in within.quantiles.values())


def test_samples_follow_the_conditional_distribution(model):
    given = "age=30..40|60.., gain>0"
    drawn = model.sample(4000, given, seed=1)
    assert isinstance(drawn, pd.DataFrame)
    assert drawn["age"].map(lambda age: 30 <= age <= 40 or age >= 60).all()
    assert (drawn["gain"] > 0).all()
    jobs = model.distribution("job", given).probabilities
    counts = [(drawn["job"] == job).sum() for job in jobs]
    assert stats.chisquare(counts, np.array(list(jobs.values())) * len(drawn)).pvalue > 1e-3
    ages = [*range(30, 41), *range(60, 300)]
    p = np.array([model.probability({"age": age}, given) for age in ages])
    often = p * len(drawn) > 5
    counts = np.array([(drawn["age"] == age).sum() for age in ages])
    observed = np.append(counts[often], counts[~often].sum())
    expected = np.append(p[often], p[~often].sum()) * len(drawn)
    assert stats.chisquare(observed, expected / expected.sum() * observed.sum()).pvalue > 1e-3


def test_continuous_samples_follow_the_conditional_distribution(model):
    drawn = model.sample(3000, "height=1.6..1.75, job=student", seed=0)["height"]

    def cdf(x):
        return np.array([model.probability({"height": (1.6, value)}, "height=1.6..1.75, job=student") for value in x])

    grid = np.linspace(1.6, 1.75, 200)
    assert stats.kstest(drawn, lambda x: np.interp(x, grid, cdf(grid))).pvalue > 1e-3


def test_nothing_is_sampled_that_cannot_be(model):
    drawn = model.sample(20_000)
    assert drawn["age"].min() >= 0
    assert drawn["gain"].min() >= 0
    zeros = (people()["gain"] == 0).mean()
    assert (drawn["gain"] == 0).mean() == pytest.approx(zeros, abs=0.05)


def test_imputation(model):
    frame = people(1).head(30)
    frame.loc[frame.index[:10], "age"] = np.nan
    frame.loc[frame.index[10:20], "job"] = None
    filled = model.impute(frame)
    assert list(filled.index) == list(frame.index)
    assert not filled.isna().any().any()
    assert (filled == frame)[frame.notna()].stack().all()
    jobs = model.predict(frame, "job")
    assert filled["job"].iloc[12] == jobs.iloc[12].idxmax()
    bounds = model.impute(frame, interval=0.9)
    assert (bounds["age.low"].dropna() <= filled["age"].head(10)).all()
    assert (bounds["age.high"].dropna() >= filled["age"].head(10)).all()
    grades = model.predict(frame, "grade")  # a few whole numbers: not the one nearest to the mean
    assert model.impute(frame.assign(grade=np.nan))["grade"].tolist() == grades.idxmax(axis=1).astype(int).tolist()
    draws = model.impute(frame, draws=5)
    assert draws[".imputation"].value_counts().to_dict() == dict.fromkeys(range(1, 6), len(frame))


def test_intervals_hold_what_they_say(model):
    table = model.sample(500, seed=5)
    truth = table["height"].copy()
    table["height"] = np.nan
    bounds = model.impute(table, interval=0.8)
    assert ((bounds["height.low"] <= truth) & (truth <= bounds["height.high"])).mean() == pytest.approx(0.8, abs=0.06)


def test_columns_that_are_absent_count_as_missing(model):
    frame = people(2).head(5)
    expected = model.log_likelihood(frame.assign(gain=np.nan))
    np.testing.assert_allclose(model.log_likelihood(frame.drop(columns="gain")), expected)
    assert model.predict(frame.drop(columns="job"), "job").shape == (5, 3)


def test_values_never_seen(model):
    frame = people(2).head(2).assign(job="astronaut")
    expected = model.log_likelihood(frame.assign(job=None)) - np.log(model.num_rows + 1)
    np.testing.assert_allclose(model.log_likelihood(frame), expected)


def test_frames_of_every_kind(model):
    frame = people(3).head(4)
    expected = model.log_likelihood(frame)
    for other in (pl.from_pandas(frame), pa.Table.from_pandas(frame)):
        np.testing.assert_allclose(model.log_likelihood(other), expected)
        assert type(model.impute(other)) is type(other)


def test_missing_as_data():
    frame = people()
    frame.loc[frame["age"] > 50, "height"] = np.nan
    model = fit_table(frame, missing_as_data=True, **OPTIONS)
    share = frame["height"].isna().mean()
    assert model.probability({"height": Missing()}) == pytest.approx(share, abs=0.1)
    assert model.probability("height=missing") + model.probability("height!=missing") == pytest.approx(1)
    assert model.probability("height=missing", "age>60") > model.probability("height=missing", "age<40") + 0.3
    assert model.probability({"job": Not("student")}) + model.probability("job=student|missing") == pytest.approx(1)
    sampled = model.sample(2000)["height"].isna().mean()
    assert sampled == pytest.approx(model.probability("height=missing"), abs=0.05)
    assert not model.impute(frame.head(50))["height"].isna().any()
    assert model.distribution("height").missing == pytest.approx(model.probability("height=missing"))
    assert model.distribution("height", "height=missing") == Numbers("height", {}, None, 0.0, missing=1.0)


def test_a_file_is_the_model(model, tmp_path):
    model.save(tmp_path / "people")
    again = TableModel.load(tmp_path / "people")
    np.testing.assert_allclose(again.log_likelihood(people()), model.log_likelihood(people()), rtol=1e-6)
    assert again.num_rows == model.num_rows
    assert again.sample(3).column_names == list(people().columns)


def test_weights_of_rows():
    frame = pd.DataFrame({"a": ["x"] * 300 + ["y"] * 300, "b": ["u", "v"] * 300})
    weights = np.where(frame["a"] == "x", 3.0, 1.0)
    model = fit_table(
        frame, recipe="chow-liu", layer_size=2, replicas=1, steps=200, sample_weight=weights, progress=False
    )
    assert model.probability("a=x") == pytest.approx(0.75, abs=0.08)


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda m: m.probability("height=1.7"), "is continuous, where a single value has a density"),
        (lambda m: m.probability("age>30", "age=-5"), "the evidence is impossible"),
        (lambda m: m.distribution("ago"), "did you mean age"),
        (lambda m: m.sample(3, "job=astronaut"), "expected one of 'employed', 'retired', 'student'"),
        (lambda m: m.impute(people(), interval=90), "expected an interval between 0 and 1"),
    ],
)
def test_mistakes(model, ask, message):
    with pytest.raises(ValueError, match=message):
        ask(model)


def test_it_is_in_double_precision(model):
    assert model.circuit.mixture.dtype == torch.float64
