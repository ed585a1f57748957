"""Expectation maximisation: the other way to learn a circuit whose weights are parameters."""

from __future__ import annotations

from typing import Any

import torch

from torch import Tensor

from ..circuit import Circuit
from ..weights import DirectWeights, normalize


class EM:
    """Expectation maximisation for circuits with `DirectWeights`, on all rows or, as stochastic EM, on batches.

    A step counts how often each edge j of each sum o is used, in expectation over the choices that are hidden, and
    moves the weights towards these flows:

        F[o, j] = sum_x w[o, j] dlog p(x) / dw[o, j]
        w[o, j] <- (1 - step_size) w[o, j] + step_size (F[o, j] + pseudocount / edges) / (sum_j F[o, j] + pseudocount)

    The mixture over roots is one more sum. Leaf distributions move in the same way, by their expected sufficient
    statistics over the values that are known. A sum or a leaf distribution that nothing reaches stays as it is.
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
        numbers = [torch.arange(kind.count * kind.size).view(-1, kind.size) for kind in circuit.sectors.kinds]
        self.places = [  # of the logits of each layer's sums among those of their kind, (U, rows, P columns)
            layer.assemble(numbers[layer.kind_index][layer.sectors.flatten()]) for layer in circuit.sectors.layers
        ]

    def state_dict(self) -> dict[str, Any]:
        return {"step_size": self.step_size, "pseudocount": self.pseudocount}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.step_size, self.pseudocount = state_dict["step_size"], state_dict["pseudocount"]

    @torch.no_grad()
    def step(self, x: Tensor) -> Tensor:
        """Learns from a batch, (batch, variables). Returns log p of its rows before the step, (batch,)."""
        parts = [self._expected(rows) for rows in x.split(self.circuit.engine.rows_at_once)]
        log_p, *counts = zip(*parts, strict=True)
        self._maximize(*(torch.stack(count).sum(0) for count in counts))
        return torch.cat(log_p)

    def _expected(self, x: Tensor) -> tuple[Tensor, ...]:
        """log p(x), (batch,), and what is expected of the batch: the flows of mixture and sectors, leaf statistics."""
        leaves, engine, weights = self.circuit.leaves, self.circuit.engine, self.circuit.weights
        evidence = leaves.read(x)
        members = [leaves.log_prob(evidence).requires_grad_()] if leaves.parameter_groups() else []
        with torch.enable_grad():
            if members:
                roots = engine.log_values_of(members[0], weights, flows=True)  # (batch, roots)
            else:
                roots = engine.log_values(evidence, leaves, weights, flows=True)
        scores = roots.detach() + normalize(self.circuit.mixture)
        posterior = scores.softmax(-1)
        found = torch.autograd.grad(roots, [*self.logits, *members], posterior, materialize_grads=True)
        flows = found[: len(self.logits)]
        statistics = leaves.statistics(evidence, found[-1]) if members else []
        return scores.logsumexp(-1), posterior.sum(0), *flows, *statistics

    def _maximize(self, mixture: Tensor, *counts: Tensor) -> None:
        flows, statistics = counts[: len(self.logits)], counts[len(self.logits) :]
        self.circuit.mixture.copy_(self._moved(self.circuit.mixture, mixture))
        for layer, places in zip(self.circuit.sectors.layers, self.places, strict=True):
            logits = self.logits[layer.kind_index].view(-1)
            logits[places] = self._moved(logits[places], flows[layer.kind_index].view(-1)[places])
        self.circuit.leaves.maximize(statistics, self.step_size)

    def _moved(self, logits: Tensor, flows: Tensor) -> Tensor:
        """The logarithms of the new weights of sums, one in each row of the last axis."""
        log_weights = normalize(logits)
        flows = flows + self.pseudocount / flows.shape[-1]
        totals = flows.sum(-1, keepdim=True)
        weights = log_weights.exp().lerp(flows / totals, self.step_size)
        return torch.where(totals > 0, weights.log(), log_weights)
