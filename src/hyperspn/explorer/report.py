"""The report: one page that shows whether a model of a table can be trusted."""

from __future__ import annotations

import base64
import hashlib

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from importlib.resources import files
from string import Template
from typing import Any, NamedTuple

import numpy as np

from numpy.typing import NDArray

from ..asking import StrangeRow, TableModel
from ..asking.fitting import possible_rows
from ..data import Splits, table_of
from ..data.streams import in_memory
from ..learning.baselines import chow_liu_tree, independent_columns
from .charts import bars, heat_map, histogram
from .comparison import ColumnComparison, compare_columns, dependence

FloatArray = NDArray[np.float64]

MOST_ROWS = 10_000
MOST_PAIRED = 60
STRANGE_ROWS = 10


class Scores(NamedTuple):
    """What a report tells about a model as a whole.

    Arguments:
        likelihoods: The mean log-likelihood of a row by the name of a model, of validation and of test rows.
        c2st: How well sampled rows pass for real ones, 0 to 1; None if the packages for it are not installed.
    """

    likelihoods: Mapping[str, tuple[float, float]]
    c2st: float | None


def report(model: TableModel, splits: Splits, frame: Any, title: str = "A model of a table", seed: int = 0) -> str:
    """A page in HTML without scripts: real rows beside sampled ones, likelihoods beside baselines, and strange rows.

    Arguments:
        model: The model.
        splits: The rows that it was trained on, and those held out.
        frame: The table whose most anomalous rows are shown.
        title: What the page is called.
        seed: Determines the samples.
    """
    train = in_memory(splits.train)
    real = train[np.random.default_rng(seed).permutation(len(train))[:MOST_ROWS]]
    sampled = model.sample_rows(MOST_ROWS, seed=seed)
    scores = Scores(_likelihoods(model, splits), _c2st(model, real, sampled))
    sections = [
        _quality_section(scores),
        _columns_section(compare_columns(model.schema, real, sampled)),
        _pairs_section(model, real, sampled),
        _rows_section(model.anomalies(frame, STRANGE_ROWS), len(table_of(frame))),
    ]
    return _page(model, title, "".join(sections))


def _likelihoods(model: TableModel, splits: Splits) -> dict[str, tuple[float, float]]:
    """Mean log-likelihoods of validation and test rows, without those that no model can explain."""
    parts = [x[possible_rows(model.schema, x)] for x in (splits.valid, splits.test)]
    answers = {
        "independent columns": independent_columns(model.schema, in_memory(splits.train), *parts),
        "one Chow-Liu tree, no hidden states": chow_liu_tree(model.schema, in_memory(splits.train), *parts),
        "this model": [model.log_likelihood_of_rows(x) for x in parts],
    }
    return {name: (_mean(valid), _mean(test)) for name, (valid, test) in answers.items()}


def _c2st(model: TableModel, real: FloatArray, sampled: FloatArray) -> float | None:
    try:
        import xgboost  # noqa: F401

        from ..learning.two_sample import FOLDS, align, c2st
    except ImportError:
        return None
    if len(real) < 2 * FOLDS:
        return None
    return c2st(*align(*(model.schema.decode(x, seed=0).to_pandas() for x in (real, sampled))))


def _quality_section(scores: Scores) -> str:
    rows = [[name, _number(valid), _number(test)] for name, (valid, test) in scores.likelihoods.items()]
    table = _table(
        ["mean log-likelihood of a row, in nats (higher is better)", "validation", "test"], rows, right=(1, 2)
    )
    figure = "not measured" if scores.c2st is None else f"{scores.c2st:.2f}"
    words = (
        "The packages for it are not installed: pip install 'hyperspn[tables]'"
        if scores.c2st is None
        else "1: XGBoost cannot tell sampled rows from real ones. 0: it always can."
    )
    return (
        "<section><h2>Can it be trusted?</h2><p>A good model gives held-out rows a higher likelihood than the baselines, and "
        f"draws rows that pass for real.</p>{table}"
        f'<div class="cards"><div class="card"><h3>Two-sample test</h3><p class="figure">{figure}</p>'
        f'<p class="quiet">{escape(words)}</p></div></div></section>'
    )


