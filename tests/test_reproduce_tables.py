import json

from types import SimpleNamespace

import numpy as np
import pytest

pd = pytest.importorskip("pandas")
pytest.importorskip("sdmetrics")
pytest.importorskip("xgboost")

from hyperspn import asking
from hyperspn.cli import main
from hyperspn.experiments import ARTIFACTS, Records, reproduce, table_quality, tables
from hyperspn.experiments.published import PUBLISHED_TABLES
from hyperspn.experiments.tables import CHOSEN_BY, TABLES, TableRun, load_parts

pytestmark = pytest.mark.usefixtures("one_thread")

PROMISED = {
    *("dataset", "chosen_by", "recipe", "seeds", "c2st_xgboost", "c2st_logistic", "c2st_xgboost_held_out"),
    *("shape", "trend", "wnmis", "utility", "copies", "copies_held_out"),
    *("test_log_likelihood", "parameters", "train_seconds", "sample_seconds"),
}


def magic(rows, seed):
    rng = np.random.default_rng(seed)
    length = rng.normal(50, 10, rows).round(2)
    return pd.DataFrame({"length": length, "width": (length / 2).round(2), "class": np.where(length > 50, "g", "h")})


@pytest.fixture
def data(tmp_path):
    """Small tables with the names of real ones."""
    folder = tmp_path / "data" / "tables"
    folder.mkdir(parents=True)
    magic(400, 0).to_csv(folder / "magic.csv", index=False)
    adult = pd.DataFrame(
        {"age": np.arange(17, 117), "job": ["Sales", "?"] * 50, "income": ["<=50K", "<=50K", ">50K", "<=50K"] * 25}
    )
    adult.to_csv(folder / "adult.train.csv.gz", index=False)
    adult[:50].to_csv(folder / "adult.test.csv.gz", index=False)
    beijing = pd.DataFrame({"No": np.arange(100), "pm2.5": ["NA"] * 20 + ["7"] * 80, "cbwd": "NW"})
    beijing.to_csv(folder / "beijing.csv", index=False)
    return str(tmp_path / "data")


@pytest.fixture
def calls(monkeypatch):
    """A stand-in for models of tables, of independent columns, that remembers what it was asked to fit.

    The trees that judge them are few.
    """
    calls = []
    monkeypatch.setattr(table_quality, "GRID", [{"max_depth": 5}])
    monkeypatch.setattr(table_quality, "TREES", (5, 10))

    def fit_table(train, *, valid, seed, missing_as_data, folder, progress, judge=None):
        choose = "samples" if judge else "likelihood"

        def sample(n, *, seed):
            rows = np.random.default_rng(seed).integers(len(train), size=(n, train.shape[1])).T
            return pd.DataFrame({name: train[name].to_numpy()[row] for name, row in zip(train.columns, rows)})

        calls.append({"train": train, "valid": valid, "choose": choose, "missing_as_data": missing_as_data})
        return SimpleNamespace(
            sample=sample,
            log_likelihood=lambda table: np.where(table.index == 0, -np.inf, -2.0 - seed),
            circuit=SimpleNamespace(num_parameters=100 + seed),
            recipe=f"k = {4 if choose == 'samples' else 8}",
        )

    monkeypatch.setattr(asking, "fit_table", fit_table)
    return calls


def test_a_given_split_stays_and_validation_rows_are_cut_from_the_training_rows(data):
    parts = load_parts("adult", seed=3, data_dir=data)
    assert [len(part) for part in parts] == [90, 10, 50]
    assert sorted([*parts.train["age"], *parts.valid["age"]]) == list(range(17, 117))
    assert parts.test["age"].tolist() == list(range(17, 67))
    assert set(parts.valid["age"]) != set(load_parts("adult", seed=4, data_dir=data).valid["age"])
    assert set(parts.train["job"]) == {"Sales", "?"}


def test_a_tenth_is_held_out_whatever_the_seed(data):
    first, second = (load_parts("magic", seed, data) for seed in (0, 1))
    assert [len(part) for part in first] == [324, 36, 40]
    assert first.test.equals(second.test)
    assert not first.valid.equals(second.valid)
    whole = pd.concat(first).sort_values(["length", "width"], ignore_index=True)
    assert whole.equals(magic(400, 0).sort_values(["length", "width"], ignore_index=True))


def test_holes_are_left_out_or_learned(data):
    beijing = pd.concat(load_parts("beijing", data_dir=data))
    assert (len(beijing), list(beijing.columns)) == (80, ["pm2.5", "cbwd"])
    assert beijing["pm2.5"].eq(7).all()
    holes = load_parts("adult_holes", data_dir=data)
    assert [len(part) for part in holes] == [90, 10, 50]
    assert pd.concat(holes)["job"].isna().sum() == 75


def test_a_table_that_is_not_there_is_named(data):
    with pytest.raises(FileNotFoundError, match=r"no shoppers.csv or shoppers.csv.gz in the folder tables"):
        load_parts("shoppers", data_dir=data)


