"""Leaf families: what a distribution at the bottom of a circuit can do."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace

import torch

from torch import Generator, Tensor

from .evidence import Reading

DOUBLE = torch.finfo(torch.float64)


@dataclass(frozen=True)
class LeafFamily:
    """A family of distributions with l = `width` members per variable.

    A family is only a description. Parameters, where it has any, have shape (variables, l, parameters) and are
    passed in; x has shape (batch, variables).

    What may be known of a variable beside a value is an event: for a family with `codes` 0..codes-1, the likelihood
    of each code; for others, disjoint intervals.
    """

    is_discrete = True
    is_linear = False
    is_prepared = False
    num_parameters = 0

    @property
    def width(self) -> int:
        raise NotImplementedError

    @property
    def codes(self) -> int | None:
        """The number of codes of a discrete family whose values are 0..codes-1."""
        return None

    @property
    def grid(self) -> tuple[float, ...]:
        """The places of the first members on a line, if they have any: the weights of sums over them are bells."""
        return ()

    def kin(self) -> Hashable:
        """Families of equal kin are evaluated together, as the family that `join` returns."""
        return self

    @staticmethod
    def join(families: Sequence[LeafFamily]) -> LeafFamily:
        """One family for the variables of several of equal kin."""
        return families[0]

    def times(self, copies: int) -> LeafFamily:
        """The family with the members of several alike, one after the other; those without parameters are the same in all."""
        if not self.num_parameters:
            return self
        return replace(self, members=copies * self.members)  # type: ignore[attr-defined, call-arg]

    def initial(self, variables: int) -> Tensor:
        """Starting values of the parameters, (variables, l, parameters)."""
        return torch.randn(variables, self.width, self.num_parameters)

    def misfits(self, x: Tensor) -> Tensor:
        """Which of the values, (batch, variables), are not in the support."""
        raise NotImplementedError

    def support(self) -> str:
        """The support in words, for error messages."""
        raise NotImplementedError

    def read(self, x: Tensor, dtype: torch.dtype) -> Reading:
        """What `log_prob` takes in place of values in float64, for families that are `is_prepared`."""
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

    def read_events(self, events: Tensor) -> Reading:
        """What `log_mass` and `sample_within` take in place of likelihoods, (batch, variables, codes), or of intervals.

        Intervals are [low, high), (batch, variables, intervals, 2), in float64; empty ones fill up.
        """
        return (events,)

    def log_mass(self, parameters: Tensor, events: Reading) -> Tensor:
        """The log-mass of events under each member, (batch, variables, l): log sum_x likelihood(x) p_j(x)."""
        (likelihoods,) = events
        return torch.einsum("bvc,vlc->bvl", likelihoods.to(parameters), self._probabilities(parameters)).log()

    def sample_within(
        self, parameters: Tensor, members: Tensor, events: Reading, generator: Generator | None
    ) -> Tensor:
        """Draws from the chosen members within events, (batch, variables)."""
        (likelihoods,) = events
        weights = likelihoods.to(parameters) * pick(
            self._probabilities(parameters), members
        )  # (batch, variables, codes)
        return torch.multinomial(weights.flatten(0, 1), 1, generator=generator).view(members.shape).to(parameters.dtype)

    def _probabilities(self, parameters: Tensor) -> Tensor:
        """p_j(x) of every code x, (variables, l, codes)."""
        assert self.codes is not None
        x = torch.arange(self.codes, dtype=parameters.dtype, device=parameters.device)
        log_p = self.log_prob(parameters, x[:, None].expand(-1, len(parameters)))  # (codes, variables, l)
        return log_p.exp().permute(1, 2, 0)

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

    def expected_statistics(self, parameters: Tensor, x: Tensor | Reading) -> Tensor:
        """The mean of T under each member given what is known, (batch, variables, 1 or l, parameters)."""
        assert isinstance(x, Tensor)
        return self.statistics(x.double())[:, :, None]

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


def pick(values: Tensor, members: Tensor) -> Tensor:
    """Picks ``values[v, members[b, v]]`` for every row b and variable v: (variables, l, ...) -> (batch, variables, ...)."""
    return values[torch.arange(len(values), device=members.device), members]
