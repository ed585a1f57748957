"""Oracles that share no code with the library: all worlds, and circuits evaluated node by node."""

from __future__ import annotations

import itertools
import json
import math

from collections.abc import Iterator
from functools import partial

import numpy as np
import torch

from hyperspn import SPN, Binomial, Categorical, Circuit, EiNet, Gaussian, Histogram, HyperSPN, RegionGraph
from hyperspn.structures import binary_trees, chow_liu, poon_domingos

SHARED = RegionGraph.from_regions(
    [{"variables": [v]} for v in range(4)]
    + [{"partitions": [[0, 1]]}, {"partitions": [[2, 3]]}, {"partitions": [[1, 2]]}]
    + [{"partitions": [[4, 2], [0, 6]]}, {"partitions": [[7, 3], [4, 5]]}]
)
CATERPILLAR = RegionGraph.from_regions(
    [{"variables": [v]} for v in (2, 0, 1, 4, 3)]
    + [{"partitions": [[0, 1]]}, {"partitions": [[5, 2]]}, {"partitions": [[6]]}, {"partitions": [[7, 3, 4]]}]
)
WIDE_LEAVES = RegionGraph.from_regions(
    [{"variables": [0, 3]}, {"variables": [1]}, {"variables": [2, 4]}, {"partitions": [[0, 1, 2]]}]
    + [{"variables": [4, 0]}, {"variables": [1, 2, 3]}, {"partitions": [[4, 5]]}]
)
ROWS = np.random.default_rng(0).integers(0, 2, (40, 6)).cumsum(1) % 2
STRUCTURES = {
    **{f"trees{n}": binary_trees(n, replicas=3, seed=n) for n in (1, 2, 3, 5, 6, 10)},
    "shared": SHARED,
    "caterpillar": CATERPILLAR,
    "wide leaves": WIDE_LEAVES,
    "chow-liu": chow_liu(ROWS, replicas=3),
    "one tree": chow_liu(ROWS, replicas=3, shared=True),
    "grid": poon_domingos((2, 3), delta=1),
    "line": poon_domingos((1, 3), delta=1),
}


def make(name: str, weights: str, layer_size: int = 3, seed: int = 0, **options) -> Circuit:
    """A circuit with "direct" or "hyper" weights, or the "direct EiNet" or "hyper EiNet" of the same structure."""
    structure = STRUCTURES[name]
    source, *einet = weights.split()
    if einet:
        circuit = EiNet(structure, layer_size, weights=source, seed=seed, **{"leaves": Categorical(2), **options})
    else:
        factored = partial(HyperSPN, weights="factored", hidden=(5,))
        assemble = {"direct": SPN, "hyper": HyperSPN, "factored": factored}[source]
        circuit = assemble(
            structure.num_variables, layer_size, seed=seed, structure=structure, init="normal", **options
        )
    return sharpened(circuit.double(), seed)


def sharpened(circuit: Circuit, seed: int = 0) -> Circuit:
    """Random parameters, far enough from uniform that a mistake shows."""
    generator = torch.Generator().manual_seed(seed)
    for parameter in circuit.parameters():
        parameter.data.normal_(generator=generator)
    return circuit


def mixed_families(num_variables: int) -> list:
    return [(Categorical(2), Categorical(5), Binomial(2, total=3))[v % 3] for v in range(num_variables)]


def all_worlds(circuit: Circuit) -> torch.Tensor:
    """Every complete row of a discrete circuit."""
    sizes = [f.total + 1 if isinstance(f, Binomial) else f.categories for f in circuit.leaves.families]
    return torch.tensor(list(itertools.product(*(range(size) for size in sizes))))


