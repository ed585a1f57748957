"""Asking: a circuit and the columns of its table together, and questions in the table's own words."""

from .distributions import Categories, Joint, Numbers
from .explain import Explanation
from .fitting import fit_splits, fit_table
from .influence import Influence
from .scoring import Scorer, map_batches, score_files
from .surprisal import StrangeCell, StrangeRow, Surprisal
from .table_model import TableModel

__all__ = [
    "Categories",
    "Explanation",
    "Influence",
    "Joint",
    "Numbers",
    "Scorer",
    "StrangeCell",
    "StrangeRow",
    "Surprisal",
    "TableModel",
    "fit_splits",
    "fit_table",
    "map_batches",
    "score_files",
]
