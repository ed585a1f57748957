"""Data: tables and data sets, free of torch."""

from .columns import Column, Schema
from .readers import read_table, table_of, write_table
from .recognize import recognize
from .splits import Splits, load_splits, split
from .tables import Table

__all__ = [
    "Column",
    "Schema",
    "Splits",
    "Table",
    "load_splits",
    "read_table",
    "recognize",
    "split",
    "table_of",
    "write_table",
]
