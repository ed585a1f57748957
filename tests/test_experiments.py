import json
import os
import re
import signal
import subprocess
import sys
import time

from itertools import product
from math import exp, log, pi, sqrt
from pathlib import Path
from statistics import fmean

import joblib
import numpy as np
import pytest
import torch

from hyperspn import datasets
from hyperspn.experiments import ARTIFACTS, Artifact, Records, Run, parzen, reproduce, runs, workers
from hyperspn.experiments.beyond import BEYOND_RECIPES, ENSEMBLE, BeyondRun
from hyperspn.experiments.published import PUBLISHED_BENCHMARKS, PUBLISHED_HAND_CRAFTED
from hyperspn.experiments.reports import Report, ReportColumn
from hyperspn.experiments.reproduce import write_report
from hyperspn.experiments.settings import (
    AMAZON,
    HAND_CRAFTED,
    METHODS,
    PLATEAUS,
    PUBLISHED_METHODS,
    SCHEDULES,
    SETTINGS,
    STARTS,
    TWENTY,
    Schedule,
    Setting,
)
from hyperspn.experiments.svhn import CLUSTER_SETTINGS, AnnealedRun, ClusterRun
from hyperspn.experiments.tables import CHOSEN_BY, METRICS, TABLES, TableRun
from hyperspn.experiments.workers import source_state, train_all
from hyperspn.learning import fit
from hyperspn.learning.checkpoint import Folder

pytestmark = pytest.mark.usefixtures("one_thread")

COMMITTED = Records(Path(__file__).parents[1] / "results")
SWEPT = METHODS["weight_decay"] + METHODS["hyperspn"]
FIELDS = {
    *("dataset", "seed", "options", "schedule", "versions", "machine", "command", "parameters", "steps", "best_step"),
    *("seconds", "train", "valid", "test", "curve"),
}
TABLE_FIELDS = {"dataset", "seed", "versions", "machine", "command", "seconds", "valid", "test", *CHOSEN_BY}
CHOICE_FIELDS = {"recipe", "parameters", "seconds", "valid", "test", *METRICS}
FIRST = Run(HAND_CRAFTED, "spn_wd_1e-3", 0)

ENDLESS = """
import sys, time
from hyperspn.experiments import Records, Run
from hyperspn.experiments.workers import Path, train_all

def endless(run, folder, data_dir, threads):
    folder.mkdir(parents=True)
    time.sleep(600)

runs = [Run("hand-crafted", "spn_wd_1e-3", seed) for seed in range(2)]
list(train_all(runs, Records(Path(sys.argv[1])), jobs=2, train_one=endless))
"""


@pytest.fixture
def records(tmp_path):
    return Records(tmp_path / "results")


@pytest.fixture
def tiny(monkeypatch):
    """Small circuits on a small table, for a few steps, on one core."""
    monkeypatch.setenv("LOKY_MAX_CPU_COUNT", "1")
    monkeypatch.setitem(datasets.BUILT_IN, HAND_CRAFTED, lambda seed: datasets.hand_crafted(seed, rows=100))
    monkeypatch.setitem(SCHEDULES, HAND_CRAFTED, Schedule(6, 2, patience=2, batch_size=20))
    monkeypatch.setattr(runs, "KERNELS", 30)
    for name, setting in SETTINGS.items():
        monkeypatch.setitem(SETTINGS, name, setting._replace(layer_size=2, replicas=2))


def put(records, run, **changes):
    """Keeps a made-up record."""
    curve = {"steps": [0, 10, 20], "train": [-9.0, -7.0, -5.5], "valid": [-9.0, -7.5, -7.0]}
    made_up = {"parameters": 100, "valid": -7.0, "test": -7.0, "curve": curve, "bandwidth": 0.1}
    qualities = {"sample_quality_published": -2.5, "sample_quality_proper": 4.0}
    records.keep(run, {**run._asdict(), **made_up, **qualities, **changes})


def put_all(records, dataset="nltcs", spn=(-6.03, -6.02, -6.04), hyperspn=(-6.01, -6.012, -6.014)):
    """Keeps all settings with the first seed, and the middle one, which is chosen, with these test values."""
    for method, tests in (("weight_decay", spn), ("hyperspn", hyperspn), ("spn_small", spn)):
        for setting in METHODS[method]:
            put(records, Run(dataset, setting, 0), test=-7.0)
        for seed, test in enumerate(tests):
            put(records, Run(dataset, METHODS[method][1], seed), test=test, valid=-6.5)


def untimed(record):
    return {key: value for key, value in record.items() if key not in ("seconds", "command")}


