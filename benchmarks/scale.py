"""Several processes, and files of any size: `python benchmarks/scale.py processes`, `files`, `memory`, `score`, `wide`, `kills` or `dask`.

Rows are drawn from the table adult. `processes` trains with one and with two processes of one thread, batch 2,000; `files`
trains from files and from memory; `memory` trains from files of ever more rows; `score` reads and writes Parquet with one
and two workers; `wide` trains 10,000 binary columns; `kills` kills one of two processes at random moments, and compares
what the restarted job ends with; `dask` does so with workers of a Dask cluster that score.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile

from pathlib import Path
from time import perf_counter, sleep

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from hyperspn.data import read_table
from hyperspn.data.tables import find_table

ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1"}
PYTHON = [sys.executable, "-m"]
TRAIN = "train {} --recipe {} --steps {} --evaluate-every {} --batch-size {} --json --out {}"


def make_rows(folder: Path, rows: int, per_file: int = 100_000) -> Path:
    """Rows of adult, drawn with replacement, in Parquet files."""
    folder.mkdir(parents=True)
    table, generator = read_table(find_table("adult")["train"]), np.random.default_rng(0)
    table = pa.table({name: _plain(column) for name, column in zip(table.column_names, table.columns, strict=True)})
    for start in range(0, rows, per_file):
        drawn = table.take(pa.array(generator.integers(len(table), size=min(per_file, rows - start))))
        pq.write_table(drawn, folder / f"{start // per_file:05}.parquet", row_group_size=20_000)
    return folder


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Numbers as numbers, all else as strings."""
    text = column.cast(pa.string())
    try:
        return text.cast(pa.int64())
    except pa.ArrowInvalid:
        return text


