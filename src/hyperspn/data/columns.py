"""Columns: what the values of a table mean, and how a circuit sees them."""

from __future__ import annotations

import re

from dataclasses import asdict, dataclass
from math import inf, nan
from typing import TYPE_CHECKING, Any

import numpy as np

from numpy.typing import NDArray

from ..checks import did_you_mean, plural
from .arrays import (
    arrow_type,
    cast,
    check_finite,
    is_text,
    numbers_of,
    on_levels,
    spread,
    to_numpy,
    truths_of,
    without_nan,
)
from .dates import UNITS, DateFormat, in_zone, parse_durations, parse_iso, parse_times, seconds_of, times_of
from .scales import Scale
from .spelling import EXACT, Spelling

if TYPE_CHECKING:
    import pyarrow as pa

MAX_DECIMALS = 8
SHOWN = 20
FARTHEST = 37.0  # normal scores beyond have no probability that a float can hold
OTHER = "(other)"
KINDS = ("categorical", "numeric", "date", "binary", "continuous")
TYPE = re.compile(
    r"|string|bool|u?int\d+|halffloat|float|double|decimal\d+\(\d+, -?\d+\)|date32\[day\]|time\d+\[\w+\]|duration\[\w+\]"
    r"|timestamp\[\w+(, tz=[^\]]+)?\]"
)
Category = str | int | float


