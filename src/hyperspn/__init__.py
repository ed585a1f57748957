"""HyperSPNs: probabilistic circuits whose weights a small neural network writes."""

from . import datasets, queries, structures, tables
from .circuit import Circuit, load
from .learning import fit
from .leaves import Binomial, Categorical, Gaussian, Histogram
from .mixtures import ClusterMixture, fit_clusters
from .models import SPN, EiNet, HyperSPN
from .structures import RegionGraph

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
    "RegionGraph",
    "datasets",
    "fit",
    "fit_clusters",
    "load",
    "queries",
    "structures",
    "tables",
]
