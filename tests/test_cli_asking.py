import csv
import io
import json
import math
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest

from matplotlib.image import imread

from hyperspn import TableModel, fit_table
from hyperspn.cli.rows import count_matches
from hyperspn.data import load_splits, read_table, recognize, write_table


@pytest.fixture(scope="module")
def model(people):
    return TableModel.load(people[0] / "run")


def ask(run, people, arguments):
    code, output, error = run(f"query {people[0]}/run {arguments} --json")
    assert code == 0, error
    return json.loads(output)


HEADER = {"of", "given", "log_p_given", "given_has", "p_given", "rows", "of_rows"}


def test_the_probabilities_of_a_column(run, people, model):
    answer = ask(run, people, "--of color --given price=20..24,size=2")
    assert answer.keys() == {*HEADER, "probabilities"}
    expected = model.distribution("color", "price=20..24,size=2")
    assert answer["probabilities"] == pytest.approx(expected.probabilities, rel=1e-12)
    chance = model.chance("price=20..24,size=2")
    assert (answer["log_p_given"], answer["rows"]) == pytest.approx((chance.log_p, chance.rows), rel=1e-12)
    assert (answer["p_given"], answer["given_has"]) == (pytest.approx(math.exp(chance.log_p)), "probability")
    assert answer["of_rows"] == 280
    assert ask(run, people, "--of color").keys() == {"of", "given", "probabilities"}


def test_the_numbers_of_a_column(run, people, model):
    answer = ask(run, people, "--of price --given color=red")
    expected = model.distribution("price", "color=red")
    assert answer.keys() == {*HEADER, "mean", "std", "quantiles", "points"}
    assert (answer["mean"], answer["std"]) == pytest.approx((expected.mean, expected.std))
    assert list(answer["quantiles"]) == ["0.05", "0.25", "0.5", "0.75", "0.95"]
    assert list(answer["quantiles"].values()) == list(expected.quantiles.values())
    assert answer["mean"] > ask(run, people, "--of price --given color=blue")["mean"] + 5


def test_the_probability_of_an_event(run, people, model):
    answer = ask(run, people, "--of 'price>20' --given color=red")
    assert answer.keys() == {*HEADER, "probability"}
    assert answer["probability"] == pytest.approx(model.probability("price>20", "color=red"), rel=1e-12)
    assert "probability" in run(f"query {people[0]}/run --of 'price>20, size=1|2'")[1]


def test_a_joint_table(run, people, model):
    answer = ask(run, people, "--of 'color, in stock' --given size=2")
    assert answer.keys() == {*HEADER, "columns", "probabilities"}
    expected = model.distribution(["color", "in stock"], "size=2").probabilities
    assert {tuple(row[:2]): row[2] for row in answer["probabilities"]} == pytest.approx(expected)
    assert sum(row[2] for row in answer["probabilities"]) == pytest.approx(1)


