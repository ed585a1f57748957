"""`hyperspn query` from start to answer, beside the import of torch: `python benchmarks/startup.py [--json]`.

Both run in new processes that take turns. Times are medians in seconds, of the clock and of the processor.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time

from pathlib import Path

QUESTION = ["--of", "species", "--given", "body_mass_g=3000..4000, island!=Dream"]


def seconds(arguments: list[str]) -> tuple[float, float]:
    """Of the clock, and of the processor."""
    clock, processor = time.perf_counter(), used()
    subprocess.run(
        [Path(sys.executable).with_name(arguments[0]), *arguments[1:]], check=True, stdout=subprocess.DEVNULL
    )
    return time.perf_counter() - clock, used() - processor


def used() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        train = ["hyperspn", "train", "penguins", "--recipe", "chow-liu", "--steps", "50", "--json"]
        seconds([*train, "--out", f"{folder}/run"])
        tasks = {"torch": ["python", "-c", "import torch"], "query": ["hyperspn", "query", f"{folder}/run", *QUESTION]}
        for arguments in tasks.values():
            seconds(arguments)
        times = {name: [] for name in tasks}
        for _ in range(options.repeats):
            for name, arguments in tasks.items():
                times[name].append(seconds(arguments))
    medians = {name: list(map(statistics.median, zip(*pairs, strict=True))) for name, pairs in times.items()}
    row = {}
    for i, measure in enumerate(("clock", "processor")):
        row |= {f"{name}_{measure}": medians[name][i] for name in tasks}
        row[f"{measure}_ratio"] = medians["query"][i] / medians["torch"][i]
    print(json.dumps(row) if options.json else "  ".join(f"{name} {value:.3g}" for name, value in row.items()))


if __name__ == "__main__":
    main()
