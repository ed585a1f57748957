"""The paper's figures, from records."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from matplotlib.figure import Figure

from .tables import Row

NAMES = {"weight_decay": "SPN-Large", "spn_small": "SPN-Small", "hyperspn": "HyperSPN"}
COLOURS = {"weight_decay": "tab:blue", "spn_small": "tab:green", "hyperspn": "tab:orange"}


def training_curves(rows: Sequence[Row]) -> Figure:
    """Figure 5: mean log-likelihood of training (dashed) and validation rows (solid) by step."""
    datasets = list(dict.fromkeys(row["dataset"] for row in rows))
    figure = Figure(figsize=(5 * len(datasets), 3.6), layout="constrained")
    for place, dataset in enumerate(datasets, 1):
        axes = figure.add_subplot(1, len(datasets), place, title=dataset, xlabel="step", ylabel="log-likelihood")
        curves = [row for row in rows if row["dataset"] == dataset]
        for row in curves:
            name, colour = NAMES[row["method"]], COLOURS[row["method"]]
            axes.plot(row["steps"][1:], row["train"][1:], "--", color=colour, linewidth=1, label=f"{name}, train")
            axes.plot(row["steps"][1:], row["valid"][1:], color=colour, label=f"{name}, valid")
        best = max(max(row["train"]) for row in curves)
        low = min(max(row["valid"]) for row in curves)
        axes.set_ylim(low - (best - low), best + 0.1 * (best - low))
        axes.legend(fontsize="small")
    return figure


def save(figure: Figure, path: Path) -> None:
    """Writes the figure beside its place, as PNG and as SVG."""
    for suffix in (".png", ".svg"):
        figure.savefig(path.with_suffix(suffix), dpi=150)
