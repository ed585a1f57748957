"""Structures to look at: drawn by matplotlib, or handed to networkx."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .region_graph import RegionGraph

LABELED_VARIABLES = 3
WIDEST = 40.0  # inches

Place = tuple[float, float]


def plot(structure: RegionGraph, root: int | None, names: Sequence[str] | None, ax: Any) -> Any:
    """See `RegionGraph.plot`."""
    places = _places(structure, int(structure.roots[0]) if root is None else root)
    labels = {region: _label(structure, region, names) for region in places}
    longest = max(map(len, labels.values()))
    ax = _axes(places, longest) if ax is None else ax
    for region, place in places.items():
        partitions = structure.partitions(region)
        for number, children in enumerate(partitions):
            joint = (place[0] + 0.4 * (number - (len(partitions) - 1) / 2), place[1] - 0.3 * (len(partitions) > 1))
            for end in [place, *(places[child] for child in children)]:
                ax.plot(*zip(joint, end, strict=True), color="0.6", linewidth=1, zorder=1)
            if len(partitions) > 1:
                ax.plot(*joint, "s", color="black", markersize=4, zorder=2)
        box = {"boxstyle": "round", "facecolor": "white" if partitions else "lightsteelblue", "edgecolor": "0.3"}
        upright = {"rotation": 90, "va": "top"} if longest > 4 and not partitions else {"va": "center"}
        ax.text(*place, labels[region], ha="center", fontsize=9, bbox=box, zorder=3, **upright)
    return ax


def to_networkx(structure: RegionGraph) -> Any:
    """See `RegionGraph.to_networkx`."""
    try:
        import networkx
    except ImportError as error:
        raise ImportError("to_networkx needs networkx, which is not installed: try `pip install networkx`") from error
    graph = networkx.DiGraph()
    for region in range(structure.num_regions):
        scope = structure.scope(region)
        graph.add_node(region, kind="region", scope=scope)
        for number, children in enumerate(structure.partitions(region)):
            partition = (region, number)
            graph.add_node(partition, kind="partition", scope=scope)
            graph.add_edges_from([(region, partition), *((partition, child) for child in children)])
    return graph


def _places(structure: RegionGraph, root: int) -> dict[int, Place]:
    """Where to draw the regions below a root: leaves side by side, each region above the middle of its children.

    Regions with several parents would hide each other there, so that those of one depth are spread evenly.
    """
    depths = _depths(structure, root)
    leaves = [region for region in _left_to_right(structure, root) if not structure.partition_counts[region]]
    across = {leaf: float(number) for number, leaf in enumerate(leaves)}
    for region in sorted(depths.keys() - across.keys()):  # children come before their parents
        ends = [across[child] for partition in structure.partitions(region) for child in partition]
        across[region] = (min(ends) + max(ends)) / 2
    if not structure.is_forest:
        levels = [[region for region in depths if depths[region] == depth] for depth in set(depths.values())]
        width = 1.5 * max(map(len, levels))
        for level in levels:
            level.sort(key=across.__getitem__)
            across |= {region: (number + 0.5) * width / len(level) for number, region in enumerate(level)}
    return {region: (across[region], -float(depth)) for region, depth in depths.items()}


def _depths(structure: RegionGraph, root: int) -> dict[int, int]:
    """The length of the longest way down to each region below the root."""
    depths = {root: 0}
    for region in range(root, -1, -1):  # parents come after their children
        for partition in structure.partitions(region) if region in depths else []:
            depths |= {child: max(depths.get(child, 0), depths[region] + 1) for child in partition}
    return depths


def _left_to_right(structure: RegionGraph, root: int) -> list[int]:
    """All regions below the root, each once, the left ones first."""
    visited: dict[int, None] = {}
    pending = [root]
    while pending:
        region = pending.pop()
        if region not in visited:
            visited[region] = None
            pending += reversed([child for partition in structure.partitions(region) for child in partition])
    return list(visited)


def _label(structure: RegionGraph, region: int, names: Sequence[str] | None) -> str:
    """The variables of a leaf, and of any other region how many it has."""
    scope = structure.scope(region)
    if structure.partition_counts[region]:
        return f"{len(scope)}"
    if len(scope) > LABELED_VARIABLES:
        return f"{len(scope)} variables"
    return ", ".join(f"{variable}" if names is None else names[variable] for variable in scope)


def _axes(places: dict[int, Place], longest: int) -> Any:
    """Axes that hold all places, and labels of at most `longest` letters below the lowest ones."""
    from matplotlib import pyplot

    across, down = zip(*places.values(), strict=True)
    bottom, right = min(down) - 0.5 - 0.12 * longest, max(across) + 1
    axes = pyplot.figure(figsize=(min(WIDEST, 0.5 * (right + 1)), 0.8 * (0.5 - bottom))).add_axes((0, 0, 1, 1))
    axes.set(xlim=(-1, right), ylim=(bottom, 0.5))
    axes.set_axis_off()
    return axes
