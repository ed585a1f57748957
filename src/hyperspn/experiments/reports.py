"""Reports: the rows of the paper's tables from records, ours beside the published values, and how they are written."""

from __future__ import annotations

import csv

from collections.abc import Iterator, Sequence
from io import StringIO
from itertools import count, takewhile
from statistics import fmean, stdev
from typing import Any, NamedTuple

from ..data.datasets import BENCHMARKS
from .published import PUBLISHED_BENCHMARKS, PUBLISHED_HAND_CRAFTED
from .records import Records
from .runs import DrawRun, Record, Run
from .settings import BOTH_METHODS, HAND_CRAFTED, METHODS, PUBLISHED_METHODS, SCHEDULES, SETTINGS

Row = dict[str, Any]

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


class Report(NamedTuple):
    """Rows with all that is known, and the columns that are shown; a summary may follow.

    Rows of other authors stand below ours of the same data set.
    """

    title: str
    columns: Sequence[ReportColumn]
    rows: list[Row]
    summary: list[Row] | None = None
    others: Sequence[Row] = ()

    @property
    def mean(self) -> Row | None:
        """The means of the columns that compete, where every row has a value, over two rows or more."""
        keys = [column.key for column in self.columns if column.group]
        if len(self.rows) < 2 or not keys:
            return None
        complete = [key for key in keys if all(row[key] is not None for row in self.rows)]
        return {self.columns[0].key: "mean"} | {key: fmean(row[key] for row in self.rows) for key in complete}

    def only(self, datasets: Sequence[str]) -> Report:
        """The part about these data sets, in their order."""

        def select(rows: Sequence[Row]) -> list[Row]:
            return [row for dataset in datasets for row in rows if row["dataset"] == dataset]

        summary = None if self.summary is None else select(self.summary)
        return self._replace(rows=select(self.rows), summary=summary, others=select(self.others))

    def cells(self) -> list[list[tuple[str, bool]]]:
        """The text of each cell, and whether it is bold."""
        ours = [row.get("dataset") for row in self.rows]
        rows = sorted([*self.rows, *self.others], key=lambda row: ours.index(row.get("dataset")))
        rows += [*(self.summary or ()), *([self.mean] if self.mean else ())]
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
        values = {other.key: round(row[other.key], other.digits) for other in group if row.get(other.key) is not None}
        return len(values) > 1 and values.get(column.key) == max(values.values()) > min(values.values())


def likelihoods(records: Records, datasets: Sequence[str]) -> list[Row]:
    """Tables 1, 2 and 7: test log-likelihoods of the settings that are best on validation, over the seeds there are."""
    return [
        {
            **_dataset_cells(dataset),
            **{method: _mean(by_method[method], "test") for method in BOTH_METHODS},
            **{f"{method}_std": _deviation(by_method[method]) for method in BOTH_METHODS},
            **{f"{method}_seeds": len(by_method[method]) for method in BOTH_METHODS},
            **{f"{method}_parameters": by_method[method][0]["parameters"] for method in BOTH_METHODS},
            **_setting_cells(dataset, by_method),
            "significant": _significantly_better(by_method),
            **_published_likelihoods(dataset),
        }
        for dataset, by_method in _complete(records, datasets)
    ]


def hand_crafted(records: Records, datasets: Sequence[str]) -> list[Row]:
    """Table 3: three models of the hand-crafted data."""
    return [
        {
            "model": published["name"],
            "method": method,
            "log_likelihood": _mean(seeds, "test"),
            "log_likelihood_std": _deviation(seeds),
            "log_likelihood_published": published["log_likelihood"],
            "log_likelihood_published_std": published["log_likelihood_std"],
            "seeds": len(seeds),
            "parameters": seeds[0]["parameters"],
            "parameters_published": published["parameters"],
            "chosen": SETTINGS[seeds[0]["setting"]].choice,
        }
        for method, published in PUBLISHED_HAND_CRAFTED.items()
        if (seeds := records.of_best_setting(HAND_CRAFTED, method))
    ]


def draw_runs(draws: int) -> list[DrawRun]:
    """All settings of the paper's methods on further draws of the hand-crafted rows: 1, 2, ..."""
    settings = [setting for method in PUBLISHED_METHODS for setting in METHODS[method]]
    return [DrawRun(HAND_CRAFTED, setting, draw) for draw in range(1, draws + 1) for setting in settings]


