"""Circuits: structure, leaves and weights together, and exact answers to queries."""

from .circuit import Circuit
from .loading import load
from .mixtures import Mixture
from .models import HCLT, RATSPN, SPN, EiNet, HyperSPN

__all__ = ["HCLT", "RATSPN", "SPN", "Circuit", "EiNet", "HyperSPN", "Mixture", "load"]
