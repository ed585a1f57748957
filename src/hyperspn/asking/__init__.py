"""Asking: a circuit and the columns of its table together, and questions in the table's own words."""

from .distributions import Categories, Joint, Numbers
from .fitting import fit_splits, fit_table
from .scoring import Scorer, map_batches, score_files
from .table_model import TableModel

__all__ = [
    "Categories",
    "Joint",
    "Numbers",
    "Scorer",
    "TableModel",
    "fit_splits",
    "fit_table",
    "map_batches",
    "score_files",
]