def draws(records: Records, datasets: Sequence[str]) -> list[Row]:
    """Table 3 on further draws of its rows: for each draw the setting that is best on its validation rows."""
    complete = list(takewhile(lambda draw: all(run in records for run in draw_runs(draw)), count(1)))
    return [
        {
            "model": published["name"],
            "method": method,
            "log_likelihood": _mean(chosen, "test"),
            "log_likelihood_std": _deviation(chosen),
            "lowest": min(record["test"] for record in chosen),
            "highest": max(record["test"] for record in chosen),
            "log_likelihood_published": published["log_likelihood"],
            "log_likelihood_published_std": published["log_likelihood_std"],
            "draws": len(chosen),
            "chosen": ", ".join(SETTINGS[record["setting"]].choice for record in chosen),
        }
        for method, published in PUBLISHED_HAND_CRAFTED.items()
        if (chosen := [_best_of_draw(records, method, draw) for draw in complete])
    ]


def _best_of_draw(records: Records, method: str, draw: int) -> Record:
    runs = [DrawRun(HAND_CRAFTED, setting, draw) for setting in METHODS[method]]
    return max((records[run] for run in runs), key=lambda record: record["valid"])


def starts(records: Records, datasets: Sequence[str]) -> list[Row]:
    """Test log-likelihoods of HyperSPNs by the start of their networks: of the best settings, over the seeds there are."""
    rows = []
    for dataset in datasets:
        by_start = {method: records.of_best_setting(dataset, method) for method in ("hyperspn", "hyperspn_careful")}
        if all(by_start.values()):
            rows.append(
                {
                    **_dataset_cells(dataset),
                    **{method: _mean(seeds, "test") for method, seeds in by_start.items()},
                    **{f"{method}_std": _deviation(seeds) for method, seeds in by_start.items()},
                    **{f"{method}_seeds": len(seeds) for method, seeds in by_start.items()},
                    **{f"{method}_chosen": SETTINGS[seeds[0]["setting"]].choice for method, seeds in by_start.items()},
                    "hyperspn_published": PUBLISHED_BENCHMARKS[dataset]["hyperspn"],
                    "hyperspn_published_std": PUBLISHED_BENCHMARKS[dataset]["hyperspn_std"],
                }
            )
    return rows


def hyperparameters(records: Records, datasets: Sequence[str]) -> list[Row]:
    """Table 4: the settings, with those that the paper leaves to its code."""
    spns, hyperspns = ([SETTINGS[name] for name in METHODS[method]] for method in BOTH_METHODS)
    rates = (settings[0].build(2, 0).parameter_groups()[0]["lr"] for settings in (spns, hyperspns))
    options: list[tuple[str, Any, Any]] = [
        ("learning rate", *rates),
        ("weight decay w", ", ".join(setting.choice for setting in spns), "none"),
        ("embedding dim h, the last hidden width", "none", ", ".join(setting.choice for setting in hyperspns)),
        ("hidden width before it", "none", hyperspns[0].hidden[0]),
        ("layer size k", spns[0].layer_size, hyperspns[0].layer_size),
        ("replicas r", spns[0].replicas, hyperspns[0].replicas),
        *((f"steps: {names}", text, text) for names, text in _schedule_texts()),
    ]
    return [{"option": option, "weight_decay": str(spn), "hyperspn": str(hyper)} for option, spn, hyper in options]


def sweeps(records: Records, datasets: Sequence[str]) -> list[Row]:
    """Table 5: test log-likelihoods of all settings, first seed."""
    swept = [setting for method in BOTH_METHODS for setting in METHODS[method]]
    return [
        {
            **_dataset_cells(dataset),
            **{setting: records[Run(dataset, setting, 0)]["test"] for setting in swept},
            **{f"{setting}_published": PUBLISHED_BENCHMARKS[dataset][setting] for setting in swept},
            **_setting_cells(dataset, by_method),
        }
        for dataset, by_method in _complete(records, datasets)
    ]


