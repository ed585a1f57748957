"""Estimators: the face for scikit-learn."""

from .density import HyperSPNDensity

__all__ = ["HyperSPNDensity"]
