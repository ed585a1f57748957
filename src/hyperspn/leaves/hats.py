"""Hats: densities at equal steps of a line, each a triangle, the outer two with tails."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from numpy.typing import ArrayLike, NDArray

FloatArray = NDArray[np.float64]

REACH = 4.5  # the places of the outer hats, in normal scores
NARROW = 1e-9  # intervals in which a density is as good as constant


class Hats:
    """m densities over the real line, with places t_0, ..., t_{m-1} at equal steps d.

        p_j(z) = max(0, 1 - |z - t_j| / d) / d

    Beyond their places the outer two fall exponentially, at the rate -t_0 = t_{m-1} of a normal density there. A mixture of hats is linear between
    places; of at most two of them the density is not 0.

    Arguments:
        count: The number of hats m, at least 2.
    """

    def __init__(self, count: int) -> None:
        self.places = np.linspace(-REACH, REACH, count)
        self.step = self.places[1] - self.places[0]
        self.outer = 1 / (0.5 * self.step + 1 / REACH)  # the density of an outer hat at its place

    def __len__(self) -> int:
        return len(self.places)

    def first(self, z: ArrayLike) -> NDArray[np.int64]:
        """The number of the first hat at z: the next one is the other."""
        steps = (np.clip(z, -REACH, REACH) - self.places[0]) / self.step
        return np.minimum(steps.astype(np.int64), len(self) - 2)

    def density(self, z: ArrayLike, hat: NDArray[np.int64]) -> FloatArray:
        """p_j(z)."""
        u = (np.asarray(z, np.float64) - self.places[hat]) / self.step
        is_first, is_last = np.asarray(hat) == 0, np.asarray(hat) == len(self) - 1
        is_beyond = (is_first & (u < 0)) | (is_last & (u > 0))
        inner = np.maximum(0, 1 - np.abs(u)) * np.where(is_first | is_last, self.outer, 1 / self.step)
        return np.where(is_beyond, self.outer * np.exp(-REACH * self.step * np.abs(u)), inner)

    def mass(self, low: ArrayLike, high: ArrayLike, hat: NDArray[np.int64]) -> FloatArray:
        """The mass of [low, high] under p_j, to full relative precision; 0 where low >= high."""
        low, high, flip = _from_the_left(np.asarray(low, np.float64), np.maximum(high, low))
        hat = np.where(flip, len(self) - 1 - hat, hat)
        with np.errstate(invalid="ignore"):
            is_narrow, as_density = high - low < NARROW, (high - low) * self.density(0.5 * (low + high), hat)
        return np.where(is_narrow, as_density, self._below(high, hat) - self._below(low, hat))

    def quantile(self, low: ArrayLike, high: ArrayLike, share: ArrayLike, hat: NDArray[np.int64]) -> FloatArray:
        """The z in [low, high] below which there is this share of its mass under p_j."""
        low, high, flip = _from_the_left(np.asarray(low, np.float64), np.asarray(high, np.float64))
        share, hat = np.where(flip, 1 - np.asarray(share), share), np.where(flip, len(self) - 1 - hat, hat)
        level = self._below(low, hat) * (1 - share) + self._below(high, hat) * share
        z = np.clip(self._inverse(level, hat), low, high)
        return np.where(flip, -z, z)

    def _below(self, z: FloatArray, hat: NDArray[np.int64]) -> FloatArray:
        """P_j(z), to full relative precision for small ones on the left."""
        u = (z - self.places[hat]) / self.step
        left, inside = 0.5 * np.maximum(0, 1 + np.minimum(u, 0)) ** 2, np.clip(u, 0, 1)
        right, tail = inside - 0.5 * inside**2, np.exp(-REACH * self.step * np.abs(u)) / REACH
        first = self.outer * np.where(u < 0, tail, 1 / REACH + self.step * right)
        last = np.where(u < 0, self.outer * self.step * left, 1 - self.outer * tail)
        return np.where(hat == 0, first, np.where(hat == len(self) - 1, last, left + right))

    def _inverse(self, level: FloatArray, hat: NDArray[np.int64]) -> FloatArray:
        """The z with P_j(z) = level."""
        level = np.clip(level, 0, 1)
        inner = np.where(level < 0.5, np.sqrt(2 * level) - 1, 1 - np.sqrt(2 * (1 - level)))
        of_tail = self.outer / REACH
        with np.errstate(divide="ignore"):
            left = np.log(np.minimum(level / of_tail, 1)) / (REACH * self.step)
            right = np.log(np.minimum((1 - level) / of_tail, 1)) / (REACH * self.step)
        rest = np.maximum(0, 2 / (self.outer * self.step) * (level - of_tail))
        first = np.where(level < of_tail, left, 1 - np.sqrt(np.maximum(0, 1 - rest)))
        rest = np.minimum(1, 2 / (self.outer * self.step) * level)
        last = np.where(1 - level < of_tail, -right, np.sqrt(rest) - 1)
        u = np.where(hat == 0, first, np.where(hat == len(self) - 1, last, inner))
        return self.places[hat] + self.step * u


def _from_the_left(low: FloatArray, high: FloatArray) -> tuple[FloatArray, FloatArray, NDArray[np.bool_]]:
    """Intervals, those on the right mirrored to the left, where small masses are exact, and which these are."""
    with np.errstate(invalid="ignore"):
        flip = low + high > 0
    return np.where(flip, -high, low), np.where(flip, -low, high), flip


@lru_cache
def hats(count: int) -> Hats:
    return Hats(count)
