"""The command line itself: what is common to all commands, and where errors end."""

from __future__ import annotations

import os
import sys

from importlib.abc import MetaPathFinder
from typing import Annotated, Any

import typer

from .. import __version__
from ..data.writers import printable
from . import asking, columns, explore, paper, query, questions, report, scoring, training

UsageError: type[Exception] = typer.BadParameter.__bases__[0]
DEBUG = "--debug"
WITHOUT_PANDAS = (
    "anomalies",
    "columns",
    "evaluate",
    "explain",
    "explore",
    "impute",
    "influence",
    "query",
    "sample",
    "score",
    "similar",
    "train",
)

app = typer.Typer(
    help="Learn the joint distribution of a table's columns, and ask it anything: exact probabilities, samples, imputation.",
    add_completion=False,
    pretty_exceptions_enable=False,
)
for commands in (training, columns, query, questions, asking, scoring, report, explore, paper):
    app.add_typer(commands.app)


class NoPandas(MetaPathFinder):
    """Finds no pandas, even if it is installed."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        if name == "pandas":
            raise ModuleNotFoundError(name)


def keep_pandas_out() -> None:
    """Lets pyarrow make its first array where it finds no pandas.

    It would import pandas there, to know its DataFrames. Most commands have none, and pandas takes as long as an answer;
    `train` has some where it chooses by samples.
    """
    words = [word for word in sys.argv[1:] if not word.startswith("-")]
    if words and words[0] in WITHOUT_PANDAS and "samples" not in sys.argv and "--choose=samples" not in sys.argv:
        import pyarrow

        sys.meta_path.insert(0, NoPandas())
        pyarrow.array([])
        del sys.meta_path[0]


def main() -> None:
    """Runs the command line; what a user can get wrong is one line on standard error, and exit code 2."""
    arguments = [argument for argument in sys.argv[1:] if argument != DEBUG]
    try:
        sys.exit(app(arguments, prog_name="hyperspn", standalone_mode=False))
    except (KeyboardInterrupt, typer.Abort):
        message, code = "interrupted", 130
    except BrokenPipeError:  # whoever reads our output has enough of it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)
    except Exception as error:
        explanation = _explanation(error)
        if explanation is None or DEBUG in sys.argv:
            raise
        message, code = explanation, 2
    print(f"hyperspn: {printable(' '.join(message.splitlines()))}", file=sys.stderr)
    sys.exit(code)


def _explanation(error: Exception) -> str | None:
    """What to tell the user; nothing if the fault is ours."""
    if isinstance(error, UsageError):
        return error.format_message()  # type: ignore[attr-defined]
    if isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and "allocate memory" in str(error)):
        return "not enough memory: try a smaller model or batch"
    if isinstance(error, OSError) and error.strerror and error.filename:
        return f"{error.strerror}: {error.filename}"
    if isinstance(error, (ValueError, OSError, FloatingPointError, OverflowError)):
        return str(error)
    return None


@app.callback(invoke_without_command=True)
def root(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
    debug: Annotated[bool, typer.Option(DEBUG, help="Show the whole trace of an error.")] = False,
) -> None:
    if version:
        print(f"hyperspn {__version__}")
    elif context.invoked_subcommand is None:
        print(context.get_help())
