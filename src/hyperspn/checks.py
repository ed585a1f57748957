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


def counted(count: int, noun: str) -> str:
    """So many things: ``1 cell``, ``1,234 cells``."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """The end of an error message: the names most like an unknown one, if any."""
    close = get_close_matches(name, names)
    return f"; did you mean {' or '.join(close)}?" if close else ""
