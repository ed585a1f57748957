"""Ensembles: several trained circuits as one mixture, whose weights are learned from validation rows."""

from __future__ import annotations

import os

from collections.abc import Mapping, Sequence
from pathlib import Path
from time import monotonic
from typing import Any

import numpy as np
import torch

from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from ..checks import whole
from ..circuits.circuit import Circuit
from ..circuits.mixtures import Mixture
from ..data.streams import Stream
from ..leaves import LeafFamily
from . import distributed
from .checkpoint import CHECKPOINT, MODEL
from .history import Progress
from .recipes import Recipe
from .search import Judge, Trained, leaders, steps_of

LEADERS = 2
NEGLIGIBLE = 0.1  # of an equal share
ITERATIONS, CHANGE = 1000, 1e-7


class Resampled(Recipe):
    """A recipe that learns the structure from a bootstrap sample of the rows, and everything else from all of them."""

    def build(self, train: np.ndarray, leaves: Sequence[LeafFamily] | None = None, seed: int = 0) -> Circuit:
        rows = np.random.default_rng(seed).integers(0, len(train), len(train))
        return super().build(train[rows], leaves, seed)


def fit_ensemble(
    recipes: Mapping[str, Recipe],
    train: np.ndarray | Stream,
    valid: np.ndarray | None,
    leaves: Sequence[LeafFamily] | None = None,
    *,
    members: int = 8,
    judge: Judge | None = None,
    minutes: float | None = None,
    seed: int = 0,
    folder: str | os.PathLike[str] | None = None,
    progress: bool = True,
    notes: Mapping[str, Any] | None = None,
    **options: Any,
) -> Mixture:
    """Trains several circuits and joins them in one mixture, which is a model like any other.

    The first members are the two best recipes of a search. The others follow these in turn, with further seeds and with
    structures of bootstrap samples of the rows. The mixture's weights are learned from one half of the validation rows (see
    `mix`); the other half can judge (see `judging_rows`).

    Arguments:
        recipes: The candidates, by name.
        train: The rows to learn, (rows, variables), or a stream of them.
        valid: The rows that decide; without them a single recipe will do, and all members weigh the same.
        leaves: The families of leaf distributions; by default those of binary variables.
        members: How many circuits to train to the end.
        judge: Tells how good a circuit is (see `search`).
        minutes: After how long to join what there is.
        seed: Determines everything that is random.
        folder: Where to keep ``search``, ``members`` and in the end ``model.safetensors``; the same call goes on there.
        progress: Whether to show a progress bar.
        notes: What the mixture and its file carry.
        options: Further arguments of `Recipe.train`.

    Example:
        >>> rows = np.random.default_rng(0).integers(0, 2, (200, 2)).repeat(3, axis=1)
        >>> recipes = {"small": Recipe(layer_size=2, replicas=2)}
        >>> len(fit_ensemble(recipes, rows[:100], rows[100:], members=3, steps=20, progress=False).components) <= 3
        True
    """
    start, place = monotonic(), None if folder is None else Path(folder)
    whole("the number of members", members)
    if place and (place / CHECKPOINT).exists():
        raise ValueError(f"there is another run in {place}: choose another folder")
    options |= {"seed": seed, "progress": progress}
    place_of_search = place / "search" if place else None
    judging: dict[str, Any] = {"judge": judge, "minutes": minutes, "notes": {"seed": seed}}
    every = leaders(recipes, train, valid, leaves, folder=place_of_search, **judging, **options)
    best = every[: min(LEADERS, members)]
    others = train_members(
        {trained.name: recipes[trained.name] for trained in best},
        train,
        valid,
        leaves,
        members=members,
        first=len(best),
        parts=[trained.part for trained in best],
        minutes=None if minutes is None else minutes - (monotonic() - start) / 60,
        folder=place / "members" if place else None,
        **options,
    )
    mixture = mix([*best, *others], valid, options.get("valid_weight"), seed)
    mixture.notes = {**(notes or {}), **mixture.notes}
    if place and distributed.rank() == 0:
        mixture.save(place / MODEL)
    return mixture


