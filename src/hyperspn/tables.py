"""Tables: users' files -> named columns -> arrays for a circuit, and back."""

from __future__ import annotations

import csv
import io
import os
import re
import sys

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib import import_module
from math import isfinite, isnan, log, nan
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from numpy.typing import NDArray

from . import datasets
from .datasets import did_you_mean
from .leaves import Categorical, Gaussian, LeafFamily

MISSING = ("", "NA", "NaN", "nan", "null", "?")
MAX_LEVELS = 20
MAX_DECIMALS = 8
NUMBER = re.compile(r"[+-]?(?!0\d)(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)  # 007 is a string


@dataclass(frozen=True, eq=False)
class Table:
    """Named columns of equal length.

    Arguments:
        names: The names of the columns, all different.
        columns: The values, each (rows,): numbers with NaN where missing, or objects (strings or numbers) with None.
    """

    names: tuple[str, ...]
    columns: tuple[np.ndarray, ...]

    def __post_init__(self) -> None:
        _check_names(self.names)
        shapes = [column.shape for column in self.columns]
        if len(shapes) != len(self.names) or len(set(shapes)) != 1 or len(shapes[0]) != 1:
            raise ValueError(f"expected {len(self.names)} columns of equal length, found shapes {shapes}")
        for name, column in zip(self.names, self.columns, strict=True):
            if column.dtype.kind == "f" and np.isinf(column).any():
                row = np.isinf(column).argmax() + 1
                raise ValueError(f"expected finite numbers in column {name!r}, found an infinite one in row {row}")

    def __len__(self) -> int:
        return len(self.columns[0])

    def take(self, rows: NDArray[np.integer]) -> Table:
        """The table of the given rows, numbered from 0."""
        return Table(self.names, tuple(column[rows] for column in self.columns))

    def drop(self, names: Iterable[str]) -> Table:
        """The table without the given columns."""
        dropped = set(names)
        for name in dropped:
            _check_known(name, self.names)
        kept = [i for i, name in enumerate(self.names) if name not in dropped]
        return Table(tuple(self.names[i] for i in kept), tuple(self.columns[i] for i in kept))

    def to_csv(self, delimiter: str = ",") -> str:
        """The text of a CSV file with a header; missing values are empty cells."""
        text = io.StringIO()
        rows = [self.names, *zip(*map(_objects, self.columns), strict=True)]
        returns = any(isinstance(cell, str) and "\r" in cell for row in rows for cell in row)
        options: dict[str, Any] = {"quoting": csv.QUOTE_ALL} if returns else {}
        csv.writer(text, delimiter=delimiter, lineterminator="\n", **options).writerows(rows)
        return text.getvalue()


@dataclass(frozen=True)
class Column:
    """What the values of a column are, and how a circuit sees them.

    Arguments:
        name: The name of the column.
        kind: "binary" or "categorical", seen as codes 0..c-1, or "continuous", seen as (x - mean) / std.
        categories: The values in the order of their codes, strings or numbers; none if continuous.
        mean: The mean of the training rows, if continuous.
        std: Their standard deviation, if continuous.
        decimals: How many decimals the numbers have, if continuous and not too many; 0 for whole numbers.
    """

    name: str
    kind: str
    categories: tuple[str | int | float, ...] = ()
    mean: float = 0.0
    std: float = 1.0
    decimals: int | None = None

    def __post_init__(self) -> None:
        count = len(self.categories)
        fits = {"binary": count == 2, "categorical": count > 0, "continuous": count == 0}
        if not fits.get(self.kind, False):
            raise ValueError(
                f"expected column {self.name!r} to be binary with 2 categories, categorical with some or continuous "
                f"with none, found {self.kind} with {count}"
            )
        alike = all(isinstance(value, str) for value in self.categories) or all(map(_is_finite, self.categories))
        if not alike or list(self.categories) != sorted(set(self.categories)):
            raise ValueError(f"expected strings or numbers in ascending order, found {self.categories}")
        if not (_is_finite(self.mean) and _is_finite(self.std) and self.std > 0):
            raise ValueError(f"expected finite mean and std > 0 of column {self.name!r}, found {self.mean}, {self.std}")
        if self.decimals is not None and (type(self.decimals) is not int or not 0 <= self.decimals <= MAX_DECIMALS):
            raise ValueError(f"expected decimals 0..{MAX_DECIMALS} of column {self.name!r}, found {self.decimals}")

    @property
    def is_continuous(self) -> bool:
        return self.kind == "continuous"

    def support(self) -> str:
        """The possible values in words, for error messages."""
        if self.is_continuous:
            return "a number"
        listed = ", ".join(map(repr, self.categories[:MAX_LEVELS]))
        return f"one of {listed}{', ...' if len(self.categories) > MAX_LEVELS else ''}"

    def encode(self, values: np.ndarray) -> NDArray[np.float64]:
        """Codes or standardised numbers, (rows,); NaN for what is missing or not in the support."""
        if self.is_continuous:
            return (_numbers(values) - self.mean) / self.std
        if isinstance(self.categories[0], str):
            codes = {category: float(code) for code, category in enumerate(self.categories)}
            return np.array([nan if value is None else codes.get(str(value), nan) for value in values])
        numbers, categories = _numbers(values), np.array(self.categories, np.float64)
        places = np.searchsorted(categories, numbers).clip(max=len(categories) - 1)
        return np.where(categories[places] == numbers, places, nan)

    def decode(self, codes: NDArray[np.floating]) -> np.ndarray:
        """The values that codes or standardised numbers stand for, (rows,), as objects."""
        values, holes = np.full(len(codes), None, object), np.isnan(codes)
        known = codes[~holes].astype(np.float64)
        fits = np.isfinite(known) if self.is_continuous else np.isin(known, np.arange(len(self.categories)))
        if not fits.all():
            expected = "a finite number" if self.is_continuous else f"a code 0..{len(self.categories) - 1}"
            raise ValueError(f"expected {expected} in column {self.name!r}, found {known[~fits][0]:g}")
        if not self.is_continuous:
            values[~holes] = np.array(self.categories, object)[known.astype(int)]
            return values
        numbers = known * self.std + self.mean
        numbers = numbers if self.decimals is None else numbers.round(self.decimals)
        values[~holes] = [int(number) for number in numbers] if self.decimals == 0 else numbers
        return values


@dataclass(frozen=True)
class Schema:
    """The columns of a table: how it becomes an array for a circuit, and how arrays become tables again.

    Arguments:
        columns: The columns, in the order of the circuit's variables.

    Example:
        >>> table = Table(("colour", "size"), (np.array(["red", "blue", None], object), np.array([1.5, 2.5, 3.5])))
        >>> schema = recognise(table)
        >>> [column.kind for column in schema.columns]
        ['binary', 'continuous']
        >>> schema.encode(table)[:, 0]
        array([ 1.,  0., nan])
        >>> schema.evidence("colour=red")
        array([[ 1., nan]])
    """

    columns: tuple[Column, ...]

    def __post_init__(self) -> None:
        _check_names(self.names)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)

    def index(self, name: str) -> int:
        """The number of a column."""
        _check_known(name, self.names)
        return self.names.index(name)

    def encode(self, table: Table) -> NDArray[np.float64]:
        """The table as codes and standardised numbers, (rows, variables), NaN where missing.

        Columns are found by their names; others are ignored. Error messages count rows from 1.
        """
        x = np.empty((len(table), len(self.columns)))
        found = dict(zip(table.names, table.columns, strict=True))
        for variable, column in enumerate(self.columns):
            if column.name not in found:
                hint = did_you_mean(column.name, table.names)
                raise ValueError(f"expected a column named {column.name!r}, found none{hint}")
            values = found[column.name]
            x[:, variable] = column.encode(values)
            misfits = np.isnan(x[:, variable]) & ~_missing(values)
            if misfits.any():
                row = int(misfits.argmax())
                value = values[row : row + 1].tolist()[0]
                raise ValueError(
                    f"expected {column.support()} in column {column.name!r}, found {value!r} in row {row + 1}"
                )
        return x

    def decode(self, x: NDArray[np.floating]) -> Table:
        """The table of codes and standardised numbers, (rows, variables), NaN where missing."""
        if x.ndim != 2 or x.shape[1] != len(self.columns):
            raise ValueError(f"expected x of shape (rows, {len(self.columns)}), found {x.shape}")
        return Table(self.names, tuple(column.decode(codes) for column, codes in zip(self.columns, x.T, strict=True)))

    def numbers(self, x: NDArray[np.floating]) -> NDArray[np.float64]:
        """The values of codes and standardised numbers where all columns have numbers, (rows, variables)."""
        try:
            return np.stack([column.astype(np.float64) for column in self.decode(x).columns], 1)
        except ValueError as error:
            raise ValueError(f"expected columns of numbers, found others ({error})") from error

    def fill(self, table: Table, x: NDArray[np.floating]) -> Table:
        """The table with its missing values taken from an array, (rows, variables), and all else as it was."""
        decoded = self.decode(x)
        new = dict(zip(decoded.names, decoded.columns, strict=True))
        columns = [
            np.where(_missing(old), new[name], _objects(old)) if name in new else old
            for name, old in zip(table.names, table.columns, strict=True)
        ]
        return Table(table.names, tuple(columns))

    def evidence(self, text: str) -> NDArray[np.float64]:
        """One row, (1, variables), from text like ``colour=red,size=3``; NaN elsewhere.

        A part with a comma in it is quoted as in CSV files: ``"city=Washington, D.C.",size=3``.
        """
        x = np.full((1, len(self.columns)), nan)
        try:
            parts = next(csv.reader([text], skipinitialspace=True, strict=True), [])
        except csv.Error as error:
            raise ValueError(f"expected evidence like colour=red,size=3, found {text!r} ({error})") from error
        for part in parts:
            cuts = [(part[:i].strip(), part[i + 1 :].strip()) for i, mark in enumerate(part) if mark == "="]
            if not cuts:
                raise ValueError(f"expected evidence like colour=red,size=3, found {part!r}")
            name, value = next((cut for cut in cuts if cut[0] in self.names), cuts[0])
            variable = self.index(name)
            column = self.columns[variable]
            if not np.isnan(x[0, variable]):
                raise ValueError(f"expected one value of column {name!r}, found two")
            x[0, variable] = column.encode(np.array([value], object))[0]
            if np.isnan(x[0, variable]):
                raise ValueError(f"expected {column.support()} for column {name!r}, found {value!r}")
        return x

    def families(self, members: int = 5) -> list[LeafFamily]:
        """The leaf family of each variable, with `members` distributions for a continuous one."""
        gaussian = Gaussian(members, min_variance=1e-4)
        return [gaussian if column.is_continuous else Categorical(len(column.categories)) for column in self.columns]

    def log_scale(self, x: NDArray[np.floating]) -> NDArray[np.float64]:
        """What to subtract from the log-densities of an array to have those of the table, (rows,).

        log p(table) = log p(x) - sum log std   over the continuous values that are known
        """
        return ~np.isnan(x) @ np.array([log(column.std) for column in self.columns])

    def to_dict(self) -> dict[str, Any]:
        """The schema as lists, strings and numbers, for JSON."""
        return {"columns": [{**asdict(column), "categories": list(column.categories)} for column in self.columns]}

    @classmethod
    def from_dict(cls, entries: Any) -> Schema:
        """The schema that `to_dict` wrote; anything else is a `ValueError`."""
        try:
            return cls(
                tuple(Column(**{**entry, "categories": tuple(entry["categories"])}) for entry in entries["columns"])
            )
        except (KeyError, TypeError) as error:
            raise ValueError(f"expected a description of columns, found a fault in it: {error}") from error


