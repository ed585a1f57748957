"""Structures: functions that return a `RegionGraph`."""

from .binary_trees import binary_trees
from .poon_domingos import poon_domingos
from .region_graph import RegionGraph

__all__ = ["RegionGraph", "binary_trees", "poon_domingos"]
