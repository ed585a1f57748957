"""Dates and times as numbers, and as text again."""

from __future__ import annotations

import re

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from numpy.typing import NDArray

if TYPE_CHECKING:
    import pyarrow as pa

UNITS = {"day": 86400, "hour": 3600, "minute": 60, "second": 1}
DAYS = (
    *("%Y-%m-%d", "%Y/%m/%d", "%Y.%m.%d", "%d.%m.%Y", "%m.%d.%Y", "%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y", "%m-%d-%Y"),
    *("%d %b %Y", "%d-%b-%Y", "%b %d, %Y", "%d %B %Y", "%B %d, %Y"),
    *("%d.%m.%y", "%d/%m/%y", "%m/%d/%y", "%d-%m-%y", "%m-%d-%y", "%d-%b-%y"),
)
TIMES = ("%H:%M", "%H:%M:%S", "%I:%M %p", "%I:%M:%S %p")
FORMATS = (*DAYS, *(f"{day}{gap}{time}" for day in DAYS for gap in " T" for time in TIMES), *TIMES)
ISO = ("%Y-%m-%d", *(f"%Y-%m-%d{gap}{time}" for gap in " T" for time in TIMES[:2]), *TIMES[:2])
LOOKS_LIKE_A_DATE = re.compile(r".*\d[-/.:, T].*\d.*", re.ASCII)
ISO_PARTS = r"^(?P<plain>.*?\d)(?P<fraction>\.\d{1,9})?(?P<zone>Z|[+-]\d\d:?\d\d)?$"
DURATION_PARTS = r"^(?:(?P<days>-?\d+) days?,? )?(?P<hours>\d+):(?P<minutes>\d\d):(?P<seconds>\d\d(?:\.\d+)?)$"
END = re.compile(r":\d\d(?:\.(?P<fraction>\d{1,6}))?(?P<zone>Z|[+-]\d\d:?\d\d)?$", re.ASCII)


@dataclass(frozen=True)
class DateFormat:
    """How text writes a date or a time.

    Arguments:
        pattern: As for `strptime`, like ``%d/%m/%Y``.
        padded: Whether days, months and hours below 10 have two digits.
        digits: How many digits fractions of a second have.
        zone: What follows every value, like ``Z`` or ``+01:00``.
    """

    pattern: str
    padded: bool = True
    digits: int = 0
    zone: str = ""

    def __post_init__(self) -> None:
        if not isinstance(self.pattern, str) or self.pattern not in FORMATS:
            raise ValueError(f"expected a format of dates like %d/%m/%Y, found {self.pattern!r}")
        if not (type(self.padded) is bool and self.digits in range(7) and isinstance(self.zone, str)):
            raise ValueError(f"expected a format of dates, found {self}")

    @property
    def is_time_of_day(self) -> bool:
        return "%d" not in self.pattern

    def parse(self, text: pa.Array) -> pa.Array:
        """Seconds since 1970, or since midnight; null for what is not written in this format."""
        import pyarrow as pa
        import pyarrow.compute as pc

        fits = pc.ends_with(text, self.zone)
        plain = pc.utf8_slice_codeunits(text, 0, -len(self.zone)) if self.zone else text
        cut = self.digits + 1 if self.digits else 0
        whole = pc.utf8_slice_codeunits(plain, 0, -cut) if cut else plain
        time = pc.strptime(whole, format=self.pattern, unit="s", error_is_null=True)
        seconds = pc.cast(pc.cast(time, pa.int64()), pa.float64())
        if self.is_time_of_day:
            seconds = pc.subtract(seconds, pc.multiply(pc.floor(pc.divide(seconds, 86400.0)), 86400.0))
        if cut:
            digits = pc.utf8_slice_codeunits(plain, -self.digits)
            fits = pc.and_(fits, pc.match_substring_regex(digits, r"^\d+$"))
            fraction = pc.cast(pc.if_else(fits, digits, "0"), pa.float64())
            seconds = pc.add(seconds, pc.divide(fraction, 10.0**self.digits))
        seconds = pc.if_else(fits, seconds, None)
        return pc.if_else(pc.equal(self.write(seconds), text), seconds, None)

    def write(self, seconds: pa.Array) -> pa.Array:
        """The text of seconds since 1970, or since midnight."""
        import pyarrow as pa
        import pyarrow.compute as pc

        ticks = pc.cast(pc.round(pc.multiply(seconds, 10.0**self.digits)), pa.int64())
        whole = pc.subtract(ticks, pc.cast(_modulo(ticks, 10**self.digits), pa.int64()))
        time = pc.cast(pc.divide(whole, 10**self.digits), pa.timestamp("s"))
        text = pc.strftime(time, format=self.pattern)
        if not self.padded:
            text = pc.replace_substring_regex(text, r"(^|[^:\d])0(\d)", r"\1\2")
            if "%y" in self.pattern:  # years always have two digits
                text = pc.replace_substring_regex(text, r"^(\w+\W\w+\W)(\d)(\D|$)", r"\10\2\3")
        end: Any = self.zone
        if self.digits:
            fraction = pc.utf8_lpad(pc.cast(_modulo(ticks, 10**self.digits), pa.string()), self.digits, "0")
            end = pc.binary_join_element_wise(".", fraction, self.zone, "")
        return pc.binary_join_element_wise(text, end, "") if end is not None else text


def _modulo(ticks: pa.Array, divisor: int) -> pa.Array:
    """What is left of whole numbers, never negative."""
    import pyarrow as pa

    values = np.asarray(ticks.fill_null(0))
    return pa.array(values % divisor, pa.int64(), mask=np.asarray(ticks.is_null()))


