import csv
import errno
import io
import json

import numpy as np
import pandas
import pyarrow as pa
import pytest

from test_readers import SHOP_COLUMNS

from hyperspn.data import csv_text, read_table, write_table
from hyperspn.data.writers import printable

SUFFIXES = (
    ".csv",
    ".tsv",
    ".CSV",
    ".csv.gz",
    ".tsv.gz",
    ".parquet",
    ".feather",
    ".arrow",
    ".jsonl",
    ".jsonl.gz",
    ".npy",
)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_tables_there_and_back(tmp_path, suffix):
    path, shop = tmp_path / f"new{suffix}", pa.table(SHOP_COLUMNS)
    names = [f"column {i}" for i in range(5)] if suffix == ".npy" else shop.column_names
    for written in (shop, iter([shop.slice(0, 1), shop.slice(1, 0), shop.slice(1)])):
        write_table(written, path)
        assert read_table(path).rename_columns(shop.column_names) == shop
        assert read_table(path).column_names == names
    first = path.read_bytes()
    write_table(shop, path)
    again = path.read_bytes()
    write_table(shop, path)
    assert path.read_bytes() == again
    assert first == again or suffix not in (".csv", ".tsv", ".jsonl")


@pytest.mark.parametrize("suffix", [".parquet", ".feather"])
def test_types_stay_as_they_are(tmp_path, suffix):
    table = pa.table({"a": pa.array([1, None], "int8"), "b": pa.array([0, 1], "date32"), "c": [True, None]})
    write_table(table, tmp_path / f"t{suffix}")
    assert read_table(tmp_path / f"t{suffix}") == table


def test_numbers_in_text(tmp_path):
    table = pa.table({"a": pa.array([1, None, 3]), "b": [0.1, 2.0, None], "c": pa.array([1, 2, 3], "uint8")})
    assert csv_text(table) == "a,b,c\n1,0.1,1\n,2,2\n3,,3\n"
    write_table(table, tmp_path / "t.jsonl")
    assert json.loads((tmp_path / "t.jsonl").read_text().splitlines()[1]) == {"a": None, "b": 2.0, "c": 2}
    write_table(table, tmp_path / "t.npy")
    np.testing.assert_array_equal(np.load(tmp_path / "t.npy"), [[1, 0.1, 1], [np.nan, 2, 2], [3, np.nan, 3]])


def test_cells_that_need_quotes():
    """Python's csv module and pandas read what was written."""
    cells = ['a"b', "a,b", "a\nb", "a\rb", " a", "a ", "plain", "", "'", "ä;ö", "\t"]
    table = pa.table({"x,y": cells, "n": range(len(cells))})
    text = csv_text(table)
    assert list(csv.reader(io.StringIO(text, newline="")))[1:] == [[cell, str(i)] for i, cell in enumerate(cells)]
    read = pandas.read_csv(io.StringIO(text), keep_default_na=False)
    assert read["x,y"].tolist() == cells
    assert csv_text(table, "\t").splitlines()[0] == "x,y\tn"
    assert "\nplain,6\n" in text


def test_one_column_with_holes(tmp_path):
    for column in (pa.array(["x", None, "y", None]), pa.array([1, None, 2, None])):
        write_table(pa.table({"a": column}), tmp_path / "new.csv")
        assert read_table(tmp_path / "new.csv")["a"].to_pylist() == [
            None if value is None else str(value) for value in column.to_pylist()
        ]


def test_files_that_cannot_be_written(tmp_path):
    table = pa.table({"a": [1]})
    with pytest.raises(ValueError, match=r"expected a file .csv, .tsv, .parquet, .* to write, found .*new.xls"):
        write_table(table, tmp_path / "new.xls")
    with pytest.raises(FileNotFoundError, match=r"nowhere/new\.csv"):
        write_table(table, tmp_path / "nowhere" / "new.csv")


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_full_disk_leaves_the_file_as_it_was(tmp_path, suffix):
    path = tmp_path / f"new{suffix}"
    write_table(pa.table(SHOP_COLUMNS), path)
    before = path.read_bytes()

    def tables():
        yield pa.table(SHOP_COLUMNS)
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(OSError, match=rf"No space left on device: '.*new{suffix}'"):
        write_table(tables(), path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_cells_that_a_spreadsheet_would_run(tmp_path):
    table = pa.table({"a": ["=1+1", "-2", "+x", "@y", "fine", "\t=1", None], "b": [-1, 2, 3, 4, 5, 6, 7]})
    write_table(table, tmp_path / "t.csv", excel_safe=True)
    read = pandas.read_csv(tmp_path / "t.csv", keep_default_na=False)
    assert read["a"].tolist() == ["'=1+1", "'-2", "'+x", "'@y", "fine", "'\t=1", ""]
    assert read["b"].tolist() == [-1, 2, 3, 4, 5, 6, 7]


def test_control_characters_are_not_sent_to_a_terminal():
    assert printable("red\n\x1b[31m,\x07\t\x9b\u202e") == "red\n\\x1b[31m,\\x07\t\\x9b\\u202e"