def read_table(path: str | os.PathLike[str]) -> Table:
    """Reads a .csv or .tsv file with a header, a .parquet file, or a .npy file of numbers or strings.

    Empty cells, NA, NaN, nan, null and ? are missing.
    """
    path = Path(path)
    reader = READERS.get(path.suffix.lower())
    if reader is None:
        raise ValueError(f"expected a table {', '.join(READERS)}, found {path}")
    if not path.is_file():
        raise FileNotFoundError(f"expected a table, found no file at {path}")
    try:
        table = reader(path)
        if len(table) == 0:
            raise ValueError("expected at least one row, found none")
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
    return table


def write_table(table: Table, path: str | os.PathLike[str]) -> None:
    """Writes a .csv or .tsv file with a header; missing values are empty cells."""
    path = Path(path)
    if path.suffix.lower() not in DELIMITERS:
        raise ValueError(f"expected a file {' or '.join(DELIMITERS)} to write, found {path}")
    path.write_text(table.to_csv(DELIMITERS[path.suffix.lower()]), encoding="utf-8", newline="")


def table_of(x: np.ndarray, names: Sequence[str] | None = None) -> Table:
    """The table of an array, (rows, columns); by default its columns are named "column 0" and so on.

    NaN is missing, so are None and the NA of pandas among objects, and among strings what is missing in a CSV file.
    Objects without a string among them are numbers.
    """
    if x.ndim != 2 or x.dtype.kind not in "biufUO":
        raise ValueError(
            f"expected an array of numbers or strings, (rows, columns), found {x.dtype} of shape {x.shape}"
        )
    names = [f"column {i}" for i in range(x.shape[1])] if names is None else names
    if len(names) != x.shape[1]:
        raise ValueError(f"expected {x.shape[1]} names of columns, found {len(names)}")
    return Table(tuple(names), tuple(_column(*named) for named in zip(names, x.T, strict=True)))