def find_formats(text: pa.Array, few: int = 100) -> list[DateFormat]:
    """All formats in which every one of these different strings is a date: two if days and months look alike."""
    first = text[0].as_py()
    if len(first) > 40 or not LOOKS_LIKE_A_DATE.fullmatch(first):
        return []
    end = END.search(first)
    digits, zone = (len(end["fraction"] or ""), end["zone"] or "") if end else (0, "")
    candidates = [DateFormat(pattern, padded, digits, zone) for pattern in FORMATS for padded in (True, False)]
    for part in (text[:1], text[:few], text):
        candidates = [each for each in candidates if each.parse(part).null_count == 0]
    unpadded = {each.pattern for each in candidates if each.padded}
    return [each for each in candidates if each.padded or each.pattern not in unpadded]


def unit_of(seconds: NDArray[np.float64]) -> str:
    """The largest unit in which all times are whole numbers; else seconds."""
    return next((unit for unit, length in UNITS.items() if (seconds % length == 0).all()), "second")


def seconds_of(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Dates and times of Arrow as seconds since 1970, or since midnight."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_date32(values.type):
        return pc.multiply(pc.cast(pc.cast(values, pa.int32()), pa.float64()), 86400.0)
    integers = pc.cast(values, pa.int32() if pa.types.is_time32(values.type) else pa.int64())
    return pc.divide(pc.cast(integers, pa.float64(), safe=False), _ticks(values.type))


def in_zone(values: pa.ChunkedArray, name: str) -> pa.ChunkedArray:
    """Dates and times without a zone as those of the zone in the name of a type like ``timestamp[us, tz=UTC]``, if any."""
    import pyarrow as pa
    import pyarrow.compute as pc

    zone = re.search(r"tz=([^\]]+)", name)
    if zone is None or getattr(values.type, "tz", None):
        return values
    times = pc.cast(values, pa.timestamp("us"))
    return pc.assume_timezone(times, zone[1], ambiguous="earliest", nonexistent="earliest")


def parse_iso(text: pa.Array) -> pa.Array:
    """Seconds since 1970, or since midnight, of what is written as ISO 8601 has it, without fractions and zones."""
    import pyarrow.compute as pc

    return pc.coalesce(*(DateFormat(pattern).parse(text) for pattern in ISO))


def parse_times(text: pa.Array, name: str) -> pa.Array:
    """As `parse_iso`, with fractions of seconds; a zone only where the type has one."""
    import pyarrow.compute as pc

    plain, fraction, zone = pc.extract_regex(text, ISO_PARTS).flatten()
    seconds = pc.add(parse_iso(plain), pc.cast(pc.binary_join_element_wise("0", fraction, ""), "float64"))
    has_zone = pc.not_equal(zone, "")
    there = pc.subtract(seconds, _offsets(zone)) if "tz=" in name else None
    return pc.if_else(has_zone, there, _local_seconds(seconds, name))


def parse_durations(text: pa.Array) -> pa.Array:
    """Seconds of text like ``1 day, 2:30:00``."""
    import pyarrow.compute as pc

    days, *clock = pc.extract_regex(text, DURATION_PARTS).flatten()
    seconds = pc.multiply(pc.cast(pc.if_else(pc.equal(days, ""), "0", days), "float64"), 86400.0)
    for part, length in zip(clock, (3600.0, 60.0, 1.0), strict=True):
        seconds = pc.add(seconds, pc.multiply(pc.cast(part, "float64"), length))
    return seconds


def write_durations(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """The text that `parse_durations` reads."""
    import pyarrow as pa

    texts = [None if value is None else str(value) for value in values.cast(pa.duration("us"), safe=False).to_pylist()]
    return pa.chunked_array([pa.array(texts, pa.string())])


def _offsets(zones: pa.Array) -> pa.Array:
    """The seconds by which clocks in zones like ``+01:00`` are ahead, 0 without one."""
    import pyarrow as pa

    coded = zones.dictionary_encode()
    parts = [
        (int(f"{zone[0]}1"), int(zone[1:3]), int(zone[-2:])) if zone[1:] else (0, 0, 0)
        for zone in coded.dictionary.to_pylist()
    ]
    seconds = [sign * (hours * 3600.0 + minutes * 60) for sign, hours, minutes in parts]
    return pa.array(seconds, pa.float64()).take(coded.indices)


def _local_seconds(seconds: pa.Array, name: str) -> pa.Array:
    """Seconds since 1970 of clocks in the zone of a type, as seconds since 1970."""
    import pyarrow as pa
    import pyarrow.compute as pc

    times = pc.cast(pc.cast(pc.multiply(seconds, 1e6), pa.int64()), pa.timestamp("us"))
    return seconds_of(in_zone(times, name)) if "tz=" in name else seconds


def times_of(seconds: pa.Array, dtype: pa.DataType) -> pa.Array:
    """Seconds since 1970, or since midnight, as dates and times of Arrow."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_date32(dtype):
        return pc.cast(pc.cast(pc.round(pc.divide(seconds, 86400.0)), pa.int32()), dtype)
    micro = pc.cast(pc.round(pc.multiply(seconds, 1e6)), pa.int64())
    scale = _ticks(dtype) / 1e6
    ticks = pc.multiply(micro, int(scale)) if scale >= 1 else pc.divide(micro, int(1 / scale))
    return pc.cast(pc.cast(ticks, pa.int32()) if pa.types.is_time32(dtype) else ticks, dtype)


def _ticks(dtype: Any) -> float:
    """Ticks per second."""
    return {"s": 1.0, "ms": 1e3, "us": 1e6, "ns": 1e9}[getattr(dtype, "unit", "ms")]
