import gzip
import io
import sys

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest

from hyperspn.data import is_table, read_table, recognize, write_table
from hyperspn.data.csv_files import _is_tidy
from hyperspn.data.readers import MISSING

SHOP = """color,size,price,stock,sold
red,3,1.5,10,yes
blue,1,2.25,,no
"light, green",2,,30,yes
red,?,4.0,41,
"""
SHOP_COLUMNS = {
    "color": ["red", "blue", "light, green", "red"],
    "size": ["3", "1", "2", None],
    "price": ["1.5", "2.25", None, "4.0"],
    "stock": ["10", None, "30", "41"],
    "sold": ["yes", "no", "yes", None],
}


def read(tmp_path, content, suffix=".csv", **options):
    path = tmp_path / f"table{suffix}"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return read_table(path, **options)


def test_csv(tmp_path):
    assert read(tmp_path, SHOP).to_pydict() == SHOP_COLUMNS


@pytest.mark.parametrize(
    ("content", "suffix"),
    [
        (SHOP.replace(",", "\t").replace('"light\t green"', "light, green"), ".tsv"),
        (SHOP.replace(",", "\t").replace('"light\t green"', "light, green"), ".csv"),
        (SHOP.replace(",", ";").replace('"light; green"', "light, green"), ".csv"),
        (SHOP.replace(",", "|").replace('"light| green"', "light, green"), ".csv"),
        (SHOP, ".tsv"),
        (SHOP, ".CSV"),
        (gzip.compress(SHOP.encode(), mtime=0), ".csv.gz"),
        (SHOP.encode("utf-8-sig"), ".csv"),
        (SHOP.replace("\n", "\r\n"), ".csv"),
        (SHOP.rstrip(), ".csv"),
        (SHOP + "\n\n", ".csv"),
        (SHOP.replace("1,2.25", "1 , 2.25 ").replace(" red", "red"), ".csv"),
        (SHOP.replace(",", ",  ").replace('"light,   green"', '"light, green "'), ".csv"),
    ],
)
def test_dialects_of_csv(tmp_path, content, suffix):
    assert read(tmp_path, content, suffix).to_pydict() == SHOP_COLUMNS


@pytest.mark.parametrize("missing", MISSING)
def test_missing_values(tmp_path, missing):
    assert read(tmp_path, f"a,b\n{missing},1\n2, {missing} \n").to_pydict() == {"a": [None, "2"], "b": ["1", None]}
    assert read(tmp_path, f'a,b\n"{missing}",1\n').to_pydict() == {"a": [None], "b": ["1"]}


def test_other_missing_values_and_the_note_about_them(tmp_path):
    notes = []
    content = "age,city\n30,NA\nunknown,\n-,Ulm\n-,Bonn\n"
    found = read(tmp_path, content, missing_values=("unknown", "-"), notes=notes)
    assert found.to_pydict() == {"age": ["30", None, None, None], "city": ["NA", None, "Ulm", "Bonn"]}
    assert notes == ["'-' counts as missing: 2 cells of age", "'unknown' counts as missing: 1 cell of age"]
    notes.clear()
    read(tmp_path, "a,b,c\nN/A,N/A,x\n1,,y\n", notes=notes)
    assert notes == ["'N/A' counts as missing: 2 cells of a, b"]


def test_quotes_in_csv(tmp_path):
    found = read(tmp_path, 'a,"b ""c"""\n"1\n2","x,y"\n"""",3\n')
    assert found.to_pydict() == {"a": ["1\n2", '"'], 'b "c"': ["x,y", "3"]}
    assert read(tmp_path, 'a,b\n1, "x,y"\n2,5" pipe\n').to_pydict() == {"a": ["1", "2"], "b": ["x,y", '5" pipe']}


@pytest.mark.parametrize("block", [1, 2, 7, 64, 10**6])
def test_quotes_that_cross_the_blocks_in_which_they_are_checked(block):
    rows = [f'"{"x" * (i % 9)}, ""{i}""",{i}' for i in range(50)]
    content = "\n".join(rows).encode()
    assert _is_tidy(content, ",", block)
    for i in (0, 25, 49):
        for row in (rows[i] + '"', " " + rows[i], rows[i].replace('""', '"', 1)):
            assert not _is_tidy("\n".join([*rows[:i], row, *rows[i + 1 :]]).encode(), ",", block)