def test_what_query_prints(run, people, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    code, output, error = run(f"query {people[0]}/run --of color --given 'price>15'")
    assert (code, error) == (0, "")
    first, second, *lines = output.splitlines()
    assert first == "color, given price>15"
    assert second.startswith("P(given) = 0.")
    assert second.endswith("of 280 rows")
    assert any(line.startswith("red ") for line in lines)
    price = run(f"query {people[0]}/run --of price")[1]
    assert all(word in price for word in ("mean", "standard deviation", "5% are at most", "95% are at most"))
    joint = run(f"query {people[0]}/run --of color,size")[1]
    assert "color \\ size" in joint
    likely = run(f"query {people[0]}/run --of size --given 'color~red:0.7|blue:0.3'")[1]
    assert "P(given)" not in likely
    assert "has no probability" in likely


def test_the_top_ten_and_the_rest(run, tmp_path):
    letters = "abcdefghijklmnop"
    rows = [f"{letter},{i % 2}" for i, letter in enumerate(letters) for _ in range(30)]
    (tmp_path / "t.csv").write_text("letter,bit\n" + "\n".join(rows) + "\n")
    assert run(f"train {tmp_path}/t.csv --out {tmp_path}/r --recipe chow-liu --replicas 1 --steps 20 --json")[0] == 0
    lines = run(f"query {tmp_path}/r --of letter")[1].splitlines()
    assert sum(line[:2].strip() in letters for line in lines[3:]) == 10
    assert lines[-1].startswith("6 others")
    joint = run(f"query {tmp_path}/r --of letter,bit --json")[1]
    assert len(json.loads(joint)["probabilities"]) == 32


def test_few_rows_and_strange_values_are_warned_of(run, people):
    code, _, error = run(f"query {people[0]}/run --of color --given price=80..90")
    assert code == 0
    assert "fewer than 5 rows are like that" in error
    assert "no row has such a value of 'price': they are" in error
    assert "no row has such a value of 'price'" in run(f"query {people[0]}/run --of 'price>90'")[2]
    assert "no row has such a value of 'price'" in run(f"query {people[0]}/run --of color --given price=0")[2]
    assert run(f"query {people[0]}/run --of 'price>15' --given 'size=2, price<30'")[2] == ""


def test_rows_are_counted_in_the_training_table(run, people, model):
    folder, _ = people
    train = load_splits(f"{folder}/people.csv").train
    table = model.schema.decode(train).to_pylist()
    for text, matches in (
        ("color=red", lambda row: row["color"] == "red"),
        ("price=10..22,size>1", lambda row: row["price"] is not None and 10 <= row["price"] <= 22 and row["size"] > 1),
        ("color!=red", lambda row: row["color"] not in ("red", None)),
        ("in stock=yes, price>=24.5", lambda row: row["in stock"] == "yes" and (row["price"] or 0) >= 24.5),
    ):
        answer = ask(run, people, f"--of {'color' if 'size' in text else 'size'} --given '{text}' --count")
        assert answer["counted"] == sum(map(matches, table)), text
        assert answer["of_rows"] == 280
    assert "counted: " in run(f"query {folder}/run --of size --given color=red --count")[1]


def test_values_of_continuous_columns_and_missing_ones_are_counted():
    numbers = np.random.default_rng(0).normal(size=50)
    table = pa.table({"x": pa.array([None, *numbers[1:]]), "y": ["a", None] * 24 + ["b", None]})
    schema = recognize(table, missing_as_data=True)
    x = schema.encode(table)
    assert count_matches(schema, f"x={float(numbers[7])!r}", x) == 1
    assert count_matches(schema, "x=missing", x) == 1
    assert count_matches(schema, "x!=0..", x) == (numbers[1:] < 0).sum()
    assert count_matches(schema, "y=missing", x) == 25
    assert count_matches(schema, "y=a|missing", x) == 49
    assert count_matches(schema, "", x) == 50


def test_a_question_for_each_row(run, people, model, tmp_path):
    (tmp_path / "new.csv").write_text("size,price,in stock\n2,24.5,yes\n1,5.1,no\n3,,no\n")
    code, output, error = run(f"query {people[0]}/run --of color --rows {tmp_path}/new.csv")
    assert (code, error) == (0, "")
    rows = list(csv.DictReader(io.StringIO(output)))
    expected = model.predict(read_table(tmp_path / "new.csv"), "color").to_pylist()
    assert [{name: float(p) for name, p in row.items()} for row in rows] == [pytest.approx(row) for row in expected]
    (tmp_path / "answers.csv").write_text("old")
    run(f"query {people[0]}/run --of color --rows {tmp_path}/new.csv --excel-safe --out {tmp_path}/answers.csv")
    assert (tmp_path / "answers.csv").read_text() == output
    answer = ask(run, people, f"--of price --rows {tmp_path}/new.csv")
    assert answer.keys() == {"of", "rows"}
    assert list(answer["rows"][0]) == ["mean", "5%", "25%", "50%", "75%", "95%"]
    (tmp_path / "less.csv").write_text("size,in stock\n2,yes\n")
    error = run(f"query {people[0]}/run --of color --rows {tmp_path}/less.csv --out {tmp_path}/answers.csv")[2]
    assert error == "note: there is no column 'price': it counts as missing\n"
    (tmp_path / "least.csv").write_text("in stock\nyes\n")
    error = run(f"query {people[0]}/run --of color --rows {tmp_path}/least.csv --out {tmp_path}/answers.csv")[2]
    assert error == "note: there are no columns 'size', 'price': they count as missing\n"
    assert (tmp_path / "answers.csv").read_text().startswith("blue,red\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("query {run} --given colr=red --of price", "did you mean color"),
        ("query {run} --given color=green --of price", "expected one of 'blue', 'red' in column 'color'"),
        ("query {run} --given color=bleu --of price", "found 'bleu'; did you mean blue?"),
        ("query {run} --given price=two --of color", "found 'two'"),
        ("query {run} --given color --of price", "expected evidence like"),
        ("query {run} --given color=red,color=blue --of price", "expected column 'color' once, found it twice"),
        ("query {run} --given color>red --of price", "has no order"),
        ("query {run} --given size=missing --of price", "train with --missing-as-data"),
        ("query {run} --of prize", "did you mean price"),
        ("query {run} --of prize>3", "did you mean price"),
        ("query {run} --of color --rows x.csv --given size=1", "leave --given out"),
        ("query {run} --of color,size --rows x.csv", "expected one column"),
        ("query {run} --of color --rows nothing.csv", "found no file"),
        ("query {run} --of color --out x.csv", "--out is for the answers to --rows"),
        ("query {run} --of size --given color~red:1 --count", "expected events to count rows, found likelihoods"),
        ("query {run} --of size --given color~red:x", "expected likelihoods like"),
        ("sample {run} -n 0", "Invalid value for '-n'"),
        ("sample {run} --out s.xls", "expected a file .csv, .tsv"),
        ("sample {run} --given size=1.5", "size"),
        ("impute {run} nothing.csv", "found no file"),
        ("impute {run} x.csv --draws 2 --interval 90", "found both"),
        ("impute {run} x.csv --interval 120", "between 0 and 100"),
        ("evaluate {run} --data nothing.csv", "found no file"),
        ("evaluate {run} --split all", "Invalid value for '--split'"),
    ],
)
def test_mistakes_about_a_model_are_one_line(run, people, arguments, message):
    code, output, error = run(arguments.replace("{run}", f"{people[0]}/run").replace(">", "\\>"))
    assert (code, output) == (2, "")
    assert message in error
    assert error.count("\n") == 1


