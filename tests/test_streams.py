"""Files that are read in parts: the same columns and rows as in memory, whatever the parts are."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hyperspn import fit
from hyperspn.data import recognize, streams, summaries
from hyperspn.data.streams import load_files, split_of
from hyperspn.data.summaries import Sample, row_keys
from hyperspn.learning.recipes import Recipe, leaf_families
from hyperspn.learning.steps import Training


def people(rows=3000, seed=0):
    generator = np.random.default_rng(seed)
    red = generator.random(rows) < 0.5
    size = generator.normal(np.where(red, 20, 5), 1).round(2)
    holes = generator.random(rows) < 0.1
    return pa.table(
        {
            "id": np.arange(rows),
            "color": pa.array(np.where(red, "red", "blue"), mask=holes),
            "size": size,
            "shelf": generator.integers(0, 9, rows),
        }
    )


@pytest.fixture
def folder(tmp_path):
    """Two files of different row groups, and the table of both."""
    tables = people(), people(1000, seed=1)
    for number, table in enumerate(tables):
        pq.write_table(table, tmp_path / f"{number}.parquet", row_group_size=[400, 90][number])
    return tmp_path, pa.concat_tables(tables)


def keys_of_all(tables, seed=0):
    return np.concatenate([row_keys(f"{i}.parquet", 0, len(table), seed) for i, table in enumerate(tables)])


def test_keys_are_spread_evenly_and_depend_on_seed_file_and_row():
    keys = row_keys("a", 0, 100_000, 0)
    assert np.array_equal(row_keys("a", 500, 100, 0), keys[500:600])
    assert len({keys[0], row_keys("b", 0, 1, 0)[0], row_keys("a", 0, 1, 1)[0]}) == 3
    np.testing.assert_allclose(np.bincount(split_of(keys)) / len(keys), [0.7, 0.1, 0.2], atol=0.005)
    bits = keys[:, None] >> np.arange(64, dtype=np.uint64) & np.uint64(1)
    np.testing.assert_allclose(bits.mean(0), 0.5, atol=0.01)
    assert abs(np.corrcoef(keys[1:], keys[:-1])[0, 1]) < 0.01


def test_columns_and_rows_are_those_of_a_table_in_memory(folder):
    path, table = folder
    keys = keys_of_all([people(), people(1000, seed=1)])
    files = load_files(str(path), drop=["id"])
    splits, table = split_of(keys), table.drop_columns(["id"])
    schema = recognize(table, np.flatnonzero(splits == 0))
    assert files.train.schema == schema
    assert len(files.train) == (splits == 0).sum()
    x = schema.encode(table)
    for part, rows in ((1, files.valid), (2, files.test), (0, files.train.sample)):
        chosen = np.flatnonzero(splits == part)
        np.testing.assert_array_equal(rows, x[chosen[np.argsort(keys[chosen])]])


def test_the_parts_of_a_file_change_nothing(folder, tmp_path_factory):
    other = tmp_path_factory.mktemp("other")
    for path in folder[0].iterdir():
        pq.write_table(pq.read_table(path), other / path.name, row_group_size=1000)
    one, two = (load_files(str(path)) for path in (folder[0], other))
    assert one.train.schema == two.train.schema
    np.testing.assert_array_equal(one.train.sample, two.train.sample)
    np.testing.assert_array_equal(one.valid, two.valid)


@pytest.mark.parametrize(("limit", "most"), [("BUFFER", 500), ("BUFFERED_VALUES", 2000)])
def test_a_pass_has_every_row_once_and_batches_are_found_in_its_middle(folder, monkeypatch, limit, most):
    monkeypatch.setattr(streams, limit, most)
    train, again = (load_files(str(folder[0])).train for _ in range(2))
    steps = 2 * len(train) // 100 + 1
    batches = [_rows(train.batch(100, step)) for step in range(1, steps + 1)]
    for step in (17, 3, steps):
        np.testing.assert_array_equal(_rows(again.batch(100, step)), batches[step - 1])
        halves = [_rows(again.batch(100, step, part)) for part in (slice(0, 37), slice(37, 100))]
        np.testing.assert_array_equal(np.concatenate(halves), batches[step - 1])
    assert len({window.first for step in range(1, steps) for window, _ in train.batch(100, step)}) > 2
    rows = np.concatenate(batches)
    passes = rows[: len(train)], rows[len(train) : 2 * len(train)]
    assert not np.array_equal(*passes)
    expected = sorted(map(repr, train.sample.tolist()))
    for seen in passes:
        assert sorted(map(repr, seen.tolist())) == expected


def _rows(slices):
    return np.concatenate([window.rows[rows] for window, rows in slices])


def test_columns_of_many_values_are_known_by_a_sample_and_their_ends(tmp_path, monkeypatch):
    monkeypatch.setattr(summaries, "LEVELS", 100)
    monkeypatch.setattr(streams, "SAMPLE", 1000)
    generator = np.random.default_rng(0)
    rows = 20_000
    income = np.where(generator.random(rows) < 0.3, 0, generator.lognormal(0, 1, rows)).round(3)
    names = [f"name {i}" for i in range(rows)]
    table = pa.table({"id": np.arange(rows), "name": names, "income": income, "few": generator.integers(0, 3, rows)})
    pq.write_table(table, tmp_path / "t.parquet", row_group_size=3000)
    notes = []
    train = load_files(str(tmp_path), notes=notes).train
    assert train.schema.names == ("income", "few")
    assert dict(train.schema.left_out)["id"] == "row numbers, a run without gaps"
    assert any("'name' is left out" in note for note in notes)
    scale = train.schema.columns[0].scale
    known = income[split_of(row_keys("t.parquet", 0, rows, 0)) == 0]
    assert (scale.smallest, scale.largest, scale.points, scale.lower) == (0, known.max(), (0.0,), 0)
    positive = np.sort(income[income > 0])
    levels = np.searchsorted(positive, scale.knots) / len(positive)
    np.testing.assert_allclose(levels, (np.arange(len(levels)) + 0.5) / len(levels), atol=0.06)


def test_a_sample_does_not_depend_on_the_order_of_its_parts():
    keys = row_keys("a", 0, 5000, 3)
    table = pa.table({"row": np.arange(5000)})
    samples = []
    for starts in (range(0, 5000, 250), reversed(range(0, 5000, 250))):
        sample = Sample(300)
        for start in starts:
            sample.add(table.slice(start, 250), keys[start : start + 250])
        samples.append(sample.table()["row"].to_pylist())
    assert samples[0] == samples[1] == np.argsort(keys)[:300].tolist()


def test_a_run_on_files_goes_on_in_the_middle_of_a_pass(folder, monkeypatch, tmp_path_factory, one_thread):
    files = load_files(str(folder[0]))
    recipe, leaves = Recipe("chow-liu", "direct", 2, 2), leaf_families(files.train.schema, 4)
    out = tmp_path_factory.mktemp("runs")

    def learn(place):
        circuit = recipe.build(files.train.sample, leaves)
        settings = {"steps": 12, "evaluate_every": 4, "batch_size": 300, "progress": False}
        return fit(circuit, files.train, files.valid, folder=out / place, **settings)

    unbroken, original = learn("unbroken"), Training.learn

    def interrupted(self, step):
        if step == 10:
            raise KeyboardInterrupt
        original(self, step)

    monkeypatch.setattr(Training, "learn", interrupted)
    with pytest.raises(KeyboardInterrupt):
        learn("broken")
    monkeypatch.setattr(Training, "learn", original)
    resumed = learn("broken")
    assert (resumed.train, resumed.valid) == (unbroken.train, unbroken.valid)
    assert unbroken.valid[-1] > unbroken.valid[0]


def test_train_takes_a_folder_of_tables(run, folder, tmp_path):
    arguments = f"--recipe chow-liu --replicas 2 --steps 20 --out {tmp_path}/run"
    code, output, _ = run(f"train {folder[0]}/*.parquet {arguments} --json")
    report = json.loads(output)
    assert (code, sum(report["rows"].values())) == (0, 4000)
    code, output, _ = run(f"evaluate {tmp_path}/run --json")
    assert json.loads(output)["log_likelihood"] == pytest.approx(report["test"], rel=1e-6)
    assert "nothing is left to train" in run(f"train {folder[0]}/*.parquet {arguments} --json")[2]
    for more, message in (
        ("--weight size", "no weights with several files"),
        ("--model spn --optimizer em", "expected a batch size and a step size for EM on files"),
    ):
        code, _, errors = run(f"train {folder[0]} --out {tmp_path}/other {more} --json")
        assert (code, errors.count("\n"), message in errors) == (2, 1, True)
    (folder[0] / "x.csv").write_text("id,color,size,shelf\n1,red,2.5,3\n")
    assert "expected files with the same types of columns" in run(f"train {folder[0]} --out {tmp_path}/other")[2]