def train_members(
    recipes: Mapping[str, Recipe],
    train: np.ndarray | Stream,
    valid: np.ndarray | None,
    leaves: Sequence[LeafFamily] | None = None,
    *,
    members: int,
    first: int = 0,
    parts: Sequence[float] | None = None,
    minutes: float | None = None,
    seed: int = 0,
    folder: Path | None = None,
    progress: bool = True,
    **options: Any,
) -> list[Trained]:
    """Trains the members of an ensemble from a number on; member i follows recipe i, modulo their number.

    The first member of each recipe learns its structure from all rows, every further one from a bootstrap sample.
    """
    names, shares = list(recipes), parts or [1.0] * len(recipes)
    plan = [(i, names[i % len(names)], shares[i % len(names)], seed + i // len(names)) for i in range(first, members)]
    steps = [steps_of(recipes[name], train, part, options) for _, name, part, _ in plan]
    trained: list[Trained] = []
    with Progress(progress and distributed.rank() == 0, sum(steps), minutes) as bar:
        for (i, name, part, member_seed), member_steps in zip(plan, steps, strict=True):
            if (first or trained) and bar.has_end and distributed.first(lambda: bar.is_late):
                break
            recipe = recipes[name] if i < len(names) else Resampled(*recipes[name])
            member_folder = folder / f"{i + 1}-{name}" if folder and distributed.rank() == 0 else None
            circuit, history = recipe.train(
                train,
                valid,
                leaves,
                part=part,
                folder=member_folder,
                stage=f"member {i + 1} of {members}, {name}",
                progress=bar,
                **{**options, "seed": member_seed, "notes": {"recipe": name, "seed": member_seed}},
            )
            bar.end(member_steps)
            trained.append(Trained(circuit, history, name, member_folder, max(history.valid, default=0.0), part))
    return trained


def mix(
    trained: Sequence[Trained], valid: np.ndarray | None, valid_weight: ArrayLike | None = None, seed: int = 0
) -> Mixture:
    """A mixture of trained circuits with weights from one half of the validation rows.

    Circuits that weigh less than a tenth of an equal share are left out.
    """
    circuits = [one.circuit for one in trained]
    weights = torch.full((len(circuits),), 1 / len(circuits), dtype=torch.float64)
    if valid is not None and len(valid) > 1:
        rows = ~judging_rows(len(valid), seed)
        importance = None if valid_weight is None else torch.from_numpy(np.asarray(valid_weight, np.float64)[rows])
        with torch.no_grad():
            log_p = torch.stack([circuit.log_prob(valid[rows]).double() for circuit in circuits], 1)
        weights = mixture_weights(log_p, importance)
        kept = [c for c, weight in enumerate(weights.tolist()) if weight >= NEGLIGIBLE / len(circuits)]
        circuits, weights = [circuits[c] for c in kept], mixture_weights(log_p[:, kept], importance)
    mixture = Mixture(circuits, weights.float())
    mixture.notes = {"recipe": f"ensemble of {len(circuits)}", "trained": len(trained)}
    return mixture


def mixture_weights(log_p: Tensor, importance: Tensor | None = None) -> Tensor:
    """The weights of components under which rows are most likely, (components,), by EM.

        weights_c <- (sum_b P(c | row b) + 1 / components) / (rows + 1)

    One row's worth of doubt keeps few rows from deciding too much.

    Arguments:
        log_p: The log-likelihood of each row under each component, (rows, components).
        importance: How much each row counts, (rows,).
    """
    components = log_p.shape[1]
    counts = log_p.new_ones(len(log_p)) if importance is None else importance / importance.mean()
    is_possible = log_p.amax(1) > -torch.inf
    log_p, counts = log_p[is_possible], counts[is_possible]
    weights = log_p.new_full((components,), 1 / components)
    for _ in range(ITERATIONS):
        posterior = (log_p + weights.log()).softmax(1)
        updated = (counts @ posterior + 1 / components) / (counts.sum() + 1)
        if (updated - weights).abs().max() < CHANGE:
            break
        weights = updated
    return updated


def judging_rows(count: int, seed: int) -> NDArray[np.bool_]:
    """Which validation rows the weights of an ensemble have not seen, (rows,): a random half of them."""
    return np.random.default_rng(seed).permutation(count) >= (count + 1) // 2
