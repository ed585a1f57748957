"""Names of version 0.1.0 work, with one line that names the new one."""

import importlib
import re
import sys

from operator import attrgetter
from pathlib import Path

import pytest

import hyperspn

from hyperspn.renamed import NAMES

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize(
    "old", ["tables", "circuit", "models", "mixtures", "sectors", "network", "pictures", "compiled"]
)
def test_modules(old):
    sys.modules.pop(f"hyperspn.{old}", None)
    with pytest.warns(FutureWarning, match=rf"^hyperspn.{old} is now hyperspn\.\w+"):
        module = importlib.import_module(f"hyperspn.{old}")
    assert module.__name__ != f"hyperspn.{old}"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("warm_start", "start_from_clusters"),
        ("learning.warm_start", "start_from_clusters"),
        ("ClusterMixture", "Mixture"),
        ("circuits.ClusterMixture", "Mixture"),
        ("circuits.fit_clusters", "fit_clusters"),
        ("datasets.load", "datasets.load_dataset"),
        ("images.load", "images.load_images"),
        ("data.load", "data.load_splits"),
        ("data.recognise", "data.recognize"),
    ],
)
def test_names(old, new):
    with pytest.warns(FutureWarning, match=f"^hyperspn.{old} is now hyperspn.{new}$"):
        renamed = attrgetter(old)(hyperspn)
    assert renamed is attrgetter(new)(hyperspn)


def test_names_in_modules_that_were_renamed():
    with pytest.warns(FutureWarning) as warned:
        from hyperspn.mixtures import ClusterMixture
    assert ClusterMixture is hyperspn.Mixture
    assert str(warned[-1].message) == "hyperspn.circuits.ClusterMixture is now hyperspn.Mixture"


def test_public_modules_can_be_imported_by_their_names():
    for name in ("datasets", "images", "queries", "recipes", "structures", "weights", "leaves"):
        assert importlib.import_module(f"hyperspn.{name}") is getattr(hyperspn, name)


def test_other_names_are_unknown():
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        hyperspn.nothing  # noqa: B018
    with pytest.raises(AttributeError, match=r"'hyperspn\.circuits' has no attribute 'nothing'"):
        hyperspn.circuits.nothing  # noqa: B018


@pytest.mark.parametrize(
    "path", sorted([*ROOT.glob("benchmarks/*.py"), *ROOT.glob("examples/*.py")]), ids=lambda path: path.name
)
def test_scripts_use_no_old_name(path):
    olds = [f"{home}.{name}".lstrip(".") for home, names in NAMES.items() for name in names]
    assert [old for old in olds if re.search(rf"\b{re.escape(old)}\b", path.read_text())] == []
