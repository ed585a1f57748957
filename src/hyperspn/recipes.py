"""Recipes: which circuit to build for a table, and how to find out."""

from __future__ import annotations

import os

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from .circuit import Circuit
from .datasets import did_you_mean
from .learning import fit
from .leaves import Categorical, Histogram, LeafFamily
from .models import SPN, HyperSPN
from .structures import RegionGraph, binary_trees, chow_liu

Structure = Literal["random", "learned", "chow-liu"]
Weights = Literal["direct", "hyper", "factored"]


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
    """

    structure: Structure = "random"
    weights: Weights = "hyper"
    layer_size: int = 5
    replicas: int = 50
    embedding_dim: int = 5
    features: int = 8
    hidden: Sequence[int] | None = None

    def build(self, train: np.ndarray, leaves: Sequence[LeafFamily] | None = None, seed: int = 0) -> Circuit:
        """A circuit for a table, (rows, variables), with these leaves: by default those of binary variables."""
        families = [Categorical(2)] * train.shape[1] if leaves is None else leaves
        options: dict[str, Any] = {"structure": self._graph(train, families, seed), "leaves": families, "seed": seed}
        if self.weights == "direct":
            return SPN(train.shape[1], self.layer_size, **options)
        options |= {"embedding_dim": self.embedding_dim, "features": self.features, "hidden": self.hidden}
        return HyperSPN(train.shape[1], self.layer_size, weights=self.weights, **options)

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
        "factored": Recipe("chow-liu", "factored", replicas=64),
    },
    "spn": {
        "random": Recipe("random", "direct"),
        "learned": Recipe("learned", "direct", replicas=20),
        "chow-liu": Recipe("chow-liu", "direct", layer_size=12, replicas=4),
    },
}
"""For each kind of model the recipes among which to choose."""


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
    **options: Any,
) -> str:
    """Trains a circuit by each recipe, and returns the name of the one that is best on the validation rows.

    Arguments:
        recipes: The candidates, by name.
        train: The rows to learn, (rows, variables).
        valid: The rows that decide.
        leaves: The families of leaf distributions; by default those of binary variables.
        seed: Determines everything that is random.
        folder: Where to keep the runs, each in a folder of its name, so that an interrupted search can go on.
        options: How each is trained: the other arguments of `fit`.

    Example:
        >>> rows = np.random.default_rng(0).integers(0, 2, (200, 2)).repeat(3, axis=1)
        >>> recipes = {"small": Recipe(layer_size=1, replicas=1), "large": Recipe(replicas=10)}
        >>> search(recipes, rows[:100], rows[100:], steps=60, progress=False)
        'large'
    """
    found = {}
    for name, recipe in recipes.items():
        own = None if folder is None else Path(folder) / name
        history = fit(recipe.build(train, leaves, seed), train, valid, seed=seed, folder=own, **options)
        found[name] = max(history.valid)
    return max(found, key=lambda name: found[name])
