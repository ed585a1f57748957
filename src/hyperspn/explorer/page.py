"""The page: one HTML file with a model, its evaluator, and everything that shows it."""

from __future__ import annotations

import base64
import hashlib
import os
import re

from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from ..asking import TableModel
from ..circuits import Circuit, Mixture
from ..files import write
from .export import check, encode_rows, pack

FOLDER = Path(__file__).parent
EVALUATOR = (
    "normal",
    "banks",
    "scales",
    "circuit",
    "values",
    "events",
    "columns",
    "distributions",
    "moments",
    "evaluator",
    "worker",
)
PAGE = ("axes", "dom", "session", "cards", "histograms", "panels", "page")
MODULE = re.compile(r"^import [^;]*;\n|^export (?=async|class|const|function)", re.MULTILINE)
LARGEST = 8_000_000


def page(
    model: TableModel,
    more: Mapping[str, Any] | None = None,
    served: bool = False,
    rows: Any = None,
    notes: list[str] | None = None,
) -> str:
    """The page of a model.

    Arguments:
        model: The model.
        more: Further entries of its header.
        served: Whether a server evaluates the circuit; else the page does.
        rows: A table whose rows the page shall contain; by default it contains none.
        notes: A list to which sentences about that table are added.
    """
    _check(model.circuit, served)
    header = {**(more or {}), "served": served, "with_rows": rows is not None}
    packed = pack(model, not served, header, None if rows is None else encode_rows(model, rows, notes))
    parts = {"style": _text("page.css"), "evaluator": _script(EVALUATOR), "page": _script(PAGE)}
    filled = {**parts, "model": packed, "policy": _policy(parts, served)}
    return re.sub(r"{(\w+)}", lambda match: filled[match[1]], _text("page.html"))


def _check(circuit: Circuit | Mixture, served: bool) -> None:
    """Refuses what a page cannot show: ensembles only with a server behind it."""
    if isinstance(circuit, Mixture) and not served:
        raise ValueError(
            f"this model is an ensemble of {len(circuit.components)} circuits, which a page cannot evaluate by itself yet: "
            "use `hyperspn explore --serve`"
        )
    for part in circuit.components if isinstance(circuit, Mixture) else [circuit]:
        check(part)


@dataclass(frozen=True)
class Explorer:
    """The explorer of a model: one page, which a notebook shows.

    Arguments:
        html: The page.
    """

    html: str

    @classmethod
    def of(cls, model: TableModel, rows: Any = None) -> Explorer:
        return cls(page(model, rows=rows))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the page into one file, which opens in any browser."""
        write(path, self.html.encode())

    def __repr__(self) -> str:
        return f"Explorer of {len(self.html) / 1e3:.0f} kB"

    def _repr_html_(self) -> str:
        style = "width: 100%; height: 46rem; border: 1px solid #8884"
        return f'<iframe title="explorer" style="{style}" srcdoc="{escape(self.html)}"></iframe>'


def _policy(parts: Mapping[str, str], served: bool) -> str:
    """Only what is in the page runs, and nothing is loaded from or sent to anywhere else."""
    style, *scripts = (f"'sha256-{_digest(parts[name])}'" for name in ("style", "evaluator", "page"))
    connect = "'self'" if served else "'none'"
    return (
        f"default-src 'none'; script-src {' '.join(scripts)}; style-src {style}; worker-src blob:; "
        f"connect-src {connect}; base-uri 'none'; form-action 'none'"
    )


def _digest(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _script(names: tuple[str, ...]) -> str:
    """Modules as one plain script, whose names the next one sees."""
    return '"use strict";\n' + "\n".join(MODULE.sub("", _text(f"{name}.js")) for name in names)


def _text(name: str) -> str:
    return (FOLDER / name).read_text(encoding="utf-8")
