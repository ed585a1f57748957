"""The paper's figures, from records."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import matplotlib

from matplotlib.figure import Figure

from ..learning.checkpoint import write
from .tables import Row

STYLES = {
    "weight_decay": ("SPN-Large", "tab:blue"),
    "spn_small": ("SPN-Small", "tab:green"),
    "hyperspn": ("HyperSPN", "tab:orange"),
}


def training_curves(rows: Sequence[Row]) -> Figure:
    """Figure 5: mean log-likelihood of training (dashed) and validation rows (solid) by step."""
    datasets = list(dict.fromkeys(row["dataset"] for row in rows))
    figure = Figure(figsize=(5 * max(1, len(datasets)), 3.6), layout="constrained")
    for place, dataset in enumerate(datasets, 1):
        axes = figure.add_subplot(1, len(datasets), place, title=dataset, xlabel="step", ylabel="log-likelihood")
        curves = [row for row in rows if row["dataset"] == dataset]
        for row in curves:
            name, colour = STYLES[row["method"]]
            axes.plot(row["steps"][1:], row["train"][1:], "--", color=colour, linewidth=1, label=f"{name}, train")
            axes.plot(row["steps"][1:], row["valid"][1:], color=colour, label=f"{name}, valid")
        top = max(max(row["train"]) for row in curves)
        low = min(max(row["valid"]) for row in curves)
        axes.set_ylim(low - (top - low), top + 0.1 * (top - low))
        axes.legend(fontsize="small")
    return figure


def save(figure: Figure, path: Path) -> None:
    """Writes the figure as PNG and as SVG; the same figure gives the same files."""
    with matplotlib.rc_context({"svg.hashsalt": path.name}):
        write(path.with_suffix(".png"), lambda file: figure.savefig(file, format="png", dpi=150))
        write(path.with_suffix(".svg"), lambda file: figure.savefig(file, format="svg", metadata={"Date": None}))
