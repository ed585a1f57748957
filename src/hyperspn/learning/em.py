"""Expectation maximization: the other way to learn a circuit whose weights are parameters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from torch import Tensor

from ..circuits.circuit import Circuit
from ..engines.layered import FreeLogWeights, log_sum
from ..leaves.evidence import Evidence, Rows
from ..weights.bells import MEAN_AND_WIDTH, move_bells
from ..weights.direct import DirectWeights
from ..weights.sectors import SumLayer
from ..weights.source import WeightSource, normalize
from . import distributed


class EM:
    """Expectation maximization for circuits with `DirectWeights`, on all rows or, as stochastic EM, on batches.

    A step counts how often each edge j of each sum o is used, in expectation over the choices that are hidden, and
    moves the weights towards these flows:

        F[o, j] = sum_x w[o, j] dlog p(x) / dw[o, j]
        w[o, j] <- (1 - step_size) w[o, j] + step_size (F[o, j] + pseudocount / edges) / (sum_j F[o, j] + pseudocount)

    The mixture over roots is one more sum. Leaf distributions move in the same way, by their expected sufficient
    statistics over the values that are known, and bells by the mean and the mean square of the places that their flows
    go to. A sum or a leaf distribution that nothing reaches stays as it is.
    On all rows, with step size 1 and no pseudocount, no step lowers the likelihood.

    Arguments:
        circuit: The circuit, which is changed.
        step_size: How far to go towards the batch's own optimum, > 0 and <= 1.
        pseudocount: How many rows' worth of uniform flow each sum is given.

    Example:
        >>> from hyperspn import SPN
        >>> circuit = SPN(4, replicas=2)
        >>> em = EM(circuit)
        >>> rows = torch.tensor([[0, 0, 1, 1], [1, 1, 0, 0]])
        >>> em.step(rows).sum() < em.step(rows).sum()
        tensor(True)
    """

    def __init__(self, circuit: Circuit, step_size: float = 1.0, pseudocount: float = 0.0) -> None:
        if not isinstance(circuit.weights, DirectWeights):
            raise ValueError(f"expected DirectWeights for EM, found {type(circuit.weights).__name__}")  # noqa: TRY004
        if not 0 < step_size <= 1:
            raise ValueError(f"expected a step_size > 0 and <= 1, found {step_size}")
        if not 0 <= pseudocount < torch.inf:
            raise ValueError(f"expected a pseudocount >= 0, found {pseudocount}")
        self.circuit = circuit
        self.step_size = step_size
        self.pseudocount = pseudocount
        self.logits = list(circuit.weights.logits)
        self.places = [places for layer in circuit.sectors.layers if layer.has_sums for places in _places(layer)]
        if circuit.sectors.num_mixture_weights:
            self.places.append((len(self.logits), torch.arange(len(circuit.mixture))))
            self.logits.append(circuit.mixture)

    def state_dict(self) -> dict[str, Any]:
        return {"step_size": self.step_size, "pseudocount": self.pseudocount}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.step_size, self.pseudocount = state_dict["step_size"], state_dict["pseudocount"]

    @torch.no_grad()
    def step(self, x: Rows | Evidence, weights: WeightSource | None = None) -> Tensor:
        """Learns from a batch, unless a row in it is impossible; several processes, from all their batches together.

        Arguments:
            x: The batch, (batch, variables), or evidence.
            weights: What writes the weights of the circuit in this step (see `Softening`), if not its own source.

        Returns:
            The log-probabilities of the rows before the step, (batch,).
        """
        source = self.circuit.weights if weights is None else weights
        evidence, rows = self.circuit.read(x), self.circuit.engine.rows_at_once
        starts = range(0, max(1, len(evidence)), rows)
        parts = [self._expect(evidence[start : start + rows], source) for start in starts]
        log_ps, *counts = zip(*parts, strict=True)
        log_p, totals = torch.cat(log_ps), [torch.stack(count).sum(0) for count in counts]
        total = log_p.sum(dtype=totals[0].dtype)
        distributed.add([total, *totals])
        if total.isfinite():
            self._maximize(totals)
        return log_p

    def _expect(self, evidence: Evidence, weights: WeightSource) -> tuple[Tensor, ...]:
        """log p, (batch,), and what is expected of the batch: the flows of all logits, leaf statistics."""
        leaves, engine = self.circuit.leaves, self.circuit.engine
        members = [leaves.log_prob(evidence).requires_grad_()] if leaves.parameter_groups() else []
        with torch.enable_grad():
            if members:
                roots = engine.log_values_of(members[0], weights, flows=True)  # (batch, roots)
            else:
                roots = engine.log_values(evidence, leaves, weights, flows=True)
            log_p = log_sum(roots[None], FreeLogWeights.apply(self.circuit.mixture)[None, None])[0, :, 0]
            flows = torch.autograd.grad(evidence.weigh(log_p).sum(), [*self.logits, *members], materialize_grads=True)
        statistics = leaves.statistics(evidence, flows[-1]) if members else []
        return log_p.detach(), *flows[: len(self.logits)], *statistics

    def _maximize(self, counts: Sequence[Tensor]) -> None:
        flows, statistics = counts[: len(self.logits)], counts[len(self.logits) :]
        for layer in self.circuit.sectors.layers:
            if layer.kind.grid:
                self._move_bells(layer, flows[layer.kind_index])
        for index, places in self.places:
            logits = self.logits[index].view(-1)
            logits[places] = self._move(logits[places], flows[index].view(-1)[places])
        self.circuit.leaves.maximize(statistics, self.step_size)

    def _move_bells(self, layer: SumLayer, gradient: Tensor) -> None:
        """Moves means and widths in the sectors of a layer, of which these are the gradients."""
        written, ids = self.logits[layer.kind_index], layer.sectors.flatten()
        shape, grid = (layer.kind.rows, layer.kind.numbers_per_row), layer.kind.places.to(written)
        blocks, gradients = (part[ids].unflatten(1, shape) for part in (written, gradient))
        written[ids] = move_bells(blocks, gradients, grid, self.step_size).flatten(1)

    def _move(self, logits: Tensor, flows: Tensor) -> Tensor:
        """The logarithms of the new weights of sums, one in each row of the last axis."""
        log_weights = normalize(logits)
        flows = flows + self.pseudocount / flows.shape[-1]
        totals = flows.sum(-1, keepdim=True)
        weights = log_weights.exp().lerp(flows / totals, self.step_size)
        return torch.where(totals > 0, weights.log(), log_weights)


def _places(layer: SumLayer) -> list[tuple[int, Tensor]]:
    """Where the logits of a layer's sums are: of which kind, and at which of its places, one sum's in each row."""
    numbers = torch.arange(layer.kind.count * layer.kind.size).view(-1, layer.kind.size)
    if layer.kind.grid:
        blocks = numbers[layer.sectors.flatten()].unflatten(1, (layer.kind.rows, layer.kind.numbers_per_row))
        return [(layer.kind_index, blocks[:, : layer.rows, MEAN_AND_WIDTH:])]
    return [(layer.kind_index, places) for places in layer.sums(numbers[layer.sectors.flatten()])]
