"""The layered engine: PyTorch, log space, layer by layer. The reference for every other engine."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import torch

from torch import Generator, Tensor, nn

from ..leaves.evidence import Evidence
from ..leaves.leaves import Leaves
from ..weights.sectors import Sectors, SumLayer
from ..weights.source import WeightSource, normalize
from .descent import Ascent, LayeredAscent, at_random, descend
from .placed import PlacedSectors, Source

VALUES_AT_ONCE = 2**25

Combine = Callable[[Tensor, Tensor], Tensor]
LeafCombine = Callable[[SumLayer, Tensor, Tensor], Tensor]


class Inputs(NamedTuple):
    """What goes into the sums of a layer, in log space: vectors, or pairs of vectors with all products of two entries."""

    left: Tensor  # (U, batch, P, outputs of the left child, or all inputs)
    right: Tensor | None  # (U, batch, P, outputs of the right child)

    def products(self, regions: Tensor | slice = slice(None), rows: Tensor | slice = slice(None)) -> Tensor:
        """All inputs, (U, batch, P columns), or those of some regions, each in one row, (regions, P columns)."""
        left = self.left[regions, rows]
        if self.right is None:
            return left.flatten(-2)
        return (self.right[regions, rows][..., None] + left[..., None, :]).flatten(-3)


def log_sum(inputs: Tensor, log_weights: Tensor) -> Tensor:
    """log sum_j exp(log_weights[u, o, j] + inputs[u, b, j]): (U, batch, J), (U, O, J) -> (U, batch, O).

    A matrix product once the largest input is factored out; term by term where so little is left that it lost digits.
    """
    shift = _finite(inputs.detach().amax(-1, keepdim=True))  # (U, batch, 1)
    sums = (inputs - shift).exp() @ log_weights.exp().mT
    return _replace_vanishing(shift + _log(sums), sums, Inputs(inputs[:, :, None], None), log_weights)


def log_einsum(inputs: Inputs, log_weights: Tensor) -> Tensor:
    """The same for all products of left and right, log sum_{p, j, i} w[u, o, (p, j, i)] right[u, b, p, j] left[u, b, p, i]."""
    left, right = inputs
    assert right is not None
    largest = left.detach().amax(-1, keepdim=True)  # (U, batch, P, 1)
    shift = _finite((largest + right.detach().amax(-1, keepdim=True)).amax(2))  # (U, batch, 1)
    left, right = (left - _finite(largest)).exp(), (right + (largest - shift[..., None])).exp()
    products = right[..., None] @ left[..., None, :]  # (U, batch, P, right, left)
    sums = products.flatten(2) @ log_weights.exp().mT
    return _replace_vanishing(shift + _log(sums), sums, inputs, log_weights)


def _replace_vanishing(log_sums: Tensor, sums: Tensor, inputs: Inputs, log_weights: Tensor) -> Tensor:
    """Replaces the logarithms of vanishing sums by sums of logarithms: (U, batch, O) -> (U, batch, O)."""
    numbers = torch.finfo(sums.dtype)
    lost = (sums.detach() < log_weights.shape[-1] * numbers.tiny / numbers.eps).any(-1)
    if not lost.any():
        return log_sums
    regions, rows = lost.nonzero(as_tuple=True)
    terms = inputs.products(regions, rows)[:, None] + log_weights[regions]  # (lost, O, J)
    shift = _finite(terms.detach().amax(-1, keepdim=True))
    exact = (shift + _log((terms - shift).exp().sum(-1, keepdim=True)))[..., 0]
    return log_sums.index_put((regions, rows), exact)


def log_max(inputs: Tensor, log_weights: Tensor) -> Tensor:
    """max_j log_weights[u, o, j] + inputs[u, b, j]: (U, batch, J), (U, O, J) -> (U, batch, O)."""
    return torch.stack([(inputs + of_output[:, None]).amax(-1) for of_output in log_weights.unbind(1)], -1)


class FreeLogWeights(torch.autograd.Function):
    """`normalize`, whose logits get dL / dlog w = w dL / dw, the gradients of the log-weights as if these were free."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor) -> Tensor:
        return normalize(logits)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return gradient


