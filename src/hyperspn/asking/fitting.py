"""Fitting: a model of a table in one call."""

from __future__ import annotations

import os

from collections.abc import Callable, Sequence
from copy import deepcopy
from typing import Any

import numpy as np

from numpy.typing import ArrayLike, NDArray

from ..circuits import Circuit, Mixture
from ..data import Schema, Splits, recognize, split, table_of
from ..learning import History
from ..learning.ensembles import fit_ensemble
from ..learning.recipes import QUALITIES, candidates, hats_for, leaf_families
from ..learning.search import search
from .table_model import TableModel

VALID_SHARE = 0.1
UNJUDGED = "learned"


def fit_table(
    frame: Any,
    valid: Any = None,
    *,
    names: Sequence[str] | None = None,
    model: str = "hyperspn",
    recipe: str = "auto",
    quality: str = "good",
    minutes: float | None = None,
    ensemble: int | None = None,
    sample_weight: ArrayLike | None = None,
    validation_fraction: float = VALID_SHARE,
    seed: int = 0,
    folder: str | os.PathLike[str] | None = None,
    progress: bool = True,
    **options: Any,
) -> TableModel:
    """Learns the joint distribution of the columns of a table.

    Arguments:
        frame: A DataFrame of pandas, polars or pyarrow, or an array, (rows, columns).
        valid: Rows by which the best model is chosen; by default a part of the table.
        names: The names of the columns of an array.
        model: "hyperspn", whose weights a small network writes, or "spn", with one parameter per weight.
        recipe: The name of a recipe, or "auto", which tries several (see `search`).
        quality: How much to try: "fast", "good" or "best" (see `QUALITIES`).
        minutes: After how long to return the best so far, which then depends on the speed of the machine.
        ensemble: How many circuits to train and to join in one model (see `fit_ensemble`), in place of the best one alone.
        sample_weight: How much each row counts, (rows,).
        validation_fraction: That part, at least one row; with 0, or with a single row in all, the last step counts.
        seed: Determines everything that is random.
        folder: Where to keep the run, so that it can be resumed.
        progress: Whether to show a progress bar.
        options: What is asked of columns (`kinds`, `bounds`, `missing_as_data`, ... see `recognize`), sizes of the recipe
            (`layer_size`, `replicas`, ...), and what `fit` takes (`steps`, `batch_size`, ...); a `target` by its name.

    Example:
        >>> import numpy as np
        >>> rows = np.array([["red", 1.5], ["blue", 2.5]] * 30, dtype=object)
        >>> model = fit_table(rows, names=["color", "size"], recipe="chow-liu", steps=50, progress=False)
        >>> model.distribution("color", given="size=1.5").column
        'color'
    """
    splits = _splits(frame, valid, names, sample_weight, validation_fraction, seed, options)
    options |= {"model": model, "recipe": recipe, "quality": quality, "minutes": minutes, "ensemble": ensemble}
    circuit, history = fit_splits(splits, seed=seed, folder=folder, progress=progress, **options)
    template = frame if hasattr(frame, "columns") or hasattr(frame, "schema") else None
    learned = TableModel(circuit, splits.schema, template)
    learned.history = history
    return learned


def fit_splits(
    splits: Splits,
    *,
    judge: Callable[[TableModel], float] | None = None,
    ensemble: int | None = None,
    **options: Any,
) -> tuple[Circuit | Mixture, History | None]:
    """Searches for the best recipe on the rows of a table, or makes an ensemble of the best, which has no history.

    The notes of the circuit, or of the mixture, hold the schema and what is given. Validation rows outside the bounds of a
    column, which no model can explain, do not count; where none are left, the recipe "auto" is "learned". A judge tells how
    good a model is, in place of its likelihood of the validation rows.
    """
    schema, arguments = splits.schema, _search_options(splits, **options)
    if judge is not None:
        arguments["judge"] = lambda circuit: judge(TableModel(deepcopy(circuit), schema))
    if ensemble is not None:
        return fit_ensemble(members=ensemble, **arguments), None
    trained = search(**arguments)
    return trained.circuit, trained.history


def possible_rows(schema: Schema, x: NDArray) -> NDArray[np.bool_]:
    """Which encoded rows are within the bounds of all columns, (rows,); no model can explain others."""
    possible = np.ones(len(x), bool)
    for variable, column in enumerate(schema.columns):
        possible &= ~column.impossible(x[:, variable])
    return possible


def _splits(
    frame: Any,
    valid: Any,
    names: Sequence[str] | None,
    sample_weight: ArrayLike | None,
    validation_fraction: float,
    seed: int,
    options: dict[str, Any],
) -> Splits:
    """The encoded rows of a table to learn from and to choose by; takes what is asked of columns out of the options."""
    table = table_of(frame, names)
    wishes = {name: options.pop(name) for name in list(options) if name in WISHES}
    rows = np.arange(len(table))
    share = validation_fraction if len(table) > 1 else 0.0
    if not 0 <= share < 1:
        raise ValueError(f"expected validation_fraction >= 0 and < 1, found {share}")
    train, held_out = (rows, None) if valid is not None else split(len(table), seed, (1 - share, share, 0))[:2]
    schema = recognize(table, train, **wishes)
    x = schema.encode(table)
    validation = schema.encode(table_of(valid, names)) if held_out is None else x[held_out]
    weights = None
    if sample_weight is not None:
        of_rows = np.asarray(sample_weight, np.float64)
        of_valid = np.ones(len(validation)) if held_out is None else of_rows[held_out]
        weights = (of_rows[train], of_valid, np.ones(0))
    return Splits(schema, x[train], validation, x[:0], weights)


def _search_options(
    splits: Splits,
    model: str = "hyperspn",
    recipe: str = "auto",
    quality: str = "good",
    *,
    notes: dict[str, Any] | None = None,
    **options: Any,
) -> dict[str, Any]:
    """What to search with: recipes that suit the table, its rows, and options."""
    schema, sizes = splits.schema, {name: options.pop(name) for name in list(options) if name in SIZES}
    possible = possible_rows(schema, splits.valid)
    if splits.weights is not None:
        options |= {"sample_weight": splits.weights[0], "valid_weight": splits.weights[1][possible]}
    if isinstance(options.get("target"), str):
        options["target"] = schema.index(options["target"])
    if not possible.any():
        recipe = UNJUDGED if recipe == "auto" else recipe
        options |= {"patience": None, "valid_weight": None}
    leaves = leaf_families(schema, hats_for(len(splits.train)))
    return {
        "recipes": candidates(model, recipe, quality, len(splits.train), leaves, **sizes),
        "train": splits.train,
        "valid": splits.valid[possible] if possible.any() else None,
        "leaves": leaves,
        "effort": QUALITIES[quality].effort,
        "notes": {"schema": schema.to_dict(), "rows": len(splits.train), **(notes or {})},
        **options,
    }


WISHES = ("kinds", "bounds", "missing_as_data", "categories", "numeric_strings", "leave_out")
SIZES = ("layer_size", "replicas", "embedding_dim", "features", "hidden", "rank")
