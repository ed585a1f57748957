"""HyperSPNs: probabilistic circuits whose weights a small neural network writes."""

from typing import TYPE_CHECKING, Any

from . import datasets, queries, structures, tables
from .circuit import Circuit, load
from .learning import fit, warm_start
from .leaves import Binomial, Categorical, Gaussian, Histogram
from .mixtures import ClusterMixture, fit_clusters
from .models import SPN, EiNet, HyperSPN
from .structures import RegionGraph

if TYPE_CHECKING:
    from .estimators import HyperSPNDensity

__version__ = "0.1.0"

__all__ = [
    "SPN",
    "Binomial",
    "Categorical",
    "Circuit",
    "ClusterMixture",
    "EiNet",
    "Gaussian",
    "Histogram",
    "HyperSPN",
    "HyperSPNDensity",
    "RegionGraph",
    "datasets",
    "fit",
    "fit_clusters",
    "load",
    "queries",
    "structures",
    "tables",
    "warm_start",
]


def __getattr__(name: str) -> Any:
    """Imports scikit-learn, which takes as long as all else together, only where it is wanted."""
    if name != "HyperSPNDensity":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from .estimators import HyperSPNDensity

    return HyperSPNDensity
