import json
import os
import shlex
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from conftest import QUICK

from hyperspn import TableModel
from hyperspn.data import load_splits
from hyperspn.learning.recipes import QUALITIES

SMALL = "--recipe chow-liu --replicas 2 --steps 40 --evaluate-every 20"


def test_what_train_says_as_json(people):
    folder, trained = people
    assert trained.keys() == {
        *("recipe", "step", "valid", "test", "unit", "baselines", "parameters", "rows", "left_out", "notes"),
        *("seconds", "already_trained"),
    }
    assert trained["unit"] == "mean log-likelihood of a row, in nats"
    assert trained["baselines"].keys() == {"independent_columns", "chow_liu_tree"}
    assert trained["rows"] == {"train": 280, "valid": 40, "test": 80}
    assert trained["already_trained"] is False
    assert trained["notes"] == [next(note for note in trained["notes"] if note.startswith("'NA' counts as missing"))]
    log = [json.loads(line) for line in (folder / "run" / "log.jsonl").read_text().splitlines()]
    assert trained["valid"] == pytest.approx(max(entry["valid"] for entry in log), rel=1e-4)  # the units of the bar
    assert trained["test"] > trained["baselines"]["independent_columns"]["test"]


def test_the_notes_of_a_model_tell_where_it_comes_from(people):
    folder, trained = people
    notes = TableModel.load(folder / "run").circuit.notes
    assert (notes["data"], notes["seed"], notes["drop"]) == (f"{folder}/people.csv", 0, [])
    assert (notes["rows"], notes["recipe"], len(notes["digests"])) == (280, trained["recipe"], 3)


def test_train_and_evaluate_agree(run, people):
    folder, trained = people
    answer = json.loads(run(f"evaluate {folder}/run --json")[1])
    assert answer.keys() == {"rows", "log_likelihood", "impossible_rows"}
    assert answer["rows"] == 80
    assert answer["log_likelihood"] == pytest.approx(trained["test"], rel=1e-5)
    valid = json.loads(run(f"evaluate {folder}/run --split valid --json")[1])
    assert (valid["rows"], valid["log_likelihood"]) == (40, pytest.approx(trained["valid"], rel=1e-5))


def test_the_recipe_is_the_best_of_all_trials(run, people, tmp_path):
    trained = json.loads(run(f"train {people[0]}/people.csv --quality best --out {tmp_path} {QUICK} --json")[1])
    trials = tmp_path / "trials" / "full"
    assert {path.name for path in trials.iterdir()} == set(QUALITIES["best"].small)
    best = []
    for path in trials.iterdir():
        lines = (path / "log.jsonl").read_text().splitlines()
        best.append((max(json.loads(line)["valid"] for line in lines), path.name, lines))
    assert trained["recipe"] == max(best)[1]
    assert (tmp_path / "log.jsonl").read_text().splitlines() == max(best)[2]


def test_a_rank(run, people, tmp_path):
    code, _, _ = run(f"train {people[0]}/people.csv --out {tmp_path} {SMALL} --layer-size 9 --rank 2 --json")
    assert (code, TableModel.load(tmp_path).circuit.weights.rank) == (0, 2)


def test_a_finished_run_says_so_and_is_not_trained_again(run, people, monkeypatch):
    folder, trained = people
    monkeypatch.setattr("hyperspn.cli.training.fit_splits", None)
    code, output, error = run(f"train {folder}/people.csv --out {folder}/run {QUICK} --json")
    assert (code, error) == (0, f"{folder}/run holds the finished run of this command: nothing is left to train\n")
    again = json.loads(output)
    assert again["already_trained"] is True
    assert again["test"] == pytest.approx(trained["test"], rel=1e-6)
    same = [name for name in trained if name not in ("seconds", "already_trained", "valid", "test")]
    assert {name: again[name] for name in same} == {name: trained[name] for name in same}


