import numpy as np
import pytest

from hyperspn import datasets


def test_hand_crafted_data():
    data = datasets.load("hand-crafted")
    assert [part.shape for part in data] == [(7000, 256), (1000, 256), (2000, 256)]
    rows = np.concatenate(data).astype(float)
    assert set(np.unique(rows)) == {0, 1}
    assert abs(rows.mean() - 0.5) < 0.01
    correlation = np.corrcoef(rows.T)
    near = np.mean([correlation[i, i + 1] for i in range(0, 256, 2)])
    far = np.mean([correlation[i, i + 128] for i in range(64)])
    assert near > 0.1
    assert far < 0.05


def test_hand_crafted_probabilities_have_the_variance_of_eight_uniform_steps():
    """Neighbours share seven of eight steps, each of variance 0.4^2 / 12: their covariance is that of the shared part."""
    rows = np.concatenate(datasets.hand_crafted(seed=1)).astype(float)
    covariance = np.mean([np.cov(rows[:, i], rows[:, i + 1])[0, 1] for i in range(0, 256, 2)])
    clipped = np.clip(0.5 + np.random.default_rng(0).uniform(-0.2, 0.2, (100_000, 7)).sum(1), 0, 1)
    assert covariance == pytest.approx(clipped.var(), rel=0.1)


def test_digits():
    data = datasets.load("digits")
    assert [part.shape for part in data] == [(1257, 64), (180, 64), (360, 64)]
    assert set(np.unique(np.concatenate(data))) == {0, 1}


@pytest.mark.parametrize("name", ["hand-crafted", "digits"])
def test_seeds(name):
    assert np.array_equal(datasets.load(name, seed=2).test, datasets.load(name, seed=2).test)
    assert not np.array_equal(datasets.load(name, seed=2).test, datasets.load(name, seed=3).test)


def test_unknown_names():
    with pytest.raises(ValueError, match="hand-crafted, digits, found 'digit'"):
        datasets.load("digit")
