"""Leaves: the distributions of single variables at the bottom of a circuit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import log, pi
from typing import Any, NamedTuple

import numpy as np
import torch

from torch import Generator, Tensor, nn
from torch.nn import functional

DOUBLE = torch.finfo(torch.float64)
RELATIVE_ERROR = 1e-5


class Evidence(NamedTuple):
    """Checked input: values where they are known, and which are not."""

    values: Tensor  # (batch, variables), 0 where missing
    missing: Tensor  # (batch, variables), bool


@dataclass(frozen=True)
class LeafFamily:
    """A family of distributions with l = `width` members per variable.

    A family is only a description. Parameters, where it has any, have shape (variables, l, parameters) and are
    passed in; x has shape (batch, variables).
    """

    is_discrete = True
    is_linear = False
    num_parameters = 0

    @property
    def width(self) -> int:
        raise NotImplementedError

    def misfits(self, x: Tensor) -> Tensor:
        """Which of the values, (batch, variables), are not in the support."""
        raise NotImplementedError

    def support(self) -> str:
        """The support in words, for error messages."""
        raise NotImplementedError

    def log_prob(self, parameters: Tensor, x: Tensor) -> Tensor:
        """The log-density under each member, (batch, variables, l)."""
        raise NotImplementedError

    def region_log_prob(self, parameters: Tensor, x: Tensor, known: Tensor) -> Tensor:
        """The log-densities of whole regions of V variables, as matrix products, for families that are `is_linear`.

        Arguments:
            parameters: Of U regions, (U, V, l, parameters).
            x: The values, (U, batch, V).
            known: Which of them count, (U, batch, V).

        Returns:
            The sum over the variables of each region, (U, batch, l).
        """
        raise NotImplementedError

    def moments(self, parameters: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and variance of each member, (variables, l)."""
        raise NotImplementedError

    def modes(self, parameters: Tensor) -> Tensor:
        """The most probable value of each member, (variables, l)."""
        raise NotImplementedError

    def sample(self, parameters: Tensor, members: Tensor, generator: Generator | None) -> Tensor:
        """Draws from the chosen members, (batch, variables)."""
        raise NotImplementedError

    def statistics(self, x: Tensor) -> Tensor:
        """The sufficient statistics T of each value, (batch, variables, parameters)."""
        raise NotImplementedError

    def expectations(self, parameters: Tensor) -> Tensor:
        """The mean of T under each member, (variables, l, parameters)."""
        raise NotImplementedError

    def fitted(self, expectations: Tensor) -> Tensor:
        """The parameters under which T has these means, or the most likely ones within their bounds."""
        raise NotImplementedError

    def guess(self, parameters: Tensor, posterior: Tensor) -> Tensor:
        """The best single value under a mixture of the members, (batch, variables, l) -> (batch, variables)."""
        mean = (posterior * self.moments(parameters)[0]).sum(-1)
        return mean.round() if self.is_discrete else mean


@dataclass(frozen=True)
class Categorical(LeafFamily):
    """Indicators of c categories, coded 0..c-1: l = c, exact, without parameters. Binary variables are ``Categorical(2)``.

    Sums turn them into distributions, so that each needs a leaf region of its own (else see `Histogram`).

    p_j(x) = 1 if x = j else 0
    """

    categories: int = 2

    def __post_init__(self) -> None:
        _check_at_least(1, categories=self.categories)

    @property
    def width(self) -> int:
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
        _check_at_least(1, members=self.members)
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
        mean, variance = mean.mT[region, member], variance.mT[region, member]  # (cancelled, V)
        exact = -0.5 * ((x[region, row] - mean).square() / variance + variance.log() + log(2 * pi))
        return total.index_put((region, row, member), exact.where(known[region, row], 0).sum(-1))

    def modes(self, parameters: Tensor) -> Tensor:
        return parameters[..., 0]

    def sample(self, parameters: Tensor, members: Tensor, generator: Generator | None) -> Tensor:
        mean, variance = self.moments(_chosen(parameters, members))
        noise = torch.randn(mean.shape, dtype=mean.dtype, device=mean.device, generator=generator)
        return mean + variance.sqrt() * noise

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
        _check_at_least(1, members=self.members, total=self.total)

    @property
    def width(self) -> int:
        return self.members

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
        success = _chosen(parameters, members)[..., 0].sigmoid()
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
        _check_at_least(1, members=self.members, categories=self.categories)

    @property
    def width(self) -> int:
        return self.members

    @property
    def num_parameters(self) -> int:  # type: ignore[override]
        return self.categories

    def misfits(self, x: Tensor) -> Tensor:
        return Categorical(self.categories).misfits(x)

    def support(self) -> str:
        return Categorical(self.categories).support()

    def log_prob(self, parameters: Tensor, x: Tensor) -> Tensor:
        return _chosen(parameters.log_softmax(-1).mT, x.long())

    def moments(self, parameters: Tensor) -> tuple[Tensor, Tensor]:
        p = parameters.softmax(-1)
        codes = torch.arange(self.categories, dtype=p.dtype, device=p.device)
        mean = p @ codes
        return mean, (p * (codes - mean[..., None]).square()).sum(-1)

    def modes(self, parameters: Tensor) -> Tensor:
        return parameters.argmax(-1).to(parameters.dtype)

    def sample(self, parameters: Tensor, members: Tensor, generator: Generator | None) -> Tensor:
        p = _chosen(parameters, members).softmax(-1)  # (batch, variables, c)
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


