"""Speed and memory of the SVHN EiNet on 2 threads: `python benchmarks/einet.py [--json]`.

32 x 32 x 3 pixels, vertical cuts every 8 columns, k = 40. Times are medians after a warm-up, in milliseconds, of whole
training steps (log-likelihood, gradients, Adam) and of evaluations; memory is the peak of a process of its own above
the loaded model, in megabytes.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys

import torch

from engines import evaluation, milliseconds
from peak_memory import start_again, status
from rich.console import Console
from rich.table import Table

import hyperspn

from hyperspn.structures import poon_domingos

SIZES = [(weights, batch) for weights in ("direct", "hyper") for batch in (10, 100)]
THREADS = 2


def measure(weights: str, batch: int) -> dict[str, object]:
    """Measures in this process."""
    torch.set_num_threads(THREADS)
    circuit = hyperspn.EiNet(poon_domingos((32, 32), axes=[1], delta=8, channels=3), 40, weights=weights)
    optimizer = torch.optim.Adam(circuit.parameter_groups(), fused=True)
    x = 0.2 * torch.randn(batch, circuit.num_variables, generator=torch.Generator().manual_seed(0))

    def step() -> None:
        optimizer.zero_grad()
        (-circuit.log_prob(x).sum()).backward()
        optimizer.step()

    loaded = start_again()
    step()
    megabytes = status("VmHWM") - loaded
    return {
        "weights": weights,
        "batch": batch,
        "step": milliseconds(step),
        "evaluation": milliseconds(evaluation(circuit, x)),
        "train_megabytes": megabytes,
        "load": os.getloadavg()[0],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--one", nargs=2, metavar=("WEIGHTS", "BATCH"), help="measure one size in this process")
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measure(options.one[0], int(options.one[1]))))
        return
    rows = []
    for weights, batch in SIZES:
        command = [sys.executable, __file__, "--one", weights, str(batch)]
        rows.append(json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout))
    if options.json:
        print(json.dumps({"threads": THREADS, "einet": rows}, indent=1))
        return
    table = Table(*rows[0])
    for row in rows:
        table.add_row(*(f"{value:.4g}" if isinstance(value, float) else str(value) for value in row.values()))
    Console().print(table)


if __name__ == "__main__":
    main()