def test_runs_become_records_and_rows(data, calls, tmp_path, capsys):
    results = tmp_path / "results"
    report = reproduce("tables", results, datasets=["magic"], seeds=2, jobs=1, data_dir=data)
    assert [call["choose"] for call in calls] == ["likelihood", "samples"] * 2
    assert calls[0]["train"].equals(load_parts("magic", 0, data).train)
    assert calls[2]["valid"].equals(load_parts("magic", 1, data).valid)
    assert not any(call["missing_as_data"] for call in calls)
    by_likelihood, by_samples = report.rows
    assert [row["chosen_by"] for row in report.rows] == list(CHOSEN_BY)
    assert (by_likelihood["recipe"], by_samples["recipe"]) == ("k = 8", "k = 4")
    assert by_likelihood.keys() >= PROMISED
    assert (by_likelihood["seeds"], by_likelihood["test_log_likelihood"]) == (2, -2.5)
    records = [Records(results)[TableRun("magic", seed)] for seed in range(2)]
    assert by_likelihood["c2st_xgboost"] == np.mean([record["likelihood"]["c2st_xgboost"] for record in records])
    assert [record["likelihood"]["impossible"] for record in records] == [{"valid": 1, "test": 1}] * 2
    assert {"versions", "machine", "command"} <= records[0].keys()
    assert by_likelihood["shape"] > 0.9
    assert by_likelihood["c2st_xgboost"] < 0.2
    reproduce("tables", results, datasets=["magic"], seeds=2, jobs=1, data_dir=data)
    assert len(calls) == 4


def test_holes_are_learned_as_data(data, calls, tmp_path):
    reproduce("tables", tmp_path / "results", datasets=["adult_holes"], seeds=1, jobs=1, data_dir=data)
    assert all(call["missing_as_data"] for call in calls)
    assert calls[0]["train"]["job"].isna().any()


def kept(folder, dataset, seed, c2st_xgboost):
    run = TableRun(dataset, seed)
    record = dict.fromkeys(tables.METRICS, 0.5) | {"c2st_xgboost": c2st_xgboost, "valid": -1.0, "test": -1.5}
    record |= {"recipe": "k = 8", "parameters": 1000, "seconds": 60.0}
    Records(folder).keep(run, run._asdict() | {"valid": -1.0, "test": -1.5} | dict.fromkeys(CHOSEN_BY, record))


def test_json_comes_from_the_records_alone(tmp_path, capsys, monkeypatch):
    monkeypatch.delenv("HYPERSPN_DATA", raising=False)
    for seed in range(3):
        kept(tmp_path, "shoppers", seed, c2st_xgboost=0.8 + seed / 100)
    monkeypatch.setattr("sys.argv", ["hyperspn", "reproduce", "tables", "--results", str(tmp_path), "--json"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert not ended.value.code
    row, other = json.loads(capsys.readouterr().out)["rows"]
    assert other == row | {"chosen_by": "samples", "method": "ours, chosen by samples"}
    assert row.keys() >= PROMISED
    assert (row["dataset"], row["chosen_by"], row["seeds"], row["recipe"]) == ("shoppers", "likelihood", 3, "k = 8")
    assert (row["c2st_xgboost"], row["c2st_xgboost_std"]) == (pytest.approx(0.81), pytest.approx(0.01))
    assert (row["test_log_likelihood"], row["parameters"], row["train_seconds"]) == (-1.5, 1000, 60.0)


def test_the_report_has_the_published_generators_below_each_table(tmp_path):
    for dataset in ("adult", "magic", "adult_holes"):
        kept(tmp_path, dataset, 0, c2st_xgboost=0.9)
    lines = ARTIFACTS["tables"].report(Records(tmp_path), list(TABLES)).markdown().splitlines()[2:]
    shown = [tuple(cell.strip() for cell in line.split("|")[1:4]) for line in lines]
    published = ["CTGAN", "TVAE", "TabSyn", "TabDiff", "TabPC"]
    ours = ["ours, chosen by likelihood", "ours, chosen by samples"]
    expected = [("adult", ours + published), ("magic", ours + published), ("adult_holes", ours)]
    assert [line[:2] for line in shown] == [(dataset, method) for dataset, methods in expected for method in methods]
    assert ("adult", "TabPC", "0.855 ± 0.033") in shown
    assert ("magic", ours[0], "0.900") in shown


def test_published_values_are_whole():
    assert {row["dataset"] for row in PUBLISHED_TABLES} == set(TABLES) - {"adult_holes"}
    assert len(PUBLISHED_TABLES) == 25
    for row in PUBLISHED_TABLES:
        assert all(0 <= row[name] <= 1 for name in ("c2st_xgboost", "c2st_logistic", "shape", "trend", "wnmis"))
        assert row["parameters"] > 9_000_000
    means = {(row["dataset"], row["method"]): row["c2st_xgboost"] for row in PUBLISHED_TABLES}
    assert means["shoppers", "TabPC"] == 0.8936
    assert means["beijing", "TabDiff"] == 0.7723
