"""Events: text, Python, and what a circuit sees of them."""

from math import inf

import numpy as np
import pyarrow as pa
import pytest

from hyperspn.data import recognize
from hyperspn.data.events import (
    Above,
    AnyOf,
    AtLeast,
    AtMost,
    Below,
    Known,
    Likely,
    Missing,
    Not,
    as_known,
    intersect,
)
from hyperspn.data.parsing import parse_evidence

NAMES = ("age", "hours per week", "city", "a=b", "color")


@pytest.mark.parametrize(
    ("text", "events"),
    [
        ("", {}),
        ("age=30", {"age": "30"}),
        ("age=30..40, hours per week>50", {"age": ("30", "40"), "hours per week": Above("50")}),
        ("age=..20|60..", {"age": AnyOf((None, "20"), ("60", None))}),
        ("age>=3,color<=4", {"age": AtLeast("3"), "color": AtMost("4")}),
        ("age<-3.5", {"age": Below("-3.5")}),
        ("age=-5..-1", {"age": ("-5", "-1")}),
        ("city=Paris|Rome", {"city": AnyOf("Paris", "Rome")}),
        ("city!=Paris|Rome", {"city": Not(AnyOf("Paris", "Rome"))}),
        ("city=missing", {"city": Missing()}),
        ('city="missing"', {"city": "missing"}),
        ('"city=Washington, D.C.",age=3', {"city": "Washington, D.C.", "age": "3"}),
        ('city="Washington, D.C.|x", age=3', {"city": "Washington, D.C.|x", "age": "3"}),
        ('city="say ""hi"""', {"city": 'say "hi"'}),
        ('age="1,5".."2,5", color=3', {"age": ("1,5", "2,5"), "color": "3"}),
        ('"age=1,5..2,5"', {"age": ("1,5", "2,5")}),
        ("a=b=c", {"a=b": "c"}),
        ("color~red:0.7|blue:0.3", {"color": Likely({"red": 0.7, "blue": 0.3})}),
    ],
)
def test_text(text, events):
    assert parse_evidence(text, NAMES) == events


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("agee=3", "found 'agee'; did you mean age"),
        ("age", "expected evidence like"),
        ("age=3,age=4", "expected column 'age' once"),
        ('city="Rome', 'expected a closing "'),
        ("color~red", "expected likelihoods like"),
    ],
)
def test_bad_text(text, message):
    with pytest.raises(ValueError, match=message):
        parse_evidence(text, NAMES)


@pytest.fixture(scope="module")
def columns():
    generator = np.random.default_rng(0)
    rows = 400
    table = pa.table(
        {
            "age": generator.integers(17, 90, rows),
            "price": generator.integers(0, 100_000, rows) / 100,
            "height": generator.normal(size=rows),
            "grade": generator.integers(1, 6, rows),
            "color": generator.choice(["red", "green", "blue"], rows),
        }
    )
    return {column.name: column for column in recognize(table).columns}


@pytest.mark.parametrize(
    ("name", "event", "intervals"),
    [
        ("age", 30, [[29.5, 30.5]]),
        ("age", (30, 40), [[29.5, 40.5]]),
        ("age", (None, 40), [[-inf, 40.5]]),
        ("age", Above(50), [[50.5, inf]]),
        ("age", AtLeast(50), [[49.5, inf]]),
        ("age", Below(50), [[-inf, 49.5]]),
        ("age", AtMost(50), [[-inf, 50.5]]),
        ("age", Above(50.3), [[50.5, inf]]),
        ("age", AtMost("50.3"), [[-inf, 50.5]]),
        ("age", {30, 31, 40}, [[29.5, 31.5], [39.5, 40.5]]),
        ("age", AnyOf((60, None), (None, 20)), [[-inf, 20.5], [59.5, inf]]),
        ("age", Not((30, 40)), [[-inf, 29.5], [40.5, inf]]),
        ("age", Not(Above(20)), [[-inf, 20.5]]),
        ("price", "9.99", [[9.985, 9.995]]),
        ("height", (0.25, None), [[0.25, inf]]),
        ("age", (30, inf), [[29.5, inf]]),
        ("age", ("-inf", "40"), [[-inf, 40.5]]),
    ],
)
def test_numbers(columns, name, event, intervals):
    known = as_known(columns[name], event)
    assert known.is_probability
    np.testing.assert_allclose(known.event, intervals, atol=1e-12)