@dataclass(frozen=True)
class Column:
    """What the values of a column are, and how a circuit sees them.

    Categories are seen as codes: 0..c-1, then one for all pooled categories, if any, and one for "missing", if that is
    data. Numbers are seen as they are, dates and times as numbers of their unit since 1970 or midnight; inf is "missing"
    where that is data. NaN is unknown.

    Arguments:
        name: The name of the column.
        kind: "categorical", "numeric" or "date"; in files of version 0.1.0 also "binary", and "continuous", which a
            circuit sees as (x - mean) / std.
        categories: The values in the order of their codes: strings, numbers or booleans.
        mean: The mean of the training rows, if continuous.
        std: Their standard deviation, if continuous.
        decimals: How many decimals the numbers have, if not too many; 0 for whole numbers.
        scale: The scale of a numeric or date column.
        spelling: How text writes the numbers, if not plainly.
        format: How text writes the dates.
        unit: The unit of dates and times: day, hour, minute or second.
        type: The Arrow type of the values; none for the plain text of a file.
        pooled: Rare categories that share one code.
        shares: Their shares of it: P(value) = P(other) times its share.
        missing_as_data: Whether "missing" is a value like others.
    """

    name: str
    kind: str
    categories: tuple[Category, ...] = ()
    mean: float = 0.0
    std: float = 1.0
    decimals: int | None = None
    scale: Scale | None = None
    spelling: Spelling | None = None
    format: DateFormat | None = None
    unit: str = ""
    type: str = ""
    pooled: tuple[Category, ...] = ()
    shares: tuple[float, ...] = ()
    missing_as_data: bool = False

    def __post_init__(self) -> None:
        count = len(self.categories)
        fits = {"binary": count == 2, "categorical": count > 0}.get(self.kind, self.kind in KINDS and count == 0)
        if not fits or (self.kind in ("numeric", "date")) != (self.scale is not None):
            raise ValueError(
                f"expected column {self.name!r} to be categorical with categories, or numeric or date with a scale, "
                f"found {self.kind} with {count} categories"
            )
        for values in (self.categories, self.pooled):
            _check_categories(values)
        if not (_is_finite(self.mean) and _is_finite(self.std) and self.std > 0):
            raise ValueError(f"expected finite mean and std > 0 of column {self.name!r}, found {self.mean}, {self.std}")
        if self.decimals is not None and (type(self.decimals) is not int or not 0 <= self.decimals <= MAX_DECIMALS):
            raise ValueError(f"expected decimals 0..{MAX_DECIMALS} of column {self.name!r}, found {self.decimals}")
        if len(self.shares) != len(self.pooled) or not all(_is_finite(share) and share > 0 for share in self.shares):
            raise ValueError(f"expected a share > 0 of each pooled category of column {self.name!r}, found others")
        fits = self.unit in UNITS if self.kind == "date" else self.unit == ""
        if not fits or not isinstance(self.type, str) or not TYPE.fullmatch(self.type):
            raise ValueError(f"expected a unit of dates and a type of column {self.name!r}, found others")
        if type(self.missing_as_data) is not bool:
            raise ValueError(f"expected missing_as_data True or False, found {self.missing_as_data!r}")

    @property
    def is_numeric(self) -> bool:
        """Whether a circuit sees numbers: of a numeric column, of dates, or standardized ones."""
        return self.kind in ("numeric", "date", "continuous")

    @property
    def is_continuous(self) -> bool:
        """Whether a circuit sees standardized numbers, as in version 0.1.0."""
        return self.kind == "continuous"

    @property
    def size(self) -> int:
        """The number of codes of a column with categories."""
        return len(self.categories) + bool(self.pooled) + self.missing_as_data

    @property
    def labels(self) -> tuple[Category, ...]:
        """What the codes stand for, in their order."""
        missing = ("missing",) if self.missing_as_data and not self.is_numeric else ()
        return (*self.categories, *((OTHER,) if self.pooled else ()), *missing)

    def support(self) -> str:
        """The possible values in words, for error messages."""
        if self.is_numeric:
            return "a date or time" if self.kind == "date" else "a number"
        listed = ", ".join(map(repr, self.categories[:SHOWN]))
        return f"one of {listed}{', ...' if len(self.categories) > SHOWN or self.pooled else ''}"

    def encode(
        self, values: pa.ChunkedArray, strict: bool = False, notes: list[str] | None = None
    ) -> NDArray[np.float64]:
        """Codes or numbers, (rows,); NaN for what is missing or not in the support.

        An unseen whole number counts as the nearest one among the categories, if these are whole numbers.

        Arguments:
            values: The values.
            strict: Whether values that are not in the support are an error.
            notes: A list to which a sentence is added about them.
        """
        notes = [] if notes is None else notes
        values = without_nan(values)
        holes = np.asarray(values.is_null())
        if self.categories and isinstance(self.categories[0], str):
            codes = on_levels(self._codes_of_text, values) if is_text(values) else self._codes_of_text(values)
        else:
            numbers = self.numbers(values)
            check_finite(self.name, numbers)
            codes = self._codes_of_numbers(numbers, strict, notes) if self.categories else numbers
        self._check_known(values, np.isnan(codes) & ~holes, strict, notes)
        self._check_bounds(codes, notes)
        if self.missing_as_data:
            codes[holes] = inf if self.is_numeric else self.size - 1
        return (codes - self.mean) / self.std if self.is_continuous else codes

    def numbers(self, values: pa.ChunkedArray) -> NDArray[np.float64]:
        """A column as numbers in the column's units, (rows,); NaN for what is missing or none."""
        import pyarrow as pa

        if self.kind == "date":
            length = UNITS[self.unit]
            if is_text(values):
                return on_levels(lambda levels: to_numpy(self._seconds(levels)), values) / length
            if not pa.types.is_temporal(values.type):
                return numbers_of(values)
            return to_numpy(seconds_of(in_zone(values, self.type))) / length
        is_boolean = bool(self.categories) and isinstance(self.categories[0], bool)
        return truths_of(values) if is_boolean else numbers_of(values, self.spelling)

    def _seconds(self, text: pa.Array) -> pa.Array:
        """Dates and times in the column's own format, or as ISO 8601 has them."""
        import pyarrow.compute as pc

        if self.type.startswith("duration"):
            return parse_durations(text)
        if self.format is None:
            return parse_times(text, self.type)
        seconds = self.format.parse(text)
        return pc.coalesce(seconds, parse_iso(text)) if seconds.null_count else seconds

    def decode(self, codes: NDArray[np.floating], seed: int | None = None) -> pa.Array:
        """The values that codes or numbers stand for, (rows,), null for NaN and for "missing".

        Where pooled categories are meant, one is drawn by their shares, or without a seed it is the most frequent one.
        """
        codes = codes.astype(np.float64)
        missing = (inf if self.is_numeric else self.size - 1) if self.missing_as_data else nan
        holes = np.isnan(codes) | (codes == missing)
        known = codes[~holes]
        fits = np.isfinite(known) if self.is_numeric else np.isin(known, np.arange(self.size))
        if not fits.all():
            expected = "a finite number" if self.is_numeric else f"a code 0..{self.size - 1}"
            raise ValueError(f"expected {expected} in column {self.name!r}, found {known[~fits][0]:g}")
        values = self._values(known) if self.is_numeric else self._categories(known.astype(int), seed)
        return spread(cast(values, self.type), ~holes)

    def log_shares(self, values: pa.ChunkedArray) -> NDArray[np.float64]:
        """log of the share that each value has of its code, (rows,): 0 but for pooled categories."""
        import pyarrow as pa
        import pyarrow.compute as pc

        if not self.pooled:
            return np.zeros(len(values))
        known = pa.array([str(value) for value in self.pooled])
        places = to_numpy(pc.fill_null(pc.index_in(values.cast(pa.string()), value_set=known), -1)).astype(int)
        return np.append(np.log(np.array(self.shares) / np.sum(self.shares)), 0.0)[places]

    def _codes_of_text(self, values: pa.ChunkedArray) -> NDArray[np.float64]:
        import pyarrow as pa
        import pyarrow.compute as pc

        known = pa.array([*self.categories, *self.pooled])
        text = values if pa.types.is_string(values.type) else values.cast(pa.string())
        codes = to_numpy(pc.cast(pc.index_in(text, value_set=known), pa.float64()))
        truths = truths_of(known)
        if sorted(truths) == [0, 1] and np.isnan(codes).any():  # booleans in another spelling
            others = truths_of(values)
            codes = np.where(np.isnan(codes), np.where(others == truths[0], 0.0, 1.0 + 0 * others), codes)
        return np.minimum(codes, len(self.categories))

    def _codes_of_numbers(self, numbers: NDArray[np.float64], strict: bool, notes: list[str]) -> NDArray[np.float64]:
        values = np.array([*self.categories, *self.pooled], np.float64)
        order = values.argsort()
        ordered = values[order]
        places = np.searchsorted(ordered, numbers).clip(max=len(values) - 1)
        codes = np.where(ordered[places] == numbers, order[places], nan)
        unseen = np.flatnonzero(np.isnan(codes) & (numbers == np.floor(numbers)))
        are_whole = bool((values == np.floor(values)).all()) and not isinstance(self.categories[0], bool)
        if len(unseen) and are_whole and not strict:
            above, below = places[unseen], (places[unseen] - 1).clip(0)
            is_below = np.abs(ordered[below] - numbers[unseen]) < np.abs(ordered[above] - numbers[unseen])
            nearest = order[np.where(is_below, below, above)]
            codes[unseen] = nearest
            notes.append(
                f"column {self.name!r}: unseen whole numbers in {plural(len(unseen), 'cell')} count as the nearest seen "
                f"ones, like {numbers[unseen[0]]:g} as {values[nearest[0]]:g}"
            )
        return np.minimum(codes, len(self.categories))

    def _check_known(self, values: pa.ChunkedArray, misfits: NDArray[np.bool_], strict: bool, notes: list[str]) -> None:
        if not misfits.any():
            return
        row = int(misfits.argmax())
        value = values[row].as_py()
        if strict:
            words = [category for category in (*self.categories, *self.pooled) if isinstance(category, str)]
            place = f"in column {self.name!r}, found {value!r} in row {row + 1}"
            raise ValueError(f"expected {self.support()} {place}{did_you_mean(str(value), words)}")
        notes.append(
            f"column {self.name!r}: unknown values in {plural(misfits.sum(), 'cell')}, like {value!r} in row {row + 1}, "
            "count as missing"
        )

    def _check_bounds(self, numbers: NDArray[np.float64], notes: list[str]) -> None:
        outside = self.outside(numbers)
        if outside.any():
            row = int(outside.argmax())
            notes.append(
                f"column {self.name!r}: values outside the bounds {self.bounds()} in {plural(outside.sum(), 'cell')}, like "
                f"{numbers[row]:g} in row {row + 1}: such rows have probability 0"
            )

    def bounds(self) -> str:
        """The bounds in words, like ``0..100``; nothing if there are none."""
        if self.scale is None or (self.scale.lower, self.scale.upper) == (None, None):
            return ""
        return "..".join("" if bound is None else f"{bound:g}" for bound in (self.scale.lower, self.scale.upper))

    def outside(self, numbers: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Which numbers are outside the bounds, (rows,)."""
        if self.scale is None:
            return np.zeros(len(numbers), bool)
        lower, upper = self.scale.ends
        return (numbers < lower) | ((numbers > upper) & (numbers != inf))

    def impossible(self, numbers: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Which numbers have no probability: outside the bounds, or too far from all training values, (rows,)."""
        if self.scale is None:
            return np.zeros(len(numbers), bool)
        low, high = (self.scale.scores(edge) for edge in self.scale.cells(numbers))
        beyond = (low > FARTHEST) | (high < -FARTHEST)
        return beyond & np.isfinite(numbers) & ~np.isin(numbers, self.scale.points)

    def _categories(self, codes: NDArray[np.intp], seed: int | None) -> pa.Array:
        import pyarrow as pa

        other = codes == len(self.categories)
        if self.pooled and other.any():
            shares = np.array(self.shares) / np.sum(self.shares)
            random = None if seed is None else np.random.default_rng(seed)
            codes = codes.copy()
            codes[other] += shares.argmax() if random is None else random.choice(len(shares), other.sum(), p=shares)
        values = [*self.categories, *self.pooled]
        written = (
            pa.array(values) if self.spelling is None else self.spelling.write(np.array(values, float), self.decimals)
        )
        return written.take(pa.array(codes))

    def _values(self, numbers: NDArray[np.float64]) -> pa.Array:
        import pyarrow as pa

        if self.is_continuous:
            numbers = numbers * self.std + self.mean
            numbers = numbers if self.decimals is None else numbers.round(self.decimals)
        elif self.scale is not None and not self.scale.has_odd:
            numbers = self.scale.round(numbers)
        if self.kind == "date":
            seconds = pa.array(numbers * UNITS[self.unit])
            return self.format.write(seconds) if self.format else times_of(seconds, arrow_type(self.type))
        if self.spelling is not None:
            return self.spelling.write(numbers, self.decimals)
        whole = self.decimals == 0 and (np.abs(numbers) <= EXACT).all() and (numbers % 1 == 0).all()
        return pa.array(numbers.astype(np.int64) if whole else numbers)

    def to_dict(self) -> dict[str, Any]:
        """The column as lists, strings and numbers, without what is as by default."""
        entries = {key: value for key, value in asdict(self).items() if value != getattr(type(self), key, None)}
        return entries | {"categories": list(self.categories)}

    @classmethod
    def from_dict(cls, entries: Any) -> Column:
        """The column that `to_dict` wrote."""
        nested = {"scale": Scale, "spelling": Spelling, "format": DateFormat}
        made = {key: make(**entries[key]) for key, make in nested.items() if entries.get(key) is not None}
        lists = {key: tuple(entries[key]) for key in ("categories", "pooled", "shares") if key in entries}
        return cls(**{"categories": entries["categories"], **entries, **made, **lists})


def _check_categories(values: tuple[Any, ...]) -> None:
    kinds = [str, bool] if all(isinstance(value, str | bool) for value in values) else [int | float]
    alike = any(all(isinstance(value, kind) for value in values) for kind in kinds)
    finite = (
        all(isinstance(value, str) or abs(value) <= np.finfo(np.float64).max for value in values) if alike else False
    )
    if not finite or list(values) != sorted(set(values)):
        raise ValueError(f"expected strings or numbers in ascending order, found {values}")


def _is_finite(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= np.finfo(np.float64).max
