"""From a file to encoded rows, beside what pyarrow alone takes to read the file: `python benchmarks/reading.py [--json]`.

The table has a million rows drawn from Adult. Times are medians of runs in turn, and so is their ratio. Memory is the peak of a process of its own
above what it has after its imports; its measure is the size of the encoded rows and of pyarrow's table together.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow.csv

from peak_memory import start_again, status

from hyperspn.data import read_table, recognize, split
from hyperspn.data.readers import _content
from hyperspn.data.tables import find_table


def write_rows(path: Path, rows: int) -> None:
    """Rows of Adult, drawn with replacement."""
    header, *lines = _content(str(find_table("adult")["train"])).splitlines()
    drawn = np.random.default_rng(0).integers(len(lines), size=rows)
    path.write_bytes(b"\n".join([header, *(lines[i] for i in drawn)]) + b"\n")


def encode(path: Path) -> np.ndarray:
    """From the file to encoded rows."""
    table = read_table(path)
    return recognize(table, split(len(table))[0]).encode(table)


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def memory(path: Path) -> dict[str, float]:
    """Megabytes, in this process."""
    small = path.with_name("small.csv")
    write_rows(small, 1000)
    encode(small)
    before = start_again()
    rows = encode(path).nbytes
    peak = status("VmHWM") - before
    return {"peak": peak, "table": pyarrow.csv.read_csv(path).nbytes / 2**20, "rows": rows / 2**20}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--memory", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.memory:
        print(json.dumps(memory(options.memory)))
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "adult.csv")
        write_rows(path, options.rows)
        times = [
            (seconds(lambda: pyarrow.csv.read_csv(path)), seconds(lambda: encode(path))) for _ in range(options.repeats)
        ]
        command = [sys.executable, __file__, "--memory", str(path)]
        used = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    pyarrow_seconds, ours = (statistics.median(each) for each in zip(*times, strict=True))
    ratio = statistics.median(ours / theirs for theirs, ours in times)
    result = {
        "rows": options.rows,
        "pyarrow_seconds": pyarrow_seconds,
        "seconds": ours,
        "time_ratio": ratio,
        "peak_megabytes": used["peak"],
        "memory_ratio": used["peak"] / (used["table"] + used["rows"]),
    }
    if options.json:
        print(json.dumps(result))
    else:
        print("\n".join(f"{name:16} {value:12,.2f}" for name, value in result.items()))


if __name__ == "__main__":
    main()