class Leaves(nn.Module):
    """The leaf distributions of all variables, shared by all replicas.

    Where variables differ in their number of distributions, arrays over them are padded up to the largest, l.

    Arguments:
        families: The family of each variable.
    """

    def __init__(self, families: Sequence[LeafFamily]) -> None:
        super().__init__()
        self.families = tuple(families)
        self.distinct = tuple(dict.fromkeys(self.families))
        numbers = {family: index for index, family in enumerate(self.distinct)}
        self.family_of = torch.tensor([numbers[family] for family in self.families], device="cpu")
        self.variables = [(self.family_of == index).nonzero()[:, 0] for index in range(len(self.distinct))]
        self.raw = nn.ParameterList(
            nn.Parameter(torch.randn(len(own), family.width, family.num_parameters), family.num_parameters > 0)
            for family, own in zip(self.distinct, self.variables, strict=True)
        )

    @property
    def is_discrete(self) -> bool:
        return all(family.is_discrete for family in self.distinct)

    def parameter_groups(self) -> list[dict[str, Any]]:
        learnable = [parameter for parameter in self.raw if parameter.requires_grad]
        return [{"name": "leaves", "params": learnable, "lr": 1e-2}] if learnable else []

    def read(self, x: Tensor | np.ndarray, missing: Tensor | np.ndarray | None = None) -> Evidence:
        """Checks a table and finds its holes: NaN, or True in `missing`.

        Arguments:
            x: The table, (batch, variables), of bool, integer or float.
            missing: Where values are to be ignored, (batch, variables) or (variables,), of bool.
        """
        values = as_tensor(x, "x").to(self.raw[0].device)
        values = values.byte() if values.dtype == torch.bool else values
        if values.ndim != 2 or values.shape[1] != len(self.families):
            raise ValueError(f"expected x of shape (batch, {len(self.families)}), found {tuple(values.shape)}")
        holes = values.isnan()
        if missing is not None:
            mask = as_tensor(missing, "missing").to(values.device)
            if mask.dtype != torch.bool or mask.shape not in (values.shape, values.shape[1:]):
                raise ValueError(
                    f"expected missing to be bool of shape {tuple(values.shape)}, found {mask.dtype} {tuple(mask.shape)}"
                )
            holes = holes | mask
        values = values.masked_fill(holes, 0)
        self._check_support(values)
        return Evidence(values.to(self.raw[0].dtype), holes)

    def _check_support(self, values: Tensor) -> None:
        found = [family.misfits(self._own(values, own)) for family, own, _ in self._groups()]
        misfits = _ordered(found, self.variables)
        if misfits.any():
            row, column = misfits.nonzero()[0].tolist()
            expected, value = self.families[column].support(), values[row, column].item()
            raise ValueError(f"expected {expected} in column {column}, found {value:g} in row {row}")

    def log_prob(self, evidence: Evidence, modes: bool = False, categorical: bool = True) -> Tensor:
        """The log-density of each variable under each of its distributions, (batch, variables, l), padded with -inf.

        A missing value is integrated out, log 1 = 0, or stands at each distribution's own mode if `modes`.
        Without `categorical` variables where only the others are wanted.
        """
        groups = [group for group in self._groups() if categorical or not isinstance(group[0], Categorical)]
        width = max(family.width for family, _, _ in groups)
        columns = []
        for family, own, raw in groups:
            known = family.log_prob(raw, self._own(evidence.values, own))  # (batch, own, width)
            unknown = known.new_zeros(())
            if modes:
                unknown = family.log_prob(raw, family.modes(raw).T).diagonal(dim1=0, dim2=2)  # (own, width)
            filled = torch.where(self._own(evidence.missing, own)[..., None], unknown, known)
            columns.append(functional.pad(filled, (0, width - family.width), value=-torch.inf))
        return _ordered(columns, [own for _, own, _ in groups])

    def is_linear(self, regions: Tensor) -> bool:
        """Whether `region_log_prob` serves regions of these variables, (U, V)."""
        return len(self.distinct) == 1 and self.distinct[0].is_linear and regions.shape[1] > 1

    def region_log_prob(self, evidence: Evidence, regions: Tensor) -> Tensor:
        """The log-density of regions of V variables under each of their distributions: (U, V) -> (U, batch, l)."""
        regions = regions.to(evidence.values.device)
        x, missing = (table[:, regions].transpose(0, 1) for table in evidence)  # (U, batch, V)
        return self.distinct[0].region_log_prob(self.raw[0][regions], x, ~missing)

    def sample(self, members: Tensor, generator: Generator | None = None) -> Tensor:
        """Draws each variable from the chosen one of its distributions, (batch, variables)."""
        drawn = [family.sample(raw, members[:, own], generator) for family, own, raw in self._groups()]
        return _ordered(drawn, self.variables)

    def modes(self, members: Tensor) -> Tensor:
        """The most probable value of the chosen distributions, (batch, variables)."""
        modes = [_chosen(family.modes(raw), members[:, own]) for family, own, raw in self._groups()]
        return _ordered(modes, self.variables)

    def guess(self, posterior: Tensor) -> Tensor:
        """The best single value under each variable's mixture, (batch, variables, l) -> (batch, variables)."""
        guesses = [family.guess(raw, posterior[:, own, : family.width]) for family, own, raw in self._groups()]
        return _ordered(guesses, self.variables)

    def moments(self, posterior: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and variance of each variable's mixture, (batch, variables, l) -> two of (batch, variables)."""
        means, variances = [], []
        for family, own, raw in self._groups():
            weights = posterior[:, own, : family.width]
            mean, variance = family.moments(raw)
            means.append((weights * mean).sum(-1))
            variances.append((weights * (variance + (mean - means[-1][..., None]).square())).sum(-1))
        return _ordered(means, self.variables), _ordered(variances, self.variables)

    def statistics(self, evidence: Evidence, posterior: Tensor) -> list[Tensor]:
        """What a batch says about the distributions j of each variable v, as far as its values x are known.

            sum_b posterior[b, v, j] (1, T(x_bv))

        Arguments:
            evidence: The batch.
            posterior: The posterior of each variable's distributions, (batch, variables, l).

        Returns:
            The sums for each family that has parameters, (own variables, l, 1 + parameters), in float64.
        """
        known = posterior.masked_fill(evidence.missing[..., None], 0).double()
        sums = []
        for family, own, _ in self._learnable():
            statistics = family.statistics(self._own(evidence.values, own).double())  # (batch, own, parameters)
            counted = functional.pad(statistics, (1, 0), value=1)  # (batch, own, 1 + parameters)
            sums.append(torch.einsum("bvj,bvs->vjs", known[:, own, : family.width], counted))
        return sums

    @torch.no_grad()
    def maximize(self, statistics: Sequence[Tensor], step_size: float) -> None:
        """Moves the expectation of T under each distribution towards its mean in such sums; those unseen stay."""
        for (family, _, raw), sums in zip(self._learnable(), statistics, strict=True):
            counts, totals = sums[..., :1], sums[..., 1:]
            expectations = family.expectations(raw.double()).lerp(totals / counts, step_size)
            raw.copy_(torch.where(counts > 0, family.fitted(expectations), raw))

    def _learnable(self) -> Iterator[tuple[LeafFamily, Tensor, Tensor]]:
        return (group for group in self._groups() if group[0].num_parameters)

    def _groups(self) -> Iterator[tuple[LeafFamily, Tensor, Tensor]]:
        """Each distinct family with its variables and their parameters."""
        for family, own, raw in zip(self.distinct, self.variables, self.raw, strict=True):
            yield family, own.to(raw.device), raw

    def _own(self, table: Tensor, variables: Tensor) -> Tensor:
        """The columns of one family."""
        return table if len(self.distinct) == 1 else table[:, variables]


def as_tensor(x: Tensor | np.ndarray, name: str) -> Tensor:
    """Accepts tensors and arrays of bool, integer or float, and nothing else."""
    if isinstance(x, np.ndarray) and x.dtype.kind in "biuf":
        small = x.dtype in (np.bool_, np.uint8, np.float32)
        return torch.from_numpy(np.array(x, x.dtype if small else np.float64 if x.dtype.kind == "f" else np.int64))
    if isinstance(x, Tensor) and not x.is_complex():
        return x.long() if x.dtype in (torch.uint16, torch.uint32, torch.uint64) else x
    found = x.dtype if isinstance(x, (Tensor, np.ndarray)) else type(x).__name__
    raise ValueError(f"expected {name} to be a tensor or array of bool, integer or float, found {found}")


def _ordered(columns: list[Tensor], variables: list[Tensor]) -> Tensor:
    """Puts the columns of several families into the order of their variables."""
    if len(columns) == 1:
        return columns[0]
    return torch.cat(columns, 1).index_select(1, torch.cat(variables).argsort().to(columns[0].device))


def _chosen(values: Tensor, members: Tensor) -> Tensor:
    """Picks ``values[v, members[b, v]]`` for every row b and variable v: (variables, l, ...) -> (batch, variables, ...)."""
    return values[torch.arange(len(values), device=members.device), members]


def _check_at_least(least: int, **arguments: int) -> None:
    for name, value in arguments.items():
        if not isinstance(value, int) or value < least:
            raise ValueError(f"expected {name} to be a whole number >= {least}, found {value!r}")
