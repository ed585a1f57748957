"""The commands anomalies, influence, similar and explain, beside the answers of the model itself."""

import csv
import io
import json

import pytest

from hyperspn import TableModel
from hyperspn.data import read_table
from hyperspn.data.events import Above, AnyOf, AtLeast, AtMost, Below, Likely, Missing, Not
from hyperspn.data.parsing import parse_evidence, write_event

ROW = "color,size,price\nred,2,6.5\n"


@pytest.fixture(scope="module")
def model(people):
    return TableModel.load(people[0] / "run")


@pytest.fixture
def strange(people, tmp_path):
    """The table, with a thing that is far too dear, and a color that nobody has seen, at its end."""
    text = (people[0] / "people.csv").read_text()
    (tmp_path / "strange.csv").write_text(f"{text}red,2,90.00,yes\npurple,1,6.00,no\n")
    return tmp_path / "strange.csv"


def test_anomalies(run, people, model, strange, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    code, output, error = run(f"anomalies {people[0]}/run {strange} --json --top 4")
    assert code == 0
    assert "'color': 1 value never seen before, like 'purple'" in error
    answer = json.loads(output)
    expected = model.anomalies(read_table(strange), 4)
    assert [row["row"] for row in answer] == [row.row + 1 for row in expected]
    assert [row["surprisal"] for row in answer] == pytest.approx([row.surprisal for row in expected])
    assert {401, 402} <= {row["row"] for row in answer}
    cells = {row["row"]: row["cells"][0] for row in answer}
    assert (cells[402]["column"], cells[402]["is_new"]) == ("color", True)
    assert cells[401]["column"] == "price"
    printed = run(f"anomalies {people[0]}/run {strange} --top 4 --cells 1")[1].splitlines()
    assert printed[0].split() == ["row", "bits", "column", "value", "expected", "as", "rare", "as"]
    assert printed[-2].startswith("bits: -log2 P(row)")
    assert any(
        line.startswith("402 ") and "purple" in line and line.rstrip().endswith("never seen") for line in printed
    )


def test_anomalies_into_a_file(run, people, strange, tmp_path):
    code, output, _ = run(f"anomalies {people[0]}/run {strange} --top 3 --out {tmp_path}/out.csv")
    assert (code, output) == (0, "")
    lines = list(csv.DictReader(io.StringIO((tmp_path / "out.csv").read_text())))
    assert lines[0].keys() == {
        "row",
        "row_surprisal",
        "column",
        "value",
        "expected",
        "surprisal",
        "rarity",
        "never_seen",
    }
    assert len({line["row"] for line in lines}) == 3


def test_influence(run, people, model):
    code, output, _ = run(f"influence {people[0]}/run --of color --given size=2 --json")
    answer, expected = json.loads(output), model.influence("color", "size=2")
    assert code == 0
    assert answer == {"target": "color", "given": "size=2", "next": "price", **answer}
    assert answer["bits"] == pytest.approx(expected.bits)
    printed = run(f"influence {people[0]}/run --of color --given size=2")[1].splitlines()
    assert printed[0] == "color, given size=2"
    assert printed[1].endswith("bits are not known of it; of these each column would tell")
    assert printed[-1] == "ask next: price"
    assert any(line.startswith("size (given) ") for line in printed)


def test_similar(run, people, model, tmp_path):
    (tmp_path / "row.csv").write_text(ROW)
    code, output, _ = run(f"similar {people[0]}/run {tmp_path}/row.csv --in {people[0]}/people.csv --top 5")
    assert code == 0
    lines = list(csv.DictReader(io.StringIO(output)))
    assert list(lines[0]) == [".row", ".similarity", "color", "size", "price", "in stock"]
    table = read_table(people[0] / "people.csv")
    expected = model.similar(read_table(tmp_path / "row.csv"), table)
    assert [float(line[".similarity"]) for line in lines] == pytest.approx(sorted(expected, reverse=True)[:5], rel=5e-6)
    first = int(lines[0][".row"]) - 1
    assert expected[first] == expected.max()
    assert lines[0]["size"] == str(table["size"][first].as_py())
    answer = json.loads(run(f"similar {people[0]}/run {tmp_path}/row.csv --in {people[0]}/people.csv --json")[1])
    assert len(answer) == 10


def test_explain(run, people, model):
    answer = json.loads(run(f"explain {people[0]}/run --of color=red --given 'price>15, size=2' --json")[1])
    assert [step["evidence"] for step in answer["steps"]] == ["price>15", "size=2"]
    expected = model.explain("color=red", "price>15, size=2")
    assert answer["answer"] == pytest.approx(expected.answer)
    printed = run(f"explain {people[0]}/run --of color=red --given 'price>15, size=2'")[1]
    assert "log-odds" in printed
    assert any(line.startswith("price>15 ") for line in printed.splitlines())
    assert "the mean of price" in run(f"explain {people[0]}/run --of price --given color=red")[1]


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("influence {run} --of colr", "did you mean color"),
        ("anomalies {run} nothing.csv", "nothing.csv"),
        ("explain {run} --of color=red --given price=-5", "the evidence is impossible"),
    ],
)
def test_mistakes_are_one_line(run, people, command, message):
    code, output, error = run(command.format(run=people[0] / "run"))
    assert (code, output) == (2, "")
    assert message in error
    assert len(error.splitlines()) == 1


@pytest.mark.parametrize(
    "event",
    ["red", "a, b", 'the "best"', "x=1", "missing", ("2", None), (None, "5"), ("1", "2"), Above("3"), AtLeast("3")]
    + [Below("3"), AtMost("3"), Missing(), Not("red"), Not(AnyOf("a", ("1", "2"))), AnyOf("a|b", "c")]
    + [Likely({"red": 0.7, "a, b": 0.3})],
    ids=str,
)
def test_events_are_written_as_they_are_read(event):
    assert parse_evidence(write_event("a column", event), ["a column"]) == {"a column": event}
