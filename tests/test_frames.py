from datetime import date, datetime

import numpy as np
import pandas
import polars
import polars.testing
import pyarrow as pa
import pytest

from hyperspn.data import like, recognize, table_of


def pandas_frame(index=None):
    return pandas.DataFrame(
        {
            "category": pandas.Categorical(["b", "a", None, "b"], categories=["c", "b", "a"], ordered=True),
            "boolean": pandas.array([True, None, False, True], "boolean"),
            "flag": [True, False, True, True],
            "whole": pandas.array([1, None, 3, 4], "Int64"),
            "small": np.array([1, 2, 3, 4], np.int8),
            "string": pandas.array(["x", None, "y", "x"], "string"),
            "object": np.array(["x", None, "y", "x"], object),
            "real": [0.5, np.nan, 1.5, 2.5],
            "single": np.array([0.5, np.nan, 1.5, 2.5], np.float32),
            "when": pandas.to_datetime(["2020-01-01", None, "2020-01-02", "2021-01-01"]) + pandas.Timedelta("5h"),
            "zoned": pandas.to_datetime(["2020-01-01", None, "2020-01-02", "2021-01-01"]).tz_localize("Europe/Paris"),
            "lasting": pandas.to_timedelta([1, None, 2, 3], unit="h"),
        },
        index=index,
    )


def polars_frame():
    return polars.DataFrame(
        {
            "category": polars.Series(["b", "a", None, "b"], dtype=polars.Categorical),
            "enum": polars.Series(["b", "a", None, "b"], dtype=polars.Enum(["c", "b", "a"])),
            "flag": [True, None, True, False],
            "small": polars.Series([1, None, 3, 4], dtype=polars.Int8),
            "string": ["x", None, "y", "x"],
            "real": polars.Series([0.5, None, 1.5, 2.5], dtype=polars.Float32),
            "day": [date(2020, 1, 1), None, date(2020, 1, 2), date(2021, 1, 1)],
            "when": polars.Series(
                [datetime(2020, 1, 1), None, datetime(2020, 1, 2), datetime(2021, 1, 1)], dtype=polars.Datetime("ms")
            ),
            "zoned": polars.Series(
                [datetime(2020, 1, 1), None, datetime(2020, 1, 2), datetime(2021, 1, 1)],
                dtype=polars.Datetime("us", "UTC"),
            ),
        }
    )


def test_frames_of_pandas_there_and_back():
    frame = pandas_frame(index=[3, 5, 8, 13])
    table = table_of(frame)
    assert table.column_names == list(frame.columns)
    assert table["category"].to_pylist() == ["b", "a", None, "b"]
    assert table["real"].null_count == 1
    pandas.testing.assert_frame_equal(like(frame, table), frame)
    schema = recognize(table)
    again = like(frame, schema.decode(schema.encode(table)))
    pandas.testing.assert_frame_equal(again, frame)
    kinds = {column.name: column.kind for column in schema.columns}
    assert [kinds[name] for name in ("when", "zoned", "lasting")] == ["date"] * 3


def test_frames_of_polars_there_and_back():
    frame = polars_frame()
    table = table_of(frame)
    polars.testing.assert_frame_equal(like(frame, table), frame)
    schema = recognize(table)
    polars.testing.assert_frame_equal(like(frame, schema.decode(schema.encode(table))), frame)


def test_tables_of_pyarrow_there_and_back():
    table = pa.table({"a": pa.array(["x", None, "y"]).dictionary_encode(), "b": pa.array([1, 2, 3], "int8")})
    plain = table_of(table)
    assert plain.schema.types == [pa.string(), pa.int8()]
    assert like(table, plain) == table
    assert like(table, pa.table({"a": ["x"], "b": [2.5]}))["b"].to_pylist() == [2.5]


def test_other_rows_have_no_index_and_others_columns_no_type():
    frame = pandas_frame(index=[3, 5, 8, 13])
    found = like(frame, pa.table({"small": [1, 2], ".imputation": [1, 1]}))
    assert found.index.tolist() == [0, 1]
    assert found.dtypes.astype(str).tolist() == ["int8", "int64"]


def test_types_that_cannot_hold_the_values():
    found = like(pandas.DataFrame({"a": [1, 2]}), pa.table({"a": pa.array([1, None])}))
    assert found["a"].isna().tolist() == [False, True]
    found = like(polars.DataFrame({"a": [1, 2]}), pa.table({"a": ["x", "y"]}))
    assert found["a"].to_list() == ["x", "y"]


def test_objects_of_several_types():
    table = table_of(pandas.DataFrame({"a": [1, "x", None], "b": [1, 2.5, None]}, dtype=object))
    assert table.to_pydict() == {"a": ["1", "x", None], "b": [1, 2.5, None]}


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (pandas.DataFrame({"a": [[1], [2]]}), "dates or times in column 'a', found list"),
        (polars.DataFrame({"a": [{"b": 1}]}), "dates or times in column 'a', found struct"),
        (pandas.DataFrame({3: [1, 2]}), "expected a name for each column, found 3"),
        (pa.table([[1], [2]], ["a", "a"]), "found 'a' more than once"),
    ],
)
def test_frames_that_are_no_tables(frame, message):
    with pytest.raises(ValueError, match=message):
        table_of(frame)


def test_names_of_an_array():
    assert table_of(np.zeros((1, 2)), ["a", "b"]).column_names == ["a", "b"]
    assert table_of(np.zeros((1, 2)), np.array(["a", "b"], object)).column_names == ["a", "b"]
    with pytest.raises(ValueError, match="expected 2 names of columns, found 1"):
        table_of(np.zeros((1, 2)), ["a"])


def test_array_of_strings():
    x = np.array([["red", "1.5"], [" ", "nan"], ["blue ", "2"]])
    assert table_of(x).to_pydict() == {"column 0": ["red", None, "blue"], "column 1": ["1.5", None, "2"]}


def test_array_of_objects():
    x = np.array([["red", 2, True], [None, None, np.nan], ["3", np.float32("nan"), False], [4, 0.5, True]], object)
    assert table_of(x).to_pydict() == {
        "column 0": ["red", None, "3", "4"],
        "column 1": [2, None, None, 0.5],
        "column 2": [1, None, 0, 1],
    }
    with pytest.raises(TypeError, match=r"column 'a': .* must be a string or a real number, not 'dict'"):
        table_of(np.array([[1], [{}]], object), ["a"])


def test_missing_values_of_pandas():
    x = np.array([["red"], [pandas.NA], [pandas.NaT]], object)
    assert table_of(x)["column 0"].to_pylist() == ["red", None, None]
