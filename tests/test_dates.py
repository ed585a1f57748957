from datetime import date, datetime, timedelta
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pytest

from hyperspn.data import read_table, recognize, write_table
from hyperspn.data.dates import DateFormat, find_formats, unit_of

START = datetime(1969, 12, 30, 1, 2, 3)
TIMES = [START + timedelta(days=37 * i, hours=5 * i, minutes=13 * i, seconds=7 * i) for i in range(200)]


@pytest.mark.parametrize(
    "pattern",
    [
        *("%Y-%m-%d", "%Y/%m/%d", "%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%m-%d-%Y", "%d %b %Y", "%d-%b-%Y", "%b %d, %Y"),
        *(
            "%B %d, %Y",
            "%Y-%m-%d %H:%M",
            "%Y-%m-%d %H:%M:%S",
            "%Y-%m-%dT%H:%M:%S",
            "%m/%d/%Y %I:%M %p",
            "%H:%M",
            "%H:%M:%S",
            "%m/%d/%y",
            "%d.%m.%y %H:%M",
            "%d-%b-%y",
        ),
    ],
)
def test_formats(pattern):
    """Python's own dates are the reference."""
    texts = sorted({time.strftime(pattern) for time in TIMES})
    (found,) = find_formats(pa.array(texts))
    assert found == DateFormat(pattern)
    read = [datetime.strptime(text, pattern) for text in texts]
    origin = datetime(1970, 1, 1) if "%d" in pattern else datetime(1900, 1, 1)
    seconds = found.parse(pa.array(texts))
    assert seconds.to_pylist() == [(time - origin).total_seconds() for time in read]
    assert found.write(seconds).to_pylist() == texts


def test_days_and_months_with_one_digit():
    texts = ["1/13/2020", "12/1/2020", "2/9/2021"]
    (found,) = find_formats(pa.array(texts))
    assert found == DateFormat("%m/%d/%Y", padded=False)
    assert found.write(found.parse(pa.array(texts))).to_pylist() == texts
    texts = ["1/13/05 9:05", "12/1/19 11:00"]
    (found,) = find_formats(pa.array(texts))
    assert found == DateFormat("%m/%d/%y %H:%M", padded=False)
    assert found.write(found.parse(pa.array(texts))).to_pylist() == texts
    texts = ["1/13/2020 3:05 PM", "12/1/2020 11:00 AM"]
    (found,) = find_formats(pa.array(texts))
    assert found == DateFormat("%m/%d/%Y %I:%M %p", padded=False)
    assert found.write(found.parse(pa.array(texts))).to_pylist() == texts


@pytest.mark.parametrize(
    ("texts", "digits", "zone", "seconds"),
    [
        (["2020-01-01T00:00:00Z", "2020-01-01T00:00:01Z"], 0, "Z", [0, 1]),
        (["2020-01-01 00:00:00+01:00", "2020-01-01 00:00:01+01:00"], 0, "+01:00", [0, 1]),
        (["2020-01-01 00:00:00.25", "2019-12-31 23:59:59.75"], 2, "", [0.25, -0.25]),
        (["2020-01-01T00:00:00.000001Z", "2020-01-01T00:00:02.500000Z"], 6, "Z", [0.000001, 2.5]),
    ],
)
def test_fractions_of_seconds_and_zones(texts, digits, zone, seconds):
    (found,) = find_formats(pa.array(texts))
    assert (found.digits, found.zone) == (digits, zone)
    start = datetime(2020, 1, 1).timestamp() - datetime(1970, 1, 1).timestamp()
    np.testing.assert_allclose(found.parse(pa.array(texts)), np.array(seconds) + start, atol=1e-6)
    assert found.write(found.parse(pa.array(texts))).to_pylist() == texts


@pytest.mark.parametrize(
    "texts",
    [
        *(["red"], ["3"], ["1.5"], ["12-34"], ["2020-02-30"], ["2020-13-01"], ["2020-01-01", "soon"], ["1.2.3"]),
        *(["2020-01-01", "1/2/2020"], ["24:00"], ["2020-1-05"], ["5:30:15.5x"], ["192.168.1.1"]),
    ],
)
def test_what_is_no_date(texts):
    assert find_formats(pa.array(texts)) == []


def test_days_and_months_that_look_alike():
    found = find_formats(pa.array(["03/04/2020", "12/11/2020"]))
    assert [each.pattern for each in found] == ["%d/%m/%Y", "%m/%d/%Y"]
    table = pa.table({"when": ["03/04/2020", "12/11/2020", "03/04/2020"]})
    notes = []
    column = recognize(table, notes=notes).columns[0]
    assert (column.kind, column.categories) == ("categorical", ("03/04/2020", "12/11/2020"))
    assert notes == ["the day and the month of dates in column 'when' cannot be told apart: they stay text"]
    for kind, day in (("%d/%m/%Y", date(2020, 4, 3)), ("%m/%d/%Y", date(2020, 3, 4))):
        column = recognize(table, kinds={"when": kind}).columns[0]
        assert (column.kind, column.unit) == ("date", "day")
        assert column.encode(table["when"])[0] == (day - date(1970, 1, 1)).days
        assert column.decode(column.encode(table["when"])).to_pylist() == table["when"].to_pylist()
    with pytest.raises(ValueError, match=r"cannot be told apart: say which comes first, like %d/%m/%Y"):
        recognize(table, kinds={"when": "date"})
    with pytest.raises(ValueError, match=r"expected dates %Y-%m-%d in column 'when', found '03/04/2020'"):
        recognize(table, kinds={"when": "%Y-%m-%d"})


