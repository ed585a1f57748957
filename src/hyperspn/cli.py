"""The command line: parse, call, print."""

from __future__ import annotations

import json
import sys

from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
import typer

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table as RichTable

from . import __version__, datasets, experiments, pictures, tables
from .circuit import Circuit
from .circuit import load as load_circuit
from .experiments import ARTEFACTS
from .leaves import Categorical, Gaussian, LeafFamily
from .recipes import RECIPES, candidates, search
from .sectors import Sectors
from .structures import RegionGraph, binary_trees, poon_domingos
from .tables import Schema, Table
from .weights import HyperWeights

SHORT = 20

STRUCTURES = tuple(RECIPES["hyperspn"])
UsageError: type[Exception] = typer.BadParameter.__bases__[0]


class Model(str, Enum):
    hyperspn = "hyperspn"
    spn = "spn"


class Optimizer(str, Enum):
    adam = "adam"
    em = "em"


class Family(str, Enum):
    spn = "spn"
    einet = "einet"


class Split(str, Enum):
    train = "train"
    valid = "valid"
    test = "test"


Run = Annotated[Path, typer.Argument(help="The folder of a trained model, or its file.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Seed = Annotated[int, typer.Option(help="Determines everything that is random.", min=0)]
Image = Annotated[str, typer.Option(help="Height, width and channels of images, like 32,32,3; else square.")]
DataDir = Annotated[str | None, typer.Option(help="Folder of the benchmark data; else HYPERSPN_DATA.")]

app = typer.Typer(
    help="Probabilistic circuits whose weights a small neural network writes.",
    add_completion=False,
    pretty_exceptions_enable=False,
)


def main() -> None:
    """Runs the command line; what a user can get wrong is one line on standard error, and exit code 2."""
    try:
        sys.exit(app(standalone_mode=False))
    except UsageError as error:
        message = error.format_message()  # type: ignore[attr-defined]
    except (ValueError, OSError, FloatingPointError) as error:
        message = str(error)
    except (MemoryError, RuntimeError) as error:
        if isinstance(error, RuntimeError) and "allocate memory" not in str(error):
            raise
        message = "expected enough memory, found too little: try a smaller model or batch"
    except (KeyboardInterrupt, typer.Abort):
        print("hyperspn: interrupted", file=sys.stderr)
        sys.exit(130)
    print(f"hyperspn: {message}", file=sys.stderr)
    sys.exit(2)


@app.callback(invoke_without_command=True)
def root(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    if version:
        print(f"hyperspn {__version__}")
    elif context.invoked_subcommand is None:
        print(context.get_help())


@app.command()
def sizes(
    variables: Annotated[int | None, typer.Option(help="Number of variables n, of an SPN.")] = None,
    model: Annotated[Family, typer.Option(help="Random trees, or an EiNet for images.")] = Family.spn,
    image: Annotated[str | None, typer.Option(help="Rows, columns and channels, like 32,32,3, of an EiNet.")] = None,
    delta: Annotated[int, typer.Option(help="Columns between the vertical cuts of an image.")] = 8,
    layer_size: Annotated[int, typer.Option(help="Sum nodes per region k.")] = 5,
    replicas: Annotated[int, typer.Option(help="Number of random trees r.")] = 50,
    embedding_dim: Annotated[int, typer.Option(help="Size of a sector's embedding.")] = 5,
    hidden: Annotated[str, typer.Option(help="Widths of the network's hidden layers, like 20,20.")] = "20,20",
    categories: Annotated[int, typer.Option(help="Categories of each variable.")] = 2,
    as_json: Json = False,
) -> None:
    """Count the weights of an SPN or EiNet, and the learnable parameters of the HyperSPN that writes them.

    Example: hyperspn sizes --variables 16 --layer-size 5 --replicas 50 --hidden 20,20

    Example: hyperspn sizes --model einet --image 32,32,3 --layer-size 40 --embedding-dim 8 --hidden 10,10
    """
    if model is Family.einet:
        structure = _cut_image(image, delta)
        leaves: LeafFamily = Gaussian(layer_size)
        sectors = Sectors(structure, layer_size, [layer_size] * structure.num_variables, "outer")
    elif variables is None:
        raise ValueError("expected --variables, found none")
    else:
        leaves = Categorical(categories)
        sectors = Sectors(binary_trees(variables, replicas), layer_size, [leaves.width] * variables)
    with torch.device("meta"):
        generator = HyperWeights(sectors, embedding_dim, _integers(hidden))
    learnable = generator.num_parameters + sectors.num_mixture_weights
    counts: dict[str, Any] = {
        model.value: {"stored": sectors.num_weights, "used": sectors.num_used_weights},
        "hyperspn": {
            "learnable": learnable,
            "embeddings": generator.embeddings.numel(),
            "network": generator.num_parameters - generator.embeddings.numel(),
            "mixture": sectors.num_mixture_weights,
            "weights_per_parameter": sectors.num_weights / learnable,
        },
        "leaves": sectors.structure.num_variables * leaves.width * leaves.num_parameters,
    }
    rows = [
        (name, entry.replace("_", " "), number)
        for name, entries in counts.items()
        for entry, number in (entries.items() if isinstance(entries, dict) else [("learnable", entries)])
    ]
    _report(counts, rows, ("model", "count", "number"), as_json)


@app.command("datasets")
def list_datasets(data_dir: DataDir = None, as_json: Json = False) -> None:
    """List the data sets that are known by name, and whether they are at hand."""
    listing = [row._asdict() for row in datasets.available(data_dir)]
    _report({"datasets": listing}, [tuple(row.values()) for row in listing], tuple(listing[0]), as_json)


@app.command()
def train(
    data: Annotated[str, typer.Argument(help="A data set's name or folder, or a table .csv, .tsv, .parquet, .npy.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The folder for the model; the same again resumes.")],
    model: Annotated[Model, typer.Option(help="Who writes the weights.")] = Model.hyperspn,
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
        hidden=_integers(hidden) or None,
    )
    splits = tables.load(data, seed, drop or (), data_dir)
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
        _show_columns(splits.schema)
        if len(recipes) > 1:
            print(f"trying {', '.join(recipes)}: all for a tenth of the steps, then the best ones for longer")
    notes = {"data": data, "seed": seed, "drop": drop or [], "schema": splits.schema.to_dict()}
    try:
        best = search(recipes, splits.train, splits.valid, splits.schema.families(), notes=notes, folder=out, **options)
    except KeyboardInterrupt:
        print(f"hyperspn: interrupted; the same command goes on with {out}", file=sys.stderr)
        raise typer.Exit(130) from None
    if not as_json:
        print(best.circuit)
    found = {
        "structure": best.name,
        "step": best.history.best_step,
        "valid": _mean_log_prob(best.circuit, splits.schema, splits.valid),
        "test": _mean_log_prob(best.circuit, splits.schema, splits.test),
        "parameters": best.circuit.num_parameters,
        "seconds": round(best.history.seconds, 1),
    }
    _report(found, list(found.items()), ("", str(out)), as_json)


@app.command()
def evaluate(
    run: Run,
    split: Annotated[Split, typer.Option(help="Which rows.")] = Split.test,
    data: Annotated[str | None, typer.Option(help="Other data than the model was trained on.")] = None,
    data_dir: DataDir = None,
    as_json: Json = False,
) -> None:
    """Print the mean log-likelihood of a split, in nats.

    Example: hyperspn evaluate runs/people --split test
    """
    circuit, schema = _open(run)
    notes = circuit.notes
    if data is not None and Path(data).suffix.lower() in tables.READERS:
        x = schema.encode(tables.read_table(data))
    else:
        x = getattr(tables.load(data or notes["data"], notes["seed"], notes["drop"], data_dir), split.value)
    found = {"rows": len(x), "log_likelihood": _mean_log_prob(circuit, schema, x)}
    _report(found, list(found.items()), ("", str(run)), as_json)


@app.command()
def sample(
    run: Run,
    n: Annotated[int, typer.Option("-n", help="Number of rows.")] = 10,
    given: Annotated[str, typer.Option(help='What is known, like "colour=red,size=3".')] = "",
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="A .csv or .tsv file, or .png for images; else print.")
    ] = None,
    image: Image = "",
    seed: Seed = 0,
) -> None:
    """Draw rows from the model, with some values given if you like.

    Example: hyperspn sample runs/people -n 100 --given colour=red --out sample.csv

    Example: hyperspn sample runs/digits -n 50 --out digits.png
    """
    circuit, schema = _open(run)
    shape = pictures.image_shape(circuit.num_variables, _integers(image)) if out and out.suffix == ".png" else None
    x = circuit.sample_given(schema.evidence(given), n=n, generator=torch.Generator().manual_seed(seed))[0]
    if out is None or shape is None:
        _write(schema.decode(x.double().numpy()), out)
        return
    values = schema.numbers(x.double().numpy())
    across = next(count for count in (10, 8, 5, 4, 3, 2, 1) if n % count == 0)
    pictures.write_grid(out, values.reshape(-1, across, values.shape[1]), shape, values.min(), values.max())


@app.command()
def inpaint(
    run: Run,
    out: Annotated[Path, typer.Option("--out", "-o", help="A .png file.")],
    n: Annotated[int, typer.Option("-n", help="Number of test images.")] = 8,
    samples: Annotated[int, typer.Option(help="Number of conditional samples of each.")] = 4,
    hide: Annotated[str, typer.Option(help="The half to hide: lower, upper, left or right.")] = "lower",
    image: Image = "",
    data_dir: DataDir = None,
    seed: Seed = 0,
) -> None:
    """Hide half of some test images and complete them: the image, what is known, the most probable completion, samples.

    Example: hyperspn inpaint runs/digits --out inpainted.png
    """
    circuit, schema = _open(run)
    shape = pictures.image_shape(circuit.num_variables, _integers(image))
    missing = pictures.half(shape, hide)
    rows = tables.load(circuit.notes["data"], circuit.notes["seed"], circuit.notes["drop"], data_dir).test[:n]
    x = torch.as_tensor(rows).double()
    drawn = circuit.sample_given(x, missing, samples, torch.Generator().manual_seed(seed))  # (n, samples, variables)
    known = x.masked_fill(torch.from_numpy(missing), torch.nan)
    found = torch.stack([x, known, circuit.most_probable(x, missing).double(), *drawn.double().unbind(1)])
    values = schema.numbers(found.flatten(0, 1).numpy()).reshape(found.shape)
    pictures.write_grid(out, values, shape, values[0].min(), values[0].max())


@app.command()
def query(
    run: Run,
    of: Annotated[str, typer.Option(help="The column to ask for.")],
    given: Annotated[str, typer.Option(help='What is known, like "colour=red,size=3".')] = "",
    as_json: Json = False,
) -> None:
    """Print the exact distribution of a column, given the values of others.

    Example: hyperspn query runs/people --given "colour=red,size=3" --of price
    """
    circuit, schema = _open(run)
    evidence = schema.evidence(given)
    variable = schema.index(of)
    column = schema.columns[variable]
    found: dict[str, Any] = {"log_p_given": float(circuit.log_prob(evidence)[0] - schema.log_scale(evidence)[0])}
    if column.is_continuous:
        mean, variance = (float(moment[0, variable]) for moment in circuit.moments(evidence))
        found |= {"mean": mean * column.std + column.mean, "std": variance**0.5 * column.std}
        rows: list[tuple[Any, Any]] = list(found.items())[1:]
    else:
        probabilities = circuit.marginals(evidence)[0, variable, : len(column.categories)].tolist()
        rows = sorted(zip(column.categories, probabilities, strict=True), key=lambda row: -row[1])
        found["probabilities"] = {str(category): probability for category, probability in rows}
    _report(found, rows, (of, f"given {given}" if given else "probability"), as_json)


@app.command()
def impute(
    run: Run,
    table: Annotated[Path, typer.Argument(help="A table with holes and the columns of the model.")],
    out: Annotated[Path | None, typer.Option("--out", "-o", help="A .csv or .tsv file; else print.")] = None,
) -> None:
    """Fill the holes of a table, each with its best single guess; what is known stays as it is.

    Example: hyperspn impute runs/people holes.csv --out filled.csv
    """
    circuit, schema = _open(run)
    holes = tables.read_table(table)
    _write(schema.fill(holes, circuit.impute(schema.encode(holes)).double().numpy()), out)


@app.command()
def reproduce(
    what: Annotated[str, typer.Argument(help=f"One of {', '.join(ARTEFACTS)}.")],
    only: Annotated[str, typer.Option("--datasets", help="Only these data sets, with commas.")] = "",
    seeds: Annotated[int | None, typer.Option(help="Seeds for the setting chosen on validation.", min=1)] = None,
    jobs: Annotated[int | None, typer.Option(help="Runs at a time; else one per core.", min=1)] = None,
    backend: Annotated[str, typer.Option(help="Where they run: loky (here), dask or ray (a cluster).")] = "loky",
    results: Annotated[Path, typer.Option(help="The folder of records, tables and figures.")] = Path("results"),
    data_dir: DataDir = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON from the records at hand; train nothing.")
    ] = False,
) -> None:
    """Make a table or figure of the paper; what it needs and is not there yet is trained first.

    Example: hyperspn reproduce table1 --datasets nltcs,plants --seeds 1
    """
    try:
        table = experiments.reproduce(
            what,
            results,
            datasets=[name.strip() for name in only.split(",") if name.strip()],
            seeds=seeds,
            jobs=jobs,
            backend=backend,
            data_dir=data_dir,
            train=not as_json,
        )
    except KeyboardInterrupt:
        print("hyperspn: interrupted; the same command goes on", file=sys.stderr)
        raise typer.Exit(130) from None
    if as_json:
        print(json.dumps({"rows": table.rows} | ({} if table.summary is None else {"summary": table.summary})))
        return
    _show(table)
    print(f"written to {results / what}" + (".png and .svg" if what.startswith("figure") else ".md and .csv"))