def test_one_column_may_have_a_comma_in_its_name(tmp_path):
    assert read(tmp_path, '"a,b"\n1\n').column_names == ["a,b"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "expected a header and rows, found an empty file"),
        ("\n\n", "found an empty file"),
        ("a,b\n", "expected at least one row, found none"),
        ("a,b,a\n1,2,3\n", "names that differ, as in a header, found 'a' more than once"),
        (",\n1,2\n", "expected a name for each column, found '', ''"),
        ("a,b\n1,2\n3\n", "expected 2 cells as in the header, found 1 in line 3"),
        ("a,b\n1,2\n\n3,4\n", "expected 2 cells as in the header, found 0 in line 3"),
        ('a,b\n"1\n1",2\n3,4,5\n', "expected 2 cells as in the header, found 3 in line 4"),
        ("a;b\n1;2\n3;4;5\n", "expected 2 cells as in the header, found 3 in line 3"),
        ('a,b\n1,"2\n3,4\n', "between, found unexpected end of data in line 3"),
        ('a,b\n1,"2"3\n', "between, found ',' expected after '\"' in line 2"),
        ("a,b\nä,2\n".encode("latin-1"), "expected text in UTF-8, found other bytes: save"),
        ("ä,b\n1,2\n".encode("latin-1"), "expected text in UTF-8, found other bytes: save"),
        ("a,b\n1,2\n".encode("utf-16"), "expected text in UTF-8"),
    ],
)
def test_bad_csv(tmp_path, content, message):
    with pytest.raises(ValueError, match=r"table.csv: ") as error:
        read(tmp_path, content)
    assert message in str(error.value)


def test_a_first_column_without_a_name(tmp_path):
    notes = []
    found = read(tmp_path, '"",a\n"1",x\n"2",y\n', notes=notes)
    assert found.to_pydict() == {"column 0": ["1", "2"], "a": ["x", "y"]}
    assert notes == ["1 column without a name: called 'column 0'"]


def test_lines_that_end_with_a_comma(tmp_path):
    notes = []
    found = read(tmp_path, "a;b;;\n1;x;;\n2;y;;\n", notes=notes)
    assert found.to_pydict() == {"a": ["1", "2"], "b": ["x", "y"], "column 2": [None, None], "column 3": [None, None]}
    assert notes == ["2 columns without a name: called 'column 2', 'column 3'"]


def test_columns_are_dropped_before_they_are_looked_at(tmp_path):
    assert read(tmp_path, "a,b,a\n1,2,3\n", drop=["a"]).to_pydict() == {"b": ["2"]}
    assert read(tmp_path, ",b\n0,2\n1,3\n", drop=[""]).to_pydict() == {"b": ["2", "3"]}
    pyarrow.parquet.write_table(pa.table({"a": [1], "b": [[1, 2]]}), tmp_path / "t.parquet")
    assert read_table(tmp_path / "t.parquet", drop=["b"]).to_pydict() == {"a": [1]}
    with pytest.raises(ValueError, match=r"booleans, dates or times in column 'b', found list<.*>: drop the column"):
        read_table(tmp_path / "t.parquet")
    with pytest.raises(ValueError, match="expected the name of a column, found 'prize'; did you mean price"):
        read(tmp_path, SHOP, drop=["prize"])
    with pytest.raises(ValueError, match="found no column"):
        read(tmp_path, SHOP, drop=list(SHOP_COLUMNS))


COLUMNS = {
    "color": ["red", None, "?"],
    "size": [3, None, 1],
    "price": pa.array([1.5, None, 2.5], "float32"),
    "sold": [True, None, False],
    "shop": pa.array(["a", None, "b"]).dictionary_encode(),
    "floor": pa.array([2, 1, 2]).dictionary_encode(),
    "nothing": pa.nulls(3),
    "day": pa.array([1, 2, None], "date32"),
    "large": pa.array(["x", " ", "z"], "large_string"),
}


@pytest.mark.parametrize("suffix", [".parquet", ".feather", ".arrow"])
def test_typed_files(tmp_path, suffix):
    write = pyarrow.parquet.write_table if suffix == ".parquet" else pyarrow.feather.write_feather
    write(pa.table(COLUMNS), tmp_path / f"table{suffix}")
    found = read_table(tmp_path / f"table{suffix}")
    expected = pa.table(COLUMNS).to_pydict() | {"color": ["red", None, None], "large": ["x", None, "z"]}
    assert found.to_pydict() == expected
    assert [str(kind) for kind in found.schema.types] == [
        *("string", "int64", "float", "bool", "string", "int64", "string", "date32[day]", "string")
    ]


def test_lines_of_json(tmp_path):
    found = read(tmp_path, '{"a": 1, "b": "x"}\n{"a": null, "b": "NA"}\n', ".jsonl")
    assert found.to_pydict() == {"a": [1, None], "b": ["x", None]}
    found = read(tmp_path, '{"a": 1, "b": "2020-01-31", "c": "2020-01-31T08:00:00Z", "d": 2}\n', ".jsonl")
    assert found.to_pydict() == {"a": [1], "b": ["2020-01-31"], "c": ["2020-01-31T08:00:00Z"], "d": [2]}


@pytest.mark.parametrize(
    ("suffix", "message"),
    [
        (".parquet", "a Parquet file"),
        (".feather", "an Arrow file"),
        (".arrow", "an Arrow file"),
        (".jsonl", "lines of JSON"),
    ],
)
@pytest.mark.parametrize("content", [b"", b"PAR1", b"ARROW1 or something else", b'{"a": 1'])
def test_damaged_files(tmp_path, suffix, message, content):
    with pytest.raises(ValueError, match=rf"table{suffix}: expected {message}, found another or a damaged one"):
        read(tmp_path, content, suffix)


