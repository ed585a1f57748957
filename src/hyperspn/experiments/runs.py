"""Runs: a data set, a setting and a seed become one JSON record; finished ones are never trained again."""

from __future__ import annotations

import json
import os
import platform
import shutil
import sys

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import BrokenExecutor
from functools import cache
from math import isfinite
from pathlib import Path
from threading import Thread
from time import sleep
from typing import Any, NamedTuple, Protocol

import joblib
import numpy as np
import torch

from .. import __version__
from ..circuits.circuit import Circuit
from ..data import datasets
from ..data.datasets import BENCHMARKS, Dataset
from ..files import write
from ..learning import History, fit
from .parzen import parzen_log_likelihood, published_quality
from .settings import METHODS, SCHEDULES, SETTINGS

Record = dict[str, Any]

KERNELS = 10_000
BANDWIDTH_ROWS = 1000
SECONDS_PER_STEP, SECONDS_PER_WEIGHT, SECONDS_PER_WEIGHT_AND_ROW = 3e-3, 1.2e-8, 2e-10


class AnyRun(Protocol):
    """What is trained once: its fields stand in its record."""

    @property
    def dataset(self) -> str: ...

    @property
    def setting(self) -> str: ...

    @property
    def seed(self) -> int: ...

    @property
    def path(self) -> Path:
        """The place of its record in the folder of results."""

    @property
    def core_seconds(self) -> float:
        """About how long it takes on one core, if it does not stop early."""

    def _asdict(self) -> dict[str, Any]: ...


Train = Callable[[Any, Path, str | None, int], tuple[AnyRun, Record]]


class Run(NamedTuple):
    """A data set, a setting and a seed."""

    dataset: str
    setting: str
    seed: int

    @property
    def path(self) -> Path:
        return Path(self.dataset, f"{self.setting}-seed{self.seed}.json")

    @property
    def core_seconds(self) -> float:
        schedule, setting = SCHEDULES[self.dataset], SETTINGS[self.setting]
        return core_seconds(self.dataset, setting.layer_size, setting.replicas, schedule.steps, schedule.batch_size)


def core_seconds(dataset: str, layer_size: int, replicas: int, steps: int, batch_size: int) -> float:
    """About how long it takes on one core to train a circuit of k^2 r weights for each region of a data set's trees."""
    known = BENCHMARKS[dataset]
    weights = 2 * known.variables * replicas * layer_size**2
    per_weight = SECONDS_PER_WEIGHT + SECONDS_PER_WEIGHT_AND_ROW * min(batch_size, known.rows[0])
    return steps * (SECONDS_PER_STEP + per_weight * weights)


class Records:
    """The records in a folder, by run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __contains__(self, run: AnyRun) -> bool:
        return (self.folder / run.path).is_file()

    def __getitem__(self, run: AnyRun) -> Record:
        path = self.folder / run.path
        try:
            record = json.loads(path.read_text())
            is_own = all(record[name] == value for name, value in run._asdict().items())
            is_whole = is_own and isfinite(record["valid"] + record["test"])
        except (KeyError, TypeError, ValueError):
            is_whole = False
        if not is_whole:
            raise ValueError(f"expected a record, found a damaged file at {path}: remove it, or restore it")
        return record

    def keep(self, run: AnyRun, record: Record) -> None:
        path = self.folder / run.path
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = ",\n".join(f" {json.dumps(key)}: {json.dumps(value)}" for key, value in record.items())
        write(path, f"{{\n{lines}\n}}\n".encode())

    def chosen(self, dataset: str, method: str) -> str | None:
        """The setting of a method with the best validation value for the first seed, once all of them are there."""
        runs = [Run(dataset, setting, 0) for setting in METHODS[method]]
        if not all(run in self for run in runs):
            return None
        return max(runs, key=lambda run: self[run]["valid"]).setting

    def of(self, dataset: str, method: str) -> list[Record]:
        """The records of a method's chosen setting, one for each seed there is."""
        setting = self.chosen(dataset, method)
        if setting is None:
            return []
        paths = (self.folder / dataset).glob(f"{setting}-seed*.json")
        seeds = sorted(int(path.stem.rpartition("seed")[2]) for path in paths)
        return [self[Run(dataset, setting, seed)] for seed in seeds]

    def missing(self, dataset: str, method: str, seeds: int) -> list[Run]:
        """The runs to train next: all settings with the first seed, then the chosen one with the others."""
        chosen = self.chosen(dataset, method)
        runs = (
            [Run(dataset, setting, 0) for setting in METHODS[method]]
            if chosen is None
            else [Run(dataset, chosen, seed) for seed in range(seeds)]
        )
        return [run for run in runs if run not in self]


