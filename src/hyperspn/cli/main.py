"""The command line itself: what is common to all commands, and where errors end."""

from __future__ import annotations

import sys

from typing import Annotated

import typer

from .. import __version__
from . import asking, paper, training

UsageError: type[Exception] = typer.BadParameter.__bases__[0]

app = typer.Typer(
    help="Probabilistic circuits whose weights a small neural network writes.",
    add_completion=False,
    pretty_exceptions_enable=False,
)
for commands in (training, asking, paper):
    app.add_typer(commands.app)


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
