"""How often the strangest cell of a row is one that was swapped, on tables with one swapped cell in each test row.

    python benchmarks/swapped_cells.py [adult shoppers] [--steps 1500] [--rows 2000]

Each test row gets another row's different value in one cell. Printed for each table: how often that cell is the first of
its row by surprisal and by rarity, and how many times as often as by chance.
"""

from __future__ import annotations

import argparse
import tempfile

from pathlib import Path

import numpy as np

from hyperspn import TableModel
from hyperspn.asking import fit_splits
from hyperspn.data import load_splits


def swap(x: np.ndarray, others: np.ndarray, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Rows with the value of another row in one known cell, and the number of this cell; rows where none differs are left out."""
    generator = np.random.default_rng(seed)
    swapped, where = x.copy(), np.full(len(x), -1)
    for row in range(len(x)):
        donor = others[generator.integers(len(others))]
        differs = np.flatnonzero((donor != x[row]) & ~np.isnan(donor) & ~np.isnan(x[row]))
        if len(differs):
            where[row] = generator.choice(differs)
            swapped[row, where[row]] = donor[where[row]]
    return swapped[where >= 0], where[where >= 0]


def measure(name: str, steps: int, rows: int) -> dict[str, float]:
    splits = load_splits(name, seed=0)
    with tempfile.TemporaryDirectory() as folder:
        sizes = {"layer_size": 8, "replicas": 16, "steps": steps}
        circuit, _ = fit_splits(splits, recipe="factored", seed=0, folder=Path(folder), progress=False, **sizes)
    model = TableModel(circuit, splits.schema)
    x = splits.test[np.random.default_rng(1).permutation(len(splits.test))]
    swapped, where = swap(x[:rows], x[rows:])
    answer = model.surprisal(splits.schema.decode(swapped))
    chance = (1 / (~np.isnan(swapped)).sum(1)).mean()
    hits = {word: float((getattr(answer, word).argmax(1) == where).mean()) for word in ("cells", "rarity")}
    return {"chance": float(chance), "surprisal": hits["cells"], "rarity": hits["rarity"]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", nargs="*", default=["adult", "shoppers"])
    parser.add_argument("--steps", type=int, default=1500)
    parser.add_argument("--rows", type=int, default=2000)
    arguments = parser.parse_args()
    for name in arguments.tables:
        found = measure(name, arguments.steps, arguments.rows)
        times = ", ".join(
            f"{word} {found[word]:.3f} ({found[word] / found['chance']:.1f} x)" for word in ("surprisal", "rarity")
        )
        print(f"{name}: chance {found['chance']:.3f}, {times}", flush=True)


if __name__ == "__main__":
    main()
