"""Runs: a data set, a setting and a seed become one record."""

from __future__ import annotations

import platform

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import joblib
import numpy as np
import torch

from .. import __version__
from ..circuits import Circuit, Mixture
from ..data import datasets
from ..data.datasets import BENCHMARKS, Dataset
from ..learning import History, fit
from .parzen import parzen_log_likelihood, published_quality
from .settings import SCHEDULES, SETTINGS

Record = dict[str, Any]

KERNELS = 10_000
BANDWIDTH_ROWS = 1000
SECONDS_PER_STEP, SECONDS_PER_WEIGHT, SECONDS_PER_WEIGHT_AND_ROW = 3e-3, 1.2e-8, 2e-10


class AnyRun(Protocol):
    """What is trained once; its record repeats its fields."""

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
    def draw(self) -> int:
        """What the rows of a built-in data set are drawn by."""
        return 0

    @property
    def path(self) -> Path:
        return Path(self.dataset, f"{self.setting}-seed{self.seed}.json")

    @property
    def core_seconds(self) -> float:
        schedule, setting = SCHEDULES[self.dataset], SETTINGS[self.setting]
        return core_seconds(self.dataset, setting.layer_size, setting.replicas, schedule.steps, schedule.batch_size)


class DrawRun(Run):
    """The same on rows of a built-in data set that are drawn anew, by the seed of the run."""

    @property
    def draw(self) -> int:
        return self.seed

    @property
    def path(self) -> Path:
        return Path(self.dataset, "draws", f"{self.setting}-seed{self.seed}.json")


def core_seconds(dataset: str, layer_size: int, replicas: int, steps: int, batch_size: int) -> float:
    """About how long it takes on one core to train a circuit of k^2 r weights for each region of a data set's trees."""
    known = BENCHMARKS[dataset]
    weights = 2 * known.variables * replicas * layer_size**2
    per_weight = SECONDS_PER_WEIGHT + SECONDS_PER_WEIGHT_AND_ROW * min(batch_size, known.rows[0])
    return steps * (SECONDS_PER_STEP + per_weight * weights)


def train(run: Run, folder: Path, data_dir: str | None, threads: int) -> tuple[Run, Record]:
    """Trains one run, with its checkpoints in a folder, and returns its record."""
    torch.set_num_threads(threads)
    data = datasets.load_dataset(run.dataset, run.draw, data_dir)
    setting, schedule = SETTINGS[run.setting], SCHEDULES[run.dataset]
    circuit = setting.build(data.train.shape[1], run.seed)
    options = {**schedule._asdict(), "weight_decay": setting.weight_decay, "seed": run.seed}
    history = fit(circuit, data.train, data.valid, **options, folder=folder, progress=False)
    return run, {
        **run._asdict(),
        "options": setting.options,
        "schedule": schedule._asdict(),
        **outcome(circuit, history, data.test, threads),
        **_sample_quality(circuit, data, schedule.batch_size, run.seed),
    }


def outcome(circuit: Circuit, history: History, test: np.ndarray, threads: int) -> Record:
    """What a record says of a trained circuit: where, how long, and how well."""
    return {
        **surroundings(threads),
        "parameters": circuit.num_parameters,
        "steps": history.steps[-1],
        "best_step": history.best_step,
        "seconds": round(history.seconds, 1),
        "train": history.train[history.steps.index(history.best_step)],
        "valid": history.best_valid,
        "test": mean_log_prob(circuit, test),
        "curve": {"steps": history.steps, "train": _round(history.train), "valid": _round(history.valid)},
    }


def surroundings(threads: int) -> Record:
    """What a record says of where it was made."""
    system = f"{platform.system()} {platform.machine()}"
    return {
        "versions": {"hyperspn": __version__, "torch": torch.__version__, "numpy": np.__version__},
        "machine": {"system": system, "cores": joblib.cpu_count(), "threads": threads},
    }


@torch.no_grad()
def mean_log_prob(circuit: Circuit | Mixture, rows: np.ndarray) -> float:
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


def _round(values: list[float]) -> list[float]:
    return [round(value, 5) for value in values]
