import json

from dataclasses import asdict

import numpy as np
import pytest
import torch

from scipy.special import ndtr

from hyperspn.data.scales import Scale, bounds_of, count_numbers
from hyperspn.leaves.numeric import Numeric, NumericColumns


def heaped(rows=9000, seed=0):
    """Amounts in whole numbers of which every third one is a multiple of 1,000."""
    generator = np.random.default_rng(seed)
    amounts = generator.integers(1, 60_000, rows)
    return np.where(np.arange(rows) % 3, amounts, generator.integers(1, 200, rows) * 1000.0).astype(float)


def masses(scale, x):
    """The probabilities of cells under the scale itself: one standard normal distribution of the scores."""
    low, high = (ndtr(scale.scores(edge)) for edge in scale.cells(x))
    return high - low


def test_heaps_have_their_share_and_all_cells_together_1():
    x = heaped()
    scale = Scale.fit(x, lower=0.0)
    assert not scale.points
    cells = np.arange(0, 400_000)
    probability = masses(scale, cells)
    assert probability.sum() == pytest.approx(1, abs=1e-9)
    assert (probability[:200_000] > 0).all()
    often = [float(value) for value in range(1000, 100_000, 1000) if (x == value).sum() >= 5]
    assert len(often) > 50
    shares = np.array([(x == value).mean() for value in often])
    np.testing.assert_allclose(masses(scale, often), shares, atol=1e-3)
    assert masses(scale, np.array(often) + 1).max() < 1e-3


def test_numbers_come_back_from_their_scores():
    x = heaped()
    scale = Scale.fit(x, lower=0.0)
    np.testing.assert_allclose(scale.values(scale.scores(x)), x, rtol=1e-9)
    scores = np.linspace(-6, 6, 1001)
    np.testing.assert_allclose(scale.scores(scale.values(scores)), scores, atol=1e-4)
    drawn = scale.round(scale.values(np.random.default_rng(1).standard_normal(20_000)))
    assert (drawn % 1000 == 0).mean() == pytest.approx(1 / 3, abs=0.02)
    assert drawn.min() >= 0


def test_numbers_far_from_all_others_come_back():
    scale = Scale.fit(heaped(), lower=0.0)
    np.testing.assert_allclose(scale.values(scale.scores(1e9)), 1e9, rtol=1e-9)


def test_tails_of_small_numbers_are_small():
    x = np.random.default_rng(0).random(1000) * 1e-15
    assert max(Scale.fit(x).tails) < 1e-15


def test_the_leaf_of_a_heaped_column_is_a_distribution():
    family = NumericColumns([Numeric(Scale.fit(heaped(), lower=0.0), members=4)])
    x = torch.arange(0, 300_000, dtype=torch.float64)[:, None]
    log_p = family.log_prob(family.initial(1).double(), family.read(x, torch.float64))[:, 0]
    np.testing.assert_allclose(log_p.exp().sum(0).detach(), np.ones(4), atol=1e-3)


def test_few_values_that_are_far_apart_are_all_that_is_drawn():
    generator = np.random.default_rng(0)
    limits = np.arange(1, 90) * 10_000.0
    x = generator.choice(limits, 20_000, p=1 / limits / (1 / limits).sum())
    scale = Scale.fit(x, lower=0.0)
    assert scale.decimals == 0
    drawn = scale.round(scale.values(generator.standard_normal(10_000)))
    assert np.isin(drawn, limits).mean() > 0.99
    assert masses(scale, [123_456.0]) > 0


def test_smooth_columns_have_no_heaps():
    generator = np.random.default_rng(0)
    for x in (generator.normal(40, 12, 5000).round(), generator.exponential(100, 5000).round(1)):
        scale = Scale.fit(x)
        assert len(scale.knots) <= 205


def test_one_odd_value_does_not_make_a_column_continuous():
    x = np.random.default_rng(0).normal(10, 100, 5000).round()
    x[7] = 44 / 3
    assert Scale.fit(x).decimals == 0
    assert Scale.fit(x[:50]).decimals is None


def test_a_scale_is_kept_with_its_levels():
    scale = Scale.fit(heaped())
    assert scale.levels
    assert Scale(**json.loads(json.dumps(asdict(scale)))) == scale
    even = Scale((1.0, 2.0, 4.0))
    assert Scale((1.0, 2.0, 4.0), levels=(1 / 6, 1 / 2, 5 / 6)).scores(3.3) == pytest.approx(even.scores(3.3))
    for levels in ((0.1, 0.2), (0.5, 0.4, 0.6), (0.1, 0.5, 1.0), (0.0, 0.5, 0.9)):
        with pytest.raises(ValueError, match="expected an ascending level between 0 and 1 of each knot"):
            Scale((1.0, 2.0, 4.0), levels=levels)


def test_a_cap_is_not_exceeded():
    rates = np.random.default_rng(0).exponential(0.1, 5000).round(3).clip(max=0.2)
    assert bounds_of(count_numbers(rates)) == (0.0, 0.2)
    assert bounds_of(count_numbers(rates[rates < 0.2])) == (0.0, None)
    scale = Scale.fit(rates, *bounds_of(count_numbers(rates)))
    assert 0.2 in scale.points
    assert scale.round(scale.values(np.linspace(-8, 8, 1000))).max() <= 0.2
