from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from hyperspn.data import Column, read_table, recognize
from hyperspn.data.scales import Scale


def text(*values):
    return pa.array([None if value is None else str(value) for value in values], pa.string())


def only(values, **options):
    return recognize(pa.table({"a": values}), **options).columns[0]


@pytest.mark.parametrize(
    ("values", "kind", "categories"),
    [
        (text("yes", "no", "yes"), "categorical", ("no", "yes")),
        (text("1", "0", None), "categorical", (0, 1)),
        (text("5.0", "-2"), "categorical", (-2, 5)),
        (text("0", "-0", "1"), "categorical", (0, 1)),
        (np.array([1, 0, 1], np.uint8), "categorical", (0, 1)),
        (text("b", "a", "c"), "categorical", ("a", "b", "c")),
        (text("10", "9", "1e2"), "categorical", (9, 10, 100)),
        (text("10", "9", "x"), "categorical", ("10", "9", "x")),
        (text("007", "010", "100"), "categorical", ("007", "010", "100")),
        (text("1_0", "2", "3"), "categorical", ("1_0", "2", "3")),
        (text("TRUE", "FALSE", None), "categorical", ("FALSE", "TRUE")),
        (pa.array([True, None, False]), "categorical", (False, True)),
        (np.arange(20.0), "categorical", tuple(range(20))),
        (np.arange(100) // 2, "categorical", tuple(range(50))),
        (text(*"abcdefghijklmnopqrst"), "categorical", tuple("abcdefghijklmnopqrst")),
        (np.arange(102) // 2, "numeric", ()),
        (text("0.5", "1", "2"), "numeric", ()),
        (text(".5", "-1e3"), "numeric", ()),
        (text("2020-01-01", "2020-01-02"), "date", ()),
    ],
)
def test_kinds_of_columns(values, kind, categories):
    column = only(values)
    assert (column.name, column.kind, column.categories) == ("a", kind, categories)
    assert [type(category) for category in column.categories] == [type(category) for category in categories]


@pytest.mark.parametrize(
    ("values", "decimals"),
    [
        (range(60), 0),
        (["1.5", "2.25", "-3"], 2),
        (["0.000001", "123456.7"], 6),
        (["0.285", "1.005"], 3),
        (["0.0000001", "1"], None),
        ([1 / 3, 0.5], None),
    ],
)
def test_decimals(values, decimals):
    assert only(text(*values, None)).decimals == decimals
    assert only(np.array([*map(float, values), np.nan], np.float64)).decimals == decimals


def test_numbers_of_float32_have_the_decimals_that_they_show():
    column = only(np.array([1.1, 2.25, 3.3], np.float32))
    assert column.decimals == 2
    assert column.encode(pa.chunked_array([pa.array([1.1], "float32")])).tolist() == [1.1]
    assert column.decode(np.array([1.1])).type == pa.float32()


def test_numbers_of_decimals_are_those_that_they_show():
    cents = pa.array([Decimal(i) / 100 for i in range(47_000, 48_000)], pa.decimal128(10, 2))
    assert only(cents).decimals == 2
    assert only(cents).encode(pa.chunked_array([cents])).tolist() == [i / 100 for i in range(47_000, 48_000)]


def test_numbers_beyond_whole_ones_of_float64_are_continuous():
    assert only(np.arange(100) * 1e17).decimals is None
    assert only(np.arange(100) * 1e13).decimals == 0


def test_scales_and_categories_are_those_of_the_training_rows():
    values = np.array([1.5, np.nan, 2.5, 6, 100])
    train = np.array([0, 1, 2, 3])
    assert only(values, train=train).scale == Scale.fit(values[[0, 2, 3]], 0.0)
    table = pa.table({"a": ["x", "y", "z", None], "b": ["u", "v", "u", "v"]})
    assert recognize(table, np.array([0, 1, 3])).columns[0].categories == ("x", "y")


LONG = [str(10**17 + i) for i in range(30)]


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        (text(None, None), "only missing values"),
        (np.full(3, np.nan), "only missing values"),
        (pa.nulls(3, pa.string()), "only missing values"),
        (text("x", "x", None), "a single value"),
        (text("7", "7"), "a single value"),
        (np.array([0.5, 0.5, np.nan]), "a single value"),
        (np.arange(21), "row numbers, a run without gaps"),
        (text(*np.random.default_rng(0).permutation(50) + 1000), "row numbers, a run without gaps"),
        (text(*(f"id{i}" for i in range(21))), "21 different strings in 21 rows, like 'id0'"),
        (text(*(f"id{i}" for i in range(100)), "id0", None), "100 different strings in 101 rows, like 'id0'"),
        (text(*LONG), "30 different strings in 30 rows, like '100000000000000000'"),
        (text(*(f"id{i // 2}" for i in range(500))), "250 categories, none of them in 10 rows"),
    ],
)
def test_columns_that_are_left_out(values, reason):
    other = pa.array((["u", "v"] * len(values))[: len(values)])
    notes = []
    schema = recognize(pa.table({"a": values, "b": other}), notes=notes)
    assert schema.names == ("b",)
    assert schema.left_out == (("a", reason),)
    assert f"column 'a' is left out: {reason}" in notes
    with pytest.raises(ValueError, match=f"column 'a' is not modeled: {reason}"):
        schema.index("a")
    with pytest.raises(ValueError, match=f"there is no column to model: 'a' has {reason}"):
        recognize(pa.table({"a": values}))