def recognise(
    table: Table,
    train: NDArray[np.integer] | None = None,
    categories: Mapping[str, Sequence[str | float]] | None = None,
    numeric_strings: bool = True,
) -> Schema:
    """Finds out what each column is.

    Numbers with decimals, or with more than 20 different values, are continuous; two values are binary; all else is
    categorical. Categories are those of the whole table, so that each part of it can be encoded.

    Arguments:
        table: The table.
        train: The training rows, whose mean and standard deviation count; all rows by default.
        categories: For some columns the categories, in place of those found; none of them if it is continuous.
        numeric_strings: Whether strings that look like numbers are numbers, as in a CSV file, or categories.
    """
    rows = np.arange(len(table)) if train is None else train
    given = categories or {}
    for name in given:
        _check_known(name, table.names)
    columns = []
    for name, values in zip(table.names, table.columns, strict=True):
        if name not in given:
            columns.append(_recognise(name, values, rows, numeric_strings))
        elif len(given[name]):
            columns.append(_categorical(name, given[name]))
        else:
            columns.append(_continuous(name, values, rows))
    return Schema(tuple(columns))


class Splits(NamedTuple):
    """A data set as a circuit sees it: three arrays, each (rows, variables), and what their columns mean."""

    schema: Schema
    train: np.ndarray
    valid: np.ndarray
    test: np.ndarray


