"""The command that asks for probabilities."""

from __future__ import annotations

import csv

from collections.abc import Sequence
from math import exp, floor, inf, log10
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from ..asking import Categories, Joint, Numbers, TableModel
from ..checks import plural
from ..data.events import Known, Likely, as_known
from ..data.parsing import OPERATORS, parse_evidence
from ..data.streams import in_memory
from .options import QUESTIONS_PANEL, DataDir, ExcelSafe, Given, Json, Out, Run
from .output import bar, one_line, print_json, print_table, probability, tell, write_or_print
from .rows import count_matches, open_table_for, splits_of

if TYPE_CHECKING:
    import pyarrow as pa

    from ..asking.distributions import Distribution
    from ..data.scales import Scale

app = typer.Typer()
TOP, MOST_LISTED, MOST_ACROSS = 10, 20, 6
MOST_DECIMALS = 6
FEW_ROWS = 5


@app.command(rich_help_panel=QUESTIONS_PANEL)
def query(
    run: Run,
    of: Annotated[str, typer.Option(help='A column, columns like "sex,income", or an event like "capital_gain>5000".')],
    given: Given = "",
    rows: Annotated[
        str | None, typer.Option(help="A table: ask for the column given all others in each of its rows.")
    ] = None,
    count: Annotated[
        bool, typer.Option("--count", help="Count the training rows that are as given, in the training table.")
    ] = False,
    out: Out = None,
    excel_safe: ExcelSafe = False,
    data_dir: DataDir = None,
    as_json: Json = False,
) -> None:
    """Print exact probabilities: of a column, of several together, or of an event, given what is known.

    Example: hyperspn query runs/adult --of income --given "age=30..40, hours_per_week>50"

    Example: hyperspn query runs/adult --of "capital_gain>5000"

    Example: hyperspn query runs/adult --of income --rows people.csv --out incomes.csv
    """
    model = TableModel.load(run)
    if rows is not None:
        if given:
            raise ValueError("--rows takes what is known from the rows: leave --given out")
        answers = _answers_for_each_row(model, of, rows, data_dir)
        if as_json:
            print_json({"of": of, "rows": answers.to_pylist()})
        else:
            write_or_print(answers, out, excel_safe)
        return
    if out is not None:
        raise ValueError("--out is for the answers to --rows")
    columns = asked_columns(of, model.schema.names)
    header = _header(model, of, given, count, data_dir)
    answer = model.probability(of, given) if columns is None else model.distribution(columns, given)
    _warn(model, [given] if columns else [of, given], header)
    if as_json:
        print_json({**header, **({"probability": answer} if isinstance(answer, float) else answer.to_dict())})
        return
    print("\n".join(_headlines(header)))
    if isinstance(answer, float):
        print(f"probability {probability(answer)}")
    else:
        print_table(*_lines(model, answer))


def asked_columns(of: str, names: Sequence[str]) -> list[str] | None:
    """The columns that a question is about; none if it is about an event."""
    if of in names:
        return [of]
    parts = [part.strip() for part in next(csv.reader([of], skipinitialspace=True), [""])]
    return None if OPERATORS.search(of) and not all(part in names for part in parts) else parts


def _answers_for_each_row(model: TableModel, of: str, source: str, data_dir: str | None) -> pa.Table:
    schema, notes = model.schema, list[str]()
    columns = asked_columns(of, schema.names)
    if columns is None or len(columns) > 1:
        raise ValueError(f"expected one column to ask for in each row, found {of!r}")
    schema.index(columns[0])
    table = open_table_for(model, source, data_dir, notes)
    others = [column for column in schema.columns if column.name != columns[0]]
    type(schema)(tuple(others)).encode(table, notes=notes)
    tell(notes)
    return model.predict(table, columns[0])


def _header(model: TableModel, of: str, given: str, count: bool, data_dir: str | None) -> dict[str, Any]:
    """What the question is, and how probable what is known is."""
    header: dict[str, Any] = {"of": of, "given": given}
    if given:
        chance = model.chance(given)
        is_likely = any(isinstance(event, Likely) for event in parse_evidence(given, model.schema.names).values())
        of_given = "probability" if chance.is_probability else "likelihoods" if is_likely else "density"
        p = exp(chance.log_p) if chance.is_probability else None
        header |= {"log_p_given": chance.log_p, "given_has": of_given, "p_given": p, "rows": chance.rows}
        header["of_rows"] = model.num_rows
    if count:
        x = in_memory(splits_of(model, data_dir).train)
        header["counted"] = count_matches(model.schema, given, x)
        header["of_rows"] = len(x)
    return header


def _headlines(header: dict[str, Any]) -> list[str]:
    lines = [one_line(f"{header['of']}, given {header['given']}" if header["given"] else header["of"])]
    has = header.get("given_has")
    if has == "probability":
        rows = "" if header["rows"] is None else f": about {_count(header['rows'])} of {header['of_rows']:,} rows"
        lines.append(f"P(given) = {probability(header['p_given'])}{rows}")
    elif has == "density":
        lines.append(f"the density of what is given is {exp(header['log_p_given']):.4g}, which is no probability")
    elif has == "likelihoods":
        lines.append("likelihoods are given, so that what is given has no probability")
    if "counted" in header:
        lines.append(f"counted: {header['counted']:,} of {header['of_rows']:,} rows")
    return lines


