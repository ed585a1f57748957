import json
import sys

import numpy as np
import pytest
import torch

from hyperspn.recipes import leaf_families
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy import stats

from hyperspn import SPN, Categorical, Gaussian
from hyperspn.data.columns import Column, Schema
from hyperspn.data.readers import MISSING, read_table, table_of, write_table
from hyperspn.data.recognize import recognize
from hyperspn.data.splits import load_splits, split
from hyperspn.data.tables import Table

SHOP = """color,size,price,stock,sold
red,3,1.5,10,yes
blue,1,2.25,,no
"light, green",2,,30,yes
red,?,4.0,41,
"""


@pytest.fixture
def shop(tmp_path):
    (tmp_path / "shop.csv").write_text(SHOP)
    return read_table(tmp_path / "shop.csv")


def text(*values):
    return np.array(values, object)


def table(**columns):
    return Table(tuple(columns), tuple(columns.values()))


def same(ours, theirs):
    return ours.names == theirs.names and all(
        a.tolist() == b.tolist() for a, b in zip(ours.columns, theirs.columns, strict=True)
    )


def read(tmp_path, content, suffix=".csv"):
    path = tmp_path / f"table{suffix}"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return read_table(path)


def test_csv(shop):
    assert len(shop) == 4
    assert shop.names == ("color", "size", "price", "stock", "sold")
    assert shop.columns[0].tolist() == ["red", "blue", "light, green", "red"]
    assert shop.columns[1].tolist() == ["3", "1", "2", None]
    assert shop.columns[4].tolist() == ["yes", "no", "yes", None]


def test_tsv(tmp_path, shop):
    assert same(read(tmp_path, SHOP.replace(",", "\t").replace('"light\t green"', "light, green"), ".tsv"), shop)


@pytest.mark.parametrize("missing", MISSING)
def test_missing_values(tmp_path, missing):
    assert read(tmp_path, f"a,b\n{missing},1\n2, {missing} \n").columns[0].tolist() == [None, "2"]
    assert read(tmp_path, f'a,b\n"{missing}",1\n').columns[0].tolist() == [None]


@pytest.mark.parametrize(
    "content",
    [
        "\ufeffa,b\n1,x\n2,y\n",
        "a,b\r\n1,x\r\n2,y\r\n",
        "a,b\n1,x\n2,y",
        "a,b\n1,x\n2,y\n\n\n",
        'a , "b"\n 1, x\n2 ,"y "\n',
    ],
)
def test_dialects_of_csv(tmp_path, content):
    found = read(tmp_path, content)
    assert found.names == ("a", "b")
    assert [column.tolist() for column in found.columns] == [["1", "2"], ["x", "y"]]


def test_quotes_in_csv(tmp_path):
    found = read(tmp_path, 'a,"b ""c"""\n"1\n2","x,y"\n')
    assert found.names == ("a", 'b "c"')
    assert [column.tolist() for column in found.columns] == [["1\n2"], ["x,y"]]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "expected a header and rows, found an empty file"),
        ("\n\n", "found an empty file"),
        ("a,b\n", "expected at least one row, found none"),
        ("a,b,a\n1,2,3\n", "names that differ, as in a header, found 'a' more than once"),
        ("a,,c\n1,2,3\n", "expected a name for each column, found 'a', '', 'c'"),
        ("a,b\n1,2\n3\n", "expected 2 cells as in the header, found 1 in line 3"),
        ("a,b\n1,2\n\n3,4\n", "expected 2 cells as in the header, found 0 in line 3"),
        ('a,b\n"1\n1",2\n3,4,5\n', "expected 2 cells as in the header, found 3 in line 4"),
        ("a;b\n1;2,5\n", "expected cells with ',' between, found the one column 'a;b': save it with commas"),
        ('a,b\n1,"2\n3,4\n', "between, found unexpected end of data in line 3"),
        ('a,b\n1,"2"3\n', "between, found ',' expected after '\"' in line 2"),
        ("a,b\nä,2\n".encode("latin-1"), "expected text in UTF-8, found other bytes: save"),
        ("a,b\n1,2\n".encode("utf-16"), "expected text in UTF-8"),
    ],
)
def test_bad_csv(tmp_path, content, message):
    with pytest.raises(ValueError, match=r"table.csv: ") as error:
        read(tmp_path, content)
    assert message in str(error.value)


