import csv
import io
import json
import shlex
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from matplotlib.image import imread
from rich.console import Console
from test_experiments import put_all

import hyperspn

from hyperspn.cli import main, output, paper
from hyperspn.experiments import Records
from hyperspn.learning.recipes import RECIPES


@pytest.fixture
def run(monkeypatch, capsys):
    """Runs the command line in this process: (exit code, standard output, standard error)."""

    def run(arguments):
        monkeypatch.setattr(sys, "argv", ["hyperspn", *shlex.split(arguments)])
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


def test_sizes_of_the_published_einet(run):
    counts = "--layer-size 40 --embedding-dim 8 --hidden 10,10 --json"
    code, output, _ = run(f"sizes --model einet --image 32,32,3 {counts}")
    found = json.loads(output)
    assert code == 0
    assert found["einet"]["used"] == 452963
    assert found["hyperspn"]["learnable"] == 91256
    assert found["leaves"] == 245760


def test_sizes_as_a_table(run):
    code, output, _ = run("sizes --variables 16")
    assert code == 0
    assert "40,050" in output
    assert "9,115" in output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("size", "No such command 'size'"),
        ("sizes", "--variables is missing"),
        ("sizes --model einet", "like 32,32,3, found None"),
        ("sizes --model einet --image 32", "like 32,32,3, found 32"),
        ("sizes --variables many", "Invalid value for '--variables'"),
        ("sizes --variables 0", "at least one variable"),
        ("sizes --variables 9 --hidden 20;20", "like 20,20, found '20;20'"),
        ("sizes --variables 9 --categories 0", "categories"),
        ("sizes --variables 9 --color", "No such option"),
        ("train plnats --out x", "did you mean plants"),
        ("train nothing.csv --out x", "found no file at nothing.csv"),
        ("train digits", "Missing option '--out'"),
        ("train digits --out x --model einet", "Invalid value for '--model'"),
        ("train digits --out x --structure chow-lu", "found 'chow-lu'; did you mean chow-liu?"),
        (
            "train digits --out x --structure factored --model spn",
            "auto, random, learned, chow-liu for spn, found 'factored'",
        ),
        ("train digits --out x --seed -1", "Invalid value for '--seed'"),
        (
            "train digits --out x --structure random --layer-size 1000000 --json",
            "expected enough memory, found too little",
        ),
        ("evaluate nowhere", "found none at nowhere"),
        ("query nowhere --of price", "found none at nowhere"),
        ("reproduce tabel1", "found 'tabel1'; did you mean table1"),
        ("reproduce table1 --datasets nltcs,plnats", "found 'plnats'; did you mean plants"),
        ("reproduce table1 --seeds 0", "Invalid value for '--seeds'"),
        ("reproduce table1 --backend dusk", "found 'dusk'; did you mean dask"),
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


