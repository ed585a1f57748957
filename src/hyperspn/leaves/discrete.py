"""Discrete leaves: categories and counts."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from torch import Generator, Tensor
from torch.nn import functional

from ..checks import whole
from .family import DOUBLE, LeafFamily, pick


@dataclass(frozen=True)
class Categorical(LeafFamily):
    """Indicators of c categories, coded 0..c-1: l = c, exact, without parameters. Binary variables are ``Categorical(2)``.

    Sums turn them into distributions, so that each needs a leaf region of its own (else see `Histogram`).

    p_j(x) = 1 if x = j else 0
    """

    categories: int = 2

    def __post_init__(self) -> None:
        whole("categories", self.categories)

    @property
    def width(self) -> int:
        return self.categories

    @property
    def codes(self) -> int:
        return self.categories

    def misfits(self, x: Tensor) -> Tensor:
        return (x < 0) | (x >= self.categories) | (x != x.floor())

    def support(self) -> str:
        return f"a category 0..{self.categories - 1}"

    def log_prob(self, parameters: Tensor, x: Tensor) -> Tensor:
        matches = x[..., None] == torch.arange(self.categories, device=x.device)
        return torch.zeros_like(matches, dtype=x.dtype).masked_fill(~matches, -torch.inf)

    def moments(self, parameters: Tensor) -> tuple[Tensor, Tensor]:
        mean = self.modes(parameters)
        return mean, torch.zeros_like(mean)

    def modes(self, parameters: Tensor) -> Tensor:
        codes = torch.arange(self.categories, dtype=parameters.dtype, device=parameters.device)
        return codes.expand(parameters.shape[:2])

    def sample(self, parameters: Tensor, members: Tensor, generator: Generator | None) -> Tensor:
        return members.to(parameters.dtype)

    def guess(self, parameters: Tensor, posterior: Tensor) -> Tensor:
        return posterior.argmax(-1).to(posterior.dtype)


@dataclass(frozen=True)
class Binomial(LeafFamily):
    """Binomial distributions of a count 0..N with learnable success probability, for example 8-bit pixels.

        p_j(x) = C(N, x) s^x (1 - s)^(N - x),   s = sigmoid(raw_j)

    Arguments:
        members: The number of distributions per variable l.
        total: The largest count N.
    """

    members: int = 5
    total: int = 255
    is_linear = True
    num_parameters = 1

    def __post_init__(self) -> None:
        whole("members", self.members)
        whole("total", self.total)

    @property
    def width(self) -> int:
        return self.members

    @property
    def codes(self) -> int:
        return self.total + 1

    def misfits(self, x: Tensor) -> Tensor:
        return (x < 0) | (x > self.total) | (x != x.floor())

    def support(self) -> str:
        return f"a whole number 0..{self.total}"

    def log_prob(self, parameters: Tensor, x: Tensor) -> Tensor:
        raw, x = parameters[..., 0], x[..., None]
        return self._choices(x) + x * functional.logsigmoid(raw) + (self.total - x) * functional.logsigmoid(-raw)

    def region_log_prob(self, parameters: Tensor, x: Tensor, known: Tensor) -> Tensor:
        raw = parameters[..., 0]  # (U, V, l)
        choices = self._choices(x).where(known, 0).sum(-1, keepdim=True)  # (U, batch, 1)
        hits, misses = x.where(known, 0), (self.total - x).where(known, 0)
        return choices + hits @ functional.logsigmoid(raw) + misses @ functional.logsigmoid(-raw)

    def _choices(self, x: Tensor) -> Tensor:
        """log C(N, x)"""
        total = torch.tensor(float(self.total), dtype=x.dtype, device=x.device)
        return (total + 1).lgamma() - (x + 1).lgamma() - (total - x + 1).lgamma()

    def moments(self, parameters: Tensor) -> tuple[Tensor, Tensor]:
        success = parameters[..., 0].sigmoid()
        return self.total * success, self.total * success * (1 - success)

    def modes(self, parameters: Tensor) -> Tensor:
        return ((self.total + 1) * parameters[..., 0].sigmoid()).floor().clamp(max=self.total)

    def sample(self, parameters: Tensor, members: Tensor, generator: Generator | None) -> Tensor:
        success = pick(parameters, members)[..., 0].sigmoid()
        return torch.binomial(torch.full_like(success, self.total), success, generator=generator)

    def statistics(self, x: Tensor) -> Tensor:
        return x[..., None]

    def expectations(self, parameters: Tensor) -> Tensor:
        return self.moments(parameters)[0][..., None]

    def fitted(self, expectations: Tensor) -> Tensor:
        return (expectations / self.total).logit(DOUBLE.eps)


@dataclass(frozen=True)
class Histogram(LeafFamily):
    """Learnable distributions over c categories, coded 0..c-1: for leaf regions of several variables, like 8-bit pixels.

        p_j(x) = softmax(raw_j)[x]

    Arguments:
        members: The number of distributions per variable l.
        categories: The number of categories c.
    """

    members: int = 5
    categories: int = 256

    def __post_init__(self) -> None:
        whole("members", self.members)
        whole("categories", self.categories)

    @property
    def width(self) -> int:
        return self.members

    @property
    def codes(self) -> int:
        return self.categories

    @property
    def num_parameters(self) -> int:  # type: ignore[override]
        return self.categories

    def misfits(self, x: Tensor) -> Tensor:
        return Categorical(self.categories).misfits(x)

    def support(self) -> str:
        return Categorical(self.categories).support()

    def log_prob(self, parameters: Tensor, x: Tensor) -> Tensor:
        return pick(parameters.log_softmax(-1).mT, x.long())

    def moments(self, parameters: Tensor) -> tuple[Tensor, Tensor]:
        p = parameters.softmax(-1)
        codes = torch.arange(self.categories, dtype=p.dtype, device=p.device)
        mean = p @ codes
        return mean, (p * (codes - mean[..., None]).square()).sum(-1)

    def modes(self, parameters: Tensor) -> Tensor:
        return parameters.argmax(-1).to(parameters.dtype)

    def sample(self, parameters: Tensor, members: Tensor, generator: Generator | None) -> Tensor:
        p = pick(parameters, members).softmax(-1)  # (batch, variables, c)
        return torch.multinomial(p.flatten(0, 1), 1, generator=generator).view(members.shape).to(p.dtype)

    def statistics(self, x: Tensor) -> Tensor:
        return functional.one_hot(x.long(), self.categories).to(x.dtype)

    def expectations(self, parameters: Tensor) -> Tensor:
        return parameters.softmax(-1)

    def fitted(self, expectations: Tensor) -> Tensor:
        return expectations.clamp(min=DOUBLE.tiny).log()

    def guess(self, parameters: Tensor, posterior: Tensor) -> Tensor:
        p = torch.einsum("bvl,vlc->bvc", posterior, parameters.softmax(-1))
        return p.argmax(-1).to(p.dtype)