def _open(run: Path) -> tuple[Circuit, Schema]:
    """A trained model and its columns."""
    circuit = load_circuit(run / "model.safetensors" if run.is_dir() else run).requires_grad_(False)
    if "schema" not in circuit.notes:
        raise ValueError(f"expected a model that `hyperspn train` wrote, found one without columns at {run}")
    return circuit, Schema.from_dict(circuit.notes["schema"])


def _mean_log_prob(circuit: Circuit, schema: Schema, x: np.ndarray) -> float:
    """The mean log-likelihood of rows, in the units of the table."""
    with torch.no_grad():
        log_prob = circuit.log_prob(x).double().numpy()
    return float((log_prob - schema.log_scale(x)).mean())


def _write(table: Table, path: Path | None) -> None:
    if path is None:
        print(table.to_csv(), end="")
    else:
        tables.write_table(table, path)


def _show_columns(schema: Schema) -> None:
    kinds: dict[str, list[str]] = {}
    for column in schema.columns:
        kinds.setdefault(column.kind, []).append(column.name)
    for kind, names in kinds.items():
        listed = ", ".join(names[:8]) + (", ..." if len(names) > 8 else "")
        print(f"{len(names)} {kind}: {listed}")


def _report(found: dict[str, Any], rows: list[Any], header: tuple[str, ...], as_json: bool) -> None:
    """Prints JSON, or a table."""
    if as_json:
        print(json.dumps(found))
        return
    table = RichTable(*header)
    for name, *cells in rows:
        table.add_row(str(name), *(_formatted(cell) for cell in cells))
    Console(markup=False, emoji=False).print(table)


