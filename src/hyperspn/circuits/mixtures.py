"""Mixtures of circuits over the same variables (section 4.2)."""

from __future__ import annotations

import os

from collections.abc import Callable, Sequence
from math import log
from pathlib import Path
from typing import Any

import torch

from torch import Generator, Tensor, nn

from ..files import tensors_to_bytes, write
from ..leaves.evidence import Evidence, Rows, as_tensor
from .circuit import Circuit
from .loading import MIXTURE, component_file, load_mixture


class ClusterMixture(nn.Module):
    """A mixture of circuits, each of which models its cluster's rows relative to their mean.

        p(x) = sum_c weights_c scale^-n p_c((x - centers_c) / scale)

    The density is that of x in its own units. In units of the scale, as published for images (scale 255), a complete
    row's log p is larger by n log scale; and -log p / (n log 2) bits per dimension are for a density, not to be
    compared with those of a probability of whole numbers.

    Arguments:
        components: The circuits, all over the same n variables.
        weights: The probability of each component, (components,).
        centers: The mean of each cluster, (components, n).
        scale: What differences from the mean are divided by.
    """

    components: Any  # the circuits
    log_weights: Tensor
    centers: Tensor

    def __init__(self, components: Sequence[Circuit], weights: Tensor, centers: Tensor, scale: float = 1.0) -> None:
        super().__init__()
        sizes = {circuit.num_variables for circuit in components}
        if len(sizes) != 1 or centers.shape != (len(components), *sizes) or weights.shape != (len(components),):
            raise ValueError(
                f"expected a weight and a center for each of {len(components)} circuits over the same variables, "
                f"found weights {tuple(weights.shape)} and centers {tuple(centers.shape)}"
            )
        if not (weights.min() >= 0 and weights.sum() > 0 and scale > 0):
            raise ValueError(f"expected weights >= 0 and a scale > 0, found {weights.tolist()} and {scale}")
        if any(circuit.leaves.is_discrete for circuit in components) and (centers.any() or scale != 1):
            raise ValueError("expected continuous leaves around the centers, found discrete ones")
        self.components = nn.ModuleList(components)
        self.register_buffer("log_weights", (weights / weights.sum()).log())
        self.register_buffer("centers", centers)
        self.scale = float(scale)

    @property
    def num_variables(self) -> int:
        return self.centers.shape[1]

    def forward(self, x: Rows, missing: Rows | None = None) -> Tensor:
        """log p(x), with missing values integrated out: (batch,)."""
        return self.joint_log_prob(x, missing).logsumexp(1)

    log_prob = forward

    def joint_log_prob(self, x: Rows, missing: Rows | None = None) -> Tensor:
        """log p(x, component), (batch, components)."""
        evidence = self._read(x, missing)
        known = (~evidence.missing).sum(1).to(self.centers.dtype)  # (batch,)
        parts = [circuit.log_prob(self._local(c, evidence)) for c, circuit in enumerate(self.components)]
        return torch.stack(parts, 1) + self.log_weights - known[:, None] * log(self.scale)

    def conditional_log_prob(self, x: Rows, query: Rows, missing: Rows | None = None) -> Tensor:
        """log p(x_query | x_rest), (batch,)."""
        evidence = self._read(x, missing)
        rest = evidence.missing | as_tensor(query, "query").to(evidence.missing.device)
        return self.log_prob(x, evidence.missing) - self.log_prob(x, rest)

    @torch.no_grad()
    def moments(self, x: Rows, missing: Rows | None = None) -> tuple[Tensor, Tensor]:
        """Mean and variance of every variable given what is known of its row, two of (batch, variables)."""
        evidence = self._read(x, missing)
        posterior = self.joint_log_prob(x, missing).softmax(1).T[..., None]  # (components, batch, 1)
        found = [circuit.moments(self._local(c, evidence)) for c, circuit in enumerate(self.components)]
        means = torch.stack([self._global(c, mean) for c, (mean, _) in enumerate(found)])  # (components, batch, n)
        variances = torch.stack([variance * self.scale**2 for _, variance in found])
        mean = (posterior * means).sum(0)
        variance = (posterior * (variances + (means - mean).square())).sum(0)
        return torch.where(evidence.missing, mean, evidence.values), variance.masked_fill(~evidence.missing, 0)

    def impute(self, x: Rows, missing: Rows | None = None) -> Tensor:
        """Fills every hole with its mean given the known values, rounded where variables are discrete: (batch, variables)."""
        mean = self.moments(x, missing)[0]
        return mean.round().long() if self._is_discrete else mean

    @torch.no_grad()
    def sample(self, n: int, generator: Generator | None = None) -> Tensor:
        """Draws n rows, (n, variables)."""
        if n < 0:
            raise ValueError(f"expected a number of samples >= 0, found {n}")
        return self._drawn(
            self.log_weights.expand(n, -1), lambda c, rows: self._sample(c, len(rows), generator), generator
        )

    @torch.no_grad()
    def sample_given(
        self, x: Rows, missing: Rows | None = None, n: int = 1, generator: Generator | None = None
    ) -> Tensor:
        """Draws n completions of each row from p(missing | known), (batch, n, variables)."""
        if n < 1:
            raise ValueError(f"expected a number of samples >= 1, found {n}")
        evidence = self._read(x, missing)
        joint = self.joint_log_prob(x, missing).repeat_interleave(n, 0)  # (batch n, components)

        def draw(c: int, rows: Tensor) -> Tensor:
            own = evidence[rows // n]
            drawn = self.components[c].sample_given(self._local(c, own), generator=generator)[:, 0]
            return torch.where(own.missing, self._global(c, drawn), own.values)

        return self._drawn(joint, draw, generator).view(-1, n, self.num_variables)

    @torch.no_grad()
    def most_probable(self, x: Rows, missing: Rows | None = None) -> Tensor:
        """The best of the components' most probable completions of each row, (batch, variables)."""
        evidence = self._read(x, missing)
        completed = torch.stack(
            [
                self._global(c, circuit.most_probable(self._local(c, evidence)))
                for c, circuit in enumerate(self.components)
            ]
        )  # (components, batch, n)
        completed = torch.where(evidence.missing, completed, evidence.values)
        scores = torch.stack([self.joint_log_prob(rows)[:, c] for c, rows in enumerate(completed)])
        return completed[scores.argmax(0), torch.arange(len(evidence.values))]

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Writes a folder: one file for each component, and last the one that joins them."""
        Path(folder).mkdir(parents=True, exist_ok=True)
        (Path(folder) / MIXTURE).unlink(missing_ok=True)
        for c, circuit in enumerate(self.components):
            circuit.save(component_file(folder, c))
        tensors = {"log_weights": self.log_weights, "centers": self.centers, "scale": torch.tensor(self.scale)}
        arrays = {name: value.cpu().numpy() for name, value in tensors.items()}
        write(Path(folder) / MIXTURE, tensors_to_bytes(arrays))

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> ClusterMixture:
        """Reads a mixture that `save` wrote."""
        return cls(*load_mixture(folder))

    @property
    def _is_discrete(self) -> bool:
        return bool(self.components[0].leaves.is_discrete)

    def _read(self, x: Rows, missing: Rows | None) -> Evidence:
        return self.components[0].leaves.read(x, missing)

    def _local(self, component: int, evidence: Evidence) -> Tensor:
        """The rows as a component sees them, NaN where missing."""
        rows = (evidence.values - self.centers[component]) / self.scale
        return rows.masked_fill(evidence.missing, torch.nan)

    def _global(self, component: int, rows: Tensor) -> Tensor:
        return rows * self.scale + self.centers[component]

    def _sample(self, component: int, n: int, generator: Generator | None) -> Tensor:
        return self._global(component, self.components[component].sample(n, generator))

    def _drawn(self, joint: Tensor, draw: Callable[[int, Tensor], Tensor], generator: Generator | None) -> Tensor:
        """Chooses a component for each row by its log-probabilities, and lets it draw the row."""
        rows = joint.new_empty(len(joint), self.num_variables)
        if len(joint):
            chosen = torch.multinomial(joint.softmax(1), 1, generator=generator)[:, 0]
            for c in chosen.unique().tolist():
                own = (chosen == c).nonzero()[:, 0]
                rows[own] = draw(c, own).to(rows.dtype)
        return rows.long() if self._is_discrete else rows
