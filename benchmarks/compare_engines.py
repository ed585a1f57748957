"""Compares the engines on random circuits in float64: `python benchmarks/compare_engines.py [--circuits 10000]`.

Structures, leaves, holes and the sharpness of weights are drawn at random. Log-values of all trees and their gradients
must agree within 1e-9; where they do not, 50-digit arithmetic decides which engine is right. Prints how many circuits
ended how, and ends with an error if the native engine is wrong: where the layered one is right, ten times as far off, or
not a number.
"""

from __future__ import annotations

import argparse
import sys

from collections import Counter
from typing import NamedTuple

import numpy as np
import torch

from mpmath import mp, mpf
from torch import Tensor

from hyperspn import SPN, Binomial, Categorical, Circuit, Gaussian, HyperSPN, RegionGraph
from hyperspn.engines import LayeredEngine, NativeEngine
from hyperspn.weights import HyperWeights

SCALES = (1, 10, 30, 300)
TOLERANCE = 1e-9
WIDE = (8, 9, 15, 16, 17, 24, 31, 32, 33, 64, 65)
mp.dps = 50


class Outcome(NamedTuple):
    """Log-values, (rows, trees), and the gradients of logits and leaf parameters."""

    values: Tensor
    gradients: list[Tensor]

    def distance(self, other: Outcome) -> float:
        """The largest difference, relative to the other's value or to its largest gradient, if that is above 1."""
        possible = other.values > -torch.inf
        if not torch.equal(self.values > -torch.inf, possible):
            return torch.inf
        errors = ((self.values - other.values) / other.values.abs().clamp(min=1))[possible].abs().flatten().tolist()
        for ours, theirs in zip(self.gradients, other.gradients, strict=True):
            largest = max(1.0, theirs.abs().max().item()) if theirs.numel() else 1.0
            errors += ((ours - theirs).abs() / largest).flatten().tolist()
        return max((torch.inf if np.isnan(error) else error for error in errors), default=0.0)


def random_forest(generator: np.random.Generator, variables: int, trees: int) -> RegionGraph:
    """Trees of any shape: regions are merged at random, a few at a time, sometimes alone."""
    regions: list[dict] = []
    for _ in range(trees):
        alive = list(range(len(regions), len(regions) + variables))
        regions += [{"variables": [int(v)]} for v in generator.permutation(variables)]
        while len(alive) > 1 or generator.random() < 0.3:
            arity = min(len(alive), int(generator.choice([1, 2, 2, 2, 3, 5])))
            chosen = generator.choice(alive, arity, replace=False).tolist()
            alive = [region for region in alive if region not in chosen] + [len(regions)]
            regions.append({"partitions": [chosen]})
    return RegionGraph.from_regions(regions)


def random_circuit(seed: int) -> tuple[Circuit, Tensor]:
    """A circuit with the layered engine, and rows for it."""
    generator = np.random.default_rng(seed)
    torch.manual_seed(seed)
    variables = int(generator.integers(1, 9))
    structure = random_forest(generator, variables, trees=int(generator.integers(1, 4)))
    families = [random_family(generator) for _ in range(variables)]
    assemble = SPN if generator.random() < 0.7 else HyperSPN
    layer_size = int(generator.integers(1, 7) if generator.random() < 0.7 else generator.choice(WIDE))
    circuit = assemble(variables, layer_size, structure=structure, leaves=families, engine="layered").double()
    for parameter in circuit.parameters():
        parameter.data.normal_()
    sharpen(circuit, float(generator.choice(SCALES)), impossible=generator.random() < 0.1)
    return circuit, random_rows(generator, families)


def random_family(generator: np.random.Generator) -> Categorical | Gaussian | Binomial:
    kind, size = generator.integers(3), int(generator.integers(1, 6))
    if kind == 0:
        return Categorical(int(generator.choice([1, 2, 3, 5, 20])))
    return Gaussian(size, 0.01, 4.0) if kind == 1 else Binomial(size, total=int(generator.choice([1, 9, 300])))


def sharpen(circuit: Circuit, scale: float, impossible: bool) -> None:
    """Multiplies the unnormalized weights; some of direct ones become -inf, but never the first of a row."""
    source = circuit.weights
    if isinstance(source, HyperWeights):
        for parameter in source.heads.parameters():
            parameter.data *= scale
        return
    for kind, table in zip(circuit.sectors.kinds, source.logits, strict=True):
        table.data *= scale
        if impossible:
            lost = torch.rand(kind.count, kind.rows, kind.columns) < 0.2
            lost[..., 0] = False
            table.data.masked_fill_(lost.view_as(table), -torch.inf)


