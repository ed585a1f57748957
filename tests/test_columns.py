import json

import numpy as np
import pyarrow as pa
import pytest
import torch

from hyperspn.recipes import leaf_families
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy import stats
from test_readers import SHOP, SHOP_COLUMNS

from hyperspn import SPN
from hyperspn.data import Column, Schema, csv_text, describe, read_table, recognize, write_table
from hyperspn.data.scales import Scale


@pytest.fixture
def shop():
    return pa.table(SHOP_COLUMNS)


def text(*values):
    return pa.array([None if value is None else str(value) for value in values], pa.string())


def test_encoding_and_decoding(shop):
    schema = recognize(shop)
    kinds = [column.kind for column in schema.columns]
    assert kinds == ["categorical", "categorical", "numeric", "categorical", "categorical"]
    x = schema.encode(shop)
    assert x.dtype == np.float64
    np.testing.assert_array_equal(
        x,
        [[2, 2, 1.5, 0, 1], [0, 0, 2.25, np.nan, 0], [1, 1, np.nan, 1, 1], [2, np.nan, 4, 2, np.nan]],
    )
    again = schema.decode(x)
    assert again.to_pydict() == shop.to_pydict() | {
        "size": [3, 1, 2, None],
        "price": [1.5, 2.25, None, 4.0],
        "stock": [10, None, 30, 41],
    }
    assert csv_text(again) == SHOP.replace("?", "").replace("4.0", "4")
    np.testing.assert_array_equal(schema.encode(again), x)


def test_a_long_table_is_the_same_as_its_parts(tmp_path):
    """Columns of few different strings are held as codes in long tables, and as strings in short ones."""
    generator = np.random.default_rng(0)
    columns = {
        "color": np.array(["red", "blue", "?", "green"])[generator.integers(4, size=12_000)],
        "age": generator.integers(100, size=12_000).astype(str),
        "size": generator.integers(3, size=12_000).astype(str),
        "day": np.datetime_as_string(np.datetime64("2020-01-01") + generator.integers(300, size=12_000)),
        "real": generator.normal(size=12_000).round(6).astype(str),
    }
    table = pa.table(columns)
    write_table(table, tmp_path / "t.csv")
    long = read_table(tmp_path / "t.csv")
    assert [pa.types.is_dictionary(kind) for kind in long.schema.types] == [True] * 4 + [False]
    holes = table.set_column(0, "color", pa.array(columns["color"], mask=columns["color"] == "?"))
    assert long.to_pydict() == holes.to_pydict()
    train = generator.permutation(12_000)[:8000]
    schema = recognize(long, train, missing_as_data=True)
    assert schema == recognize(holes, train, missing_as_data=True)
    x = schema.encode(long)
    np.testing.assert_array_equal(x, schema.encode(holes))
    assert recognize(long.slice(0, 5)) == recognize(holes.slice(0, 5))
    assert csv_text(long) == csv_text(holes)
    assert (
        schema.fill(long, np.where(x == 3, 0, x)).to_pydict() == schema.fill(holes, np.where(x == 3, 0, x)).to_pydict()
    )
    rows = describe(schema, long)
    assert rows == describe(schema, holes)


def test_types_stay_as_they_are():
    table = pa.table(
        {
            "whole": pa.array([*range(60), None], "int16"),
            "few": pa.array([i % 3 for i in range(61)], "uint8"),
            "real": pa.array([i / 4 for i in range(61)], "float32"),
            "money": pa.array([i / 4 for i in range(60)] + [None]).cast(pa.decimal128(8, 2)),
            "flag": [i % 2 == 0 for i in range(61)],
        }
    )
    schema = recognize(table)
    again = schema.decode(schema.encode(table))
    assert again.schema == table.schema
    assert again.to_pydict() == table.to_pydict()
    assert schema.decode(np.array([[12.4, 1, 2, 3, 0]]))["whole"].to_pylist() == [12]