def test_a_file_that_is_no_table(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("t.xlsx", "digits"):
        (tmp_path / name).write_bytes(b"PK")
    with pytest.raises(ValueError, match=r"expected a table .csv, .tsv, .parquet, .npy, found t.xlsx"):
        load_splits("t.xlsx")
    assert len(load_splits("digits").schema.columns) == 64


def test_one_column_may_have_a_comma_in_its_name(tmp_path):
    assert read(tmp_path, '"a,b"\n1\n').names == ("a,b",)


def test_parquet(tmp_path):
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    columns = {
        "color": ["red", None, "?"],
        "size": [3, None, 1],
        "price": arrow.array([1.5, float("nan"), None], "float32"),
        "sold": [True, None, False],
        "shop": arrow.array(["a", None, "b"]).dictionary_encode(),
        "floor": arrow.array([2, 1, 2]).dictionary_encode(),
        "nothing": arrow.nulls(3),
    }
    parquet.write_table(arrow.table(columns), tmp_path / "table.parquet")
    found = read_table(tmp_path / "table.parquet")
    assert found.names == tuple(columns)
    assert [found.columns[i].tolist() for i in (0, 3, 4, 6)] == [
        ["red", None, None],
        ["true", None, "false"],
        ["a", None, "b"],
        [None, None, None],
    ]
    np.testing.assert_array_equal(found.columns[1], [3, np.nan, 1])
    np.testing.assert_array_equal(found.columns[2], [1.5, np.nan, np.nan])
    np.testing.assert_array_equal(found.columns[5], [2, 1, 2])


def test_bad_parquet(tmp_path):
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    with pytest.raises(ValueError, match=r"table.parquet: expected a Parquet file, found another or a damaged one"):
        read(tmp_path, "PAR1", ".parquet")
    parquet.write_table(arrow.table({"when": arrow.array([0], "date32")}), tmp_path / "table.parquet")
    with pytest.raises(ValueError, match="booleans in column 'when', found date32"):
        read_table(tmp_path / "table.parquet")
    parquet.write_table(arrow.table({"a": [1.0, float("inf")]}), tmp_path / "table.parquet")
    with pytest.raises(ValueError, match="finite numbers in column 'a', found an infinite one in row 2"):
        read_table(tmp_path / "table.parquet")


def test_parquet_without_pyarrow(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ValueError, match=r"found none: pip install 'hyperspn\[parquet\]'"):
        read(tmp_path, "PAR1", ".parquet")


@pytest.mark.parametrize("dtype", [bool, np.uint8, np.int64, np.float32, np.float64])
def test_npy(tmp_path, dtype):
    x = np.array([[0, 1], [1, 1], [1, 0]], dtype)
    np.save(tmp_path / "table.npy", x)
    found = read_table(tmp_path / "table.npy")
    assert found.names == ("column 0", "column 1")
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
        (np.array([[1.0], [-np.inf]]), "finite numbers in column 'column 0', found an infinite one in row 2"),
    ],
)
def test_bad_npy(tmp_path, x, message):
    np.save(tmp_path / "table.npy", x)
    with pytest.raises(ValueError, match=r"table.npy: .*" + message):
        read_table(tmp_path / "table.npy")


@pytest.mark.parametrize("content", [b"", b"nothing of the kind", b"\x93NUMPY\x01\x00"])
def test_damaged_npy(tmp_path, content):
    with pytest.raises(ValueError, match=r"table.npy: "):
        read(tmp_path, content, ".npy")


def test_files_that_are_no_tables(tmp_path):
    with pytest.raises(ValueError, match=r"expected a table .csv, .tsv, .parquet, .npy, found .*a.xlsx"):
        read_table(tmp_path / "a.xlsx")
    with pytest.raises(FileNotFoundError, match=r"found no file at .*a.csv"):
        read_table(tmp_path / "a.csv")


