"""Engines: how a circuit is evaluated."""

from .layered import LayeredEngine

__all__ = ["LayeredEngine"]
