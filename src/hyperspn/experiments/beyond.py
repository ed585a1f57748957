"""Beyond the paper: learned structures and factored weights against the published HyperSPNs, and against others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import count, takewhile
from pathlib import Path
from statistics import fmean, stdev
from typing import Any, NamedTuple

import torch

from ..data import datasets
from ..data.datasets import BENCHMARKS, Dataset
from ..learning import fit
from ..learning.ensembles import judging_rows, mix, train_members
from ..learning.recipes import Recipe
from .published import PUBLISHED_BENCHMARKS, PUBLISHED_HAND_CRAFTED
from .records import Records
from .reports import Row
from .runs import Record, Run, core_seconds, mean_log_prob, outcome, surroundings
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


ENSEMBLE, MEMBERS, LEADERS = "ensemble", 8, 4
"""An ensemble follows the best recipes on validation in turn, with further seeds."""


class BeyondRun(NamedTuple):
    """A data set, a recipe or an ensemble, and a seed."""

    dataset: str
    setting: str
    seed: int

    @property
    def path(self) -> Path:
        return Path(self.dataset, "beyond", f"{self.setting}-seed{self.seed}.json")

    @property
    def core_seconds(self) -> float:
        if self.setting == ENSEMBLE:
            return MEMBERS * fmean(self._replace(setting=recipe).core_seconds for recipe in BEYOND_RECIPES)
        recipe = BEYOND_RECIPES[self.setting]
        schedule = recipe.schedule(BENCHMARKS[self.dataset].rows[0], BENCHMARKS[self.dataset].variables)
        return core_seconds(self.dataset, recipe.layer_size, recipe.replicas, schedule["steps"], schedule["batch_size"])


def runs(names: Sequence[str], seeds: int) -> list[BeyondRun]:
    """All recipes on these data sets."""
    return [BeyondRun(name, setting, seed) for name in names for setting in BEYOND_RECIPES for seed in range(seeds)]


def ensemble_runs(names: Sequence[str], seeds: int) -> list[BeyondRun]:
    """The ensembles on these data sets."""
    return [BeyondRun(name, ENSEMBLE, seed) for name in names for seed in range(seeds)]


def leaders(records: Records, name: str, seed: int) -> list[str]:
    """The recipes that are best on validation with a seed, the best first."""
    valid = {setting: records[BeyondRun(name, setting, seed)]["valid"] for setting in BEYOND_RECIPES}
    return sorted(valid, key=lambda setting: -valid[setting])[:LEADERS]


def train(
    run: BeyondRun, folder: Path, data_dir: str | None, threads: int, leaders: Mapping[tuple[str, int], list[str]]
) -> tuple[BeyondRun, Record]:
    """Trains one run by the schedule of its recipe, or an ensemble of leading ones, and returns its record."""
    torch.set_num_threads(threads)
    data = datasets.load_dataset(run.dataset, data_dir=data_dir)
    if run.setting == ENSEMBLE:
        return run, _train_ensemble(run, leaders[run.dataset, run.seed], data, folder, threads)
    recipe = BEYOND_RECIPES[run.setting]
    circuit = recipe.build(data.train, seed=run.seed)
    schedule = recipe.schedule(*data.train.shape)
    history = fit(circuit, data.train, data.valid, **schedule, seed=run.seed, folder=folder, progress=False)
    return run, {
        **run._asdict(),
        "options": recipe._asdict(),
        "schedule": schedule,
        **outcome(circuit, history, data.test, threads),
    }


def _train_ensemble(run: BeyondRun, names: list[str], data: Dataset, folder: Path, threads: int) -> Record:
    recipes = {name: BEYOND_RECIPES[name] for name in names}
    options: dict[str, Any] = {"members": MEMBERS, "seed": run.seed, "folder": folder, "progress": False}
    trained = train_members(recipes, data.train, data.valid, **options)
    mixture = mix(trained, data.valid, seed=run.seed)
    judging = data.valid[judging_rows(len(data.valid), run.seed)]
    values = {"valid": judging, "test": data.test}
    weights = zip(mixture.components, mixture.log_weights.exp().tolist(), strict=True)
    return {
        **run._asdict(),
        "options": {"members": MEMBERS, "recipes": names},
        "members": [
            {**part.notes, "weight": weight, **{key: mean_log_prob(part, rows) for key, rows in values.items()}}
            for part, weight in weights
        ],
        **surroundings(threads),
        "parameters": mixture.num_parameters,
        "seconds": round(sum(one.history.seconds for one in trained), 1),
        **{key: mean_log_prob(mixture, rows) for key, rows in values.items()},
    }


def comparison(records: Records, names: Sequence[str]) -> list[Row]:
    """Test values of the recipes that are best on validation with each seed: means and deviations over the seeds there are.

    For each data set the best of each group, and the best within the published number of parameters, within half of
    it, and of all; and the ensembles.
    """
    return [_row(records, name) for name in names if all(run in records for run in runs([name], seeds=1))]


def _row(records: Records, name: str) -> Row:
    seeds = list(takewhile(lambda seed: _is_complete(records, name, seed), count()))
    by_seed = [_records_by_group(records, name, seed) for seed in seeds]
    row = _published_cells(name)
    size = row["published_params"]
    for limit, most in {"best": size, "half": size / 2, "unlimited": float("inf")}.items():
        every = [[record for group in groups.values() for record in group] for groups in by_seed]
        row |= _best_cells(
            limit, [[record for record in candidates if record["parameters"] <= most] for candidates in every]
        )
    for group in by_seed[0]:
        row |= _best_cells(group, [groups[group] for groups in by_seed])
    ensembles = [run for run in ensemble_runs([name], len(seeds)) if run in records]
    return (
        row | _best_cells(ENSEMBLE, [[records[run]] for run in ensembles]) | {"seeds": len(seeds)} | _rival_cells(name)
    )


def _is_complete(records: Records, name: str, seed: int) -> bool:
    return all(BeyondRun(name, setting, seed) in records for setting in BEYOND_RECIPES)


def _records_by_group(records: Records, name: str, seed: int) -> dict[str, list[Record]]:
    """The records of random trees, where there are any, and of each group of recipes."""
    random = [Run(name, setting, seed) for setting in METHODS["hyperspn"]]
    return {"random": [records[run] for run in random if run in records]} | {
        group: [records[BeyondRun(name, setting, seed)] for setting in recipes]
        for group, recipes in RECIPE_GROUPS.items()
    }


def _best_cells(key: str, by_seed: Sequence[Sequence[Record]]) -> Row:
    """Of the records that are best on validation with each seed the mean test value, its deviation, and the largest size."""
    best = [max(records, key=lambda record: record["valid"]) for records in by_seed if records]
    tests = [record["test"] for record in best]
    return {
        key: fmean(tests) if tests else None,
        f"{key}_std": stdev(tests) if len(tests) > 1 else None,
        f"{key}_params": max((record["parameters"] for record in best), default=None),
        f"{key}_setting": ", ".join(dict.fromkeys(record["setting"] for record in best)) or None,
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