def test_another_command_or_table_for_a_finished_run_is_refused_before_it_trains(run, people, tmp_path, monkeypatch):
    folder, _ = people
    monkeypatch.setattr("hyperspn.cli.training.fit_splits", None)
    code, _, error = run(f"train {folder}/people.csv --out {folder}/run {QUICK} --seed 1 --json")
    assert code == 2
    assert "holds a finished run with other arguments (seed 1 instead of 0): choose another folder" in error
    table = folder / "people.csv"
    text = table.read_text()
    try:
        table.write_text(text.replace("color,", "paint,").replace("blue,", "green,"))
        code, _, error = run(f"train {table} --out {folder}/run {QUICK} --json")
        assert code == 2
        assert "a finished run on another table (without color; with paint): choose another folder" in error
        table.write_text(text.replace("yes", "YES"))
        assert "(other values of in stock)" in run(f"train {table} --out {folder}/run {QUICK} --json")[2]
    finally:
        table.write_text(text)


def test_what_train_prints(run, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    code, output, error = run(f"train penguins --out {tmp_path}/p {SMALL}")
    assert code == 0
    assert error.startswith("note: 'NA' counts as missing: 19 cells of")
    lines = output.splitlines()
    assert lines[0].startswith("344 rows (241, 34, 69) to train, validate and test; columns: 4 categorical (species")
    assert "mean log-likelihood of a row, in nats" in lines[1]
    for name in ("independent columns", "one Chow-Liu tree, no hidden states", "this model (chow-liu"):
        assert any(line.startswith(name) for line in lines)
    assert max(map(len, lines[1:6])) <= 80
    assert not any(word in output for word in ("sector", "replica", "written by"))
    assert "written by" in run(f"train penguins --out {tmp_path}/p {SMALL} --verbose")[1]


def test_the_commands_to_try_next_work(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    commands = [line.strip() for line in run(f"train penguins --out p {SMALL}")[1].splitlines() if "  hyperspn" in line]
    assert [command.split()[1] for command in commands] == ["query", "sample", "impute"]
    for command in commands:
        code, _, error = run(command.removeprefix("hyperspn "))
        assert code == 0, error
    assert (tmp_path / "filled.csv").read_text().count("\n") == 345


def test_suggestions_quote_what_could_be_read_otherwise(run, tmp_path):
    rows = ['"a, b=c","x|y, ""z"""', '"d..e",plain'] * 20
    (tmp_path / "t.csv").write_text('"one, two","k=v"\n' + "\n".join(rows) + "\n")
    output = run(f"train {tmp_path}/t.csv --out {tmp_path}/t {SMALL}")[1]
    commands = [line.strip() for line in output.splitlines() if "  hyperspn" in line]
    assert len(commands) == 3
    for command in commands:
        code, _, error = run(command.removeprefix("hyperspn "))
        assert code == 0, error


def test_suggestions_are_about_two_columns_where_there_are_two(run, tmp_path):
    for header, cells, count in (("word,number", ("a,1", "b,2"), 3), ("word", ("a", "b"), 2)):
        (tmp_path / "t.csv").write_text("\n".join([header, *cells * 20, ""]))
        output = run(f"train {tmp_path}/t.csv --out {tmp_path}/{count} {SMALL}")[1]
        commands = [shlex.split(line) for line in output.splitlines() if "  hyperspn" in line]
        assert len(commands) == count
        assert all(command[-3] != command[-1] for command in commands if command[1] == "query")


def test_rows_that_make_the_mean_infinite_are_counted(run, tmp_path):
    for name, cells in (("train", range(60)), ("valid", [*range(19), -5]), ("test", range(20))):
        (tmp_path / f"{name}.csv").write_text("\n".join(["number", *(f"{cell}.5" for cell in cells), ""]))
    given = f"--valid {tmp_path}/valid.csv --test {tmp_path}/test.csv"
    note = "1 of 20 validation rows has probability 0, and so the mean is minus infinity"
    assert f"note: {note}\n" in run(f"train {tmp_path}/train.csv --out {tmp_path}/r {SMALL} {given}")[2]
    assert note in json.loads(run(f"train {tmp_path}/train.csv --out {tmp_path}/r {SMALL} {given} --json")[1])["notes"]
    assert "note: 1 of 20 rows has probability 0" in run(f"evaluate {tmp_path}/r --split valid")[2]


def test_the_old_name_of_recipe_works_and_names_the_new_one(run, tmp_path):
    code, output, error = run(f"train penguins --out {tmp_path}/p {SMALL.replace('recipe', 'structure')} --json")
    assert (code, error) == (0, "--structure is now --recipe\n")
    assert json.loads(output)["recipe"] == "chow-liu"


def test_what_is_asked_of_columns(run, tmp_path):
    options = "--kind year=numeric --bounds year=2000..2030 --drop island --missing-as-data --kind sex=drop"
    small = SMALL.replace("chow-liu", "random")
    code, output, error = run(f"train penguins --out {tmp_path}/p {small} {options} --json")
    assert code == 0, error
    assert json.loads(output)["left_out"] == {"sex": "dropped as asked for"}
    columns = {column.name: column for column in TableModel.load(tmp_path / "p").schema.columns}
    assert columns.keys() & {"island", "sex"} == set()
    assert (columns["year"].kind, columns["year"].scale.lower, columns["year"].scale.upper) == ("numeric", 2000, 2030)
    assert columns["body_mass_g"].missing_as_data


def test_splits_that_are_given_and_words_for_missing(run, tmp_path):
    generator = np.random.default_rng(0)
    for name, rows in (("train", 60), ("valid", 20), ("test", 30)):
        cells = [f"{'ab-'[c]},{generator.normal():.3f}" for c in generator.integers(0, 3, rows)]
        (tmp_path / f"{name}.csv").write_text("letter,number\n" + "\n".join(cells) + "\n")
    given = f"--valid {tmp_path}/valid.csv --test {tmp_path}/test.csv --missing-values=-,None"
    answer = json.loads(run(f"train {tmp_path}/train.csv --out {tmp_path}/r {SMALL} {given} --json")[1])
    assert answer["rows"] == {"train": 60, "valid": 20, "test": 30}
    model = TableModel.load(tmp_path / "r")
    assert model.schema.columns[0].categories == ("a", "b")
    options = {"valid": f"{tmp_path}/valid.csv", "test": f"{tmp_path}/test.csv", "missing_values": ["-", "None"]}
    test = load_splits(f"{tmp_path}/train.csv", schema=model.schema, **options).test
    evaluated = json.loads(run(f"evaluate {tmp_path}/r --json")[1])
    assert evaluated["log_likelihood"] == pytest.approx(model.log_likelihood_of_rows(test).mean(), rel=1e-9)
    assert run(f"query {tmp_path}/r --of number --rows {tmp_path}/test.csv")[2].startswith(
        "note: '-' counts as missing"
    )


def test_brackets_and_colons_in_names_are_only_text(run, tmp_path):
    (tmp_path / "t.csv").write_text("[red],size\n" + "[/x],1\n:smile:,2\n" * 20)
    assert run(f"train {tmp_path}/t.csv --out {tmp_path}/[b] --recipe random --steps 2")[0] == 0
    code, output, error = run(f"query {tmp_path}/[b] --of [red] --given size=2")
    assert code == 0, error
    assert all(text in output for text in ("[red]", "[/x]", ":smile:"))


def test_an_interrupted_run_can_go_on(tmp_path):
    arguments = (
        f"train digits --out {tmp_path} --recipe random --replicas 2 --steps 100000 --evaluate-every 5 --patience 20000"
    )
    code = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); import hyperspn.__main__"
    command = [sys.executable, "-c", code, *shlex.split(arguments)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        try:
            while not (tmp_path / "checkpoint.pt").exists() and process.poll() is None:
                time.sleep(0.05)
            process.send_signal(signal.SIGINT)
            _, errors = process.communicate(timeout=60)
        finally:
            process.kill()
    assert process.returncode == 130
    assert "interrupted: run the same command again to resume" in errors
    assert "Traceback" not in errors
    assert (tmp_path / "checkpoint.pt").exists()


def test_an_interrupt_while_torch_is_imported_is_one_line(tmp_path):
    (tmp_path / "torch.py").write_text("import os, signal, time\nos.kill(os.getpid(), signal.SIGINT)\ntime.sleep(60)\n")
    code = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); import hyperspn_command as command"
    done = subprocess.run(
        [sys.executable, "-c", f"{code}; command.start()"],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        check=False,
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (130, "hyperspn: interrupted\n")
