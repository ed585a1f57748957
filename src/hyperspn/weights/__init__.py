"""Weights: who writes the sum weights of a circuit, sector by sector."""

from .counts import count_weights
from .direct import DirectWeights
from .factored import FactoredWeights
from .hyper import HyperWeights
from .sectors import Sectors, SumLayer
from .source import WeightSource, normalize

__all__ = [
    "DirectWeights",
    "FactoredWeights",
    "HyperWeights",
    "Sectors",
    "SumLayer",
    "WeightSource",
    "count_weights",
    "normalize",
]
