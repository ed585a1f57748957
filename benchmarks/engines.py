"""Speed and memory of the engines, side by side in one run on 2 threads: `python benchmarks/engines.py [--json]`.

Times are medians after a warm-up, in milliseconds, of whole training steps (batch, log-likelihood, gradients, Adam)
and of evaluations, for k = 5 and r = 50. Memory is the peak of a process of its own, in megabytes.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import tempfile
import time

from collections.abc import Callable
from pathlib import Path

import torch

from peak_memory import measured
from rich.console import Console
from rich.table import Table

import hyperspn

from hyperspn.kernel import array, kernel

SIZES = [(16, 500), (69, 500), (163, 500), (1556, 50)]
THREADS = 2


def milliseconds(work: Callable[[], object], seconds: float = 3.0) -> float:
    """The median time, after a warm-up, of at least five runs."""
    work()
    times: list[float] = []
    end = time.perf_counter() + seconds
    while len(times) < 5 or time.perf_counter() < end:
        start = time.perf_counter()
        work()
        times.append(1e3 * (time.perf_counter() - start))
    return statistics.median(times)


def training_step(circuit: hyperspn.Circuit, rows: torch.Tensor, batch: int) -> Callable[[], None]:
    optimizer = torch.optim.Adam(circuit.parameter_groups(), fused=True)

    def step() -> None:
        x = rows[torch.randint(len(rows), (batch,))]
        optimizer.zero_grad()
        (-circuit.log_prob(x).sum()).backward()
        optimizer.step()

    return step


def evaluation(circuit: hyperspn.Circuit, rows: torch.Tensor) -> Callable[[], None]:
    @torch.no_grad()
    def evaluate() -> None:
        circuit.log_prob(rows)

    return evaluate


def multiply_adds(circuit: hyperspn.Circuit) -> int:
    """Of one row through all sums: a weight is used once."""
    return circuit.sectors.num_used_weights - len(circuit.mixture)


def fused_multiply_adds(threads: int = THREADS) -> float:
    """The measured peak of this machine in GFLOP/s."""
    flags = {"avx512": ["-mavx512f", "-DVECTOR_BYTES=64"], "avx2": ["-mavx2", "-mfma", "-DVECTOR_BYTES=32"]}
    chosen = flags.get(kernel.instruction_set(), ["-DVECTOR_BYTES=16"])
    with tempfile.TemporaryDirectory() as folder:
        program = f"{folder}/peak"
        source = Path(__file__).with_name("peak.cpp")
        subprocess.run(["c++", "-O3", "-std=c++17", "-pthread", *chosen, source, "-o", program], check=True)
        done = subprocess.run([program, str(threads)], check=True, capture_output=True, text=True)
    return float(done.stdout.split()[0])


def kernel_milliseconds(circuit: hyperspn.Circuit, x: torch.Tensor) -> tuple[float, float]:
    """Forward, and forward + backward, of the trees alone: from materialized weights to their gradients."""
    reading = circuit.engine.values
    (piece,) = reading.trees.pieces
    (chunk,) = piece.chunks
    kinds = zip(circuit.sectors.kinds, chunk.ids, strict=True)
    written = ((circuit.weights(q, ids), kind) for q, (kind, ids) in enumerate(kinds))
    logits = [array(table.view(-1, kind.rows, kind.columns)) for table, kind in written]
    batch = kernel.Batch(*reading.batch(circuit.leaves.read(x), circuit.leaves).arrays(), "float32", THREADS)
    seeds = array(torch.full((len(circuit.mixture), len(x)), 1 / len(circuit.mixture)))
    nodes = chunk.bases, chunk.nodes.start, chunk.nodes.stop
    walk = lambda: kernel.Walk(batch, 0, len(circuit.mixture), False, THREADS)
    forward = milliseconds(lambda: walk().forward(logits, *nodes))
    backward = milliseconds(lambda: walk().backward(logits, *nodes, seeds, False))
    return forward, forward + backward


def speed(variables: int, batch: int, model: str, peak: float) -> dict[str, object]:
    row: dict[str, object] = {"variables": variables, "batch": batch, "model": model}
    rows = torch.randint(2, (10_000, variables), dtype=torch.uint8)
    for engine in ("native", "layered"):
        circuit = getattr(hyperspn, model)(variables, engine=engine)
        row[f"step_{engine}"] = milliseconds(training_step(circuit, rows, batch))
        batch_rows = rows if engine == "native" else rows[:500]
        row[f"rows_per_second_{engine}"] = 1e3 * len(batch_rows) / milliseconds(evaluation(circuit, batch_rows))
        row[f"train_megabytes_{engine}"] = measured(
            task="train", model=model, engine=engine, variables=variables, batch=batch
        )["above_import"]
        if engine == "native":
            forward, both = kernel_milliseconds(circuit, rows[:batch])
            operations = 2e-6 * multiply_adds(circuit) * batch
            row |= {"kernel_forward": forward, "kernel_both": both}
            row |= {"share_of_peak_forward": operations / forward / peak, "share_of_peak": 3 * operations / both / peak}
    row["speed_up"] = row["step_layered"] / row["step_native"]
    return row


def trained(model: str, steps: int = 4000) -> dict[str, object]:
    """Whether steps stay as fast while weights become sharp and gradients vanish: on the built-in digits."""
    rows = torch.from_numpy(hyperspn.datasets.load_dataset("digits").train)
    step = training_step(getattr(hyperspn, model)(rows.shape[1]), rows, batch=500)
    before = milliseconds(step)
    for _ in range(steps):
        step()
    return {"model": model, "steps": steps, "step_before": before, "step_after": milliseconds(step)}


LARGE = {
    "training, n=1556, k=5, r=50, batch 500": {"task": "train", "variables": 1556},
    "evaluation, n=4096, k=32, r=50, batch 50": {
        "task": "evaluate", "variables": 4096, "layer_size": 32, "batch": 50,
    },
    "training, n=8192, k=64, r=15, batch 50 (10^9 weights)": {
        "task": "train", "variables": 8192, "layer_size": 64, "replicas": 15, "batch": 50,
    },
}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--quick", action="store_true", help="leave out n = 1556 and the large models")
    options = parser.parse_args()
    torch.set_num_threads(THREADS)
    peak = fused_multiply_adds()
    sizes = SIZES[:3] if options.quick else SIZES
    rows = [speed(*size, model, peak) for size in sizes for model in ("HyperSPN", "SPN")]
    after_training = [trained(model) for model in ("HyperSPN", "SPN")]
    large = {} if options.quick else {name: measured(**arguments) for name, arguments in LARGE.items()}
    if options.json:
        machine = {"instruction_set": kernel.instruction_set(), "threads": THREADS, "gflops": peak}
        report = {"machine": machine, "speed": rows, "after_training": after_training, "memory_of_large_models": large}
        print(json.dumps(report, indent=1))
        return
    print(f"{peak:.0f} GFLOP/s of float32 multiply-adds on {THREADS} threads ({kernel.instruction_set()})")
    table = Table(*rows[0])
    for row in rows:
        table.add_row(*(f"{value:.4g}" if isinstance(value, float) else str(value) for value in row.values()))
    Console(width=200).print(table)
    for row in after_training:
        print(row)
    for name, megabytes in large.items():
        print(name, {what: round(value, 1) for what, value in megabytes.items()})


if __name__ == "__main__":
    main()
