"""The values of one column, while it is being recognized."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import isfinite
from typing import TYPE_CHECKING, Any

import numpy as np

from numpy.typing import NDArray

from ..checks import plural
from .arrays import check_finite, is_text, levels_of, numbers_of, to_numpy
from .columns import Column
from .dates import UNITS, DateFormat, find_formats, seconds_of, unit_of
from .scales import Counted, Scale, bounds_of, count_numbers
from .spelling import EXACT, Spelling, find_spelling, is_too_long, nearest_spelling

if TYPE_CHECKING:
    import pyarrow as pa

MAX_LEVELS = 50  # more different whole numbers are numeric
FEW_ROWS = 20  # in so few rows it says nothing that all values differ
KEY_SHARE = 0.95
MANY, RARE = 200, 10  # of so many categories those seen less often are pooled
FEW_STRANGE = 5
SHOWN = 1000  # values that show how numbers are written

Bounds = tuple[float | None, float | None]


@dataclass(frozen=True)
class Wish:
    """What is asked for one column."""

    kind: str | None = None
    bounds: Bounds | None = None
    categories: Sequence[Any] | None = None
    numeric_strings: bool = True
    leave_out: bool = True
    missing_as_data: bool = False


class UnsuitableError(ValueError):
    """The reason why a column is not modeled."""


class Values:
    """The values of one column, while it is being recognized."""

    def __init__(
        self,
        name: str,
        values: pa.ChunkedArray,
        train: NDArray[np.bool_],
        wish: Wish,
        notes: list[str],
    ) -> None:
        import pyarrow as pa

        self.name, self.values, self.wish, self.notes = name, values, wish, notes
        self.is_text = is_text(values)
        self.has_levels = pa.types.is_dictionary(values.type)
        self.known = np.asarray(values.is_valid())
        self.train = train & self.known
        has_holes = wish.missing_as_data and bool((train & ~self.known).any())
        self.facts: dict[str, Any] = {
            "name": name,
            "type": "" if self.is_text else str(values.type),
            "missing_as_data": has_holes,
        }

    def column(self) -> Column:
        if self.wish.kind == "drop":
            raise UnsuitableError("dropped as asked for")
        if not self.train.any():
            raise UnsuitableError("only missing values")
        if self.wish.categories is not None and len(self.wish.categories):
            return self._given_categories(self.wish.categories)
        numbers = None if self.wish.kind == "categorical" and self.is_text else self._numbers()
        return self._text() if numbers is None else self._numeric(numbers)

    @cached_property
    def levels(self) -> tuple[pa.Array, NDArray[np.int32]]:
        """The different values as strings or booleans, and the number of each value among them, (rows,)."""
        import pyarrow as pa

        stays = self.is_text or pa.types.is_boolean(self.values.type)
        return levels_of(self.values if stays else self.values.cast(pa.string()))

    def _given_categories(self, given: Sequence[Any]) -> Column:
        plain = {value.item() if isinstance(value, np.generic) else value for value in given}
        values = {int(value) if isinstance(value, bool) and self.facts["type"] != "bool" else value for value in plain}
        ordered = sorted(values, key=lambda value: (isinstance(value, str), value))
        return Column(kind="categorical", categories=tuple(ordered), **self.facts)

    def _numbers(self) -> NDArray[np.float64] | None:
        """The values as numbers, (rows,), and how they are written among the facts; nothing if they are categories."""
        import pyarrow as pa

        types = pa.types
        if types.is_temporal(self.values.type):
            return None if self.wish.kind == "categorical" else self._times(to_numpy(seconds_of(self.values)))
        if self.is_text:
            return self._numbers_of_text()
        if types.is_boolean(self.values.type):
            return None
        numbers = numbers_of(self.values)
        check_finite(self.name, numbers)
        if types.is_integer(self.values.type) and (np.abs(numbers) > EXACT).any():
            self.notes.append(f"column {self.name!r} has whole numbers above 2^53, which are seen as strings")
            return None
        return numbers

    def _numbers_of_text(self) -> NDArray[np.float64] | None:
        kind = self.wish.kind
        if kind == "numeric" or (self.wish.categories is not None and len(self.wish.categories) == 0):
            return self._forced_numbers()
        if kind == "date" or (kind or "").startswith("%"):
            return self._dates(required=True)
        if not self.wish.numeric_strings:
            return None
        text = self.levels[0] if self.has_levels else self.values.drop_null() if self.values.null_count else self.values
        spelled = find_spelling(text)
        if spelled is None:
            self._tell_numbers_among_strings()
            return self._dates()
        places = self.levels[1] if self.has_levels else np.where(self.known, np.cumsum(self.known) - 1, -1)
        numbers = np.append(to_numpy(spelled[1]), np.nan)[places]
        check_finite(self.name, numbers)
        if is_too_long(text, numbers):
            self.notes.append(f"column {self.name!r} has whole numbers above 2^53, which are seen as strings")
            return None
        return self._parse_spelling(spelled[0], numbers)

    def _parse_spelling(self, spelling: Spelling, numbers: NDArray[np.float64]) -> NDArray[np.float64]:
        if not spelling.is_plain:
            self.facts["spelling"] = spelling
            marked = np.isnan(numbers_of(self.values)) & self.known
            row = int((marked if marked.any() else self.known).argmax())
            self.notes.append(f"column {self.name!r}: {self.values[row].as_py()!r} is read as {numbers[row]:.15g}")
        return numbers

    def _forced_numbers(self) -> NDArray[np.float64]:
        """Numbers although not all strings are: those of the spelling that fits the most."""
        best = nearest_spelling(self.levels[0])
        numbers = numbers_of(self.values, best)
        check_finite(self.name, numbers)
        strange = self.known & np.isnan(numbers)
        if np.isnan(numbers).all():
            raise ValueError(
                f"expected numbers in column {self.name!r}, found {self.values[int(strange.argmax())].as_py()!r}"
            )
        self.known = ~np.isnan(numbers)
        self.train &= self.known
        return self._parse_spelling(best, numbers)

    def _tell_numbers_among_strings(self) -> None:
        levels, codes = self.levels
        strange = np.flatnonzero(np.asarray(nearest_spelling(levels[:SHOWN]).parse(levels).is_null()))
        if len(strange) <= FEW_STRANGE and len(levels) - len(strange) > FEW_ROWS:
            counts = {levels[i].as_py(): int((codes == i).sum()) for i in strange.tolist()}
            listed = ", ".join(f"{word!r} ({plural(count, 'cell')})" for word, count in counts.items())
            self.notes.append(
                f"column {self.name!r} has numbers but for {listed}, so it is not seen as numeric: "
                f"--kind {self.name}=numeric counts these as missing"
            )

    def _dates(self, required: bool = False) -> NDArray[np.float64] | None:
        kind, levels = self.wish.kind or "", self.levels[0]
        formats = find_formats(levels)
        if kind.startswith("%"):
            formats = [each for each in formats if each.pattern == kind]
        if required and not formats:
            raise ValueError(
                f"expected dates{f' {kind}' if kind.startswith('%') else ''} in column {self.name!r}, found {levels[0].as_py()!r}"
            )
        if len(formats) > 1:
            message = f"the day and the month of dates in column {self.name!r} cannot be told apart"
            if required:
                raise ValueError(f"{message}: say which comes first, like {formats[0].pattern}")
            self.notes.append(f"{message}: they stay text")
            return None
        return self._times_of_text(formats[0]) if formats else None

    def _times_of_text(self, written: DateFormat) -> NDArray[np.float64]:
        column = Column(self.name, "date", scale=Scale((0.0,)), format=written, unit="second")
        self.facts["format"] = written
        return self._times(column.numbers(self.values))

    def _times(self, seconds: NDArray[np.float64]) -> NDArray[np.float64]:
        self.facts["unit"] = unit_of(seconds[self.known])
        return seconds / UNITS[self.facts["unit"]]

    def _numeric(self, numbers: NDArray[np.float64]) -> Column:
        counted = count_numbers(numbers.compress(self.train))
        levels = counted.values
        whole = bool((levels == np.floor(levels)).all())
        is_date = "unit" in self.facts
        is_single = len(levels) == 1
        if self.wish.kind is None and self.wish.categories is None and self.wish.leave_out:
            if is_single:
                raise UnsuitableError("a single value")
            if whole and not is_date and _is_run(numbers):
                raise UnsuitableError("row numbers, a run without gaps")
        few = not is_date and (is_single or (whole and len(levels) <= MAX_LEVELS))
        kind = ("categorical" if few else "numeric") if self.wish.categories is None else "numeric"
        if (self.wish.kind or kind) == "categorical":
            is_exact = whole and bool((np.abs(levels) <= EXACT).all())
            plain = [int(level) if is_exact else level for level in levels.tolist()]
            return self._categorical(plain, counted.counts)
        scale = Scale.fit_counts(counted, *self._bounds(counted))
        self.facts |= {"kind": "date" if is_date else "numeric", "scale": scale, "decimals": scale.decimals}
        return Column(**self.facts)

    def _bounds(self, counted: Counted) -> Bounds:
        if self.wish.bounds is not None:
            return _checked_bounds(self.name, self.wish.bounds, counted.values)
        if "unit" not in self.facts:
            return bounds_of(counted)
        written = self.facts.get("format")
        is_time = written.is_time_of_day if written else self.facts["type"].startswith(("time32", "time64"))
        return (0.0, 86400 / UNITS[self.facts["unit"]] - 1) if is_time else (None, None)

    def _text(self) -> Column:
        levels, codes = self.levels
        counts = np.bincount(codes.compress(self.train), minlength=len(levels))
        known = int(self.known.sum())
        if self.wish.kind is None and len(levels) > max(FEW_ROWS, KEY_SHARE * known):
            raise UnsuitableError(f"{len(levels):,} different strings in {known:,} rows, like {levels[0].as_py()!r}")
        ordered = sorted(
            (level, count) for level, count in zip(levels.to_pylist(), counts.tolist(), strict=True) if count
        )
        if len(ordered) == 1 and self.wish.kind is None and self.wish.leave_out:
            raise UnsuitableError("a single value")
        return self._categorical([level for level, _ in ordered], np.array([count for _, count in ordered]))

    def _categorical(self, levels: list[Any], counts: NDArray[np.integer]) -> Column:
        """The column of these categories, in which rare ones are pooled if there are many."""
        if self.wish.bounds is not None:
            self.notes.append(
                f"column {self.name!r} has categories, of which none has bounds: --kind {self.name}=numeric changes that"
            )
        rare = counts < (RARE if len(levels) > MANY else 0)
        if rare.all():
            raise UnsuitableError(f"{len(levels):,} categories, none of them in {RARE} rows")
        kept, pooled = ([levels[i] for i in np.flatnonzero(part)] for part in (~rare, rare))
        if pooled:
            self.notes.append(
                f"column {self.name!r}: {len(pooled):,} categories in fewer than {RARE} rows are pooled as (other)"
            )
        shares = counts[rare] / max(1, counts[rare].sum())
        self.facts |= {"kind": "categorical", "categories": tuple(kept), "pooled": tuple(pooled)}
        return Column(**self.facts, shares=tuple(shares.tolist()))


def _is_run(numbers: NDArray[np.float64]) -> bool:
    """Whether these are row numbers: all different, without a gap."""
    if len(numbers) <= FEW_ROWS or np.isnan(numbers).any() or numbers.max() - numbers.min() + 1 != len(numbers):
        return False
    return len(np.unique(numbers)) == len(numbers)


def _checked_bounds(name: str, bounds: Any, known: NDArray[np.float64]) -> Bounds:
    lower, upper = bounds
    if not all(bound is None or (isinstance(bound, int | float) and isfinite(bound)) for bound in bounds):
        raise ValueError(f"expected numbers or None as bounds of column {name!r}, found {bounds}")
    outside = (known < (-np.inf if lower is None else lower)) | (known > (np.inf if upper is None else upper))
    if outside.any():
        raise ValueError(
            f"expected the training values of column {name!r} within its bounds {lower}..{upper}, found "
            f"{known[outside][0]:g}"
        )
    return (None if lower is None else float(lower)), (None if upper is None else float(upper))
