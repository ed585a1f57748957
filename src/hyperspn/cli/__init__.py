"""The command line: parse, call, print."""

from .main import main, start

__all__ = ["main", "start"]
