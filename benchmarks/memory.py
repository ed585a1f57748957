"""Plots the measured peak memory of evaluation beside Corollary 1: `python benchmarks/memory.py` writes docs/memory.png.

Corollary 1: evaluating a HyperSPN needs O(k log n + h (k^2 + r n)) memory, where its underlying SPN needs O(r n k^2).
Measured: working memory plus learnable parameters, for chunks of the usual size and for small ones.
"""

from __future__ import annotations

import math

from pathlib import Path

import matplotlib
import torch

from peak_memory import measured
from rich.progress import track

from hyperspn.structures import binary_trees
from hyperspn.weights.hyper import HyperWeights
from hyperspn.weights.sectors import Sectors

matplotlib.use("Agg")
from matplotlib import pyplot as plt

BATCH = 50
CHUNKS = [2**22, 2**16]
DEFAULT = {"variables": 512, "layer_size": 16, "replicas": 20}
SWEEPS = {
    "variables": [128, 256, 512, 1024, 2048, 4096],
    "layer_size": [4, 8, 16, 32, 64],
    "replicas": [5, 10, 20, 40, 80, 160],
}
LABELS = {"variables": "variables n", "layer_size": "layer size k", "replicas": "replicas r"}
MEGABYTE = 2**20


def formulas(variables: int, layer_size: int, replicas: int) -> tuple[float, float]:
    """Megabytes of Corollary 1 (learnable parameters, one sector, log2 n + 2 vectors per row) and of all weights."""
    sectors = Sectors(binary_trees(variables, replicas), layer_size, [2] * variables)
    with torch.device("meta"):
        learnable = HyperWeights(sectors).num_parameters + replicas
    alive = layer_size**2 + BATCH * layer_size * (math.log2(variables) + 2)
    return 4 * (learnable + alive) / MEGABYTE, 4 * sectors.num_weights / MEGABYTE


def main() -> None:
    figure, panels = plt.subplots(1, 3, figsize=(12, 3.8), sharey=True, layout="constrained")
    points = [(name, value) for name, values in SWEEPS.items() for value in values]
    results = {}
    for name, value in track(points, "measuring"):
        setting = {**DEFAULT, name: value}
        peaks = []
        for weights_at_once in CHUNKS:
            memory = measured(task="evaluate", batch=BATCH, weights_at_once=weights_at_once, **setting)
            peaks.append(memory["working"] + memory["parameters"])
        results[name, value] = *peaks, *formulas(**setting)
    for panel, (name, values) in zip(panels, SWEEPS.items(), strict=True):
        usual, small, corollary, weights = zip(*(results[name, value] for value in values), strict=True)
        panel.loglog(values, weights, ":", label="all weights of the underlying SPN")
        panel.loglog(values, usual, "o-", label="measured, chunks of 4M weights")
        panel.loglog(values, small, "o-", label="measured, chunks of 64k weights")
        panel.loglog(values, corollary, "--", label="Corollary 1, all constants 1")
        others = ", ".join(f"{LABELS[other].split()[-1]} = {DEFAULT[other]}" for other in SWEEPS if other != name)
        panel.set(xlabel=LABELS[name], title=others)
        panel.set_xticks(values, labels=map(str, values))
        panel.minorticks_off()
        panel.grid(alpha=0.3)
    panels[0].set_ylabel("megabytes")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=4)
    path = Path(__file__).parent.parent / "docs" / "memory.png"
    figure.savefig(path, dpi=120)
    for (name, value), megabytes in results.items():
        usual, small, corollary, weights = (f"{number:.1f}" for number in megabytes)
        print(f"{name} = {value}: {usual} MB, small chunks {small}, Corollary 1 {corollary}, all weights {weights}")
    print(f"Saved {path}.")


if __name__ == "__main__":
    main()