def missing_patterns(circuit: Circuit, count: int, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(count, circuit.num_variables, generator=generator) < 0.5


def agreeing(worlds: torch.Tensor, row: torch.Tensor, missing: torch.Tensor) -> torch.Tensor:
    """Which worlds agree with the known values of a row."""
    return ((worlds == row) | missing).all(1)


def value(circuit: Circuit, row: list[float]) -> float:
    """p(row), node by node from the definition, with sectors numbered in the order of the regions."""
    graph = json.loads(circuit.structure.to_json())
    k, mixture = circuit.sectors.layer_size, torch.softmax(circuit.mixture, 0).tolist()
    children = {c for region in graph["regions"] for part in region.get("partitions", []) for c in part}
    used: dict[int, int] = {}
    outputs: list[list[float]] = []
    total = 0.0
    for index, region in enumerate(graph["regions"]):
        if "variables" in region:
            inputs = [[math.prod(c) for c in zip(*(densities(circuit, v, row[v]) for v in region["variables"]))]]
        else:
            inputs = [[math.prod(outputs[c][j] for c in part) for j in range(k)] for part in region["partitions"]]
        columns = len(inputs[0])
        kind = 0 if columns <= k else [q.columns for q in circuit.sectors.kinds].index(columns)
        rows = k if index in children else 1
        blocks = []
        for _ in inputs:
            sector = circuit.weights(kind, torch.tensor([used.get(kind, 0)]))[0].view(k, -1)
            used[kind] = used.get(kind, 0) + 1
            blocks.append(sector[:rows, :columns])
        weights = torch.softmax(torch.cat(blocks, 1), 1).tolist()
        flat = [v for part in inputs for v in part]
        outputs.append([sum(w * v for w, v in zip(weights[o], flat)) for o in range(rows)])
        if index not in children:
            total += mixture.pop(0) * outputs[-1][0]
    return total


def einet_value(circuit: Circuit, row: list[float]) -> float:
    """The same for a circuit of outer products."""
    regions = json.loads(circuit.structure.to_json())["regions"]
    k, mixture = circuit.sectors.layer_size, torch.softmax(circuit.mixture, 0).tolist()
    children = {c for region in regions for part in region.get("partitions", []) for c in part}
    vectors = [iter(circuit.weights(q, torch.arange(kind.count))) for q, kind in enumerate(circuit.sectors.kinds)]
    outputs: list[list[float]] = []
    total = 0.0
    for index, region in enumerate(regions):
        rows = k if index in children else 1
        if "variables" in region:
            inputs = [math.prod(c) for c in zip(*(densities(circuit, v, row[v]) for v in region["variables"]))]
            parts = [(inputs, [1.0])]
        else:
            parts = [(outputs[part[0]], outputs[part[1]] if part[1:] else [1.0]) for part in region["partitions"]]
        width = len(parts[0][0])
        own = vectors[0 if width <= k else [q.columns for q in circuit.sectors.kinds].index(width)]
        if "variables" in region and width == rows:
            outputs.append(inputs)
        else:
            sums = [[_weighted(left, right, own) for left, right in parts] for _ in range(rows)]
            mixing = torch.stack([next(own)[:rows] if len(parts) > 1 else torch.zeros(rows) for _ in parts], 1)
            mixing = mixing.softmax(1).tolist()
            outputs.append([sum(m * v for m, v in zip(*pair)) for pair in zip(mixing, sums)])
        if index not in children:
            total += mixture.pop(0) * outputs[-1][0]
    return total


def _weighted(left: list[float], right: list[float], vectors: Iterator[torch.Tensor]) -> float:
    weights = torch.stack([next(vectors)[: len(left)] for _ in right]).flatten().softmax(0).tolist()
    return sum(w * b * a for w, (b, a) in zip(weights, itertools.product(right, left)))


def densities(circuit: Circuit, variable: int, x: float) -> list[float]:
    family = circuit.leaves.families[variable]
    same = [v for v, own in enumerate(circuit.leaves.families) if own == family]
    raw = circuit.leaves.raw[circuit.leaves.distinct.index(family)][same.index(variable)].tolist()
    if isinstance(family, Categorical):
        return [float(x == j) for j in range(family.categories)]
    if isinstance(family, Binomial):
        chances = [1 / (1 + math.exp(-z[0])) for z in raw]
        return [math.comb(family.total, int(x)) * s**x * (1 - s) ** (family.total - x) for s in chances]
    if isinstance(family, Histogram):
        return [math.exp(z[int(x)]) / sum(map(math.exp, z)) for z in raw]
    assert isinstance(family, Gaussian)
    low, high = family.min_variance, family.max_variance
    spread = [low + (math.exp(z) if high is None else (high - low) / (1 + math.exp(-z))) for _, z in raw]
    means = [m for m, _ in raw]
    return [math.exp(-((x - m) ** 2) / (2 * v)) / math.sqrt(2 * math.pi * v) for m, v in zip(means, spread)]
