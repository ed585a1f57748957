"""Arguments and options that several commands share."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated

import typer


class ModelName(str, Enum):
    hyperspn = "hyperspn"
    spn = "spn"


class Optimizer(str, Enum):
    adam = "adam"
    em = "em"


class Counted(str, Enum):
    spn = "spn"
    einet = "einet"


class Split(str, Enum):
    train = "train"
    valid = "valid"
    test = "test"


Run = Annotated[Path, typer.Argument(help="The folder of a trained model, or its file.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Seed = Annotated[int, typer.Option(help="Determines everything that is random.", min=0)]
Image = Annotated[str, typer.Option(help="Height, width and channels of images, like 32,32,3; else square.")]
DataDir = Annotated[str | None, typer.Option(help="Folder of the benchmark data; else HYPERSPN_DATA.")]


def integers(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.split(",") if part)
    except ValueError:
        raise ValueError(f"expected whole numbers with commas, like 20,20, found {text!r}") from None
