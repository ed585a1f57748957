"""The way down: from roots, through one input of each sum, to one distribution of each variable."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

import torch

from torch import Generator, Tensor

from ..weights.sectors import ragged_gather
from ..weights.source import WeightSource, normalize
from .placed import PlacedLayer, PlacedSectors

if TYPE_CHECKING:
    from .layered import Inputs

Choice = Callable[[Tensor], Tensor]  # picks one of the scored inputs, (sums, inputs) -> (sums,)


class Ascent(Protocol):
    """What an upward pass leaves for the way down."""

    @property
    def values(self) -> Tensor:
        """The log-values of the roots, (batch, roots)."""

    def descend(self, roots: Tensor, rows: Tensor, generator: Generator | None) -> Tensor:
        """Goes down to one distribution of each variable, (travelers, variables).

        Arguments:
            roots: The root from which each traveler starts, (travelers,).
            rows: The row of the batch to which it belongs, (travelers,).
            generator: The random numbers, if inputs are drawn.
        """


class LayeredAscent:
    """Log-values, with the inputs of each layer's sums.

    Arguments:
        sectors: The layers of the circuit.
        weights: Who writes the weights.
        values: The log-values of the roots, (batch, roots).
        inputs: The inputs of each layer's sums.
        best: Whether to choose the best input, and not to draw one.
    """

    def __init__(
        self, sectors: PlacedSectors, weights: WeightSource, values: Tensor, inputs: list[Inputs], best: bool
    ) -> None:
        self.sectors = sectors
        self.weights = weights
        self.values = values
        self.inputs = inputs
        self.best = best

    def descend(self, roots: Tensor, rows: Tensor, generator: Generator | None) -> Tensor:
        choose = _best if self.best else at_random(generator)
        return descend(self.sectors, self.weights, roots, choose, self.inputs, rows)


def at_random(generator: Generator | None) -> Choice:
    """Draws index j with probability proportional to exp(scores[:, j]) (the Gumbel trick)."""

    def choose(scores: Tensor) -> Tensor:
        noise = torch.empty_like(scores).exponential_(generator=generator)
        return (scores - noise.clamp(min=torch.finfo(noise.dtype).tiny).log()).argmax(-1)

    return choose


def _best(scores: Tensor) -> Tensor:
    return scores.argmax(-1)


def descend(
    sectors: PlacedSectors,
    weights: WeightSource,
    roots: Tensor,
    choose: Choice,
    inputs: list[Inputs] | None = None,
    rows: Tensor | None = None,
) -> Tensor:
    """Goes down layer by layer.

    Arguments:
        sectors: The layers of the circuit.
        weights: Who writes the weights.
        roots: The root from which each traveler starts, (travelers,).
        choose: Picks one of the scored inputs of each sum.
        inputs: The inputs of each layer's sums from the upward pass, if they count.
        rows: The row of the batch to which each traveler belongs, (travelers,).

    Returns:
        The leaf distribution chosen for each variable, (travelers, variables).
    """
    layers = list(sectors)
    arrivals: list[list[Tensor]] = [[] for _ in layers]

    def arrive(travelers: Tensor, regions: Tensor, outputs: Tensor) -> None:
        arriving = torch.stack([travelers, sectors.slot_of[regions], outputs])  # (3, arrivals)
        places = sectors.layer_of[regions]
        for index in places.unique().tolist():
            arrivals[index].append(arriving[:, places == index])

    members = roots.new_zeros(len(roots), sectors.num_variables)
    arrive(torch.arange(len(roots), device=roots.device), sectors.roots[roots], torch.zeros_like(roots))
    for index, placed in reversed(list(enumerate(layers))):
        if not arrivals[index]:
            continue
        layer, (travelers, slots, outputs) = placed.plan, torch.cat(arrivals[index], 1)
        choice = outputs
        if layer.has_sums:
            scores = log_weights_of(weights, placed, slots, outputs)  # (arrivals, P columns)
            if inputs is not None and rows is not None:
                scores = scores + inputs[index].products(slots, rows[travelers])
            choice = choose(scores)
        products = slots * layer.partitions + choice // layer.columns
        places, owners = ragged_gather(placed.offsets, products)
        factors = placed.factors[places]
        chosen = layer.element((choice % layer.columns)[owners], places > placed.offsets[products][owners])
        if layer.is_leaf:
            members[travelers[owners], factors] = chosen
        else:
            arrive(travelers[owners], factors, chosen)
    return members


def log_weights_of(weights: WeightSource, placed: PlacedLayer, slots: Tensor, outputs: Tensor) -> Tensor:
    """The log-weights of single sum nodes of a layer, (slots,), (slots,) -> (slots, P columns)."""
    used, places = slots.unique(return_inverse=True)
    logits = weights(placed.plan.kind_index, placed.sectors[used].flatten())
    return placed.plan.assemble(logits, normalize)[places, outputs]
