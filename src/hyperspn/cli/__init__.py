"""The command line: parse, call, print."""

from .main import keep_pandas_out, main

__all__ = ["keep_pandas_out", "main"]