def load(source: str, seed: int = 0, drop: Sequence[str] = (), data_dir: str | None = None) -> Splits:
    """Reads a table of the user's own, and splits it by the seed; or a data set by its name or folder.

    Arguments:
        source: A file .csv, .tsv, .parquet or .npy, or whatever `datasets.load` takes.
        seed: Determines the split of a table, or the data of a built-in set.
        drop: Columns of a table to leave out.
        data_dir: Where to look for data sets.
    """
    if Path(source).suffix.lower() in READERS:
        table = read_table(source).drop(drop)
        parts = split(len(table), seed)
        schema = recognise(table, parts[0])
        x = schema.encode(table)
        return Splits(schema, *(x[rows] for rows in parts))
    if source not in datasets.KNOWN and Path(source).is_file():
        raise ValueError(f"expected a table {', '.join(READERS)}, found {source}")
    if drop:
        raise ValueError(f"expected a table to drop columns from, found the data set {source!r}")
    data = datasets.load(source, seed, data_dir)
    schema = Schema(tuple(Column(str(i), "binary", (0, 1)) for i in range(data.train.shape[1])))
    return Splits(schema, *data)


def split(rows: int, seed: int = 0, shares: Sequence[float] = (0.7, 0.1, 0.2)) -> list[NDArray[np.intp]]:
    """Deals the row numbers 0..rows-1 to train, valid and test at random, at least one to each that has a share."""
    if len(shares) != 3 or min(shares) < 0 or abs(sum(shares) - 1) > 1e-6:
        raise ValueError(f"expected three shares that sum to 1, found {shares}")
    valid, test = (max(1, round(share * rows)) if share else 0 for share in shares[1:])
    if rows <= valid + test:
        raise ValueError(f"expected enough rows to split into train, valid and test, found {rows}")
    return np.split(np.random.default_rng(seed).permutation(rows), [rows - valid - test, rows - test])


