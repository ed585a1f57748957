"""Names of version 0.1.0 that have new ones: they work, with one line that names the new one."""

from __future__ import annotations

import sys
import warnings

from functools import partial
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from operator import attrgetter
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
NAMES = {
    "": {"ClusterMixture": "Mixture", "warm_start": "start_from_clusters"},
    "circuits": {"ClusterMixture": "Mixture", "fit_clusters": "fit_clusters"},
    "data": {"load": "data.load_splits", "recognise": "data.recognize"},
    "datasets": {"load": "datasets.load_dataset"},
    "images": {"load": "images.load_images"},
    "learning": {"warm_start": "start_from_clusters"},
    "recipes": {"search": "learning.search.search"},
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
    for home in filter(None, NAMES):
        module: Any = import_module(f"{__package__}.{home}")
        module.__getattr__ = partial(attribute, home)


def attribute(home: str, name: str) -> Any:
    """What had this name in a module of version 0.1.0."""
    module = f"{__package__}.{home}".rstrip(".")
    if not home and name in MODULES:
        return import_module(f"{module}.{name}")
    if name not in NAMES[home]:
        raise AttributeError(f"module {module!r} has no attribute {name!r}")
    new = NAMES[home][name]
    warn(f"{module}.{name}", f"{__package__}.{new}")
    return attrgetter(new)(sys.modules[__package__])


def warn(old: str, new: str) -> None:
    warnings.warn(f"{old} is now {new}", FutureWarning, stacklevel=3)