def _count(rows: float) -> str:
    return f"{rows:,.0f}" if rows >= 10 or rows < 0.05 else f"{rows:.2g}"


def _warn(model: TableModel, events: Sequence[str], header: dict[str, Any]) -> None:
    """Warns where the table says next to nothing: few rows, or values that are not in it."""
    rows = header.get("counted", header.get("rows"))
    if rows is not None and rows < FEW_ROWS:
        tell([f"fewer than {FEW_ROWS} rows are like that: the answer is more of a guess than of an experience"])
    for name, event in (entry for text in events for entry in parse_evidence(text, model.schema.names).items()):
        column = model.schema.columns[model.schema.index(name)]
        if column.scale is not None and _is_strange(column.scale, as_known(column, event)):
            low, high = column.decode(np.array([column.scale.smallest, column.scale.largest])).to_pylist()
            tell([f"no row has such a value of {name!r}: they are {low} to {high}"])


def _is_strange(scale: Scale, known: Known) -> bool:
    """Whether all that an event holds is outside the values seen in training."""
    if known.event is None:
        return known.value is not None and not scale.smallest <= known.value <= scale.largest
    low, high = known.event.T
    return bool(((low > scale.largest) | (high <= scale.smallest)).all() and low[0] < inf)


def _lines(model: TableModel, answer: Distribution) -> tuple[Sequence[Any], list[list[Any]]]:
    """The header and the rows of a printed answer."""
    if isinstance(answer, Numbers):
        return _lines_of_numbers(model, answer)
    if isinstance(answer, Joint):
        return _lines_of_joint(answer)
    return _lines_of_categories(answer)


def _lines_of_categories(answer: Categories) -> tuple[Sequence[Any], list[list[Any]]]:
    entries = list(answer.probabilities.items())
    rest = sum(p for _, p in entries[TOP:])
    shown = entries[:TOP] + ([(f"{len(entries) - TOP} others", rest)] if len(entries) > TOP else [])
    return (answer.column, "probability", ""), [[str(label), probability(p), bar(p)] for label, p in shown]


def _lines_of_numbers(model: TableModel, answer: Numbers) -> tuple[Sequence[Any], list[list[Any]]]:
    if answer.mean is None:
        return ("", answer.column), [["P(missing)", probability(1.0)]]
    column = model.schema.columns[model.schema.index(answer.column)]
    unit = f" {column.unit}s" if column.unit else ""
    mean = _mean(answer.mean, answer.std) if isinstance(answer.mean, float) else str(answer.mean)
    std = f"{answer.std:.4g}{unit}"
    if column.spelling is not None:
        mean, std = column.spelling.write(np.array([answer.mean, answer.std]), column.decimals).to_pylist()
    lines = [["mean", mean], ["standard deviation", std]]
    lines += [[f"{level:.0%} are at most", str(value)] for level, value in answer.quantiles.items()]
    points = sorted(answer.points.items(), key=lambda entry: -entry[1])
    lines += [[f"P({value})", probability(p)] for value, p in points[:TOP]]
    others = f"P({plural(len(points) - TOP, 'other value')})"
    lines += [[others, probability(sum(p for _, p in points[TOP:]))]] * (len(points) > TOP)
    lines += [["P(missing)", probability(answer.missing)]] if answer.missing is not None else []
    return ("", answer.column), lines


def _mean(mean: float, std: float) -> str:
    """A mean, to as many decimals as four digits of the standard deviation have."""
    decimals = 3 - floor(log10(std)) if 0 < std < inf else MOST_DECIMALS + 1
    return f"{mean:.{max(decimals, 0)}f}" if decimals <= MOST_DECIMALS else f"{mean:.6g}"


def _lines_of_joint(answer: Joint) -> tuple[Sequence[Any], list[list[Any]]]:
    """A table across for two columns with few values; else a list, the most probable first."""
    labels = [list(dict.fromkeys(entry)) for entry in zip(*answer.probabilities, strict=True)]
    if len(labels) == 2 and len(labels[0]) <= MOST_LISTED and len(labels[1]) <= MOST_ACROSS:
        lines = [[str(a), *(probability(answer.probabilities[a, b]) for b in labels[1])] for a in labels[0]]
        return (f"{answer.columns[0]} \\ {answer.columns[1]}", *map(str, labels[1])), lines
    ranked = sorted(answer.probabilities.items(), key=lambda entry: -entry[1])
    lines = [[*map(str, entry), probability(p)] for entry, p in ranked[:MOST_LISTED]]
    if len(ranked) > MOST_LISTED:
        rest = probability(sum(p for _, p in ranked[MOST_LISTED:]))
        lines.append([f"{len(ranked) - MOST_LISTED} others", *[""] * (len(labels) - 1), rest])
    return (*answer.columns, "probability"), lines