def stopped_after(monkeypatch, evaluations):
    """Lets training raise in place of the next evaluation."""
    calls, keep = [], Folder.keep

    def watched(*arguments):
        if len(calls) == evaluations:
            raise KeyboardInterrupt
        calls.append(arguments)
        keep(*arguments)

    monkeypatch.setattr(Folder, "keep", watched)


# Parzen windows


def rows_of(count, seed):
    return np.random.default_rng(seed).integers(0, 2, (count, 5))


def kernel(x, center, bandwidth, dimension):
    square = sum((a - b) ** 2 for a, b in zip(x.tolist(), center.tolist()))
    return exp(-square / 2 / bandwidth**2) / sqrt(2 * pi * bandwidth**2) ** dimension


@pytest.mark.parametrize("at_once", [1, 12, 2**24])
def test_published_quality_is_the_formula(monkeypatch, at_once):
    monkeypatch.setattr(parzen, "DISTANCES_AT_ONCE", at_once)
    samples, test = rows_of(4, seed=0), rows_of(8, seed=1)
    batches = [
        fmean(log(fmean(kernel(s, x, bandwidth=3, dimension=1) for x in batch)) for s in samples)
        for batch in (test[:3], test[3:6], test[6:])
    ]
    quality = parzen.published_quality(torch.from_numpy(samples), torch.from_numpy(test), batch_size=3)
    assert quality == pytest.approx(fmean(batches), abs=1e-6)


@pytest.mark.parametrize("at_once", [1, 12, 2**24])
def test_parzen_log_likelihood_is_the_formula(monkeypatch, at_once):
    monkeypatch.setattr(parzen, "DISTANCES_AT_ONCE", at_once)
    samples, valid, test = rows_of(9, seed=0), rows_of(6, seed=1), rows_of(7, seed=2)

    def mean(rows, bandwidth):
        return fmean(log(fmean(kernel(x, s, bandwidth, dimension=5) for s in samples)) for x in rows)

    best = max(parzen.BANDWIDTHS, key=lambda bandwidth: mean(valid, bandwidth))
    assert parzen.BANDWIDTHS[0] < best < parzen.BANDWIDTHS[-1]
    log_likelihood, bandwidth = parzen.parzen_log_likelihood(*map(torch.from_numpy, (samples, valid, test)))
    assert bandwidth == best
    assert log_likelihood == pytest.approx(mean(test, best), abs=1e-5)


def test_rows_that_are_all_among_the_samples_have_the_narrowest_kernels():
    every = torch.tensor(list(product((0, 1), repeat=3)))
    log_likelihood, bandwidth = parzen.parzen_log_likelihood(every, every, every)
    assert bandwidth == parzen.BANDWIDTHS[0]
    assert log_likelihood == pytest.approx(log(1 / 8) - 1.5 * log(2 * pi * bandwidth**2), abs=1e-5)


# Records


def test_the_setting_with_the_best_validation_value_is_chosen(records):
    for setting, valid, test in zip(METHODS["hyperspn"], (-3.0, -1.0, -2.0), (-1.0, -3.0, -2.0)):
        assert records.best_setting("nltcs", "hyperspn") is None
        assert records.of_best_setting("nltcs", "hyperspn") == []
        put(records, Run("nltcs", setting, 0), valid=valid, test=test)
    assert records.best_setting("nltcs", "hyperspn") == "hyperspn_h10"
    put(records, Run("nltcs", "hyperspn_h5", 1), valid=0.0)
    put(records, Run("nltcs", "hyperspn_h10", 12))
    assert records.best_setting("nltcs", "hyperspn") == "hyperspn_h10"
    assert [record["seed"] for record in records.of_best_setting("nltcs", "hyperspn")] == [0, 12]


