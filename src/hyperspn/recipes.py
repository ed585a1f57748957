"""Recipes: which circuit to build for a table, and how to find out."""

from __future__ import annotations

import os

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from .circuit import Circuit
from .datasets import did_you_mean
from .learning import fit, warm_start
from .learning.train import whole
from .leaves import Categorical, Histogram, LeafFamily
from .models import SPN, HyperSPN
from .structures import RegionGraph, binary_trees, chow_liu

Structure = Literal["random", "learned", "chow-liu"]
Weights = Literal["direct", "hyper", "factored"]

BATCH_SIZE, SMALLEST_BATCH = 200, 50
PASSES, FEWEST, MOST = 25, 800, 4000
FEW_VARIABLES = 100
EVALUATIONS = 20
EM_STEPS, PSEUDOCOUNT = 100, 1.0
LEARNING_RATES = {"embeddings": 2e-2, "network": 2e-2}
PRIOR = 8.0
ROUNDS = {"short": (0.1, 3), "long": (0.4, 1)}  # the part of the steps, and how many recipes remain


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
        warm: Whether factored weights begin with clusters of rows (see `warm_start`).
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
        options |= {"embedding_dim": self.embedding_dim, "features": self.features, "hidden": self.hidden}
        circuit = HyperSPN(train.shape[1], self.layer_size, weights=self.weights, **options)
        if self.weights == "factored" and self.warm:
            warm_start(circuit, train, seed)
        return circuit

    def schedule(self, rows: int, variables: int, **given: Any) -> dict[str, Any]:
        """How to learn a table of this size: arguments of `fit`, with those that are given, not None, in place of its own.

        With Adam some 25 passes over the rows, but not less than 800 steps nor more than 4,000, or 400,000 / variables
        where these are fewer than 100: cheaper steps may be more. The learning rates fall to 0; those of HyperSPN networks
        begin at four times the published ones. The heads and bases of factored weights have a normal prior:
        ``PRIOR / 2 |parameters|^2`` is added to the loss of all rows together. EM takes 100 steps with all rows.
        """
        given = {name: value for name, value in given.items() if value is not None}
        own = _em(rows) if given.get("optimizer") == "em" else self._adam(rows, variables, given.get("batch_size"))
        own |= given
        return {"evaluate_every": max(1, whole("steps", own["steps"]) // EVALUATIONS)} | own

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
        continuous = [not isinstance(family, (Categorical, Histogram)) for family in families]
        if self.structure == "learned":
            return binary_trees(train.shape[1], self.replicas, seed, train, shared=shared, continuous=continuous)
        return chow_liu(train, self.replicas, seed, shared=shared, continuous=continuous)


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


def _em(rows: int) -> dict[str, Any]:
    return {"steps": EM_STEPS, "batch_size": rows, "pseudocount": PSEUDOCOUNT}


def candidates(model: str, structure: str, **options: Any) -> dict[str, Recipe]:
    """The recipe of a structure, or all of them for "auto", with these options in place of their own unless None.

    Arguments:
        model: "spn" or "hyperspn".
        structure: A name in `RECIPES`, or "auto".
    """
    if model not in RECIPES:
        raise ValueError(f"expected model {' or '.join(map(repr, RECIPES))}, found {model!r}")
    known = RECIPES[model]
    if structure not in ("auto", *known):
        choices = ", ".join(["auto", *known])
        raise ValueError(
            f"expected structure {choices} for {model}, found {structure!r}{did_you_mean(structure, known)}"
        )
    given = {name: value for name, value in options.items() if value is not None}
    return {name: known[name]._replace(**given) for name in known if structure in ("auto", name)}


def search(
    recipes: Mapping[str, Recipe],
    train: np.ndarray,
    valid: np.ndarray,
    leaves: Sequence[LeafFamily] | None = None,
    *,
    seed: int = 0,
    folder: str | os.PathLike[str] | None = None,
    progress: bool = True,
    **options: Any,
) -> str:
    """Trains circuits by recipes for a while, and returns the name of the best on the validation rows.

    All of them for a tenth of the steps, and then the best three for four tenths.

    Arguments:
        recipes: The candidates, by name.
        train: The rows to learn, (rows, variables).
        valid: The rows that decide.
        leaves: The families of leaf distributions; by default those of binary variables.
        seed: Determines everything that is random.
        folder: Where to keep the runs, so that an interrupted search can go on.
        progress: Whether to show progress bars.
        options: Arguments of `fit` in place of those in the recipes' schedules, unless None.

    Example:
        >>> rows = np.random.default_rng(0).integers(0, 2, (200, 2)).repeat(3, axis=1)
        >>> recipes = {"small": Recipe(layer_size=1, replicas=1), "large": Recipe(replicas=10)}
        >>> search(recipes, rows[:100], rows[100:], steps=600, progress=False)
        'large'
    """
    names = list(recipes)
    for label, (part, remaining) in ROUNDS.items():
        if len(names) > remaining:
            own = None if folder is None else Path(folder) / label
            trial = _Trial(train, valid, leaves, part, own, {**options, "seed": seed, "progress": progress})
            values = {name: trial.value(name, recipes[name]) for name in names}
            names = sorted(names, key=lambda name: -values[name])[:remaining]
    return names[0]


class _Trial(NamedTuple):
    """A table, and how recipes are tried on it."""

    train: np.ndarray
    valid: np.ndarray
    leaves: Sequence[LeafFamily] | None
    part: float
    folder: Path | None
    options: dict[str, Any]

    def value(self, name: str, recipe: Recipe) -> float:
        """The best validation value of a circuit that is trained for a part of the steps."""
        schedule = recipe.schedule(*self.train.shape, **self.options)
        steps = max(1, int(self.part * schedule["steps"]))
        schedule |= {"steps": steps, "evaluate_every": max(1, steps // 2), "patience": None}
        circuit = recipe.build(self.train, self.leaves, schedule["seed"])
        folder = None if self.folder is None else self.folder / name
        return max(fit(circuit, self.train, self.valid, **schedule, folder=folder).valid)