class LayeredEngine(nn.Module):
    """Evaluates all regions of a layer at once, on any device, in float32 or float64, with autograd.

    Arguments:
        sectors: The layers of the circuit.
    """

    def __init__(self, sectors: Sectors) -> None:
        super().__init__()
        self.sectors = sectors
        self.placed = PlacedSectors(sectors)

    def __repr__(self) -> str:
        return "layered"

    @property
    def rows_upward(self) -> int:
        """How many rows to send upward at a time where memory matters."""
        per_row = sum(len(layer.sectors) * layer.partitions * layer.columns for layer in self.sectors.layers)
        per_row += sum(layer.factors.numel() * layer.columns for layer in self.sectors.layers if layer.is_leaf)
        return max(1, VALUES_AT_ONCE // per_row)

    @property
    def rows_at_once(self) -> int:
        """How many rows to ask for log-values at a time where memory matters."""
        return self.rows_upward

    def rows_both_ways(self, leaves: Leaves) -> int:
        """The same for passes that come down again."""
        return self.rows_upward

    def rows_downward(self, leaves: Leaves) -> int:
        """How many travelers to send down at a time."""
        return self.rows_upward * len(self.sectors.structure.roots)

    def log_values(self, evidence: Evidence, leaves: Leaves, weights: WeightSource, flows: bool = False) -> Tensor:
        """The log-value of every root, (batch, roots).

        With `flows`, the unnormalized weights get the expected flow through each edge in place of their gradient:
        w dL/dw with free weights w, which is the sum over the batch of the posterior that the edge is used.
        """
        scopes = [layer.variables for layer in self.placed if layer.plan.is_leaf]
        if all(leaves.is_linear(scope) for scope in scopes):
            regions = [leaves.region_log_prob(evidence, scope) for scope in scopes]
            return self._upward(regions, weights, log_sum, flows)[0]
        return self.upward(leaves.log_prob(evidence), weights, flows=flows)[0]

    def log_values_of(self, leaf_log_probs: Tensor, weights: WeightSource, flows: bool = False) -> Tensor:
        """The same for given log-densities of the leaves, (batch, variables, l).

        These get gradients, the posteriors of the leaf distributions; the weights get none, or flows.
        """
        source = weights if flows else lambda kind, ids: weights(kind, ids).detach()
        return self.upward(leaf_log_probs, source, flows=flows)[0]

    def upward(
        self,
        leaf_log_probs: Tensor,
        weights: Callable[[int, Tensor], Tensor],
        combine: Combine = log_sum,
        flows: bool = False,
        at_leaves: LeafCombine | None = None,
    ) -> tuple[Tensor, list[Inputs]]:
        """Evaluates the circuit from the leaves to the roots.

        Arguments:
            leaf_log_probs: The log-densities of the variables, (batch, variables, l).
            weights: Who writes the weights.
            combine: What a sum node does: `log_sum` or `log_max`.
            flows: Whether the gradients of the weights are expected flows.
            at_leaves: What the sum nodes of a leaf layer do, if not the same.

        Returns:
            The log-values of the roots, (batch, roots), and the inputs of each layer's sums.
        """
        leaves = leaf_log_probs.transpose(0, 1)  # (variables, batch, l)
        regions = [
            leaves[layer.factors, :, : layer.plan.columns]
            .unflatten(0, layer.variables.shape)
            .sum(1)  # (U, batch, columns)
            for layer in self.placed
            if layer.plan.is_leaf
        ]
        return self._upward(regions, weights, combine, flows, at_leaves)

    def ascend(self, evidence: Evidence, leaves: Leaves, weights: WeightSource, best: bool = False) -> Ascent:
        """Evaluates a batch so that travelers can go down from its roots.

        With `best`, through the best input of each sum, unknown values at the modes of their distributions; else inputs
        are drawn from their posterior.
        """
        leaf_log_probs = leaves.log_prob(evidence, modes=best)
        values, inputs = self.upward(leaf_log_probs, weights, log_max if best else log_sum)
        return LayeredAscent(self.placed, weights, values, inputs, best)

    def descend(self, roots: Tensor, leaves: Leaves, weights: WeightSource, generator: Generator | None) -> Tensor:
        """Sends travelers down from roots, (travelers,), where nothing is known: (travelers, variables)."""
        return descend(self.placed, weights, roots, at_random(generator))

    def _upward(
        self,
        leaf_regions: list[Tensor],
        weights: Callable[[int, Tensor], Tensor],
        combine: Combine,
        flows: bool,
        at_leaves: LeafCombine | None = None,
    ) -> tuple[Tensor, list[Inputs]]:
        """The same for the log-densities of the leaf regions of each leaf layer, (U, batch, columns)."""
        remaining = iter(leaf_regions)
        outputs: list[Tensor] = []
        inputs: list[Inputs] = []
        normalized = FreeLogWeights.apply if flows else normalize
        for placed in self.placed:
            layer = placed.plan
            if layer.is_leaf:
                inputs.append(Inputs(next(remaining)[:, :, None], None))
            else:
                count = len(layer.sectors) * layer.partitions
                left, *right = (_multiply(sources, outputs, count) for sources in placed.sides)  # (U P, batch, k)
                left, *right = (side.unflatten(0, (-1, layer.partitions)).transpose(1, 2) for side in (left, *right))
                inputs.append(Inputs(left, right[0] if right else None))
            if not layer.has_sums:
                outputs.append(inputs[-1].products())
                continue
            logits = weights(layer.kind_index, placed.sectors.flatten())
            log_weights = layer.assemble(logits, normalized)  # (U, rows, P columns)
            if layer.is_outer and combine is log_sum:
                outputs.append(log_einsum(inputs[-1], log_weights))  # (U, batch, rows)
            elif layer.is_leaf and at_leaves is not None:
                outputs.append(at_leaves(layer, inputs[-1].products(), log_weights))
            else:
                outputs.append(combine(inputs[-1].products(), log_weights))
        roots = _multiply(self.placed.root_sources, outputs, len(self.placed.roots))  # (roots, batch, 1)
        return roots[..., 0].T, inputs


def _finite(largest: Tensor) -> Tensor:
    return largest.masked_fill(largest == -torch.inf, 0)


def _log(values: Tensor) -> Tensor:
    """The logarithm, with gradient 0 where it is -inf."""
    zero = values == 0
    return values.masked_fill(zero, 1).log().masked_fill(zero, -torch.inf)


def _multiply(sources: Iterable[Source], outputs: list[Tensor], count: int) -> Tensor:
    """Multiplies the sources' values element by element into `count` products, in log space: (count, batch, values)."""
    total: Tensor | None = None
    for source in sources:
        values = outputs[source.layer]  # (slots, batch, values)
        if total is None:
            total = values.new_zeros(count, *values.shape[1:])
        total = total.index_add(0, source.targets, values.index_select(0, source.slots))
    assert total is not None
    return total
