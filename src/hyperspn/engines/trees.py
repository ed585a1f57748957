"""Trees in evaluation order, and their sectors in chunks: how a forest is walked with little in memory (section 3.1)."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np
import torch

from numpy.typing import NDArray
from torch import Tensor

from ..structures import RegionGraph
from ..weights.sectors import Sectors

Int32Array = NDArray[np.int32]
Ids = slice | Tensor


class Chunk(NamedTuple):
    """Sectors that are materialized together."""

    nodes: range  # counted from the first node of the piece
    ids: list[Ids]  # for each kind
    bases: list[int]  # for each kind, the number of its first sector


class Piece(NamedTuple):
    """Whole trees in one chunk, or one large tree in several."""

    trees: range
    chunks: list[Chunk]


class Trees:
    """The regions of a forest as nodes, tree by tree: children before their parent, leaves just before it, the root last.

    The value of an inner node lives in a slot until its parent has used it. The child that needs most slots goes
    first, so that a balanced tree of n variables needs about log2 n of them (Proposition 1). The forest is cut into
    pieces, and the sectors numbered so that those of a chunk follow each other.

    Arguments:
        sectors: The sectors of a forest whose leaf regions have one variable each.
        weights_at_once: How many weights may be materialized at a time; a tree that has more goes through in
            chunks of a quarter of it.
    """

    offsets: Int32Array  # (trees + 1,), tree t has the nodes offsets[t] : offsets[t + 1]
    child_offsets: Int32Array  # (nodes + 1,)
    children: Int32Array  # as nodes, counted from the first one of the tree
    slots: Int32Array  # (nodes,), -1 for leaves and roots
    variables: Int32Array  # (nodes,), -1 for inner nodes
    kinds: Int32Array  # (nodes,), the kind of the node's sector
    numbers: Int32Array  # (nodes,), the number of the node's sector among those of its kind
    ids: list[Tensor]  # for each kind, the ids of its sectors in the order of their numbers
    counts: list[NDArray]  # for each kind, the number of its sectors before each node

    def __init__(self, sectors: Sectors, weights_at_once: int) -> None:
        self.sectors = sectors
        structure = sectors.structure
        shapes, regions = _shapes(structure)
        self.offsets = integers(np.cumsum([0, *(len(tree) for tree in regions)]))
        self.child_offsets = integers(np.cumsum([0, *(arity for shape in shapes for arity in shape.arities)]))
        self.children = integers(np.concatenate([shape.children for shape in shapes]))
        self.slots = integers(np.concatenate([shape.slots for shape in shapes]))

        nodes = np.concatenate(regions)
        variables = np.full(structure.num_regions, -1)
        variables[structure.leaf_regions] = structure.leaf_variables
        kinds, ids = _sectors_of_regions(sectors)
        self.variables, self.kinds, ids = integers(variables[nodes]), integers(kinds[nodes]), ids[nodes]

        sizes = np.array([kind.rows * kind.columns for kind in sectors.kinds])[self.kinds]
        weights = np.concatenate([[0], np.cumsum(sizes)])  # before each node
        whole = np.diff(weights[self.offsets]).max() <= weights_at_once
        self._number(ids, key=ids if whole else np.arange(len(ids)))
        self.pieces = (
            self._whole_trees(weights, weights_at_once) if whole else self._parts(weights, weights_at_once // 4)
        )

    def _number(self, ids: NDArray, key: NDArray) -> None:
        """Numbers the sectors of each kind tree by tree, in the order of the key."""
        trees = np.repeat(np.arange(len(self.offsets) - 1), np.diff(self.offsets))
        self.numbers = np.empty_like(self.kinds)
        self.ids, self.counts = [], []
        for kind in range(len(self.sectors.kinds)):
            nodes = np.flatnonzero(self.kinds == kind)
            nodes = nodes[np.lexsort((key[nodes], trees[nodes]))]
            self.numbers[nodes] = np.arange(len(nodes))
            self.ids.append(torch.from_numpy(ids[nodes]))
            self.counts.append(np.concatenate([[0], np.cumsum(self.kinds == kind)]))  # before each node

    def _whole_trees(self, weights: NDArray, limit: int) -> list[Piece]:
        cuts = _cuts(weights[self.offsets], limit)
        return [
            Piece(range(first, last), [self._chunk(self.offsets[first], self.offsets[last], self.offsets[first])])
            for first, last in pairwise(cuts)
        ]

    def _parts(self, weights: NDArray, limit: int) -> list[Piece]:
        """Cuts every tree after inner nodes, so that a leaf stays with its parent."""
        pieces = []
        for tree, (start, stop) in enumerate(pairwise(self.offsets.tolist())):
            ends = np.unique([start, *(start + 1 + np.flatnonzero(self.variables[start:stop] < 0)), stop])
            cuts = [int(ends[cut]) for cut in _cuts(weights[ends], limit)]
            pieces.append(Piece(range(tree, tree + 1), [self._chunk(a, b, start) for a, b in pairwise(cuts)]))
        return pieces

    def _chunk(self, first: int, last: int, origin: int) -> Chunk:
        bases = [int(counts[first]) for counts in self.counts]
        ends = [int(counts[last]) for counts in self.counts]
        ids = [_compact(kind_ids[base:end]) for kind_ids, base, end in zip(self.ids, bases, ends, strict=True)]
        return Chunk(range(first - origin, last - origin), ids, bases)


class _Shape:
    """The evaluation order of one tree, from the children of each region: lists of smaller numbers, the root last."""

    def __init__(self, children: list[list[int]]) -> None:
        needs: list[int] = []
        inner: list[list[int]] = []
        for below in children:
            inner.append(sorted((child for child in below if children[child]), key=lambda child: -needs[child]))
            held = max((needs[child] + before for before, child in enumerate(inner[-1])), default=0)
            needs.append(max(held, 1))
        self.order = _post_order(children, inner)
        place = np.empty(len(children), np.int64)
        place[self.order] = np.arange(len(children))
        self.arities = [len(children[region]) for region in self.order]
        self.children = [place[child] for region in self.order for child in children[region]]
        self.slots = _slots(children, self.order)


def _post_order(children: list[list[int]], inner: list[list[int]]) -> list[int]:
    """Inner children as listed, then leaves, then their parent."""
    backwards: list[int] = []
    pending = [len(children) - 1]
    while pending:
        region = pending.pop()
        backwards.append(region)
        backwards += [child for child in children[region] if not children[child]]
        pending += inner[region]
    return backwards[::-1]


def _slots(children: list[list[int]], order: list[int]) -> list[int]:
    """Gives each inner region but the root the first slot that is free once its children are used."""
    slots = dict.fromkeys(order, -1)
    free: list[int] = []
    used = 0
    for region in order[:-1]:
        if children[region]:
            free += [slots[child] for child in children[region] if slots[child] >= 0]
            if not free:
                free.append(used)
                used += 1
            slots[region] = min(free)
            free.remove(slots[region])
    return [slots[region] for region in order]


def _shapes(structure: RegionGraph) -> tuple[list[_Shape], list[NDArray]]:
    """The shape of each tree and its regions in evaluation order; trees that look alike share the work."""
    roots = _root_of(structure)
    members = np.argsort(roots, kind="stable")  # tree by tree
    sizes = np.bincount(roots)[structure.roots]
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    local = np.empty_like(members)
    local[members] = np.arange(len(members)) - np.repeat(offsets[:-1], sizes)
    entries = local[structure.children].tolist()
    ends = structure.child_offsets[structure.partition_offsets].tolist()
    children = [entries[first:last] for first, last in pairwise(ends)]
    known: dict[str, _Shape] = {}
    shapes, regions = [], []
    for tree_regions in np.split(members, offsets[1:-1]):
        tree = [children[region] for region in tree_regions]
        shapes.append(known.get(repr(tree)) or known.setdefault(repr(tree), _Shape(tree)))
        regions.append(tree_regions[shapes[-1].order])
    return shapes, regions


def _root_of(structure: RegionGraph) -> NDArray:
    """The root above each region."""
    above = np.arange(structure.num_regions)
    above[structure.children] = np.repeat(np.repeat(above, structure.partition_counts), structure.arities)
    while not np.array_equal(above, above[above]):
        above = above[above]
    return above


def _sectors_of_regions(sectors: Sectors) -> tuple[NDArray, NDArray]:
    """The kind and the id of each region's sector."""
    kinds, ids = torch.empty_like(sectors.layer_of), torch.empty_like(sectors.layer_of)
    for index, layer in enumerate(sectors.layers):
        members = sectors.layer_of == index
        kinds[members] = layer.kind_index
        ids[members] = layer.sectors[sectors.slot_of[members], 0]
    return kinds.numpy(), ids.numpy()


def _cuts(before: NDArray, limit: int) -> list[int]:
    """Cuts a row of things with these cumulative sizes into as few parts as possible within the limit."""
    cuts = [0]
    while cuts[-1] < len(before) - 1:
        last = int(np.searchsorted(before, before[cuts[-1]] + limit, side="right")) - 1
        cuts.append(max(last, cuts[-1] + 1))
    return cuts


def _compact(ids: Tensor) -> Ids:
    """A slice, where the ids follow each other."""
    if not len(ids):
        return slice(0, 0)
    first = int(ids[0])
    return slice(first, first + len(ids)) if (ids.diff() == 1).all() else ids


def integers(values: NDArray | list[int]) -> Int32Array:
    return np.ascontiguousarray(values, np.int32)
