import numpy as np
import pytest

pd = pytest.importorskip("pandas")
pytest.importorskip("sdmetrics")
pytest.importorskip("xgboost")

from hyperspn.experiments.table_quality import (
    align,
    c2st,
    copies,
    quality,
    shape_and_trend,
    utility,
    values_outside,
    wnmis,
    zeros,
)


def people(rows, seed, slope=5):
    rng = np.random.default_rng(seed)
    age, grade, sex = rng.integers(17, 90, rows), rng.integers(1, 6, rows), rng.choice(["f", "m"], rows)
    gain = np.where(rng.random(rows) < 0.7, 0.0, (slope * age * grade + rng.normal(0, 30, rows)).round(1))
    return pd.DataFrame({"age": age, "grade": grade, "sex": sex, "gain": gain, "member": rng.random(rows) < 0.3})


def test_tables_are_made_alike():
    real = pd.DataFrame({"n": np.arange(30), "half": [0.5, 1] * 15, "few": [1, 2] * 15, "flag": ["TRUE", "FALSE"] * 15})
    other = pd.DataFrame(
        {"flag": [True, False], "few": [2.0, None], "half": [1, None], "n": ["3", "4"], "more": [0, 0]}
    )
    aligned, alike = align(real, other)
    assert list(alike.columns) == list(aligned.columns) == list(real.columns)
    assert list(aligned.select_dtypes(float).columns) == ["n", "half"]
    assert alike["n"].tolist() == [3, 4]
    assert alike["half"].isna().tolist() == [False, True]
    assert aligned["few"].tolist()[:2] == ["1.0", "2.0"]
    assert alike["few"].tolist() == ["2.0", "nan"]
    assert alike["flag"].tolist() == aligned["flag"].tolist()[:2] == ["true", "false"]


def test_the_reference_gives_the_same_numbers():
    """Of the rough script that came before, of sdmetrics 0.24, and of the published definition of wNMIS with `pandas.cut`."""
    real, sampled = align(people(900, seed=1), people(700, seed=2, slope=4))
    assert shape_and_trend(real, sampled) == pytest.approx((0.9714603, 0.9328394), abs=1e-6)
    assert c2st(real, sampled) == pytest.approx(0.8567, abs=2e-3)
    assert wnmis(real, sampled) == pytest.approx(0.9887318357, abs=1e-9)


def test_rows_of_the_same_distribution_cannot_be_told_apart():
    real, other = align(people(2000, seed=1), people(2000, seed=2))
    assert c2st(real, other) > 0.93
    assert c2st(real, other, "logistic") > 0.93
    assert c2st(real, other, rows=500) > 0.8
    assert shape_and_trend(real, real) == (1.0, 1.0)
    assert wnmis(real, real) == 1.0
    assert wnmis(real, other) > 0.98


def test_a_shifted_column_gives_every_row_away():
    table = people(600, seed=1)
    real, shifted = align(table, table.assign(age=table["age"] + 100))
    assert c2st(real, shifted) < 0.01
    assert c2st(real, shifted, "logistic") < 0.01
    assert shape_and_trend(real, shifted)[0] == pytest.approx(4 / 5)


def test_the_order_of_a_table_does_not_matter():
    table, other = people(3000, seed=1), people(3000, seed=2, slope=3)
    values = [c2st(*align(table.sort_values(column), other.sort_values(column))) for column in ("gain", "age")]
    assert values == pytest.approx([c2st(*align(table, other))] * 2, abs=0.03)
    assert max(values) < 0.85


def test_mutual_information_by_hand():
    """Two equal columns have N = 1; independent ones N' = 0: with the weight 1 + 0, all of the difference counts."""
    real = pd.DataFrame({"a": list("xxyy"), "b": list("uuvv")})
    independent = pd.DataFrame({"a": list("xxyy"), "b": list("uvuv")})
    assert wnmis(real, real) == 1.0
    assert wnmis(real, independent) == pytest.approx(0.0, abs=1e-12)
    constant = pd.DataFrame({"a": list("xxxx"), "b": list("uuuu")})
    assert wnmis(constant, constant) == 1.0


def test_numbers_outside_the_real_ones_are_a_bin_of_their_own():
    real = pd.DataFrame({"a": np.repeat([0.0, 10.0], 20), "b": ["u"] * 20 + ["v"] * 20})
    assert wnmis(real, real.assign(a=np.repeat([-5.0, 10.0], 20))) == pytest.approx(1.0)
    assert wnmis(real, real.assign(a=np.tile([-5.0, 99.0], 20))) == pytest.approx(0.0, abs=1e-12)


def test_utility_of_a_class_and_of_a_number():
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"x": rng.normal(size=900), "noise": rng.choice(["u", "v"], 900)})
    table["class"] = np.where(table["x"] > 0, "yes", "no")
    table["amount"] = np.exp(table["x"] + 3)
    rows, test = table[:600], table[600:]
    assert utility(rows.drop(columns="amount"), test.drop(columns="amount"), "class") > 0.99
    swapped = rows.assign(**{"class": np.where(rows["x"] > 0, "no", "yes")})
    assert utility(swapped.drop(columns="amount"), test.drop(columns="amount"), "class") < 0.01
    one_class = rows.assign(**{"class": "no"})
    assert utility(one_class.drop(columns="amount"), test.drop(columns="amount"), "class") == 0.5
    assert utility(rows.drop(columns="class"), test.drop(columns="class"), "amount") < 0.15
    shuffled = rows.assign(amount=rng.permutation(rows["amount"]))
    unexplained = utility(shuffled.drop(columns="class"), test.drop(columns="class"), "amount")
    assert unexplained == pytest.approx(test["x"].std(), rel=0.1)


def test_copies_are_counted_exactly():
    train = pd.DataFrame({"a": [1.5, 2.5, np.nan, 4.5], "b": ["u", "v", "u", "nan"]})
    rows = pd.DataFrame({"a": [1.5, 1.5, np.nan, np.nan, 4.5], "b": ["u", "v", "u", "v", "nan"]})
    assert copies(rows, train) == 3 / 5
    assert copies(train, train) == 1.0


def test_shares_of_zeros():
    table = pd.DataFrame(
        {"n": [0.0] * 5 + list(range(1, 96)), "few": [0] * 50 + [1] * 50, "rare": [0] * 4 + [1.5] * 96}
    )
    real, sampled = align(table, table[:50])
    assert zeros(real, sampled) == {"n": (0.05, 0.1), "few": (0.5, 1.0)}


def test_values_outside_what_was_seen():
    capped = [*range(196), *([999] * 4)]
    table = pd.DataFrame({"positive": np.arange(1, 201), "signed": np.arange(-100, 100), "capped": capped})
    drawn = pd.DataFrame({"positive": [-1, 0, 300], "signed": [-300, 0, 300], "capped": [1000, 999, -2]})
    train, sampled = align(table, drawn)
    assert values_outside(train, sampled) == 3
    assert values_outside(train, train) == 0


def test_all_metrics_together():
    train, valid, test = people(600, seed=1), people(100, seed=2), people(300, seed=3)
    scores = quality(train, valid, test, pd.concat([train, valid], ignore_index=True), target="sex")
    assert all(type(value) in (float, int) for value in scores.values())
    assert scores["c2st_xgboost"] == scores["c2st_xgboost_training"] == scores["shape"] == scores["wnmis"] == 1.0
    assert 0.7 < scores["c2st_xgboost_held_out"] <= 1.0
    assert scores["copies"] >= 600 / 700 > scores["copies_held_out"]
    assert scores["zeros_difference"] == scores["values_outside"] == 0
