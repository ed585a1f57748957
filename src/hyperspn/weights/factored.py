"""Factored weights: a latent vector for each replica, a linear head for each region."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import torch

from torch import Tensor, nn

from ..checks import whole
from ..structures import RegionGraph
from .layouts import Layout
from .network import relu_network
from .sectors import Sectors
from .source import Init, WeightSource, arguments_as_text, initial


class FactoredWeights(WeightSource):
    """A latent vector of each replica and a linear head of each region, with a small network in between.

        weights(r, u) = base_u + head_u net(latents[r])

    All replicas are the same tree, so that one more costs no more than a latent vector. Only the used corner of a
    sector has parameters, less its last column where this is that of whole sums: weights that differ by a constant
    are the same, and the last one of a sum may be 0.

    Arguments:
        sectors: The sectors to write; sector u of replica r has the number r U + u among the r U of its kind.
        latent_dim: The size of a replica's latent vector.
        features: The number of outputs of the network.
        hidden: The widths of the network's hidden layers.
        init: How the base starts: "uniform" in [0, 1), or standard "normal", as always for bells and factors.
        rank: Bases and heads write k x c sectors as A B^T / sqrt(rank), by the factors A (k, rank) and B (c, rank), in
            kinds where these are fewer numbers, (k + c) rank < k c, and that are no bells; None for every weight. Of the
            factors only the rows of used sums and inputs have parameters, and no more columns than either of them.
    """

    def __init__(
        self,
        sectors: Sectors,
        latent_dim: int = 4,
        features: int = 8,
        hidden: Sequence[int] = (64, 64),
        init: Init = "uniform",
        rank: int | None = None,
    ) -> None:
        super().__init__()
        widths = (latent_dim, *hidden, features)
        if min(widths) < 1:
            raise ValueError(f"expected latent_dim, hidden widths and features >= 1, found {widths}")
        if sectors.product != "elementwise":
            raise ValueError("expected element-wise products, found the outer products of an EiNet")
        if not _is_one_tree(sectors.structure):
            raise ValueError("expected replicas of one tree (shared=True), found trees that differ")
        self.hidden = tuple(hidden)
        self.init = init
        self.rank = None if rank is None else whole("rank", rank)
        self.layouts = [Layout.of(kind, self.rank) for kind in sectors.kinds]
        for index, numbers in enumerate(_number_corners(sectors, self.layouts)):
            self.register_buffer(f"numbers_{index}", numbers, persistent=False)
        counts = [int((numbers >= 0).sum()) for numbers in self.numbers]
        self.latents = nn.Parameter(torch.randn(len(sectors.structure.roots), latent_dim))
        self.net = nn.ModuleList(nn.Linear(inputs, outputs) for inputs, outputs in pairwise(widths))
        self.heads = nn.ParameterList(0.1 * torch.randn(features, count) for count in counts)
        self.bases = nn.ParameterList(
            initial(count, init="normal" if kind.grid or layout.rank else init)
            for count, kind, layout in zip(counts, sectors.kinds, self.layouts, strict=True)
        )

    @property
    def numbers(self) -> list[Tensor]:
        """Of each kind, where its used numbers are among the parameters (see `_number_corners`)."""
        return list(self._buffers.values())  # type: ignore[arg-type]

    def forward(self, kind: int, ids: Tensor | slice) -> Tensor:
        numbers = self.numbers[kind]  # (U, size)
        replicas, regions, asked = _grid(ids, len(self.latents), len(numbers))
        size, numbers = numbers.shape[1], numbers[regions].flatten()
        places = (numbers >= 0).nonzero()[:, 0]
        used = numbers[places]
        features = relu_network(list(self.net), self.latents[replicas])  # (replicas, features)
        weights = torch.addmm(self.bases[kind][used], features, self.heads[kind][:, used])  # (replicas, used)
        blocks = weights.new_zeros(len(weights), len(numbers)).index_copy(1, places, weights)
        return self.layouts[kind].sectors(blocks.view(-1, size)[asked])

    @torch.no_grad()
    def begin(self, kind: int, region: int, written: Tensor) -> None:
        """Lets the base of a region begin with these numbers in its sector's used corner, (rows, columns), the last one 0.

        With a rank it begins with what comes nearest to them (see `Layout.block`).
        """
        numbers = self.numbers[kind][region]
        free = numbers >= 0
        self.bases[kind][numbers[free]] = self.layouts[kind].block(written).flatten()[free].to(self.bases[kind])

    def parameter_groups(self) -> list[dict[str, Any]]:
        return [
            {"name": "heads", "params": [*self.heads, *self.bases], "lr": 6e-2},
            {"name": "network", "params": [self.latents, *self.net.parameters()], "lr": 1.5e-2},
        ]

    def config(self) -> dict[str, Any]:
        latent_dim, features = self.latents.shape[1], self.heads[0].shape[0]
        sizes = {"latent_dim": latent_dim, "features": features, "hidden": list(self.hidden), "init": self.init}
        return sizes if self.rank is None else {**sizes, "rank": self.rank}

    def extra_repr(self) -> str:
        return arguments_as_text(self.config())


def _is_one_tree(structure: RegionGraph) -> bool:
    """Whether the regions are those of one tree again and again."""
    replicas = len(structure.roots)
    size = structure.num_regions // replicas
    owners = np.repeat(np.repeat(np.arange(structure.num_regions), structure.partition_counts), structure.arities)
    arrays = {**structure.arrays(), "children": structure.children - owners // size * size}
    return all(
        len(array) % replicas == 0 and (array.reshape(replicas, -1) == array[: len(array) // replicas]).all()
        for array in arrays.values()
    )


def _number_corners(sectors: Sectors, layouts: Sequence[Layout]) -> list[Tensor]:
    """For each kind the used numbers of one replica's blocks, numbered, and -1 for the unused ones: (U, size)."""
    numbers = []
    for index, (kind, layout) in enumerate(zip(sectors.kinds, layouts, strict=True)):
        layers = [layer for layer in sectors.layers if layer.kind_index == index]
        count = sum(layer.sectors.numel() for layer in layers) // len(sectors.structure.roots)
        used = torch.from_numpy(np.zeros((count, layout.size), bool))
        for layer in layers:
            free = (kind.numbers_per_row if kind.grid else layer.columns) - (layer.partitions == 1)
            used[layer.sectors[layer.sectors < count]] = torch.from_numpy(layout.corner_mask(layer.rows, free).ravel())
        numbers.append((used.flatten().cumsum(0) - 1).view(count, layout.size).masked_fill(~used, -1))
    return numbers


def _grid(ids: Tensor | slice, replicas: int, regions: int) -> tuple[Tensor | slice, ...]:
    """Replicas and regions whose pairs hold all sectors asked for, and the places of these among the pairs."""
    if isinstance(ids, Tensor):
        some_replicas, rows = (ids // regions).unique(return_inverse=True)
        some_regions, columns = (ids % regions).unique(return_inverse=True)
        return some_replicas, some_regions, rows * len(some_regions) + columns
    first, last, _ = ids.indices(replicas * regions)
    start, stop = first // max(regions, 1), -(-last // max(regions, 1))
    asked = slice(first - start * regions, last - start * regions)
    if stop - start == 1:
        return slice(start, stop), asked, slice(None)
    return slice(start, stop), slice(None), asked
