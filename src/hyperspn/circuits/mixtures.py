"""Mixtures of circuits over the same variables (section 4.2)."""

from __future__ import annotations

import json
import os

from collections.abc import Callable, Sequence
from functools import cached_property
from math import log
from pathlib import Path
from typing import Any

import torch

from torch import Generator, Tensor, nn
from torch.nn import functional

from ..checks import whole
from ..engines.layered import log_sum
from ..files import tensors_to_bytes, write
from ..leaves.evidence import Evidence, Rows
from ..leaves.joined import JoinedLeaves
from ..leaves.leaves import Events
from . import queries
from .circuit import FORMAT_VERSION, Circuit

MIXTURE = "mixture.safetensors"
MIXTURE_FORMAT = "hyperspn mixture"


class Mixture(nn.Module):
    """A mixture of circuits over the same variables, which answers the same queries as a circuit.

        p(x) = sum_c weights_c p_c(x)

    With centers, each circuit models its rows relative to a center and in units of a scale (see `fit_clusters`):

        p(x) = sum_c weights_c scale^-n p_c((x - centers_c) / scale)

    The density is that of x in its own units. In units of the scale, as published for images (scale 255), a complete
    row's log p is larger by n log scale; and -log p / (n log 2) bits per dimension are for a density, not to be
    compared with those of a probability of whole numbers.

    Arguments:
        components: The circuits, all over the same n variables with the same leaf families.
        weights: The probability of each component, (components,).
        centers: What each component counts from, (components, n), for continuous leaves; None for 0.
        scale: What differences from the center are divided by.

    Attributes:
        notes: Whatever should be saved with the mixture, as JSON can hold it.

    Example:
        >>> from hyperspn import SPN
        >>> mixture = Mixture([SPN(4, replicas=1, seed=seed) for seed in range(3)], torch.tensor([0.5, 0.3, 0.2]))
        >>> mixture.log_prob(torch.tensor([[0.0, 1.0, torch.nan, 1.0]])).shape
        torch.Size([1])
    """

    components: Any  # the circuits
    log_weights: Tensor
    centers: Tensor | None

    def __init__(
        self, components: Sequence[Circuit], weights: Tensor, centers: Tensor | None = None, scale: float = 1.0
    ) -> None:
        super().__init__()
        _check_components(components)
        _check_weights(weights, centers, scale, components)
        self.components = nn.ModuleList(components)
        self.register_buffer("log_weights", (weights / weights.sum()).log())
        self.register_buffer("centers", centers)
        self.scale = float(scale)
        self.notes: dict[str, Any] = {}

    @cached_property
    def leaves(self) -> JoinedLeaves:
        """The leaf distributions of all components, in the order of `marginals`."""
        return JoinedLeaves([circuit.leaves for circuit in self.components])

    @property
    def num_variables(self) -> int:
        return self.components[0].num_variables

    @property
    def num_parameters(self) -> int:
        """The number of learnable parameters of all components."""
        return sum(circuit.num_parameters for circuit in self.components)

    def read(self, x: Rows | Evidence, missing: Rows | None = None, events: Events | None = None) -> Evidence:
        """Checks rows once; every query takes the evidence in place of rows (see `Leaves.read`)."""
        return self.components[0].read(x, missing, events)

    def forward(self, x: Rows | Evidence, missing: Rows | None = None) -> Tensor:
        """log p(x), with missing values integrated out: (batch,)."""
        return _sum(self.joint_log_prob(x, missing))

    log_prob = forward
    conditional_log_prob = queries.conditional_log_prob

    def joint_log_prob(self, x: Rows | Evidence, missing: Rows | None = None) -> Tensor:
        """log p(x, component), (batch, components)."""
        evidence = self.read(x, missing)
        parts = [circuit.log_prob(self._local(c, evidence)) for c, circuit in enumerate(self.components)]
        known = evidence.known.sum(1, keepdim=True).to(self.log_weights)  # (batch, 1)
        return torch.stack(parts, 1) + self.log_weights - known * log(self.scale)

    @torch.no_grad()
    def marginals(self, x: Rows | Evidence, missing: Rows | None = None) -> Tensor:
        """The posterior of every variable given what is known of its row: (batch, variables, l).

        For a categorical variable entry [b, v, j] is p(X_v = j | row b). Leaf distributions with parameters are
        others in each component (see `JoinedLeaves`).
        """
        evidence = self.read(x, missing)
        joint = self._joint(evidence)
        parts = self._ask(lambda c, rows: self.components[c].marginals(rows), evidence, joint)
        return self.leaves.posterior(parts * joint.softmax(1).T[..., None, None])  # (components, batch, variables, l)

    @torch.no_grad()
    def leave_one_out(self, x: Rows | Evidence, missing: Rows | None = None) -> tuple[Tensor, Tensor]:
        """What the rest of a row says of each variable (see `queries.leave_one_out`).

        p(x_v | rest) = sum_c P(c | rest) p_c(x_v | rest),   P(c | rest) ~ weights_c p_c(rest)
        """
        evidence = self.read(x, missing)
        answers = [queries.rest_of_rows(part, self._local(c, evidence)) for c, part in enumerate(self.components)]
        log_rest, log_density, posterior = (torch.stack(parts) for parts in zip(*answers, strict=True))
        can_be = log_rest > -torch.inf  # (components, batch, variables)
        log_shares = log_rest.where(can_be, -torch.inf) + self.log_weights[:, None, None]
        log_shares = log_shares.log_softmax(0)
        density = (log_shares + log_density).where(can_be, -torch.inf).logsumexp(0) - evidence.known * log(self.scale)
        return density, self.leaves.posterior(log_shares.exp()[..., None] * posterior.where(can_be[..., None], 0))

    @torch.no_grad()
    def root_states(self, x: Rows | Evidence, missing: Rows | None = None) -> Tensor:
        """P(c, r, s | row): component, root in it, and input of its sum: (batch, roots of all components, inputs)."""
        evidence = self.read(x, missing)
        joint = self._joint(evidence)
        parts = self._answers(lambda c, rows: self.components[c].root_states(rows), evidence, joint)
        inputs = max(part.shape[2] for part in parts)
        shares = joint.softmax(1).T[..., None, None]  # (components, batch, 1, 1)
        padded = [functional.pad(part, (0, inputs - part.shape[2])) for part in parts]
        return torch.cat([part * share for part, share in zip(padded, shares, strict=True)], 1)

    @torch.no_grad()
    def moments(self, x: Rows | Evidence, missing: Rows | None = None) -> tuple[Tensor, Tensor]:
        """Mean and variance of every variable given what is known of its row, two of (batch, variables).

        A known value is its own mean, with variance 0. Categories count as their codes.
        """
        evidence = self.read(x, missing)
        joint = self._joint(evidence)
        posterior = joint.softmax(1).T[..., None]  # (components, batch, 1)
        parts = self._ask(lambda c, rows: torch.stack(self.components[c].moments(rows), 1), evidence, joint)
        means, variances = self._global(parts[:, :, 0]), parts[:, :, 1] * self.scale**2  # (components, batch, n)
        mean = (posterior * means).sum(0)
        variance = (posterior * (variances + (means - mean).square())).sum(0)
        return torch.where(evidence.known, evidence.values, mean), variance.masked_fill(evidence.known, 0)

    @torch.no_grad()
    def impute(self, x: Rows | Evidence, missing: Rows | None = None) -> Tensor:
        """Fills every hole with the best single guess for it, and keeps the rest: (batch, variables).

        The guess is the most probable category, the mean of a continuous variable, the rounded mean of a count.
        """
        evidence = self.read(x, missing)
        guess = self.leaves.guess(self.marginals(evidence)) if self.centers is None else self.moments(evidence)[0]
        return self._as_data(torch.where(evidence.known, evidence.values, guess))

    @torch.no_grad()
    def sample(self, n: int, generator: Generator | None = None) -> Tensor:
        """Draws n rows, (n, variables)."""
        scores = self.log_weights.expand(whole("the number of samples", n, least=0), -1)  # (n, components)
        return self._draw(scores, lambda c, rows: self.components[c].sample(len(rows), generator), generator)

    @torch.no_grad()
    def sample_given(
        self, x: Rows | Evidence, missing: Rows | None = None, n: int = 1, generator: Generator | None = None
    ) -> Tensor:
        """Draws n completions of each row from p(missing | known), (batch, n, variables)."""
        evidence = self.read(x, missing)
        scores = self._joint(evidence).repeat_interleave(whole("the number of samples", n), 0)  # (batch n, components)

        def complete(c: int, rows: Tensor) -> Tensor:
            return self.components[c].sample_given(self._local(c, evidence[rows // n]), generator=generator)[:, 0]

        draws = self._draw(scores, complete, generator).view(-1, n, self.num_variables)
        return self._as_data(torch.where(evidence.known[:, None], evidence.values[:, None], draws))

    @torch.no_grad()
    def most_probable(self, x: Rows | Evidence, missing: Rows | None = None) -> Tensor:
        """The best of the components' completions of each row, (batch, variables): a guess (see `queries.most_probable`)."""
        evidence = self.read(x, missing)
        joint = self._joint(evidence)
        parts = self._ask(lambda c, rows: _complete(self.components[c], rows), evidence, joint)
        completed, scores = self._global(parts[..., :-1]), parts[..., -1].T + self.log_weights
        best = scores.masked_fill(joint == -torch.inf, -torch.inf).argmax(1)  # (batch,)
        rows = completed[best, torch.arange(len(best), device=best.device)]
        return self._as_data(torch.where(evidence.known, evidence.values, rows))

    @torch.no_grad()
    def most_probable_bound(self, x: Rows | Evidence, missing: Rows | None = None) -> Tensor:
        """An upper bound of log p of each row's most probable completion (see `queries`), (batch,)."""
        evidence = self.read(x, missing)
        parts = [circuit.most_probable_bound(self._local(c, evidence)) for c, circuit in enumerate(self.components)]
        return _sum(torch.stack(parts, 1) + self.log_weights) - self.num_variables * log(self.scale)

    def __repr__(self) -> str:
        weights = ", ".join(f"{weight:.3g}" for weight in self.log_weights.exp().tolist())
        around = "" if self.centers is None else f" around centers, in units of {self.scale:g}"
        first = f"{self.components[0]!r}".replace("\n", "\n  ")
        return f"Mixture of {len(self.components)} circuits{around}\n  weights {weights}\n  the first: {first}"

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes one safetensors file: all components and what joins them; in a folder that exists, ``mixture.safetensors``."""
        contents = [circuit.contents() for circuit in self.components]
        arrays = {
            f"components.{c}.{name}": array for c, (part, _) in enumerate(contents) for name, array in part.items()
        }
        tensors = {"log_weights": self.log_weights, "scale": torch.tensor(self.scale), "centers": self.centers}
        arrays |= {name: value.cpu().numpy() for name, value in tensors.items() if value is not None}
        config = json.dumps({"components": [config for _, config in contents], "notes": self.notes})
        header = {"format": MIXTURE_FORMAT, "version": str(FORMAT_VERSION), "config": config}
        write(Path(path) / MIXTURE if Path(path).is_dir() else path, tensors_to_bytes(arrays, header))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Mixture:
        """Reads a mixture that `save` wrote: its file, or its folder, also that of version 0.1.0."""
        from .loading import load_mixture

        return load_mixture(path)

    def _joint(self, evidence: Evidence) -> Tensor:
        """log p(row, component), (batch, components), once every row is known to be possible."""
        joint = self.joint_log_prob(evidence)
        queries.check_possible(joint.amax(1))
        return joint

    def _ask(self, question: Callable[[int, Evidence], Tensor], evidence: Evidence, joint: Tensor) -> Tensor:
        """What each component answers, (components, batch, ...), 0 for rows that it cannot explain."""
        return torch.stack(self._answers(question, evidence, joint))

    def _answers(self, question: Callable[[int, Evidence], Tensor], evidence: Evidence, joint: Tensor) -> list[Tensor]:
        """The same where answers have their own shapes, (batch, ...)."""
        answers = []
        for c, is_possible in enumerate((joint > -torch.inf).T):
            answer = question(c, self._local(c, evidence[is_possible]))
            answers.append(answer.new_zeros(len(joint), *answer.shape[1:]).index_put((is_possible,), answer))
        return answers

    def _draw(self, scores: Tensor, draw: Callable[[int, Tensor], Tensor], generator: Generator | None) -> Tensor:
        """Chooses a component for each row by its scores, (rows, components), and lets it draw these rows."""
        chosen = torch.multinomial(scores.softmax(1), 1, generator=generator)[:, 0] if len(scores) else scores[:, 0]
        places = [(chosen == c).nonzero()[:, 0] for c in range(len(self.components))]
        draws = torch.cat([draw(c, rows) for c, rows in enumerate(places)])[torch.cat(places).argsort()]
        if self.centers is not None:
            draws = draws * self.scale + self.centers[chosen.long()]
        return self._as_data(draws)

    def _local(self, component: int, evidence: Evidence) -> Evidence:
        """The rows as a component sees them."""
        if self.centers is None:
            return evidence
        if evidence.events:
            raise ValueError("expected values, found events: a mixture of circuits around centers knows none")
        rows = (evidence.values - self.centers[component]) / self.scale
        return self.components[component].read(rows.masked_fill(evidence.missing, torch.nan))

    def _global(self, rows: Tensor) -> Tensor:
        """Rows of all components in their own units, (components, batch, variables)."""
        return rows if self.centers is None else rows * self.scale + self.centers[:, None]

    def _as_data(self, rows: Tensor) -> Tensor:
        return rows.long() if self.components[0].leaves.is_discrete else rows


def _complete(circuit: Circuit, evidence: Evidence) -> Tensor:
    """The circuit's completion of each row, and last its log-probability: (batch, variables + 1)."""
    rows = circuit.most_probable(evidence)
    return torch.cat([rows, circuit.log_prob(rows)[:, None]], 1)


def _sum(joint: Tensor) -> Tensor:
    """log sum_c exp(joint[:, c]): (batch, components) -> (batch,)."""
    return log_sum(joint[None], joint.new_zeros(1, 1, joint.shape[1]))[0, :, 0]


def _check_components(components: Sequence[Circuit]) -> None:
    sizes = sorted({circuit.num_variables for circuit in components})
    if len(sizes) != 1:
        raise ValueError(f"expected circuits over the same variables, found numbers of variables {sizes}")
    for variable, families in enumerate(zip(*(circuit.leaves.families for circuit in components), strict=True)):
        if len(different := list(dict.fromkeys(families))) > 1:
            raise ValueError(
                f"expected the same leaf family in all circuits, found {different[0]} and {different[1]} "
                f"for variable {variable}"
            )


def _check_weights(weights: Tensor, centers: Tensor | None, scale: float, components: Sequence[Circuit]) -> None:
    shape = (len(components), components[0].num_variables)
    if weights.shape != shape[:1] or (centers is not None and centers.shape != shape):
        raise ValueError(
            f"expected a weight and a center for each of {len(components)} circuits, "
            f"found weights {tuple(weights.shape)} and centers {None if centers is None else tuple(centers.shape)}"
        )
    if not (weights.min() >= 0 and 0 < weights.sum() < torch.inf and 0 < scale < torch.inf):
        raise ValueError(f"expected weights >= 0 and a scale > 0, found {weights.tolist()} and {scale}")
    if centers is None and scale != 1:
        raise ValueError(f"expected centers beside a scale, found scale {scale} without them")
    if centers is not None and (centers.any() or scale != 1) and _has_discrete_leaves(components[0]):
        raise ValueError("expected continuous leaves around the centers, found discrete ones")


def _has_discrete_leaves(circuit: Circuit) -> bool:
    return any(family.is_discrete for family in circuit.leaves.distinct)