@pytest.fixture(scope="module")
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
    arguments = f"train {folder}/people.csv --out {folder}/run --replicas 4 --steps 150 --evaluate-every 50 --json"
    done = subprocess.run(
        [sys.executable, "-m", "hyperspn", *arguments.split()], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return folder, json.loads(done.stdout)


def test_train_and_evaluate_agree(run, people):
    folder, trained = people
    found = json.loads(run(f"evaluate {folder}/run --json")[1])
    assert found["rows"] == 80
    assert found["log_likelihood"] == pytest.approx(trained["test"], rel=1e-5)
    valid = json.loads(run(f"evaluate {folder}/run --split valid --json")[1])
    assert valid["rows"] == 40
    whole = json.loads(run(f"evaluate {folder}/run --data {folder}/people.csv --json")[1])
    assert whole["rows"] == 400


def test_the_structure_is_the_best_of_three_rounds_of_trials(people):
    folder, trained = people
    names, best = list(RECIPES["hyperspn"]), []
    for label, steps, remaining in (("short", 15, 3), ("long", 60, 2), ("full", 150, 1)):
        assert {path.name for path in (folder / "run" / "trials" / label).iterdir()} == set(names)
        values = {}
        for name in names:
            lines = (folder / "run" / "trials" / label / name / "log.jsonl").read_text().splitlines()
            assert json.loads(lines[-1])["step"] == steps
            values[name] = max(json.loads(line)["valid"] for line in lines)
            best.append((values[name], name, lines))
        names = sorted(values, key=values.get, reverse=True)[:remaining]
    assert trained["structure"] == max(best)[1]
    assert (folder / "run" / "log.jsonl").read_text().splitlines() == max(best)[2]


def test_a_finished_run_is_not_trained_again(run, people):
    folder, trained = people
    code, output, _ = run(
        f"train {folder}/people.csv --out {folder}/run --replicas 4 --steps 150 --evaluate-every 50 --json"
    )
    assert code == 0
    assert json.loads(output)["test"] == pytest.approx(trained["test"])


def test_queries_learn_what_is_in_the_table(run, people):
    folder, _ = people
    red = json.loads(run(f"query {folder}/run --given color=red,size=2 --of price --json")[1])
    blue = json.loads(run(f"query {folder}/run --given color=blue,size=2 --of price --json")[1])
    assert red["mean"] > blue["mean"] + 5
    color = json.loads(run(f"query {folder}/run --given price=24 --of color --json")[1])["probabilities"]
    assert color["red"] > 0.7
    assert sum(color.values()) == pytest.approx(1)
    assert "red" in run(f"query {folder}/run --of color")[1]


def test_samples_are_rows_of_the_same_kind(run, people, tmp_path):
    folder, _ = people
    code, output, _ = run(f"sample {folder}/run -n 7 --given color=blue")
    rows = list(csv.DictReader(io.StringIO(output)))
    assert code == 0
    assert len(rows) == 7
    assert {row["color"] for row in rows} == {"blue"}
    assert {row["size"] for row in rows} <= {"1", "2", "3"}
    run(f"sample {folder}/run -n 3 --out {tmp_path}/s.csv")
    assert (tmp_path / "s.csv").read_text().count("\n") == 4


def test_imputation_fills_the_holes_only(run, people, tmp_path):
    folder, _ = people
    (tmp_path / "holes.csv").write_text("color,size,price,in stock,note\nred,,20.55,yes,a\n,2,,no,b\n")
    code, output, _ = run(f"impute {folder}/run {tmp_path}/holes.csv")
    first, second = csv.DictReader(io.StringIO(output))
    assert code == 0
    assert (first["color"], first["price"], first["note"]) == ("red", "20.55", "a")
    assert first["size"] in ("1", "2", "3")
    assert second["color"] in ("red", "blue")
    assert 0 < float(second["price"]) < 40


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("query {run} --given colr=red --of price", "did you mean color"),
        ("query {run} --given color=green --of price", "expected one of 'blue', 'red' for column 'color'"),
        ("query {run} --given size=two --of price", "found 'two'"),
        ("query {run} --given color --of price", "expected evidence like"),
        ("query {run} --of prize", "did you mean price"),
        ("sample {run} -n 0", ">= 1"),
        ("sample {run} --out s.xls", "expected a file .csv, .tsv"),
        ("impute {run} nothing.csv", "found no file"),
    ],
)
def test_mistakes_about_a_model_are_one_line(run, people, arguments, message):
    code, _, error = run(arguments.replace("{run}", f"{people[0]}/run"))
    assert code == 2
    assert message in error
    assert error.count("\n") == 1


def test_brackets_and_colons_in_names_are_only_text(run, tmp_path):
    (tmp_path / "t.csv").write_text("[red],size\n" + "[/x],1\n:smile:,2\n" * 20)
    assert run(f"train {tmp_path}/t.csv --out {tmp_path}/[b] --structure random --steps 2")[0] == 0
    code, output, error = run(f"query {tmp_path}/[b] --of [red] --given size=2")
    assert code == 0, error
    assert all(text in output for text in ("[red]", "[/x]", ":smile:"))


