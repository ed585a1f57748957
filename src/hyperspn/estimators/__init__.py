"""Estimators: the face for scikit-learn."""

from .classifier import HyperSPNClassifier
from .density import HyperSPNDensity
from .imputer import HyperSPNImputer
from .outliers import HyperSPNOutlierDetector
from .regressor import HyperSPNRegressor

__all__ = ["HyperSPNClassifier", "HyperSPNDensity", "HyperSPNImputer", "HyperSPNOutlierDetector", "HyperSPNRegressor"]