def train(run: Run, folder: Path, data_dir: str | None, threads: int) -> tuple[Run, Record]:
    """Trains one run, with its checkpoints in a folder, and returns its record."""
    torch.set_num_threads(threads)
    data = datasets.load_dataset(run.dataset, data_dir=data_dir)
    setting, schedule = SETTINGS[run.setting], SCHEDULES[run.dataset]
    circuit = setting.build(data.train.shape[1], run.seed)
    history = fit(
        circuit,
        data.train,
        data.valid,
        **schedule._asdict(),
        weight_decay=setting.weight_decay,
        seed=run.seed,
        folder=folder,
        progress=False,
    )
    return run, {
        **run._asdict(),
        "options": setting._asdict(),
        "schedule": schedule._asdict(),
        **outcome(circuit, history, data.test, threads),
        **_sample_quality(circuit, data, schedule.batch_size, run.seed),
    }


def outcome(circuit: Circuit, history: History, test: np.ndarray, threads: int) -> Record:
    """What a record says of a circuit that was trained: where, how long, and how well."""
    return {
        "versions": {"hyperspn": __version__, "torch": torch.__version__, "numpy": np.__version__},
        "machine": {
            "system": f"{platform.system()} {platform.machine()}",
            "cores": joblib.cpu_count(),
            "threads": threads,
        },
        "parameters": circuit.num_parameters,
        "steps": history.steps[-1],
        "best_step": history.best_step,
        "seconds": round(history.seconds, 1),
        "train": history.train[history.steps.index(history.best_step)],
        "valid": history.best_valid,
        "test": _mean_log_prob(circuit, test),
        "curve": {"steps": history.steps, "train": _rounded(history.train), "valid": _rounded(history.valid)},
    }


def train_all(
    runs: Iterable[AnyRun], records: Records, jobs: int = -1, data_dir: str | None = None, train_one: Train = train
) -> Iterator[AnyRun]:
    """Trains runs in parallel, the shortest first, and keeps their records; yields each run when it is done.

    Runs that were interrupted go on where they stopped. Inside `joblib.parallel_config`, the jobs go to its backend.

    Arguments:
        runs: The runs.
        records: Where their records go.
        jobs: How many runs at a time, which share the cores; -1 for one per core.
        data_dir: The folder of the benchmarks.
        train_one: Trains a run and returns its record, given the run, a folder, `data_dir` and a number of threads.
    """
    threads = max(1, joblib.effective_n_jobs(-1) // joblib.effective_n_jobs(jobs))
    one_by_one = joblib.parallel.get_active_backend()[0].supports_return_generator
    parallel = joblib.Parallel(
        n_jobs=jobs, return_as="generator_unordered" if one_by_one else "list", batch_size=1, pre_dispatch="n_jobs"
    )
    ordered = sorted(runs, key=lambda run: run.core_seconds)
    folders = {run: records.folder.resolve() / ".unfinished" / run.path.with_suffix("") for run in ordered}
    work = joblib.delayed(_train_under)
    tasks = (work(os.getpid(), train_one, run, folders[run], data_dir, threads) for run in ordered)
    try:
        for run, record in parallel(tasks):
            records.keep(run, record | {"command": " ".join(["hyperspn", *sys.argv[1:]])})
            shutil.rmtree(folders[run], ignore_errors=True)
            yield run
    except BrokenExecutor as error:
        raise ChildProcessError(
            "expected every worker to finish, found one killed, perhaps for lack of memory: "
            "the same again goes on, and fewer jobs at a time need less"
        ) from error


def _train_under(parent: int, train_one: Train, *arguments: Any) -> tuple[AnyRun, Record]:
    """Trains a run, in a process that ends with its parent where it is a worker of this machine."""
    if os.getppid() == parent:
        _end_with(parent)
    return train_one(*arguments)


@cache
def _end_with(parent: int) -> None:
    """Lets this process end when its parent is killed; as an orphan it would keep the folder of its run to itself."""

    def watch() -> None:
        while os.getppid() == parent:
            sleep(1)
        os._exit(1)

    Thread(target=watch, daemon=True).start()


@torch.no_grad()
def _mean_log_prob(circuit: Circuit, rows: np.ndarray) -> float:
    return circuit.log_prob(rows).double().mean().item()


@torch.no_grad()
def _sample_quality(circuit: Circuit, data: Dataset, batch_size: int, seed: int) -> Record:
    generator = torch.Generator().manual_seed(seed)
    samples = circuit.sample(KERNELS, generator=generator)
    valid, test = torch.from_numpy(data.valid[:BANDWIDTH_ROWS]), torch.from_numpy(data.test)
    log_likelihood, bandwidth = parzen_log_likelihood(samples, valid, test)
    return {
        "sample_quality_published": published_quality(samples[:batch_size], test, batch_size),
        "sample_quality_proper": log_likelihood,
        "bandwidth": bandwidth,
    }


def _rounded(values: list[float]) -> list[float]:
    return [round(value, 5) for value in values]
