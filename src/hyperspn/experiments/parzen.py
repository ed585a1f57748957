"""Sample quality by Parzen windows: Gaussian kernels on samples score test rows (Table 6)."""

from __future__ import annotations

from collections.abc import Sequence
from math import log, pi

import torch

from torch import Tensor

BANDWIDTHS = tuple(0.1 * 1.4**step for step in range(12))
DISTANCES_AT_ONCE = 2**24


def published_quality(samples: Tensor, test: Tensor, batch_size: int, bandwidth: float = 3.0) -> float:
    """The authors' value: samples scored by one-dimensional normal densities of their distances to the test rows.

        mean over batches of test rows, mean over samples s:  log mean_{x in batch} N(|s - x|; 0, bandwidth^2)

    Arguments:
        samples: Rows drawn from the model, (samples, variables).
        test: The test rows, (rows, variables), taken in batches of `batch_size`; the last one may be shorter.
        bandwidth: The standard deviation of the kernel.
    """
    means = [log_density(samples, batch, [bandwidth]).mean() for batch in test.split(batch_size)]
    return torch.stack(means).mean().item() - 0.5 * log(2 * pi * bandwidth**2)


def parzen_log_likelihood(samples: Tensor, valid: Tensor, test: Tensor) -> tuple[float, float]:
    """The mean log-density of test rows under normal kernels on the samples, and the bandwidth chosen on validation.

        mean over test rows x:  log mean_s N(x; s, bandwidth^2 I)

    Rows of discrete values have no density: the narrower the kernels, the higher the value of rows that are among the
    samples, without bound. Where most rows are, the narrowest of `BANDWIDTHS` is chosen, and two models can be compared,
    but the value by itself means little.

    Arguments:
        samples: Rows drawn from the model, (samples, variables).
        valid: The rows by which one of `BANDWIDTHS` is chosen, (rows, variables).
        test: The rows to score, (rows, variables).
    """

    def means(rows: Tensor, bandwidths: Sequence[float]) -> Tensor:
        normalizer = 0.5 * samples.shape[1] * torch.tensor([log(2 * pi * bandwidth**2) for bandwidth in bandwidths])
        return log_density(rows, samples, bandwidths).mean(1) - normalizer  # (bandwidths,)

    bandwidth = BANDWIDTHS[int(means(valid, BANDWIDTHS).argmax())]
    return means(test, [bandwidth]).item(), bandwidth


def log_density(rows: Tensor, centers: Tensor, bandwidths: Sequence[float]) -> Tensor:
    """log mean_c exp(-|x - c|^2 / (2 bandwidth^2)) for all bandwidths and rows x, (bandwidths, rows), in float64."""
    centers = centers.float()
    densities = []
    for block in rows.float().split(max(1, DISTANCES_AT_ONCE // len(centers))):
        squares = block.square().sum(1)[:, None] + centers.square().sum(1) - 2 * block @ centers.T  # (block, centers)
        scaled = [(squares / (-2 * bandwidth**2)).logsumexp(1) for bandwidth in bandwidths]
        densities.append(torch.stack(scaled).double())
    return torch.cat(densities, 1) - log(len(centers))
