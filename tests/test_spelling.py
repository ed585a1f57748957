import numpy as np
import pyarrow as pa
import pytest

from hyperspn.data import recognize
from hyperspn.data.spelling import Spelling, find_spelling


@pytest.mark.parametrize(
    ("texts", "numbers", "spelling"),
    [
        (["1", "-2", "+3", "0"], [1, -2, 3, 0], Spelling()),
        (["1.5", ".5", "2.", "-1e3"], [1.5, 0.5, 2, -1000], Spelling()),
        (["0e+00", "1E-2"], [0, 0.01], Spelling()),
        (["1,234", "12", "1,000,000.5"], [1234, 12, 1000000.5], Spelling(".", ",")),
        (["1,234", "5,678"], [1234, 5678], Spelling(".", ",", places=0)),
        (["1,5", "1,234", "7"], [1.5, 1.234, 7], Spelling(",")),
        (["1,50", "-2,25"], [1.5, -2.25], Spelling(",", places=2)),
        (["1.234,5", "7,25"], [1234.5, 7.25], Spelling(",", ".")),
        (["1.234.567", "12"], [1234567, 12], Spelling(",", ".", places=0)),
        (["1 234,5", "7"], [1234.5, 7], Spelling(",", " ")),
        (["1'234.50", "7.00"], [1234.5, 7], Spelling(".", "'", places=2)),
        (["45%", "7%"], [45, 7], Spelling(suffix="%", places=0)),
        (["45,5 %", "7,0 %"], [45.5, 7], Spelling(",", suffix=" %", places=1)),
        (["1.72 m", "2.06 m"], [1.72, 2.06], Spelling(suffix=" m", places=2)),
        (["1 234 kWh", "7 kWh"], [1234, 7], Spelling(".", " ", suffix=" kWh", places=0)),
        (["-4,5 °C", "12,0 °C"], [-4.5, 12], Spelling(",", suffix=" °C", places=1)),
        (["$1,234.50", "$7.25"], [1234.5, 7.25], Spelling(".", ",", "$", places=2)),
        (["$1,234.50", "-$7.25"], [1234.5, -7.25], Spelling(".", ",", "$", places=2, sign_first=True)),
        (["-€7", "€1"], [-7, 1], Spelling(prefix="€", places=0, sign_first=True)),
        (["$-7", "$1"], [-7, 1], Spelling(prefix="$", places=0)),
        (["8GB", "16GB"], [8, 16], Spelling(suffix="GB", places=0)),
    ],
)
def test_spellings_there_and_back(texts, numbers, spelling):
    found, parsed = find_spelling(pa.chunked_array([texts]))
    assert found == spelling
    np.testing.assert_array_equal(parsed, numbers)
    if not found.is_plain:
        decimals = max((len(repr(float(x)).split(".")[1].rstrip("0")) for x in numbers), default=0)
        again = found.write(np.array(numbers, float), decimals).to_pylist()
        np.testing.assert_array_equal(found.parse(pa.chunked_array([again])), numbers)
        if found.places is not None:
            assert again == texts


@pytest.mark.parametrize(
    "texts",
    [
        *(["red"], ["007", "010"], ["1_0"], ["1,2,3"], ["12,34,567"], ["1.5.2"], ["0x1f"], ["1", "two"], ["-"], ["%"]),
        *(
            ["5%", "5"],
            ["$5", "€5"],
            ["$-5", "-$5"],
            ["8GB", "1TB"],
            ["5 m", "5 km"],
            ["12a", "13a"],
            ["1 Main Street", "2 Main Street"],
            ["1 2"],
            [""],
            ["--5"],
            ["1e"],
            ["nan"],
            ["٣"],
        ),
    ],
)
def test_what_is_no_number(texts):
    assert find_spelling(pa.chunked_array([texts])) is None


def test_numbers_are_written_back_as_read():
    table = pa.table(
        {
            "share": [f"{i / 2:.1f}%" for i in range(100)],
            "income": [f"{1000 * i + 7:,}" for i in range(100)],
            "price": [f"{i},{i:02}" for i in range(100)],
            "rate": [f"{10 * (i % 3)} %" for i in range(100)],
        }
    )
    notes = []
    schema = recognize(table, notes=notes)
    assert [column.kind for column in schema.columns] == ["numeric", "numeric", "numeric", "categorical"]
    x = schema.encode(table)
    assert x[3].tolist() == [1.5, 3007, 3.03, 0]
    assert schema.decode(x).to_pydict() == table.to_pydict()
    assert notes[:2] == ["column 'share': '0.0%' is read as 0", "column 'income': '1,007' is read as 1007"]
    other = pa.table({"share": [1.5], "income": [3007], "price": [3.03], "rate": [10]})
    np.testing.assert_array_equal(schema.encode(other), [[1.5, 3007, 3.03, 1]])


@pytest.mark.parametrize(
    "change", [{"decimal": ";"}, {"thousands": "x"}, {"prefix": "x"}, {"suffix": 3}, {"places": -1}]
)
def test_bad_spellings(change):
    with pytest.raises(ValueError, match="expected a way to write numbers"):
        Spelling(**change)
