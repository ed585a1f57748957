"""Learning: circuits from data."""

from .em import EM
from .train import History, fit

__all__ = ["EM", "History", "fit"]
