"""Checks of arguments, and how their messages end."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from math import isfinite
from numbers import Integral, Real


def whole(name: str, value: int, least: int = 1) -> int:
    """Checks that an argument is a whole number, and not less than it may be."""
    if not isinstance(value, Integral) or isinstance(value, bool) or value < least:
        raise ValueError(f"expected {name} to be a whole number >= {least}, found {value!r}")
    return int(value)


def number(name: str, value: float) -> float:
    """Checks that an argument is a finite number, and not negative."""
    if not isinstance(value, Real) or not (isfinite(value) and value >= 0):
        raise ValueError(f"expected {name} to be a number >= 0, found {value!r}")
    return float(value)


def plural(count: int, noun: str) -> str:
    """So many things: ``1 cell``, ``1,234 cells``."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def did_you_mean(unknown: str | Iterable[str], names: Iterable[str]) -> str:
    """The end of a message: the names most like one or more unknown ones, if any, upper or lower case."""
    by_lower = {name.lower(): name for name in names}
    texts = [unknown] if isinstance(unknown, str) else unknown
    close = dict.fromkeys(by_lower[match] for text in texts for match in get_close_matches(text.lower(), by_lower))
    return f"; did you mean {' or '.join(close)}?" if close else ""
