"""Many rows, in files and on clusters: the answers of one model in one process."""

import json
import os
import signal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hyperspn import TableModel
from hyperspn.asking import Scorer, map_batches, score_files
from hyperspn.data import pieces, read_table
from hyperspn.data.pieces import find_files, is_files, pieces_of, read_piece


@pytest.fixture(scope="module")
def rows(people, tmp_path_factory):
    """The table of people twice over, with row numbers, in a folder: as Parquet with small row groups, and as CSV."""
    folder = tmp_path_factory.mktemp("rows")
    table = read_table(people[0] / "people.csv")
    table = pa.concat_tables([table, table]).add_column(0, "id", [np.arange(800).astype(str)])
    pq.write_table(table.slice(0, 300), folder / "a.parquet", row_group_size=70)
    (folder / "below").mkdir()
    (folder / "below" / "b.csv").write_bytes(_csv(table.slice(300)))
    return folder, table


def _csv(table):
    lines = [",".join(f'"{value}"' if value is not None else "" for value in row.values()) for row in table.to_pylist()]
    return ("\n".join([",".join(table.column_names), *lines]) + "\n").encode()


@pytest.fixture
def small_pieces(monkeypatch):
    monkeypatch.setattr(pieces, "BLOCK", 4000)
    monkeypatch.setattr("hyperspn.asking.scoring.PART", 150)


def answers_in(folder):
    tables = [pq.read_table(path) for path in sorted(folder.rglob("*.parquet"))]
    return pa.concat_tables(tables, promote_options="permissive")


def test_pieces_are_the_rows_of_a_file(tmp_path, small_pieces):
    lines = [f'{i},"a ""quoted""\nline, {i}", {i / 7}' for i in range(700)]
    (tmp_path / "t.csv").write_text("\n".join(["n, text, x", *lines, "", ""]))
    found = pieces_of(str(tmp_path / "t.csv"))
    assert len(found) > 3
    assert [piece.first for piece in found] == np.cumsum([0, *(piece.rows for piece in found)])[:-1].tolist()
    together = pa.concat_tables([read_piece(piece) for piece in found])
    assert together.to_pylist() == read_table(tmp_path / "t.csv").to_pylist()


def test_what_is_found_as_files(rows, tmp_path):
    folder, _ = rows
    assert [os.path.relpath(path, folder) for path in find_files(folder)] == [
        "a.parquet",
        os.path.join("below", "b.csv"),
    ]
    assert find_files(f"{folder}/*.parquet") == [f"{folder}/a.parquet"]
    assert [is_files(source) for source in (folder, f"{folder}/*.csv", tmp_path, "adult", "a.csv")] == [
        True,
        True,
        *[False] * 3,
    ]
    with pytest.raises(FileNotFoundError, match=r"expected files \.parquet, \.csv, \.tsv, found none"):
        find_files(tmp_path)
    (tmp_path / "t.npy").write_bytes(b"")
    with pytest.raises(ValueError, match="to read in parts, found"):
        find_files(tmp_path / "t.npy")


def test_scores_of_files_are_those_of_the_model(run, people, rows, tmp_path, small_pieces):
    (folder, table), model = rows, TableModel.load(people[0] / "run")
    code, output, errors = run(f"score {people[0]}/run {folder} --out {tmp_path}/out --keep id --workers 1 --json")
    assert (code, errors, json.loads(output)["rows"]) == (0, "", 800)
    answers = answers_in(tmp_path / "out")
    assert answers.column_names == ["id", "log_likelihood"]
    assert answers["id"].cast("int64").to_pylist() == list(range(800))
    np.testing.assert_allclose(answers["log_likelihood"], model.log_likelihood(table), rtol=1e-4, atol=1e-4)


def test_scoring_goes_on_where_it_was_stopped(people, rows, tmp_path, small_pieces):
    scorer = Scorer(str(people[0] / "run"))
    parts = list(score_files(scorer, rows[0], tmp_path))
    before = {part.out: part.out.stat().st_mtime_ns for part in parts}
    content = parts[1].out.read_bytes()
    parts[1].out.unlink()
    assert {part.out for part in score_files(scorer, rows[0], tmp_path)} == set(before)
    changed = [path for path, time in before.items() if path.stat().st_mtime_ns != time]
    assert (changed, parts[1].out.read_bytes()) == ([parts[1].out], content)
    with pytest.raises(ValueError, match="the answers of another model, question or table"):
        list(score_files(Scorer(str(people[0] / "run"), "imputed"), rows[0], tmp_path))