def test_booleans_in_other_spellings():
    flags = Schema((Column("a", "categorical", (False, True), type="bool"),))
    words = Schema((Column("a", "categorical", ("no", "yes")),))
    turned = Schema((Column("a", "categorical", ("TRUE", "n")),))
    for values in (
        [True, False, None],
        ["yes", "no", None],
        ["T", "f", None],
        ["TRUE", "FALSE", "maybe"],
        ["1", "0", "2"],
    ):
        for schema, expected in ((flags, [1, 0, np.nan]), (words, [1, 0, np.nan]), (turned, [0, 1, np.nan])):
            np.testing.assert_array_equal(schema.encode(pa.table({"a": values}))[:, 0], expected)
    assert words.decode(np.array([[1.0]])).to_pydict() == {"a": ["yes"]}
    assert flags.decode(np.array([[1.0]])).to_pydict() == {"a": [True]}
    np.testing.assert_array_equal(flags.encode(pa.table({"a": [0, 1, 2]}))[:, 0], [0, 1, np.nan])


def test_columns_are_found_by_name(shop):
    schema = recognize(shop)
    turned = shop.select(shop.column_names[::-1]).append_column("id", text(1, 2, 3, 4))
    np.testing.assert_array_equal(schema.encode(turned), schema.encode(shop))


def test_absent_columns_count_as_missing(shop):
    schema, notes = recognize(shop), []
    renamed = shop.rename_columns(["colr", *shop.column_names[1:]])
    x = schema.encode(renamed, notes=notes)
    assert np.isnan(x[:, 0]).all()
    np.testing.assert_array_equal(x[:, 1:], schema.encode(shop)[:, 1:])
    assert notes == ["there is no column 'color': it counts as missing; did you mean colr?"]
    renamed = renamed.rename_columns(["colr", "Sise", *shop.column_names[2:]])
    schema.encode(renamed, notes=notes)
    assert notes[1:] == ["there are no columns 'color', 'size': they count as missing; did you mean colr or Sise?"]
    with pytest.raises(ValueError, match="expected a column named 'color', found none; did you mean colr"):
        schema.encode(renamed, strict=True)
    with pytest.raises(ValueError, match="expected a column named 'color', found none"):
        schema.encode(pa.table({"other": [1]}))


def test_numbers_are_found_by_value():
    schema = recognize(pa.table({"a": text(1, 2, 3), "b": text(0.5, 1.5, 3)}))
    expected = [[0, 3], [1, np.nan], [np.nan, 0.5]]
    for a, b in (
        (text("1", "2", None), text("3", None, "0.5")),
        (text("1.0", "2.", None), text("3.0", None, ".5")),
        (np.array([1.0, 2, np.nan]), np.array([3, np.nan, 0.5], np.float32)),
        (pa.array([1, 2, None], "int8"), pa.array([3, None, 0.5])),
    ):
        np.testing.assert_array_equal(schema.encode(pa.table({"a": a, "b": b})), expected)


@pytest.mark.parametrize(
    ("change", "message", "note", "value"),
    [
        (
            {"color": text("red", "pink")},
            "one of 'blue', 'light, green', 'red' in column 'color', found 'pink' in row 2$",
            "column 'color': unknown values in 1 cell, like 'pink' in row 2, count as missing",
            np.nan,
        ),
        (
            {"color": text("red", "BLEU")},
            r"one of 'blue', 'light, green', 'red' in column 'color', found 'BLEU' in row 2; did you mean blue\?$",
            "column 'color': unknown values in 1 cell, like 'BLEU' in row 2, count as missing",
            np.nan,
        ),
        (
            {"size": text("3", "-4")},
            "expected one of 1, 2, 3 in column 'size', found '-4' in row 2",
            "column 'size': unseen whole numbers in 1 cell count as the nearest seen ones, like -4 as 1",
            0,
        ),
        (
            {"size": np.array([1.0, 9.0])},
            "expected one of 1, 2, 3 in column 'size', found 9.0 in row 2",
            "column 'size': unseen whole numbers in 1 cell count as the nearest seen ones, like 9 as 3",
            2,
        ),
        (
            {"size": text("1", "2.5")},
            "expected one of 1, 2, 3 in column 'size', found '2.5' in row 2",
            "column 'size': unknown values in 1 cell, like '2.5' in row 2, count as missing",
            np.nan,
        ),
        (
            {"price": text("1.5", "cheap")},
            "expected a number in column 'price', found 'cheap' in row 2",
            "column 'price': unknown values in 1 cell, like 'cheap' in row 2, count as missing",
            np.nan,
        ),
    ],
)
def test_values_that_do_not_fit(shop, change, message, note, value):
    schema, (name,), notes = recognize(shop), change, []
    table = pa.table({column: shop[column][:2] for column in shop.column_names} | change)
    with pytest.raises(ValueError, match=message):
        schema.encode(table, strict=True)
    np.testing.assert_array_equal(schema.encode(table, notes=notes)[1, schema.index(name)], value)
    assert notes == [note]


