"""Continuous leaves."""

from __future__ import annotations

from dataclasses import dataclass
from math import log, pi

import torch

from torch import Generator, Tensor

from ..checks import whole
from .evidence import Reading
from .family import DOUBLE, LeafFamily, pick
from .intervals import log_interval_mass, sample_intervals

RELATIVE_ERROR = 1e-5


@dataclass(frozen=True)
class Gaussian(LeafFamily):
    """Normal distributions with learnable mean and variance.

        p_j(x) = N(x | mean_j, variance_j)

    The variance is ``min + exp(raw)``, or ``min + (max - min) sigmoid(raw)`` where it has an upper bound.

    Arguments:
        members: The number of distributions per variable l.
        min_variance: The lower bound of the variance.
        max_variance: The upper bound of the variance, if any.
    """

    members: int = 5
    min_variance: float = 1e-6
    max_variance: float | None = None
    is_discrete = False
    is_linear = True
    num_parameters = 2

    def __post_init__(self) -> None:
        whole("members", self.members)
        if not 0 < self.min_variance < (torch.inf if self.max_variance is None else self.max_variance):
            raise ValueError(
                f"expected 0 < min_variance < max_variance, found {self.min_variance} and {self.max_variance}"
            )

    @property
    def width(self) -> int:
        return self.members

    def misfits(self, x: Tensor) -> Tensor:
        return x.isinf()

    def support(self) -> str:
        return "a finite number"

    def moments(self, parameters: Tensor) -> tuple[Tensor, Tensor]:
        mean, raw = parameters.unbind(-1)
        if self.max_variance is None:
            return mean, self.min_variance + raw.exp()
        return mean, self.min_variance + (self.max_variance - self.min_variance) * raw.sigmoid()

    def log_prob(self, parameters: Tensor, x: Tensor) -> Tensor:
        mean, variance = self.moments(parameters)
        return -0.5 * ((x[..., None] - mean).square() / variance + variance.log() + log(2 * pi))

    def region_log_prob(self, parameters: Tensor, x: Tensor, known: Tensor) -> Tensor:
        """The sum is linear in x and x^2, both counted from the mean of the members' means.

            sum_v log p_j(x_v) = sum_v -x_v^2 / 2 s_vj + x_v m_vj / s_vj - (m_vj^2 / s_vj + log 2 pi s_vj) / 2

        Where these terms would cancel each other to less than `RELATIVE_ERROR`, it is summed as it stands.
        """
        mean, variance = self.moments(parameters)  # (U, V, l)
        center = mean.detach().mean(-1, keepdim=True)  # (U, V, 1)
        x, mean = torch.where(known, x - center.mT, 0), mean - center
        precision = variance.reciprocal()
        squares, products = x.square() @ (-0.5 * precision), x @ (mean * precision)  # (U, batch, l)
        constants = -0.5 * (mean.square() * precision + variance.log() + log(2 * pi))  # (U, V, l)
        constants = constants.sum(1, keepdim=True) if known.all() else known.to(x.dtype) @ constants
        total = squares + products + constants
        with torch.no_grad():
            rounding = 2 * torch.finfo(x.dtype).eps * (squares.abs() + products.abs() + constants.abs())
            region, row, member = (rounding > RELATIVE_ERROR * total.abs()).nonzero(as_tuple=True)
        if not len(region):
            return total
        mean, variance = mean.mT[region, member], variance.mT[region, member]  # (canceled, V)
        exact = -0.5 * ((x[region, row] - mean).square() / variance + variance.log() + log(2 * pi))
        return total.index_put((region, row, member), exact.where(known[region, row], 0).sum(-1))

    def modes(self, parameters: Tensor) -> Tensor:
        return parameters[..., 0]

    def sample(self, parameters: Tensor, members: Tensor, generator: Generator | None) -> Tensor:
        mean, variance = self.moments(pick(parameters, members))
        noise = torch.randn(mean.shape, dtype=mean.dtype, device=mean.device, generator=generator)
        return mean + variance.sqrt() * noise

    def log_mass(self, parameters: Tensor, events: Reading) -> Tensor:
        (intervals,) = events  # (batch, variables, intervals, 2)
        mean, variance = (part[..., None] for part in self.moments(parameters.double()))  # (variables, l, 1)
        low, high = ((ends[:, :, None] - mean) / variance.sqrt() for ends in intervals.unbind(-1))
        return log_interval_mass(low, high).logsumexp(-1).to(parameters.dtype)

    def sample_within(
        self, parameters: Tensor, members: Tensor, events: Reading, generator: Generator | None
    ) -> Tensor:
        mean, variance = self.moments(pick(parameters.double(), members))
        low, high = events[0].unbind(-1)
        return sample_intervals(mean, variance.sqrt(), low, high, generator).to(parameters.dtype)

    def statistics(self, x: Tensor) -> Tensor:
        return torch.stack([x, x.square()], -1)

    def expectations(self, parameters: Tensor) -> Tensor:
        mean, variance = self.moments(parameters)
        return torch.stack([mean, variance + mean.square()], -1)

    def fitted(self, expectations: Tensor) -> Tensor:
        mean, square = expectations.unbind(-1)
        excess = square - mean.square() - self.min_variance
        if self.max_variance is None:
            return torch.stack([mean, excess.clamp(DOUBLE.tiny).log()], -1)
        share = excess / (self.max_variance - self.min_variance)
        return torch.stack([mean, share.clamp(DOUBLE.tiny, 1 - DOUBLE.eps).logit()], -1)
