"""Learning: circuits from data."""

from .clusters import fit_clusters
from .em import EM
from .ensembles import fit_ensemble
from .history import History
from .start_from_clusters import start_from_clusters
from .train import fit

__all__ = ["EM", "History", "fit", "fit_clusters", "fit_ensemble", "start_from_clusters"]
