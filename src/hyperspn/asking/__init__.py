"""Asking: a circuit and the columns of its table together, and questions in the table's own words."""

from .distributions import Categories, Joint, Numbers
from .fitting import fit_splits, fit_table
from .table_model import TableModel

__all__ = ["Categories", "Joint", "Numbers", "TableModel", "fit_splits", "fit_table"]
