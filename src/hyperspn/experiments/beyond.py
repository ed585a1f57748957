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
from .published import PUBLISHED_BENCHMARKS, PUBLISHED_HAND_CRAFTED
from .records import Records
from .reports import Row
from .runs import Record, Run, core_seconds, outcome
from .settings import HAND_CRAFTED, METHODS

RECIPE_GROUPS: dict[str, dict[str, Recipe]] = {
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
"""The recipes for every data set, of which the best on validation among those that are small enough counts."""

BEYOND_RECIPES = {name: recipe for group in RECIPE_GROUPS.values() for name, recipe in group.items()}


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
        recipe = BEYOND_RECIPES[self.setting]
        schedule = recipe.schedule(BENCHMARKS[self.dataset].rows[0], BENCHMARKS[self.dataset].variables)
        return core_seconds(self.dataset, recipe.layer_size, recipe.replicas, schedule["steps"], schedule["batch_size"])


def runs(names: Sequence[str], seeds: int) -> list[BeyondRun]:
    """All recipes on these data sets."""
    return [BeyondRun(name, setting, seed) for name in names for setting in BEYOND_RECIPES for seed in range(seeds)]


def train(run: BeyondRun, folder: Path, data_dir: str | None, threads: int) -> tuple[BeyondRun, Record]:
    """Trains one run by the schedule of its recipe, and returns its record."""
    torch.set_num_threads(threads)
    data, recipe = datasets.load_dataset(run.dataset, data_dir=data_dir), BEYOND_RECIPES[run.setting]
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
    """Test values of the recipes that are best on validation, first seed.

    For each data set the best of each group, and the best within the published number of parameters, within half of
    it, and of all.
    """
    return [_row(records, name) for name in names if all(run in records for run in runs([name], seeds=1))]


def _row(records: Records, name: str) -> Row:
    groups = _records_by_group(records, name)
    every = [record for group in groups.values() for record in group]
    row = _published_cells(name)
    size = row["published_params"]
    for limit, most in {"best": size, "half": size / 2, "unlimited": float("inf")}.items():
        row |= _best_cells(limit, [record for record in every if record["parameters"] <= most])
    for group, members in groups.items():
        row |= _best_cells(group, members)
    return row | _rival_cells(name)


def _records_by_group(records: Records, name: str) -> dict[str, list[Record]]:
    """The records of random trees, where there are any, and of each group of recipes."""
    random = [Run(name, setting, 0) for setting in METHODS["hyperspn"]]
    return {"random": [records[run] for run in random if run in records]} | {
        group: [records[BeyondRun(name, setting, 0)] for setting in recipes] for group, recipes in RECIPE_GROUPS.items()
    }


def _best_cells(key: str, records: Sequence[Record]) -> Row:
    """The test value and the size of the record that is best on validation."""
    best = max(records, key=lambda record: record["valid"], default=None)
    return {
        key: None if best is None else best["test"],
        f"{key}_params": None if best is None else best["parameters"],
        f"{key}_setting": None if best is None else best["setting"],
    }


def _published_cells(name: str) -> Row:
    """The published HyperSPN and its size."""
    if name == HAND_CRAFTED:
        hyperspn = PUBLISHED_HAND_CRAFTED["hyperspn"]
        value, size = hyperspn["log_likelihood"], hyperspn["parameters"]
    else:
        value, size = (PUBLISHED_BENCHMARKS[name][key] for key in ("hyperspn", "hyperspn_parameters"))
    return {"dataset": name, "published": value, "published_params": size}


def _rival_cells(name: str) -> Row:
    """The best published tractable model and its name, if there is one to compare with."""
    published = PUBLISHED_BENCHMARKS.get(name, {})
    return {key: published.get(key) for key in ("best_tractable", "by")}
