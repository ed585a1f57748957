"""HyperSPNs: probabilistic circuits whose weights a small neural network writes."""

from __future__ import annotations

import sys

from typing import TYPE_CHECKING, Any

from . import renamed, structures, weights
from .asking import TableModel, fit_table
from .circuits import HCLT, RATSPN, SPN, Circuit, EiNet, HyperSPN, Mixture, load, queries
from .data import datasets, images
from .learning import EM, fit, fit_clusters, fit_ensemble, recipes, start_from_clusters
from .leaves import Binomial, Categorical, Evidence, Gaussian, Histogram, Numeric
from .structures import RegionGraph

if TYPE_CHECKING:
    from .estimators import (
        HyperSPNClassifier,
        HyperSPNDensity,
        HyperSPNImputer,
        HyperSPNOutlierDetector,
        HyperSPNRegressor,
    )

__version__ = "0.2.0"

__all__ = [
    "EM",
    "HCLT",
    "RATSPN",
    "SPN",
    "Binomial",
    "Categorical",
    "Circuit",
    "EiNet",
    "Evidence",
    "Gaussian",
    "Histogram",
    "HyperSPN",
    "HyperSPNClassifier",
    "HyperSPNDensity",
    "HyperSPNImputer",
    "HyperSPNOutlierDetector",
    "HyperSPNRegressor",
    "Mixture",
    "Numeric",
    "RegionGraph",
    "TableModel",
    "datasets",
    "fit",
    "fit_clusters",
    "fit_ensemble",
    "fit_table",
    "images",
    "leaves",
    "load",
    "queries",
    "recipes",
    "start_from_clusters",
    "structures",
    "weights",
]

for module in (datasets, images, queries, recipes):  # hyperspn.recipes is hyperspn.learning.recipes
    sys.modules[f"{__name__}.{module.__name__.rpartition('.')[2]}"] = module
renamed.install()


def __getattr__(name: str) -> Any:
    if name in __all__ and name.startswith("HyperSPN"):  # scikit-learn takes as long as all else together
        from . import estimators

        return getattr(estimators, name)
    return renamed.attribute("", name)