def test_take_and_drop(shop):
    taken = shop.take(np.array([2, 0])).drop(["size", "price", "stock"])
    assert taken.names == ("color", "sold")
    assert [column.tolist() for column in taken.columns] == [["light, green", "red"], ["yes", "yes"]]
    with pytest.raises(ValueError, match="expected the name of a column, found 'prize'; did you mean price"):
        shop.drop(["prize"])
    with pytest.raises(ValueError, match="found no column"):
        shop.drop(shop.names)


def test_columns_are_of_equal_length():
    for columns in ((), (np.zeros(2),), (np.zeros(2), np.zeros(3)), (np.zeros((2, 1)), np.zeros((2, 1)))):
        with pytest.raises(ValueError, match="expected 2 columns of equal length"):
            Table(("a", "b"), columns)


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".CSV"])
def test_writing(tmp_path, shop, suffix):
    write_table(shop, tmp_path / f"new{suffix}")
    assert same(read_table(tmp_path / f"new{suffix}"), shop)


def test_writing_numbers(tmp_path):
    numbers = table(a=np.array([1.0, np.nan, 3]), b=np.array([0.1, 2, np.nan]), c=np.array([1, 2, 3], np.uint8))
    assert numbers.to_csv() == "a,b,c\n1,0.1,1\n,2.0,2\n3,,3\n"
    with pytest.raises(ValueError, match=r"expected a file .csv or .tsv to write, found .*new.parquet"):
        write_table(numbers, tmp_path / "new.parquet")


def test_one_column_with_holes(tmp_path):
    column = table(a=text("x", None, "y", None))
    write_table(column, tmp_path / "new.csv")
    assert same(read_table(tmp_path / "new.csv"), column)


def test_names_of_an_array():
    assert table_of(np.zeros((1, 2)), ["a", "b"]).names == ("a", "b")
    assert table_of(np.zeros((1, 2)), text("a", "b")).names == ("a", "b")
    with pytest.raises(ValueError, match="expected 2 names of columns, found 1"):
        table_of(np.zeros((1, 2)), ["a"])


def test_array_of_strings(tmp_path):
    x = np.array([["red", "1.5"], [" ", "nan"], ["blue ", "2"]])
    assert [column.tolist() for column in table_of(x).columns] == [["red", None, "blue"], ["1.5", None, "2"]]
    np.save(tmp_path / "table.npy", x)
    assert same(read_table(tmp_path / "table.npy"), table_of(x))


def test_array_of_objects():
    x = np.array([["red", 2, True], [None, None, np.nan], ["3", np.float32("nan"), False], [4, 0.5, True]], object)
    strings, numbers, booleans = table_of(x).columns
    assert strings.tolist() == ["red", None, "3", 4]
    np.testing.assert_array_equal(numbers, [2, np.nan, np.nan, 0.5])
    np.testing.assert_array_equal(booleans, [1, np.nan, 0, 1])
    with pytest.raises(TypeError, match=r"column 'a': .* must be a string or a real number, not 'dict'"):
        table_of(np.array([[1], [{}]], object), ["a"])


def test_missing_values_of_pandas():
    pandas = pytest.importorskip("pandas")
    assert table_of(np.array([["red"], [pandas.NA], [pandas.NaT]], object)).columns[0].tolist() == ["red", None, None]


@pytest.mark.parametrize(
    ("values", "kind", "categories"),
    [
        (text("yes", "no", "yes"), "binary", ("no", "yes")),
        (text("1", "0", None), "binary", (0, 1)),
        (text("5.0", "-2"), "binary", (-2, 5)),
        (np.array([1, 0, 1], np.uint8), "binary", (0, 1)),
        (text("b", "a", "c"), "categorical", ("a", "b", "c")),
        (text("10", "9", "1e2"), "categorical", (9, 10, 100)),
        (text("10", "9", "x"), "categorical", ("10", "9", "x")),
        (text("007", "010", "100"), "categorical", ("007", "010", "100")),
        (text("1_0", "2", "3"), "categorical", ("1_0", "2", "3")),
        (text("x", "x", None), "categorical", ("x",)),
        (text("7", "7"), "categorical", (7,)),
        (np.array([0.5, 0.5, np.nan]), "categorical", (0.5,)),
        (np.arange(20.0), "categorical", tuple(range(20))),
        (text(*"abcdefghijklmnopqrst"), "categorical", tuple("abcdefghijklmnopqrst")),
        (np.arange(21), "continuous", ()),
        (text("0.5", "1", "2"), "continuous", ()),
        (text(".5", "-1e3"), "continuous", ()),
    ],
)
def test_kinds_of_columns(values, kind, categories):
    column = recognize(table(a=values)).columns[0]
    assert (column.name, column.kind, column.categories) == ("a", kind, categories)
    assert [type(category) for category in column.categories] == [type(category) for category in categories]


