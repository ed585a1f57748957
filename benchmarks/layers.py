"""How near wide layers come to the machine's peak: `python benchmarks/layers.py [--json]`.

The kernel's forward and backward pass, from logits to their gradients, on Chow-Liu trees of 15 categorical columns,
batch 256. The share of the peak counts useful operations: three products of matrices for each sum above the leaves,
which are looked up; nothing that is computed twice.
"""

from __future__ import annotations

import argparse
import json
import time

from collections.abc import Callable

import numpy as np
import torch

from engines import fused_multiply_adds
from rich.console import Console
from rich.table import Table

import hyperspn

from hyperspn.engines.native import Evaluation
from hyperspn.kernel import kernel

COLUMNS, BATCH = 15, 256
SIZES = [(16, 32), (32, 32), (64, 1), (256, 1), (1024, 1)]


def milliseconds(work: Callable[[], object], seconds: float) -> float:
    """The shortest time, after a warm-up, of at least five runs."""
    work()
    times: list[float] = []
    end = time.perf_counter() + seconds
    while len(times) < 5 or time.perf_counter() < end:
        start = time.perf_counter()
        work()
        times.append(1e3 * (time.perf_counter() - start))
    return min(times)


def chow_liu_circuit(layer_size: int, replicas: int, categories: int) -> tuple[hyperspn.Circuit, torch.Tensor]:
    """Columns that depend on their neighbors, and a tree for them."""
    generator = np.random.default_rng(0)
    rows = generator.integers(0, categories, (1000, COLUMNS))
    for column in range(1, COLUMNS):
        copied = generator.random(len(rows)) < 0.5
        rows[copied, column] = rows[copied, generator.integers(max(0, column - 3), column)]
    leaves = hyperspn.Categorical(categories)
    return hyperspn.HCLT(rows, layer_size, replicas, leaves=leaves, engine="native"), torch.from_numpy(rows)


def measure(layer_size: int, replicas: int, categories: int, threads: int, seconds: float) -> dict[str, float]:
    """Milliseconds of the forward pass and of both, with weights that are there already."""
    circuit, rows = chow_liu_circuit(layer_size, replicas, categories)
    torch.set_num_threads(threads)
    batch = circuit.engine.values.batch(circuit.leaves.read(rows[:BATCH]), circuit.leaves)
    parameters = dict(circuit.weights.named_parameters())
    evaluation = Evaluation(batch, circuit.weights, tuple(parameters), False)
    values = [parameter.detach() for parameter in parameters.values()]
    seeds = torch.full((replicas, BATCH), 1 / replicas)

    def backward() -> None:
        with torch.no_grad():
            for _ in evaluation.gradients(seeds, values, None):
                pass

    forward_time = milliseconds(lambda: evaluation.values(values, None), seconds)
    both = forward_time + milliseconds(backward, seconds)
    multiply_adds = replicas * ((COLUMNS - 1) * layer_size**2 + layer_size)
    return {"forward": forward_time, "both": both, "gigaflops": 6e-6 * multiply_adds * BATCH / both}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--categories", type=int, default=16)
    parser.add_argument("--seconds", type=float, default=3.0, help="for each measurement")
    parser.add_argument("--sizes", type=lambda text: [tuple(map(int, size.split("x"))) for size in text.split(",")],
                        default=SIZES, help="layer size x replicas, for example 16x32,64x1")  # fmt: skip
    options = parser.parse_args()
    rows = []
    for layer_size, replicas in options.sizes:
        peak = fused_multiply_adds(options.threads)
        row = measure(layer_size, replicas, options.categories, options.threads, options.seconds)
        rows.append({"k": layer_size, "r": replicas, **row, "peak": peak, "share": row["gigaflops"] / peak})
    if options.json:
        print(json.dumps({"instruction_set": kernel.instruction_set(), "threads": options.threads, "layers": rows}))
        return
    table = Table(*rows[0], title=f"{options.threads} threads, {kernel.instruction_set()}, milliseconds and GFLOP/s")
    for row in rows:
        table.add_row(*(f"{value:.3g}" for value in row.values()))
    Console().print(table)


if __name__ == "__main__":
    main()
