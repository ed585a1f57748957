"""Names of version 0.1.0 that have new ones: they work, with one line that names the new one."""

from __future__ import annotations

import sys
import warnings

from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

MODULES = {
    "tables": "data",
    "circuit": "circuits",
    "models": "circuits",
    "mixtures": "circuits",
    "sectors": "weights.sectors",
    "network": "weights.network",
    "pictures": "data.pictures",
    "compiled": "kernel",
}
ATTRIBUTES = {"ClusterMixture": "Mixture", "warm_start": "start_from_clusters"}

FUNCTIONS = {
    "data": {"load": "load_splits", "recognise": "recognize"},
    "data.datasets": {"load": "load_dataset"},
    "data.images": {"load": "load_images"},
}


class RenamedModules(MetaPathFinder, Loader):
    """Finds ``hyperspn.tables`` where ``hyperspn.data`` is."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        package, _, last = name.rpartition(".")
        return ModuleSpec(name, self) if package == __package__ and last in MODULES else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        last = spec.name.rpartition(".")[2]
        warn(spec.name, f"{__package__}.{MODULES[last]}")
        return import_module(f"{__package__}.{MODULES[last]}")

    def exec_module(self, module: ModuleType) -> None:
        """The module has been executed under its new name."""


def install() -> None:
    sys.meta_path.append(RenamedModules())
    for module, functions in FUNCTIONS.items():
        home = import_module(f"{__package__}.{module}")
        for old, new in functions.items():
            setattr(home, old, _function(f"{home.__name__}.{old}", f"{home.__name__}.{new}", getattr(home, new)))


def attribute(name: str) -> Any:
    """What has this name in version 0.1.0."""
    package = sys.modules[__package__]
    if name in MODULES:
        return import_module(f"{__package__}.{name}")
    if name in ATTRIBUTES:
        warn(f"{__package__}.{name}", f"{__package__}.{ATTRIBUTES[name]}")
        return getattr(package, ATTRIBUTES[name])
    raise AttributeError(f"module {__package__!r} has no attribute {name!r}")


def _function(old: str, new: str, call: Any) -> Any:
    """A function under its old name."""

    def renamed(*arguments: Any, **options: Any) -> Any:
        warn(old, new)
        return call(*arguments, **options)

    return renamed


def warn(old: str, new: str) -> None:
    warnings.warn(f"{old} is now {new}", FutureWarning, stacklevel=3)
