"""The published results that ours are compared with."""

from __future__ import annotations

import csv

from pathlib import Path
from typing import Any


def _rows(name: str) -> list[dict[str, Any]]:
    """The rows of a file of published values: numbers where they are numbers."""
    with open(Path(__file__).with_name("published") / name, encoding="utf-8", newline="") as file:
        return [{key: _value(text) for key, text in row.items()} for row in csv.DictReader(file)]


def _read(name: str) -> dict[str, dict[str, Any]]:
    """Published values by the first column of their file."""
    return {row[next(iter(row))]: row for row in _rows(name)}


def _value(text: str) -> float | int | str | None:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return text or None


PUBLISHED_BENCHMARKS = _read("benchmarks.csv")
PUBLISHED_HAND_CRAFTED = _read("hand_crafted.csv")
PUBLISHED_SVHN = {"improvement_published": 9.0, "improvement_published_std": 4.0, "improved_published": 0.7}
PUBLISHED_TABLES = _rows("tables.csv")
"""Means and standard deviations of five trainings on GPUs, from the result files of "A Sobering Look at Tabular Data
Generation via Probabilistic Circuits" (arXiv 2603.23016): github.com/april-tools/tabpc, commit 3f92668, `our_results`."""
