"""Arguments and options that several commands share, and what their texts mean."""

from __future__ import annotations

import csv

from collections.abc import Sequence
from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import typer

TABLES_PANEL, QUESTIONS_PANEL, PAPER_PANEL = "Tables", "Questions", "The paper"
COLUMNS_PANEL, EXPERT_PANEL = "Columns and rows", "For experts"


class ModelName(str, Enum):
    hyperspn = "hyperspn"
    spn = "spn"


class Optimizer(str, Enum):
    adam = "adam"
    em = "em"


class Chooser(str, Enum):
    likelihood = "likelihood"
    samples = "samples"


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
Given = Annotated[str, typer.Option(help='What is known, like "age=30..40, job=student|retired, hours>50".')]
Out = Annotated[
    Path | None,
    typer.Option("--out", "-o", help="A .csv, .tsv, .parquet, .feather, .jsonl or .npy file (default: print)."),
]
OpenPage = Annotated[bool, typer.Option("--open", help="Open the page in the browser.")]
ExcelSafe = Annotated[
    bool, typer.Option("--excel-safe", help="Put a ' before cells of text that a spreadsheet would run as a formula.")
]
Image = Annotated[str, typer.Option(help="Height, width and channels of images, like 32,32,3 (default: square).")]
DataDir = Annotated[
    str | None,
    typer.Option(help="Folder of the benchmark data (default: HYPERSPN_DATA).", rich_help_panel=EXPERT_PANEL),
]
Drop = Annotated[
    list[str] | None,
    typer.Option(help="A column to leave out; may be given several times.", rich_help_panel=COLUMNS_PANEL),
]
Kind = Annotated[
    list[str] | None,
    typer.Option(
        help="What a column is: column=numeric, categorical, date or drop; may be given several times.",
        rich_help_panel=COLUMNS_PANEL,
    ),
]
Bounds = Annotated[
    list[str] | None,
    typer.Option(
        help="The smallest and the largest possible number, like age=0.. or share=0..1; may be given several times.",
        rich_help_panel=COLUMNS_PANEL,
    ),
]
MissingAsData = Annotated[
    bool,
    typer.Option(
        "--missing-as-data",
        help='Learn which values are missing: "missing" becomes a value.',
        rich_help_panel=COLUMNS_PANEL,
    ),
]
MissingValues = Annotated[
    str | None,
    typer.Option(
        help='Words that count as missing, like "None,-", in place of NA, ?, null ...', rich_help_panel=COLUMNS_PANEL
    ),
]


def integers(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.split(",") if part)
    except ValueError:
        raise ValueError(f"expected whole numbers with commas, like 20,20, found {text!r}") from None


def words(text: str | None) -> list[str] | None:
    """Words between commas, in quotes if there are commas in them."""
    return None if text is None else [word.strip() for word in next(csv.reader([text], skipinitialspace=True), [])]


def wishes(kind: Sequence[str] | None, bounds: Sequence[str] | None, missing_as_data: bool) -> dict[str, Any]:
    """What is asked of single columns, for `recognize`."""
    kinds = dict(_pair(text, "--kind", "age=numeric") for text in kind or ())
    limits = {name: _limits(text) for name, text in (_pair(text, "--bounds", "age=0..120") for text in bounds or ())}
    return {"kinds": kinds, "bounds": limits, "missing_as_data": missing_as_data}


def _pair(text: str, option: str, example: str) -> tuple[str, str]:
    name, mark, value = text.rpartition("=")
    if not mark or not name or not value:
        raise ValueError(f"expected {option} like {example}, found {text!r}")
    return name, value


def _limits(text: str) -> tuple[float | None, float | None]:
    low, dots, high = text.partition("..")
    try:
        if not dots:
            raise ValueError
        return (float(low) if low else None), (float(high) if high else None)
    except ValueError:
        raise ValueError(f"expected --bounds like age=0..120 or age=0.., found {text!r}") from None
