"""The command line: parse, call, print."""

from __future__ import annotations

import json
import sys

from typing import Annotated

import torch
import typer

from rich.console import Console
from rich.table import Table

from . import __version__
from .leaves import Categorical
from .sectors import Sectors
from .structures import binary_trees
from .weights import HyperWeights

UsageError: type[Exception] = typer.BadParameter.__bases__[0]

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
    except (ValueError, OSError) as error:
        message = str(error)
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
    variables: Annotated[int, typer.Option(help="Number of variables n.")],
    layer_size: Annotated[int, typer.Option(help="Sum nodes per region k.")] = 5,
    replicas: Annotated[int, typer.Option(help="Number of random trees r.")] = 50,
    embedding_dim: Annotated[int, typer.Option(help="Size of a sector's embedding.")] = 5,
    hidden: Annotated[str, typer.Option(help="Widths of the network's hidden layers, like 20,20.")] = "20,20",
    categories: Annotated[int, typer.Option(help="Categories of each variable.")] = 2,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Count the weights of an SPN, and the learnable parameters of the HyperSPN that writes them.

    Example: hyperspn sizes --variables 16 --layer-size 5 --replicas 50 --hidden 20,20
    """
    width = Categorical(categories).width
    sectors = Sectors(binary_trees(variables, replicas), layer_size, [width] * variables)
    with torch.device("meta"):
        generator = HyperWeights(sectors, embedding_dim, _integers(hidden))
    learnable = generator.num_parameters + replicas
    counts: dict[str, dict[str, float]] = {
        "spn": {"stored": sectors.num_weights, "used": sectors.num_used_weights},
        "hyperspn": {
            "learnable": learnable,
            "embeddings": generator.embeddings.numel(),
            "network": generator.num_parameters - generator.embeddings.numel(),
            "mixture": replicas,
            "weights_per_parameter": round(sectors.num_weights / learnable, 2),
        },
    }
    if as_json:
        print(json.dumps(counts))
        return
    table = Table("model", "count", "number")
    for model, entries in counts.items():
        for name, number in entries.items():
            table.add_row(model, name.replace("_", " "), f"{number:,}")
    Console().print(table)


def _integers(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.split(",") if part)
    except ValueError:
        raise ValueError(f"expected whole numbers with commas, like 20,20, found {text!r}") from None