def test_runs_are_missing_in_two_phases(records):
    artifact = ARTIFACTS["table3"]
    first = [Run(HAND_CRAFTED, setting, 0) for method in artifact.methods for setting in METHODS[method]]
    assert artifact.missing_runs(records, [HAND_CRAFTED], seeds=3) == first
    assert len(artifact.later_runs(records, [HAND_CRAFTED], seeds=3)) == 3 * 2
    for run in first[1:]:
        put(records, run)
    assert artifact.missing_runs(records, [HAND_CRAFTED], seeds=1) == first[:1]
    put(records, first[0], valid=-1.0)
    assert artifact.missing_runs(records, [HAND_CRAFTED], seeds=1) == []
    assert artifact.later_runs(records, [HAND_CRAFTED], seeds=3) == []
    missing = artifact.missing_runs(records, [HAND_CRAFTED], seeds=3)
    chosen = ("spn_wd_1e-3", "hyperspn_h5", "spn_small_wd_1e-3")
    assert missing == [Run(HAND_CRAFTED, setting, seed) for setting in chosen for seed in (1, 2)]


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", '{"dataset": "hand-crafted"', "\xff"]
    + [
        json.dumps({**FIRST._asdict(), "valid": -1.0, "test": -1.0, **change})
        for change in ({"seed": 1}, {"test": None}, {"test": float("nan")}, {"valid": "-1"})
    ],
)
def test_a_damaged_record_is_an_error(records, text):
    put(records, FIRST)
    assert records[FIRST]["test"] == -7.0
    (records.folder / FIRST.path).write_text(text, encoding="latin-1")
    with pytest.raises(ValueError, match=r"the record .*spn_wd_1e-3-seed0\.json is damaged: remove or restore it"):
        records[FIRST]


# Training


def test_a_run_becomes_a_complete_record(tiny, records):
    run = Run(HAND_CRAFTED, "hyperspn_h5", 1)
    assert list(train_all([run], records, jobs=1)) == [run]
    record = records[run]
    data, setting = datasets.load_dataset(HAND_CRAFTED), SETTINGS["hyperspn_h5"]
    circuit = setting.build(256, seed=1)
    history = fit(circuit, *data[:2], steps=6, evaluate_every=2, patience=2, batch_size=20, seed=1, progress=False)
    assert record["test"] == pytest.approx(circuit.log_prob(data.test).mean().item(), abs=1e-4)
    assert record["valid"] == pytest.approx(history.best_valid, abs=1e-4)
    assert (record["steps"], record["best_step"]) == (history.steps[-1], history.best_step)
    assert record["parameters"] == circuit.num_parameters
    assert record["curve"]["steps"] == history.steps
    assert record["curve"]["valid"] == pytest.approx(history.valid, abs=1e-4)
    assert record["options"] == {"layer_size": 2, "replicas": 2, "weight_decay": 0.0, "hidden": [20, 5]}
    assert record["schedule"] == SCHEDULES[HAND_CRAFTED]._asdict()
    assert record["bandwidth"] in parzen.BANDWIDTHS
    assert record["versions"]["torch"] == torch.__version__
    assert record["machine"]["cores"] == record["machine"]["threads"] == 1
    qualities = {"sample_quality_published", "sample_quality_proper", "bandwidth"}
    assert record.keys() == FIELDS | qualities | {"setting", "commit", "clean"}