def run(arguments: str, processes: int = 1) -> tuple[dict, float]:
    """What a command prints as JSON, and its peak memory in GB, of the largest process."""
    launch = ["torch.distributed.run", "--standalone", f"--nproc-per-node={processes}", "-m"] if processes > 1 else []
    measured = ["/usr/bin/env", *PYTHON, *launch, "hyperspn", *arguments.split()]
    process = subprocess.Popen(measured, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    output = process.stdout.read() if process.stdout else ""
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        sys.exit(f"{' '.join(measured)} ended with {status}")
    return json.loads(output), usage.ru_maxrss / 1e6


def step_seconds(folder: Path) -> tuple[float, list[float]]:
    """The seconds of a run between its last two evaluations, and its losses."""
    log = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    return log[-1]["seconds"] - log[-2]["seconds"], [entry["valid"] for entry in log]


def processes(place: Path) -> None:
    rows, steps = make_rows(place / "rows", 200_000), 200
    for recipe in ("factored", "forest"):
        seconds, losses = {}, {}
        for count in (1, 2):
            out = place / f"{recipe}{count}"
            run(TRAIN.format(rows, recipe, 2 * steps, steps, 2000, out), count)
            seconds[count], losses[count] = step_seconds(out)
            rate = steps * 2000 / seconds[count]
            print(f"{recipe}, {count} processes of one thread: {rate:,.0f} rows/s", flush=True)
        difference = max(abs(a / b - 1) for a, b in zip(losses[1], losses[2], strict=True))
        print(f"{seconds[1] / seconds[2]:.2f} times as fast; losses differ by {difference:.1e} relative", flush=True)


def files(place: Path) -> None:
    rows, steps = make_rows(place / "rows", 400_000), 400
    pq.write_table(pq.read_table(rows), place / "rows.parquet")
    seconds = {}
    for name, source in (("memory", place / "rows.parquet"), ("files", rows)):
        run(TRAIN.format(source, "factored", steps, steps, 500, place / name))
        seconds[name] = step_seconds(place / name)[0]
    print(f"from files {seconds['memory'] / seconds['files']:.0%} of the rows/s from memory")


def memory(place: Path, sizes: tuple[int, ...] = (100_000, 1_000_000, 10_000_000)) -> None:
    for size in sizes:
        rows = make_rows(place / str(size), size)
        start = perf_counter()
        _, peak = run(TRAIN.format(rows, "factored", 200, 100, 500, place / f"run {size}".replace(" ", "")))
        print(f"{size:,} rows: {peak:.2f} GB at most, {perf_counter() - start:.0f} s with 200 steps", flush=True)


def score(place: Path) -> None:
    rows = make_rows(place / "rows", 2_000_000)
    run(TRAIN.format("adult", "factored", 50, 50, 500, place / "run"))
    for workers in (1, 2):
        out = place / f"scores{workers}"
        answer, _ = run(f"score {place}/run {rows} --out {out} --workers {workers} --json")
        print(f"{workers} workers: {answer['rows'] / answer['seconds']:,.0f} rows/s, Parquet to Parquet", flush=True)


def wide(place: Path) -> None:
    generator = np.random.default_rng(0)
    hidden = generator.integers(0, 2, (10_000, 100))
    x = hidden[:, generator.integers(0, 100, 10_000)] ^ (generator.random((10_000, 10_000)) < 0.2)
    np.save(place / "wide.npy", x.astype(np.uint8))
    start = perf_counter()
    arguments = (
        f"train {place}/wide.npy --recipe factored --replicas 4 --layer-size 4 --steps 50 --json --out {place}/run"
    )
    _, peak = run(arguments)
    print(f"10,000 columns x 10,000 rows: {perf_counter() - start:.0f} s, {peak:.2f} GB at most")


def kills(place: Path, times: int = 20) -> None:
    chance, rows = random.Random(0), make_rows(place / "rows", 20_000)
    start = perf_counter()
    report, _ = run(TRAIN.format(rows, "factored", 200, 20, 500, place / "whole"), 2)
    seconds, killed, ended = perf_counter() - start, 0, 0
    launch = [*PYTHON, "torch.distributed.run", "--standalone", "--nproc-per-node=2", "--max-restarts=3", "-m"]
    while killed < times:
        arguments = TRAIN.format(rows, "factored", 200, 20, 500, place / f"{killed}-{ended}").split()
        job = subprocess.Popen(
            [*launch, "hyperspn", *arguments],
            env=ENVIRONMENT,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        sleep(chance.uniform(0.1, 0.9) * seconds)
        children = Path(f"/proc/{job.pid}/task/{job.pid}/children").read_text().split()
        if children:
            os.kill(int(chance.choice(children)), signal.SIGKILL)
        output = job.communicate()[0]
        found = json.loads(output.splitlines()[-1])  # a job whose end was killed tells it again
        if any(abs(found[part] / report[part] - 1) > 1e-5 for part in ("valid", "test")):
            sys.exit(f"job {killed + 1}: {found['valid']} and not {report['valid']}")
        killed, ended = killed + bool(children), ended + (not children)
        print(
            f"{killed} jobs of which a process was killed, {ended} that had ended: all as the unbroken one", flush=True
        )


def dask(place: Path, times: int = 20) -> None:
    from dask import dataframe
    from distributed import Client, LocalCluster

    from hyperspn.asking import Scorer, map_batches

    chance, table = random.Random(0), pq.read_table(make_rows(place / "rows", 100_000)).to_pandas()
    run(TRAIN.format("adult", "factored", 50, 50, 500, place / "run"))
    expected, seconds = Scorer(str(place / "run"))(table)["log_likelihood"], 0.0
    with LocalCluster(2, threads_per_worker=1, dashboard_address=None) as cluster, Client(cluster) as client:
        for killed in range(times + 1):
            start, out = perf_counter(), place / f"answers{killed}"
            scored = map_batches(str(place / "run"), dataframe.from_pandas(table, npartitions=40))
            job = client.compute(scored.to_parquet(str(out), compute=False))
            if killed:
                sleep(chance.uniform(0.1, 0.9) * seconds)
                os.kill(chance.choice(list(client.run(os.getpid).values())), signal.SIGKILL)
            job.result(timeout=120)
            seconds, answers = seconds or perf_counter() - start, pq.read_table(out).to_pandas().sort_index()
            if not answers.index.equals(table.index) or not np.allclose(answers["log_likelihood"], expected, 1e-5):
                sys.exit(f"job {killed}: other answers than those of one process")
            print(f"{killed} jobs of which a worker was killed: all as one process", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    tasks = {task.__name__: task for task in (processes, files, memory, score, wide, kills, dask)}
    parser.add_argument("task", choices=tasks)
    task = parser.parse_args().task
    with tempfile.TemporaryDirectory() as place:
        tasks[task](Path(place))


if __name__ == "__main__":
    main()
