"""Structures: functions that return a `RegionGraph`."""

from .binary_trees import binary_trees
from .region_graph import RegionGraph

__all__ = ["RegionGraph", "binary_trees"]