def test_dates_and_durations_of_arrow_are_shown_and_asked_for(run, tmp_path):
    hours = np.arange(300) % 97
    table = pa.table(
        {
            "day": pa.array(hours + 19_000, "int32").cast("date32"),
            "lasts": pa.array(hours * 3600, "int64").cast(pa.duration("s")),
        }
    )
    model = fit_table(table, recipe="factored", layer_size=3, steps=20, progress=False)
    model.save(tmp_path / "model.pt")
    for name, unit in (("day", "days"), ("lasts", "hours")):
        code, output, _ = run(f"query {tmp_path}/model.pt --of {name}")
        lines = {line[:18].strip(): line[18:].strip() for line in output.splitlines()}
        assert code == 0
        assert lines["mean"] == str(model.distribution(name).mean)
        assert lines["standard deviation"].endswith(unit)
    p = json.loads(run(f"query {tmp_path}/model.pt --of 'lasts<\"1 day, 12:00:00\"' --json")[1])["probability"]
    assert p == pytest.approx(36 / 97, abs=0.1)


def test_samples_are_rows_of_the_same_kind(run, people, tmp_path):
    folder, _ = people
    code, output, _ = run(f"sample {folder}/run -n 7 --given color=blue,size=2..3")
    rows = list(csv.DictReader(io.StringIO(output)))
    assert code == 0
    assert len(rows) == 7
    assert {row["color"] for row in rows} == {"blue"}
    assert {row["size"] for row in rows} <= {"2", "3"}
    run(f"sample {folder}/run -n 3 --out {tmp_path}/s.csv")
    assert (tmp_path / "s.csv").read_text().count("\n") == 4


def test_many_samples_go_to_the_file_bit_by_bit(run, people, tmp_path, monkeypatch, model):
    monkeypatch.setattr("hyperspn.cli.asking.ROWS_AT_ONCE", 50)
    for name in ("s.csv", "s.parquet", "s.jsonl"):
        assert run(f"sample {people[0]}/run -n 120 --given 'price>15' --out {tmp_path}/{name}") == (0, "", "")
        table = read_table(tmp_path / name)
        assert len(table) == 120
        assert table.column_names == list(model.schema.names)
    assert table.slice(0, 50).to_pylist() != table.slice(50, 50).to_pylist()
    lines = run(f"sample {people[0]}/run -n 120")[1].splitlines()
    assert len(lines) == 121
    assert lines.count("color,size,price,in stock") == 1