@pytest.mark.parametrize(
    ("values", "decimals"),
    [
        (range(30), 0),
        (["1.5", "2.25", "-3"], 2),
        (["0.00000001", "123456.7"], 8),
        (["0.285", "1.005"], 3),
        (["0.000000001", "1"], None),
        ([1 / 3, 0.5], None),
    ],
)
def test_decimals(values, decimals):
    assert recognize(table(a=text(*values, None))).columns[0].decimals == decimals


def test_moments_are_those_of_the_training_rows():
    values = np.array([1.5, np.nan, 2.5, 6, 100])
    column = recognize(table(a=values), train=np.array([0, 1, 2, 3])).columns[0]
    assert column.mean == pytest.approx(10 / 3)
    assert column.std == pytest.approx(np.std([1.5, 2.5, 6]))
    for train in ([1], [0], []):
        column = recognize(table(a=values), train=np.array(train, int)).columns[0]
        assert column.mean == pytest.approx(27.5)


def test_categories_are_those_of_all_rows():
    assert recognize(table(a=text("x", "y", "z")), train=np.array([0])).columns[0].categories == ("x", "y", "z")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (text(None, None), "values in column 'a', found only missing ones: drop the column"),
        (np.full(3, np.nan), "found only missing ones"),
        (
            text(*(f"id{i}" for i in range(21))),
            "repeated strings in column 'a', found 21 different values in 21 rows, like 'id0': drop the column",
        ),
        (text(*map(str, range(50)), "inf"), "found 51 different values in 51 rows, like 'inf'"),
        (text("1e308", "-1e308", "0.5"), "finite mean and std > 0 of column 'a', found"),
    ],
)
def test_columns_that_cannot_be_used(values, message):
    with pytest.raises(ValueError, match=message):
        recognize(table(a=values))


@pytest.mark.parametrize(
    ("given", "kind", "categories"),
    [
        ([3, 1, 2, 7], "categorical", (1, 2, 3, 7)),
        (np.arange(1, 4), "categorical", (1, 2, 3)),
        (["3", "1", "2"], "categorical", ("1", "2", "3")),
        ([], "continuous", ()),
    ],
)
def test_given_categories(shop, given, kind, categories):
    column = recognize(shop, categories={"size": given}).columns[1]
    assert (column.kind, column.categories) == (kind, categories)
    if kind == "continuous":
        assert (column.mean, column.std, column.decimals) == (2, pytest.approx((2 / 3) ** 0.5), 0)
    assert recognize(shop, categories={"size": given}).columns[2:] == recognize(shop).columns[2:]


def test_given_categories_of_booleans():
    schema = recognize(table(a=np.array([1, 1])), categories={"a": [True, False]})
    assert schema.columns[0] == Column("a", "binary", (0, 1))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"sise": [1]}, "expected the name of a column, found 'sise'; did you mean size"),
        ({"color": []}, "expected numbers in column 'color', found 'red'"),
        ({"size": [1, "2"]}, "expected strings or numbers in ascending order"),
    ],
)
def test_bad_categories(shop, given, message):
    with pytest.raises(ValueError, match=message):
        recognize(shop, categories=given)


def test_strings_that_look_like_numbers():
    numbers = table(a=text("1", "0.5", None), b=text(1, 0.5, None), c=np.array([1, 0.5, np.nan]))
    assert [column.kind for column in recognize(numbers).columns] == ["continuous"] * 3
    kinds = recognize(numbers, numeric_strings=False).columns
    assert kinds[0] == Column("a", "binary", ("0.5", "1"))
    assert [column.kind for column in kinds[1:]] == ["continuous"] * 2
    with pytest.raises(ValueError, match="found 30 different values in 30 rows, like '0'"):
        recognize(table(a=text(*map(str, range(30)))), numeric_strings=False)