def sample_quality(records: Records, datasets: Sequence[str]) -> list[Row]:
    """Table 6: Parzen windows in the authors' protocol, and as a density estimate of the test rows."""
    return [
        {
            **_dataset_cells(dataset),
            **{method: _mean(by_method[method], "sample_quality_published") for method in BOTH_METHODS},
            **{f"{method}_published": PUBLISHED_BENCHMARKS[dataset][f"{method}_quality"] for method in BOTH_METHODS},
            **{f"{method}_proper": _mean(by_method[method], "sample_quality_proper") for method in BOTH_METHODS},
            **{f"{method}_bandwidth": _mean(by_method[method], "bandwidth") for method in BOTH_METHODS},
        }
        for dataset, by_method in _complete(records, datasets)
    ]


def curves(records: Records, datasets: Sequence[str]) -> list[Row]:
    """Figure 5: training and validation values by step, of the settings that are best on validation, first seed."""
    return [
        {"dataset": dataset, "method": method, "chosen": SETTINGS[record["setting"]].choice, **record["curve"]}
        for dataset in datasets
        for method in PUBLISHED_METHODS
        for record in records.of_best_setting(dataset, method)[:1]
    ]


def _text(row: Row, column: ReportColumn) -> str:
    value = row.get(column.key)
    if not isinstance(value, float):
        return "" if value is None else f"{value:,}" if isinstance(value, int) else value
    star = "⋆" if column.spread and row.get("significant") == column.key else ""
    spread = row.get(f"{column.key}_std") if column.spread else None
    return f"{value:.{column.digits}f}{star}" + (f" ± {spread:.{column.digits}f}" if spread is not None else "")


def _complete(records: Records, datasets: Sequence[str]) -> Iterator[tuple[str, dict[str, list[Record]]]]:
    """The data sets on which both methods have been trained in all their settings, with the records that count."""
    for dataset in datasets:
        by_method = {method: records.of_best_setting(dataset, method) for method in BOTH_METHODS}
        if all(by_method.values()):
            yield dataset, by_method


def _mean(records: list[Record], key: str) -> float:
    return fmean(record[key] for record in records)


def _deviation(records: list[Record]) -> float | None:
    return stdev(record["test"] for record in records) if len(records) > 1 else None


def _significantly_better(by_method: dict[str, list[Record]]) -> str | None:
    """The method that is better, if the seeds can tell: by a two-sided Welch test."""
    from scipy.stats import ttest_ind  # takes half a second to import

    spn, hyperspn = ([record["test"] for record in by_method[method]] for method in BOTH_METHODS)
    if min(len(spn), len(hyperspn)) > 1 and ttest_ind(spn, hyperspn, equal_var=False).pvalue < SIGNIFICANT:
        return BOTH_METHODS[fmean(hyperspn) > fmean(spn)]
    return None


def _dataset_cells(dataset: str) -> Row:
    name = PUBLISHED_BENCHMARKS[dataset]["name"]
    return {"dataset": dataset, "name": name, "variables": BENCHMARKS[dataset].variables}


def _published_likelihoods(dataset: str) -> Row:
    published = PUBLISHED_BENCHMARKS[dataset]
    return {
        **{f"{method}_published": published[method] for method in BOTH_METHODS},
        **{f"{method}_parameters_published": published[f"{method}_parameters"] for method in BOTH_METHODS},
        **{f"{method}_published_std": published[f"{method}_std"] for method in BOTH_METHODS},
        **{key: published[key] for key in ("einet_adam", "ratspn_sem", "einet_sem")},
    }


def _setting_cells(dataset: str, by_method: dict[str, list[Record]]) -> Row:
    """The settings that are best on validation, and those with the published value: the best ones on the test rows."""
    published, row = PUBLISHED_BENCHMARKS[dataset], {}
    for method in BOTH_METHODS:
        best = [setting for setting in METHODS[method] if published[setting] == published[method]]
        row[f"{method}_chosen"] = SETTINGS[by_method[method][0]["setting"]].choice
        row[f"{method}_chosen_published"] = " or ".join(SETTINGS[setting].choice for setting in best)
    return row


def _schedule_texts() -> Iterator[tuple[str, str]]:
    """The names of the data sets of each schedule, and the schedule in words."""
    for schedule in dict.fromkeys(SCHEDULES.values()):
        names = ", ".join(name for name in SCHEDULES if SCHEDULES[name] == schedule)
        batches = f"{schedule.steps:,} of {schedule.batch_size} rows"
        yield names, f"{batches}, evaluated every {schedule.evaluate_every:,}, patience {schedule.patience}"