def test_imputation_fills_the_holes_only(run, people, tmp_path):
    folder, _ = people
    (tmp_path / "holes.csv").write_text("color,size,price,in stock,note\nred,,20.55,yes,a\n,2,,no,b\n")
    code, output, error = run(f"impute {folder}/run {tmp_path}/holes.csv")
    first, second = csv.DictReader(io.StringIO(output))
    assert (code, error) == (0, "")
    assert (first["color"], first["price"], first["note"]) == ("red", "20.55", "a")
    assert first["size"] in ("1", "2", "3")
    assert second["color"] in ("red", "blue")
    assert 0 < float(second["price"]) < 40
    assert run(f"impute {folder}/run {tmp_path}/holes.csv --interval 90 --out {tmp_path}/filled.csv") == (0, "", "")
    _, filled = csv.DictReader(io.StringIO((tmp_path / "filled.csv").read_text()))
    assert float(filled["price.low"]) < float(filled["price"]) < float(filled["price.high"])
    rows = list(csv.DictReader(io.StringIO(run(f"impute {folder}/run {tmp_path}/holes.csv --draws 3")[1])))
    assert [row[".imputation"] for row in rows] == ["1", "1", "2", "2", "3", "3"]
    assert {row["note"] for row in rows} == {"a", "b"}


def test_tables_from_standard_input(people):
    command = [sys.executable, "-m", "hyperspn", "impute", f"{people[0]}/run", "-"]
    done = subprocess.run(command, input="color,size\nred,\n", capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0] == "color,size"
    assert done.stdout.splitlines()[1].startswith("red,")
    assert done.stderr == "note: there are no columns 'price', 'in stock': they count as missing\n"


def test_evaluate_goes_through_the_columns_of_the_model(run, people, model, tmp_path):
    folder, _ = people
    table = read_table(folder / "people.csv")
    shuffled = table.select(["in stock", "price", "color", "size"]).slice(0, 30)
    write_table(shuffled, tmp_path / "part.csv")
    answer = json.loads(run(f"evaluate {folder}/run --data {tmp_path}/part.csv --json")[1])
    assert answer["rows"] == 30
    assert answer["log_likelihood"] == pytest.approx(model.log_likelihood(table.slice(0, 30)).mean())
    write_table(shuffled.rename_columns(["in stock", "cost", "color", "size"]), tmp_path / "renamed.csv")
    _, output, error = run(f"evaluate {folder}/run --data {tmp_path}/renamed.csv")
    assert "there is no column 'price'" in error
    header, _, answers = output.splitlines()
    assert " ".join(header.split()) == "rows mean log-likelihood of a row, in nats"
    assert answers.split()[0] == "30"


def test_impossible_rows_are_counted_and_json_stays_json(run, people, tmp_path):
    (tmp_path / "odd.csv").write_text("color,size,price,in stock\nred,1,-5.00,yes\nred,1,20.00,yes\n")
    code, output, error = run(f"evaluate {people[0]}/run --data {tmp_path}/odd.csv --json")
    assert code == 0
    assert json.loads(output) == {"rows": 2, "log_likelihood": None, "impossible_rows": 1}
    assert "in row 1: such rows have probability 0" in error
    assert "1 of 2 rows has probability 0" in error


def test_a_changed_or_missing_training_table_is_said(run, people):
    folder, _ = people
    table = folder / "people.csv"
    text = table.read_text()
    try:
        table.write_text(text.replace("yes", "no", 20))
        assert f"{table} has changed since the model was trained on it" in run(f"evaluate {folder}/run")[2]
        table.unlink()
        code, _, error = run(f"evaluate {folder}/run")
        assert code == 2
        assert "the table that the model was trained on is not there any more" in error
    finally:
        table.write_text(text)