@pytest.mark.parametrize(
    "values",
    [
        np.arange(21) * 2,
        np.arange(21) + 0.5,
        np.array([*range(21), 20]),
        np.array([*range(40), np.nan]),
        np.random.default_rng(0).random(1000),
        text(*(f"2020-01-{i:02}" for i in range(1, 32))),
    ],
)
def test_other_numbers_are_never_left_out(values):
    assert len(recognize(pa.table({"a": values})).columns) == 1


def test_row_numbers_are_seen_in_all_rows():
    table = pa.table({"No": np.arange(100), "b": np.arange(100) % 2})
    assert recognize(table, np.arange(0, 100, 3)).names == ("b",)


@pytest.mark.parametrize(
    ("kind", "expected"), [("numeric", "numeric"), ("categorical", "categorical"), (None, None), ("drop", None)]
)
def test_kinds_that_are_asked_for(kind, expected):
    table = pa.table({"a": np.arange(30), "b": ["u", "v"] * 15})
    schema = recognize(table, kinds={} if kind is None else {"a": kind})
    assert (schema.columns[0].kind if schema.columns[0].name == "a" else None) == expected


def test_kinds_of_text_that_are_asked_for():
    values = text(*range(100), "many", None)
    column = only(values, kinds={"a": "numeric"})
    assert (column.kind, column.scale.largest) == ("numeric", 99)
    notes = []
    assert np.isnan(column.encode(pa.chunked_array([values]), notes=notes)[-2:]).all()
    assert "column 'a': unknown values in 1 cell, like 'many' in row 101, count as missing" in notes[0]
    assert only(values, kinds={"a": "categorical"}).size == 101
    assert only(text(*range(100)), kinds={"a": "categorical"}).categories[:3] == ("0", "1", "10")
    assert only(text("a", "a"), kinds={"a": "categorical"}).categories == ("a",)
    assert only(pa.array([1, 2, 300], "date32"), kinds={"a": "categorical"}).categories[0] == "1970-01-02"
    for kind, message in (
        ("numeric", "expected numbers in column 'a', found 'x'"),
        ("date", "expected dates in column"),
    ):
        with pytest.raises(ValueError, match=message):
            only(text("x", "y"), kinds={"a": kind})
    with pytest.raises(ValueError, match="expected column 'a' to be numeric, categorical, date, drop, found 'number'"):
        only(text("x", "y"), kinds={"a": "number"})


def test_a_column_that_has_numbers_but_for_a_few_strings():
    notes = []
    column = only(text(*(20 + i % 60 for i in range(500)), "unknown", "unknown", "old"), notes=notes)
    assert column.kind == "categorical"
    (note,) = notes
    assert note.startswith(
        "column 'a' has numbers but for 'unknown' (2 cells), 'old' (1 cell), so it is not seen as numeric: "
    )


