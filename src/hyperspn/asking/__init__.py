"""Asking: a circuit and the columns of its table together, and questions in the table's own words."""

from .table_model import TableModel

__all__ = ["TableModel"]
