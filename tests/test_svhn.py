import json

from math import ceil, prod, sqrt
from pathlib import Path

import numpy as np
import pytest

from matplotlib.image import imread
from typer.testing import CliRunner

import hyperspn

from hyperspn import images
from hyperspn.cli.main import app
from hyperspn.experiments import ARTIFACTS, Records, reproduce, svhn
from hyperspn.experiments.reproduce import write_report
from hyperspn.experiments.svhn import ClusterRun, ClusterSetting, cluster_runs, find_clusters
from hyperspn.structures import poon_domingos

pytestmark = pytest.mark.usefixtures("one_thread")

ROWS = (36, 10, 14)
DARK = np.arange(sum(ROWS)) % 3 > 0  # two thirds of the images
SHAPES = {"mnist": (4, 4, 1), "svhn5000": (4, 4, 3)}
FILES = {"mnist": "mnist.npz", "svhn5000": "svhn_test_first5000.npz"}


COMMITTED = Records(Path(__file__).parents[1] / "results")
CLUSTER_RECORDS = sorted(COMMITTED.folder.glob("*/*-clusters/*.json"))


@pytest.fixture
def data_dir(tmp_path, monkeypatch):
    """A folder of small images, dark ones and light ones, of which each experiment makes two clusters on one core."""
    monkeypatch.setenv("LOKY_MAX_CPU_COUNT", "1")
    monkeypatch.delenv("HYPERSPN_DATA", raising=False)
    (tmp_path / "data").mkdir()
    for seed, (name, shape) in enumerate(SHAPES.items()):
        monkeypatch.setitem(images.IMAGE_SETS, name, images.IMAGE_SETS[name]._replace(shape=shape, rows=ROWS))
        monkeypatch.setitem(svhn.CLUSTER_SETTINGS, name, ClusterSetting(2, 2, layer_size=3, epochs=4))
        made = np.random.default_rng(seed).integers(0, 50, (*shape, len(DARK))) + np.where(DARK, 10, 190)
        made = np.moveaxis(made.astype(np.uint8), -1, 0)  # (images, *shape)
        np.savez(tmp_path / "data" / FILES[name], images=made[..., 0] if shape[2] == 1 else made)
    return str(tmp_path / "data")


@pytest.fixture
def records(tmp_path):
    return Records(tmp_path / "results")


def test_the_published_setting():
    assert svhn.CLUSTER_SETTINGS["svhn"] == ClusterSetting(100, 8, layer_size=40, batch_size=10, epochs=100)
    for name, shape in (("svhn", (32, 32, 3)), ("mnist", (28, 28, 1))):
        direct, hyper = (svhn.CLUSTER_SETTINGS[name].build(shape, method, seed=0) for method in svhn.BOTH_METHODS)
        assert direct.structure.num_regions == hyper.structure.num_regions == 10
        assert direct.sectors.num_used_weights == hyper.sectors.num_used_weights == 452_963
        assert hyper.weights.num_parameters == 91_256
        assert hyper.num_parameters == 91_256 + prod(shape) * 40 * 2
        rates = {group["name"]: group["lr"] for group in (*direct.parameter_groups(), *hyper.parameter_groups())}
        assert rates == {"weights": 1e-2, "embeddings": 1e-2, "network": 3e-4, "leaves": 1e-2}


def test_clusters_are_found_once_and_kept(data_dir, records, monkeypatch):
    labels = find_clusters("mnist", records.folder, data_dir)
    dark = labels.train[1]
    assert np.array_equal(np.concatenate(labels) == dark, DARK)
    assert [len(part) for part in labels] == list(ROWS)
    down, across, _ = imread(records.folder / "mnist" / "2-clusters" / "means.png").shape
    assert across > 1.9 * down
    monkeypatch.setattr(svhn, "k_means", None)
    again = find_clusters("mnist", records.folder, data_dir)
    assert all(np.array_equal(part, kept) for part, kept in zip(again, labels))
    path = records.folder / "mnist" / "2-clusters" / "labels.npz"
    np.savez(path, **{name: part[:3] for name, part in labels._asdict().items()})
    with pytest.raises(ValueError, match=r"expected the clusters of \[36, 10, 14\] images in .*, found \[3, 3, 3\]"):
        find_clusters("mnist", records.folder, data_dir)
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(ValueError, match=r"the clusters in .*labels\.npz are damaged: restore the file"):
        find_clusters("mnist", records.folder, data_dir)


def test_a_cluster_without_held_out_images(data_dir, records, monkeypatch):
    monkeypatch.setitem(svhn.CLUSTER_SETTINGS, "mnist", ClusterSetting(20, 2))
    with pytest.raises(ValueError, match="expected valid images in all of 20 clusters, found none in"):
        find_clusters("mnist", records.folder, data_dir)


