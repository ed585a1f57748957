"""Learning: circuits from data."""

from .clusters import fit_clusters
from .em import EM
from .history import History
from .start_from_clusters import start_from_clusters
from .train import fit

__all__ = ["EM", "History", "fit", "fit_clusters", "start_from_clusters"]