def test_columns_shows_every_column(run, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    generator = np.random.default_rng(0)
    lines = [
        f"{i},{'ab'[i % 2]},{0 if i % 3 else generator.normal() ** 2:.4f},same,{generator.random():.9f}x"
        for i in range(99)
    ]
    (tmp_path / "t.csv").write_text("id,letter,gain,constant,key\n" + "\n".join(lines) + "\n,b,,same,kk\n")
    code, output, _ = run(f"columns {tmp_path}/t.csv --kind id=drop --json")
    answer = json.loads(output)
    assert code == 0
    assert answer.keys() == {"rows", "columns", "notes"}
    assert answer["rows"] == 100
    kinds = {entry["name"]: entry["kind"] for entry in answer["columns"]}
    assert kinds == {
        "id": "left out",
        "letter": "categorical",
        "gain": "numeric",
        "constant": "left out",
        "key": "left out",
    }
    gain = answer["columns"][2]
    assert gain.keys() == {
        *("name", "kind", "missing", "distinct", "point_masses", "bounds", "distributions", "cost", "reason"),
    }
    assert (gain["missing"], gain["distinct"], gain["point_masses"], gain["bounds"]) == (
        1,
        len({line.split(",")[2] for line in lines}),
        1,
        "0..",
    )
    assert sum(entry["cost"] for entry in answer["columns"]) == pytest.approx(1)
    printed = run(f"columns {tmp_path}/t.csv --kind id=drop")[1]
    assert "left out: a single value" in printed
    assert all(name in printed for name in kinds)


def test_a_column_that_will_dominate_is_named(run, tmp_path):
    generator = np.random.default_rng(0)
    lines = [f"c{generator.integers(0, 250):03d},{i % 2}" for i in range(8000)]
    (tmp_path / "t.csv").write_text("city,bit\n" + "\n".join(lines) + "\n")
    assert "column 'city' takes 99% of the work at the leaves" in run(f"columns {tmp_path}/t.csv")[2]


def test_control_characters_are_not_sent_to_a_terminal(run, tmp_path):
    (tmp_path / "t.csv").write_text("na\x1b[31mme,size\n" + "a\x1b]0;x\x07,1\nb,2\n" * 20)
    options = "--recipe chow-liu --replicas 1 --steps 5"
    texts = [
        *run(f"train {tmp_path}/t.csv --out {tmp_path}/r {options}"),
        *run(f"columns {tmp_path}/t.csv"),
        *run(f"sample {tmp_path}/r -n 20"),
        *run(f"query {tmp_path}/r --of size,'na\x1b[31mme'"),
        *run(f"query {tmp_path}/r --of 'na\x1b[31mme' --given size=1"),
        *run(f"query {tmp_path}/r --of 'na\x1b[31mm'"),
    ]
    assert any("\\x1b" in str(text) for text in texts)
    assert not any(mark in str(text) for text in texts for mark in ("\x1b", "\x07"))


def test_cells_that_a_spreadsheet_would_run_are_quoted_on_request(run, tmp_path):
    (tmp_path / "t.csv").write_text("formula,size\n" + '"=1+1",1\nb,2\n' * 20)
    assert run(f"train {tmp_path}/t.csv --out {tmp_path}/r --recipe chow-liu --replicas 1 --steps 5 --json")[0] == 0
    (tmp_path / "holes.csv").write_text("formula,size\n=1+1,\n")
    for command in (f"sample {tmp_path}/r -n 20 --given formula==1+1", f"impute {tmp_path}/r {tmp_path}/holes.csv"):
        assert "'=1+1" in run(f"{command} --excel-safe")[1]
        assert "'=1+1" not in run(command)[1]
        run(f"{command} --excel-safe --out {tmp_path}/o.csv")
        assert "'=1+1" in (tmp_path / "o.csv").read_text()


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


def test_an_answer_needs_no_more_than_it_should(people):
    """What takes long to import stays out of a question."""
    code = f"""
import sys
from hyperspn_command import start
sys.argv = ["hyperspn", "query", {str(people[0] / "run")!r}, "--of", "price", "--given", "color=red"]
try:
    start()
except SystemExit:
    print([name for name in {HEAVY!r} if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


HEAVY = ("torch._dynamo", "matplotlib", "sklearn", "pandas", "joblib", "scipy.stats", "hyperspn.experiments")
