"""Recipes: which circuit to build for a table, and how to find out."""

from __future__ import annotations

import os

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from ..checks import did_you_mean, whole
from ..circuits.circuit import Circuit
from ..circuits.models import SPN, HyperSPN, countable
from ..data import Schema
from ..data.streams import Stream, in_memory
from ..leaves import Categorical, LeafFamily, Numeric
from ..structures import RegionGraph, binary_trees, chow_liu
from . import distributed
from .checkpoint import check_search, copy_run
from .history import History
from .start_from_clusters import start_from_clusters
from .train import fit

Judge = Callable[[Circuit], float]
Structure = Literal["random", "learned", "chow-liu"]
Weights = Literal["direct", "hyper", "factored"]

BATCH_SIZE, SMALLEST_BATCH = 200, 50
PASSES, FEWEST, MOST = 25, 800, 4000
FEW_VARIABLES = 100
EVALUATIONS = 20
EM_STEPS, PSEUDOCOUNT = 100, 1.0
LEARNING_RATES = {"embeddings": 2e-2, "network": 2e-2}
PRIOR = 8.0
ROUNDS = {"short": (0.1, 3), "long": (0.4, 2), "full": (1.0, 1)}  # the part of the steps, and how many recipes remain


class Recipe(NamedTuple):
    """A structure, who writes its weights, and sizes that suit both.

    Arguments:
        structure: Balanced binary trees over "random" orders of the variables or over "learned" ones, or "chow-liu".
        weights: One parameter per weight ("direct"), or a network that reads one embedding per sector ("hyper") or one
            latent vector per replica of a shared tree ("factored").
        layer_size: The number of sum nodes per region k.
        replicas: The number of trees r.
        embedding_dim: The size of a sector's embedding ("hyper").
        features: The number of features of a replica ("factored").
        hidden: The widths of the network's hidden layers; None for those that suit the weights.
        warm: Whether factored weights begin with clusters of rows (see `start_from_clusters`).
    """

    structure: Structure = "random"
    weights: Weights = "hyper"
    layer_size: int = 5
    replicas: int = 50
    embedding_dim: int = 5
    features: int = 8
    hidden: Sequence[int] | None = None
    warm: bool = True

    def build(self, train: np.ndarray, leaves: Sequence[LeafFamily] | None = None, seed: int = 0) -> Circuit:
        """A circuit for a table, (rows, variables), with these leaves: by default those of binary variables."""
        families = [Categorical(2)] * train.shape[1] if leaves is None else leaves
        options: dict[str, Any] = {"structure": self._graph(train, families, seed), "leaves": families, "seed": seed}
        if self.weights == "direct":
            return SPN(train.shape[1], self.layer_size, **options)
        size = "embedding_dim" if self.weights == "hyper" else "features"
        options |= {size: getattr(self, size), "hidden": self.hidden}
        circuit = HyperSPN(train.shape[1], self.layer_size, weights=self.weights, **options)
        if self.weights == "factored" and self.warm:
            start_from_clusters(circuit, train, seed)
        return circuit

    def schedule(self, rows: int, variables: int, **given: Any) -> dict[str, Any]:
        """How to learn a table of this size: arguments of `fit`, with those that are given, not None, in place of its own.

        With Adam some 25 passes over the rows, but not less than 800 steps nor more than 4,000, or 400,000 / variables
        where these are fewer than 100: cheaper steps may be more. The learning rates fall to 0; those of HyperSPN networks
        begin at four times the published ones. The heads and bases of factored weights have a normal prior:
        ``PRIOR / 2 |parameters|^2`` is added to the loss of all rows together. EM takes 100 steps with all rows.
        """
        given = {name: value for name, value in given.items() if value is not None}
        own: dict[str, Any] = {"steps": EM_STEPS, "batch_size": rows, "pseudocount": PSEUDOCOUNT}
        if given.get("optimizer") != "em":
            own = self._adam(rows, variables, given.get("batch_size"))
        own |= given
        return {"evaluate_every": max(1, whole("steps", own["steps"]) // EVALUATIONS)} | own

    def train(
        self,
        train: np.ndarray | Stream,
        valid: np.ndarray | None = None,
        leaves: Sequence[LeafFamily] | None = None,
        *,
        part: float = 1.0,
        notes: Mapping[str, Any] | None = None,
        seed: int = 0,
        folder: str | os.PathLike[str] | None = None,
        progress: bool = True,
        **given: Any,
    ) -> tuple[Circuit, History]:
        """Builds a circuit for a table and learns it, in a part of the steps of the schedule if less than 1.

        Arguments are those of `build`, `schedule` and `fit`, and the `notes` that the circuit and its file carry.
        """
        if isinstance(train, Stream) and given.get("optimizer") == "em" and given.get("batch_size") is None:
            raise ValueError("expected a batch size and a step size for EM on files, found none: all rows are too many")
        circuit = distributed.first(lambda: self.build(in_memory(train), leaves, seed))
        circuit.notes = dict(notes or {})
        schedule = self.schedule(*train.shape, **given)
        if part < 1:
            steps = max(1, int(part * schedule["steps"]))
            schedule |= {"steps": steps, "evaluate_every": max(1, steps // 2), "patience": None}
        return circuit, fit(circuit, train, valid, **schedule, seed=seed, folder=folder, progress=progress)

    def _adam(self, rows: int, variables: int, batch_size: int | None) -> dict[str, Any]:
        if batch_size is None:
            batch_size = min(BATCH_SIZE, max(SMALLEST_BATCH, rows // 20))
        most = MOST * FEW_VARIABLES // min(FEW_VARIABLES, variables)
        steps = min(most, max(FEWEST, PASSES * rows // whole("batch_size", batch_size)))
        own: dict[str, Any] = {"steps": steps, "batch_size": batch_size, "annealing": True}
        if self.weights == "hyper":
            own["learning_rate"] = LEARNING_RATES
        if self.weights == "factored":
            own["weight_decay"] = {"heads": PRIOR * min(1.0, batch_size / rows)}
        return own

    def _graph(self, train: np.ndarray, families: Sequence[LeafFamily], seed: int) -> RegionGraph:
        shared = self.weights == "factored"
        if self.structure == "random":
            return binary_trees(train.shape[1], self.replicas, seed, shared=shared)
        counted, continuous = countable(train, families)
        if self.structure == "learned":
            return binary_trees(train.shape[1], self.replicas, seed, counted, shared=shared, continuous=continuous)
        return chow_liu(counted, self.replicas, seed, shared=shared, continuous=continuous)


RECIPES = {
    "hyperspn": {
        "random": Recipe("random", "hyper"),
        "learned": Recipe("learned", "hyper"),
        "chow-liu": Recipe("chow-liu", "hyper", layer_size=12, replicas=8),
        "factored": Recipe("chow-liu", "factored", layer_size=8, replicas=32),
        "tree-mixture": Recipe("chow-liu", "factored", layer_size=2, replicas=128, features=32),
        "balanced": Recipe("learned", "factored", layer_size=6, replicas=32, features=3, hidden=(20, 20)),
    },
    "spn": {
        "random": Recipe("random", "direct"),
        "learned": Recipe("learned", "direct", replicas=20),
        "chow-liu": Recipe("chow-liu", "direct", layer_size=12, replicas=4),
    },
}
"""For each kind of model the recipes among which to choose."""


def leaf_families(schema: Schema, members: int = 32) -> list[LeafFamily]:
    """The leaf family of each column, with `members` normal distributions for one of numbers."""
    return [
        Categorical(column.size) if column.scale is None else Numeric(column.scale, members, column.missing_as_data)
        for column in schema.columns
    ]


def candidates(model: str, recipe: str, **options: Any) -> dict[str, Recipe]:
    """The recipe of a name, or all of them for "auto", with these options in place of their own unless None.

    Arguments:
        model: "spn" or "hyperspn".
        recipe: A name in `RECIPES`, or "auto".
    """
    if model not in RECIPES:
        raise ValueError(f"expected model {' or '.join(map(repr, RECIPES))}, found {model!r}")
    known = RECIPES[model]
    if recipe not in ("auto", *known):
        choices = ", ".join(["auto", *known])
        raise ValueError(f"expected recipe {choices} for {model}, found {recipe!r}{did_you_mean(recipe, known)}")
    given = {name: value for name, value in options.items() if value is not None}
    return {name: known[name]._replace(**given) for name in known if recipe in ("auto", name)}


class Trained(NamedTuple):
    """A circuit that was trained, how it went, the name of its recipe, its folder if it has one, and how good it is."""

    circuit: Circuit
    history: History
    name: str
    folder: Path | None
    value: float


def search(
    recipes: Mapping[str, Recipe],
    train: np.ndarray | Stream,
    valid: np.ndarray | None,
    leaves: Sequence[LeafFamily] | None = None,
    *,
    judge: Judge | None = None,
    folder: str | os.PathLike[str] | None = None,
    **options: Any,
) -> Trained:
    """Trains circuits by recipes, ever fewer of them for ever longer, and returns the best on the validation rows.

    All of them for a tenth of the steps, the best three for four tenths, and the best two for all; a single recipe at
    once for all. Since small tables are soon learned by heart, the best of all may be one that was trained briefly.

    Arguments:
        recipes: The candidates, by name.
        train: The rows to learn, (rows, variables), or a stream of them.
        valid: The rows that decide; a single recipe does without.
        leaves: The families of leaf distributions; by default those of binary variables.
        judge: Tells how good a trained circuit is; by default its value on the validation rows counts.
        folder: Where to keep the best run, and all of them in ``trials``, so that an interrupted search can go on.
        options: Further arguments of `Recipe.train`.

    Example:
        >>> rows = np.random.default_rng(0).integers(0, 2, (200, 2)).repeat(3, axis=1)
        >>> recipes = {"small": Recipe(layer_size=1, replicas=1), "large": Recipe(replicas=10)}
        >>> search(recipes, rows[:100], rows[100:], steps=100, progress=False).name
        'large'
    """
    place = None if folder is None or distributed.rank() else Path(folder)
    trials = place / "trials" if place and len(recipes) > 1 else None
    if place and trials:
        check_search(place, trials, recipes)
    names, best = list(recipes), None
    for label, (part, remaining) in ROUNDS.items():
        if part == 1 or len(names) > remaining:
            runs = []
            for name in names:
                run_folder = trials / label / name if trials else place
                stage = f"{name}, {label} round" if trials or len(recipes) > 1 else name
                given = {**options, "notes": {**options.get("notes", {}), "recipe": name}}
                circuit, history = recipes[name].train(
                    train, valid, leaves, part=part, folder=run_folder, stage=stage, **given
                )
                runs.append(Trained(circuit, history, name, run_folder, _value(circuit, history, judge)))
            runs.sort(key=lambda run: -run.value)
            names = [run.name for run in runs[:remaining]]
            best = runs[0] if best is None or runs[0].value > best.value else best
    assert best is not None
    if place and best.folder and best.folder != place:
        copy_run(best.folder, place)
    return best


def _value(circuit: Circuit, history: History, judge: Judge | None) -> float:
    """How good a trained circuit is."""
    return distributed.first(lambda: judge(circuit)) if judge else max(history.valid, default=0.0)