@pytest.mark.parametrize("write", ["{:.2f}", "{:,.2f}", "{:.1f} %", "€{:,.2f}"])
@pytest.mark.parametrize("marks", [".,", ",."])
def test_numbers_in_any_spelling_but_for_a_word(write, marks):
    numbers = np.random.default_rng(0).lognormal(7, 1, 300).round(2)
    written = [write.format(number).translate(str.maketrans(".,", marks)) for number in numbers]
    table, notes = pa.table({"a": text("k.A.", *written, "k.A."), "b": [True, False] * 151}), []
    assert recognize(table, notes=notes).names == ("b",)
    assert notes[0].startswith("column 'a' has numbers but for 'k.A.' (2 cells), so it is not seen as numeric")
    assert notes[0].endswith("--kind a=numeric counts these as missing")
    column = recognize(table, kinds={"a": "numeric"}).columns[0]
    read = column.numbers(table["a"])
    assert np.isnan(read[[0, -1]]).all()
    np.testing.assert_allclose(read[1:-1], numbers, atol=0.5)


def test_one_word_for_missing_among_ages(tmp_path):
    (tmp_path / "t.csv").write_text("age\n" + "\n".join(str(20 + i % 60) for i in range(500)) + "\nN/A\n")
    assert recognize(read_table(tmp_path / "t.csv")).columns[0].kind == "numeric"


@pytest.mark.parametrize(
    ("values", "bounds"),
    [
        ([0.5, 3, 7], (0, None)),
        ([-0.5, 3, 7], (None, None)),
        ([0.5, 0.25, 1], (0, 1)),
        ([0.5, 0.25, 0.75], (0, None)),
        ([0.5, 99, 100], (0, 100)),
        ([0.5, 99, 100.5], (0, None)),
        ([-0.5, 0.5, 1], (None, 1)),
    ],
)
def test_bounds(values, bounds):
    column = only(np.array(values))
    assert (column.scale.lower, column.scale.upper) == bounds
    column = only(np.array(values), bounds={"a": (-10, None)})
    assert (column.scale.lower, column.scale.upper) == (-10, None)


@pytest.mark.parametrize(
    ("bounds", "message"),
    [
        ((0, 5), "expected the training values of column 'a' within its bounds 0..5, found 7"),
        ((None, "7"), "expected numbers or None as bounds of column 'a'"),
        ((float("nan"), None), "expected numbers or None as bounds"),
    ],
)
def test_bad_bounds(bounds, message):
    with pytest.raises(ValueError, match=message):
        only(np.array([0.5, 3, 7]), bounds={"a": bounds})


def test_bounds_of_categories_are_told():
    notes = []
    recognize(pa.table({"a": [1, 2, 4] * 10}), bounds={"a": (0, 5)}, notes=notes)
    assert notes == ["column 'a' has categories, of which none has bounds: --kind a=numeric changes that"]


def test_whole_numbers_above_2_to_53_keep_their_identity():
    numbers = [2**53 + 1, 2**53 + 2, 2**60 + 1] * 10
    for values in (pa.array(numbers), text(*numbers), pa.array(numbers, "uint64")):
        notes = []
        column = only(values, notes=notes)
        assert column.categories == tuple(sorted(map(str, numbers[:3])))
        assert notes == ["column 'a' has whole numbers above 2^53, which are seen as strings"]
        assert column.decode(column.encode(pa.chunked_array([values]))).to_pylist() == values.to_pylist()


def test_one_huge_number_among_ages():
    ages = text(*(20 + i % 60 for i in range(500)), "1e30")
    column = only(ages)
    assert (column.kind, column.scale.largest) == ("numeric", 1e30)
    x = column.encode(pa.chunked_array([ages]))
    assert column.decode(x[:500]).to_pylist() == [20 + i % 60 for i in range(500)]
    assert column.decode(x).to_pylist()[-1] == 1e30


@pytest.mark.parametrize("values", [text("1.5", "2.5", "inf"), np.array([1.5, 2.5, -np.inf])])
def test_infinite_numbers(values):
    with pytest.raises(ValueError, match="finite numbers in column 'a', found an infinite one in row 3: drop or fix"):
        only(values)
    column = only(np.array([1.5, 2.5, 3.5]))
    with pytest.raises(ValueError, match="finite numbers in column 'a', found an infinite one in row 3"):
        column.encode(pa.table({"a": values})["a"])


