"""Speed and memory of this version beside another one: `python benchmarks/compare_versions.py OTHER_PYTHON [--json]`.

OTHER_PYTHON is the interpreter of an environment in which the other version is installed. Each version works in a
process of its own; they take turns, so that whatever else the machine does slows both. Times are of training steps
and evaluations with the native engine, for k = 5 and r = 50.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time

from collections.abc import Callable, Iterator
from pathlib import Path

import torch

SIZES = [(16, 500), (69, 500), (163, 500), (1556, 50)]


class Version:
    """A process that runs `serve` with one version of the library."""

    def __init__(self, python: str, arguments: list[str]) -> None:
        command = [python, __file__, "serve", *arguments]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, work: str) -> float:
        """The milliseconds of one run, or the peak of memory in megabytes."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        print(work, file=self.process.stdin, flush=True)
        return float(self.process.stdout.readline())

    def stop(self) -> None:
        self.process.communicate()


def serve(model: str, variables: int, batch: int, threads: int) -> None:
    """Does what it is asked on standard input: "train", "evaluate" or "memory"."""
    import hyperspn

    torch.set_num_threads(threads)
    torch.manual_seed(0)
    circuit = getattr(hyperspn, model)(variables, engine="native")
    rows = torch.randint(2, (10_000, variables), dtype=torch.uint8)
    optimizer = torch.optim.Adam(circuit.parameter_groups(), fused=True)

    def train() -> None:
        optimizer.zero_grad()
        (-circuit.log_prob(rows[:batch]).sum()).backward()
        optimizer.step()

    def evaluate() -> None:
        with torch.no_grad():
            circuit.log_prob(rows[: 10 * batch])

    tasks = {"train": train, "evaluate": evaluate}
    for line in sys.stdin:
        print(peak_megabytes() if line.strip() == "memory" else milliseconds(tasks[line.strip()]), flush=True)


def milliseconds(work: Callable[[], None]) -> float:
    """The mean of as many runs as fit into 50 ms."""
    start, runs = time.perf_counter(), 0
    while not runs or time.perf_counter() < start + 0.05:
        work()
        runs += 1
    return 1e3 * (time.perf_counter() - start) / runs


def peak_megabytes() -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024


def compare(other: str, repeats: int, threads: int) -> Iterator[dict[str, object]]:
    for variables, batch in SIZES:
        for model in ("HyperSPN", "SPN"):
            arguments = [model, str(variables), str(batch), str(threads)]
            versions = [Version(python, arguments) for python in (sys.executable, other)]
            row: dict[str, object] = {"variables": variables, "batch": batch, "model": model}
            for work in ("train", "evaluate"):
                for version in versions:
                    version.ask(work)
                times = [[version.ask(work) for version in versions] for _ in range(repeats)]
                ours, theirs = zip(*times, strict=True)
                row |= {f"{work}_ms": statistics.median(ours), f"{work}_ms_other": statistics.median(theirs)}
                row |= {f"{work}_ratio": statistics.median(ours) / statistics.median(theirs)}
                row |= {f"{work}_ratio_of_minima": min(ours) / min(theirs)}
            row |= dict(
                zip(("megabytes", "megabytes_other"), (version.ask("memory") for version in versions), strict=True)
            )
            for version in versions:
                version.stop()
            yield row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("other", help="the interpreter of the other version")
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args()
    for row in compare(options.other, options.repeats, options.threads):
        print(json.dumps(row) if options.json else "  ".join(map(text, row.items())), flush=True)


def text(entry: tuple[str, object]) -> str:
    name, value = entry
    return f"{name} {value:.4g}" if isinstance(value, float) else f"{name} {value}"


if __name__ == "__main__":
    if sys.argv[1:2] == ["serve"]:
        serve(sys.argv[2], *map(int, sys.argv[3:]))
    else:
        main()
