"""Searching: trains circuits by several recipes, and finds the best."""

from __future__ import annotations

import os

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..circuits.circuit import Circuit
from ..data.streams import Stream
from ..leaves import LeafFamily
from . import distributed
from .checkpoint import check_search, copy_run
from .history import History, Progress
from .recipes import Recipe

Judge = Callable[[Circuit], float]

ROUNDS = {"short": (0.1, 3), "long": (0.4, 2), "full": (1.0, 1)}  # the part of the steps, and how many recipes remain


class Trained(NamedTuple):
    """A circuit that was trained, how it went, the name of its recipe, its folder if it has one, and how good it is.

    The part is that of the schedule's steps.
    """

    circuit: Circuit
    history: History
    name: str
    folder: Path | None
    value: float
    part: float = 1.0


def search(
    recipes: Mapping[str, Recipe],
    train: np.ndarray | Stream,
    valid: np.ndarray | None,
    leaves: Sequence[LeafFamily] | None = None,
    *,
    judge: Judge | None = None,
    minutes: float | None = None,
    folder: str | os.PathLike[str] | None = None,
    **options: Any,
) -> Trained:
    """Trains circuits by recipes, ever fewer of them for ever longer, and returns the best on the validation rows.

    All of them for a tenth of the steps, the best three for four tenths, and the best two for all; a single recipe at
    once for all. In a round, a recipe stops that cannot become better than the best so far (see `Progress.is_hopeless`).
    Since small tables are soon learned by heart, the best of all may be one that was trained briefly.

    Arguments:
        recipes: The candidates, by name.
        train: The rows to learn, (rows, variables), or a stream of them.
        valid: The rows that decide; a single recipe does without.
        leaves: The families of leaf distributions; by default those of binary variables.
        judge: Tells how good a trained circuit is, in place of its value on the validation rows, which decides all the
            same who remains for the next round.
        minutes: After how long to return the best so far, which then depends on the speed of the machine.
        folder: Where to keep the best run, and all of them in ``trials``, so that an interrupted search can go on.
        options: Further arguments of `Recipe.train`.

    Example:
        >>> rows = np.random.default_rng(0).integers(0, 2, (200, 2)).repeat(3, axis=1)
        >>> recipes = {"small": Recipe(layer_size=1, replicas=1), "large": Recipe(replicas=10)}
        >>> search(recipes, rows[:100], rows[100:], steps=100, progress=False).name
        'large'
    """
    best = leaders(recipes, train, valid, leaves, judge=judge, minutes=minutes, folder=folder, **options)[0]
    if folder is not None and best.folder and best.folder != Path(folder):
        copy_run(best.folder, Path(folder))
    return best


def leaders(
    recipes: Mapping[str, Recipe],
    train: np.ndarray | Stream,
    valid: np.ndarray | None,
    leaves: Sequence[LeafFamily] | None = None,
    *,
    judge: Judge | None = None,
    **options: Any,
) -> list[Trained]:
    """The best circuit of each recipe that a search trains, the best of all first; the arguments are those of `search`."""
    best: dict[str, Trained] = {}
    for trained in trials(recipes, train, valid, leaves, **options):
        if judge:
            trained = trained._replace(value=distributed.first(partial(judge, trained.circuit)))
        if trained.name not in best or trained.value > best[trained.name].value:
            best[trained.name] = trained
    return sorted(best.values(), key=lambda trained: -trained.value)


def trials(
    recipes: Mapping[str, Recipe],
    train: np.ndarray | Stream,
    valid: np.ndarray | None,
    leaves: Sequence[LeafFamily] | None = None,
    *,
    minutes: float | None = None,
    folder: str | os.PathLike[str] | None = None,
    progress: bool = True,
    **options: Any,
) -> Iterator[Trained]:
    """All circuits that a search trains, one after another; the arguments are those of `search`."""
    place = None if folder is None or distributed.rank() else Path(folder)
    trial_folder = place / "trials" if place and len(recipes) > 1 else None
    if place and trial_folder:
        check_search(place, trial_folder, recipes)
    names = list(recipes)
    with Progress(progress and distributed.rank() == 0, _total(recipes, train, options), minutes) as bar:
        for label, (part, remaining) in ROUNDS.items():
            if part < 1 and len(names) <= remaining:
                continue
            values: dict[str, float] = {}
            bar.rival = []
            for name in names:
                if values and _is_late(bar):
                    return
                steps = steps_of(recipes[name], train, part, options)
                run_folder = trial_folder / label / name if trial_folder else place
                circuit, history = recipes[name].train(
                    train,
                    valid,
                    leaves,
                    part=part,
                    folder=run_folder,
                    stage=f"{name}, {label} round" if len(recipes) > 1 else name,
                    progress=bar,
                    **{**options, "notes": {**options.get("notes", {}), "recipe": name}},
                )
                bar.end(steps)
                values[name] = max(history.valid, default=0.0)
                if values[name] == max(values.values()) and history.valid:
                    bar.rival = history.entries
                yield Trained(circuit, history, name, run_folder, values[name], part)
            names = sorted(names, key=lambda name: -values[name])[:remaining]
            if _is_late(bar):
                return


def _is_late(bar: Progress) -> bool:
    return bar.has_end and distributed.first(lambda: bar.is_late)


def steps_of(recipe: Recipe, train: np.ndarray | Stream, part: float, options: Mapping[str, Any]) -> int:
    """How many steps a recipe takes in a round."""
    return max(1, int(part * recipe.schedule(*train.shape, **_of_schedule(options))["steps"]))


def _total(recipes: Mapping[str, Recipe], train: np.ndarray | Stream, options: Mapping[str, Any]) -> int:
    """How many steps a search takes, if no recipe stops early."""
    total, names = 0.0, list(recipes)
    for part, remaining in ROUNDS.values():
        if part == 1 or len(names) > remaining:
            total += sum(steps_of(recipes[name], train, part, options) for name in names)
            names = names[:remaining]
    return int(total)


def _of_schedule(options: Mapping[str, Any]) -> dict[str, Any]:
    names = ("effort", "steps", "batch_size", "optimizer")
    return {name: options[name] for name in names if options.get(name) is not None}