def test_rare_categories_are_pooled():
    counts = {f"c{i:03}": 20 if i < 5 else 1 + i % 3 for i in range(300)}
    values = text(*(name for name, count in counts.items() for _ in range(count)))
    notes = []
    column = only(values, notes=notes)
    assert column.categories == tuple(f"c{i:03}" for i in range(5))
    assert len(column.pooled) == 295
    assert notes == ["column 'a': 295 categories in fewer than 10 rows are pooled as (other)"]
    rare = sum(counts[name] for name in column.pooled)
    assert column.shares == tuple(pytest.approx(counts[name] / rare) for name in column.pooled)
    assert (column.size, column.labels[-1]) == (6, "(other)")
    x = column.encode(pa.chunked_array([text("c004", "c005", "c299", "c300", None)]))
    np.testing.assert_array_equal(x, [4, 5, 5, np.nan, np.nan])
    assert column.decode(np.array([4, 5, np.nan])).to_pylist() == ["c004", "c005", None]
    drawn = np.array(column.decode(np.full(60_000, 5.0), seed=1).to_pylist())
    for name, share in list(zip(column.pooled, column.shares))[::50]:
        assert (drawn == name).mean() == pytest.approx(share, abs=5 * (share / 60_000) ** 0.5)
    assert only(text(*(f"c{i}" for i in range(200) for _ in range(2)))).pooled == ()


@pytest.mark.parametrize(
    ("given", "kind", "categories"),
    [
        ([3, 1, 2, 7], "categorical", (1, 2, 3, 7)),
        (np.arange(1, 4), "categorical", (1, 2, 3)),
        (["3", "1", "2"], "categorical", ("1", "2", "3")),
        ([], "numeric", ()),
    ],
)
def test_given_categories(given, kind, categories):
    table = pa.table({"size": text(3, 1, 2, None), "price": text(1.5, 2.5, 3.5, 4.5)})
    schema = recognize(table, categories={"size": given})
    assert (schema.columns[0].kind, schema.columns[0].categories) == (kind, categories)
    assert schema.columns[1] == recognize(table).columns[1]


def test_given_categories_of_booleans():
    assert only(np.array([1, 1]), categories={"a": [True, False]}) == Column("a", "categorical", (0, 1), type="int64")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"sise": [1]}, "expected the name of a column, found 'sise'; did you mean size"),
        ({"color": []}, "expected numbers in column 'color', found 'red'"),
        ({"size": [1, "2"]}, "expected strings or numbers in ascending order"),
    ],
)
def test_bad_categories(given, message):
    with pytest.raises(ValueError, match=message):
        recognize(pa.table({"color": ["red", "blue"], "size": [1, 2]}), categories=given)


def test_strings_that_look_like_numbers():
    assert only(text("1", "0.5", None)).kind == "numeric"
    assert only(text("1", "0.5", None), numeric_strings=False).categories == ("0.5", "1")
    assert only(np.array([1, 0.5]), numeric_strings=False).kind == "numeric"


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (text(None, None), "only missing values in column 'a': drop or fix the column"),
        (text(*(f"id{i}" for i in range(21))), "21 different strings in 21 rows, like 'id0' in column 'a'"),
    ],
)
def test_columns_that_must_not_be_left_out(values, message):
    with pytest.raises(ValueError, match=message):
        only(values, leave_out=False)


def test_columns_that_are_kept_if_none_may_be_left_out():
    assert only(text("x", "x", None), leave_out=False).categories == ("x",)
    assert only(np.array([0.5, 0.5]), leave_out=False).categories == (0.5,)
    assert only(np.arange(60), leave_out=False).kind == "numeric"


def test_missing_as_data():
    table = pa.table({"a": text("x", "y", None), "b": text("1.5", None, "2.5"), "c": text("u", "v", "u")})
    schema = recognize(table, missing_as_data=True)
    assert [column.missing_as_data for column in schema.columns] == [True, True, False]
    assert [column.size for column in schema.columns] == [3, 1, 2]
    x = schema.encode(table)
    np.testing.assert_array_equal(x, [[0, 1.5, 0], [1, np.inf, 1], [2, 2.5, 0]])
    assert schema.decode(x).to_pydict() == {"a": ["x", "y", None], "b": [1.5, None, 2.5], "c": ["u", "v", "u"]}
    assert [column.missing_as_data for column in recognize(table, missing_as_data=["b"]).columns] == [
        False,
        True,
        False,
    ]
    notes = []
    unknown = schema.encode(pa.table({"a": ["z"], "c": ["u"]}), notes=notes)
    np.testing.assert_array_equal(unknown, [[np.nan, np.nan, 0]])
    with pytest.raises(ValueError, match="expected the name of a column, found 'd'"):
        recognize(table, missing_as_data=["d"])
