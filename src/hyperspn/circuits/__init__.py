"""Circuits: structure, leaves and weights together, and exact answers to queries."""

from .circuit import Circuit
from .loading import load
from .mixtures import ClusterMixture
from .models import HCLT, RATSPN, SPN, EiNet, HyperSPN

__all__ = ["HCLT", "RATSPN", "SPN", "Circuit", "ClusterMixture", "EiNet", "HyperSPN", "load"]
