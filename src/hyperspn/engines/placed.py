"""Placed sectors: the index tensors of a circuit on the device of its parameters."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from torch import Tensor, nn

from ..weights.sectors import Sectors, SumLayer


class Source(nn.Module):
    """Factors of a layer's products: values `slots` of a layer go into products `targets`.

    Arguments:
        layer: The layer that holds the values.
        slots: Which of its regions.
        targets: Which of the products.
    """

    slots: Tensor
    targets: Tensor

    def __init__(self, layer: int, slots: Tensor, targets: Tensor) -> None:
        super().__init__()
        self.layer = layer
        _place(self, slots=slots, targets=targets)


class PlacedLayer(nn.Module):
    """A layer with its index tensors (see `SumLayer`), and where the factors of its products come from.

    Arguments:
        plan: The layer.
        sides: The sources of all factors together, or of the left ones and of the right ones; none of a leaf.
    """

    sectors: Tensor
    factors: Tensor
    offsets: Tensor
    sides: Any  # of each side its sources

    def __init__(self, plan: SumLayer, sides: list[list[Source]]) -> None:
        super().__init__()
        self.plan = plan
        self.sides = nn.ModuleList(map(nn.ModuleList, sides))
        _place(self, sectors=plan.sectors, factors=plan.factors, offsets=plan.offsets)

    @property
    def variables(self) -> Tensor:
        """Those of each leaf region, (U, V)."""
        return self.factors.view(len(self.sectors), -1)


class PlacedSectors(nn.Module):
    """The layers of a circuit, with all index tensors as buffers: they are moved once, with it, and are in no file.

    Arguments:
        sectors: The layers.
    """

    layer_of: Tensor
    slot_of: Tensor
    roots: Tensor
    layers: Any  # of `PlacedLayer`
    root_sources: Any

    def __init__(self, sectors: Sectors) -> None:
        super().__init__()
        self.num_variables = sectors.structure.num_variables
        roots = torch.from_numpy(sectors.structure.roots)
        _place(self, layer_of=sectors.layer_of, slot_of=sectors.slot_of, roots=roots)
        self.layers = nn.ModuleList(PlacedLayer(layer, self._sources_of(layer)) for layer in sectors.layers)
        self.root_sources = nn.ModuleList(self._group_by_layer(roots, torch.from_numpy(np.arange(len(roots)))))

    def __iter__(self) -> Iterator[PlacedLayer]:
        return iter(self.layers)

    def _sources_of(self, layer: SumLayer) -> list[list[Source]]:
        """Of all factors together, or of the left ones and of the right ones."""
        if layer.is_leaf:
            return []
        counts = layer.offsets.diff().numpy()
        targets = torch.from_numpy(np.arange(len(counts)).repeat(counts))
        sides = 2 if layer.is_outer else 1
        return [self._group_by_layer(layer.factors[side::sides], targets[side::sides]) for side in range(sides)]

    def _group_by_layer(self, regions: Tensor, targets: Tensor) -> list[Source]:
        """Groups factors by the layer that holds their values."""
        layers, slots = self.layer_of[regions], self.slot_of[regions]
        return [Source(layer, slots[layers == layer], targets[layers == layer]) for layer in layers.unique().tolist()]


def _place(module: nn.Module, **tensors: Tensor) -> None:
    for name, tensor in tensors.items():
        module.register_buffer(name, tensor, persistent=False)
