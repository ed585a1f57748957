"""The command that writes a report on a model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..asking import TableModel
from ..data import is_table
from ..data.tables import TABLES
from ..files import write
from .options import QUESTIONS_PANEL, DataDir, OpenPage, Run, Seed
from .output import tell
from .rows import open_table_for, splits_of

app = typer.Typer()


@app.command(rich_help_panel=QUESTIONS_PANEL)
def report(
    run: Run,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="An .html file (default: report.html in the folder).")
    ] = None,
    show: OpenPage = False,
    seed: Seed = 0,
    data_dir: DataDir = None,
) -> None:
    """Write one page that shows whether a model can be trusted: real rows beside sampled ones, and strange rows.

    The page needs no network. It shows the shares of real values and cells of the strangest rows, so that it is as private
    as the table.

    Example: hyperspn report runs/people --out people.html
    """
    from ..explorer.report import report as make_report

    model = TableModel.load(run)
    splits, source, notes = splits_of(model, data_dir), model.circuit.notes["data"], list[str]()
    if is_table(source) or source in TABLES:
        table = open_table_for(model, source, data_dir, notes)
    else:
        table = model.schema.decode(splits.test)
    tell(notes)
    path = out or (run if run.is_dir() else run.parent) / "report.html"
    write(path, make_report(model, splits, table, title=Path(source).stem, seed=seed).encode())
    print(path)
    if show:
        import webbrowser

        webbrowser.open(path.resolve().as_uri())
