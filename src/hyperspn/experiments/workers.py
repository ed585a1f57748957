"""Workers: runs trained in parallel, here or on a cluster."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

from collections.abc import Iterable, Iterator
from concurrent.futures import BrokenExecutor
from functools import cache
from multiprocessing import current_process
from pathlib import Path
from threading import Thread
from time import sleep
from typing import Any

import joblib

from .records import Records
from .runs import AnyRun, Record, Train, train


def train_all(
    runs: Iterable[AnyRun], records: Records, jobs: int = -1, data_dir: str | None = None, train_one: Train = train
) -> Iterator[AnyRun]:
    """Trains runs in parallel, the shortest first, and keeps their records; yields each run when it is done.

    Interrupted runs resume where they stopped. Inside `joblib.parallel_config`, the jobs go to its backend.

    Arguments:
        runs: The runs.
        records: Where their records go.
        jobs: How many runs at a time, which share the cores; -1 for one per core.
        data_dir: The folder of the benchmarks.
        train_one: Trains a run and returns its record, given the run, a folder, `data_dir` and a number of threads.
    """
    origin = {"command": " ".join(["hyperspn", *sys.argv[1:]]), **source_state()}
    threads = max(1, joblib.effective_n_jobs(-1) // joblib.effective_n_jobs(jobs))
    ordered = sorted(runs, key=lambda run: run.core_seconds)
    folders = {run: records.folder.resolve() / ".unfinished" / run.path.with_suffix("") for run in ordered}
    work = joblib.delayed(_train_under)
    tasks = (work(os.getpid(), train_one, run, folders[run], data_dir, threads) for run in ordered)
    try:
        for run, record in _parallel(jobs)(tasks):
            records.keep(run, record | origin)
            shutil.rmtree(folders[run], ignore_errors=True)
            yield run
    except BrokenExecutor as error:
        raise ChildProcessError(
            "a worker was killed, perhaps for lack of memory: run the same command again to resume, "
            "with fewer --jobs if memory is short"
        ) from error


def source_state() -> Record:
    """The commit of the repository that holds this package, and whether the package is as committed; None outside one.

    Only the package counts as changed: new records always change the repository that holds them.
    """
    package = Path(__file__).parents[1]
    tracked = _git(package, "ls-files", "__init__.py")
    if not tracked:
        return {"commit": None, "clean": None}
    return {"commit": _git(package, "rev-parse", "HEAD"), "clean": _git(package, "status", "--porcelain", ".") == ""}


def _git(folder: Path, *arguments: str) -> str | None:
    """What git says, or None where it fails or is not installed."""
    try:
        done = subprocess.run(["git", "-C", str(folder), *arguments], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()


def _parallel(jobs: int) -> joblib.Parallel:
    """Yields results as they come, where the backend can."""
    one_by_one = joblib.parallel.get_active_backend()[0].supports_return_generator
    results = "generator_unordered" if one_by_one else "list"
    return joblib.Parallel(n_jobs=jobs, return_as=results, batch_size=1, pre_dispatch="n_jobs")


def _train_under(parent: int, train_one: Train, *arguments: Any) -> tuple[AnyRun, Record]:
    """Trains a run, in a process that ends with its parent where it is a worker of this machine."""
    if current_process().name.startswith("LokyProcess"):
        _end_with(parent)
    return train_one(*arguments)


@cache
def _end_with(parent: int) -> None:
    """Lets this process end when its parent is killed, or if it was: an orphan would keep the folder of its run to itself."""

    def watch() -> None:
        while os.getppid() == parent:
            sleep(1)
        os._exit(1)

    Thread(target=watch, daemon=True).start()
