"""Sectors: the sum weights of a circuit, cut into numbered blocks (section 2.1, Figure 1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from torch import Tensor
from torch.nn import functional

from .structures import RegionGraph


@dataclass(frozen=True)
class SectorKind:
    """Sectors of one shape: `count` blocks of `rows` x `columns` unnormalised weights."""

    rows: int
    columns: int
    count: int

    @property
    def size(self) -> int:
        return self.rows * self.columns


@dataclass(frozen=True)
class SumLayer:
    """Regions of one height whose sums have the same shape.

    Region u has `rows` sum nodes over the products of its partitions, or over the distributions of its leaf:

        out[u, o] = sum_{p, j} w[u, o, p, j] in[u, p, j],   sum_{p, j} w[u, o, p, j] = 1.

    Partition p's weights are the upper left `rows` x `columns` corner of the sector ``sectors[u, p]``, and its
    input is the product of the factors ``factors[offsets[t] : offsets[t + 1]]``, t = u P + p: child regions, or the
    variables of a leaf.
    """

    sectors: Tensor  # (U, P)
    factors: Tensor
    offsets: Tensor  # (U P + 1,)
    kind: SectorKind
    kind_index: int
    rows: int
    columns: int
    is_leaf: bool

    def assemble(self, logits: Tensor) -> Tensor:
        """Lays out the weights of these sectors as one row per sum node.

        Arguments:
            logits: The unnormalised weights of the sectors of U' of the regions, (U' P, size of a sector).

        Returns:
            The unnormalised weights, (U', rows, P columns).
        """
        blocks = logits.view(-1, self.sectors.shape[1], self.kind.rows, self.kind.columns)  # (U', P, k, c)
        blocks = blocks[:, :, : self.rows, : self.columns]  # (U', P, rows, columns)
        return blocks.transpose(1, 2).flatten(2)  # (U', rows, P columns)


class Sectors:
    """Numbers the sectors of a structure and groups its sums into layers.

    There is one sector for each leaf region and for each partition: k x k weights, of which a leaf uses k x l
    and a root 1 x k. Leaves with more than k distributions have sectors of their own kind, k x l.

    Arguments:
        structure: The region graph.
        layer_size: The number of sum nodes per region k.
        leaf_widths: For each variable its number of leaf distributions l.
    """

    def __init__(self, structure: RegionGraph, layer_size: int, leaf_widths: Sequence[int]) -> None:
        if layer_size < 1:
            raise ValueError(f"expected layer_size >= 1, found {layer_size}")
        self.structure = structure
        self.layer_size = layer_size
        rows = np.full(structure.num_regions, layer_size)
        rows[structure.roots] = 1
        columns = np.full(structure.num_regions, layer_size)
        columns[structure.leaf_regions] = _region_widths(structure, np.asarray(leaf_widths))
        sector_counts = np.maximum(structure.partition_counts, 1)  # of each region
        self.num_used_weights = int((sector_counts * rows * columns).sum()) + len(structure.roots)

        widths = [layer_size, *np.unique(columns[columns > layer_size]).tolist()]
        region_kinds = np.searchsorted(widths, np.maximum(columns, layer_size))
        ids, counts = _numbered(np.repeat(region_kinds, sector_counts), len(widths))
        counts[0] += structure.spare_sectors
        self.kinds = tuple(SectorKind(layer_size, width, count) for width, count in zip(widths, counts, strict=True))

        self.layers: list[SumLayer] = []
        self.layer_of = torch.empty(structure.num_regions, dtype=torch.int64, device="cpu")
        self.slot_of = torch.empty(structure.num_regions, dtype=torch.int64, device="cpu")
        first_sectors = np.cumsum(sector_counts) - sector_counts
        for regions in _alike(structure.heights, structure.partition_counts, rows, columns):
            first = regions[0]
            kind = int(region_kinds[first])
            own = ids[first_sectors[regions, None] + np.arange(sector_counts[first])]  # (U, P)
            self.layer_of[regions] = len(self.layers)
            self.slot_of[regions] = torch.arange(len(regions), device="cpu")
            self.layers.append(
                SumLayer(
                    torch.from_numpy(own),
                    *_factors(structure, regions),
                    self.kinds[kind],
                    kind,
                    int(rows[first]),
                    int(columns[first]),
                    is_leaf=bool(structure.partition_counts[first] == 0),
                )
            )

    @property
    def num_sectors(self) -> int:
        return sum(kind.count for kind in self.kinds)

    @property
    def num_weights(self) -> int:
        """The number of stored weights M: all allocated sectors and one mixture weight per root."""
        return sum(kind.count * kind.size for kind in self.kinds) + len(self.structure.roots)


def ragged_gather(offsets: Tensor, items: Tensor) -> tuple[Tensor, Tensor]:
    """The places ``offsets[i] : offsets[i + 1]`` of all items i in a row, and to which of the items each belongs."""
    counts = offsets[items + 1] - offsets[items]
    owners = torch.arange(len(items), device=items.device).repeat_interleave(counts)
    firsts = offsets[items] - (counts.cumsum(0) - counts)
    return firsts[owners] + torch.arange(len(owners), device=items.device), owners


def _numbered(kinds: np.ndarray, num_kinds: int) -> tuple[np.ndarray, list[int]]:
    """The number of each sector among those of its kind, and how many there are of each."""
    ids = np.empty_like(kinds)
    counts = np.bincount(kinds, minlength=num_kinds).tolist()
    for kind, count in enumerate(counts):
        ids[kinds == kind] = np.arange(count)
    return ids, counts


def _alike(*properties: np.ndarray) -> list[np.ndarray]:
    """Groups regions that agree in all properties, in the order of these."""
    shapes, groups = np.unique(np.stack(properties, 1), axis=0, return_inverse=True)
    return [np.flatnonzero(groups.ravel() == index) for index in range(len(shapes))]


def _factors(structure: RegionGraph, regions: np.ndarray) -> tuple[Tensor, Tensor]:
    """The child regions of all partitions of these regions, or their variables, and where each partition's begin."""
    if structure.partition_counts[regions[0]]:
        values, offsets = structure.children, structure.child_offsets
        items = ragged_gather(torch.from_numpy(structure.partition_offsets), torch.from_numpy(regions))[0]
    else:
        values, offsets = structure.leaf_variables, structure.leaf_offsets
        items = torch.from_numpy(np.searchsorted(structure.leaf_regions, regions))
    places, owners = ragged_gather(torch.from_numpy(offsets), items)
    counts = owners.bincount(minlength=len(items))
    return torch.from_numpy(values.copy())[places], functional.pad(counts.cumsum(0), (1, 0))


def _region_widths(structure: RegionGraph, leaf_widths: np.ndarray) -> np.ndarray:
    """The number of distributions of each leaf region: its variables must agree on it."""
    if leaf_widths.shape != (structure.num_variables,):
        raise ValueError(f"expected leaves for {structure.num_variables} variables, found {len(leaf_widths)}")
    widths = leaf_widths[structure.leaf_variables]
    firsts = structure.leaf_offsets[:-1]
    if (np.minimum.reduceat(widths, firsts) != np.maximum.reduceat(widths, firsts)).any():
        raise ValueError("expected one number of distributions in each leaf region, found variables that differ in it")
    return widths[firsts]
