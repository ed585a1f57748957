"""The command that makes the explorer of a model."""

from __future__ import annotations

import webbrowser

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..asking import TableModel
from ..checks import plural
from ..data import is_table
from ..data.tables import TABLES
from ..files import write
from .options import QUESTIONS_PANEL, DataDir, OpenPage, Run
from .output import one_line, tell
from .rows import open_table_for

if TYPE_CHECKING:
    import pyarrow as pa

app = typer.Typer()


@app.command(rich_help_panel=QUESTIONS_PANEL)
def explore(
    run: Run,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="The page, an .html file (default: named like the run, in this folder)."),
    ] = None,
    show: OpenPage = False,
    with_rows: Annotated[
        bool,
        typer.Option("--with-rows", help="Put the rows of the training table into the page, to find those that match."),
    ] = False,
    serve: Annotated[
        bool, typer.Option("--serve", help="Serve the page on this machine, with the native engine behind it.")
    ] = False,
    port: Annotated[int, typer.Option(help="The port to serve at (default: a free one).", min=0, max=65535)] = 0,
    data_dir: DataDir = None,
) -> None:
    """Make one page that opens in any browser: every column, and how it changes with what you say is known.

    No server, no network, and no row of the table in it unless you ask for them.

    Example: hyperspn explore runs/people --out people.html --open
    """
    from ..explorer.page import LARGEST, page

    model, header, notes = TableModel.load(run), {"run": str(run)}, list[str]()
    rows = _table(model, data_dir, notes) if with_rows else None
    content = None if serve else page(model, header, rows=rows, notes=notes).encode()
    tell(notes)
    if content is not None and len(content) > LARGEST:
        tell([f"the page would have {_size(len(content))}, too much for a browser: it is served, as with --serve"])
        content = None
    if content is None:
        _serve(model, header, rows, port, show)
    else:
        _write(content, out or Path(f"{run.resolve().stem}.html"), rows, show)


def _table(model: TableModel, data_dir: str | None, notes: list[str]) -> pa.Table:
    """The table that the model was trained on."""
    source = model.circuit.notes.get("data", "")
    if not is_table(source) and source not in TABLES:
        raise ValueError("the model was not trained on a table that can be read again: leave --with-rows out")
    return open_table_for(model, source, data_dir, notes)


def _write(content: bytes, out: Path, rows: pa.Table | None, show: bool) -> None:
    write(out, content)
    inside = "no row" if rows is None else plural(len(rows), "row")
    print(f"{one_line(out)}: {_size(len(content))}, opens in any browser; {inside} of the table in it")
    if show:
        webbrowser.open(out.resolve().as_uri())


def _serve(model: TableModel, header: dict[str, Any], rows: pa.Table | None, port: int, show: bool) -> None:
    from ..explorer.serve import Server

    with Server(model, header, port, rows) as server:
        print(
            f"{server.address}\nOnly this machine, and only this address, gets an answer. Stop with Ctrl-C.", flush=True
        )
        if show:
            webbrowser.open(server.address)
        server.serve_forever()


def _size(length: int) -> str:
    return f"{length / 1e6:.1f} MB" if length >= 1e6 else f"{length / 1e3:.0f} kB"
