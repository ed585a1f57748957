import json
import shlex
import sys

import numpy as np
import pytest
import torch

from typer.testing import CliRunner

from hyperspn.cli import main
from hyperspn.cli.main import app

QUICK = "--replicas 4 --steps 150 --evaluate-every 50"


@pytest.fixture(scope="module")
def one_thread():
    """For small circuits, and for numbers that must be the same to the last bit."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def run(monkeypatch, capsys):
    """Runs the command line in this process: (exit code, standard output, standard error)."""

    def run(arguments):
        monkeypatch.setattr(sys, "argv", ["hyperspn", *shlex.split(arguments)])
        with pytest.raises(SystemExit) as stop:
            main()
        return stop.value.code or 0, *capsys.readouterr()

    return run


@pytest.fixture(scope="session")
def people(tmp_path_factory):
    """A table with names, strings, numbers and holes, and a model trained on it."""
    folder = tmp_path_factory.mktemp("people")
    generator = np.random.default_rng(0)
    lines = ["color,size,price,in stock"]
    for _ in range(400):
        red = generator.random() < 0.5
        size = generator.integers(1, 4)
        price = f"{(20 if red else 5) + size + generator.normal():.2f}" if generator.random() < 0.9 else ""
        color = ("red" if red else "blue") if generator.random() < 0.9 else "NA"
        lines.append(f"{color},{size},{price},{'yes' if generator.random() < 0.7 else 'no'}")
    (folder / "people.csv").write_text("\n".join(lines) + "\n")
    arguments = f"train {folder}/people.csv --out {folder}/run {QUICK} --json"
    done = CliRunner().invoke(app, arguments.split())
    assert done.exit_code == 0, done.output
    return folder, json.loads(done.stdout)