def _show(table: experiments.Table) -> None:
    """Prints as many columns as there is room for; cells of up to `SHORT` characters are not broken."""
    console = Console(width=None if sys.stdout.isatty() else 240)
    shown = RichTable(title=table.title, title_justify="left", box=SIMPLE_HEAD, padding=0)
    room = console.width - 2
    for label, *cells in zip([column.label for column in table.columns], *table.cells(), strict=True):
        longest = max((len(text) for text, _ in cells), default=0)
        width = max(min(longest, SHORT), *map(len, label.split()))
        room -= width + 1
        if room < 0 and shown.columns:
            break
        shown.add_column(label, min_width=width, justify="right" if shown.columns and longest <= SHORT else "left")
    for row in table.cells():
        shown.add_row(*(f"[bold]{text}[/bold]" if bold else text for text, bold in row[: len(shown.columns)]))
    console.print(shown)


def _formatted(cell: Any) -> str:
    if isinstance(cell, float):
        return f"{cell:,.4f}"
    return f"{cell:,}" if isinstance(cell, int) else str(cell)


def _cut_image(image: str | None, delta: int) -> RegionGraph:
    """The published structure of an image: vertical cuts only."""
    sizes = _integers(image or "")
    if len(sizes) not in (2, 3):
        raise ValueError(f"expected --image with rows, columns and channels, like 32,32,3, found {image}")
    return poon_domingos(sizes[:2], axes=[1], delta=delta, channels=(*sizes, 1)[2])


def _integers(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.split(",") if part)
    except ValueError:
        raise ValueError(f"expected whole numbers with commas, like 20,20, found {text!r}") from None
