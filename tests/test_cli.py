import json
import re
import subprocess
import sys

import pytest

from rich.console import Console
from test_experiments import put_all

import hyperspn

from hyperspn import experiments
from hyperspn.cli import output
from hyperspn.experiments import Records


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
        ("train digits --out x --recipe chow-lu", "found 'chow-lu'; did you mean chow-liu?"),
        (
            "train digits --out x --recipe factored --model spn",
            "auto, random, learned, chow-liu, forest for spn, found 'factored'",
        ),
        ("train digits --out x --seed -1", "Invalid value for '--seed'"),
        ("train digits --out x --weight w", "expected a table for --weight, found the data set 'digits'"),
        ("train digits --out x --bounds 3=0..1", "expected a table for --bound"),
        ("train penguins --out x --bounds year", "expected --bounds like age=0..120, found 'year'"),
        ("train penguins --out x --bounds year=2007", "expected --bounds like age=0..120 or age=0.., found '2007'"),
        ("train penguins --out x --kind year", "expected --kind like age=numeric, found 'year'"),
        ("train penguins --out x --kind year=number", "to be numeric, categorical, date, drop, found 'number'"),
        ("train penguins --out x --kind yaer=numeric", "found 'yaer'; did you mean year?"),
        ("train penguins --out x --drop yaer", "found 'yaer'; did you mean year?"),
        (
            "train penguins --out x --weight species",
            "expected a weight >= 0 in column 'species', found 'Adelie' in row 1",
        ),
        ("train penguins --out x --valid nothing.csv", "found no file at nothing.csv"),
        ("columns nothing.csv", "found no file at nothing.csv"),
        ("columns people.txt", "expected a table .csv"),
        (
            "train digits --out x --recipe random --layer-size 1000000 --json",
            "not enough memory: try a smaller model or batch",
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


def test_the_options_of_train_are_in_a_short_group_one_for_columns_and_one_for_experts(run):
    text = run("train --help")[1]
    first, columns, experts = re.split("Columns and rows|For experts", text)
    assert {"--out", "--recipe", "--quality", "--minutes"} <= set(re.findall(r"--[\w-]+", first))
    assert len(set(re.findall(r"--[\w-]+", first))) <= 11
    assert all(option in columns for option in ("--kind", "--bounds", "--missing-as-data", "--weight"))
    assert all(option in experts for option in ("--layer-size", "--learning-rate", "--pseudocount"))
    assert "HyperSPN (default) or plain SPN" in " ".join(text.replace("│", " ").split())
    assert "--structure" not in text


def test_debug_shows_the_trace(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["hyperspn", "evaluate", "nowhere", "--debug"])
    with pytest.raises(FileNotFoundError):
        hyperspn.cli.main()


def test_a_file_that_cannot_be_written_is_named(run, people, tmp_path):
    assert run(f"sample {people[0]}/run --out {tmp_path}/no/s.csv") == (
        2,
        "",
        f"hyperspn: No such file or directory: {tmp_path}/no/s.csv\n",
    )


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
    code, output, error = run(f"reproduce table2 --json --results {tmp_path}")
    assert json.loads(output) == {"rows": []}
    assert error.startswith(f"note: {tmp_path} has no complete records for table2: the same command without")
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

    monkeypatch.setattr(experiments, "reproduce", interrupted)
    assert run("reproduce table3") == (130, "", "hyperspn: interrupted: run the same command again to resume\n")
