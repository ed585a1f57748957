"""Peak memory of an evaluation or of two training steps, in megabytes: run in a process of its own.

Prints what is needed above the imported library, above the loaded model, and, as working memory, above a model that has
been used once; and the size of the learnable parameters.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import json
import subprocess
import sys
import tempfile

from pathlib import Path

import torch

import hyperspn

from hyperspn.engines import NativeEngine


def measured(**options: object) -> dict[str, float]:
    """Measures in a new process."""
    arguments = [f"--{name.replace('_', '-')}={value}" for name, value in options.items()]
    done = subprocess.run([sys.executable, __file__, *arguments], check=True, capture_output=True, text=True)
    return json.loads(done.stdout)


def status(field: str) -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(field)) / 1024


def start_again() -> float:
    """Gives unused memory back, forgets the old peak, and returns what is in use."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")
    return status("VmRSS")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--task", choices=["evaluate", "train"], required=True)
    parser.add_argument("--model", choices=["SPN", "HyperSPN"], default="HyperSPN")
    parser.add_argument("--engine", choices=["native", "layered"], default="native")
    for name, default in (("variables", 163), ("layer-size", 5), ("replicas", 50), ("batch", 500)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--weights-at-once", type=int, default=2**22)
    options = parser.parse_args()
    torch.set_num_threads(2)
    warm_up = hyperspn.HyperSPN(4, replicas=2, engine=options.engine)
    warm_up(torch.zeros(64, 4)).sum().backward()

    imported = start_again()
    assemble = getattr(hyperspn, options.model)
    with tempfile.TemporaryDirectory() as folder:
        assemble(options.variables, options.layer_size, options.replicas, engine=options.engine).save(f"{folder}/model")
        circuit = hyperspn.load(f"{folder}/model", options.engine)
    if options.engine == "native":
        circuit.engine = NativeEngine(circuit.sectors, circuit.leaves, weights_at_once=options.weights_at_once)
    x = torch.randint(2, (options.batch, options.variables), dtype=torch.uint8)
    stored = start_again()
    optimizer = torch.optim.Adam(circuit.parameter_groups(), fused=True)

    def work() -> float:
        """Does the task, and returns the peak since the last start."""
        with torch.set_grad_enabled(options.task == "train"):
            loss = -circuit.log_prob(x).sum()
        if options.task == "train":
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        return status("VmHWM")

    first = work()
    used = start_again()
    second = work()
    peak = max(first, second)
    memory = {"above_import": peak - imported, "above_model": peak - stored, "working": second - used}
    print(json.dumps({**memory, "parameters": 4 * circuit.num_parameters / 2**20}))


if __name__ == "__main__":
    main()