def test_encoding_and_decoding(shop):
    schema = recognize(shop)
    assert [column.kind for column in schema.columns] == [
        "categorical",
        "categorical",
        "continuous",
        "categorical",
        "binary",
    ]
    x = schema.encode(shop)
    assert x.dtype == np.float64
    prices = np.array([1.5, 2.25, 4])
    np.testing.assert_array_equal(x[:, 0], [2, 0, 1, 2])
    np.testing.assert_array_equal(x[:, 1], [2, 0, 1, np.nan])
    np.testing.assert_allclose(x[[0, 1, 3], 2], (prices - prices.mean()) / prices.std())
    assert np.isnan(x[2, 2])
    np.testing.assert_array_equal(x[:, 4], [1, 0, 1, np.nan])
    again = schema.decode(x)
    assert again.columns[0].tolist() == ["red", "blue", "light, green", "red"]
    assert again.columns[1].tolist() == [3, 1, 2, None]
    assert again.columns[2].tolist() == [1.5, 2.25, None, 4.0]
    assert again.to_csv() == SHOP.replace("?", "")
    np.testing.assert_array_equal(schema.encode(again), x)


def test_whole_numbers_stay_whole():
    ages = table(age=text(*map(str, range(20, 60)), None))
    schema = recognize(ages)
    again = schema.decode(schema.encode(ages)).columns[0].tolist()
    assert again == [*range(20, 60), None]
    assert all(type(age) is int for age in again[:-1])
    assert schema.decode(np.array([[0.01]])).columns[0].tolist() == [40]


def test_columns_are_found_by_name(shop):
    schema = recognize(shop)
    turned = Table(("id", *shop.names[::-1]), (text(*"1234"), *shop.columns[::-1]))
    np.testing.assert_array_equal(schema.encode(turned), schema.encode(shop))
    with pytest.raises(ValueError, match="expected a column named 'color', found none; did you mean colr"):
        schema.encode(Table(("colr", *shop.names[1:]), shop.columns))


def test_numbers_are_found_by_value():
    schema = recognize(table(a=text("1", "2", "3"), b=text("0.5", "1.5", "3")))
    expected = schema.encode(table(a=text("1", "2", None), b=text("3", None, "0.5")))
    other = table(a=np.array([1.0, 2, np.nan]), b=np.array([3, np.nan, 0.5], np.float32))
    np.testing.assert_array_equal(schema.encode(other), expected)
    np.testing.assert_array_equal(schema.encode(table(a=text("1.0", "2.", None), b=text(3, None, 0.5))), expected)


def test_a_missing_value_is_not_a_category():
    schema = recognize(table(a=text("None", "x", "nan ", None)))
    np.testing.assert_array_equal(schema.encode(table(a=text(None, "None", float("nan"))))[:, 0], [np.nan, 0, np.nan])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"color": text("red", "pink")},
            "one of 'blue', 'light, green', 'red' in column 'color', found 'pink' in row 2",
        ),
        ({"size": text("3", "4")}, "expected one of 1, 2, 3 in column 'size', found '4' in row 2"),
        ({"size": np.array([9.0, 1.0])}, "expected one of 1, 2, 3 in column 'size', found 9.0 in row 1"),
        ({"size": text("1", "big")}, "expected one of 1, 2, 3 in column 'size', found 'big' in row 2"),
        ({"price": text("1.5", "cheap")}, "expected a number in column 'price', found 'cheap' in row 2"),
        ({"price": text("1.5", "inf")}, "expected a number in column 'price', found 'inf' in row 2"),
    ],
)
def test_values_that_do_not_fit(shop, change, message):
    columns = dict(zip(shop.names, shop.take(np.arange(2)).columns)) | change
    with pytest.raises(ValueError, match=message):
        recognize(shop).encode(table(**columns))