def _columns_section(columns: Sequence[ColumnComparison]) -> str:
    cards = "".join(
        f'<div class="card"><h3>{escape(each.column.name)}</h3>'
        f'<p class="quiet">differs by {each.difference:.1%}, by chance {each.chance:.1%}</p>{_chart(each)}</div>'
        for each in columns
    )
    return (
        "<section><h2>Columns</h2><p>Every column, real beside sampled. A difference of 3% means that 3% of the sampled values "
        "would have to change to be like the real ones. Two samples of one distribution would still differ by the second "
        "number, by chance.</p>"
        '<p class="quiet"><span class="key key-real">real</span><span class="key key-sampled">sampled</span></p>'
        f'<div class="cards">{cards}</div></section>'
    )


def _chart(each: ColumnComparison) -> str:
    if each.column.is_numeric:
        return histogram(each.labels, each.real, each.sampled, each.spikes)
    return bars(each.labels, each.real, each.sampled)


def _pairs_section(model: TableModel, real: FloatArray, sampled: FloatArray) -> str:
    """Heat maps of dependence; of very many columns those that depend on each other the most."""
    matrices = [dependence(model.schema, x, real) for x in (real, sampled)]
    if len(matrices[0]) < 2:
        return ""
    kept = np.sort(np.argsort(-matrices[0].max(1), kind="stable")[:MOST_PAIRED])
    ours, theirs = (matrix[np.ix_(kept, kept)] for matrix in matrices)
    names, most = [model.schema.names[v] for v in kept], float(max(ours.max(), theirs.max()))
    charts = {"real": ours, "sampled": theirs, "difference": theirs - ours}
    cards = "".join(
        f'<div class="card"><h3>{name}</h3>{heat_map(names, matrix, most)}</div>' for name, matrix in charts.items()
    )
    left_out = "" if len(kept) == len(matrices[0]) else f" The {len(kept)} columns that depend on others the most."
    return (
        f"<section><h2>Pairs of columns</h2><p>How much pairs of columns depend on each other: normalized mutual information, "
        f'the stronger the color, the more, {most:.2f} at most.{left_out}</p><div class="cards">{cards}</div></section>'
    )


def _rows_section(strange: Sequence[StrangeRow], count: int) -> str:
    lines: list[list[str]] = []
    for row in strange:
        cells = [[c.column, "missing" if c.value is None else str(c.value), c.expected, c.frequency] for c in row.cells]
        first, *others = cells or [["", "", "", ""]]
        lines += [[f"{row.row + 1:,}", f"{row.surprisal:.1f}", *first], *(["", "", *other] for other in others)]
    header = ["row", "surprisal, bits", "column", "value", "expected", "how rare"]
    return (
        f"<section><h2>The most anomalous rows</h2><p>The least probable of {count:,} rows, and the cells whose values are "
        "rare given the rest of the row. One in 1,000: of 1,000 rows with the same other cells, one would have a value at most "
        f'as probable.</p><div class="rows">{_table(header, lines, right=(0, 1), marked=3)}</div></section>'
    )


def _page(model: TableModel, title: str, sections: str) -> str:
    style = files(__package__).joinpath("report.css").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    rows = "" if model.num_rows is None else f", learned from {model.num_rows:,} rows"
    recipe = "" if model.recipe is None else f" by the recipe “{model.recipe}”"
    summary = f"{len(model.schema.columns)} columns{rows}{recipe}; {model.circuit.num_parameters:,} parameters."
    contents = f"This page holds shares of the values of the table, and cells of {STRANGE_ROWS} of its rows."
    template = Template(files(__package__).joinpath("report.html").read_text(encoding="utf-8"))
    return template.substitute(
        title=escape(title),
        style=style,
        style_hash=f"sha256-{digest}",
        summary=escape(summary),
        contents=escape(contents),
        sections=sections,
    )


def _table(
    header: Sequence[str], rows: Iterable[Sequence[str]], right: Sequence[int], marked: int | None = None
) -> str:
    def cell(tag: str, i: int, text: str, is_first: bool = False) -> str:
        names = ["right"] * (i in right) + ["mark"] * (is_first and i == marked)
        return f'<{tag} class="{" ".join(names)}">{escape(text)}</{tag}>' if names else f"<{tag}>{escape(text)}</{tag}>"

    head = "".join(cell("th", i, text) for i, text in enumerate(header))
    lines = "".join(
        f"<tr>{''.join(cell('td', i, text, bool(row[0])) for i, text in enumerate(row))}</tr>" for row in rows
    )
    return f'<div class="scroll" tabindex="0"><table><thead><tr>{head}</tr></thead><tbody>{lines}</tbody></table></div>'


def _mean(values: FloatArray) -> float:
    return float(values.mean()) if len(values) else float("nan")


def _number(value: float) -> str:
    return "" if np.isnan(value) else f"{value:.4f}"