@pytest.mark.parametrize(("method", "weights"), [("weight_decay", "direct"), ("hyperspn", "hyper")])
@pytest.mark.parametrize("dataset", SHAPES)
def test_a_cluster_becomes_a_complete_record(data_dir, records, tmp_path, dataset, method, weights):
    labels = find_clusters(dataset, records.folder, data_dir)
    cluster = int(labels.train[1])
    run = ClusterRun(dataset, 2, cluster, method, seed=1)
    assert run.path.as_posix() == f"{dataset}/2-clusters/{method}-cluster{cluster}-seed1.json"
    _, record = svhn.train(run, tmp_path / "run", data_dir, 1, {dataset: labels})

    data = np.concatenate(images.load_images(dataset, data_dir)).astype(float)
    train, valid, test = (rows[dark] for rows, dark in zip(np.split(data, [36, 46]), np.split(DARK, [36, 46])))
    mean = train.mean(0)
    circuit = hyperspn.EiNet(poon_domingos((4, 4), [1], 2, SHAPES[dataset][2]), 3, weights=weights, seed=1)
    decay = {"weights" if weights == "direct" else "embeddings": 1e-4, "leaves": 1e-4}
    options = {"steps": 12, "evaluate_every": 3, "batch_size": 10, "weight_decay": decay}
    history = hyperspn.fit(circuit, (train - mean) / 255, (valid - mean) / 255, **options, seed=1, progress=False)
    assert record["test"] == pytest.approx(circuit.log_prob((test - mean) / 255).mean().item(), rel=1e-4)
    assert record["valid"] == pytest.approx(history.best_valid, rel=1e-4)
    assert record["curve"]["steps"] == history.steps
    assert record["schedule"] == options
    assert record["rows"] == [len(train), len(valid), len(test)] == [24, 6, 10]
    assert record["parameters"] == circuit.num_parameters
    assert record["options"] == svhn.CLUSTER_SETTINGS[dataset]._asdict()
    assert record | run._asdict() == record


def test_figure_6_is_trained_once_and_never_again(data_dir, records, monkeypatch, capsys):
    report = reproduce("figure6", records.folder, jobs=1, data_dir=data_dir)
    announced = capsys.readouterr().err.splitlines()
    assert announced[0].startswith("figure6: 8 runs to train, on 1 core: ")
    assert any(" mnist hyperspn cluster 1 of 2 seed 0: test " in line for line in announced)
    assert [(row["dataset"], row["size"]) for row in report.summary] == [("svhn5000", 36), ("mnist", 36)]
    assert {(row["dataset"], row["cluster"]) for row in report.rows} == {(d, c) for d in SHAPES for c in (0, 1)}
    assert sorted(row["size"] for row in report.rows) == [12, 12, 24, 24]
    assert not list((records.folder / ".unfinished").rglob("*.*"))
    png, svg = ((records.folder / f"figure6.{kind}").read_bytes() for kind in ("png", "svg"))
    assert png.startswith(b"\x89PNG\r\n")
    assert b"<svg" in svg
    monkeypatch.setattr(svhn, "fit", None)
    assert reproduce("figure6", records.folder, jobs=1, data_dir=data_dir) == report
    assert reproduce("figure6", records.folder, datasets=["mnist"], train=False).rows == report.rows[2:]
    assert (records.folder / "figure6.svg").read_bytes() == svg
    printed = CliRunner().invoke(app, f"reproduce figure6 --json --results {records.folder}".split())
    assert json.loads(printed.stdout)["summary"] == reproduce("figure6", records.folder, train=False).summary


def test_annealed_runs_have_records_of_their_own(data_dir, records, monkeypatch, capsys):
    report = reproduce("figure6-annealed", records.folder, seeds=2, jobs=1, data_dir=data_dir)
    assert {row["dataset"] for row in report.rows} == {"svhn5000"}
    assert [row["hyperspn_seeds"] for row in report.rows] == [2, 2]
    paths = sorted(path.relative_to(records.folder).as_posix() for path in records.folder.rglob("*.json"))
    assert len(paths) == 8
    assert paths[0] == "svhn5000/2-clusters/annealed/hyperspn-cluster0-seed0.json"
    for path in paths:
        assert json.loads((records.folder / path).read_text())["schedule"]["annealing"]
    assert reproduce("figure6", records.folder, train=False).rows == []
    assert (records.folder / "figure6-annealed.svg").is_file()
    assert "annealed" in capsys.readouterr().err