def test_long_lists_of_categories_are_cut():
    schema = recognize(table(a=text(*(f"c{i % 30:02}" for i in range(90)))))
    with pytest.raises(ValueError, match=r"expected one of 'c00', .*, 'c19', \.\.\. in column"):
        schema.encode(table(a=text("c30")))


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ([3, 0, 0, 0, 0], r"expected a code 0\.\.2 in column 'color', found 3"),
        ([0, -1, 0, 0, 0], r"expected a code 0\.\.2 in column 'size', found -1"),
        ([0, 0.5, 0, 0, 0], r"expected a code 0\.\.2 in column 'size', found 0.5"),
        ([0, 0, np.inf, 0, 0], "expected a finite number in column 'price', found inf"),
        ([0, 0, 0], r"expected x of shape \(rows, 5\), found \(1, 3\)"),
    ],
)
def test_arrays_that_do_not_fit(shop, row, message):
    with pytest.raises(ValueError, match=message):
        recognize(shop).decode(np.array([row]))


def test_decoding_no_rows(shop):
    assert recognize(shop).decode(np.zeros((0, 5))).to_csv() == "color,size,price,stock,sold\n"


def test_filling_keeps_what_is_known(tmp_path):
    holes = read(tmp_path, "id,a,b,c\nx1,1.50,red,\nx2,,,2\nx3,2.125,blue,1\n")
    schema = recognize(holes.drop(["id"]))
    x = schema.encode(holes)
    assert schema.fill(holes, np.where(np.isnan(x), 0, x)).to_csv() == (
        "id,a,b,c\nx1,1.50,red,1\nx2,1.812,blue,2\nx3,2.125,blue,1\n"
    )
    numbers = table(a=np.array([1.0, np.nan, 3.0]))
    assert recognize(numbers).fill(numbers, np.array([[0.0], [1], [1]])).to_csv() == "a\n1\n3\n3\n"


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    rows=st.lists(
        st.tuples(st.text(st.characters(codec="utf-8", exclude_characters="\0")), st.integers(-(10**9), 10**9)),
        min_size=1,
        max_size=12,
    )
)
def test_any_table_survives_the_way_there_and_back(tmp_path, rows):
    strings, numbers = zip(*rows)
    given_table = table(a=text("x", *(s.strip() or None for s in strings)), b=np.array([0, *numbers]) / 100)
    write_table(given_table, tmp_path / "a.csv")
    found = read_table(tmp_path / "a.csv")
    schema = Schema.from_dict(json.loads(json.dumps(recognize(found).to_dict())))
    x = schema.encode(found)
    write_table(schema.decode(x), tmp_path / "b.csv")
    again = read_table(tmp_path / "b.csv")
    np.testing.assert_array_equal(schema.encode(again), x)
    if isinstance(schema.columns[0].categories[0], str):
        assert again.columns[0].tolist() == found.columns[0].tolist()


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("", [np.nan] * 5),
        ("color=red,size=3", [2, 2, np.nan, np.nan, np.nan]),
        (" sold = yes , color=blue", [0, np.nan, np.nan, np.nan, 1]),
        ('"color=light, green",size=1.0', [1, 0, np.nan, np.nan, np.nan]),
    ],
)
def test_evidence(shop, words, expected):
    np.testing.assert_array_equal(recognize(shop).evidence(words), [expected])


def test_evidence_about_numbers(shop):
    schema = recognize(shop)
    assert schema.evidence("price=-1e1")[0, 2] == pytest.approx((-10 - schema.columns[2].mean) / schema.columns[2].std)
    marks = recognize(table(**{"a=b": text("x", "y"), "c": text("x=y", "y")}))
    np.testing.assert_array_equal(marks.evidence("c=x=y,a=b=y"), [[1, 0]])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("colr=red", "expected the name of a column, found 'colr'; did you mean color"),
        ("color=pink", "expected one of 'blue', 'light, green', 'red' for column 'color', found 'pink'"),
        ("price=cheap", "expected a number for column 'price', found 'cheap'"),
        ("price=nan", "expected a number for column 'price', found 'nan'"),
        ("color=", "for column 'color', found ''"),
        ("color", "expected evidence like color=red,size=3, found 'color'"),
        ("size=3,", "expected evidence like color=red,size=3, found ''"),
        ("size=3,size=1", "expected one value of column 'size', found two"),
        ('"color=red', "expected evidence like color=red,size=3, found '\"color=red' "),
        ("size=3\nsold=yes", "expected evidence like color=red,size=3"),
    ],
)
def test_bad_evidence(shop, words, message):
    with pytest.raises(ValueError, match=message):
        recognize(shop).evidence(words)