def test_a_record_names_the_commit_of_its_package(tmp_path, monkeypatch):
    package = tmp_path / "repository" / "package"
    (package / "experiments").mkdir(parents=True)
    monkeypatch.setattr(workers, "__file__", str(package / "experiments" / "workers.py"))
    assert source_state() == {"commit": None, "clean": None}

    def git(*arguments):
        command = ["git", "-c", "user.name=a", "-c", "user.email=b", "-C", str(package.parent), *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    git("init")
    (package / "__init__.py").touch()
    assert source_state() == {"commit": None, "clean": None}  # as in an environment inside another repository
    git("add", "package")
    git("commit", "-m", "first")
    (package.parent / "record.json").touch()
    assert source_state() == {"commit": git("rev-parse", "HEAD"), "clean": True}
    (package / "__init__.py").write_text("changed = True\n")
    assert source_state() == {"commit": git("rev-parse", "HEAD"), "clean": False}
    monkeypatch.setenv("PATH", "")
    assert source_state() == {"commit": None, "clean": None}


def test_an_interrupted_run_resumes_and_leaves_nothing_behind(tiny, records, tmp_path, monkeypatch):
    unfinished = records.folder / ".unfinished" / FIRST.path.with_suffix("")
    with monkeypatch.context() as patch:
        stopped_after(patch, evaluations=2)
        with pytest.raises(KeyboardInterrupt):
            list(train_all([FIRST], records, jobs=1))
    assert FIRST not in records
    assert len((unfinished / "log.jsonl").read_text().splitlines()) == 2
    with monkeypatch.context() as patch:
        stopped_after(patch, evaluations=2)
        assert list(train_all([FIRST], records, jobs=1)) == [FIRST]
    assert not unfinished.exists()
    whole = Records(tmp_path / "whole")
    list(train_all([FIRST], whole, jobs=1))
    assert untimed(records[FIRST]) == untimed(whole[FIRST])


def test_no_run_outlives_a_killed_command(records):
    process = subprocess.Popen([sys.executable, "-c", ENDLESS, str(records.folder)], stdout=subprocess.PIPE)
    while len(list(records.folder.glob(".unfinished/*/*"))) < 2:
        assert process.poll() is None
        time.sleep(0.1)
    process.kill()
    process.communicate(timeout=60)  # returns once all processes that could write to the pipe have ended


def test_a_killed_worker_is_explained(records):
    def run_out_of_memory(*_):
        os.kill(os.getpid(), signal.SIGKILL)

    with pytest.raises(
        ChildProcessError, match="a worker was killed, perhaps for lack of memory: run the same command again to resume"
    ):
        list(train_all([FIRST, FIRST._replace(seed=1)], records, jobs=2, train_one=run_out_of_memory))


def test_a_table_is_trained_once_and_never_again(tiny, records, monkeypatch, capsys):
    report = reproduce("table3", records.folder, seeds=2, jobs=1)
    assert [row["model"] for row in report.rows] == ["SPN-Large", "SPN-Small", "HyperSPN"]
    assert [row["seeds"] for row in report.rows] == [2, 2, 2]
    assert len(list(records.folder.glob("*/*.json"))) == 9 + 3
    announced = capsys.readouterr().err.splitlines()
    assert announced[0].startswith("table3: 9 runs to train, then 3 that depend on these, on 1 core: about a minute")
    assert announced[1].startswith("1/9 hand-crafted spn_wd_1e-3 seed 0: test -")
    assert announced[10].startswith("table3: 3 runs to train, on 1 core: ")
    assert len(announced) == 1 + 9 + 1 + 3
    monkeypatch.setattr(runs, "fit", None)
    assert reproduce("table3", records.folder, seeds=2, jobs=1) == report
    assert reproduce("table3", records.folder, train=False) == report
    assert capsys.readouterr().err == ""
    assert (records.folder / "table3.md").read_text() == report.markdown()
    assert (records.folder / "table3.csv").read_text() == report.csv()


@pytest.mark.parametrize("train", [True, False])
def test_a_report_is_computed_once(records, monkeypatch, train):
    for name in ("nltcs", "plants"):
        put_all(records, name)
    calls, report = [], Artifact.report
    monkeypatch.setattr(Artifact, "report", lambda *arguments: calls.append(arguments) or report(*arguments))
    rows = reproduce("table1", records.folder, datasets=["plants"], train=train).rows
    assert [row["dataset"] for row in rows] == ["plants"]
    assert len(calls) == 1
    assert (records.folder / "table1.md").exists() == train
    if train:
        assert (records.folder / "table1.md").read_text().count("\n") == 2 + 2 + 1


def test_the_shortest_runs_go_first(tiny, records, monkeypatch):
    monkeypatch.setitem(SETTINGS, FIRST.setting, SETTINGS[FIRST.setting]._replace(replicas=3))
    shorter = FIRST._replace(setting="hyperspn_h5")
    assert list(train_all([FIRST, shorter], records, jobs=1)) == [shorter, FIRST]


class WithoutGenerators(joblib._parallel_backends.ThreadingBackend):
    """As Ray's backend, which returns all results at the end."""

    supports_return_generator = False


def test_backends_that_return_all_at_the_end(tiny, records):
    joblib.register_parallel_backend("all at the end", WithoutGenerators)
    both = [Run(HAND_CRAFTED, setting, 0) for setting in ("spn_wd_1e-3", "hyperspn_h5")]
    with joblib.parallel_config("all at the end"):
        assert sorted(train_all(both, records, jobs=2)) == sorted(both)
    assert all(run in records for run in both)


def test_a_cluster_of_dask_trains(tiny, records, tmp_path):
    dask, distributed = pytest.importorskip("dask"), pytest.importorskip("distributed")
    options = {"processes": False, "n_workers": 1, "threads_per_worker": 2, "dashboard_address": ":0"}
    with distributed.LocalCluster(**options, local_directory=str(tmp_path)) as cluster:
        with dask.config.set({"scheduler-address": cluster.scheduler_address}):
            report = reproduce("table3", records.folder, seeds=1, backend="dask")
        assert not cluster.scheduler.tasks
    assert len(report.rows) == 3
    here = Records(tmp_path / "here")
    list(train_all([FIRST], here, jobs=1))
    assert records[FIRST]["test"] == pytest.approx(here[FIRST]["test"], rel=1e-5)
    assert not list((records.folder / ".unfinished").glob("*/*"))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("tabel1",), "found 'tabel1'; did you mean table1"),
        (("table1", "results", {"datasets": ["nltsc"]}), "found 'nltsc'; did you mean nltcs"),
        (("table4", "results", {"datasets": ["nltcs"]}), "expected one of none, found 'nltcs'"),
        (("table1", "results", {"backend": "dusk"}), "did you mean dask"),
        (("table1", "results", {"seeds": 0}), "expected seeds >= 1, found 0"),
        (("table1", "results", {"jobs": -1}), "expected jobs >= 1, found -1"),
        (("table1", "results", {"backend": "ray"}), r"pip install 'hyperspn\[ray\]'"),
    ],
)
def test_mistakes_are_found_before_any_work(monkeypatch, tmp_path, arguments, message):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "ray", None)
    *places, options = arguments if len(arguments) == 3 else (*arguments, {})
    with pytest.raises(ValueError, match=message):
        reproduce(*places, **options)
    assert not list(tmp_path.iterdir())