def _recognise(name: str, values: np.ndarray, train: NDArray[np.integer], numeric_strings: bool) -> Column:
    known = _known(name, values)
    numbers = _numbers(known)
    strange = np.isnan(numbers)
    if not numeric_strings:
        strange |= [isinstance(value, str) for value in known]
    if strange.any():
        strings = sorted({str(value) for value in known})
        if len(strings) > max(MAX_LEVELS, len(known) / 2):
            raise ValueError(
                f"expected numbers or repeated strings in column {name!r}, found {len(strings)} different values "
                f"in {len(known)} rows, like {known[strange][0]!r}: drop the column or mend it"
            )
        return _categorical(name, strings)
    levels = np.unique(numbers)
    decimals = _decimals(levels)
    if len(levels) > 1 and (decimals != 0 or len(levels) > MAX_LEVELS):
        return _continuous(name, values, train)
    return _categorical(name, [int(level) if decimals == 0 else float(level) for level in levels])


def _categorical(name: str, categories: Iterable[str | float]) -> Column:
    plain = [value.item() if isinstance(value, np.generic) else value for value in categories]
    values = {int(value) if isinstance(value, bool) else value for value in plain}
    ordered = tuple(sorted(values, key=lambda value: (isinstance(value, str), value)))
    return Column(name, "binary" if len(ordered) == 2 else "categorical", ordered)


def _continuous(name: str, values: np.ndarray, train: NDArray[np.integer]) -> Column:
    known = _known(name, values)
    numbers = _numbers(known)
    if np.isnan(numbers).any():
        raise ValueError(f"expected numbers in column {name!r}, found {known[np.isnan(numbers)][0]!r}")
    trained = _numbers(values[train])
    trained = trained[~np.isnan(trained)]
    moments = _moments(trained if len(set(trained)) > 1 else numbers)
    return Column(name, "continuous", (), *moments, _decimals(numbers))


def _known(name: str, values: np.ndarray) -> np.ndarray:
    known = values[~_missing(values)]
    if len(known) == 0:
        raise ValueError(f"expected values in column {name!r}, found only missing ones: drop the column")
    return known


def _decimals(numbers: NDArray[np.float64]) -> int | None:
    """The fewest decimals that all numbers can be written with, if not too many."""
    with np.errstate(over="ignore"):
        return next((d for d in range(MAX_DECIMALS + 1) if (numbers.round(d) == numbers).all()), None)


def _moments(numbers: NDArray[np.float64]) -> tuple[float, float]:
    with np.errstate(over="ignore", invalid="ignore"):
        return float(numbers.mean()), float(numbers.std())


def _read_csv(path: Path) -> Table:
    delimiter = DELIMITERS[path.suffix.lower()]
    with open(path, encoding="utf-8-sig", newline="") as file:
        reader = csv.reader(file, delimiter=delimiter, skipinitialspace=True, strict=True)
        try:
            lines = [(reader.line_num, cells) for cells in reader]
        except UnicodeDecodeError as error:
            raise ValueError("expected text in UTF-8, found other bytes: save the file as UTF-8") from error
        except csv.Error as error:
            raise ValueError(
                f"expected cells with {delimiter!r} between, found {error} in line {reader.line_num}"
            ) from error
    while lines and not lines[-1][1]:
        lines.pop()
    if not lines:
        raise ValueError("expected a header and rows, found an empty file")
    names = tuple(name.strip() for name in lines.pop(0)[1])
    if len(names) == 1 and ({",", ";", "\t"} - {delimiter}) & set(names[0]):
        raise ValueError(
            f"expected cells with {delimiter!r} between, found the one column {names[0]!r}: save it with commas or as .tsv"
        )
    for number, cells in lines:
        if len(cells) != len(names):
            raise ValueError(f"expected {len(names)} cells as in the header, found {len(cells)} in line {number}")
    rows = [cells for _, cells in lines]
    return Table(names, tuple(_strings(row[i] for row in rows) for i in range(len(names))))