def test_damaged_gzip_files(tmp_path):
    with pytest.raises(ValueError, match=r"table.csv.gz: the gzip file is damaged"):
        read(tmp_path, gzip.compress(SHOP.encode())[:-9], ".csv.gz")


@pytest.mark.parametrize("dtype", [bool, np.uint8, np.int64, np.float32, np.float64])
def test_npy(tmp_path, dtype):
    x = np.array([[0, 1], [1, 1], [1, 0]], dtype)
    np.save(tmp_path / "table.npy", x)
    found = read_table(tmp_path / "table.npy")
    assert found.column_names == ["column 0", "column 1"]
    np.testing.assert_array_equal(np.stack(found.columns, 1), x)
    np.testing.assert_array_equal(recognize(found).encode(found), x)


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (np.zeros(3), r"expected an array of numbers or strings, \(rows, columns\), found float64 of shape \(3,\)"),
        (np.zeros((0, 3)), "at least one row, found none"),
        (np.zeros((3, 0)), "a name for each column, found no column"),
        (np.array([[1j]]), "found complex128 of shape"),
        (np.array([[None]]), "Object arrays cannot be loaded"),
    ],
)
def test_bad_npy(tmp_path, x, message):
    np.save(tmp_path / "table.npy", x)
    with pytest.raises(ValueError, match=r"table.npy: .*" + message):
        read_table(tmp_path / "table.npy")


@pytest.mark.parametrize(
    "content", [b"", b"nothing of the kind", b"\x93NUMPY\x01\x00", b"\x93NUMPY\x01\x00\x10\x00{'descr': '<f8'"]
)
def test_damaged_npy(tmp_path, content):
    with pytest.raises(ValueError, match=r"table.npy: "):
        read(tmp_path, content, ".npy")


def as_bytes(write):
    file = io.BytesIO()
    write(file)
    return file.getvalue()


@pytest.mark.parametrize(
    "content",
    [
        b"a,b\n1,x\n2,y\n",
        b"a;b\n1;x\n2;y\n",
        b'{"a": "1", "b": "x"}\n{"a": "2", "b": "y"}\n',
        gzip.compress(b"a,b\n1,x\n2,y\n", mtime=0),
        as_bytes(lambda file: pyarrow.parquet.write_table(pa.table({"a": ["1", "2"], "b": ["x", "y"]}), file)),
        as_bytes(lambda file: pyarrow.feather.write_feather(pa.table({"a": ["1", "2"], "b": ["x", "y"]}), file)),
    ],
)
def test_standard_input(monkeypatch, content):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
    assert is_table("-")
    assert read_table("-").to_pydict() == {"a": ["1", "2"], "b": ["x", "y"]}


def test_bad_standard_input(monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"")))
    with pytest.raises(ValueError, match="standard input: expected a header and rows, found an empty file"):
        read_table("-")


def test_files_that_are_no_tables(tmp_path):
    with pytest.raises(ValueError, match=r"expected a table .csv, .tsv, .parquet, .*.npy, found .*a.xlsx"):
        read_table(tmp_path / "a.xlsx")
    with pytest.raises(FileNotFoundError, match=r"found no file at .*a.csv"):
        read_table(tmp_path / "a.csv")
    (tmp_path / "people.csv").write_text("a,b\n1,2\n")
    with pytest.raises(FileNotFoundError, match=r"found no file at .*; did you mean .*people.csv\?"):
        read_table(tmp_path / "pepole.csv")
    assert [is_table(name) for name in ("a.csv", "a.CSV.gz", "a.gz", "a.xlsx", "digits")] == [
        True,
        True,
        False,
        False,
        False,
    ]


@pytest.mark.parametrize("suffix", [".csv", ".csv.gz", ".parquet", ".feather", ".jsonl", ".npy"])
def test_files_with_any_damage_end_in_one_kind_of_error(tmp_path, suffix):
    columns = {"a": [1, 2, None, 4] * 5, "b": [1.5, 2.5, 3.5, None] * 5}
    others = {"c": ["x", "y", None, "?"] * 5, "d": pa.array([1, 2, 3, None] * 5, "date32")}
    path, generator = tmp_path / f"table{suffix}", np.random.default_rng(0)
    write_table(pa.table(columns if suffix == ".npy" else columns | others), path)
    content = np.frombuffer(path.read_bytes(), np.uint8)
    failures = 0
    for _ in range(100):
        damaged, places = content.copy(), generator.integers(len(content), size=generator.integers(1, 5))
        damaged[places] = generator.integers(256, size=len(places))
        path.write_bytes(damaged[: generator.integers(len(content) // 2, len(content) + 1)].tobytes())
        try:
            found = read_table(path)
            assert recognize(found, leave_out=False).encode(found).shape == (len(found), len(found.column_names))
        except ValueError:
            failures += 1
    assert failures > 0
