"""The paper's tables: rows from records, ours beside the published values, and how they are written."""

from __future__ import annotations

import csv

from collections.abc import Sequence
from io import StringIO
from pathlib import Path
from statistics import fmean, stdev
from typing import Any, NamedTuple

from scipy.stats import ttest_ind

from ..datasets import KNOWN
from .runs import Record, Records, Run
from .settings import HAND_CRAFTED, METHODS, SCHEDULES, SETTINGS

Row = dict[str, Any]

BOTH = ("weight_decay", "hyperspn")
SWEEP = METHODS["weight_decay"] + METHODS["hyperspn"]
SIGNIFICANT = 0.05


class Column(NamedTuple):
    """A column of a table: the best value in each row among the columns of a `group` is printed in bold."""

    key: str
    label: str
    digits: int = 2
    group: str = ""


def likelihoods(records: Records, datasets: Sequence[str]) -> list[Row]:
    """Tables 1 and 2: mean test log-likelihoods, over the seeds there are, of the settings chosen on validation."""
    return [
        {
            **_of_dataset(dataset),
            **{key: value for method in BOTH for key, value in _summary(records.of(dataset, method), method).items()},
            **_published(dataset, *BOTH),
            **{key: PUBLISHED[dataset][key] for key in ("einet_adam", "ratspn_sem", "einet_sem")},
        }
        for dataset in _complete(records, datasets)
    ]


def hand_crafted(records: Records, datasets: Sequence[str]) -> list[Row]:
    """Table 3: three models of the hand-crafted data."""
    return [
        {
            "model": published["name"],
            "method": method,
            **_summary(records.of(HAND_CRAFTED, method), "log_likelihood"),
            **{f"{key}_published": published[key] for key in ("log_likelihood", "log_likelihood_std", "parameters")},
        }
        for method, published in PUBLISHED_HAND_CRAFTED.items()
        if records.chosen(HAND_CRAFTED, method)
    ]


def settings(records: Records, datasets: Sequence[str]) -> list[Row]:
    """Table 4: the hyper-parameters, with those that the paper leaves to its code."""
    spns, hyperspns = ([SETTINGS[name] for name in METHODS[method]] for method in BOTH)
    options: list[tuple[str, Any, Any]] = [
        ("learning rate", *(chosen[0].build(2, 0).parameter_groups()[0]["lr"] for chosen in (spns, hyperspns))),
        ("weight decay", _listed(setting.weight_decay for setting in spns), "none"),
        ("embedding dim h, the last hidden width", "none", _listed(setting.hidden[-1] for setting in hyperspns)),
        ("hidden widths before it", "none", _listed(setting.hidden[0] for setting in hyperspns)),
        ("layer size k", spns[0].layer_size, hyperspns[0].layer_size),
        ("replicas r", spns[0].replicas, hyperspns[0].replicas),
    ]
    rows = [{"option": option, "weight_decay": str(spn), "hyperspn": str(hyper)} for option, spn, hyper in options]
    for schedule in dict.fromkeys(SCHEDULES.values()):
        names = ", ".join(name for name in SCHEDULES if SCHEDULES[name] == schedule)
        text = f"{schedule.steps:,} of {schedule.batch_size} rows, evaluated every {schedule.evaluate_every}"
        rows.append({"option": f"steps: {names}", "weight_decay": text, "hyperspn": text})
    return rows


def sweeps(records: Records, datasets: Sequence[str]) -> list[Row]:
    """Table 5: test log-likelihoods of all settings, first seed."""
    return [
        {
            **_of_dataset(dataset),
            **{setting: records[Run(dataset, setting, 0)]["test"] for setting in SWEEP},
            **{f"{method}_chosen": records.chosen(dataset, method) for method in BOTH},
            **_published(dataset, *SWEEP),
        }
        for dataset in _complete(records, datasets)
    ]


def sample_quality(records: Records, datasets: Sequence[str]) -> list[Row]:
    """Table 6: Parzen windows in the authors' protocol, and as a density estimate of the test rows."""
    rows = []
    for dataset in _complete(records, datasets):
        found = {method: records.of(dataset, method) for method in BOTH}
        rows.append(
            {
                **_of_dataset(dataset),
                **{method: _mean(found[method], "sample_quality_published") for method in BOTH},
                **{f"{method}_published": PUBLISHED[dataset][f"{method}_quality"] for method in BOTH},
                **{f"{method}_proper": _mean(found[method], "sample_quality_proper") for method in BOTH},
                **{f"{method}_bandwidth": _mean(found[method], "bandwidth") for method in BOTH},
            }
        )
    return rows


def error_bars(records: Records, datasets: Sequence[str]) -> list[Row]:
    """Table 7: means and standard deviations over seeds; a star where a two-sided Welch test has p < 0.05."""
    return [
        {
            **row,
            "significant": _significantly_better(records, row["dataset"]),
            **{f"{method}_published_std": PUBLISHED[row["dataset"]][f"{method}_std"] for method in BOTH},
        }
        for row in likelihoods(records, datasets)
    ]


