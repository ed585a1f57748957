"""Sectors: the sum weights of a circuit, cut into numbered blocks (section 2.1, Figure 1)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import isqrt
from typing import Literal, NamedTuple

import numpy as np
import torch

from torch import Tensor
from torch.nn import functional

from ..structures import RegionGraph
from ..structures.region_graph import IntArray
from .sector_kind import Grid, SectorKind

Product = Literal["elementwise", "outer"]


@dataclass(frozen=True)
class SumLayer:
    """Regions of one height whose sums have the same shape.

    Region u has `rows` sum nodes over the products of its partitions, or over the distributions of its leaf:

        out[u, o] = sum_{p, j} w[u, o, p, j] in[u, p, j],   sum_{p, j} w[u, o, p, j] = 1.

    Partition p's weights are the upper left `rows` x `columns` corner of the sector ``sectors[u, p]``, and its
    input is the element-wise product of the factors ``factors[offsets[t] : offsets[t + 1]]``, t = u P + p: child
    regions, or the variables of a leaf.
    """

    sectors: Tensor  # (U, sectors of a region)
    factors: Tensor
    offsets: Tensor  # (U P + 1,)
    kind: SectorKind
    kind_index: int
    rows: int
    columns: int
    partitions: int
    is_leaf: bool
    is_outer: bool

    @property
    def has_sums(self) -> bool:
        """Whether there is anything to sum: else the outputs are the distributions of a leaf as they are."""
        return self.sectors.shape[1] > 0

    def sums(self, written: Tensor) -> list[Tensor]:
        """Lays out the weights of these sectors as one row per sum node.

        Arguments:
            written: What a source wrote for all sectors of U' of the regions, (sectors, size of a sector).

        Returns:
            The unnormalized weights, (U', rows, P columns).
        """
        blocks = self.kind.logits(written).unflatten(0, (-1, self.partitions))  # (U', P, k, c)
        blocks = blocks[:, :, : self.rows, : self.columns]  # (U', P, rows, columns)
        return [blocks.transpose(1, 2).flatten(2)]  # (U', rows, P columns)

    def assemble(self, written: Tensor, normalize: Callable[[Tensor], Tensor]) -> Tensor:
        """The log-weights of the sums over all inputs, (U', rows, P columns), once each row of `sums` is normalized."""
        weights, *mixing = map(normalize, self.sums(written))
        return (weights + mixing[0][..., None] if mixing else weights).flatten(2)

    def edges(self) -> tuple[Tensor, int]:
        """The sectors whose rows belong to one sum node each, and how much of a row is used."""
        return self.sectors, self.columns

    def element(self, columns: Tensor, is_right: Tensor) -> Tensor:
        """Which of its outputs a factor contributes to a column of a product."""
        return columns


class EinsumLayer(SumLayer):
    """Regions of an EiNet: sums over all products of an output of the left child with one of the right.

        out[u, o] = sum_p mixing[u, o, p] sum_{j, i} w[u, o, p, j, i] right[u, p, j] left[u, p, i],

    w normalized over (j, i), and mixing over p; the columns are the pairs (j, i). A sector is a vector: first one of
    weights w along i for each (o, p, j); then, where there are several partitions, one of mixing weights along o for
    each p. Leaf regions and partitions of one child have a left side only (not `is_outer`).
    """

    @property
    def left(self) -> int:
        return isqrt(self.columns) if self.is_outer else self.columns

    @property
    def num_edges(self) -> int:
        """The number of a region's sectors before those of mixing weights."""
        return self.rows * self.partitions * self.columns // self.left

    def sums(self, written: Tensor) -> list[Tensor]:
        """The weights, (U', rows, P, columns), and where there are several partitions the mixing weights, (U', rows, P)."""
        vectors = self.kind.logits(written)[:, 0].unflatten(0, (-1, self.sectors.shape[1]))  # (U', sectors, columns)
        weights = vectors[:, : self.num_edges, : self.left].reshape(len(vectors), self.rows, self.partitions, -1)
        return [weights, vectors[:, self.num_edges :, : self.rows].mT] if self.partitions > 1 else [weights]

    def edges(self) -> tuple[Tensor, int]:
        return self.sectors[:, : self.num_edges], self.left

    def element(self, columns: Tensor, is_right: Tensor) -> Tensor:
        return torch.where(is_right, columns // self.left, columns % self.left) if self.is_outer else columns


class Sectors:
    """Numbers the sectors of a structure and groups its sums into layers.

    With element-wise products there is one sector for each leaf region and for each partition: k x k weights, of which
    a leaf uses k x l and a root 1 x k. Leaves with more than k distributions have sectors of their own kind, k x l; so
    have those whose distributions are at the places of a grid.

    With outer products, which need partitions of at most two, sectors are vectors of k weights (see `EinsumLayer`), or
    of l in sums over l > k leaf distributions. A leaf region of exactly k distributions has no sums over them.

    Arguments:
        structure: The region graph.
        layer_size: The number of sum nodes per region k.
        leaf_widths: For each variable its number of leaf distributions l.
        product: How a partition multiplies k outputs of each child: "elementwise", into k products, or "outer",
            into k x k.
        grids: For each variable the places of its first leaf distributions, if they have any; by default none has.
    """

    def __init__(
        self,
        structure: RegionGraph,
        layer_size: int,
        leaf_widths: Sequence[int],
        product: Product = "elementwise",
        grids: Sequence[Grid] | None = None,
    ) -> None:
        if layer_size < 1:
            raise ValueError(f"expected layer_size >= 1, found {layer_size}")
        if product not in ("elementwise", "outer"):
            raise ValueError(f"expected product 'elementwise' or 'outer', found {product!r}")
        self.structure = structure
        self.layer_size = layer_size
        self.product = product
        widths = _region_widths(structure, np.asarray(leaf_widths))
        shapes = (_outer_shapes if product == "outer" else _elementwise_shapes)(structure, layer_size, widths)
        self.num_used_weights = int(shapes.weights.sum()) + self.num_mixture_weights
        forms, kinds = _forms(layer_size, shapes.left, _region_grids(structure, grids))
        ids, counts = _number(np.repeat(kinds, shapes.sectors), len(forms))
        counts[0] += structure.spare_sectors
        sector_rows = 1 if product == "outer" else layer_size
        self.kinds = tuple(
            SectorKind(sector_rows, columns, count, grid) for (grid, columns), count in zip(forms, counts, strict=True)
        )

        self.layers: list[SumLayer] = []
        groups = _group_regions(structure, shapes, kinds)
        layer_of, slot_of = np.empty((2, structure.num_regions), np.int64)
        for index, regions in enumerate(groups):
            layer_of[regions], slot_of[regions] = index, np.arange(len(regions))
        self.layer_of, self.slot_of = torch.from_numpy(layer_of), torch.from_numpy(slot_of)  # (regions,)
        first_sectors = np.cumsum(shapes.sectors) - shapes.sectors  # (regions,)
        for regions in groups:
            places = first_sectors[regions, None] + np.arange(shapes.sectors[regions[0]])  # (U, sectors)
            self.layers.append(self._layer(regions, shapes, int(kinds[regions[0]]), ids[places]))

    def _layer(self, regions: IntArray, shapes: _Shapes, kind: int, sectors: IntArray) -> SumLayer:
        """The layer of regions that are alike, with their sectors, (U, sectors of a region)."""
        first, structure = regions[0], self.structure
        make = EinsumLayer if self.product == "outer" else SumLayer
        return make(
            torch.from_numpy(sectors),
            *_factors(structure, regions),
            self.kinds[kind],
            kind,
            int(shapes.rows[first]),
            int(shapes.columns[first]),
            partitions=max(1, int(structure.partition_counts[first])),
            is_leaf=bool(structure.partition_counts[first] == 0),
            is_outer=bool(shapes.is_outer[first]),
        )

    @property
    def num_sectors(self) -> int:
        return sum(kind.count for kind in self.kinds)

    @property
    def num_mixture_weights(self) -> int:
        """One for each root; an EiNet of one root has no mixture over it."""
        roots = len(self.structure.roots)
        return 0 if self.product == "outer" and roots == 1 else roots

    @property
    def num_weights(self) -> int:
        """The number of stored weights M: all allocated sectors, and the mixture over the roots."""
        return sum(kind.count * kind.size for kind in self.kinds) + self.num_mixture_weights


def ragged_gather(offsets: Tensor, items: Tensor) -> tuple[Tensor, Tensor]:
    """The places ``offsets[i] : offsets[i + 1]`` of all items i in a row, and to which of the items each belongs."""
    counts = offsets[items + 1] - offsets[items]
    owners = torch.arange(len(items), device=items.device).repeat_interleave(counts)
    firsts = offsets[items] - (counts.cumsum(0) - counts)
    return firsts[owners] + torch.arange(len(owners), device=items.device), owners


def _region_grids(structure: RegionGraph, grids: Sequence[Grid] | None) -> list[Grid]:
    """The grid of each region: that of a leaf's variables."""
    regions: list[Grid] = [()] * structure.num_regions
    if grids is not None and any(grids):
        firsts = structure.leaf_variables[structure.leaf_offsets[:-1]]
        for region, variable in zip(structure.leaf_regions.tolist(), firsts.tolist(), strict=True):
            regions[region] = tuple(grids[variable])
    return regions


def _forms(layer_size: int, left: np.ndarray, grids: list[Grid]) -> tuple[list[tuple[Grid, int]], IntArray]:
    """The grid and the columns of each kind, without a grid first and then by columns, and the kind of each region."""
    columns = np.where([not grid for grid in grids], np.maximum(left, layer_size), left).tolist()
    of_regions = list(zip(grids, columns, strict=True))
    forms = sorted({((), layer_size), *of_regions}, key=lambda form: (len(form[0]), form[1], form[0]))
    numbers = {form: index for index, form in enumerate(forms)}
    return forms, np.array([numbers[form] for form in of_regions])


def _number(kinds: IntArray, num_kinds: int) -> tuple[IntArray, list[int]]:
    """The number of each sector among those of its kind, and how many there are of each."""
    ids = np.empty_like(kinds)
    counts = np.bincount(kinds, minlength=num_kinds).tolist()
    for kind, count in enumerate(counts):
        ids[kinds == kind] = np.arange(count)
    return ids, counts


def _group_regions(structure: RegionGraph, shapes: _Shapes, kinds: IntArray) -> list[IntArray]:
    """Groups regions of the same height, partitions, shape and kind, in the order of these: the layers."""
    leaf_sizes = _of_leaves(structure, structure.leaf_sizes, 0)
    properties = (structure.heights, structure.partition_counts, shapes.rows, shapes.columns, shapes.is_outer)
    different, groups = np.unique(np.stack([*properties, leaf_sizes, kinds], 1), axis=0, return_inverse=True)
    return [np.flatnonzero(groups.ravel() == index) for index in range(len(different))]


class _Shapes(NamedTuple):
    """The sums of each region, all (regions,)."""

    rows: np.ndarray  # sum nodes
    left: np.ndarray  # outputs of a first child, or distributions of a leaf
    columns: np.ndarray  # inputs from each partition
    is_outer: np.ndarray  # whether these are pairs
    sectors: np.ndarray
    weights: np.ndarray  # used ones


def _elementwise_shapes(structure: RegionGraph, layer_size: int, leaf_widths: np.ndarray) -> _Shapes:
    rows, partitions = _rows(structure, layer_size), np.maximum(structure.partition_counts, 1)
    left = _of_leaves(structure, leaf_widths, layer_size)
    return _Shapes(rows, left, left, np.zeros(len(rows), bool), partitions, partitions * rows * left)


def _outer_shapes(structure: RegionGraph, layer_size: int, leaf_widths: np.ndarray) -> _Shapes:
    rows, partitions = _rows(structure, layer_size), np.maximum(structure.partition_counts, 1)
    left, is_outer = _of_leaves(structure, leaf_widths, layer_size), _is_outer(structure)
    right = np.where(is_outer, layer_size, 1)
    mixed = np.where(partitions > 1, partitions, 0)
    has_sums = (structure.partition_counts > 0) | (left != rows)
    sectors = has_sums * (rows * partitions * right + mixed)
    return _Shapes(rows, left, left * right, is_outer, sectors, has_sums * rows * (partitions * left * right + mixed))


def _rows(structure: RegionGraph, layer_size: int) -> np.ndarray:
    """The number of sum nodes of each region: one in a root."""
    rows = np.full(structure.num_regions, layer_size)
    rows[structure.roots] = 1
    return rows


def _of_leaves(structure: RegionGraph, values: np.ndarray, others: int) -> np.ndarray:
    """The values of leaf regions, and the same for all other regions."""
    filled = np.full(structure.num_regions, others)
    filled[structure.leaf_regions] = values
    return filled


def _is_outer(structure: RegionGraph) -> np.ndarray:
    """For each region whether its partitions are pairs; partitions of one child, or leaves, are not."""
    arities = np.zeros(structure.num_regions, np.int64)
    inner = structure.partition_counts > 0
    firsts = structure.partition_offsets[:-1][inner]
    if len(firsts):
        arities[inner] = np.maximum.reduceat(structure.arities, firsts)
        if arities.max() > 2 or (np.minimum.reduceat(structure.arities, firsts) != arities[inner]).any():
            raise ValueError("expected partitions of two regions, found another number (see `RegionGraph.in_pairs`)")
    return arities == 2


def _factors(structure: RegionGraph, regions: IntArray) -> tuple[Tensor, Tensor]:
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
