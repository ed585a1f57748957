"""Axis-aligned cuts of a grid, all of them at once: the structure of Poon and Domingos for images (EiNets)."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, prod

import numpy as np

from .region_graph import RegionGraph

Box = tuple[tuple[int, int], ...]  # for each axis the first cell and the one after the last
Lines = list[list[int]]  # for each axis the places where it may be cut
Delta = float | Sequence[float | Sequence[float]]


def poon_domingos(
    shape: Sequence[int], axes: Sequence[int] | None = None, delta: Delta = 8, channels: int = 1
) -> RegionGraph:
    """Cuts a grid of cells into two boxes in every possible way, and these again; equal boxes are one region.

    The lines to cut at lie ``delta`` apart on the whole grid. Of several deltas, a box is cut at the lines of the first
    that has any within it. Boxes that no line goes through are the leaves. The published setting for images of 32 x 32
    pixels, vertical cuts every 8 columns, has 10 regions and 10 partitions.

    Variable c + channels * i is channel c of cell i, counted row by row.

    Arguments:
        shape: The number of cells along each axis.
        axes: The axes to cut; by default all.
        delta: The distance of lines >= 1: one for all, a list from coarse to fine, or a list of lists, in which
            each has one entry for each of the axes.
        channels: The number of variables in each cell.

    Example:
        >>> poon_domingos((32, 32), axes=[1], delta=8).num_regions
        10
    """
    if not shape or any(not isinstance(size, int) or size < 1 for size in (*shape, channels)):
        raise ValueError(f"expected whole numbers >= 1 as shape and channels, found {shape} and {channels}")
    axes = range(len(shape)) if axes is None else axes
    if len(set(axes)) != len(axes) or not set(axes) <= set(range(len(shape))):
        raise ValueError(f"expected different axes 0..{len(shape) - 1}, found {list(axes)}")
    levels = [_lines(shape, axes, distance) for distance in ([delta] if isinstance(delta, (int, float)) else delta)]

    cuts: dict[Box, list[tuple[Box, Box]]] = {}
    pending: list[Box] = [tuple((0, size) for size in shape)]
    while pending:
        box = pending.pop()
        if box not in cuts:
            cuts[box] = next(filter(None, (_cuts(box, lines) for lines in levels)), [])
            pending += [part for cut in cuts[box] for part in cut]
    boxes = sorted(cuts, key=lambda box: (prod(stop - start for start, stop in box), box))
    numbers = {box: number for number, box in enumerate(boxes)}
    variables = np.arange(prod(shape) * channels).reshape(*shape, channels)
    return RegionGraph.from_regions(
        {"partitions": [[numbers[part] for part in cut] for cut in cuts[box]]}
        if cuts[box]
        else {"variables": variables[tuple(slice(*ends) for ends in box)].ravel().tolist()}
        for box in boxes
    )


def _lines(shape: Sequence[int], axes: Sequence[int], delta: float | Sequence[float]) -> Lines:
    """The lines of one delta, for each axis of the grid."""
    distances = [delta] * len(axes) if isinstance(delta, (int, float)) else list(delta)
    if len(distances) != len(axes) or not all(distance >= 1 for distance in distances):
        raise ValueError(f"expected a delta >= 1, or one for each of the axes {list(axes)}, found {delta}")
    lines: Lines = [[] for _ in shape]
    for axis, distance in zip(axes, distances, strict=True):
        count = int((shape[axis] - 1) // distance)
        lines[axis] = [ceil(distance * number) for number in range(1, count + 1)]
    return lines


def _cuts(box: Box, lines: Lines) -> list[tuple[Box, Box]]:
    """The two parts of a box for each line through it."""
    return [
        (box[:axis] + ((start, line),) + box[axis + 1 :], box[:axis] + ((line, stop),) + box[axis + 1 :])
        for axis, (start, stop) in enumerate(box)
        for line in lines[axis]
        if start < line < stop
    ]
