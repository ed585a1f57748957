"""Makes the tables and figures from the records in results/, there and in the pages. Run with `make docs`."""

from __future__ import annotations

import re

from pathlib import Path
from statistics import fmean

from hyperspn.experiments import ARTIFACTS, Records
from hyperspn.experiments.figures import FIGURES
from hyperspn.experiments.reports import Report, Row
from hyperspn.experiments.reproduce import write_report
from hyperspn.experiments.settings import AMAZON, TWENTY
from hyperspn.experiments.tables import TABLES

ROOT = Path(__file__).resolve().parents[1]
PAGES = [
    ROOT / "README.md",
    *(ROOT / "docs" / name for name in ("results.md", "beyond-the-paper.md", "how-to/synthesize.md")),
]
SHORT = {
    "table1": ("name", "variables", "weight_decay", "hyperspn", "weight_decay_published", "hyperspn_published"),
    "table2": ("name", "variables", "weight_decay", "hyperspn", "weight_decay_published", "hyperspn_published"),
    "table3": ("model", "log_likelihood", "log_likelihood_published", "parameters"),
}
LIMITS = {
    "published": "published HyperSPN",
    "best": "ours, at most its parameters",
    "half": "at most half of them",
    "unlimited": "any number",
    "ensemble": "ensemble of 8",
    "best_tractable": "best published tractable",
}
OURS = ("best", "half", "unlimited", "ensemble")


def main() -> None:
    records = Records(ROOT / "results")
    reports = {what: artifact.report(records, artifact.datasets) for what, artifact in ARTIFACTS.items()}
    for what, report in reports.items():
        if report.rows:
            write_report(what, report, records.folder)
        print(f"{report.title}: {len(report.rows)} rows")
    for page in PAGES:
        page.write_text(fill(page.read_text(encoding="utf-8"), reports), encoding="utf-8")


def fill(page: str, reports: dict[str, Report]) -> str:
    """A page with every report that it names between its markers."""
    for what, report in reports.items():
        picture = f"![{report.title}](../results/{what}.svg)\n\n" if what in FIGURES else ""
        for name, block in {what: picture + report.markdown(), f"{what} in short": in_short(what, report)}.items():
            page = re.sub(rf"(?s)(<!-- {name} -->\n).*?(?=<!-- end -->)", lambda match, b=block: match[1] + b, page)
    return page


def in_short(what: str, report: Report) -> str:
    if what == "beyond":
        return comparison(report)
    if what == "tables":
        return two_sample_tests(report)
    columns = [column for column in report.columns if column.key in SHORT.get(what, ())]
    return report._replace(columns=columns).markdown()


def comparison(report: Report) -> str:
    """Means over both collections of data sets, and on how many of them our models are at least as good."""
    limits = [limit for limit in LIMITS if any(row[limit] is not None for row in report.rows)]
    lines = ["| | " + " | ".join(LIMITS[limit] for limit in limits) + " |", "| --- |" + " --- |" * len(limits)]
    for collection, names in {"Twenty Datasets": TWENTY, "Amazon Baby Registries": AMAZON}.items():
        rows = [row for row in report.rows if row["dataset"] in names]
        means = [_mean([row[limit] for row in rows]) for limit in limits]
        lines.append(f"| mean of {len(rows)} {collection} | " + " | ".join(means) + " |")
        for rival, label in (("published", "published HyperSPN"), ("best_tractable", "best published tractable model")):
            wins = [_wins(rows, limit, rival) if limit in OURS else "" for limit in limits]
            lines.append(f"| at least as good as the {label} | " + " | ".join(wins) + " |")
    return "\n".join(lines) + "\n"


def two_sample_tests(report: Report) -> str:
    """How well sampled rows pass for real ones, by method and table."""
    rows = [*report.rows, *report.others]
    tables = [name for name in TABLES if any(row["dataset"] == name for row in report.others)]
    lines = ["| | " + " | ".join([*tables, "mean", "parameters"]) + " |", "| --- |" + " --- |" * (len(tables) + 2)]
    for method in dict.fromkeys(row["method"] for row in rows):
        of_method = {row["dataset"]: row for row in rows if row["method"] == method}
        values = [of_method[name]["c2st_xgboost"] if name in of_method else None for name in tables]
        sizes = [of_method[name]["parameters"] for name in tables if name in of_method]
        cells = ["" if value is None else f"{value:.3f}" for value in values]
        mean = "" if None in values else f"{fmean(value for value in values if value is not None):.3f}"
        lines.append("| " + " | ".join([method, *cells, mean, f"{min(sizes):,} to {max(sizes):,}"]) + " |")
    return "\n".join(lines) + "\n"


def _mean(values: list[float | None]) -> str:
    known = [value for value in values if value is not None]
    return f"{fmean(known):.2f}" if known and len(known) == len(values) else ""


def _wins(rows: list[Row], ours: str, theirs: str) -> str:
    return f"{sum(row[ours] is not None and row[ours] >= row[theirs] for row in rows)} of {len(rows)}"


if __name__ == "__main__":
    main()