# Tables


def test_tables_1_and_2(records):
    put_all(records)
    put_all(records, "plants", spn=(-13.5,), hyperspn=(-13.25, -13.35))
    put(records, Run("baudio", "hyperspn_h5", 0))
    report = reproduce("table1", records.folder, train=False)
    first, second = report.rows
    assert (first["dataset"], first["name"], first["variables"]) == ("nltcs", "NLTCS", 16)
    assert first["weight_decay"] == pytest.approx((-6.03 - 6.02 - 6.04) / 3, abs=1e-12)
    assert first["hyperspn"] == pytest.approx(-6.012, abs=1e-12)
    assert first["hyperspn_std"] == pytest.approx(0.002)
    assert (first["weight_decay_published"], first["hyperspn_published"]) == (-6.02, -6.01)
    assert (first["hyperspn_parameters"], first["hyperspn_parameters_published"]) == (100, 9115)
    assert (first["hyperspn_chosen"], first["hyperspn_chosen_published"]) == ("10", "10")
    assert (first["weight_decay_chosen"], first["weight_decay_chosen_published"]) == ("1e-4", "1e-3 or 1e-4 or 1e-5")
    assert (second["weight_decay_seeds"], second["hyperspn_seeds"], second["weight_decay_std"]) == (1, 2, None)
    assert second["hyperspn"] == pytest.approx(-13.3)
    assert report.mean["hyperspn"] == pytest.approx((-6.012 - 13.3) / 2)
    assert reproduce("table2", records.folder, train=False).rows == []
    assert len(reproduce("table1", records.folder, datasets=["plants"], train=False).rows) == 1


def test_a_table_in_markdown_and_csv():
    columns = (
        ReportColumn("name", "data set"),
        ReportColumn("n", "n"),
        ReportColumn("a", "A", group="x"),
        ReportColumn("b", "B", group="x"),
    )
    columns += (ReportColumn("c", "C", digits=3, spread=True),)
    rows = [
        {"name": "one", "n": 1234, "a": -1.004, "b": -1.001, "c": -0.5, "c_std": 0.25, "significant": "c"},
        {"name": "two", "n": 5, "a": -2.0, "b": -1.0, "c": None, "c_std": None, "significant": None},
    ]
    report = Report("A table", columns, rows)
    assert report.markdown().splitlines() == [
        "| data set | n | A | B | C |",
        "| --- | --- | --- | --- | --- |",
        "| one | 1,234 | -1.00 | -1.00 | -0.500⋆ ± 0.250 |",
        "| two | 5 | -2.00 | **-1.00** |  |",
        "| mean |  | -1.50 | **-1.00** |  |",
    ]
    assert report.csv().splitlines() == [
        "name,n,a,b,c,c_std,significant",
        "one,1234,-1.004,-1.001,-0.5,0.25,c",
        "two,5,-2.0,-1.0,,,",
    ]
    assert report._replace(rows=rows[:1]).mean is None
    unknown = report._replace(rows=[*rows, {**rows[0], "a": None}])
    assert unknown.markdown().splitlines()[-2:] == [
        "| one | 1,234 |  | -1.00 | -0.500⋆ ± 0.250 |",
        "| mean |  |  | -1.00 |  |",
    ]
    assert report._replace(rows=[]).markdown().count("\n") == 2
    assert report._replace(rows=[]).csv().strip() == ""


