"""Evidence from text like ``age=30..40, job=student|retired``."""

from __future__ import annotations

import re

from collections.abc import Sequence
from typing import Any

from ..checks import did_you_mean
from .events import Above, AnyOf, AtLeast, AtMost, Below, Event, Likely, Missing, Not

EXAMPLE = 'age=30..40, job=student|retired, "city=Washington, D.C."'
OPERATORS = re.compile(r"!=|>=|<=|=|>|<|~")


def parse_evidence(text: str, names: Sequence[str]) -> dict[str, Event]:
    """Evidence from text like ``age=30..40, hours>50, job=student|retired``.

    A value with a comma, an operator or a bar in it is quoted as in CSV files: ``"city=Washington, D.C."``.
    """
    evidence: dict[str, Event] = {}
    for part in _split(text, ","):
        name, operator, value = _cut(part.strip(), names)
        if name not in names:
            raise ValueError(f"expected the name of a column, found {name!r}{did_you_mean(name, names)}")
        if name in evidence:
            raise ValueError(f"expected column {name!r} once, found it twice: join its values with |, like a|b")
        evidence[name] = _parse_event(operator, value)
    return evidence


def write_event(name: str, event: Event) -> str:
    """An event of a column as text that `parse_evidence` reads."""
    for kind, operator in ((Above, ">"), (AtLeast, ">="), (Below, "<"), (AtMost, "<=")):
        if isinstance(event, kind):
            return f"{_quote(name)}{operator}{_quote(event.value)}"
    if isinstance(event, Likely):
        ratios = "|".join(f"{_quote(value)}:{ratio:g}" for value, ratio in event.likelihoods.items())
        return f"{_quote(name)}~{ratios}"
    if isinstance(event, Not):
        return f"{_quote(name)}!={_write_alternatives(event.event)}"
    return f"{_quote(name)}={_write_alternatives(event)}"


def _write_alternatives(event: Event) -> str:
    if isinstance(event, AnyOf):
        return "|".join(map(_write_alternatives, event.events))
    if isinstance(event, (set, frozenset, list)):
        return "|".join(_quote(value) for value in sorted(event, key=str))
    if isinstance(event, tuple):
        return "..".join("" if end is None else str(end) for end in event)
    return "missing" if isinstance(event, Missing) else _quote(event)


def _quote(value: Any) -> str:
    """A name or value as text, in quotes where it would be read as something else."""
    text = str(value)
    is_plain = not (set(text) & set(',|"') or ".." in text or OPERATORS.search(text) or text in ("missing", ""))
    return text if is_plain and text == text.strip() else '"' + text.replace('"', '""') + '"'


def _cut(part: str, names: Sequence[str]) -> tuple[str, str, str]:
    """Name, operator and value, at the first operator that follows the name of a column."""
    whole = _unquote(part) if _is_quoted(part) else part
    cuts = [(whole[: at.start()].strip(), at.group(), whole[at.end() :].strip()) for at in OPERATORS.finditer(whole)]
    if not cuts:
        raise ValueError(f"expected evidence like {EXAMPLE}, values with a comma in quotes, found {part!r}")
    name, operator, value = next((cut for cut in cuts if _unquote(cut[0]) in names), cuts[0])
    return _unquote(name), operator, value


def _parse_event(operator: str, text: str) -> Event:
    if operator == "~":
        return Likely(dict(_parse_likelihood(part) for part in _split(text, "|")))
    parts = [part.strip() for part in _split(text, "|")]
    if operator in (">", ">=", "<", "<="):
        return {">": Above, ">=": AtLeast, "<": Below, "<=": AtMost}[operator](_unquote(text))
    events = [_parse_alternative(part) for part in parts]
    event = events[0] if len(events) == 1 else AnyOf(*events)
    return Not(event) if operator == "!=" else event


def _parse_alternative(text: str) -> Event:
    if _is_quoted(text):
        return _unquote(text)
    if text == "missing":
        return Missing()
    low, dots, high = text.partition("..")
    return (_unquote(low.strip()) or None, _unquote(high.strip()) or None) if dots else text


def _parse_likelihood(text: str) -> tuple[str, float]:
    value, _, likelihood = text.rpartition(":")
    try:
        return _unquote(value.strip()), float(likelihood)
    except ValueError:
        raise ValueError(f"expected likelihoods like red:0.7|blue:0.3, found {text!r}") from None


def _split(text: str, mark: str) -> list[str]:
    """The parts between marks that are not inside quotes; none of an empty text."""
    parts, quoted = [""], False
    for character in text:
        quoted ^= character == '"'
        if character == mark and not quoted:
            parts.append("")
        else:
            parts[-1] += character
    if quoted:
        raise ValueError(f'expected a closing " in {text!r}, found none')
    return [part for part in parts if part.strip()] if mark == "," else parts


def _is_quoted(text: str) -> bool:
    return len(text) > 1 and text[0] == text[-1] == '"' and '"' not in text[1:-1].replace('""', "")


def _unquote(text: str) -> str:
    return text[1:-1].replace('""', '"') if _is_quoted(text) else text
