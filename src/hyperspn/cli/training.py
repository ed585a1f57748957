"""The command that trains."""

from __future__ import annotations

import json
import sys

from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Annotated, Any

import typer

import hyperspn_command

from ..asking import TableModel, fit_splits
from ..checks import number, whole
from ..data import Schema, Splits, is_table, load_splits
from ..data.pieces import is_files
from ..data.streams import Stream, in_memory
from ..data.tables import TABLES
from ..learning import distributed
from ..learning.checkpoint import MODEL
from ..learning.recipes import QUALITIES, RECIPES, candidates
from .options import (
    COLUMNS_PANEL,
    EXPERT_PANEL,
    TABLES_PANEL,
    Bounds,
    Chooser,
    DataDir,
    Drop,
    Json,
    Kind,
    MissingAsData,
    MissingValues,
    ModelName,
    Optimizer,
    Seed,
    integers,
    wishes,
    words,
)
from .outcome import outcome, show
from .output import one_line, print_json, tell
from .rows import digests
from .suggestions import suggestions

app = typer.Typer()

READING = ("valid", "test", "weight", "missing_values")
TRAINING = (
    *("layer_size", "replicas", "embedding_dim", "features", "hidden", "rank", "steps", "batch_size"),
    *(
        "evaluate_every",
        "patience",
        "optimizer",
        "learning_rate",
        "weight_decay",
        "annealing",
        "averaging",
        "step_size",
        "pseudocount",
        "dropout",
    ),
    *("softening", "seed", "model", "recipe", "quality", "minutes", "ensemble"),
)


@app.command(rich_help_panel=TABLES_PANEL)
def train(
    data: Annotated[
        str,
        typer.Argument(help="A table (.csv, .parquet ...; - for standard input), a folder of tables, or a data set."),
    ],
    out: Annotated[
        Path, typer.Option("--out", "-o", help="The folder for the model. Run the same command again to resume.")
    ],
    model: Annotated[ModelName, typer.Option(help="HyperSPN (default) or plain SPN.")] = ModelName.hyperspn,
    recipe: Annotated[
        str,
        typer.Option(help=f"How to build it: {', '.join(RECIPES['hyperspn'])}; or auto: try them and keep the best."),
    ] = "auto",
    valid: Annotated[
        str | None,
        typer.Option(help="A table with the validation rows (default: a part of DATA).", rich_help_panel=COLUMNS_PANEL),
    ] = None,
    test: Annotated[
        str | None,
        typer.Option(help="A table with the test rows (default: a part of DATA).", rich_help_panel=COLUMNS_PANEL),
    ] = None,
    weight: Annotated[
        str | None, typer.Option(help="A column with the weights of rows.", rich_help_panel=COLUMNS_PANEL)
    ] = None,
    drop: Drop = None,
    kind: Kind = None,
    bounds: Bounds = None,
    missing_as_data: MissingAsData = False,
    missing_values: MissingValues = None,
    choose: Annotated[
        Chooser, typer.Option(help="Choose the best model by its validation likelihood or by its samples.")
    ] = Chooser.likelihood,
    quality: Annotated[str, typer.Option(help=f"How much to try: {', '.join(QUALITIES)}.")] = "good",
    minutes: Annotated[
        float | None, typer.Option(help="Stop after this many minutes with the best model so far (not reproducible).")
    ] = None,
    ensemble: Annotated[
        int | None, typer.Option(help="Join this many circuits in one model, instead of the best one alone.")
    ] = None,
    seed: Seed = 0,
    as_json: Json = False,
    verbose: Annotated[bool, typer.Option("--verbose", help="Show what the model consists of.")] = False,
    data_dir: DataDir = None,
    layer_size: Annotated[
        int | None,
        typer.Option(help="Sum nodes per region, k (default: chosen for the recipe).", rich_help_panel=EXPERT_PANEL),
    ] = None,
    replicas: Annotated[
        int | None,
        typer.Option(help="Number of trees, r (default: chosen for the recipe).", rich_help_panel=EXPERT_PANEL),
    ] = None,
    embedding_dim: Annotated[
        int | None, typer.Option(help="Size of a sector's embedding (default: 5).", rich_help_panel=EXPERT_PANEL)
    ] = None,
    features: Annotated[
        int | None,
        typer.Option(
            help="Features of a tree, for factored weights (default: chosen for the recipe).",
            rich_help_panel=EXPERT_PANEL,
        ),
    ] = None,
    hidden: Annotated[
        str,
        typer.Option(
            help="Widths of the network's hidden layers, like 20,20 (default: chosen for the recipe).",
            rich_help_panel=EXPERT_PANEL,
        ),
    ] = "",
    rank: Annotated[
        int | None,
        typer.Option(
            help="Write large sectors as matrices of this rank (default: full rank).", rich_help_panel=EXPERT_PANEL
        ),
    ] = None,
    steps: Annotated[
        int | None,
        typer.Option(help="Training steps (default: about 25 passes over the rows).", rich_help_panel=EXPERT_PANEL),
    ] = None,
    batch_size: Annotated[
        int | None, typer.Option(help="Rows per step (default: at most 200).", rich_help_panel=EXPERT_PANEL)
    ] = None,
    evaluate_every: Annotated[
        int | None,
        typer.Option(help="Steps between evaluations (default: a 20th of all steps).", rich_help_panel=EXPERT_PANEL),
    ] = None,
    patience: Annotated[
        int | None,
        typer.Option(help="Stop after this many evaluations without improvement.", rich_help_panel=EXPERT_PANEL),
    ] = None,
    optimizer: Annotated[
        Optimizer, typer.Option(help="Optimizer; EM only with --model spn.", rich_help_panel=EXPERT_PANEL)
    ] = Optimizer.adam,
    learning_rate: Annotated[
        float | None,
        typer.Option(help="Adam: learning rate (default: chosen for the recipe).", rich_help_panel=EXPERT_PANEL),
    ] = None,
    weight_decay: Annotated[
        float | None,
        typer.Option(help="Adam: L2 penalty (default: chosen for the recipe).", rich_help_panel=EXPERT_PANEL),
    ] = None,
    annealing: Annotated[
        bool | None, typer.Option(help="Adam: let the learning rate fall to 0.", rich_help_panel=EXPERT_PANEL)
    ] = None,
    averaging: Annotated[
        float | None,
        typer.Option(
            help="Adam: also try a running average of the parameters, like 0.999.", rich_help_panel=EXPERT_PANEL
        ),
    ] = None,
    step_size: Annotated[
        float | None,
        typer.Option(help="EM: how far a step goes towards the optimum of its batch.", rich_help_panel=EXPERT_PANEL),
    ] = None,
    pseudocount: Annotated[
        float | None,
        typer.Option(help="EM: rows to add to the counts of each sum, spread evenly.", rich_help_panel=EXPERT_PANEL),
    ] = None,
    dropout: Annotated[
        float,
        typer.Option(help="Probability that an edge of a sum is dropped in a step.", rich_help_panel=EXPERT_PANEL),
    ] = 0.0,
    softening: Annotated[
        float,
        typer.Option(
            help="Share of each training value that is spread over all categories.", rich_help_panel=EXPERT_PANEL
        ),
    ] = 0.0,
    structure: Annotated[str | None, typer.Option(hidden=True)] = None,
) -> None:
    """Learn a table: the joint distribution of its columns.

    Example: hyperspn train people.csv --out runs/people
    """
    arguments = _arguments({name: getattr(value, "value", value) for name, value in locals().items()})
    with distributed.job():
        if structure is not None:
            print("--structure is now --recipe", file=sys.stderr)
        _train(arguments, out, data_dir, as_json, verbose)


