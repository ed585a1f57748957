"""Engines: how a circuit is evaluated."""

from __future__ import annotations

import os

from ..leaves.leaves import Leaves
from ..weights.sectors import Sectors
from .layered import LayeredEngine
from .native import NativeEngine

__all__ = ["LayeredEngine", "NativeEngine", "choose_engine"]


def choose_engine(name: str, sectors: Sectors, leaves: Leaves) -> LayeredEngine:
    """Returns the engine of that name.

    Arguments:
        name: "native", "layered", or "auto": what the environment variable HYPERSPN_ENGINE says, or else the
            native engine where it can serve.
        sectors: The layers of the circuit.
        leaves: The distributions of its variables.
    """
    if name == "auto":
        name = os.environ.get("HYPERSPN_ENGINE") or "auto"
    if name not in ("auto", "native", "layered"):
        raise ValueError(f"expected engine 'auto', 'native' or 'layered', found {name!r}")
    if name == "native" or (name == "auto" and NativeEngine.obstacle(sectors) is None):
        return NativeEngine(sectors, leaves, strict=name == "native")
    return LayeredEngine(sectors)
