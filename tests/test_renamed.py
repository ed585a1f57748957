"""Names of version 0.1.0 work, with one line that names the new one."""

import importlib
import sys

import pytest

import hyperspn


@pytest.mark.parametrize(
    "old", ["tables", "circuit", "models", "mixtures", "sectors", "network", "pictures", "compiled"]
)
def test_modules(old):
    sys.modules.pop(f"hyperspn.{old}", None)
    with pytest.warns(FutureWarning, match=rf"^hyperspn.{old} is now hyperspn\.\w+"):
        module = importlib.import_module(f"hyperspn.{old}")
    assert module.__name__ != f"hyperspn.{old}"


@pytest.mark.parametrize(("old", "new"), [("warm_start", "start_from_clusters"), ("ClusterMixture", "Mixture")])
def test_names(old, new):
    with pytest.warns(FutureWarning, match=f"^hyperspn.{old} is now hyperspn.{new}$"):
        assert getattr(hyperspn, old) is getattr(hyperspn, new)


def test_functions():
    with pytest.warns(
        FutureWarning, match=r"^hyperspn\.data\.datasets\.load is now hyperspn\.data\.datasets\.load_dataset$"
    ):
        assert len(hyperspn.datasets.load("digits").train) == 1257


def test_public_modules_can_be_imported_by_their_names():
    for name in ("datasets", "images", "queries", "recipes", "structures", "weights", "leaves"):
        assert importlib.import_module(f"hyperspn.{name}") is getattr(hyperspn, name)


def test_other_names_are_unknown():
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        hyperspn.nothing  # noqa: B018
