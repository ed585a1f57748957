"""Commands that use a trained model on whole tables: likelihoods, samples, imputation."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from ..asking import TableModel
from ..data import is_table, load_splits, write_table
from ..data.streams import in_memory
from ..data.tables import TABLES
from .options import QUESTIONS_PANEL, DataDir, ExcelSafe, Given, Image, Json, Out, Run, Seed, Split, integers
from .output import UNIT, impossible_rows, print_values, tell, write_or_print
from .rows import open_table_for, splits_of

if TYPE_CHECKING:
    import pyarrow as pa

app = typer.Typer()
ROWS_AT_ONCE = 20_000


@app.command(rich_help_panel=QUESTIONS_PANEL)
def evaluate(
    run: Run,
    split: Annotated[Split, typer.Option(help="Which rows of the training table.")] = Split.test,
    data: Annotated[str | None, typer.Option(help="Other data: a table, - for standard input, or a data set.")] = None,
    data_dir: DataDir = None,
    as_json: Json = False,
) -> None:
    """Print the mean log-likelihood of rows, in nats: the higher, the better the model knows them.

    Example: hyperspn evaluate runs/people --split test

    Example: hyperspn evaluate runs/people --data new.csv
    """
    model = TableModel.load(run)
    log_p = _log_likelihoods(model, data, split, data_dir)
    answer: dict[str, Any] = {"rows": len(log_p), "log_likelihood": float(log_p.mean())}
    impossible = int(np.isneginf(log_p).sum())
    tell(impossible_rows(log_p))
    print_values({**answer, "impossible_rows": impossible}, [tuple(answer.values())], ("rows", UNIT), as_json)


def _log_likelihoods(model: TableModel, data: str | None, split: Split, data_dir: str | None) -> np.ndarray:
    """The log-likelihoods of a table's rows, or of a split of the training table, (rows,)."""
    if data is None:
        return model.log_likelihood_of_rows(in_memory(getattr(splits_of(model, data_dir), split.value)))
    if not is_table(data) and data not in TABLES:
        seed = model.circuit.notes["seed"]
        return model.log_likelihood_of_rows(getattr(load_splits(data, seed, (), data_dir), split.value))
    notes: list[str] = []
    log_p = model.log_likelihood(open_table_for(model, data, data_dir, notes), notes)
    tell(notes)
    return log_p


@app.command(rich_help_panel=QUESTIONS_PANEL)
def sample(
    run: Run,
    n: Annotated[int, typer.Option("-n", help="Number of rows.", min=1)] = 10,
    given: Given = "",
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="A .csv, .tsv, .parquet, .feather, .jsonl or .npy file, or .png for images."),
    ] = None,
    excel_safe: ExcelSafe = False,
    image: Image = "",
    seed: Seed = 0,
) -> None:
    """Draw rows from the model, under what is known if you like; a million rows go to a file bit by bit.

    Example: hyperspn sample runs/people -n 100 --given "age=30..40" --out sample.csv

    Example: hyperspn sample runs/digits -n 50 --out digits.png
    """
    model = TableModel.load(run)
    if out is not None and out.suffix == ".png":
        _write_pictures(model, model.sample_rows(n, given, seed), out, image)
    elif out is not None:
        write_table(_samples(model, n, given, seed), out, excel_safe)
    else:
        for number, table in enumerate(_samples(model, n, given, seed)):
            write_or_print(table, None, excel_safe, header=number == 0)


def _samples(model: TableModel, n: int, given: str, seed: int) -> Iterator[pa.Table]:
    """Samples in tables of limited length, all of one type."""
    first = None
    for number, start in enumerate(range(0, n, ROWS_AT_ONCE)):
        state = seed if number == 0 else int(np.random.SeedSequence((seed, number)).generate_state(1)[0])
        table = model.sample(min(ROWS_AT_ONCE, n - start), given, state)
        first = first or table.schema
        yield table.cast(first)


def _write_pictures(model: TableModel, x: np.ndarray, out: Path, image: str) -> None:
    from ..data import pictures

    shape = pictures.image_shape(model.circuit.num_variables, integers(image))
    values = model.schema.numbers(x)
    across = next(count for count in (10, 8, 5, 4, 3, 2, 1) if len(x) % count == 0)
    pictures.write_grid(out, values.reshape(-1, across, values.shape[1]), shape, values.min(), values.max())


@app.command(rich_help_panel=QUESTIONS_PANEL)
def impute(
    run: Run,
    table: Annotated[str, typer.Argument(help="A table with holes and columns of the model, or - for standard input.")],
    draws: Annotated[
        int | None, typer.Option(help="Fill each hole with this many draws, numbered in a column .imputation.", min=1)
    ] = None,
    interval: Annotated[
        float | None,
        typer.Option(help="Add bounds that contain the true number with this probability in percent, like 90."),
    ] = None,
    out: Out = None,
    excel_safe: ExcelSafe = False,
    seed: Seed = 0,
    data_dir: DataDir = None,
) -> None:
    """Fill the holes of a table, each with its best single guess; what is known stays as it is.

    Example: hyperspn impute runs/people holes.csv --out filled.csv

    Example: hyperspn impute runs/people holes.csv --draws 20 --out filled.csv
    """
    if draws is not None and interval is not None:
        raise ValueError("expected --draws or --interval, found both: draws are spread as they are uncertain")
    if interval is not None and not 0 < interval < 100:
        raise ValueError(f"expected --interval between 0 and 100, in percent, found {interval:g}")
    model, notes = TableModel.load(run), list[str]()
    holes = open_table_for(model, table, data_dir, notes)
    filled = model.impute(holes, draws, None if interval is None else interval / 100, seed, notes)
    tell(notes)
    write_or_print(filled, out, excel_safe)


@app.command(rich_help_panel=QUESTIONS_PANEL)
def inpaint(
    run: Run,
    out: Annotated[Path, typer.Option("--out", "-o", help="A .png file.")],
    n: Annotated[int, typer.Option("-n", help="Number of test images.", min=1)] = 8,
    samples: Annotated[int, typer.Option(help="Number of conditional samples of each.", min=1)] = 4,
    hide: Annotated[str, typer.Option(help="The half to hide: lower, upper, left or right.")] = "lower",
    image: Image = "",
    data_dir: DataDir = None,
    seed: Seed = 0,
) -> None:
    """Hide half of some test images and complete them: the image, what is known, the most probable completion, samples.

    Example: hyperspn inpaint runs/digits --out inpainted.png
    """
    import torch

    from ..data import pictures

    model = TableModel.load(run)
    circuit = model.circuit
    shape = pictures.image_shape(circuit.num_variables, integers(image))
    missing = pictures.half(shape, hide)
    x = torch.as_tensor(splits_of(model, data_dir).test[:n]).double()
    drawn = circuit.sample_given(x, missing, samples, torch.Generator().manual_seed(seed))  # (n, samples, variables)
    known = x.masked_fill(torch.from_numpy(missing), torch.nan)
    images = torch.stack([x, known, circuit.most_probable(x, missing).double(), *drawn.double().unbind(1)])
    values = model.schema.numbers(images.flatten(0, 1).numpy()).reshape(images.shape)
    pictures.write_grid(out, values, shape, values[0].min(), values[0].max())
