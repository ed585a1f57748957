import json
import subprocess
import sys

import pytest

import hyperspn

from hyperspn.cli import main


@pytest.fixture
def run(monkeypatch, capsys):
    """Runs the command line in this process: (exit code, standard output, standard error)."""

    def run(arguments):
        monkeypatch.setattr(sys, "argv", ["hyperspn", *arguments.split()])
        with pytest.raises(SystemExit) as stop:
            main()
        return stop.value.code or 0, *capsys.readouterr()

    return run


def test_sizes_as_json():
    arguments = [
        "sizes",
        "--variables",
        "16",
        "--layer-size",
        "5",
        "--replicas",
        "50",
        "--embedding-dim",
        "5",
        "--hidden",
        "20,20",
        "--json",
    ]
    done = subprocess.run([sys.executable, "-m", "hyperspn", *arguments], capture_output=True, text=True, check=True)
    counts = json.loads(done.stdout)
    assert counts["spn"] == {"stored": 40050, "used": 25800}
    assert counts["hyperspn"]["learnable"] == 9115


def test_sizes_as_a_table(run):
    code, output, _ = run("sizes --variables 16")
    assert code == 0
    assert "40,050" in output
    assert "9,115" in output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("size", "No such command 'size'"),
        ("sizes", "Missing option '--variables'"),
        ("sizes --variables many", "Invalid value for '--variables'"),
        ("sizes --variables 0", "at least one variable"),
        ("sizes --variables 9 --hidden 20;20", "like 20,20, found '20;20'"),
        ("sizes --variables 9 --categories 0", "categories"),
        ("sizes --variables 9 --colour", "No such option"),
    ],
)
def test_mistakes_are_one_line(run, arguments, message):
    code, output, error = run(arguments)
    assert code == 2
    assert output == ""
    assert message in error
    assert error.count("\n") == 1


def test_help_and_version(run):
    assert run("--version") == (0, f"hyperspn {hyperspn.__version__}\n", "")
    assert "sizes" in run("")[1]
    assert "--layer-size" in run("sizes --help")[1]