def test_surprisal_of_rows(people, rows):
    answers = Scorer(str(people[0] / "run"), "surprisal")(rows[1])
    expected = TableModel.load(people[0] / "run").surprisal(rows[1]).rows
    np.testing.assert_allclose(answers["surprisal"], expected, rtol=1e-4, atol=1e-4)


def test_probabilities_and_imputed_rows(run, people, rows, tmp_path, monkeypatch):
    (folder, table), model = rows, TableModel.load(people[0] / "run")
    question = "--question probabilities --of color --workers 1"
    assert run(f"score {people[0]}/run {folder}/*.parquet --out {tmp_path}/p {question}")[0] == 0
    expected = model.predict(table.slice(0, 300), "color")
    for name in expected.column_names:
        np.testing.assert_allclose(answers_in(tmp_path / "p")[name], expected[name], atol=1e-4)
    assert run(f"score {people[0]}/run {folder}/a.parquet --out {tmp_path}/i --question imputed --workers 2")[0] == 0
    imputed = answers_in(tmp_path / "i")
    assert imputed.column_names == table.column_names
    assert not any(column.null_count for column in imputed.columns)
    assert imputed["color"].to_pylist() == model.impute(table.slice(0, 300))["color"].to_pylist()
    monkeypatch.chdir(folder)  # where the workers, which are the same, did not begin
    assert run(f"score {people[0]}/run a.parquet --out {tmp_path}/j --question imputed --workers 2")[0] == 0
    assert answers_in(tmp_path / "j") == imputed


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--question probabilities", "expected a column with the question 'probabilities', and with no other"),
        ("--of color", "expected a column with the question 'probabilities', and with no other"),
        ("--question probabilities --of colr", "did you mean color?"),
    ],
)
def test_mistakes_are_one_line(run, people, rows, tmp_path, arguments, message):
    code, output, errors = run(f"score {people[0]}/run {rows[0]} --out {tmp_path}/out --workers 1 {arguments} --json")
    assert (code, output, errors.count("\n")) == (2, "", 1)
    assert message in errors


@pytest.mark.filterwarnings("ignore")
def test_dask_computes_every_row_once_though_a_worker_is_killed(people, tmp_path):
    distributed, frames = pytest.importorskip("distributed"), pytest.importorskip("dask.dataframe")
    table = read_table(people[0] / "people.csv").to_pandas()
    flag = tmp_path / "killed"

    def fragile(frame):
        if 250 in frame.index and not flag.exists():
            flag.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return frame

    with (
        distributed.LocalCluster(2, threads_per_worker=1, dashboard_address=None) as cluster,
        distributed.Client(cluster),
    ):
        dataset = frames.from_pandas(table, npartitions=8).map_partitions(fragile, meta=table.iloc[:0])
        answers = map_batches(people[0] / "run", dataset).compute()
    assert flag.exists()
    assert answers.index.tolist() == list(range(400))
    expected = Scorer(str(people[0] / "run"))(table)
    np.testing.assert_allclose(answers["log_likelihood"], expected["log_likelihood"], rtol=1e-5)


@pytest.mark.filterwarnings("ignore")
def test_ray_computes_every_row_once(people):
    ray = pytest.importorskip("ray")
    table = read_table(people[0] / "people.csv").add_column(0, "id", [np.arange(400)])
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    try:
        dataset = ray.data.from_arrow([table.slice(i, 100) for i in range(0, 400, 100)])
        answers = np.sort([row["log_likelihood"] for row in map_batches(people[0] / "run", dataset).take_all()])
    finally:
        ray.shutdown()
    expected = Scorer(str(people[0] / "run"))(table)
    np.testing.assert_allclose(answers, np.sort(expected["log_likelihood"]), rtol=1e-5)


def test_what_cannot_be_mapped_is_an_error(people):
    with pytest.raises(TypeError, match="expected a Ray Dataset or a Dask DataFrame, found list"):
        map_batches(people[0] / "run", [])
    with pytest.raises(ValueError, match="expected a question likelihood"):
        Scorer(str(people[0] / "run"), "likelihod")
