"""Bells: the weights of sums over distributions that stand in a row, written as a mean and a width."""

from __future__ import annotations

from math import log
from typing import Any

import numpy as np
import torch

from torch import Tensor
from torch.autograd.function import once_differentiable

WIDTH = 0.5  # where 0 is written
NARROWEST = 0.5  # in steps of the grid
FARTHEST, WIDEST = 20.0, 5.0  # numbers that are written for mean and width beyond these count as these
MEAN_AND_WIDTH = 2  # are the first numbers of a bell; its logit is the last


def bell_logits(written: Tensor, grid: Tensor) -> Tensor:
    """The unnormalized weights of bells and of what is beside them, (..., rows, n + 3) -> (..., rows, m + n).

    Row o of a sector with k rows has first m distributions at the places t_j of a grid, d apart, then n others. It is
    written as (mean, width, n logits of the others, logit of the bell):

        logit_j = logit - (t_j - q_o - mean)^2 / 2 s^2 - log(sqrt(2 pi) s / d),   s = d / 2 + exp(width) / 2

    where q_o is the normal quantile (o + 1/2) / k, so that the bells of a sector begin side by side. Means beyond +-20 count
    as +-20, and widths above 5 as 5: such bells are as good as flat.

    Arguments:
        written: What a source wrote.
        grid: The places t, (m,).
    """
    return Bells.apply(written, grid)


class Bells(torch.autograd.Function):
    """`bell_logits` with few passes through memory."""

    @staticmethod
    def forward(ctx: Any, written: Tensor, grid: Tensor) -> Tensor:
        ctx.save_for_backward(written, grid)
        others, (mean, width, _) = written[..., MEAN_AND_WIDTH:-1], _shape(written, grid)
        height = written[..., -1] - (width / (grid[1] - grid[0])).log() - 0.5 * log(2 * torch.pi)
        logits = written.new_empty(*written.shape[:-1], len(grid) + others.shape[-1])
        bells = torch.sub(grid, mean[..., None], out=logits[..., : len(grid)])  # (..., rows, m)
        bells.mul_(width.reciprocal()[..., None]).square_().mul_(-0.5).add_(height[..., None])
        logits[..., len(grid) :] = others
        return logits

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        written, grid = ctx.saved_tensors
        mean, width, slope = _shape(written, grid)
        distance = (grid - mean[..., None]).mul_(width.reciprocal()[..., None])
        bells = gradient[..., : len(grid)]
        total, weighted = bells.sum(-1), bells * distance
        result = torch.empty_like(written)
        result[..., 0] = weighted.sum(-1) / width * (written[..., 0].abs() <= FARTHEST)
        result[..., 1] = (weighted.mul_(distance).sum(-1) - total) / width * slope
        result[..., 1] *= written[..., 1] <= WIDEST
        result[..., MEAN_AND_WIDTH:-1] = gradient[..., len(grid) :]
        result[..., -1] = total
        return result, None


def _shape(written: Tensor, grid: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The mean and the width s of bells, and ds/dwidth, (..., rows)."""
    slope = WIDTH * written[..., 1].clamp(max=WIDEST).exp()
    mean = written[..., 0].clamp(-FARTHEST, FARTHEST) + quantiles(written.shape[-2]).to(written)
    return mean, NARROWEST * (grid[1] - grid[0]) + slope, slope


def bell_numbers(mean: Tensor, std: Tensor, step: float) -> tuple[Tensor, Tensor]:
    """What to write for bells of these means and standard deviations, (..., rows) -> two of (..., rows)."""
    raw = ((std - NARROWEST * step).clamp(min=1e-3 * step) / WIDTH).log()
    return mean - quantiles(mean.shape[-1]).to(mean), raw


def move_bells(written: Tensor, gradient: Tensor, grid: Tensor, step_size: float) -> Tensor:
    """Moves mean and mean square of bells towards those of the flows f_j through their edges: (..., rows, n + 3), also out.

    The gradients of what is written, where logits get flows, tell these: sum_j f_j is that of the bell's logit, and

        sum_j f_j (t_j - mean) / s^2,   sum_j f_j ((t_j - mean)^2 / s^3 - 1 / s) ds/dwidth

    are those of mean and width. A bell that nothing reaches stays.
    """
    flow, step = gradient[..., -1], float(grid[1] - grid[0])
    mean, std, free = _shape(written, grid)
    total = flow.clamp(min=torch.finfo(flow.dtype).tiny)
    offset = std.square() * gradient[..., 0] / total
    spread = std.square() + std.pow(3) * gradient[..., 1] / (total * free.clamp(min=torch.finfo(free.dtype).tiny))
    new_mean = mean + step_size * offset
    square = torch.lerp(std.square(), spread, step_size) - (new_mean - mean).square()
    moved = torch.stack(bell_numbers(new_mean, square.clamp(min=0).sqrt(), step), -1)
    return torch.cat(
        [torch.where((flow > 0)[..., None], moved, written[..., :MEAN_AND_WIDTH]), written[..., MEAN_AND_WIDTH:]], -1
    )


def quantiles(rows: int) -> Tensor:
    """Where the bells of a sector begin, (rows,)."""
    return torch.special.ndtri(torch.from_numpy((np.arange(rows) + 0.5) / rows))
