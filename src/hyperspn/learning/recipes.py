"""Recipes: which circuit to build for a table, and how to find out."""

from __future__ import annotations

import os

from collections.abc import Mapping, Sequence
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
from .history import History, Progress
from .start_from_clusters import start_from_clusters
from .train import fit

Structure = Literal["random", "learned", "chow-liu", "backbone"]
Weights = Literal["direct", "hyper", "factored"]

BATCH_SIZE, SMALLEST_BATCH = 200, 50
PASSES, FEWEST, MOST = 25, 800, 4000
FEW_VARIABLES = 100
EVALUATIONS = 20
FEW_ROWS = 5000
FEWEST_HATS, MOST_HATS, ROWS_PER_HAT = 48, 160, 50
EM_STEPS, PSEUDOCOUNT = 100, 1.0
LEARNING_RATES = {"embeddings": 2e-2, "network": 2e-2}
PRIOR = 8.0


class Recipe(NamedTuple):
    """A structure, who writes its weights, and sizes that suit both.

    Arguments:
        structure: Balanced binary trees over "random" orders of the variables or over "learned" ones, "chow-liu", or such
            trees with columns of numbers as their "backbone" and columns of categories around it.
        weights: One parameter per weight ("direct"), or a network that reads one embedding per sector ("hyper") or one
            latent vector per replica of a shared tree ("factored").
        layer_size: The number of sum nodes per region k.
        replicas: The number of trees r.
        embedding_dim: The size of a sector's embedding ("hyper").
        features: The number of features of a replica ("factored").
        hidden: The widths of the network's hidden layers; None for those that suit the weights.
        rank: That of the factors which the network writes in place of large sectors; None for every weight.
        warm: Whether factored weights begin with clusters of rows (see `start_from_clusters`).
        prior: How strongly the heads and bases of factored weights are drawn to 0 (see `schedule`).
        learning_rate: Of these heads and bases; None for their own.
        batch_size: The most rows of a step.
    """

    structure: Structure = "random"
    weights: Weights = "hyper"
    layer_size: int = 5
    replicas: int = 50
    embedding_dim: int = 5
    features: int = 8
    hidden: Sequence[int] | None = None
    rank: int | None = None
    warm: bool = True
    prior: float = PRIOR
    learning_rate: float | None = None
    batch_size: int = BATCH_SIZE

    def build(self, train: np.ndarray, leaves: Sequence[LeafFamily] | None = None, seed: int = 0) -> Circuit:
        """A circuit for a table, (rows, variables), with these leaves: by default those of binary variables."""
        families = [Categorical(2)] * train.shape[1] if leaves is None else leaves
        options: dict[str, Any] = {"structure": self._graph(train, families, seed), "leaves": families, "seed": seed}
        if self.weights == "direct":
            return SPN(train.shape[1], self.layer_size, **options)
        size = "embedding_dim" if self.weights == "hyper" else "features"
        options |= {size: getattr(self, size), "hidden": self.hidden, "rank": self.rank}
        circuit = HyperSPN(train.shape[1], self.layer_size, weights=self.weights, **options)
        if self.weights == "factored" and self.warm:
            start_from_clusters(circuit, train, seed)
        return circuit

    def schedule(self, rows: int, variables: int, effort: float = 1.0, **given: Any) -> dict[str, Any]:
        """How to learn a table of this size: arguments of `fit`, with those that are given, not None, in place of its own.

        With Adam some 25 passes over the rows, but not less than 800 steps nor more than 4,000, or 400,000 / variables
        where these are fewer than 100: cheaper steps may be more. All that is multiplied by the `effort`. The learning rates
        fall to 0; those of HyperSPN networks begin at four times the published ones. The heads and bases of factored
        weights have a normal prior: ``prior / 2 |parameters|^2`` is added to the loss of all rows together. EM takes 100
        steps with all rows.
        """
        given = {name: value for name, value in given.items() if value is not None}
        schedule: dict[str, Any] = {"steps": EM_STEPS, "batch_size": rows, "pseudocount": PSEUDOCOUNT}
        if given.get("optimizer") != "em":
            schedule = self._adam(rows, variables, effort, given.get("batch_size"))
        schedule |= given
        return {"evaluate_every": max(1, whole("steps", schedule["steps"]) // EVALUATIONS)} | schedule

    def train(
        self,
        train: np.ndarray | Stream,
        valid: np.ndarray | None = None,
        leaves: Sequence[LeafFamily] | None = None,
        *,
        part: float = 1.0,
        effort: float = 1.0,
        notes: Mapping[str, Any] | None = None,
        seed: int = 0,
        folder: str | os.PathLike[str] | None = None,
        progress: bool | Progress = True,
        **given: Any,
    ) -> tuple[Circuit, History]:
        """Builds a circuit for a table and learns it, in a part of the steps of the schedule if less than 1.

        On small tables that are not binary, which are soon learned by heart, it stops after half of the steps without
        a better validation value. Arguments are those of `build`, `schedule` and `fit`, and the `notes` that the circuit and
        its file carry.
        """
        if isinstance(train, Stream) and given.get("optimizer") == "em" and given.get("batch_size") is None:
            raise ValueError("expected a batch size and a step size for EM on files, found none: all rows are too many")
        circuit = distributed.first(lambda: self.build(in_memory(train), leaves, seed))
        circuit.notes = dict(notes or {})
        rows, variables = train.shape
        schedule = self.schedule(rows, variables, effort, **given)
        if valid is not None and rows < FEW_ROWS and not is_binary(leaves):
            schedule = {"patience": EVALUATIONS // 2} | schedule
        if part < 1:
            steps = max(1, int(part * schedule["steps"]))
            schedule |= {"steps": steps, "evaluate_every": max(1, steps // 2), "patience": None}
        return circuit, fit(circuit, train, valid, **schedule, seed=seed, folder=folder, progress=progress)

    def _adam(self, rows: int, variables: int, effort: float, batch_size: int | None) -> dict[str, Any]:
        if batch_size is None:
            batch_size = min(self.batch_size, max(SMALLEST_BATCH, rows // 20))
        most = MOST * FEW_VARIABLES // min(FEW_VARIABLES, variables)
        steps = int(effort * min(most, max(FEWEST, PASSES * rows // whole("batch_size", batch_size))))
        schedule: dict[str, Any] = {"steps": steps, "batch_size": batch_size, "annealing": True}
        if self.weights == "hyper":
            schedule["learning_rate"] = LEARNING_RATES
        if self.weights == "factored":
            schedule["weight_decay"] = {"heads": self.prior * min(1.0, batch_size / rows)}
            if self.learning_rate is not None:
                schedule["learning_rate"] = {"heads": self.learning_rate}
        return schedule

    def _graph(self, train: np.ndarray, families: Sequence[LeafFamily], seed: int) -> RegionGraph:
        shared = self.weights == "factored"
        if self.structure == "random":
            return binary_trees(train.shape[1], self.replicas, seed, shared=shared)
        counted, continuous = countable(train, families)
        if self.structure == "learned":
            return binary_trees(train.shape[1], self.replicas, seed, counted, shared=shared, continuous=continuous)
        outer = [isinstance(family, Categorical) for family in families] if self.structure == "backbone" else None
        return chow_liu(counted, self.replicas, seed, shared=shared, continuous=continuous, outer=outer)


FOREST = Recipe(
    "backbone", "factored", layer_size=64, replicas=32, features=16, prior=0.1, learning_rate=0.1, batch_size=800
)
RECIPES = {
    "hyperspn": {
        "random": Recipe("random", "hyper"),
        "learned": Recipe("learned", "hyper"),
        "scratch": Recipe("chow-liu", "factored", layer_size=8, replicas=64, warm=False),
        "chow-liu": Recipe("chow-liu", "hyper", layer_size=12, replicas=8),
        "factored": Recipe("chow-liu", "factored", layer_size=8, replicas=32),
        "tree-mixture": Recipe("chow-liu", "factored", layer_size=2, replicas=128, features=32),
        "balanced": Recipe("learned", "factored", layer_size=6, replicas=32, features=3, hidden=(20, 20)),
        "smooth-forest": FOREST._replace(structure="chow-liu", layer_size=32, prior=2.0),
        "forest": FOREST,
        "large-forest": FOREST._replace(layer_size=96),
    },
    "spn": {
        "random": Recipe("random", "direct"),
        "learned": Recipe("learned", "direct", replicas=20),
        "chow-liu": Recipe("chow-liu", "direct", layer_size=12, replicas=4),
        "forest": Recipe("chow-liu", "direct", layer_size=32, replicas=32, batch_size=800),
    },
}
"""For each kind of model the recipes among which to choose: slow learners first, which look hopeless beside quick ones."""


def hats_for(rows: int) -> int:
    """How many hats suit a table: more rows tell finer details."""
    return min(MOST_HATS, max(FEWEST_HATS, rows // ROWS_PER_HAT))


def leaf_families(schema: Schema, members: int) -> list[LeafFamily]:
    """The leaf family of each column, with `members` hats for one of numbers."""
    return [
        Categorical(column.size) if column.scale is None else Numeric(column.scale, members, column.missing_as_data)
        for column in schema.columns
    ]


def is_binary(leaves: Sequence[LeafFamily] | None) -> bool:
    """Whether all leaf families are those of binary variables, as they are by default."""
    return leaves is None or all(family == Categorical(2) for family in leaves)


class Quality(NamedTuple):
    """How much a search may do.

    Arguments:
        effort: By what the steps of schedules are multiplied.
        small: The recipes for tables of few rows with columns that are not binary.
        large: Those for thousands of rows.
        binary: The recipes for tables whose columns are all binary.
    """

    effort: float
    small: tuple[str, ...]
    large: tuple[str, ...]
    binary: tuple[str, ...]


BINARY = ("random", "learned", "chow-liu", "factored", "tree-mixture", "balanced")
QUALITIES = {
    "fast": Quality(0.4, ("scratch",), ("forest",), ("factored", "chow-liu")),
    "good": Quality(1.0, ("scratch",), ("forest", "smooth-forest"), BINARY),
    "best": Quality(1.0, ("scratch", "factored"), ("forest", "smooth-forest", "large-forest"), BINARY),
}
"""How much a search may do, by name: from seconds for a small table to minutes for a large one."""


def candidates(
    model: str,
    recipe: str,
    quality: str = "good",
    rows: int | None = None,
    leaves: Sequence[LeafFamily] | None = None,
    **options: Any,
) -> dict[str, Recipe]:
    """The recipe of a name, or for "auto" those that suit, with these options in place of their own unless None.

    Arguments:
        model: "spn" or "hyperspn".
        recipe: A name in `RECIPES`, or "auto".
        quality: A name in `QUALITIES`, for "auto".
        rows: The number of training rows: forests are for thousands of them.
        leaves: The families of leaf distributions; by default those of binary variables.

    Where none of them suits, as with plain SPNs of small tables, it is "chow-liu".
    """
    if model not in RECIPES:
        raise ValueError(f"expected model {' or '.join(map(repr, RECIPES))}, found {model!r}")
    if quality not in QUALITIES:
        raise ValueError(
            f"expected quality {', '.join(QUALITIES)}, found {quality!r}{did_you_mean(quality, QUALITIES)}"
        )
    known = RECIPES[model]
    if recipe not in ("auto", *known):
        choices = ", ".join(["auto", *known])
        raise ValueError(f"expected recipe {choices} for {model}, found {recipe!r}{did_you_mean(recipe, known)}")
    given = {name: value for name, value in options.items() if value is not None}
    _, small, large, binary = QUALITIES[quality]
    suiting = binary if is_binary(leaves) else large if rows is not None and rows >= FEW_ROWS else small
    names = [recipe] if recipe != "auto" else [name for name in known if name in suiting] or ["chow-liu"]
    return {name: known[name]._replace(**given) for name in names}
