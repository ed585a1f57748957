"""Reports: the rows of the paper's tables from records, ours beside the published values, and how they are written."""

from __future__ import annotations

import csv

from collections.abc import Iterator, Sequence
from io import StringIO
from statistics import fmean, stdev
from typing import Any, NamedTuple

from ..data.datasets import BENCHMARKS
from .published import PUBLISHED, PUBLISHED_HAND_CRAFTED
from .runs import Record, Records, Run
from .settings import HAND_CRAFTED, METHODS, SCHEDULES, SETTINGS

Row = dict[str, Any]

BOTH = ("weight_decay", "hyperspn")
SIGNIFICANT = 0.05


class ReportColumn(NamedTuple):
    """A column of a report; in each row, the best value among the columns of a `group` is printed in bold.

    With `spread`, a value comes with its standard deviation, and with a star where it is significantly better.
    """

    key: str
    label: str
    digits: int = 2
    group: str = ""
    spread: bool = False


def likelihoods(records: Records, datasets: Sequence[str]) -> list[Row]:
    """Tables 1, 2 and 7: test log-likelihoods of the settings chosen on validation, over the seeds there are."""
    return [
        {
            **_of_dataset(dataset),
            **{method: _mean(found[method], "test") for method in BOTH},
            **{f"{method}_std": _spread(found[method]) for method in BOTH},
            **{f"{method}_seeds": len(found[method]) for method in BOTH},
            **{f"{method}_parameters": found[method][0]["parameters"] for method in BOTH},
            **_chosen(dataset, found),
            "significant": _significantly_better(found),
            **_published(dataset, *BOTH, *(f"{method}_parameters" for method in BOTH)),
            **{f"{method}_published_std": PUBLISHED[dataset][f"{method}_std"] for method in BOTH},
            **{key: PUBLISHED[dataset][key] for key in ("einet_adam", "ratspn_sem", "einet_sem")},
        }
        for dataset, found in _found(records, datasets)
    ]


def hand_crafted(records: Records, datasets: Sequence[str]) -> list[Row]:
    """Table 3: three models of the hand-crafted data."""
    return [
        {
            "model": published["name"],
            "method": method,
            "log_likelihood": _mean(found, "test"),
            "log_likelihood_std": _spread(found),
            "log_likelihood_published": published["log_likelihood"],
            "log_likelihood_published_std": published["log_likelihood_std"],
            "seeds": len(found),
            "parameters": found[0]["parameters"],
            "parameters_published": published["parameters"],
            "chosen": SETTINGS[found[0]["setting"]].varied,
        }
        for method, published in PUBLISHED_HAND_CRAFTED.items()
        if (found := records.of(HAND_CRAFTED, method))
    ]


def settings(records: Records, datasets: Sequence[str]) -> list[Row]:
    """Table 4: the hyper-parameters, with those that the paper leaves to its code."""
    spns, hyperspns = ([SETTINGS[name] for name in METHODS[method]] for method in BOTH)
    options: list[tuple[str, Any, Any]] = [
        ("learning rate", *(chosen[0].build(2, 0).parameter_groups()[0]["lr"] for chosen in (spns, hyperspns))),
        ("weight decay w", ", ".join(setting.varied for setting in spns), "none"),
        ("embedding dim h, the last hidden width", "none", ", ".join(setting.varied for setting in hyperspns)),
        ("hidden width before it", "none", hyperspns[0].hidden[0]),
        ("layer size k", spns[0].layer_size, hyperspns[0].layer_size),
        ("replicas r", spns[0].replicas, hyperspns[0].replicas),
    ]
    for schedule in dict.fromkeys(SCHEDULES.values()):
        names = ", ".join(name for name in SCHEDULES if SCHEDULES[name] == schedule)
        batches = f"{schedule.steps:,} of {schedule.batch_size} rows"
        text = f"{batches}, evaluated every {schedule.evaluate_every:,}, patience {schedule.patience}"
        options.append((f"steps: {names}", text, text))
    return [{"option": option, "weight_decay": str(spn), "hyperspn": str(hyper)} for option, spn, hyper in options]


def sweeps(records: Records, datasets: Sequence[str]) -> list[Row]:
    """Table 5: test log-likelihoods of all settings, first seed."""
    swept = [setting for method in BOTH for setting in METHODS[method]]
    return [
        {
            **_of_dataset(dataset),
            **{setting: records[Run(dataset, setting, 0)]["test"] for setting in swept},
            **_published(dataset, *swept),
            **_chosen(dataset, found),
        }
        for dataset, found in _found(records, datasets)
    ]


