"""Commands for the paper: its tables and figures, its data sets, its counts."""

from __future__ import annotations

import json
import sys

from pathlib import Path
from typing import Annotated, Any

import typer

from ..data import datasets
from ..leaves import Categorical, Gaussian, LeafFamily
from ..structures import binary_trees, poon_domingos
from ..weights import Sectors, count_weights
from .options import PAPER_PANEL, Counted, DataDir, Json, integers
from .output import print_values, show_report, tell

app = typer.Typer()


@app.command(rich_help_panel=PAPER_PANEL)
def sizes(
    variables: Annotated[int | None, typer.Option(help="Number of variables n of an SPN.")] = None,
    model: Annotated[Counted, typer.Option(help="Random trees, or an EiNet for images.")] = Counted.spn,
    image: Annotated[
        str | None, typer.Option(help="Rows, columns and channels of an EiNet's images, like 32,32,3.")
    ] = None,
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
    if model is Counted.einet:
        sectors, leaves = _einet(image, delta, layer_size)
    else:
        sectors, leaves = _spn(variables, layer_size, replicas, categories)
    plain, generated = count_weights(sectors, embedding_dim, integers(hidden))
    of_leaves = sectors.structure.num_variables * leaves.width * leaves.num_parameters
    counts: dict[str, Any] = {model.value: plain, "hyperspn": generated, "leaves": of_leaves}
    rows = [
        (name, entry.replace("_", " "), number)
        for name, entries in counts.items()
        for entry, number in (entries.items() if isinstance(entries, dict) else [("learnable", entries)])
    ]
    print_values(counts, rows, ("model", "count", "number"), as_json)


@app.command("datasets", rich_help_panel=PAPER_PANEL)
def list_datasets(data_dir: DataDir = None, as_json: Json = False) -> None:
    """List the data sets that have names, and whether their files are here."""
    listing = [row._asdict() for row in datasets.available(data_dir)]
    print_values({"datasets": listing}, [tuple(row.values()) for row in listing], tuple(listing[0]), as_json)


@app.command(rich_help_panel=PAPER_PANEL)
def reproduce(
    what: Annotated[str, typer.Argument(help="Like table1, figure5 or beyond; any other word lists all.")],
    only: Annotated[str, typer.Option("--datasets", help="Only these data sets, separated by commas.")] = "",
    seeds: Annotated[int | None, typer.Option(help="Seeds of the best setting (default: as published).", min=1)] = None,
    jobs: Annotated[int | None, typer.Option(help="Runs at a time (default: one per core).", min=1)] = None,
    backend: Annotated[str, typer.Option(help="Where runs go: loky (this machine), dask or ray (a cluster).")] = "loky",
    results: Annotated[Path, typer.Option(help="Folder of records, tables and figures.")] = Path("results"),
    data_dir: DataDir = None,
    no_train: Annotated[
        bool, typer.Option("--no-train", help="Print the table from existing records; train and write nothing.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON from existing records; train and write nothing.")
    ] = False,
) -> None:
    """Make a table or figure of the paper; runs that it needs and that have no record are trained first.

    Example: hyperspn reproduce table1 --datasets nltcs,plants --seeds 1

    Example: hyperspn reproduce table1 --no-train
    """
    from .. import experiments

    options: dict[str, Any] = {"seeds": seeds, "jobs": jobs, "backend": backend, "data_dir": data_dir}
    names, train = [name.strip() for name in only.split(",") if name.strip()], not (no_train or as_json)
    try:
        report = experiments.reproduce(what, results, datasets=names, train=train, **options)
    except KeyboardInterrupt:
        print("hyperspn: interrupted: run the same command again to resume", file=sys.stderr)
        raise typer.Exit(130) from None
    if not report.rows:
        tell(
            [f"{results} has no complete records for {what}: the same command without --no-train or --json trains them"]
        )
    if as_json:
        print(json.dumps({"rows": report.rows} | ({} if report.summary is None else {"summary": report.summary})))
        return
    show_report(report)
    if train:
        print(f"written to {results / what}" + (".png and .svg" if what.startswith("figure") else ".md and .csv"))


def _spn(variables: int | None, layer_size: int, replicas: int, categories: int) -> tuple[Sectors, LeafFamily]:
    if variables is None:
        raise ValueError("--variables is missing: the number of variables of an SPN")
    leaves = Categorical(categories)
    return Sectors(binary_trees(variables, replicas), layer_size, [leaves.width] * variables), leaves


def _einet(image: str | None, delta: int, layer_size: int) -> tuple[Sectors, LeafFamily]:
    """The published structure of an image: vertical cuts only."""
    sizes = integers(image or "")
    if len(sizes) not in (2, 3):
        raise ValueError(f"expected --image with rows, columns and channels, like 32,32,3, found {image}")
    structure = poon_domingos(sizes[:2], axes=[1], delta=delta, channels=(*sizes, 1)[2])
    return Sectors(structure, layer_size, [layer_size] * structure.num_variables, "outer"), Gaussian(layer_size)
