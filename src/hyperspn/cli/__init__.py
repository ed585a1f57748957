"""The command line: parse, call, print."""

from .main import main

__all__ = ["main"]
