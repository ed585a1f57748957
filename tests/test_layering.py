"""Every room uses only the rooms that it may use."""

import ast
import subprocess
import sys

from pathlib import Path

import pytest

import hyperspn

PACKAGE = Path(hyperspn.__file__).parent
MAY_USE = {
    "checks": "",
    "files": "",
    "renamed": "",
    "structures": "",
    "data": "",
    "kernel": "",
    "weights": "structures kernel",
    "leaves": "data",
    "engines": "structures weights leaves kernel",
    "circuits": "structures weights leaves engines",
    "learning": "data structures weights leaves engines circuits kernel",
    "asking": "data structures weights leaves engines circuits learning",
    "estimators": "data circuits learning asking",
    "explorer": "data weights leaves circuits learning asking",
    "experiments": "data structures weights leaves engines circuits learning asking estimators",
    "cli": "data structures weights leaves engines circuits learning asking estimators explorer experiments",
}
EXCEPTIONS = {"asking/table_model.py": "explorer"}  # `TableModel.explore` imports it when it is called
FILES = [path for path in PACKAGE.rglob("*.py") if path.parent != PACKAGE or path.stem in MAY_USE]


def room_of(path):
    return path.relative_to(PACKAGE).with_suffix("").parts[0]


def rooms_used(path):
    """The rooms from which a file imports, by relative imports."""
    package = path.relative_to(PACKAGE).parts[:-1]
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.level:
            parts = (*package[: len(package) - node.level + 1], *(node.module or "").split("."))
            yield from [parts[0]] if parts[0] else [alias.name for alias in node.names]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_a_room_uses_only_the_rooms_that_it_may_use(path):
    room, exception = room_of(path), EXCEPTIONS.get(path.relative_to(PACKAGE).as_posix(), "")
    assert set(rooms_used(path)) <= {room, "checks", "files", "__version__", *MAY_USE[room].split(), exception}


@pytest.mark.parametrize(
    ("imported", "absent"),
    [
        ("hyperspn.structures", "torch"),
        ("hyperspn.data", "torch"),
        ("hyperspn", "sklearn matplotlib networkx pandas pyarrow"),
    ],
)
def test_what_an_import_does_not_bring(imported, absent):
    """The package itself imports torch, so a room is imported below an empty package of the same name."""
    code = f"""
import importlib, sys, types
if "." in "{imported}":
    package = types.ModuleType("hyperspn")
    package.__path__ = [{str(PACKAGE)!r}]
    sys.modules["hyperspn"] = package
importlib.import_module("{imported}")
print(*(name for name in "{absent}".split() if name in sys.modules))
"""
    result = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert (result.returncode, result.stdout.strip()) == (0, "")
