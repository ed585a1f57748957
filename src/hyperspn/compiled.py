"""The compiled C++ kernel, or None where the package was installed without a compiler."""

from __future__ import annotations

import warnings

from importlib import import_module
from typing import Any

kernel: Any = None
try:
    kernel = import_module("hyperspn._kernel")
except ImportError:
    warnings.warn(
        "hyperspn is installed without its compiled kernel, because no C++ compiler was found: "
        "everything works, but circuits are evaluated by the slower layered engine",
        stacklevel=2,
    )
