"""The published results that ours are compared with."""

from __future__ import annotations

import csv

from pathlib import Path
from typing import Any


def _read(name: str) -> dict[str, dict[str, Any]]:
    """Published values by the first column of their file: numbers where they are numbers."""
    with open(Path(__file__).with_name("published") / name, encoding="utf-8", newline="") as file:
        return {row[next(iter(row))]: {key: _value(text) for key, text in row.items()} for row in csv.DictReader(file)}


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