def test_values_outside_the_bounds(shop):
    schema, notes = recognize(shop), []
    x = schema.encode(pa.table({"price": [3.0, -2.5, None]}), notes=notes)
    np.testing.assert_array_equal(x[:, 2], [3, -2.5, np.nan])
    assert notes[-1] == (
        "column 'price': values outside the bounds 0.. in 1 cell, like -2.5 in row 2: such rows have probability 0"
    )
    assert schema.outside(x) == {"price": 1}
    assert schema.outside(schema.encode(shop)) == {}


def test_long_lists_of_categories_are_cut():
    schema = recognize(pa.table({"a": text(*(f"c{i % 30:02}" for i in range(90)))}))
    with pytest.raises(ValueError, match=r"expected one of 'c00', .*, 'c19', \.\.\. in column"):
        schema.encode(pa.table({"a": ["c30"]}), strict=True)


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
    assert csv_text(recognize(shop).decode(np.zeros((0, 5)))) == "color,size,price,stock,sold\n"


def test_numbers(shop):
    schema = recognize(shop.select(["size", "price"]))
    np.testing.assert_array_equal(schema.numbers(np.array([[0, 1.5], [2, 2.25]])), [[1, 1.5], [3, 2.25]])
    with pytest.raises(ValueError, match="expected columns of numbers, found string in column 'color'"):
        recognize(shop).numbers(np.zeros((1, 5)))


def test_filling_keeps_what_is_known():
    holes = pa.table(
        {"id": ["x1", "x2", "x3"], "a": ["1.50", None, "2.125"], "b": ["red", None, "blue"], "c": [None, "2", "1"]}
    )
    schema = recognize(holes.select(["a", "b", "c"]))
    x = schema.encode(holes)
    filled = schema.fill(holes, np.where(np.isnan(x), [1.8125, 0, 0], x))
    assert csv_text(filled) == "id,a,b,c\nx1,1.50,red,1\nx2,1.812,blue,2\nx3,2.125,blue,1\n"
    whole = pa.table({"a": pa.array([1, None, 3], "int64"), "b": [0.5, float("nan"), 1.5]})
    schema = recognize(whole, kinds={"a": "numeric"})
    assert schema.fill(whole, np.array([[9, 9], [2, 1], [9, 9]])).to_pydict() == {"a": [1, 2, 3], "b": [0.5, 1, 1.5]}
    schema = Schema((Column("a", "numeric", scale=Scale((0.0, 1.0))),))
    filled = schema.fill(whole, np.array([[9], [2.5], [9]]))
    assert filled["a"].to_pylist() == [1, 2.5, 3]


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
    values = ["x", *(s.strip() or None for s in strings)]
    table = pa.table({"a": pa.array(values, pa.string()), "b": np.array([0, *numbers]) / 100})
    write_table(table, tmp_path / "a.csv")
    found = read_table(tmp_path / "a.csv", missing_values=())
    assert found["a"].to_pylist() == values
    schema = recognize(found, leave_out=False)
    schema = Schema.from_dict(json.loads(json.dumps(schema.to_dict())))
    x = schema.encode(found, strict=True)
    write_table(schema.decode(x), tmp_path / "b.csv")
    again = read_table(tmp_path / "b.csv", missing_values=())
    np.testing.assert_array_equal(schema.encode(again), x)
    if schema.columns[0].categories and isinstance(schema.columns[0].categories[0], str):
        assert again["a"].to_pylist() == values


def test_densities_of_standardized_columns_in_the_units_of_the_table():
    heights = pa.table({"height": [150.5, 160, 170, None], "sex": ["f", "m", None, "f"]})
    schema = Schema((Column("height", "continuous", (), 160.0, 8.0, 1), Column("sex", "binary", ("f", "m"))))
    x = schema.encode(heights)
    in_units = stats.norm.logpdf(x[:3, 0]) - schema.log_scale(x)[:3]
    np.testing.assert_allclose(in_units, stats.norm.logpdf([150.5, 160, 170], 160, 8))
    assert schema.log_scale(x)[3] == 0
    assert schema.decode(x).to_pydict() == heights.to_pydict()


