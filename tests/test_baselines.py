from itertools import pairwise, product

import numpy as np
import pyarrow as pa
import pytest

from scipy.integrate import quad

from hyperspn.data import recognize
from hyperspn.learning.baselines import chow_liu_tree, independent_columns

BASELINES = pytest.mark.parametrize("baseline", [independent_columns, chow_liu_tree])


def codes(rows, seed=0):
    """Three columns of categories, each most like the one before it, with holes."""
    generator = np.random.default_rng(seed)
    a = generator.integers(0, 3, rows)
    b = np.where(generator.random(rows) < 0.8, a, generator.integers(0, 3, rows))
    c = np.where(generator.random(rows) < 0.7, b % 2, generator.integers(0, 2, rows))
    x = np.stack([a, b, c], 1).astype(float)
    x[generator.random(x.shape) < 0.1] = np.nan
    table = pa.table([pa.array(column, from_pandas=True).cast(pa.int64()) for column in x.T], ["a", "b", "c"])
    return recognize(table), x


@BASELINES
def test_probabilities_of_all_rows_sum_to_one(baseline):
    schema, x = codes(200)
    worlds = np.array(list(product(range(3), range(3), range(2))), float)
    (log_p,) = baseline(schema, x, worlds)
    assert np.exp(log_p).sum() == pytest.approx(1, abs=1e-12)


@BASELINES
def test_unknown_values_are_integrated_out(baseline):
    schema, x = codes(200)
    worlds = np.array(list(product(range(3), range(3), range(2))), float)
    holes = np.array([[1, np.nan, 0], [np.nan, 2, np.nan], [np.nan] * 3])
    log_p, partial = baseline(schema, x, worlds, holes)
    for row, value in zip(holes, partial):
        fits = (np.isnan(row) | (worlds == row)).all(1)
        assert np.exp(value) == pytest.approx(np.exp(log_p)[fits].sum(), rel=1e-12)


def test_independent_columns_are_products_of_frequencies():
    schema, x = codes(300)
    (log_p,) = independent_columns(schema, x, np.array([[2, 0, 1]]))
    p = 1.0
    for column, code, size in zip(x.T, (2, 0, 1), (3, 3, 2)):
        known = column[~np.isnan(column)]
        p *= ((known == code).sum() + 1) / (len(known) + size)
    assert log_p == pytest.approx(np.log(p))


def test_the_tree_has_the_conditional_frequencies_of_a_chain():
    schema, x = codes(20_000)
    x = x[~np.isnan(x).any(1)]
    world = np.array([[1, 1, 0]])
    (log_p,) = chow_liu_tree(schema, x, world)
    counted = (x[:, 0] == 1).mean()
    counted *= (x[x[:, 0] == 1, 1] == 1).mean() * (x[x[:, 1] == 1, 2] == 0).mean()
    assert np.exp(log_p[0]) == pytest.approx(counted, rel=0.01)
    assert chow_liu_tree(schema, x, x)[0].mean() > independent_columns(schema, x, x)[0].mean() + 0.5


def numbers(kind, missing=False, rows=2000):
    generator = np.random.default_rng(1)
    values = generator.gamma(2.0, 3.0, rows)
    if kind == "whole":
        values = np.where(generator.random(rows) < 0.3, 0, values.round())
    elif kind == "points":
        values = np.where(generator.random(rows) < 0.3, 0.0, values)
    letters = np.where(values > 5, "x", "y")
    cells = [None if missing and generator.random() < 0.2 else value for value in values]
    table = pa.table({"number": pa.array(cells, pa.float64()), "letter": letters})
    kinds = {"number": "numeric"}
    return recognize(table, kinds=kinds, missing_as_data=missing), table


@BASELINES
def test_densities_of_continuous_numbers_integrate_to_one(baseline):
    schema, table = numbers("points")
    x = schema.encode(table)
    knots = sorted({0.0, *schema.columns[0].scale.knots, 200.0})

    grid = np.concatenate([np.linspace(a, b, 12)[1:-1] for a, b in pairwise(knots)])
    log_p = baseline(schema, x, np.stack([grid, np.full(len(grid), np.nan)], 1))[0]
    mass = sum(np.exp(log_p[10 * i : 10 * i + 10]).mean() * (b - a) for i, (a, b) in enumerate(pairwise(knots[:-1])))
    tail = quad(lambda value: np.exp(baseline(schema, x, np.array([[value, np.nan]]))[0][0]), knots[-2], 200)[0]
    point = np.exp(baseline(schema, x, np.array([[0.0, np.nan]]))[0][0])
    assert mass + tail + point == pytest.approx(1, abs=2e-3)
    assert point == pytest.approx(0.3, abs=0.03)


@BASELINES
@pytest.mark.parametrize("missing", [False, True])
def test_probabilities_of_recorded_numbers_sum_to_one(baseline, missing):
    schema, table = numbers("whole", missing)
    x = schema.encode(table)
    column = schema.columns[0]
    assert column.scale.width == 1
    values = np.array([*np.arange(0.0, 400.0), *([np.inf] if missing else [])])
    (log_p,) = baseline(schema, x, np.stack([values, np.full(len(values), np.nan)], 1))
    assert np.exp(log_p).sum() == pytest.approx(1, abs=1e-9)
    shares = [np.mean(x[:, 0] == value) for value in (0, 3, np.inf)]
    expected = np.exp(log_p)[[0, 3, -1]] if missing else np.exp(log_p)[[0, 3]]
    assert expected == pytest.approx(shares[: len(expected)], abs=0.02)


@BASELINES
def test_a_row_outside_the_bounds_has_probability_zero(baseline):
    schema, table = numbers("whole")
    (log_p,) = baseline(schema, schema.encode(table), np.array([[-3.0, 0.0]]))
    assert log_p[0] == -np.inf
