"""The command that makes the explorer of a model."""

from __future__ import annotations

import webbrowser

from pathlib import Path
from typing import Annotated, Any

import typer

from ..asking import TableModel
from .options import QUESTIONS, Run
from .output import one_line, tell

app = typer.Typer()


@app.command(rich_help_panel=QUESTIONS)
def explore(
    run: Run,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="The page, a file .html; else named like the run, right here.")
    ] = None,
    show: Annotated[bool, typer.Option("--open", help="Open it in the browser.")] = False,
    serve: Annotated[
        bool, typer.Option("--serve", help="Serve the page on this machine, with the native engine behind it.")
    ] = False,
    port: Annotated[int, typer.Option(help="The port to serve at; else a free one.", min=0, max=65535)] = 0,
) -> None:
    """Make one page that opens in any browser: every column, and how it changes with what you say is known.

    No server, no network, and no row of the table in it.

    Example: hyperspn explore runs/people --out people.html --open
    """
    from ..explorer.page import LARGEST, page

    model, header = TableModel.load(run), {"run": str(run)}
    content = None if serve else page(model, header).encode()
    if content is not None and len(content) > LARGEST:
        tell(
            [
                f"the page would have {_size(len(content))}, too much for a browser: it is served instead, as with --serve"
            ]
        )
        content = None
    if content is None:
        _serve(model, header, port, show)
    else:
        _write(content, out or Path(f"{run.resolve().stem}.html"), show)


def _write(content: bytes, out: Path, show: bool) -> None:
    from ..files import write

    write(out, content)
    print(f"{one_line(out)}: {_size(len(content))}, opens in any browser; no row of the table is in it")
    if show:
        webbrowser.open(out.resolve().as_uri())


def _serve(model: TableModel, header: dict[str, Any], port: int, show: bool) -> None:
    from ..explorer.serve import Server

    with Server(model, header, port) as server:
        print(
            f"{server.address}\nOnly this machine, and only this address, gets an answer. Stop with Ctrl-C.", flush=True
        )
        if show:
            webbrowser.open(server.address)
        server.serve_forever()


def _size(length: int) -> str:
    return f"{length / 1e6:.1f} MB" if length >= 1e6 else f"{length / 1e3:.0f} kB"
