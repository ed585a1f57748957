"""A module imports only from the layers below its own."""

import ast
import subprocess
import sys

from pathlib import Path

import pytest

import hyperspn

PACKAGE = Path(hyperspn.__file__).parent
LAYERS = [
    {"structures.region_graph"},
    {"structures.mutual_information"},
    {"structures.binary_trees", "structures.chow_liu", "structures.poon_domingos"},
    {"structures", "compiled"},
    {"sectors", "network"},
    {"weights", "leaves"},
    {"engines.layered", "engines.trees"},
    {"engines.native"},
    {"engines"},
    {"queries"},
    {"circuit"},
    {"models"},
    {"learning.checkpoint", "learning.em", "learning.regularizers", "learning.latent_tree"},
    {"learning.train"},
    {"learning"},
    {"mixtures"},
    {"datasets"},
    {"tables", "pictures", "recipes"},
    {"images"},
    {"estimators"},
    {""},
    {"experiments.settings", "experiments.parzen"},
    {"experiments.runs"},
    {"experiments.tables"},
    {"experiments.beyond", "experiments.svhn"},
    {"experiments.artefacts", "experiments.figures"},
    {"experiments.reproduce"},
    {"experiments"},
    {"cli"},
    {"__main__"},
]
HEIGHT = {name: height for height, layer in enumerate(LAYERS) for name in layer}


def module_name(path: Path) -> str:
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_name(path): path for path in PACKAGE.rglob("*.py")}


def imported(name: str, path: Path) -> set[str]:
    """The modules of the package that a file imports."""
    package = name.split(".") if path.name == "__init__.py" else name.split(".")[:-1]
    package = [part for part in package if part]
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.level:
            base = package[: len(package) - node.level + 1] + (node.module.split(".") if node.module else [])
            names = {".".join([*base, alias.name]) for alias in node.names}
            found |= (names & MODULES.keys()) or ({".".join(base)} if node.module else set())
    return found


def test_every_module_has_its_layer():
    assert HEIGHT.keys() == MODULES.keys()


@pytest.mark.parametrize("name", MODULES)
def test_imports_go_down(name):
    for other in imported(name, MODULES[name]):
        assert HEIGHT[other] < HEIGHT[name], f"{name or 'hyperspn'} imports {other}"


def test_structures_do_not_need_torch():
    for name, path in MODULES.items():
        if name.startswith("structures"):
            assert "torch" not in path.read_text()


def test_scikit_learn_is_imported_only_where_it_is_wanted():
    code = "import sys, hyperspn; sys.exit('sklearn' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