def test_from_a_table_to_a_circuit_and_back(shop):
    schema = recognize(shop, missing_as_data=["stock"])
    circuit = SPN(len(schema.columns), leaves=leaf_families(schema, 8), replicas=2)
    x = torch.from_numpy(schema.encode(shop))
    assert circuit.log_prob(x).isfinite().all()
    assert len(schema.decode(circuit.sample(7).numpy())) == 7
    full = schema.fill(shop, circuit.impute(x).numpy())
    assert [full[name].null_count for name in full.column_names] == [0, 0, 0, 1, 0]
    assert full["color"].to_pylist() == shop["color"].to_pylist()


def test_descriptions():
    values = [0.0] * 50 + [i / 8 for i in range(1, 51)]
    table = pa.table(
        {
            "id": np.arange(100),
            "gain": pa.array([*values[:-1], None]),
            "color": ["red", "blue"] * 50,
            "name": [f"n{i // 10}" for i in range(100)],
        }
    )
    notes = []
    rows = describe(recognize(table), table, notes)
    assert [row[:6] for row in rows] == [
        ("id", "left out", 0, 100, 0, ""),
        ("gain", "numeric", 1, 50, 1, "0.."),
        ("color", "categorical", 0, 2, 0, ""),
        ("name", "categorical", 0, 10, 0, ""),
    ]
    assert rows[0].reason == "row numbers, a run without gaps"
    assert [row.distributions for row in rows] == [0, 33, 2, 10]
    assert [row.cost for row in rows] == pytest.approx([0, 33 / 45, 2 / 45, 10 / 45])
    assert notes == []
    wide = pa.table({"city": [f"c{i // 2}" for i in range(400)], "color": ["red", "blue"] * 200})
    describe(recognize(wide), wide, notes)
    assert notes == [
        "column 'city' takes 99% of the work at the leaves (200 of 202 distributions): drop it if it does not matter"
    ]


def test_json(shop):
    table = shop.append_column("when", text("2020-01-01", "2020-01-02", None, "2020-03-01"))
    table = table.append_column("share", text("1.5%", "2%", "3%", "4%"))
    schema = recognize(table, missing_as_data=True)
    again = Schema.from_dict(json.loads(json.dumps(schema.to_dict(), allow_nan=False)))
    assert again == schema
    assert again.digest() == schema.digest()
    assert len(schema.digest()) == 16
    assert recognize(table).digest() != schema.digest()


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
        *({"name": ""}, {"name": 3}, {"name": ["a"]}, {"name": "b"}),
        *({"kind": "binary"}, {"kind": "continuous"}, {"kind": "discrete"}, {"kind": ["categorical"]}),
        *({"kind": "numeric"}, {"kind": "date"}, {"kind": "numeric", "categories": []}),
        *({"categories": []}, {"categories": None}, {"categories": 3}, {"categories": ["y", "x"]}),
        *({"categories": ["x", "x"]}, {"categories": ["x", 3]}, {"categories": [[], []]}),
        *({"categories": [True, False]}, {"categories": [1.0, float("nan")]}, {"categories": [1, 10**400]}),
        *({"mean": "0"}, {"mean": float("nan")}, {"mean": 10**400}),
        *({"std": 0.0}, {"std": -1.0}, {"std": float("inf")}, {"std": None}),
        *({"decimals": -1}, {"decimals": 10**9}, {"decimals": 2.0}, {"decimals": True}),
        *({"scale": 3}, {"scale": {}}, {"scale": {"knots": []}}, {"scale": {"knots": [1.0]}}),
        *({"spelling": 3}, {"spelling": {"decimal": "x"}}, {"format": {"pattern": "x"}}, {"format": []}),
        *({"unit": "day"}, {"unit": 3}, {"type": 3}, {"type": ["a"]}, {"type": "nothing"}),
        *({"pooled": ["u"]}, {"pooled": ["u"], "shares": [0]}, {"pooled": 3}, {"shares": [1.0]}),
        *({"missing_as_data": 1}, {"missing_as_data": "yes"}, {"color": "red"}),
    ],
)
def test_hostile_json(change):
    entries = Schema((Column("a", "categorical", ("x", "y", "z")), Column("b", "continuous"))).to_dict()
    assert len(Schema.from_dict(entries).columns) == 2
    entries["columns"][0] |= change
    with pytest.raises(ValueError, match="expected"):
        Schema.from_dict(entries)
