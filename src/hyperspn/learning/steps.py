"""What one step of a run does, and one evaluation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import cos, pi
from time import perf_counter
from typing import NamedTuple

import numpy as np
import torch

from torch import Tensor
from torch.optim import Optimizer

from ..circuits.circuit import Circuit
from ..data.streams import Stream, Window
from ..kernel import rounded_subnormals
from ..leaves.evidence import Evidence
from ..weights.source import WeightSource
from . import distributed
from .averaging import Averaging
from .checkpoint import LogEntry
from .em import EM
from .regularizers import Dropout

Learner = Optimizer | Averaging | EM

EVALUATED_ROWS = 5000


class Conditional(NamedTuple):
    """How much predicting a target counts, and which variable it is, (variables,), bool."""

    weight: float
    target: Tensor


class Training:
    """What one step of a run does, and one evaluation.

    Arguments:
        circuit: The circuit, which is changed.
        train: The rows to learn, or a stream of them.
        valid: The rows that decide, if any.
        weights: Writes the weights while the circuit learns.
        learner: The optimizer.
        batch_size: The number of rows in a batch.
        annealed_steps: Over how many steps the learning rates rise and fall; None if they stay.
        seed: Determines batches.
        conditional: The target and how much it counts, if it does.
    """

    def __init__(
        self,
        circuit: Circuit,
        train: Evidence | Stream,
        valid: Evidence | None,
        weights: WeightSource,
        learner: Learner,
        batch_size: int,
        annealed_steps: int | None,
        seed: int,
        conditional: Conditional | None = None,
    ) -> None:
        self.circuit, self.train, self.valid, self.weights, self.learner = circuit, train, valid, weights, learner
        self.batch_size, self.annealed_steps, self.seed, self.conditional = (
            batch_size,
            annealed_steps,
            seed,
            conditional,
        )
        shown = circuit.read(train.sample) if isinstance(train, Stream) else train
        self.shown = shown[batch_rows(len(shown), EVALUATED_ROWS, seed, step=0)]
        self._window: tuple[Window, Evidence] | None = None
        self.rates = [] if isinstance(learner, EM) else [group["lr"] for group in learner.param_groups]

    def learn(self, step: int) -> None:
        """One step of the optimizer, on a batch of its own."""
        batch = self._batch(step)
        if isinstance(self.learner, EM):
            _total(_log_prob(self.learner.step, batch, step, self.weights), step)
            return
        self.learner.zero_grad()
        weights = self.weights.at(step) if isinstance(self.weights, Dropout) else self.weights
        log_p = batch.weigh(self._objective(batch, step, weights))
        log_p.sum().neg().backward()
        parameters = [parameter for group in self.learner.param_groups for parameter in group["params"]]
        _total(log_p, step, [parameter.grad for parameter in parameters if parameter.grad is not None])
        part = 1.0 if self.annealed_steps is None else annealing_factor(step, self.annealed_steps)
        for group, rate in zip(self.learner.param_groups, self.rates, strict=True):
            group["lr"] = part * rate
        with rounded_subnormals():  # the moments of gradients that vanish
            self.learner.step()

    @torch.no_grad()
    def evaluate(self, step: int, start: float) -> LogEntry:
        """The mean log-likelihoods of training and validation rows, the latter None without any, and the time since then."""
        if not all((parameter < torch.inf).all() for parameter in self.circuit.parameters()):
            raise FloatingPointError(_not_finite("parameters that are not", step))
        means = {"train": self._mean(self.shown, step), "valid": self._mean(self.valid, step)}
        return distributed.first(lambda: {"step": step, **means, "seconds": perf_counter() - start})

    def _batch(self, step: int) -> Evidence:
        """What this process learns from at a step: its part of the batch."""
        if isinstance(self.train, Stream):
            part = distributed.part(min(self.batch_size, len(self.train)))
            return self._read(self.train.batch(self.batch_size, step, part))
        rows = batch_rows(len(self.train), self.batch_size, self.seed, step)
        return self.train[rows[distributed.part(len(rows))]]

    def _read(self, slices: Sequence[tuple[Window, slice]]) -> Evidence:
        """The evidence of a batch from files. A window is read once for all batches within it."""
        if len(slices) > 1:
            return self.circuit.read(np.concatenate([window.rows[rows] for window, rows in slices]))
        [(window, rows)] = slices
        if self._window is None or self._window[0] is not window:
            self._window = window, self.circuit.read(window.rows)
        return self._window[1][rows]

    def _mean(self, rows: Evidence | None, step: int) -> float | None:
        if rows is None:
            return None
        mine = rows[distributed.part(len(rows))]
        return _total(mine.weigh(self._objective(mine, step).double()), step) / len(rows)

    def _objective(self, rows: Evidence, step: int, weights: WeightSource | None = None) -> Tensor:
        """log p(x, y) - w log p(x), or log p(x) of all variables if none is a target, (rows,)."""
        log_p = _log_prob(self.circuit.log_prob, rows, step, weights)
        if self.conditional is None:
            return log_p
        others = rows.without(self.conditional.target.to(rows.missing.device))
        return log_p - self.conditional.weight * _log_prob(self.circuit.log_prob, others, step, weights)


def batch_rows(rows: int, batch_size: int, seed: int, step: int) -> Tensor:
    """The rows of the batch of one step: different ones, drawn by seed and step alone."""
    generator = np.random.default_rng((seed, step))
    return torch.from_numpy(generator.choice(rows, min(batch_size, rows), replace=False, shuffle=False))


def annealing_factor(step: int, steps: int) -> float:
    """The part of the learning rates that is used at a step: all of it after a fiftieth of the steps, none in the end.

    min(1, 50 t) (1 + cos(pi t)) / 2,   t = step / steps
    """
    time = step / steps
    return min(1.0, 50 * time) * (1 + cos(pi * time)) / 2


def _log_prob(
    log_prob: Callable[..., Tensor], rows: Evidence, step: int, weights: WeightSource | None = None
) -> Tensor:
    """log p of some rows, (rows,); without finite weights the run cannot go on."""
    try:
        return log_prob(rows, weights=weights)
    except ValueError as error:
        raise FloatingPointError(_not_finite("weights that are not", step)) from error


def _total(log_p: Tensor, step: int, gradients: Sequence[Tensor] = ()) -> float:
    """The sum of log p of all rows in all processes, which also add up their gradients; it is finite, or the run cannot go on."""
    total = log_p.detach().sum()
    distributed.add([total, *gradients])
    if not total.isfinite():
        raise FloatingPointError(_not_finite(f"a log-likelihood of {total:g}", step))
    return total.item()


def _not_finite(what: str, step: int) -> str:
    advice = "try a smaller learning rate (with EM, a smaller step size or a pseudocount), in another folder"
    return f"expected finite numbers, found {what} at step {step}: {advice}"
