"""Data: tables and data sets, free of torch."""

from .columns import Column
from .describe import Description, describe
from .frames import like, table_of
from .readers import is_table, read_table
from .recognize import recognize
from .schema import Schema
from .splits import Splits, load_splits, split
from .writers import csv_text, write_table

__all__ = [
    "Column",
    "Description",
    "Schema",
    "Splits",
    "csv_text",
    "describe",
    "is_table",
    "like",
    "load_splits",
    "read_table",
    "recognize",
    "split",
    "table_of",
    "write_table",
]
