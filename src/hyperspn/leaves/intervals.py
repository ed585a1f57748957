"""Intervals of normal distributions: their masses, and draws within them."""

from __future__ import annotations

from math import log, pi

import torch

from torch import Generator, Tensor

NARROW = 1e-3


def log_interval_mass(low: Tensor, high: Tensor) -> Tensor:
    """log(Phi(high) - Phi(low)) to full relative precision, and -inf where low >= high."""
    swap = low + high > 0  # the upper tail is the lower one of -x
    low, high = torch.where(swap, -high, low), torch.where(swap, -low, high)
    empty = low >= high
    high = high.masked_fill(empty, 0)
    narrow = ~empty & (high - low < NARROW)
    middle = 0.5 * (low.masked_fill(~narrow, 0) + high.masked_fill(~narrow, 1))
    as_density = -0.5 * middle.square() - 0.5 * log(2 * pi) + (high - low).masked_fill(~narrow, 1).log()
    below, above = torch.special.log_ndtr(low.masked_fill(empty | narrow, -1)), torch.special.log_ndtr(high)
    difference = (below - above.masked_fill(empty | narrow, 0)).clamp(max=-1e-30)
    log_mass = torch.where(narrow, as_density, above + torch.log(-torch.expm1(difference)))
    return log_mass.masked_fill(empty, -torch.inf)


def sample_intervals(mean: Tensor, std: Tensor, low: Tensor, high: Tensor, generator: Generator | None) -> Tensor:
    """Draws from normal distributions within unions of intervals, in float64.

    Arguments:
        mean: The means, (...).
        std: The standard deviations, (...).
        low: The lower ends, (..., intervals).
        high: The upper ends, (..., intervals); not above the lower one in an empty interval.
    """
    low, high = (low - mean[..., None]) / std[..., None], (high - mean[..., None]) / std[..., None]
    masses = log_interval_mass(low, high)
    chosen = _draw(masses, generator)
    low, high = (ends.gather(-1, chosen[..., None])[..., 0] for ends in (low, high))
    swap = low + high > 0
    low, high = torch.where(swap, -high, low), torch.where(swap, -low, high)
    share = torch.empty_like(low).uniform_(generator=generator)
    below, above = torch.special.log_ndtr(low), torch.special.log_ndtr(high)
    log_level = torch.logaddexp(below + torch.log1p(-share), above + share.log())
    score = inverse_log_ndtr(log_level).clamp(low, high)
    return mean + std * torch.where(swap, -score, score)


def inverse_log_ndtr(log_level: Tensor) -> Tensor:
    """The x with log Phi(x) = log_level, in float64."""
    from scipy.special import ndtri_exp

    return torch.from_numpy(ndtri_exp(log_level.double().cpu().numpy())).to(log_level.device)


def _draw(log_weights: Tensor, generator: Generator | None) -> Tensor:
    """Draws an index of the last axis with probability proportional to exp(log_weights)."""
    noise = torch.empty_like(log_weights).exponential_(generator=generator)
    return (log_weights - noise.clamp(min=torch.finfo(noise.dtype).tiny).log()).argmax(-1)
