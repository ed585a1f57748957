"""Spelling: how text writes numbers."""

from __future__ import annotations

import re

from dataclasses import dataclass, replace
from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from numpy.typing import NDArray

if TYPE_CHECKING:
    import pyarrow as pa

STYLES = ((".", ""), (".", ","), (",", ""), (",", "."), *product(".,", (" ", "'", "\u00a0", "\u202f")))
PREFIX, SUFFIX = re.compile(r"[$€£]?"), re.compile(r"[%€]?| [%€$]| [^\W\d_]| ?[^\W\d_]{2,12}| °[CFK]?")
EXACT = 2**53  # whole numbers up to here are exact in float64


@dataclass(frozen=True)
class Spelling:
    """How text writes numbers: in ``1.234,50 %`` the decimal mark is a comma, and a point separates thousands.

    Arguments:
        decimal: The decimal mark.
        thousands: What separates thousands, if anything.
        prefix: What every number begins with, like ``$``.
        suffix: What every number ends with, like ``%``, `` kg`` or ``GB``.
        places: How many decimals every number has, if it is the same number.
        sign_first: Whether a sign stands before the prefix, as in ``-$5``.
    """

    decimal: str = "."
    thousands: str = ""
    prefix: str = ""
    suffix: str = ""
    places: int | None = None
    sign_first: bool = False

    def __post_init__(self) -> None:
        known = (self.decimal, self.thousands) in STYLES and all(
            isinstance(end, str) and fits.fullmatch(end) for end, fits in ((self.prefix, PREFIX), (self.suffix, SUFFIX))
        )
        known = known and (self.places is None or (type(self.places) is int and 0 <= self.places <= 20))
        if not known or type(self.sign_first) is not bool:
            raise ValueError(f"expected a way to write numbers, found {self}")

    @property
    def is_plain(self) -> bool:
        return self == Spelling()

    def parse(self, text: pa.ChunkedArray) -> pa.ChunkedArray:
        """The numbers, null for what is none; ``007`` is none."""
        import pyarrow as pa
        import pyarrow.compute as pc

        if self.is_plain and not _has_leading_zeros(text):
            try:
                return pc.cast(text, pa.float64())
            except pa.ArrowInvalid:
                pass
        fits = pc.match_substring_regex(text, self._pattern())
        if not pc.all(fits).as_py():
            text = pc.if_else(fits, text, None)
        for mark, plain in ((self.prefix, ""), (self.suffix, ""), (self.thousands, ""), (self.decimal, "."), ("+", "")):
            if mark and mark != plain:
                text = pc.replace_substring(text, mark, plain) if mark != "+" else _without_plus(text)
        return pc.cast(text, pa.float64())

    def write(self, numbers: NDArray[np.float64], decimals: int | None) -> pa.Array:
        """The text of numbers with so many decimals."""
        import pyarrow as pa

        levels, places = np.unique(numbers, return_inverse=True)
        shown = self.places if decimals is None or self.places is None else max(self.places, decimals)
        marks = str.maketrans({",": self.thousands, ".": self.decimal})
        ends = "" if shown is None and decimals is None else f".{decimals if shown is None else shown}f"
        texts = [f"{self.prefix}{f'{level:,{ends}}'.translate(marks)}{self.suffix}" for level in levels.tolist()]
        if self.sign_first:
            texts = [text.replace(f"{self.prefix}-", f"-{self.prefix}") for text in texts]
        return pa.array(texts, pa.string()).take(pa.array(places))

    def _pattern(self) -> str:
        mark, separator = re.escape(self.decimal), re.escape(self.thousands)
        whole = rf"(?:0|[1-9]\d{{0,2}}(?:{separator}\d{{3}})*)" if separator else r"(?:0|[1-9]\d*)"
        number = rf"(?:{whole}(?:{mark}\d*)?|{mark}\d+)"
        power = r"(?:[eE][+-]?\d+)?" if self.is_plain else ""
        infinite = r"|(?i:inf|infinity)" if self.is_plain else ""
        start = re.escape(self.prefix)
        start = rf"[+-]?{start}" if self.sign_first else rf"{start}[+-]?"
        return rf"^{start}(?:{number}{power}{infinite}){re.escape(self.suffix)}$"


def find_spelling(text: pa.ChunkedArray) -> tuple[Spelling, pa.ChunkedArray] | None:
    """The spelling in which all these strings are numbers, none of them missing, and the numbers; nothing if there is none.

    A comma separates thousands only if it does so wherever it stands, and in every number that is large enough.
    """
    ends = _ends(text[0].as_py())
    if ends is None:
        return None
    for style in STYLES:
        spelling = Spelling(*style, *ends, sign_first=bool(ends[0]) and _starts_with(text, f"-{ends[0]}"))
        if spelling.parse(text[:100]).null_count == 0 and (numbers := spelling.parse(text)).null_count == 0:
            return spelling if spelling.is_plain else replace(spelling, places=_places(spelling, text)), numbers
    return None


def nearest_spelling(text: pa.Array) -> Spelling:
    """The spelling in which the most of these strings are numbers."""
    ends = sorted({_ends(each) or ("", "") for each in text[:100].to_pylist()})
    spellings = [Spelling(*style, *end) for style in STYLES for end in ends]
    return min(spellings, key=lambda spelling: spelling.parse(text).null_count)


def _ends(text: str) -> tuple[str, str] | None:
    """What stands before and after a number; nothing if there is none."""
    match = re.fullmatch(r"-?([^\d+.,-]?)[+-]?(?:[\d.,].*?|(?i:inf|infinity))([^\d.,]*)", text, re.ASCII | re.DOTALL)
    return match and (match[1] if PREFIX.fullmatch(match[1]) else "", match[2] if SUFFIX.fullmatch(match[2]) else "")


def _places(spelling: Spelling, text: pa.Array) -> int | None:
    """How many decimals all these numbers have, if equally many."""
    import pyarrow.compute as pc

    mark, end = re.escape(spelling.decimal), re.escape(spelling.suffix)
    decimals = pc.replace_substring_regex(text, rf"^[^{mark}]*{mark}?|{end}$", "")
    lengths = pc.binary_length(decimals).unique()
    return lengths[0].as_py() if len(lengths) == 1 else None


def is_too_long(text: pa.Array, numbers: NDArray[np.float64]) -> bool:
    """Whether some of these are whole numbers, written in full, with more digits than float64 can tell apart."""
    import pyarrow.compute as pc

    return bool((np.abs(numbers) > EXACT).any()) and pc.any(pc.match_substring_regex(text, r"\d{16,}$")).as_py()


def _starts_with(text: pa.ChunkedArray, start: str) -> bool:
    import pyarrow.compute as pc

    return pc.any(pc.starts_with(text, start)).as_py()


def _without_plus(text: pa.ChunkedArray) -> pa.ChunkedArray:
    import pyarrow.compute as pc

    return pc.replace_substring_regex(text, r"^\+", "") if _starts_with(text, "+") else text


def _has_leading_zeros(text: pa.ChunkedArray) -> bool:
    """Whether any string begins like ``007`` or ``-007``, and not like ``0.5``."""
    import pyarrow.compute as pc

    for sign in ("", "-"):
        zeros = pc.starts_with(text, f"{sign}0")
        if pc.any(zeros).as_py():
            longer = pc.and_(zeros, pc.greater(pc.binary_length(text), len(sign) + 1))
            if pc.any(pc.and_not(longer, pc.starts_with(text, f"{sign}0."))).as_py():
                return True
    return False