def test_a_value_of_a_continuous_column_has_a_density(columns):
    assert as_known(columns["height"], 0.25) == Known(value=0.25, is_probability=False)


@pytest.mark.parametrize(
    ("name", "event", "weights"),
    [
        ("color", "red", [0, 0, 1]),
        ("color", {"red", "blue"}, [1, 0, 1]),
        ("color", Not("red"), [1, 1, 0]),
        ("color", Likely({"red": 0.7, "blue": 0.3}), [0.3, 0, 0.7]),
        ("grade", 3, [0, 0, 1, 0, 0]),
        ("grade", (2, 4), [0, 1, 1, 1, 0]),
        ("grade", Above("3"), [0, 0, 0, 1, 1]),
        ("grade", Not({1, 2}), [0, 0, 1, 1, 1]),
    ],
)
def test_categories(columns, name, event, weights):
    known = as_known(columns[name], event)
    assert known.is_probability == (not isinstance(event, Likely))
    assert known.event.tolist() == weights


@pytest.mark.parametrize(
    ("name", "event", "message"),
    [
        ("color", "pink", "expected one of 'blue', 'green', 'red' in column 'color', found 'pink'$"),
        ("color", "Grean", r"'red' in column 'color', found 'Grean'; did you mean green\?$"),
        ("color", Above("red"), "has no order"),
        ("color", Missing(), "not modeled with missing values"),
        ("age", "old", "expected a number"),
        ("age", 30.5, "expected a number like others in column 'age', which are whole, found 30.5: ask for a range"),
        ("price", 9.999, "recorded to 2 decimals"),
        ("age", [], "expected at least one value of column 'age', found none"),
        ("color", set(), "expected at least one value of column 'color', found none"),
        ("age", (40, 30), "expected a range with values"),
        ("age", Likely({30: 1}), "expected categories for likelihoods"),
        ("age", Missing(), "not modeled with missing values"),
        ("color", Likely({"red": -1}), "expected likelihoods >= 0"),
        ("age", (1, 2, 3), "expected an event like"),
    ],
)
def test_bad_events(columns, name, event, message):
    with pytest.raises(ValueError, match=message):
        as_known(columns[name], event)


def test_numbers_can_be_asked_for_without_the_signs_of_their_column():
    table = pa.table(
        {"rate": ["0 %", "5 %", "10 %"] * 40, "price": [f"{i}.{i:03},{i % 100:02}" for i in range(1, 121)]}
    )
    rate, price = recognize(table).columns
    for value in ("10 %", "10", 10):
        assert as_known(rate, value).event.tolist() == [0, 0, 1]
    for low in ("7.007,07", "7007.07", 7007.07):
        assert as_known(price, AtLeast(low)).event.tolist() == as_known(price, AtLeast("7.007,07")).event.tolist()
    thousand = as_known(price, Above("1.234")).event  # as the column writes numbers
    assert thousand.tolist() == as_known(price, Above(1234)).event.tolist()


def test_rare_categories_share_a_code_by_their_frequencies():
    words = [f"w{i}" for i in range(250) for _ in range(10)] + ["rare"] * 3 + ["rarer"]
    column = recognize(pa.table({"word": words, "other": ["a", "b"] * 1252})).columns[0]
    other = len(column.categories)
    assert as_known(column, "rare").event[other] == pytest.approx(0.75)
    assert as_known(column, {"rare", "rarer"}).event[other] == pytest.approx(1)
    assert as_known(column, Not("rarer")).event[other] == pytest.approx(0.75)


def test_intersections(columns):
    def both(name, first, second):
        return intersect(as_known(columns[name], first), as_known(columns[name], second)).event.tolist()

    assert both("age", (30, 40), Above(35)) == [[35.5, 40.5]]
    assert both("age", Not(35), (30, 40)) == [[29.5, 34.5], [35.5, 40.5]]
    assert both("age", 20, 30) == [[0, 0]]
    assert both("color", {"red", "blue"}, Not("red")) == [1, 0, 0]
