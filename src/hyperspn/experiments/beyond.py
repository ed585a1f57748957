"""Beyond the paper: learned structures and factored weights against the published HyperSPNs, and against others."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import torch

from ..data import datasets
from ..data.datasets import BENCHMARKS
from ..learning import fit
from ..learning.recipes import Recipe
from .published import PUBLISHED, PUBLISHED_HAND_CRAFTED
from .reports import Row
from .runs import Record, Records, Run, core_seconds, outcome
from .settings import HAND_CRAFTED, METHODS

GROUPS: dict[str, dict[str, Recipe]] = {
    "learned": {"learned": Recipe("learned", "hyper", hidden=(20, 20))},
    "chow_liu": {"chow_liu": Recipe("chow-liu", "hyper", layer_size=12, replicas=8, hidden=(20, 20))},
    "factored": {
        f"factored_k{k}_r{r}_f{f}": Recipe("chow-liu", "factored", layer_size=k, replicas=r, features=f)
        for k, r, f in ((2, 128, 32), (4, 64, 16), (8, 32, 8))
    }
    | {
        f"balanced_k6_r32_f{f}": Recipe("learned", "factored", layer_size=6, replicas=32, features=f, hidden=hidden)
        for f, hidden in ((3, (20, 20)), (5, None))
    },
}
"""What is tried on every data set; the best on validation counts, of all that are small enough."""

TRIED = {name: recipe for group in GROUPS.values() for name, recipe in group.items()}


class BeyondRun(NamedTuple):
    """A data set, a recipe and a seed."""

    dataset: str
    setting: str
    seed: int

    @property
    def path(self) -> Path:
        return Path(self.dataset, "beyond", f"{self.setting}-seed{self.seed}.json")

    @property
    def core_seconds(self) -> float:
        recipe = TRIED[self.setting]
        schedule = recipe.schedule(BENCHMARKS[self.dataset].rows[0], BENCHMARKS[self.dataset].variables)
        return core_seconds(self.dataset, recipe.layer_size, recipe.replicas, schedule["steps"], schedule["batch_size"])


def runs(names: Sequence[str], seeds: int) -> list[BeyondRun]:
    """All recipes on these data sets."""
    return [BeyondRun(name, setting, seed) for name in names for setting in TRIED for seed in range(seeds)]


def train(run: BeyondRun, folder: Path, data_dir: str | None, threads: int) -> tuple[BeyondRun, Record]:
    """Trains one run by the schedule of its recipe, and returns its record."""
    torch.set_num_threads(threads)
    data, recipe = datasets.load_dataset(run.dataset, data_dir=data_dir), TRIED[run.setting]
    circuit = recipe.build(data.train, seed=run.seed)
    schedule = recipe.schedule(*data.train.shape)
    history = fit(circuit, data.train, data.valid, **schedule, seed=run.seed, folder=folder, progress=False)
    return run, {
        **run._asdict(),
        "options": recipe._asdict(),
        "schedule": schedule,
        **outcome(circuit, history, data.test, threads),
    }


def comparison(records: Records, names: Sequence[str]) -> list[Row]:
    """For each data set the best of each group, and the best within the published number of parameters, within half
    of it, and of all: test values of what is best on validation, first seed."""
    return [_compared(records, name) for name in names if all(run in records for run in runs([name], seeds=1))]


def _compared(records: Records, name: str) -> Row:
    found = {group: [records[BeyondRun(name, setting, 0)] for setting in recipes] for group, recipes in GROUPS.items()}
    random = [Run(name, setting, 0) for setting in METHODS["hyperspn"]]
    found = {"random": [records[run] for run in random if run in records], **found}
    everything = [record for group in found.values() for record in group]
    published, parameters, best_tractable, by = _published(name)
    limits = {"best": parameters, "half": parameters / 2, "unlimited": float("inf")}
    row: Row = {"dataset": name, "published": published, "published_params": parameters}
    for limit, most in limits.items():
        row |= _best(limit, [record for record in everything if record["parameters"] <= most])
    for group, members in found.items():
        row |= _best(group, members)
    return {**row, "best_tractable": best_tractable, "by": by}


def _best(key: str, found: Sequence[Record]) -> Row:
    """The test value and the size of the record that is best on validation."""
    best = max(found, key=lambda record: record["valid"], default=None)
    return {
        key: None if best is None else best["test"],
        f"{key}_params": None if best is None else best["parameters"],
        f"{key}_setting": None if best is None else best["setting"],
    }


def _published(name: str) -> tuple[float, int, float | None, str | None]:
    """The published HyperSPN and its size; the best tractable model and its name, if there is one to compare with."""
    if name == HAND_CRAFTED:
        own = PUBLISHED_HAND_CRAFTED["hyperspn"]
        return own["log_likelihood"], own["parameters"], None, None
    own = PUBLISHED[name]
    return own["hyperspn"], own["hyperspn_parameters"], own["best_tractable"], own["by"]
