from itertools import product
from math import log

import numpy as np
import pytest

from hyperspn.structures import mutual_information


def summed(x, y, pseudocount):
    """The mutual information of two columns of categories from its definition, value by value."""
    values = [sorted(set(column[~np.isnan(column)])) for column in (x, y)]
    joint = {(a, b): ((x == a) & (y == b)).sum() + pseudocount for a, b in product(*values)}
    total = sum(joint.values())
    left = {a: sum(joint[a, b] for b in values[1]) for a in values[0]}
    right = {b: sum(joint[a, b] for a in values[0]) for b in values[1]}
    found = sum(n / total * log(n * total / (left[a] * right[b])) for (a, b), n in joint.items())
    return max(0, found - (len(left) - 1) * (len(right) - 1) / (2 * total))


def table(rows=60, seed=0):
    """Columns with 2, 3, 5 and 40 categories and with one, that depend on each other, with holes."""
    generator = np.random.default_rng(seed)
    hidden = generator.integers(0, 40, (rows, 1))
    columns = (hidden + generator.integers(0, 9, (rows, 6))) % [2, 3, 5, 2, 40, 1]
    return np.where(generator.random(columns.shape) < 0.2, np.nan, columns)


@pytest.mark.parametrize("pseudocount", [1e-9, 0.5, 3.0])
@pytest.mark.parametrize("at_once", [1, 7, 512])
def test_every_pair_is_summed_over_the_rows_that_know_both(monkeypatch, pseudocount, at_once):
    monkeypatch.setitem(mutual_information.__globals__, "COLUMNS_AT_ONCE", at_once)
    monkeypatch.setitem(mutual_information.__globals__, "ROWS_AT_ONCE", 4 * at_once)
    data = table()
    found = mutual_information(data, pseudocount=pseudocount, continuous=np.zeros(6, bool))
    expected = [
        [0 if i == j else summed(x, y, pseudocount) for j, y in enumerate(data.T)] for i, x in enumerate(data.T)
    ]
    np.testing.assert_allclose(found, expected, atol=1e-12)


def test_continuous_variables_are_cut_into_equal_parts():
    generator = np.random.default_rng(0)
    x = generator.normal(size=80)
    y = np.exp(x) * generator.random(80)
    parts = np.stack([x, y], 1).argsort(0).argsort(0) // 10
    np.testing.assert_allclose(mutual_information(np.stack([x, y], 1)), mutual_information(parts))
    np.testing.assert_allclose(mutual_information(np.stack([x, y], 1), bins=4), mutual_information(parts // 2))


def test_whole_numbers_with_few_values_are_categories():
    generator = np.random.default_rng(0)
    few, many = generator.integers(0, 32, 4000), generator.integers(0, 200, 4000)
    data = np.stack([few, few % 8, many, many % 8], 1)
    found = mutual_information(data)
    assert found[0, 1] > 1.8
    assert found[2, 3] < 0.1
    assert mutual_information(data, continuous=[False] * 4)[2, 3] > 1.2
    assert mutual_information(data, continuous=[True, False, True, True])[0, 1] < 1


def test_independent_variables_share_nothing_on_average():
    generator = np.random.default_rng(0)
    apart = [mutual_information(generator.normal(size=(200, 2)), pseudocount=1e-9)[0, 1] for _ in range(200)]
    assert 0 < np.mean(apart) < 0.2 * 49 / 400


def test_normal_variables_have_most_of_their_information():
    x, y = np.random.default_rng(0).multivariate_normal([0, 0], [[1, 0.9], [0.9, 1]], 20_000).T
    assert 0.8 < mutual_information(np.stack([x, y], 1), bins=16)[0, 1] / (-0.5 * log(1 - 0.9**2)) < 1


def test_columns_that_say_nothing():
    generator = np.random.default_rng(0)
    bits = generator.integers(0, 2, 50).astype(float)
    never = np.full(50, np.nan)
    apart = np.where(np.arange(50) < 25, bits, np.nan)
    data = np.stack([bits, never, np.ones(50), apart, np.where(np.isnan(apart), bits, np.nan)], 1)
    found = mutual_information(data)
    assert np.isfinite(found).all()
    assert found[0, 3] > 0.3
    assert found[:, 1:3].max() == pytest.approx(0, abs=1e-12)
    assert found[3, 4] == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize(
    ("data", "options", "message"),
    [
        (np.zeros(3), {}, "table of numbers"),
        (np.zeros((0, 3)), {}, "table of numbers"),
        ([["a", "b"]], {}, "table of numbers"),
        ([[1.0, np.inf]], {}, "infinity"),
        ([[1, 2]], {"bins": 1}, "bins >= 2"),
        ([[1, 2]], {"pseudocount": 0}, "pseudocount > 0"),
        ([[1, 2]], {"continuous": [True]}, "2 booleans"),
        ([[1, 2]], {"continuous": [0, 1]}, "2 booleans"),
    ],
)
def test_bad_input_is_refused(data, options, message):
    with pytest.raises(ValueError, match=message):
        mutual_information(data, **options)