def random_rows(generator: np.random.Generator, families: list, count: int = 5) -> Tensor:
    """Values of each family, Gaussian ones up to far away; a third of them missing."""
    far = generator.choice([1, 10, 1000])
    columns = []
    for family in families:
        if isinstance(family, Gaussian):
            columns.append(generator.normal(size=count) * far)
        else:
            largest = family.total if isinstance(family, Binomial) else family.categories - 1
            columns.append(generator.integers(0, largest + 1, count).astype(float))
    x = np.stack(columns, 1)
    return torch.from_numpy(np.where(generator.random(x.shape) < 0.3, np.nan, x))


def direct_twin(circuit: Circuit) -> Circuit:
    """The same circuit with weights that are parameters."""
    twin = SPN(
        circuit.num_variables,
        circuit.sectors.layer_size,
        structure=circuit.structure,
        leaves=list(circuit.leaves.families),
        engine="layered",
    ).double()
    twin.leaves.load_state_dict(circuit.leaves.state_dict())
    for index, table in enumerate(twin.weights.logits):
        table.data = circuit.weights(index, slice(None)).detach().clone()
    return twin


def seeds_of(shape: torch.Size) -> Tensor:
    return torch.linspace(-1, 2, shape.numel(), dtype=torch.float64).view(shape)


def evaluate(circuit: Circuit, engine: LayeredEngine, x: Tensor) -> Outcome:
    """What an engine says."""
    circuit.zero_grad()
    values = engine.log_values(circuit.leaves.read(x), circuit.leaves, circuit.weights)
    values.masked_fill(values == -torch.inf, 0).backward(seeds_of(values.shape))
    return Outcome(values.detach(), gradients(circuit))


def gradients(circuit: Circuit) -> list[Tensor]:
    parameters = [*circuit.weights.parameters(), *circuit.leaves.parameters()]
    return [torch.zeros_like(p) if p.grad is None else p.grad.clone() for p in parameters if p.numel()]