def sample_quality(records: Records, datasets: Sequence[str]) -> list[Row]:
    """Table 6: Parzen windows in the authors' protocol, and as a density estimate of the test rows."""
    return [
        {
            **_of_dataset(dataset),
            **{method: _mean(found[method], "sample_quality_published") for method in BOTH},
            **{f"{method}_published": PUBLISHED[dataset][f"{method}_quality"] for method in BOTH},
            **{f"{method}_proper": _mean(found[method], "sample_quality_proper") for method in BOTH},
            **{f"{method}_bandwidth": _mean(found[method], "bandwidth") for method in BOTH},
        }
        for dataset, found in _found(records, datasets)
    ]


def curves(records: Records, datasets: Sequence[str]) -> list[Row]:
    """Figure 5: training and validation values by step, of the settings chosen on validation, first seed."""
    return [
        {"dataset": dataset, "method": method, "chosen": SETTINGS[record["setting"]].varied, **record["curve"]}
        for dataset in datasets
        for method in METHODS
        for record in records.of(dataset, method)[:1]
    ]


class Report(NamedTuple):
    """A report to be written: rows with all that is known, and the columns that are shown; a summary ends it."""

    title: str
    columns: Sequence[ReportColumn]
    rows: list[Row]
    summary: list[Row] | None = None

    @property
    def mean(self) -> Row | None:
        """The means of all columns of numbers that compete, over two rows or more."""
        keys = [column.key for column in self.columns if column.group]
        if len(self.rows) < 2 or not keys:
            return None
        return {"name": "mean"} | {key: fmean(row[key] for row in self.rows) for key in keys}

    def cells(self) -> list[list[tuple[str, bool]]]:
        """The text of each cell, and whether it is bold."""
        rows = [*self.rows, *(self.summary or ()), *([self.mean] if self.mean else ())]
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

    def _is_best(self, row: Row, column: ReportColumn) -> bool:
        group = [other for other in self.columns if column.group and other.group == column.group]
        values = [_rounded(row, other) for other in group if row.get(other.key) is not None]
        return len(values) > 1 and _rounded(row, column) == max(values) > min(values)


def _text(row: Row, column: ReportColumn) -> str:
    value = row.get(column.key)
    if not isinstance(value, float):
        return "" if value is None else f"{value:,}" if isinstance(value, int) else value
    star = "⋆" if column.spread and row.get("significant") == column.key else ""
    spread = row.get(f"{column.key}_std") if column.spread else None
    return f"{value:.{column.digits}f}{star}" + (f" ± {spread:.{column.digits}f}" if spread is not None else "")


def _rounded(row: Row, column: ReportColumn) -> float:
    return round(row[column.key], column.digits)


def _found(records: Records, datasets: Sequence[str]) -> Iterator[tuple[str, dict[str, list[Record]]]]:
    """The data sets of which both methods have been trained in all their settings, with the records that count."""
    for dataset in datasets:
        found = {method: records.of(dataset, method) for method in BOTH}
        if all(found.values()):
            yield dataset, found


def _mean(records: list[Record], key: str) -> float:
    return fmean(record[key] for record in records)


def _spread(records: list[Record]) -> float | None:
    return stdev(record["test"] for record in records) if len(records) > 1 else None


def _significantly_better(found: dict[str, list[Record]]) -> str | None:
    """The method that is better, if the seeds can tell: by a two-sided Welch test."""
    from scipy.stats import ttest_ind  # half a second, which no other command should wait

    spn, hyperspn = ([record["test"] for record in found[method]] for method in BOTH)
    if min(len(spn), len(hyperspn)) > 1 and ttest_ind(spn, hyperspn, equal_var=False).pvalue < SIGNIFICANT:
        return BOTH[fmean(hyperspn) > fmean(spn)]
    return None


def _of_dataset(dataset: str) -> Row:
    return {"dataset": dataset, "name": PUBLISHED[dataset]["name"], "variables": BENCHMARKS[dataset].variables}


def _published(dataset: str, *keys: str) -> Row:
    return {f"{key}_published": PUBLISHED[dataset][key] for key in keys}


def _chosen(dataset: str, found: dict[str, list[Record]]) -> Row:
    """What was chosen on validation, and the settings with the published value: the best ones on the test rows."""
    published, row = PUBLISHED[dataset], {}
    for method in BOTH:
        best = [setting for setting in METHODS[method] if published[setting] == published[method]]
        row[f"{method}_chosen"] = SETTINGS[found[method][0]["setting"]].varied
        row[f"{method}_chosen_published"] = " or ".join(SETTINGS[setting].varied for setting in best)
    return row
