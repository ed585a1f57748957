"""Commands that ask a trained model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import torch
import typer

from ..asking import TableModel
from ..data import is_table, load_splits, pictures, read_table
from .options import DataDir, Image, Json, Run, Seed, Split, integers
from .output import print_values, write_or_print

app = typer.Typer()


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
    model = TableModel.load(run)
    notes = model.circuit.notes
    if data is not None and is_table(data):
        x = model.schema.encode(read_table(data))
    else:
        x = getattr(
            load_splits(data or notes["data"], notes["seed"], notes["drop"], data_dir, schema=model.schema), split.value
        )
    found = {"rows": len(x), "log_likelihood": float(model.log_likelihood(x).mean())}
    print_values(found, list(found.items()), ("", str(run)), as_json)


@app.command()
def sample(
    run: Run,
    n: Annotated[int, typer.Option("-n", help="Number of rows.")] = 10,
    given: Annotated[str, typer.Option(help='What is known, like "color=red,size=3".')] = "",
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="A .csv or .tsv file, or .png for images; else print.")
    ] = None,
    image: Image = "",
    seed: Seed = 0,
) -> None:
    """Draw rows from the model, with some values given if you like.

    Example: hyperspn sample runs/people -n 100 --given color=red --out sample.csv

    Example: hyperspn sample runs/digits -n 50 --out digits.png
    """
    model = TableModel.load(run)
    shape = pictures.image_shape(model.circuit.num_variables, integers(image)) if out and out.suffix == ".png" else None
    x = model.sample(n, given, seed)
    if out is None or shape is None:
        write_or_print(model.schema.decode(x), out)
        return
    values = model.schema.numbers(x)
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
    model = TableModel.load(run)
    circuit, schema = model.circuit, model.schema
    shape = pictures.image_shape(circuit.num_variables, integers(image))
    missing = pictures.half(shape, hide)
    rows = load_splits(
        circuit.notes["data"], circuit.notes["seed"], circuit.notes["drop"], data_dir, schema=schema
    ).test[:n]
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
    given: Annotated[str, typer.Option(help='What is known, like "color=red,size=3".')] = "",
    as_json: Json = False,
) -> None:
    """Print the exact distribution of a column, given the values of others.

    Example: hyperspn query runs/people --given "color=red,size=3" --of price
    """
    answer = TableModel.load(run).distribution(of, given)
    rows = list(answer.get("probabilities", {key: answer[key] for key in answer if key != "log_p_given"}).items())
    print_values(answer, rows, (of, f"given {given}" if given else "probability"), as_json)


@app.command()
def impute(
    run: Run,
    table: Annotated[Path, typer.Argument(help="A table with holes and the columns of the model.")],
    out: Annotated[Path | None, typer.Option("--out", "-o", help="A .csv or .tsv file; else print.")] = None,
) -> None:
    """Fill the holes of a table, each with its best single guess; what is known stays as it is.

    Example: hyperspn impute runs/people holes.csv --out filled.csv
    """
    write_or_print(TableModel.load(run).impute(read_table(table)), out)
