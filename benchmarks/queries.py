"""Speed of queries and of numeric leaves, as ratios in one run on 2 threads: `python benchmarks/queries.py [--json]`.

A HyperSPN of 163 binary variables (k = 5, r = 50) answers for 500 rows, half of their values missing; `log_prob` of the
same rows is 1. A table of 15 numeric columns (k = 32, r = 32, batch 256) is trained beside one of 15 categorical columns
of 16 values. Seconds are those of whole calls; times are medians of runs that take turns.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time

from collections.abc import Callable
from functools import partial

import numpy as np
import torch

from engines import training_step
from rich.console import Console
from rich.table import Table

import hyperspn

from hyperspn.data.scales import Scale

THREADS = 2
COLUMNS, CATEGORIES = 15, 16


def seconds(works: dict[str, Callable[[], object]], repeats: int) -> dict[str, float]:
    """The median time of each, after a warm-up, taking turns."""
    times: dict[str, list[float]] = {name: [] for name in works}
    for turn in range(1 + repeats):
        for name, work in works.items():
            start = time.perf_counter()
            work()
            if turn:
                times[name].append(time.perf_counter() - start)
    return {name: statistics.median(own) for name, own in times.items()}


def queries(repeats: int) -> dict[str, float]:
    """Times beside that of `log_prob`, and the seconds of 100,000 samples."""
    circuit = hyperspn.HyperSPN(163, layer_size=5, replicas=50)
    rows = torch.randint(2, (500, 163)).double().masked_fill(torch.rand(500, 163) < 0.5, torch.nan)
    names = ("sample_given", "most_probable", "marginals", "impute")
    works = {name: partial(getattr(circuit, name), rows) for name in ("log_prob", *names)}
    with torch.no_grad():
        times = seconds(works, repeats)
        samples = seconds({"sample": lambda: circuit.sample(100_000)}, 3)["sample"]
    return {f"{name} / log_prob": times[name] / times["log_prob"] for name in names} | {"100,000 samples (s)": samples}


def numbers(rows: int = 10_000) -> tuple[np.ndarray, list[hyperspn.Numeric]]:
    """Columns that depend on each other: continuous, and recorded to 0, 1, 2 and 3 decimals."""
    random = np.random.default_rng(0)
    x = 10 * (random.standard_normal((rows, 1)) + random.standard_normal((rows, COLUMNS)))
    x = np.stack([x[:, v] if v % 5 == 4 else x[:, v].round(v % 5) for v in range(COLUMNS)], 1)
    return x, [hyperspn.Numeric(Scale.fit(x[:, v])) for v in range(COLUMNS)]


def tables(repeats: int) -> dict[str, float]:
    """A training step on numbers beside one on categories, and the seconds of 50,000 samples."""
    x, families = numbers()
    codes = np.clip(x // 5 + CATEGORIES // 2, 0, CATEGORIES - 1).astype(np.int64)
    numeric = hyperspn.HCLT(x, 32, 32, leaves=families)
    coded = hyperspn.HCLT(codes, 32, 32, leaves=hyperspn.Categorical(CATEGORIES))
    works = {
        "numbers": training_step(numeric, numeric.read(x), 256),
        "codes": training_step(coded, coded.read(codes), 256),
    }
    times = seconds(works, repeats)
    large = hyperspn.HCLT(x, 16, 128, leaves=families)
    samples = seconds({"sample": lambda: large.sample(50_000)}, 3)["sample"]
    return {
        "step on numbers / on categories": times["numbers"] / times["codes"],
        "50,000 samples of a table (s)": samples,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--repeats", type=int, default=20)
    arguments = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(THREADS)
    results = queries(arguments.repeats) | tables(arguments.repeats)
    if arguments.json:
        print(json.dumps(results))
        return
    table = Table("what", "value")
    for name, value in results.items():
        table.add_row(name, f"{value:.2f}")
    Console().print(table)


if __name__ == "__main__":
    main()
