import json

from functools import cache

import pytest

from hyperspn import recipes
from hyperspn.data.datasets import Dataset
from hyperspn.experiments import ARTIFACTS, Records, Run, beyond, reproduce
from hyperspn.experiments.beyond import RECIPE_GROUPS, BeyondRun, comparison, runs
from hyperspn.experiments.settings import HAND_CRAFTED, METHODS

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture
def records(tmp_path):
    return Records(tmp_path)


@pytest.fixture
def tiny(monkeypatch):
    """Every recipe in a small version, trained for four steps on few rows."""
    load = beyond.datasets.load_dataset
    few = cache(lambda name, data_dir: Dataset(*(rows[:200] for rows in load(name, data_dir=data_dir))))
    monkeypatch.setattr(beyond.datasets, "load_dataset", few)
    for name, recipe in beyond.BEYOND_RECIPES.items():
        small = recipe._replace(layer_size=2, replicas=2, hidden=(3,), warm=False)
        monkeypatch.setitem(beyond.BEYOND_RECIPES, name, small)
    for name, value in {"FEWEST": 4, "MOST": 4, "BATCH_SIZE": 20, "SMALLEST_BATCH": 20, "EVALUATIONS": 2}.items():
        monkeypatch.setattr(recipes, name, value)


def test_runs_become_records_and_a_row(tiny, records, capsys):
    report = reproduce("beyond", records.folder, datasets=[HAND_CRAFTED], seeds=1, jobs=1)
    for run in runs([HAND_CRAFTED], seeds=1):
        record = records[run]
        assert record["curve"]["steps"] == [0, 2, 4]
        schedule = {"steps": 4, "evaluate_every": 2, "batch_size": 20, "annealing": True}
        assert record["schedule"].items() >= schedule.items()
        assert ("weight_decay" in record["schedule"]) == (run.setting in RECIPE_GROUPS["factored"])
    (row,) = report.rows
    assert (row["published"], row["published_params"], row["best_tractable"]) == (-166.32, 129_115, None)
    assert row["unlimited"] in [records[run]["test"] for run in runs([HAND_CRAFTED], seeds=1)]
    assert row["random"] is None
    stamps = {path: path.stat().st_mtime_ns for path in records.folder.rglob("*.json")}
    ensemble = records[BeyondRun(HAND_CRAFTED, beyond.ENSEMBLE, 0)]
    assert row["ensemble"] == ensemble["test"]
    assert 1 <= len(ensemble["members"]) <= beyond.MEMBERS
    assert sum(member["weight"] for member in ensemble["members"]) == pytest.approx(1, abs=1e-5)
    best = sorted(runs([HAND_CRAFTED], seeds=1), key=lambda run: -records[run]["valid"])[: beyond.LEADERS]
    assert ensemble["options"]["recipes"] == [run.setting for run in best]
    assert reproduce("beyond", records.folder, datasets=[HAND_CRAFTED], seeds=1, jobs=1).rows == [row]
    assert {path: path.stat().st_mtime_ns for path in records.folder.rglob("*.json")} == stamps


def put(records, run, parameters, valid, test):
    records.keep(run, {**run._asdict(), "parameters": parameters, "valid": valid, "test": test})


def test_the_best_on_validation_within_the_limits_counts(records):
    put_all = {"parameters": 10_000, "valid": -9.0, "test": -1.0}
    for run in [*runs(["nltcs"], seeds=1), *(Run("nltcs", setting, 0) for setting in METHODS["hyperspn"])]:
        put(records, run, **put_all)
    put(records, BeyondRun("nltcs", "learned", 0), 9115, -6.3, -6.4)
    put(records, BeyondRun("nltcs", "chow_liu", 0), 4557, -6.5, -6.1)
    put(records, BeyondRun("nltcs", "factored_k8_r32_f8", 0), 9116, -6.0, -6.2)
    (row,) = comparison(records, ["nltcs", "plants"])
    assert (row["best"], row["best_params"], row["best_setting"]) == (-6.4, 9115, "learned")
    assert (row["half"], row["half_params"], row["half_setting"]) == (-6.1, 4557, "chow_liu")
    assert (row["unlimited"], row["unlimited_params"]) == (-6.2, 9116)
    assert {group: row[group] for group in RECIPE_GROUPS} == {"learned": -6.4, "chow_liu": -6.1, "factored": -6.2}
    assert (row["published"], row["published_params"]) == (-6.01, 9115)
    assert (row["best_tractable"], row["by"]) == (-5.99, "LearnPSDD-BEM, HCLT-pub")
    assert "**-6.01**" in ARTIFACTS["beyond"].report(records, ["nltcs"]).markdown()
    json.dumps(row)


def test_nothing_small_enough_is_no_value(records):
    for run in runs(["nltcs"], seeds=1):
        put(records, run, 10**6, -9.0, -1.0)
    (row,) = comparison(records, ["nltcs"])
    assert row["best"] is row["half"] is row["half_params"] is None
    assert row["unlimited"] == -1.0


def test_each_seed_chooses_its_own_recipe(records):
    for run in runs(["nltcs"], seeds=3):
        put(records, run, 5000, -9.0, -9.0)
    tests = {("learned", 0): -6.0, ("chow_liu", 1): -6.2, ("learned", 2): -6.4}
    for (setting, seed), test in tests.items():
        put(records, BeyondRun("nltcs", setting, seed), 6000 + seed, -6.0, test)
    put(records, BeyondRun("nltcs", beyond.ENSEMBLE, 0), 50_000, -5.9, -5.8)
    (row,) = comparison(records, ["nltcs"])
    assert (row["best"], row["best_std"]) == (pytest.approx(-6.2), pytest.approx(0.2))
    assert (row["best_params"], row["best_setting"]) == (6002, "learned, chow_liu")
    assert (row["ensemble"], row["ensemble_std"], row["seeds"]) == (-5.8, None, 3)
    shown = ARTIFACTS["beyond"].report(records, ["nltcs"]).markdown()
    assert "-6.20 ± 0.20" in shown
    assert "| -5.80 | 50,000 |" in shown


def test_ensembles_come_after_the_recipes(records):
    artifact = ARTIFACTS["beyond"]
    assert {run.setting for run in artifact.missing_runs(records, ["nltcs"], 1)} == set(beyond.BEYOND_RECIPES)
    assert [run.setting for run in artifact.later_runs(records, ["nltcs"], 1)] == [beyond.ENSEMBLE]
    for run in runs(["nltcs"], seeds=1):
        put(records, run, 5000, -9.0, -9.0)
    assert artifact.missing_runs(records, ["nltcs"], 1) == [BeyondRun("nltcs", beyond.ENSEMBLE, 0)]
    assert artifact.later_runs(records, ["nltcs"], 1) == []
    assert BeyondRun("nltcs", beyond.ENSEMBLE, 0).core_seconds > 0
