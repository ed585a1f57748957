"""The paper's figures, from records."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from typing import Any

import matplotlib

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ..files import write
from .reports import Report, Row
from .svhn import SCALED

STYLES = {
    "weight_decay": ("SPN-Large", "tab:blue"),
    "spn_small": ("SPN-Small", "tab:green"),
    "hyperspn": ("HyperSPN", "tab:orange"),
}


def training_curves(report: Report) -> Figure:
    """Figure 5: mean log-likelihood of training (dashed) and validation rows (solid) by step."""
    datasets = list(dict.fromkeys(row["dataset"] for row in report.rows))
    figure = Figure(figsize=(5 * len(datasets) + 2, 3.6), layout="constrained")
    for place, dataset in enumerate(datasets, 1):
        axes = figure.add_subplot(1, len(datasets), place, title=dataset, xlabel="step", ylabel="log-likelihood")
        _draw_curves(axes, [row for row in report.rows if row["dataset"] == dataset])
    names = {name: line for axes in figure.axes for line, name in zip(*axes.get_legend_handles_labels(), strict=True)}
    figure.legend(names.values(), names.keys(), loc="outside right center", fontsize="small")
    return figure


def improvements(report: Report) -> Figure:
    """Figure 6: how much better HyperSPN is than weight decay on each cluster of images, in increasing order."""
    summaries = report.summary or []
    figure = Figure(figsize=(5 * max(1, len(summaries)), 3.6), layout="constrained")
    for place, summary in enumerate(summaries, 1):
        axes = figure.add_subplot(1, len(summaries), place, xlabel="cluster, sorted", ylabel="improvement in nats")
        _draw_bars(axes, [row for row in report.rows if row["dataset"] == summary["dataset"]], summary)
    return figure


def _draw_curves(axes: Axes, curves: list[Row]) -> None:
    for row in curves:
        name, color = STYLES[row["method"]]
        axes.plot(row["steps"][1:], row["train"][1:], "--", color=color, linewidth=1, label=f"{name}, train")
        axes.plot(row["steps"][1:], row["valid"][1:], color=color, label=f"{name}, valid")
    top = max(max(row["train"]) for row in curves)
    low = min(max(row["valid"]) for row in curves)
    axes.set_ylim(low - 0.3 * (top - low), top + 0.1 * (top - low))


def _draw_bars(axes: Axes, rows: list[Row], summary: Row) -> None:
    values, mean, error = [row["improvement"] for row in rows], summary["improvement"], summary["improvement_std"]
    scaled = "scaled down: " if summary["dataset"] in SCALED else ""
    axes.set_title(f"{summary['dataset']} ({scaled}{summary['size']:,} images, {summary['clusters']} clusters)")
    colors = [STYLES["hyperspn" if value > 0 else "weight_decay"][1] for value in values]
    axes.bar(range(1, len(values) + 1), values, color=colors)
    axes.axhline(0, color="black", linewidth=0.8)
    label = f"weighted mean {mean:.1f} ± {error:.1f}, {summary['improved']:.0%} improved"
    axes.axhline(mean, color="black", linestyle="--", label=label)
    if "improvement_published" in summary:
        published, spread = summary["improvement_published"], summary["improvement_published_std"]
        label = f"published, all of SVHN: {published:.0f} ± {spread:.0f}, about {summary['improved_published']:.0%}"
        axes.axhline(published, color="gray", linestyle=":", label=label)
    axes.legend(fontsize="small")


def save(figure: Figure, path: Path) -> None:
    """Writes the figure as PNG and as SVG; the same figure gives the same files."""
    with matplotlib.rc_context({"svg.hashsalt": path.name}):
        write(path.with_suffix(".png"), _render(figure, format="png", dpi=150))
        write(path.with_suffix(".svg"), _render(figure, format="svg", metadata={"Date": None}))


def _render(figure: Figure, **options: Any) -> bytes:
    content = BytesIO()
    figure.savefig(content, **options)
    return content.getvalue()


FIGURES = {"figure5": training_curves, "figure6": improvements, "figure6-annealed": improvements}