@pytest.mark.parametrize(
    ("seconds", "unit"),
    [([0, 86400], "day"), ([3600, 86400], "hour"), ([60, 3600], "minute"), ([1, 60], "second"), ([0.5], "second")],
)
def test_units(seconds, unit):
    assert unit_of(np.array(seconds, float)) == unit


@pytest.mark.parametrize(
    ("kind", "values", "unit"),
    [
        ("date32", [date(2020, 1, 1), date(2020, 3, 1), None, date(1960, 1, 1)], "day"),
        (pa.timestamp("ns"), [datetime(2020, 1, 1, 5), None, datetime(1950, 1, 1, 6)], "hour"),
        (pa.timestamp("s", "UTC"), [datetime(2020, 1, 1, 5, 1), None, datetime(2020, 1, 1, 6)], "minute"),
        (pa.timestamp("us", "Europe/Paris"), [datetime(2020, 1, 1, 5, 1, 7, 250000), datetime(2020, 1, 2)], "second"),
        (pa.time32("s"), [datetime(2020, 1, 1, 5, 1).time(), None, datetime(2020, 1, 1, 6).time()], "minute"),
        (pa.time64("us"), [datetime(2020, 1, 1, 5, 1, 2).time(), None, datetime(2020, 1, 1, 6).time()], "second"),
        (pa.duration("ms"), [timedelta(hours=3), timedelta(days=-2), None], "hour"),
    ],
)
def test_dates_and_times_of_arrow_there_and_back(kind, values, unit, tmp_path):
    table = pa.table({"when": pa.array(values, kind), "color": ["red", "blue", "red", "blue"][: len(values)]})
    schema = recognize(table)
    column = schema.columns[0]
    assert (column.kind, column.unit) == ("date", unit)
    again = schema.decode(schema.encode(table))
    assert again["when"].type == table["when"].type
    assert again["when"].to_pylist() == table["when"].to_pylist()
    write_table(table, tmp_path / "a.csv")
    np.testing.assert_array_equal(schema.encode(read_table(tmp_path / "a.csv")), schema.encode(table))


def test_times_of_day_stay_within_the_day():
    table = pa.table({"at": [f"{hour:02}:{minute:02}" for hour in range(24) for minute in range(0, 60, 7)]})
    column = recognize(table).columns[0]
    assert (column.kind, column.unit, column.scale.lower, column.scale.upper) == ("date", "minute", 0, 1439)
    assert column.decode(np.array([0.0, 61, 1439, 1500])).to_pylist() == ["00:00", "01:01", "23:59", "23:59"]


def test_dates_that_do_not_fit():
    column = recognize(pa.table({"a": ["2020-01-01", "2020-01-02"]})).columns[0]
    notes = []
    found = column.encode(pa.chunked_array([["2020-01-03", "2020-02-30", "03.01.2020", None]]), notes=notes)
    np.testing.assert_array_equal(found, [18264, np.nan, np.nan, np.nan])
    assert notes == ["column 'a': unknown values in 2 cells, like '2020-02-30' in row 2, count as missing"]
    assert column.encode(pa.chunked_array([[date(2020, 1, 3)]]))[0] == 18264


@pytest.mark.parametrize("change", [{"pattern": "%y"}, {"pattern": 3}, {"padded": 1}, {"digits": 9}, {"zone": 1}])
def test_bad_formats(change):
    with pytest.raises(ValueError, match="expected a format of dates"):
        DateFormat(**{"pattern": "%Y-%m-%d"} | change)


@pytest.mark.parametrize("value", ["2020-07-01", "2020-07-01 00:00", datetime(2020, 7, 1), date(2020, 7, 1)])
def test_dates_without_a_zone_are_in_that_of_their_column(value):
    zone = ZoneInfo("Europe/Berlin")
    times = pa.array([datetime(2020, 1, 1, i % 24, tzinfo=zone) + timedelta(days=i) for i in range(300)])
    (column,) = recognize(pa.table({"time": times.cast(pa.timestamp("us", "Europe/Berlin"))})).columns
    same = datetime(2020, 7, 1, tzinfo=zone)
    expected = column.encode(pa.chunked_array([pa.array([same])]))
    np.testing.assert_array_equal(column.encode(pa.chunked_array([pa.array([value])])), expected)


def test_zones_and_fractions_of_text_for_columns_of_arrow():
    times = pa.array([datetime(2024, 6, 19, 1, 48), datetime(2024, 1, 19, 1, 48)], pa.timestamp("us", "Europe/Berlin"))
    column = recognize(pa.table({"a": times})).columns[0]
    text = [
        "2024-06-19 03:48",
        "2024-06-19 03:48:00.5+0200",
        "2024-06-19T01:48:00Z",
        "2024-06-18 20:48:00-05:00",
        "soon",
    ]
    seconds = column.encode(pa.chunked_array([text])) * 60
    np.testing.assert_allclose(seconds - seconds[0], [0, 0.5, 0, 0, np.nan], atol=1e-4)
    plain = recognize(pa.table({"a": times.cast(pa.timestamp("us"))})).columns[0]
    assert np.isnan(plain.encode(pa.chunked_array([["2024-06-19T01:48:00Z"]]))).all()


def test_durations_as_text():
    column = recognize(
        pa.table({"a": pa.array([timedelta(minutes=90), timedelta(days=-2)], pa.duration("s"))})
    ).columns[0]
    text = ["1:30:00", "-2 days, 0:00:00", "1 days 02:30:00", "90"]
    np.testing.assert_array_equal(column.encode(pa.chunked_array([text])), [90, -2880, 1590, np.nan])
