"""Every code block of the README and of the site runs, from top to bottom of its page."""

import gzip
import re
import runpy
import shlex
import webbrowser

from pathlib import Path

import numpy as np
import pytest

from typer.testing import CliRunner

from hyperspn import images, recipes
from hyperspn.cli.main import app
from hyperspn.data.datasets import Dataset
from hyperspn.data.tables import find_table

ROOT = Path(__file__).parents[1]
BLOCK = re.compile(r"^```([^\n]*)\n(.*?)^```", re.DOTALL | re.MULTILINE)
COMPUTE_FOR_HOURS = ("results.md", "beyond-the-paper.md")  # tests/test_docs.py checks their commands and options


def blocks(page):
    """The language and the text of each code block; what is in braces speaks to Sphinx."""
    return [(name, code) for name, code in BLOCK.findall(page.read_text(encoding="utf-8")) if name[:1] != "{"]


PAGES = [
    page
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    if blocks(page) and page.name not in COMPUTE_FOR_HOURS
]
QUICK = ["--recipe", "chow-liu", "--steps", "20", "--layer-size", "3", "--replicas", "2"]
SMALL = {
    model: {name: recipe._replace(layer_size=3, replicas=2) for name, recipe in group.items()}
    for model, group in recipes.RECIPES.items()
}


def run_command(line):
    program, *arguments = shlex.split(line, comments=True)
    if program in ("make", "pip"):
        return
    if program == "torchrun":  # tests/test_distributed.py starts it
        program, arguments = "hyperspn", arguments[arguments.index("hyperspn") + 1 :]
    assert program.endswith("hyperspn")
    answer = CliRunner().invoke(app, [*arguments, *(QUICK if arguments[0] == "train" else ())])
    assert answer.exit_code == 0, f"{line}: {answer.output} {answer.exception!r}"


def quick(code):
    """The same with fewer steps and clusters."""
    return re.sub(r"\bclusters=\d+", "clusters=2", re.sub(r"\bsteps=\d+", "steps=5", code))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with some rows of penguins.csv, and a small model of it."""
    folder = tmp_path_factory.mktemp("how-to")
    header, *rows = gzip.decompress(find_table("penguins")[""].read_bytes()).splitlines(keepends=True)
    (folder / "penguins.csv").write_bytes(b"".join([header, *rows[::4]]))
    run_command(f"hyperspn train penguins --out {folder / 'runs' / 'penguins'}")
    return folder


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_code_of_a_page_runs(page, folder, monkeypatch):
    noise = np.random.default_rng(0).integers(0, 256, (30, 3072)).astype(np.uint8)
    monkeypatch.setattr(images, "load_images", lambda name: Dataset(noise, noise, noise))
    for name in ("FEWEST", "MOST"):
        monkeypatch.setattr(recipes, name, 4)
    monkeypatch.setattr(recipes, "RECIPES", SMALL)
    monkeypatch.setattr(webbrowser, "open", lambda address: True)
    monkeypatch.chdir(folder)
    names = {}
    for language, code in blocks(page):
        if language == "python":
            Path("block.py").write_text(quick(code), encoding="utf-8")
            names |= runpy.run_path("block.py", names)
        else:
            assert language == "sh", f"expected python or sh, found {language!r}"
            for line in code.splitlines():
                run_command(line)