@pytest.mark.parametrize(
    ("difference", "better"), [(2.25, None), (2.28, "hyperspn"), (-2.25, None), (-2.28, "weight_decay")]
)
def test_significance_is_decided_at_the_critical_value(records, difference, better):
    spread = np.array([-1.0, 0.0, 1.0])  # t = difference / sqrt(2 / 3) with 4 degrees of freedom; critical: 2.776
    put_all(records, spn=-9 + spread, hyperspn=-9 + spread + difference)
    report = reproduce("table7", records.folder, train=False)
    assert report.rows[0]["significant"] == better
    assert ("⋆" in report.markdown()) == (better is not None)
    assert f"{-9 + difference:.2f}{'⋆' if better == 'hyperspn' else ''} ± 1.00" in report.markdown()


def test_one_seed_is_never_significant(records):
    put_all(records, spn=(-9.0,), hyperspn=(-6.0, -6.1, -6.2))
    report = reproduce("table7", records.folder, train=False)
    assert report.rows[0]["significant"] is None
    assert "| NLTCS | 16 | -9.00 | **-6.10 ± 0.10** |" in report.markdown()


def test_table_3(records):
    put_all(records, HAND_CRAFTED, spn=(-167.0, -167.2), hyperspn=(-166.5,))
    large, small, hyper = reproduce("table3", records.folder, train=False).rows
    assert large["log_likelihood"] == small["log_likelihood"] == pytest.approx(-167.1)
    assert (small["parameters_published"], small["log_likelihood_published"]) == (102450, -167.0)
    assert (hyper["model"], hyper["log_likelihood"], hyper["log_likelihood_std"]) == ("HyperSPN", -166.5, None)


def test_table_3_on_further_draws(tiny, records, capsys):
    report = reproduce("table3-draws", records.folder, seeds=2, jobs=1)
    assert [(row["method"], row["draws"]) for row in report.rows] == [(m, 2) for m in PUBLISHED_HAND_CRAFTED]
    for row in report.rows:
        chosen = [
            max(
                (records[runs.DrawRun(HAND_CRAFTED, s, draw)] for s in METHODS[row["method"]]), key=lambda r: r["valid"]
            )
            for draw in (1, 2)
        ]
        assert row["log_likelihood"] == pytest.approx(fmean(record["test"] for record in chosen))
        assert row["lowest"] == min(record["test"] for record in chosen)
    data = datasets.load_dataset(HAND_CRAFTED, seed=2)
    setting = SETTINGS["spn_wd_1e-3"]
    options = {**SCHEDULES[HAND_CRAFTED]._asdict(), "weight_decay": setting.weight_decay, "seed": 2}
    history = fit(setting.build(256, 2), data.train, data.valid, **options, progress=False)
    record = records[runs.DrawRun(HAND_CRAFTED, "spn_wd_1e-3", 2)]
    assert record["valid"] == pytest.approx(history.best_valid, rel=1e-6)
    assert (records.folder / "table3-draws.md").is_file()
    assert not list(records.folder.glob("hand-crafted/*.json"))


def test_the_plain_start_comes_first_and_is_that_of_all_old_records():
    """Twenty steps of a record that was made before there was another start."""
    assert STARTS[0] == Setting().start == "plain"
    record = COMMITTED[Run(HAND_CRAFTED, "hyperspn_h5", 0)]
    data, options = datasets.load_dataset(HAND_CRAFTED), record["schedule"] | {"steps": 20}
    circuit = SETTINGS["hyperspn_h5"].build(256, seed=0)
    history = fit(circuit, data.train, data.valid, **options, seed=0, progress=False)
    for part in ("train", "valid"):
        assert getattr(history, part) == pytest.approx(record["curve"][part][:3], rel=1e-5)


def test_the_careful_start_has_records_of_its_own(records):
    artifact = ARTIFACTS["careful"]
    assert artifact.default_datasets(None) == PLATEAUS
    put_all(records, "amzn_furniture")
    missing = artifact.missing_runs(records, ["amzn_furniture"], seeds=3)
    assert [run.setting for run in missing] == list(METHODS["hyperspn_careful"])
    for run in missing:
        assert "start" not in SETTINGS[run.setting.replace("careful_", "")].options
        assert SETTINGS[run.setting].options["start"] == "careful"
        assert SETTINGS[run.setting].build(4, 0).weights.start == "careful"
        put(records, run, test=-4.3)
    (row,) = artifact.report(records, ["amzn_furniture"]).rows
    assert (row["hyperspn"], row["hyperspn_careful"]) == (pytest.approx(-6.012), -4.3)
    assert (row["hyperspn_published"], row["hyperspn_careful_seeds"]) == (-4.32, 1)


