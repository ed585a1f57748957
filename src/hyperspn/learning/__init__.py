"""Learning: circuits from data."""

from .train import History, fit

__all__ = ["History", "fit"]
