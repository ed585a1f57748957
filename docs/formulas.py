"""Sets the formulas of docstrings as math: indented lines like `p(x) = sum_r mixture_r root_r(x)`."""

from __future__ import annotations

import re

SECTION = re.compile(r"\w+:")
OPERATORS = {
    "sum": r"\sum",
    "prod": r"\prod",
    "max": r"\max",
    "log": r"\log",
    "exp": r"\exp",
    "in": r"\in",
    "Phi": r"\Phi",
    "pi": r"\pi",
}
TOKEN = re.compile(r"[A-Za-z]+|\.\.\.|<=|<-| {2,}|\^-?\w+|.")
SIGNS = {"...": r"\dots ", "<=": r"\le ", "<-": r"\leftarrow ", "'": r"^\prime ", "%": r"\% "}


def to_tex(formula: str) -> str:
    r"""A formula in TeX.

    Example:
        >>> to_tex("p(x) = sum_r mixture_r root_r(x)")
        'p(x) = \\sum _r \\mathrm{mixture} _r \\mathrm{root} _r(x)'
    """
    tex = "".join(map(_tex, TOKEN.findall(formula)))
    tex = re.sub(r"(\\mathrm\{\w+\})  ", r"\1\\ ", tex)  # a space between words
    return re.sub(r"_ ?(\\mathrm\{\w+\})", r"_{\1}", tex)


def set_formulas(lines: list[str]) -> None:
    """Replaces the indented lines before the first section of a docstring by displayed math."""
    end = next((i for i, line in enumerate(lines) if SECTION.fullmatch(line)), len(lines))
    head: list[str] = []
    for line in lines[:end]:
        head += ["", ".. math::", "", "    " + to_tex(line.strip()), ""] if line.startswith("    ") else [line]
    lines[:end] = head


def _tex(token: str) -> str:
    if token in OPERATORS:
        return OPERATORS[token] + " "
    if token in SIGNS:
        return SIGNS[token]
    if token.isspace():
        return r"\quad " if len(token) > 1 else " "
    if token.startswith("^"):
        return f"^{{{token[1:]}}}"
    if len(token) > 1 and token[0].isalpha():
        return rf"\mathrm{{{token}}} "
    return token
