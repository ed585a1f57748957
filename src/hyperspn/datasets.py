"""Data sets: names -> train, valid and test tables."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from numpy.typing import NDArray


class Dataset(NamedTuple):
    """Three tables of the same variables, each (rows, variables)."""

    train: NDArray[np.uint8]
    valid: NDArray[np.uint8]
    test: NDArray[np.uint8]


def load(name: str, seed: int = 0) -> Dataset:
    """Returns a built-in data set: "hand-crafted" or "digits"."""
    if name not in BUILT_IN:
        raise ValueError(f"expected one of {', '.join(BUILT_IN)}, found {name!r}")
    return BUILT_IN[name](seed)


def hand_crafted(seed: int = 0, rows: int = 10_000) -> Dataset:
    """The paper's hand-crafted data: 256 binary variables whose probabilities spread down a binary tree.

    Every row starts with p_i = 0.5; eight times, each entry of the first half is copied to two neighbours and
    noise is added everywhere; then x_i = 1 where a uniform number exceeds p_i:

        p[2i] = p[2i + 1] = p[i],   p += U(-0.2, 0.2)
    """
    generator = np.random.default_rng(seed)
    p = np.full((rows, 256), 0.5)
    for _ in range(8):
        p = np.repeat(p[:, :128], 2, axis=1) + generator.uniform(-0.2, 0.2, p.shape)
    return _split((generator.random(p.shape) > p).astype(np.uint8))


def digits(seed: int = 0) -> Dataset:
    """Scikit-learn's 1,797 handwritten digits, 8 x 8 pixels, black or white, in random order."""
    from sklearn.datasets import load_digits

    images = (load_digits().data >= 8).astype(np.uint8)
    return _split(np.random.default_rng(seed).permutation(images))


def _split(rows: NDArray[np.uint8]) -> Dataset:
    """The first 70 % to train, the next 10 % to validate, the last 20 % to test."""
    return Dataset(*np.split(rows, [len(rows) * 7 // 10, len(rows) * 8 // 10]))


BUILT_IN: dict[str, Callable[[int], Dataset]] = {"hand-crafted": hand_crafted, "digits": digits}
