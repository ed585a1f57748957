"""Learning: circuits from data."""

from .em import EM
from .latent_tree import warm_start
from .train import History, fit

__all__ = ["EM", "History", "fit", "warm_start"]
