"""Commands for questions beyond probabilities: strange rows, influence, similar rows, explanations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from ..asking import Explanation, Influence, StrangeRow, TableModel
from .options import QUESTIONS_PANEL, DataDir, ExcelSafe, Given, Json, Out, Run
from .output import bar, one_line, print_json, print_table, probability, tell, write_or_print
from .rows import open_table_for

if TYPE_CHECKING:
    import pyarrow as pa

app = typer.Typer()
HOW_RARE = """bits: -log2 P(row). one in 100: of 100 rows with the same other cells, one would\nhave a value at most as probable"""
Top = Annotated[int, typer.Option(help="How many rows to show.", min=1)]
Table = Annotated[str, typer.Argument(help="A table with columns of the model, or - for standard input.")]


@app.command(rich_help_panel=QUESTIONS_PANEL)
def anomalies(
    run: Run,
    table: Table,
    top: Top = 10,
    cells: Annotated[int, typer.Option(help="How many cells of each row to show, at most.", min=1)] = 3,
    out: Out = None,
    excel_safe: ExcelSafe = False,
    data_dir: DataDir = None,
    as_json: Json = False,
) -> None:
    """Show the strangest rows of a table, the cells that make them so, and what would have been expected there.

    A row is as strange as it is improbable, in bits: -log2 P(row). In each, the cells come first whose values are rare
    given the rest of the row.

    Example: hyperspn anomalies runs/people people.csv --top 20

    Example: hyperspn anomalies runs/people people.csv --out strange.csv
    """
    model, notes = TableModel.load(run), list[str]()
    strange = model.anomalies(open_table_for(model, table, data_dir, notes), top, cells, notes)
    tell(notes)
    if as_json:
        print_json([{**row.to_dict(), "row": row.row + 1} for row in strange])
    elif out is not None:
        write_or_print(_table_of_cells(strange), out, excel_safe)
    else:
        print_table(("row", "bits", "column", "value", "expected", "as rare as"), _lines_of_rows(strange))
        print(HOW_RARE)


@app.command(rich_help_panel=QUESTIONS_PANEL)
def influence(
    run: Run,
    of: Annotated[str, typer.Option(help="The column to learn about.")],
    given: Given = "",
    as_json: Json = False,
) -> None:
    """Show how much each column would tell about another, in bits, and which one to ask for next.

    Example: hyperspn influence runs/adult --of income --given "age=30..40"
    """
    answer = TableModel.load(run).influence(of, given)
    if as_json:
        print_json({**answer.to_dict(), "given": given})
        return
    print(one_line(f"{of}, given {given}" if given else of))
    print(f"{answer.entropy:.4f} bits are not known of it; of these each column would tell")
    print_table(("column", "bits", ""), _lines_of_influence(answer))
    if answer.next is not None:
        print(one_line(f"ask next: {answer.next}"))


@app.command(rich_help_panel=QUESTIONS_PANEL)
def similar(
    run: Run,
    row: Annotated[str, typer.Argument(help="A table of one row, with as many columns of the model as are known.")],
    among: Annotated[str, typer.Option("--in", help="The table to search.")],
    top: Top = 10,
    out: Out = None,
    excel_safe: ExcelSafe = False,
    data_dir: DataDir = None,
    as_json: Json = False,
) -> None:
    """Find the rows of a table that are most like one row, on whatever is known of it.

    Example: hyperspn similar runs/people row.csv --in people.csv
    """
    model, notes = TableModel.load(run), list[str]()
    one, table = (open_table_for(model, source, data_dir, notes) for source in (row, among))
    likeness = model.similar(one, table, notes)
    tell(notes)
    nearest = np.argsort(-likeness, kind="stable")[:top]
    rows = (
        table.take(nearest)
        .add_column(0, ".similarity", [likeness[nearest].round(6)])
        .add_column(0, ".row", [nearest + 1])
    )
    if as_json:
        print_json(rows.to_pylist())
    else:
        write_or_print(rows, out, excel_safe)


@app.command(rich_help_panel=QUESTIONS_PANEL)
def explain(
    run: Run,
    of: Annotated[str, typer.Option(help='A column, or an event like "income=>50K".')],
    given: Given = "",
    as_json: Json = False,
) -> None:
    """Show what each piece of evidence, in the order given, adds to the odds of an event or to the mean of a number.

    Example: hyperspn explain runs/adult --of "income=>50K" --given "age=30..40, education=Masters"
    """
    answer = TableModel.load(run).explain(of, given)
    if as_json:
        print_json(answer.to_dict())
        return
    what = "the log-odds in bits, log2 p / (1 - p)," if answer.quantity == "log-odds" else "the mean"
    print(one_line(f"{what} of {answer.of}"))
    header = ("known", "adds", answer.quantity, *(["probability"] * (answer.quantity == "log-odds")))
    print_table(header, _lines_of_explanation(answer))


def _lines_of_rows(strange: Sequence[StrangeRow]) -> Iterator[list[Any]]:
    for row in strange:
        cells = [[cell.column, _text(cell.value), cell.expected, cell.frequency] for cell in row.cells]
        first, *others = cells or [["", "", "", ""]]
        yield [str(row.row + 1), f"{row.surprisal:.1f}", *first]
        yield from (["", "", *other] for other in others)


def _text(value: Any) -> str:
    return "missing" if value is None else str(value)


def _table_of_cells(strange: Sequence[StrangeRow]) -> pa.Table:
    """One line for each strange cell."""
    import pyarrow as pa

    pairs = [(row, cell) for row in strange for cell in row.cells]
    columns: dict[str, list[Any]] = {
        "row": [row.row + 1 for row, _ in pairs],
        "row_surprisal": [row.surprisal for row, _ in pairs],
        "column": [cell.column for _, cell in pairs],
        "value": [_text(cell.value) for _, cell in pairs],
        "expected": [cell.expected for _, cell in pairs],
        "surprisal": [cell.surprisal for _, cell in pairs],
        "rarity": [cell.rarity for _, cell in pairs],
        "never_seen": [cell.is_new for _, cell in pairs],
    }
    return pa.table(columns)


def _lines_of_influence(answer: Influence) -> list[list[Any]]:
    most = max(answer.bits.values(), default=0.0)
    return [
        [name + " (given)" * (name in answer.known), f"{bits:.4f}", bar(bits / most if most > 0 else 0.0)]
        for name, bits in answer.bits.items()
    ]


def _lines_of_explanation(answer: Explanation) -> Iterator[list[str]]:
    for known, added, value in [
        ("nothing", None, answer.start),
        *((step.evidence, step.added, step.answer) for step in answer.steps),
    ]:
        odds = [probability(1 / (1 + 2.0**-value))] if answer.quantity == "log-odds" else []
        yield [known, "" if added is None else f"{added:+.4g}", f"{value:.4g}", *odds]