def test_data_sets_by_name(run, tmp_path):
    code, output, _ = run(
        f"train digits --out {tmp_path}/d --model spn --replicas 3 --steps 60 --evaluate-every 20 --json"
    )
    assert code == 0
    assert json.loads(output)["test"] > -40
    assert run(f"sample {tmp_path}/d -n 20 --out {tmp_path}/samples.png") == (0, "", "")
    assert run(f"inpaint {tmp_path}/d --out {tmp_path}/holes.png -n 5 --samples 2 --hide left") == (0, "", "")
    down, across = imread(tmp_path / "holes.png").shape[:2]
    assert down == across
    assert imread(tmp_path / "samples.png").shape[1] > imread(tmp_path / "samples.png").shape[0]
    assert run(f"inpaint {tmp_path}/d --out {tmp_path}/x.png --image 8,9")[0] == 2
    listed = json.loads(run("datasets --json")[1])["datasets"]
    assert {key: listed[[d["name"] for d in listed].index("plants")][key] for key in ("name", "variables")} == {
        "name": "plants",
        "variables": 69,
    }
    assert "digits" in run("datasets")[1]


def test_an_interrupted_run_can_go_on(tmp_path):
    arguments = f"train digits --out {tmp_path} --structure random --replicas 2 --steps 100000 --evaluate-every 5 --patience 20000"
    code = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); import hyperspn.__main__"
    command = [sys.executable, "-c", code, *arguments.split()]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        try:
            while not (tmp_path / "checkpoint.pt").exists() and process.poll() is None:
                time.sleep(0.05)
            process.send_signal(signal.SIGINT)
            _, errors = process.communicate(timeout=60)
        finally:
            process.kill()
    assert process.returncode == 130
    assert "the same command goes on" in errors
    assert "Traceback" not in errors
    assert (tmp_path / "checkpoint.pt").exists()


def test_a_table_of_the_paper_as_json_comes_from_records_alone(run, tmp_path):
    put_all(Records(tmp_path), "nltcs", spn=(-6.03, -6.02, -6.04), hyperspn=(-6.01, -6.0125))
    files = sorted(tmp_path.rglob("*"))
    code, output, error = run(f"reproduce table1 --json --results {tmp_path}")
    assert (code, error) == (0, "")
    found = json.loads(output)
    assert found.keys() == {"rows"}
    assert [row["dataset"] for row in found["rows"]] == ["nltcs"]
    assert found["rows"][0]["weight_decay"] == pytest.approx(-6.03, abs=1e-12)
    assert found["rows"][0]["hyperspn"] == pytest.approx(-6.01125, abs=1e-12)
    assert sorted(tmp_path.rglob("*")) == files
    assert json.loads(run(f"reproduce table2 --json --results {tmp_path}")[1]) == {"rows": []}
    code, output, error = run(f"reproduce table1 --no-train --results {tmp_path}")
    assert (code, error) == (0, "")
    assert "NLTCS" in output
    assert "written to" not in output
    assert sorted(tmp_path.rglob("*")) == files


def test_a_table_of_the_paper_is_printed_and_written(run, tmp_path):
    put_all(Records(tmp_path), "nltcs", spn=(-6.03, -6.02, -6.04), hyperspn=(-6.01, -6.0125, -6.0125))
    code, output, error = run(f"reproduce table1 --datasets nltcs --results {tmp_path}")
    assert (code, error) == (0, "")
    header, row = (line.split() for line in output.splitlines() if "HyperSPN" in line or "NLTCS" in line)
    assert header[:3] == ["data", "set", "n"]
    assert row[:8] == ["NLTCS", "16", "-6.03", "-6.01", "-6.02", "-6.01", "-6.04", "-6.01"]
    assert f"{tmp_path}/table1.md" in output
    assert "| NLTCS | 16 | -6.03 | **-6.01** | -6.02 | **-6.01** |" in (tmp_path / "table1.md").read_text()
    assert (tmp_path / "table1.csv").read_text().startswith("dataset,name,variables,weight_decay,hyperspn,")


def test_as_many_columns_are_printed_as_fit(run, tmp_path, monkeypatch):
    monkeypatch.setattr(output, "Console", lambda width: Console(width=60))
    put_all(Records(tmp_path), "nltcs")
    lines = run(f"reproduce table1 --datasets nltcs --results {tmp_path}")[1].splitlines()[:-1]
    assert max(map(len, lines)) <= 60
    row = next(line for line in lines if "NLTCS" in line)
    assert row.split() == ["NLTCS", "16", "-6.03", "-6.01", "-6.02", "-6.01", "-6.04"]


def test_an_interrupted_table_can_go_on(run, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(paper.experiments, "reproduce", interrupted)
    assert run("reproduce table3") == (130, "", "hyperspn: interrupted: run the same command again to resume\n")