def curves(records: Records, datasets: Sequence[str]) -> list[Row]:
    """Figure 5: training and validation values by step, of the settings chosen on validation."""
    return [
        {"dataset": dataset, "method": method, "setting": record["setting"], **record["curve"]}
        for dataset in datasets
        for method in METHODS
        for record in records.of(dataset, method)[:1]
    ]


class Table(NamedTuple):
    """A table to be written: rows with all that is known, and the columns that are shown."""

    title: str
    columns: Sequence[Column]
    rows: list[Row]

    @property
    def mean(self) -> Row | None:
        """The means of all columns of numbers that compete, over two rows or more."""
        keys = [column.key for column in self.columns if column.group]
        if len(self.rows) < 2 or "name" not in self.rows[0]:
            return None
        return {"name": "mean"} | {key: fmean(row[key] for row in self.rows) for key in keys}

    def cells(self) -> list[list[tuple[str, bool]]]:
        """The text of each cell, and whether it is bold."""
        rows = [*self.rows, self.mean] if self.mean else self.rows
        return [[(_text(row, column), self._is_best(row, column)) for column in self.columns] for row in rows]

    def markdown(self) -> str:
        lines = [[column.label for column in self.columns], ["---"] * len(self.columns)]
        lines += [[f"**{text}**" if bold else text for text, bold in cells] for cells in self.cells()]
        return "".join(f"| {' | '.join(line)} |\n" for line in lines)

    def csv(self) -> str:
        text = StringIO()
        writer = csv.DictWriter(text, list(self.rows[0]) if self.rows else [], lineterminator="\n")
        writer.writeheader()
        writer.writerows(self.rows)
        return text.getvalue()

    def _is_best(self, row: Row, column: Column) -> bool:
        group = [other for other in self.columns if column.group and other.group == column.group]
        values = [_rounded(row, other) for other in group if row.get(other.key) is not None]
        return len(values) > 1 and _rounded(row, column) == max(values) > min(values)


def _text(row: Row, column: Column) -> str:
    value = row.get(column.key)
    if not isinstance(value, float):
        return "" if value is None else f"{value:,}" if isinstance(value, int) else value
    star = "*" if row.get("significant") == column.key else ""
    spread = row.get(f"{column.key}_std")
    return f"{_rounded(row, column):.{column.digits}f}{star}" + (f" ± {spread:.2f}" if spread is not None else "")


def _rounded(row: Row, column: Column) -> float:
    return round(row[column.key], column.digits)


def _summary(records: list[Record], name: str) -> Row:
    """The mean of the test values and its spread, the setting chosen and its size."""
    tests = [record["test"] for record in records]
    prefix = "" if name == "log_likelihood" else f"{name}_"
    return {
        name: fmean(tests),
        f"{name}_std": stdev(tests) if len(tests) > 1 else None,
        f"{prefix}seeds": len(tests),
        f"{prefix}setting": records[0]["setting"],
        f"{prefix}parameters": records[0]["parameters"],
    }


def _mean(records: list[Record], key: str) -> float:
    return fmean(record[key] for record in records)


def _significantly_better(records: Records, dataset: str) -> str | None:
    """The method that is better, if the seeds can tell."""
    spn, hyperspn = ([record["test"] for record in records.of(dataset, method)] for method in BOTH)
    if min(len(spn), len(hyperspn)) < 2 or ttest_ind(spn, hyperspn, equal_var=False).pvalue >= SIGNIFICANT:
        return None
    return BOTH[fmean(hyperspn) > fmean(spn)]


def _complete(records: Records, datasets: Sequence[str]) -> list[str]:
    """The data sets of which both methods have been trained in all their settings."""
    return [dataset for dataset in datasets if all(records.chosen(dataset, method) for method in BOTH)]


def _of_dataset(dataset: str) -> Row:
    return {"dataset": dataset, "name": PUBLISHED[dataset]["name"], "variables": KNOWN[dataset].variables}


def _published(dataset: str, *keys: str) -> Row:
    return {f"{key}_published": PUBLISHED[dataset][key] for key in keys}


def _listed(values: Any) -> str:
    return ", ".join(dict.fromkeys(str(value) for value in values))


def _read(name: str) -> dict[str, Row]:
    """Published values by the first column of their file: numbers where they are numbers."""
    with open(Path(__file__).with_name("published") / name, encoding="utf-8", newline="") as file:
        return {row[next(iter(row))]: {key: _value(text) for key, text in row.items()} for row in csv.DictReader(file)}


def _value(text: str) -> float | int | str | None:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return text or None


PUBLISHED = _read("benchmarks.csv")
PUBLISHED_HAND_CRAFTED = _read("hand_crafted.csv")