def _train(arguments: dict[str, Any], out: Path, data_dir: str | None, as_json: bool, verbose: bool) -> None:
    start = hyperspn_command.started or perf_counter()
    candidates(arguments["model"], arguments["recipe"], arguments["quality"])
    if (minutes := arguments["minutes"]) is not None:
        number("minutes", minutes)
    if arguments["ensemble"] is not None:
        whole("--ensemble", arguments["ensemble"])
    splits = distributed.first(lambda: _load(arguments, data_dir))
    if not as_json:
        tell(splits.notes)
        print(_summary(splits))
    trained = distributed.first(lambda: _finished_model(out, arguments, splits))
    if is_finished := trained is not None:
        print(f"{out} holds the finished run of this command: nothing is left to train", file=sys.stderr)
    trained = trained or _fit(out, arguments, splits, progress=not as_json)
    if distributed.rank() == 0:
        if verbose:
            print(trained.circuit, file=sys.stderr if as_json else sys.stdout)
        seconds = round(perf_counter() - start, 1)
        report = outcome(trained, splits, out) | {"seconds": seconds, "already_trained": is_finished}
        _tell(report, splits, out, arguments["data"], as_json)
        if minutes is not None:
            again = "" if arguments["ensemble"] else f"; without it, --recipe {trained.recipe} is"
            print(f"what --minutes ends depends on the machine's speed and is not reproducible{again}", file=sys.stderr)


