"""Region graphs: which variables meet where, before any weight is chosen."""

from __future__ import annotations

import json
import secrets

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice, pairwise
from typing import Any

import numpy as np

from numpy.typing import ArrayLike, NDArray

from ..checks import whole

IntArray = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class RegionGraph:
    """Regions (sets of variables) and the partitions that split them into smaller regions.

    A region is either a leaf, which lists its variables, or has one or more partitions, each a list of
    child regions with disjoint variables (decomposability) that together make up the region's (smoothness).
    Regions are numbered so that children come before their parents. Regions that are nobody's child are the
    roots; each covers all variables, and a circuit mixes them (the paper's replicas, section 2.1).

    Everything is held in flat integer arrays, a region's or partition's entries one after the other:

    Arguments:
        num_variables: The number of variables n.
        partition_counts: For each region its number of partitions, 0 for a leaf.
        arities: For each partition its number of children.
        children: The child regions of all partitions.
        leaf_sizes: For each leaf region its number of variables.
        leaf_variables: The variables of all leaf regions.
        spare_sectors: Sectors that are allocated and counted beside the used ones (see `binary_trees`).

    Example:
        >>> graph = RegionGraph.from_regions([{"variables": [0]}, {"variables": [1]}, {"partitions": [[0, 1]]}])
        >>> graph.scope(2)
        (0, 1)
    """

    num_variables: int
    partition_counts: IntArray  # (regions,)
    arities: IntArray  # (partitions,)
    children: IntArray  # (sum of arities,)
    leaf_sizes: IntArray  # (leaf regions,)
    leaf_variables: IntArray  # (sum of leaf sizes,)
    spare_sectors: int = 0

    def __post_init__(self) -> None:
        for name in ("partition_counts", "arities", "children", "leaf_sizes", "leaf_variables"):
            object.__setattr__(self, name, _frozen_integers(name, getattr(self, name)))
        self._check_sizes()
        self._check_scopes()

    @classmethod
    def from_regions(cls, regions: Iterable[dict], spare_sectors: int = 0) -> RegionGraph:
        """Builds a graph from one ``{"variables": [...]}`` or ``{"partitions": [[...], ...]}`` per region."""
        partition_counts: list[int] = []
        arities: list[int] = []
        children: list[int] = []
        leaf_sizes: list[int] = []
        leaf_variables: list[int] = []
        for region in regions:
            if not isinstance(region, dict) or region.keys() not in ({"variables"}, {"partitions"}):
                raise ValueError(f"expected a region with 'variables' or 'partitions', found {region!r}")
            partitions = region.get("partitions", [])
            partition_counts.append(len(partitions))
            arities.extend(len(partition) for partition in partitions)
            children.extend(child for partition in partitions for child in partition)
            if "variables" in region:
                leaf_sizes.append(len(region["variables"]))
                leaf_variables.extend(region["variables"])
        num_variables = max(leaf_variables, default=-1) + 1
        return cls(
            num_variables,
            np.asarray(partition_counts),
            np.asarray(arities),
            np.asarray(children),
            np.asarray(leaf_sizes),
            np.asarray(leaf_variables),
            spare_sectors,
        )

    def to_json(self) -> str:
        regions = [{"partitions": p} if p else {"variables": v} for _, v, p in self._walk()]
        return json.dumps({"regions": regions, "spare_sectors": self.spare_sectors})

    @classmethod
    def from_json(cls, text: str) -> RegionGraph:
        try:
            content = json.loads(text)
            return cls.from_regions(content["regions"], content.get("spare_sectors", 0))
        except (KeyError, TypeError, AttributeError, OverflowError, RecursionError, json.JSONDecodeError) as error:
            raise ValueError(f"expected the JSON of a region graph, found {text[:40]!r} ({error})") from error

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, RegionGraph):
            return NotImplemented
        mine, theirs = self.arrays(), other.arrays()
        return self.spare_sectors == other.spare_sectors and all(
            np.array_equal(mine[name], theirs[name]) for name in mine
        )

    def __hash__(self) -> int:
        return hash((self.num_variables, self.num_regions, self.children.tobytes(), self.leaf_variables.tobytes()))

    def __repr__(self) -> str:
        inner = self.num_regions - len(self.leaf_sizes)
        roots = _plural(len(self.roots), "tree" if self.is_forest else "root")
        lines = [
            f"RegionGraph over {_plural(self.num_variables, 'variable')}",
            f"  {roots}{'' if self.is_forest else ' above shared regions'}, {self.heights.max()} high",
            f"  {_plural(len(self.leaf_sizes), 'leaf region')} of {_span(self.leaf_sizes, 'variable')}",
        ]
        if inner:
            partitions = f"{_plural(len(self.arities), 'partition')} into {_span(self.arities, 'region')}"
            lines.append(f"  {_plural(inner, 'inner region')} with {partitions}")
        return "\n".join(lines)

    def plot(self, root: int | None = None, names: Sequence[str] | None = None, ax: Any = None) -> Any:
        """Draws the regions below one root: leaves with their variables, others with how many variables they have.

        A region with several partitions has a black square for each.

        Arguments:
            root: The root; by default the first one.
            names: The names of the variables; by default their numbers.
            ax: The axes of matplotlib to draw in; by default those of a new figure.

        Returns:
            The axes: ``structure.plot().figure.savefig("structure.png")``.
        """
        from .drawing import plot

        return plot(self, root, names, ax)

    def to_networkx(self) -> Any:
        """The graph as a `networkx.DiGraph`, from roots to leaves.

        Its nodes are the regions by their numbers, and ``(u, p)`` for partition p of region u. Each has a `kind`,
        "region" or "partition", and its `scope`.
        """
        from .drawing import to_networkx

        return to_networkx(self)

    def arrays(self) -> dict[str, IntArray]:
        """The five arrays by name: with `spare_sectors`, all there is to save."""
        names = ("partition_counts", "arities", "children", "leaf_sizes", "leaf_variables")
        return {name: getattr(self, name) for name in names}

    @property
    def num_regions(self) -> int:
        return len(self.partition_counts)

    @cached_property
    def roots(self) -> IntArray:
        """The regions that are nobody's child."""
        return np.setdiff1d(np.arange(self.num_regions), self.children)

    @cached_property
    def leaf_regions(self) -> IntArray:
        return np.flatnonzero(self.partition_counts == 0)

    @cached_property
    def partition_offsets(self) -> IntArray:
        """Region u's partitions are ``partition_offsets[u] : partition_offsets[u + 1]``."""
        return _offsets(self.partition_counts)

    @cached_property
    def child_offsets(self) -> IntArray:
        """Partition p's children are ``children[child_offsets[p] : child_offsets[p + 1]]``."""
        return _offsets(self.arities)

    @cached_property
    def leaf_offsets(self) -> IntArray:
        """Leaf region i's variables are ``leaf_variables[leaf_offsets[i] : leaf_offsets[i + 1]]``."""
        return _offsets(self.leaf_sizes)

    @cached_property
    def heights(self) -> IntArray:
        """The length of the longest way from each region down to a leaf."""
        heights = [0] * self.num_regions
        for region, _, partitions in self._walk():
            if partitions:
                heights[region] = 1 + max(heights[child] for partition in partitions for child in partition)
        return np.asarray(heights)

    @cached_property
    def is_forest(self) -> bool:
        """Whether every region has at most one parent and one partition."""
        return len(np.unique(self.children)) == len(self.children) and self.partition_counts.max() <= 1

    def partitions(self, region: int) -> list[list[int]]:
        """The partitions of a region, each a list of child regions."""
        first, last = self.partition_offsets[region : region + 2]
        return [self.children[slice(*self.child_offsets[p : p + 2])].tolist() for p in range(first, last)]

    def variables(self, region: int) -> list[int]:
        """The variables that a leaf region lists."""
        leaf = int(np.searchsorted(self.leaf_regions, region))
        return self.leaf_variables[slice(*self.leaf_offsets[leaf : leaf + 2])].tolist()

    def in_pairs(self) -> RegionGraph:
        """The same graph without partitions of more than two: their last two children first make a region together.

        There are no spare sectors in it.
        """
        regions: list[dict] = []
        numbers: list[int] = []
        for _, variables, partitions in self._walk():
            parts = [[numbers[child] for child in partition] for partition in partitions]
            for part in parts:
                while len(part) > 2:
                    regions.append({"partitions": [part[-2:]]})
                    part[-2:] = [len(regions) - 1]
            numbers.append(len(regions))
            regions.append({"partitions": parts} if parts else {"variables": variables})
        return RegionGraph.from_regions(regions)

    def scope(self, region: int) -> tuple[int, ...]:
        """All variables of a region, sorted."""
        pending, variables = [region], []
        while pending:
            region = pending.pop()
            if self.partition_counts[region]:
                pending += self.partitions(region)[0]
            else:
                variables += self.variables(region)
        return tuple(sorted(variables))

    def _check_sizes(self) -> None:
        if self.num_regions == 0:
            raise ValueError("expected a region graph with at least one region, found none")
        whole("num_variables", self.num_variables, least=0)
        whole("spare_sectors", self.spare_sectors, least=0)
        _check_counts("arities", self.partition_counts, len(self.arities))
        _check_counts("children", self.arities, len(self.children))
        _check_counts("leaf_variables", self.leaf_sizes, len(self.leaf_variables))
        if len(self.leaf_regions) != len(self.leaf_sizes):
            raise ValueError(f"expected {len(self.leaf_regions)} leaf sizes, found {len(self.leaf_sizes)}")
        if (self.arities == 0).any() or (self.leaf_sizes == 0).any():
            raise ValueError("expected partitions with children and leaf regions with variables, found an empty one")
        owners = np.repeat(np.repeat(np.arange(self.num_regions), self.partition_counts), self.arities)
        if (self.children < 0).any() or (self.children >= owners).any():
            raise ValueError("expected children that come before their parents, found one that does not")
        if self.leaf_variables.min() < 0 or self.leaf_variables.max() >= self.num_variables:
            raise ValueError(f"expected variables 0..{self.num_variables - 1}, found another one in a leaf region")
        if self.num_variables > len(self.leaf_variables):
            raise ValueError(f"expected each of {self.num_variables} variables in a leaf region, found fewer")

    def _check_scopes(self) -> None:
        """Walks up once, with one number for a region: the sum of random 128-bit numbers of its variables, and their count.

        Scopes that differ have the same sum once in 2^128 times. A variable that a region counts twice is counted
        twice in a root above it, where the sum is not that of all variables once.
        """
        numbers = [(secrets.randbits(128) << 64) + 1 for _ in range(self.num_variables)]
        scopes: list[int] = []
        for region, variables, partitions in self._walk():
            sums = {sum(scopes[child] for child in partition) for partition in partitions}
            scopes.append(sums.pop() if sums else sum(numbers[variable] for variable in variables))
            if sums:
                raise ValueError(f"expected partitions of the same variables, found different ones in region {region}")
            if scopes[region] % 2**64 > self.num_variables:
                raise ValueError(f"expected children with disjoint variables, found an overlap in region {region}")
        everything = sum(numbers)
        for root in self.roots.tolist():
            if scopes[root] != everything:
                raise ValueError(
                    f"expected roots over all {self.num_variables} variables, each once, found another in region {root}"
                )

    def _walk(self) -> Iterator[tuple[int, list[int], list[list[int]]]]:
        """Yields every region, children first, with the variables it lists and its partitions."""
        variables = _split(self.leaf_variables, self.leaf_offsets)
        partitions = _split(self.children, self.child_offsets)
        for region, count in enumerate(self.partition_counts.tolist()):
            yield region, [] if count else next(variables), list(islice(partitions, count))


def _split(values: IntArray, offsets: IntArray) -> Iterator[list[int]]:
    entries, ends = values.tolist(), offsets.tolist()
    return (entries[first:last] for first, last in pairwise(ends))


def _frozen_integers(name: str, values: ArrayLike) -> IntArray:
    array = np.asarray(values)
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise ValueError(f"expected {name} to be a vector of integers, found {array.dtype} of shape {array.shape}")
    array = array.astype(np.int64)
    array.flags.writeable = False
    return array


def _plural(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def _span(counts: IntArray, noun: str) -> str:
    """How many: "2 regions", or "2 to 3 regions"."""
    least, most = int(counts.min()), int(counts.max())
    return _plural(most, noun) if least == most else f"{least:,} to {_plural(most, noun)}"


def _offsets(counts: IntArray) -> IntArray:
    return np.concatenate([[0], np.cumsum(counts)])


def _check_counts(name: str, counts: IntArray, total: int) -> None:
    """Checks each count before their sum, which might wrap around."""
    if (counts < 0).any() or (counts > total).any() or counts.sum() != total:
        raise ValueError(f"expected counts that add up to the {total} entries of {name}, found others")