def test_all_of_svhn_is_the_default_where_it_is_at_hand(data_dir, tmp_path):
    artifact = ARTIFACTS["figure6"]
    assert artifact.default_datasets(None) == artifact.default_datasets(data_dir) == ("svhn5000", "mnist")
    for name in ("train", "extra", "test"):
        (tmp_path / "data" / f"{name}_32x32.mat").touch()
    assert artifact.default_datasets(data_dir) == ("svhn",)


def test_images_that_are_not_at_hand(records, tmp_path):
    with pytest.raises(FileNotFoundError, match=r"expected train_32x32.mat and .* in .*, found none"):
        reproduce("figure6", records.folder, datasets=["svhn"], data_dir=str(tmp_path))
    assert not records.folder.exists()


def put(records, run, test, size=10):
    records.keep(run, {**run._asdict(), "valid": 0.0, "test": test, "rows": [size, 1, 1]})


def test_improvements_are_weighted_by_cluster_size(records, monkeypatch):
    monkeypatch.setitem(svhn.CLUSTER_SETTINGS, "svhn", ClusterSetting(3))
    tests = {0: (100.0, 120.0), 1: (50.0, 45.0), 2: (10.0, 11.0)}  # improvements 20, -5, 1
    sizes = {0: 10, 1: 20, 2: 70}
    for run in cluster_runs("svhn", seed=0):
        assert reproduce("figure6", records.folder, train=False).rows == []
        put(records, run, tests[run.cluster][run.method == "hyperspn"], sizes[run.cluster])
    put(records, ClusterRun("svhn", 3, 2, "hyperspn", seed=1), 13.0, sizes[2])  # a mean improvement of 2
    report = reproduce("figure6", records.folder, train=False)
    assert [row["cluster"] for row in report.rows] == [1, 2, 0]
    assert [row["improvement"] for row in report.rows] == [-5.0, 2.0, 20.0]
    assert [row["hyperspn_seeds"] for row in report.rows] == [1, 2, 1]
    assert report.rows[0].items() >= {"dataset": "svhn", "size": 20, "weight_decay": 50.0, "hyperspn": 45.0}.items()
    expected = (-45.0 / 3072 + np.log(255)) / np.log(2)
    assert report.rows[0]["hyperspn_bits"] == pytest.approx(expected, rel=1e-12)

    (summary,) = report.summary
    mean = 0.2 * -5 + 0.7 * 2 + 0.1 * 20
    error = sqrt((0.2 * (-5 - mean)) ** 2 + (0.7 * (2 - mean)) ** 2 + (0.1 * (20 - mean)) ** 2)
    assert (summary["size"], summary["clusters"], summary["improved"]) == (100, 3, pytest.approx(2 / 3))
    assert summary["improvement"] == pytest.approx(mean, rel=1e-12)
    assert summary["improvement_std"] == pytest.approx(error, rel=1e-12)
    assert (summary["improvement_published"], summary["improvement_published_std"]) == (9.0, 4.0)
    assert f"| svhn | weighted mean | 100 | 27.00 | 29.40 | 2.40 ± {error:.2f} | 0.67 | 9.00 ± 4.00 | 0.70 |" in (
        report.markdown()
    )
    write_report("figure6", report, records.folder)
    drawn = (records.folder / "figure6.svg").read_text()
    for text in ("svhn (100 images, 3 clusters)", "67% improved", "published, all of SVHN: 9 ± 4, about 70%"):
        assert text in drawn


@pytest.mark.skipif(not CLUSTER_RECORDS, reason="there are no records")
def test_committed_records_are_complete_and_consistent():
    for path in CLUSTER_RECORDS:
        content = json.loads(path.read_text())
        run = ClusterRun(*(content[name] for name in ClusterRun._fields))
        record, setting, shape = (
            COMMITTED[run],
            svhn.CLUSTER_SETTINGS[run.dataset],
            images.IMAGE_SETS[run.dataset].shape,
        )
        assert path == COMMITTED.folder / run.path
        assert record["options"] == setting._asdict(), run
        with np.load(path.with_name("labels.npz")) as labels:
            assert record["rows"] == [int((labels[name] == run.cluster).sum()) for name in svhn.Labels._fields], run
        assert record["parameters"] == setting.build(shape, run.method, 0).num_parameters, run
        assert record["schedule"]["evaluate_every"] == ceil(record["rows"][0] / setting.batch_size), run
        best = int(np.argmax(record["curve"]["valid"]))
        assert record["best_step"] == record["curve"]["steps"][best], run
        assert record["valid"] == pytest.approx(record["curve"]["valid"][best], abs=1e-5), run
        assert record["steps"] == record["schedule"]["steps"], run