def _tell(report: dict[str, Any], splits: Splits, out: Path, data: str, as_json: bool) -> None:
    if as_json:
        print_json(report)
        return
    tell(note for note in report["notes"] if note not in splits.notes)
    show(report)
    data = "-" if isinstance(splits.train, Stream) else data
    for command in suggestions(splits.schema, str(out), data, in_memory(splits.train)):
        print(f"  {one_line(command)}")


def _arguments(typed: dict[str, Any]) -> dict[str, Any]:
    """All that determines the run."""
    structure = typed.pop("structure")
    for name in ("out", "as_json", "verbose", "data_dir"):
        del typed[name]
    if structure is not None:
        typed["recipe"] = structure
    typed |= {"hidden": integers(typed["hidden"]) or None, "missing_values": words(typed["missing_values"])}
    return typed | {"drop": typed["drop"] or []}


def _load(arguments: dict[str, Any], data_dir: str | None) -> Splits:
    data, reading = arguments["data"], {name: arguments[name] for name in READING if arguments[name] is not None}
    asked = wishes(arguments["kind"], arguments["bounds"], arguments["missing_as_data"])
    given = [name.replace("_", "-") for name in (*reading, *(name for name, value in asked.items() if value))]
    if given and not is_table(data) and not is_files(data) and data not in TABLES:
        raise ValueError(f"expected a table for --{given[0].removesuffix('s')}, found the data set {data!r}")
    return load_splits(data, arguments["seed"], arguments["drop"], data_dir, **reading, **asked)


def _fit(out: Path, arguments: dict[str, Any], splits: Splits, progress: bool) -> TableModel:
    notes = {
        "data": arguments["data"],
        "seed": arguments["seed"],
        "drop": arguments["drop"],
        "reading": {name: arguments[name] for name in READING if arguments[name] is not None},
        "digests": digests(splits),
        "arguments": arguments,
    }
    options = {name: arguments[name] for name in TRAINING}
    if arguments["choose"] == "samples":
        options["judge"] = _judge(splits)
    try:
        circuit, _ = fit_splits(splits, notes=notes, folder=out, progress=progress, **options)
    except KeyboardInterrupt:
        print("hyperspn: interrupted: run the same command again to resume", file=sys.stderr)
        raise typer.Exit(130) from None
    return TableModel(circuit, splits.schema)


def _judge(splits: Splits) -> Callable[[TableModel], float]:
    """Judges models by how well their samples pass for validation rows."""
    try:
        from ..experiments import table_quality  # noqa: F401
        from ..experiments.tables import judge_by_samples
    except ImportError as error:
        raise ValueError("--choose samples needs more packages: pip install 'hyperspn[tables]'") from error
    return judge_by_samples(splits.schema.decode(splits.valid).to_pandas())


def _finished_model(out: Path, arguments: dict[str, Any], splits: Splits) -> TableModel | None:
    """The model of a finished run of the same command on the same data; that of another one is an error."""
    if not (out / MODEL).exists():
        return None
    model = TableModel.load(out)
    notes = model.circuit.notes
    if "arguments" not in notes:
        return None
    plain = json.loads(json.dumps(arguments))
    others = [name for name in plain if plain[name] != notes["arguments"].get(name)]
    if others:
        listed = ", ".join(f"{name} {plain[name]} instead of {notes['arguments'].get(name)}" for name in others)
        raise ValueError(f"{out} holds a finished run with other arguments ({listed}): choose another folder")
    if model.schema.digest() != splits.schema.digest() or notes["digests"] != digests(splits):
        what = _difference(model.schema, splits.schema)
        raise ValueError(f"{out} holds a finished run on another table ({what}): choose another folder")
    return model


def _difference(old: Schema, new: Schema) -> str:
    """In what two tables differ."""
    lost, won = ([name for name in a.names if name not in b.names] for a, b in ((old, new), (new, old)))
    changed = [column.name for column in new.columns if column.name in old.names and column not in old.columns]
    parts = [f"without {', '.join(lost)}"] * bool(lost) + [f"with {', '.join(won)}"] * bool(won)
    parts += [f"other values of {', '.join(changed[:5])}"] * bool(changed)
    return "; ".join(parts) or "other rows"


def _summary(splits: Splits) -> str:
    """One line on what was recognized."""
    kinds: dict[str, list[str]] = {}
    for column in splits.schema.columns:
        kinds.setdefault(column.kind, []).append(column.name)
    rows = f"{sum(map(len, splits[1:4])):,} rows ({', '.join(f'{len(rows):,}' for rows in splits[1:4])})"
    listed = [
        f"{len(names)} {kind} ({', '.join(names[:5])}{', ...' if len(names) > 5 else ''})"
        for kind, names in kinds.items()
    ]
    return one_line(f"{rows} to train, validate and test; columns: {', '.join(listed)}")
