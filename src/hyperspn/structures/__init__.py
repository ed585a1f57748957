"""Structures: functions that return a `RegionGraph`."""

from .binary_trees import binary_trees
from .chow_liu import chow_liu
from .mutual_information import mutual_information
from .poon_domingos import poon_domingos
from .region_graph import RegionGraph

__all__ = ["RegionGraph", "binary_trees", "chow_liu", "mutual_information", "poon_domingos"]
