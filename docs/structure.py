"""Draws docs/structure.png: what a learned structure sees in a data set. Run with `python docs/structure.py [NAME]`."""

from __future__ import annotations

import sys

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from hyperspn import datasets
from hyperspn.structures import RegionGraph, binary_trees, chow_liu, mutual_information

OUT = Path(__file__).with_suffix(".png")


def main(name: str = "plants") -> None:
    train = datasets.load_dataset(name).train
    information = np.sqrt(mutual_information(train))  # the root shows weak dependencies too
    learned = binary_trees(train.shape[1], replicas=1, data=train)
    order = learned.leaf_variables
    figure = Figure(figsize=(12, 5.2), layout="constrained")
    grid = figure.add_gridspec(2, 3, height_ratios=(1, 3), width_ratios=(1, 1, 1.4))
    figure.text(0.005, 0.98, f"{name}: {train.shape[1]} variables, {len(train):,} rows", va="top")
    for column, (title, matrix) in enumerate(
        {"original order": information, "learned order": information[np.ix_(order, order)]}.items()
    ):
        axes = figure.add_subplot(grid[1, column], title=title, xticks=[], yticks=[])
        axes.imshow(matrix, cmap="magma", interpolation="nearest")
    draw_tree(figure.add_subplot(grid[0, 1], title="its balanced tree"), learned)
    draw_tree(figure.add_subplot(grid[:, 2], title="Chow-Liu tree"), chow_liu(train, replicas=1))
    figure.savefig(OUT, dpi=150)


def draw_tree(axes: Axes, graph: RegionGraph) -> None:
    """Draws one tree, its leaves side by side at the bottom and each inner region in the middle above its children."""
    across, height = np.zeros(graph.num_regions), np.zeros(graph.num_regions)
    below = dict(inner_regions(graph))
    leaves = leaves_in_order(below, graph.num_regions - 1)
    across[leaves] = np.arange(len(leaves))
    for region, children in below.items():
        across[region], height[region] = across[children].mean(), height[children].max() + 1
        for child in children:
            axes.plot(across[[child, child, region]], height[[child, region, region]], color="0.3", linewidth=0.6)
    axes.plot(across[leaves], height[leaves], "o", color="tab:orange", markersize=2)
    axes.set_axis_off()


def inner_regions(graph: RegionGraph) -> Iterator[tuple[int, list[int]]]:
    """The inner regions and their children, from the bottom up."""
    ends = np.cumsum(graph.arities)
    for region, last, arity in zip(graph.partition_counts.nonzero()[0], ends, graph.arities, strict=True):
        yield int(region), graph.children[last - arity : last].tolist()


def leaves_in_order(below: dict[int, list[int]], region: int) -> list[int]:
    if region not in below:
        return [region]
    return [leaf for child in below[region] for leaf in leaves_in_order(below, child)]


if __name__ == "__main__":
    main(*sys.argv[1:])
