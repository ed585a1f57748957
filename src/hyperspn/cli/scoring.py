"""The command that scores many rows."""

from __future__ import annotations

import os

from enum import Enum
from pathlib import Path
from time import perf_counter
from typing import Annotated

import typer

from ..asking import TableModel
from ..asking.scoring import QUESTIONS, Scorer, score_files
from ..data.pieces import pieces_of
from .options import QUESTIONS_PANEL, Json, MissingValues, Run, words
from .output import print_json

app = typer.Typer()

Question = Enum("Question", {name: name for name in QUESTIONS}, type=str)  # type: ignore[misc]


@app.command(rich_help_panel=QUESTIONS_PANEL)
def score(
    run: Run,
    rows: Annotated[str, typer.Argument(help="A Parquet, CSV or TSV file, a folder of them, or a pattern.")],
    out: Annotated[
        Path, typer.Option("--out", "-o", help="The folder for the answers. Run the same command again to resume.")
    ],
    question: Annotated[Question, typer.Option(help="What to ask of each row.")] = Question.likelihood,  # type: ignore[attr-defined]
    of: Annotated[str | None, typer.Option(help="The column whose probabilities are asked for.")] = None,
    keep: Annotated[
        list[str] | None, typer.Option(help="A column to keep beside the answers; may be given several times.")
    ] = None,
    workers: Annotated[int | None, typer.Option(help="The number of processes (default: one per core).", min=1)] = None,
    missing_values: MissingValues = None,
    as_json: Json = False,
) -> None:
    """Score files of any size: likelihood or surprisal of each row, the probabilities of a column, or rows without holes.

    Example: hyperspn score runs/people rows/ --out scores --question probabilities --of income
    """
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    TableModel.load(run)
    start, total = perf_counter(), sum(piece.rows for piece in pieces_of(rows))
    scorer = Scorer(os.path.abspath(run), question.value, of, tuple(keep or ()))
    columns = (TextColumn("rows {task.completed:,} of {task.total:,}"), BarColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), disable=as_json) as bar:
        task = bar.add_task("", total=total)
        for part in score_files(scorer, rows, out, workers or os.cpu_count() or 1, words(missing_values)):
            bar.advance(task, part.rows)
    seconds = perf_counter() - start
    if as_json:
        print_json({"rows": total, "seconds": round(seconds, 1), "folder": str(out)})
    else:
        print(f"{total:,} rows are scored in {out}: {seconds:,.1f} seconds")