class Reference:
    """A direct circuit node by node in 50 digits, from the log-densities of its leaves to their gradients."""

    def __init__(self, circuit: Circuit) -> None:
        self.circuit = circuit
        structure, sectors = circuit.structure, circuit.sectors
        self.children = [
            structure.children[
                structure.child_offsets[structure.partition_offsets[region]] : structure.child_offsets[
                    structure.partition_offsets[region + 1]
                ]
            ].tolist()
            for region in range(structure.num_regions)
        ]
        self.variable = dict(zip(structure.leaf_regions.tolist(), structure.leaf_variables.tolist(), strict=True))
        self.layers = [sectors.layers[index] for index in sectors.layer_of.tolist()]
        self.log_weights = [self._log_weights(region) for region in range(structure.num_regions)]

    def evaluate(self, x: Tensor) -> Outcome:
        circuit = self.circuit
        circuit.zero_grad()
        leaf_log_probs = circuit.leaves.log_prob(circuit.leaves.read(x))
        roots = circuit.structure.roots.tolist()
        seeds = seeds_of(torch.Size([len(x), len(roots)]))
        self.flows = [[[mpf(0)] * len(row) for row in rows] for rows in self.log_weights]
        leaf_gradient = torch.zeros_like(leaf_log_probs)
        values = torch.empty_like(seeds)
        for row, leaves in enumerate(leaf_log_probs.tolist()):
            for tree, root in enumerate(roots):
                values[row, tree] = self._tree(root, leaves, mpf(seeds[row, tree].item()), leaf_gradient[row])
        if leaf_log_probs.requires_grad:
            finite = leaf_log_probs > -torch.inf
            leaf_log_probs.masked_fill(~finite, 0).backward(leaf_gradient.masked_fill(~finite, 0))
        self._write_logit_gradients()
        return Outcome(values, gradients(circuit))

    def _log_weights(self, region: int) -> list[list[mpf]]:
        layer = self.layers[region]
        table = self.circuit.weights.logits[layer.kind_index].detach().view(-1, layer.kind.rows, layer.kind.columns)
        block = table[self._sector(region), : layer.rows, : layer.columns].tolist()
        return [[mpf(logit) - log_sum(map(mpf, row)) for logit in row] for row in block]

    def _sector(self, region: int) -> int:
        return int(self.layers[region].sectors[self.circuit.sectors.slot_of[region], 0])

    def _tree(self, root: int, leaves: list[list[float]], seed: mpf, leaf_gradient: Tensor) -> float:
        """The log-value of one tree; adds its flows to those of weights and leaves."""
        inputs: dict[int, list[mpf]] = {}
        outputs: dict[int, list[mpf]] = {}
        order = self._below(root)
        for region in order:
            if self.children[region]:
                factors = [outputs[child] for child in self.children[region]]
                inputs[region] = [sum(column, mpf(0)) for column in zip(*factors, strict=True)]
            else:
                inputs[region] = [mpf(value) for value in leaves[self.variable[region]][: self.layers[region].columns]]
            outputs[region] = [
                log_sum(w + value for w, value in zip(row, inputs[region], strict=True))
                for row in self.log_weights[region]
            ]
        value = outputs[root][0]
        flows = {root: [seed if value > -mp.inf else mpf(0)]}
        for region in reversed(order):
            below = [mpf(0)] * len(inputs[region])
            for o, (flow, out) in enumerate(zip(flows[region], outputs[region], strict=True)):
                if flow == 0 or out == -mp.inf:
                    continue
                for j, (w, into) in enumerate(zip(self.log_weights[region][o], inputs[region], strict=True)):
                    edge = flow * mp.exp(w + into - out)
                    self.flows[region][o][j] += edge
                    below[j] += edge
            for child in self.children[region]:
                flows[child] = below
            if not self.children[region]:
                for j, flow in enumerate(below):
                    leaf_gradient[self.variable[region], j] += float(flow)
        return float(value)

    def _below(self, root: int) -> list[int]:
        """The regions of a tree, children first."""
        order, pending = [], [root]
        while pending:
            order.append(pending.pop())
            pending += self.children[order[-1]]
        return order[::-1]

    def _write_logit_gradients(self) -> None:
        for table in self.circuit.weights.logits:
            table.grad = torch.zeros_like(table)
        for region, rows in enumerate(self.flows):
            layer = self.layers[region]
            table = self.circuit.weights.logits[layer.kind_index].grad
            block = table.view(-1, layer.kind.rows, layer.kind.columns)[self._sector(region)]
            for o, flows in enumerate(rows):
                total = sum(flows, mpf(0))
                for j, flow in enumerate(flows):
                    block[o, j] = float(flow - mp.exp(self.log_weights[region][o][j]) * total)


def log_sum(terms: object) -> mpf:
    terms = list(terms)
    top = max(terms)
    return top if top == -mp.inf else top + mp.log(sum(mp.exp(term - top) for term in terms))


def compare(seed: int) -> str:
    """How the engines get along on one circuit: "agree", or who is right where they do not."""
    circuit, x = random_circuit(seed)
    weights_at_once = (1, 100, 2**22)[seed % 3]
    native = NativeEngine(circuit.sectors, circuit.leaves, weights_at_once=weights_at_once)
    ours, theirs = (evaluate(circuit, engine, x) for engine in (native, circuit.engine))
    if ours.distance(theirs) <= TOLERANCE:
        return "agree"
    twin = direct_twin(circuit)
    truth = Reference(twin).evaluate(x)
    native_error, layered_error = (evaluate(twin, engine, x).distance(truth) for engine in (native, circuit.engine))
    if native_error <= TOLERANCE:
        return "native right, layered wrong"
    if layered_error > TOLERANCE and native_error <= 10 * layered_error < torch.inf:
        return "both inaccurate"
    return "native wrong"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--circuits", type=int, default=10_000)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    options = parser.parse_args()
    torch.set_num_threads(1)
    outcomes: Counter[str] = Counter()
    for seed in range(options.first, options.first + options.circuits):
        outcome = compare(seed)
        outcomes[outcome] += 1
        if outcome != "agree":
            print(f"circuit {seed}: {outcome}", flush=True)
    print(f"{options.circuits:,} circuits: {', '.join(f'{outcome} {count:,}' for outcome, count in outcomes.items())}")
    sys.exit(outcomes["native wrong"] > 0)


if __name__ == "__main__":
    main()