def test_table_4_needs_no_records(tmp_path):
    rows = reproduce("table4", tmp_path / "new").rows
    assert rows[1] == {"option": "weight decay w", "weight_decay": "1e-3, 1e-4, 1e-5", "hyperspn": "none"}
    steps = [row for row in rows if row["option"].startswith("steps: ")]
    listed = [name for row in steps for name in row["option"].removeprefix("steps: ").split(", ")]
    assert sorted(listed) == sorted((*TWENTY, *AMAZON, HAND_CRAFTED))
    assert next(row for row in steps if "pumsb_star" in row["option"])["hyperspn"].startswith("80,000 of 500 rows")
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == ["table4.csv", "table4.md"]


def test_tables_5_and_6(records):
    put_all(records)
    (row,) = reproduce("table5", records.folder, train=False).rows
    assert [row[setting] for setting in METHODS["hyperspn"]] == [-7.0, -6.01, -7.0]
    assert [row[f"{setting}_published"] for setting in METHODS["hyperspn"]] == [-6.03, -6.01, -6.02]
    put(records, Run("nltcs", "hyperspn_h10", 1), sample_quality_published=-4.0, sample_quality_proper=7.0)
    (row,) = reproduce("table6", records.folder, train=False).rows
    assert (row["hyperspn"], row["hyperspn_proper"], row["hyperspn_bandwidth"]) == pytest.approx((-3.0, 5.0, 0.1))
    assert (row["weight_decay_published"], row["hyperspn_published"]) == (-2.346, -2.348)


def test_nothing_is_written_where_nothing_is_trained(records):
    for what in ARTIFACTS:
        assert bool(reproduce(what, records.folder, train=False).rows) == (what == "table4")
    assert not records.folder.exists()


def test_figure_5_is_written_as_png_and_svg(records):
    put_all(records, "plants")
    report = ARTIFACTS["figure5"].report(records, ["plants", "pumsb_star"])
    assert [row["method"] for row in report.rows] == ["weight_decay", "hyperspn", "spn_small"]
    assert report.rows[1]["valid"] == [-9.0, -7.5, -7.0]
    write_report("figure5", report, records.folder)
    png, svg = ((records.folder / f"figure5.{kind}").read_bytes() for kind in ("png", "svg"))
    assert png.startswith(b"\x89PNG\r\n")
    assert b"<svg" in svg
    write_report("figure5", report, records.folder)
    assert (records.folder / "figure5.svg").read_bytes() == svg


# Published values


def test_published_values_are_those_of_the_paper():
    assert tuple(PUBLISHED_BENCHMARKS) == TWENTY + AMAZON
    for name, published in PUBLISHED_BENCHMARKS.items():
        n, h = datasets.BENCHMARKS[name].variables, 20 if name in TWENTY else 10
        assert published["weight_decay_parameters"] == 2 * n * 5**2 * 50 + 50
        assert published["hyperspn_parameters"] == 500 * n + {20: 1115, 10: 655}[h]
        for method in ("weight_decay", "hyperspn"):
            assert published[method] == max(published[setting] for setting in METHODS[method])
    averages = {"weight_decay": -36.87, "hyperspn": -35.55, "weight_decay_std": 0.07, "hyperspn_std": 0.08}
    averages |= dict(zip(METHODS["weight_decay"], (-37.18, -36.91, -37.17)))
    averages |= dict(zip(METHODS["hyperspn"], (-35.79, -35.63, -35.68)))
    for key, average in averages.items():
        assert fmean(published[key] for published in PUBLISHED_BENCHMARKS.values()) == pytest.approx(
            average, abs=0.0051
        ), key
    for key, average in (("weight_decay_quality", -3.185), ("hyperspn_quality", -3.157)):
        assert fmean(published[key] for published in PUBLISHED_BENCHMARKS.values()) == pytest.approx(
            average, abs=0.00051
        )
    hand_crafted = [PUBLISHED_HAND_CRAFTED[method]["log_likelihood"] for method in PUBLISHED_METHODS]
    assert hand_crafted == [-166.90, -166.32, -167.00]


# The committed records


def committed():
    stems = [(path.parent.name, *path.stem.rsplit("-seed")) for path in COMMITTED.folder.glob("*/*.json")]
    return [Run(dataset, setting, int(seed)) for dataset, setting, seed in sorted(stems)]


needs_records = pytest.mark.skipif(not committed(), reason="there are no records")


