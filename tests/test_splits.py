import numpy as np
import pytest

from hyperspn.data import load_splits, read_table, recognize, split


@pytest.fixture
def files(tmp_path):
    """Tables of 100, 20 and 10 rows with a column of weights."""
    for name, rows in (("all", 100), ("valid", 20), ("test", 10)):
        lines = [f"{i % 7},{i / 4},{'NA' if i % 5 == 0 else 'rb'[i % 2]},{i % 3}" for i in range(rows)]
        (tmp_path / f"{name}.csv").write_text("\n".join(["a,b,c,w", *lines]) + "\n")
    return {name: str(tmp_path / f"{name}.csv") for name in ("all", "valid", "test")}


def test_a_table_is_split(files):
    splits = load_splits(files["all"], seed=3)
    table = read_table(files["all"])
    rows = split(100, 3)
    assert splits.schema == recognize(table, rows[0])
    for part, numbers in zip(splits[1:4], rows):
        np.testing.assert_array_equal(part, splits.schema.encode(table)[numbers])
    assert splits.weights is None
    assert splits.notes == ("'NA' counts as missing: 20 cells of c",)


@pytest.mark.parametrize(
    ("given", "sizes"),
    [((), [70, 10, 20]), (("valid",), [78, 20, 22]), (("test",), [87, 13, 10]), (("valid", "test"), [100, 20, 10])],
)
def test_given_splits(files, given, sizes):
    splits = load_splits(files["all"], weight="w", **{name: files[name] for name in given})
    assert [len(part) for part in splits[1:4]] == sizes
    assert splits.schema.names == ("a", "b", "c")
    for part, weights in zip(splits[1:4], splits.weights):
        np.testing.assert_array_equal(weights, part[:, 1] * 4 % 3)


def test_columns_and_words_that_are_asked_for(files):
    options = {"kinds": {"a": "numeric"}, "bounds": {"b": (None, 50)}, "missing_as_data": True}
    schema = load_splits(files["all"], drop=["w"], missing_values=["r"], **options).schema
    assert [column.kind for column in schema.columns] == ["numeric", "numeric", "categorical"]
    assert (schema.columns[1].scale.lower, schema.columns[1].scale.upper) == (None, 50)
    assert schema.columns[2].categories == ("NA", "b")
    assert schema.columns[2].missing_as_data


def test_a_given_schema(files):
    schema = load_splits(files["all"]).schema
    assert load_splits(files["test"], schema=schema).schema is schema


@pytest.mark.parametrize(("cell", "shown"), [("", "None"), ("-1", "'-1'"), ("heavy", "'heavy'"), ("inf", "'inf'")])
def test_bad_weights(tmp_path, cell, shown):
    (tmp_path / "t.csv").write_text(f"a,w\n1,2\n2,{cell}\n3,1\n")
    with pytest.raises(ValueError, match=rf"t.csv: expected a weight >= 0 in column 'w', found {shown} in row 2"):
        load_splits(str(tmp_path / "t.csv"), weight="w")
    with pytest.raises(ValueError, match="expected the name of a column, found 'v'"):
        load_splits(str(tmp_path / "t.csv"), weight="v")


def test_a_file_that_is_no_table(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("t.xlsx", "digits", "penguins"):
        (tmp_path / name).write_bytes(b"PK")
    with pytest.raises(ValueError, match=r"expected a table .csv, .tsv, .parquet, .*, found t.xlsx"):
        load_splits("t.xlsx")
    assert len(load_splits("digits").schema.columns) == 64
    assert len(load_splits("penguins").schema.columns) == 8
    with pytest.raises(ValueError, match="expected a table to drop columns from, found the data set 'digits'"):
        load_splits("digits", drop=["1"])


@pytest.mark.parametrize(
    ("rows", "shares", "sizes"),
    [
        (100, (0.7, 0.1, 0.2), [70, 10, 20]),
        (3, (0.7, 0.1, 0.2), [1, 1, 1]),
        (10, (0.8, 0.2, 0), [8, 2, 0]),
        (1, (1, 0, 0), [1, 0, 0]),
    ],
)
def test_splits_deal_every_row_once(rows, shares, sizes):
    parts = split(rows, seed=1, shares=shares)
    assert [len(part) for part in parts] == sizes
    assert sorted(np.concatenate(parts)) == list(range(rows))


def test_seeds_of_splits():
    assert np.array_equal(split(50, seed=3)[0], split(50, seed=3)[0])
    assert not np.array_equal(split(50, seed=3)[0], split(50, seed=4)[0])


@pytest.mark.parametrize("shares", [(0.7, 0.3), (0.7, 0.1, 0.1), (1.2, -0.4, 0.2)])
def test_bad_shares_of_splits(shares):
    with pytest.raises(ValueError, match="expected three shares that sum to 1"):
        split(10, 0, shares)


@pytest.mark.parametrize("rows", [0, 1, 2])
def test_splits_of_too_few_rows(rows):
    with pytest.raises(ValueError, match=f"expected enough rows to split .*, found {rows}"):
        split(rows)