def test_families(shop):
    families = leaf_families(recognize(shop), members=3)
    assert families[:2] == [Categorical(3), Categorical(3)]
    assert families[4] == Categorical(2)
    assert isinstance(families[2], Gaussian)
    assert families[2].members == 3


def test_densities_in_the_units_of_the_table():
    heights = table(height=np.array([150.5, 160, 170, np.nan]), sex=text("f", "m", None, "f"))
    schema = recognize(heights)
    x = schema.encode(heights)
    in_units = stats.norm.logpdf(x[:3, 0]) - schema.log_scale(x)[:3]
    column = schema.columns[0]
    np.testing.assert_allclose(in_units, stats.norm.logpdf(heights.columns[0][:3], column.mean, column.std))
    assert schema.log_scale(x)[3] == 0


def test_from_a_table_to_a_circuit_and_back(shop):
    schema = recognize(shop)
    circuit = SPN(len(schema.columns), leaves=leaf_families(schema), replicas=2)
    x = torch.from_numpy(schema.encode(shop))
    assert circuit.log_prob(x).isfinite().all()
    assert len(schema.decode(circuit.sample(7).numpy())) == 7
    full = schema.fill(shop, circuit.impute(x).numpy())
    assert all(None not in column for column in full.columns)
    assert full.columns[0].tolist() == shop.columns[0].tolist()
    assert circuit.log_prob(torch.from_numpy(schema.evidence("color=red"))).shape == (1,)


def test_a_constant_column():
    schema = recognize(table(a=text("x", "x"), b=text("0", "1")))
    circuit = SPN(2, leaves=leaf_families(schema), replicas=1)
    assert circuit.log_prob(torch.tensor([[0, torch.nan]])).item() == pytest.approx(0, abs=1e-6)


def test_json(shop):
    schema = recognize(shop)
    assert Schema.from_dict(json.loads(json.dumps(schema.to_dict()))) == schema


@pytest.mark.parametrize("entries", [None, [], {}, "columns", 3, {"columns": None}, {"columns": 3}, {"columns": []}])
def test_json_of_no_schema(entries):
    with pytest.raises(ValueError, match="expected"):
        Schema.from_dict(entries)


@pytest.mark.parametrize("entry", [None, [], "name", 3, {}, {"name": "a"}, {"name": "a", "categories": []}])
def test_json_of_no_column(entry):
    with pytest.raises(ValueError, match="expected a description of columns"):
        Schema.from_dict({"columns": [entry]})


@pytest.mark.parametrize(
    "change",
    [
        {"name": ""},
        {"name": 3},
        {"name": ["a"]},
        {"name": "b"},
        {"kind": "binary"},
        {"kind": "continuous"},
        {"kind": "discrete"},
        {"kind": ["categorical"]},
        {"categories": []},
        {"categories": None},
        {"categories": 3},
        {"categories": ["y", "x"]},
        {"categories": ["x", "x"]},
        {"categories": ["x", 3]},
        {"categories": [[], []]},
        {"categories": [True, False]},
        {"categories": [1.0, float("nan")]},
        {"categories": [1, 10**400]},
        {"mean": "0"},
        {"mean": float("nan")},
        {"mean": 10**400},
        {"std": 0.0},
        {"std": -1.0},
        {"std": float("inf")},
        {"std": None},
        {"decimals": -1},
        {"decimals": 10**9},
        {"decimals": 2.0},
        {"decimals": True},
        {"color": "red"},
    ],
)
def test_hostile_json(change):
    entries = Schema((Column("a", "categorical", ("x", "y", "z")), Column("b", "continuous"))).to_dict()
    assert len(Schema.from_dict(entries).columns) == 2
    entries["columns"][0] |= change
    with pytest.raises(ValueError, match="expected"):
        Schema.from_dict(entries)


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