def run_of(record, path):
    """The run that a record belongs to, with a data set and a setting that are known."""
    if "cluster" in record:
        kind = AnnealedRun if path.parent.name == "annealed" else ClusterRun
        run = kind(*(record[name] for name in ClusterRun._fields))
        assert run.clusters == CLUSTER_SETTINGS[run.dataset].clusters
        assert run.cluster in range(run.clusters)
        assert run.method in METHODS
    elif path.parent.name == "tables":
        run = TableRun(*(record[name] for name in TableRun._fields))
        assert run.dataset in TABLES
    elif record["setting"] in (*BEYOND_RECIPES, ENSEMBLE):
        run = BeyondRun(record["dataset"], record["setting"], record["seed"])
        assert run.dataset in datasets.BENCHMARKS
    else:
        kind = runs.DrawRun if path.parent.name == "draws" else Run
        run = kind(record["dataset"], record["setting"], record["seed"])
        assert run.setting in SETTINGS
        assert run.dataset in SCHEDULES
    return run


def fields_of(run):
    if isinstance(run, TableRun):
        return TABLE_FIELDS
    curve = {"steps", "best_step", "train", "curve", "schedule"}
    return FIELDS - curve | {"members"} if run.setting == ENSEMBLE else FIELDS


def numbers_in(value):
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        return [number for part in value for number in numbers_in(part)]
    return [value] if isinstance(value, (int, float)) else []


@needs_records
def test_every_committed_record_belongs_to_a_run_and_is_complete():
    paths = [path for path in COMMITTED.folder.rglob("*.json") if ".unfinished" not in path.parts]
    assert len(paths) >= 662
    for path in paths:
        record = json.loads(path.read_text())
        run = run_of(record, path)
        assert path == COMMITTED.folder / run.path
        assert record.keys() >= fields_of(run), path
        assert all(record[choice].keys() >= CHOICE_FIELDS for choice in CHOSEN_BY if choice in record), path
        assert np.isfinite(numbers_in(record)).all(), path
        if curve := record.get("curve"):
            assert len(curve["steps"]) == len(curve["train"]) == len(curve["valid"]), path
            best = curve["steps"].index(record["best_step"])
            assert curve["valid"][best] == max(curve["valid"]) == pytest.approx(record["valid"], abs=1e-5), path
        if "commit" in record:
            assert record["commit"] is None or re.fullmatch("[0-9a-f]{40}", record["commit"]), path
            assert (record["commit"] is None) == (record["clean"] is None), path


@needs_records
def test_committed_records_are_complete_and_consistent():
    for run in committed():
        record, setting, schedule = COMMITTED[run], SETTINGS[run.setting], SCHEDULES[run.dataset]
        n, k, r = datasets.BENCHMARKS[run.dataset].variables, setting.layer_size, setting.replicas
        parameters = 2 * n * k**2 * r + r
        if setting.hidden:
            h = setting.hidden[1]
            parameters = 2 * n * 5 * r + (5 + 1) * 20 + (20 + 1) * h + (h + 1) * k**2 + r
        assert record["parameters"] == parameters, run
        assert record["options"] == json.loads(json.dumps(setting.options)), run
        assert record["schedule"] == schedule._asdict(), run
        curve = record["curve"]
        best = int(np.argmax(curve["valid"]))
        assert record["best_step"] == curve["steps"][best], run
        assert record["valid"] == pytest.approx(curve["valid"][best], abs=1e-5), run
        assert record["train"] == pytest.approx(curve["train"][best], abs=1e-5), run
        assert record["steps"] == curve["steps"][-1] <= schedule.steps, run
        assert record["steps"] == schedule.steps or len(curve["steps"]) - 1 - best == schedule.patience, run
        assert np.isfinite([record[key] for key in ("test", "sample_quality_published", "sample_quality_proper")]).all()


@needs_records
@pytest.mark.parametrize("what", ["table1", "table2", "table3", "table5", "table6", "table7"])
def test_tables_are_made_from_the_committed_records(what):
    there, artifact = committed(), ARTIFACTS[what]
    report = reproduce(what, COMMITTED.folder, train=False)
    swept = {run.dataset for run in there if all(run._replace(setting=name, seed=0) in there for name in SWEPT)}
    if what != "table3":
        assert {row["dataset"] for row in report.rows} == swept & set(artifact.datasets)
    for row in report.rows if what in ("table1", "table2", "table7") else ():
        for method in ("weight_decay", "hyperspn"):
            best = max(METHODS[method], key=lambda name: COMMITTED[Run(row["dataset"], name, 0)]["valid"])
            tests = [COMMITTED[run]["test"] for run in there if run[:2] == (row["dataset"], best)]
            assert row[method] == pytest.approx(fmean(tests), abs=1e-9)
            assert row[f"{method}_seeds"] == len(tests)
            assert row[f"{method}_chosen"] == SETTINGS[best].choice
    assert report.markdown().count("\n") == 2 + len(report.rows) + (report.mean is not None)
