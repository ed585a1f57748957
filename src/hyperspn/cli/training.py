"""Commands that train."""

from __future__ import annotations

import sys

from pathlib import Path
from typing import Annotated, Any

import typer

from ..asking import TableModel
from ..data import load_splits
from ..learning.recipes import RECIPES, candidates, leaf_families, search
from .options import DataDir, Json, ModelName, Optimizer, Seed, integers
from .output import print_values, show_columns

app = typer.Typer()
STRUCTURES = tuple(RECIPES["hyperspn"])


@app.command()
def train(
    data: Annotated[str, typer.Argument(help="A data set's name or folder, or a table .csv, .tsv, .parquet, .npy.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The folder for the model; the same again resumes.")],
    model: Annotated[ModelName, typer.Option(help="Who writes the weights.")] = ModelName.hyperspn,
    structure: Annotated[str, typer.Option(help=f"{', '.join(STRUCTURES)}; or auto: the best of them.")] = "auto",
    layer_size: Annotated[int | None, typer.Option(help="Sum nodes per region k; else what suits.")] = None,
    replicas: Annotated[int | None, typer.Option(help="Number of trees r; else what suits.")] = None,
    embedding_dim: Annotated[int | None, typer.Option(help="Size of a sector's embedding; else 5.")] = None,
    features: Annotated[int | None, typer.Option(help="Features of a replica, for factored; else what suits.")] = None,
    hidden: Annotated[str, typer.Option(help="Widths of the network's hidden layers; else what suits.")] = "",
    steps: Annotated[int | None, typer.Option(help="Training steps; else 25 passes, within bounds.")] = None,
    batch_size: Annotated[int | None, typer.Option(help="Rows per step; else at most 200.")] = None,
    evaluate_every: Annotated[int | None, typer.Option(help="Steps between evaluations; else a 20th of all.")] = None,
    patience: Annotated[int | None, typer.Option(help="Stop after so many evaluations without a better one.")] = None,
    optimizer: Annotated[Optimizer, typer.Option(help="How to learn; EM is for --model spn.")] = Optimizer.adam,
    learning_rate: Annotated[float | None, typer.Option(help="Of Adam; else what suits.")] = None,
    weight_decay: Annotated[float | None, typer.Option(help="Of Adam: the L2 penalty; else what suits.")] = None,
    annealing: Annotated[bool | None, typer.Option(help="Of Adam: whether the learning rate falls to 0.")] = None,
    step_size: Annotated[float | None, typer.Option(help="Of EM: how far to go towards a batch's optimum.")] = None,
    pseudocount: Annotated[float | None, typer.Option(help="Of EM: rows' worth of uniform flow for each sum.")] = None,
    dropout: Annotated[float, typer.Option(help="Probability of an edge of a sum to be dropped.")] = 0.0,
    softening: Annotated[float, typer.Option(help="Part of a category that counts for all alike.")] = 0.0,
    drop: Annotated[list[str] | None, typer.Option(help="A column of the table to leave out.")] = None,
    seed: Seed = 0,
    data_dir: DataDir = None,
    as_json: Json = False,
) -> None:
    """Train a model on a data set, or on a table of your own.

    Example: hyperspn train people.csv --out runs/people
    """
    recipes = candidates(
        model.value,
        structure,
        layer_size=layer_size,
        replicas=replicas,
        embedding_dim=embedding_dim,
        features=features,
        hidden=integers(hidden) or None,
    )
    splits = load_splits(data, seed, drop or (), data_dir)
    options: dict[str, Any] = {
        "steps": steps,
        "batch_size": batch_size,
        "evaluate_every": evaluate_every,
        "patience": patience,
        "optimizer": optimizer.value,
        "learning_rate": learning_rate,
        "weight_decay": weight_decay,
        "annealing": annealing,
        "step_size": step_size,
        "pseudocount": pseudocount,
        "dropout": dropout,
        "softening": softening,
        "seed": seed,
        "progress": not as_json,
    }
    if not as_json:
        show_columns(splits.schema)
        if len(recipes) > 1:
            print(f"trying {', '.join(recipes)}: all for a tenth of the steps, then the best ones for longer")
    notes = {"data": data, "seed": seed, "drop": drop or [], "schema": splits.schema.to_dict()}
    try:
        best = search(
            recipes, splits.train, splits.valid, leaf_families(splits.schema), notes=notes, folder=out, **options
        )
    except KeyboardInterrupt:
        print(f"hyperspn: interrupted; the same command goes on with {out}", file=sys.stderr)
        raise typer.Exit(130) from None
    if not as_json:
        print(best.circuit)
    model_of_table = TableModel(best.circuit, splits.schema)
    found = {
        "structure": best.name,
        "step": best.history.best_step,
        "valid": float(model_of_table.log_likelihood(splits.valid).mean()),
        "test": float(model_of_table.log_likelihood(splits.test).mean()),
        "parameters": best.circuit.num_parameters,
        "seconds": round(best.history.seconds, 1),
    }
    print_values(found, list(found.items()), ("", str(out)), as_json)