def _read_parquet(path: Path) -> Table:
    try:
        arrow, parquet = import_module("pyarrow"), import_module("pyarrow.parquet")
    except ModuleNotFoundError as error:
        raise ValueError("expected pyarrow to read it, found none: pip install 'hyperspn[parquet]'") from error
    try:
        with parquet.ParquetFile(path) as file:
            table = file.read()
    except (arrow.ArrowException, OSError) as error:
        raise ValueError(f"expected a Parquet file, found another or a damaged one ({error})") from error
    names, columns = tuple(table.column_names), table.columns
    return Table(names, tuple(_from_arrow(arrow.types, *named) for named in zip(names, columns, strict=True)))


def _from_arrow(types: Any, name: str, column: Any) -> np.ndarray:
    if types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if types.is_integer(column.type) or types.is_floating(column.type):
        return column.cast("float64", safe=False).to_numpy()
    if any(test(column.type) for test in (types.is_boolean, types.is_string, types.is_large_string, types.is_null)):
        return _strings(column.cast("string").to_pylist())
    raise ValueError(f"expected numbers, strings or booleans in column {name!r}, found {column.type}: drop the column")


def _read_npy(path: Path) -> Table:
    with open(path, "rb") as file:
        return table_of(np.lib.format.read_array(file, allow_pickle=False))


def _column(name: str, values: np.ndarray) -> np.ndarray:
    """A column of an array as tables hold it."""
    if values.dtype.kind == "U":
        return _strings(values)
    if values.dtype.kind != "O":
        return values.astype(np.uint8) if values.dtype.kind == "b" else values
    holes = _missing(values)
    if any(isinstance(value, str) for value in values):
        return np.array([None if hole else value for hole, value in zip(holes, values, strict=True)], object)
    try:
        return np.where(holes, nan, values).astype(np.float64)
    except TypeError as error:
        raise TypeError(f"column {name!r}: {error}") from error


def _strings(cells: Iterable[str | None]) -> np.ndarray:
    """A column of strings, None where missing."""
    stripped = [(cell or "").strip() for cell in cells]
    return np.array([None if cell in MISSING else cell for cell in stripped], object)


def _numbers(values: np.ndarray) -> NDArray[np.float64]:
    """A column as numbers, NaN for what is missing or none."""
    if values.dtype.kind != "O":
        return values.astype(np.float64)
    return np.array([_number(value) for value in values], np.float64)


def _number(value: Any) -> float:
    if value is None or (isinstance(value, str) and not NUMBER.fullmatch(value)):
        return nan
    number = float(value)
    return number if isfinite(number) else nan


def _objects(values: np.ndarray) -> np.ndarray:
    """A column as objects, None where missing; numbers that are all whole become int."""
    if values.dtype.kind == "O":
        return values
    objects, known = np.full(len(values), None, object), ~np.isnan(values)
    whole = (values[known] == np.floor(values[known])).all()
    objects[known] = [int(value) for value in values[known]] if whole else values[known]
    return objects


def _missing(values: np.ndarray) -> NDArray[np.bool_]:
    if values.dtype.kind != "O":
        return np.isnan(values)
    return np.array([_is_missing(value) for value in values], bool)


def _is_missing(value: Any) -> bool:
    is_nan = isinstance(value, float | np.floating) and isnan(value)
    return value is None or is_nan or type(value).__name__ in ("NAType", "NaTType")


def _is_finite(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= sys.float_info.max


def _check_names(names: tuple[str, ...]) -> None:
    if not names or not all(isinstance(name, str) and name for name in names):
        raise ValueError(f"expected a name for each column, found {', '.join(map(repr, names)) or 'no column'}")
    repeated = [name for name, count in Counter(names).items() if count > 1]
    if repeated:
        raise ValueError(f"expected column names that differ, as in a header, found {repeated[0]!r} more than once")


def _check_known(name: str, names: Sequence[str]) -> None:
    if name not in names:
        raise ValueError(f"expected the name of a column, found {name!r}{did_you_mean(name, names)}")


DELIMITERS = {".csv": ",", ".tsv": "\t"}
READERS: dict[str, Callable[[Path], Table]] = {
    ".csv": _read_csv,
    ".tsv": _read_csv,
    ".parquet": _read_parquet,
    ".npy": _read_npy,
}
