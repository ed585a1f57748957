"""Imputation and prediction of this version beside another one: `python benchmarks/compare_answers.py OTHER_PYTHON [--json]`.

OTHER_PYTHON is the interpreter of an environment in which the other version is installed. Both learn the same rows, at
most `--rows` of each table, with their defaults. Imputation: a fifth of the cells is emptied, and all rows are learned
and filled. The error of a column of numbers is the root mean square in units of its standard deviation, that of
categories the share that is wrong; a table's is the mean over its columns. On beijing it stands beside scikit-learn's
KNNImputer(10) on standardized numbers and one-hot codes. Prediction: four fifths of the rows are learned; the area
under the ROC curve of the target in the others.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd

TARGETS = {"adult": ("income", ">50K"), "shoppers": ("Revenue", True), "titanic": ("survived", 1)}
FILLED = ("beijing", "titanic")
FEW_VALUES = 20  # a column of numbers with no more different ones counts as categories


def learn(task: str, rows: str, other_rows: str, target: str, positive: str, seed: int, answers: str) -> None:
    """In a process of either version: fills a table, or predicts the probability of a category."""
    import hyperspn

    frame = pd.read_csv(rows)
    if hasattr(hyperspn, "fit_table"):
        model = hyperspn.fit_table(frame, seed=seed, progress=False)
        fill, predict = model.impute, lambda test: model.predict(test, target)[positive]
    else:
        model = hyperspn.HyperSPNDensity(target=target or None, random_state=seed).fit(frame)
        fill = model.impute
        predict = lambda test: model.predict_proba(test)[:, [str(c) for c in model.classes_].index(positive)]
    if task == "fill":
        fill(frame).to_csv(answers, index=False)
    else:
        pd.Series(predict(pd.read_csv(other_rows))).to_csv(answers, index=False, header=False)


def ask(python: str, folder: Path, task: str, target: str = "", positive: str = "", seed: int = 0) -> Path:
    """The file of the answers of a version."""
    answers = folder / "answers.csv"
    arguments = [task, folder / "rows.csv", folder / "others.csv", target, positive, seed, answers]
    subprocess.run([python, "-W", "ignore", __file__, "learn", *map(str, arguments)], check=True)
    return answers


def table_of(name: str, most: int, seed: int) -> pd.DataFrame:
    """Rows of a table, drawn without replacement, in random order."""
    from hyperspn.data.tables import find_table

    files = find_table(name)
    frame = pd.read_csv(files.get("train", files.get("")))
    return frame.drop(columns="No", errors="ignore").sample(frac=1, random_state=seed, ignore_index=True)[:most]


def is_number(column: pd.Series) -> bool:
    return column.dtype.kind in "if" and column.nunique() > FEW_VALUES


def error(truth: pd.DataFrame, filled: pd.DataFrame, holes: np.ndarray) -> float:
    """The mean over the columns of the errors in those cells that were emptied."""
    errors = []
    for i, (name, column) in enumerate(truth.items()):
        there = holes[:, i] & column.notna().to_numpy()
        right, guess = column[there], filled[name][there]
        if is_number(column):
            errors.append(float(((guess - right) ** 2).mean() ** 0.5 / column.std()))
        elif column.dtype.kind in "if":
            errors.append(float((guess.astype(float).round() != right).mean()))
        else:
            errors.append(float((guess.astype(str) != right.astype(str)).mean()))
    return float(np.mean(errors))


def neighbors(frame: pd.DataFrame, truth: pd.DataFrame) -> pd.DataFrame:
    """The table as KNNImputer(10) fills it."""
    from sklearn.impute import KNNImputer

    numbers = [name for name in frame if is_number(truth[name])]
    codes = {name: pd.get_dummies(frame[name], dtype=float) for name in frame if name not in numbers}
    for name, indicators in codes.items():
        indicators[frame[name].isna()] = np.nan
    mean, std = frame[numbers].mean(), frame[numbers].std()
    parts = [(frame[numbers] - mean) / std, *codes.values()]
    filled = KNNImputer(n_neighbors=10).fit_transform(np.concatenate([part.to_numpy(float) for part in parts], 1))
    table = pd.DataFrame(filled[:, : len(numbers)] * std.to_numpy() + mean.to_numpy(), columns=numbers)
    first = len(numbers)
    for name, indicators in codes.items():
        best = filled[:, first : first + indicators.shape[1]].argmax(1)
        table[name], first = indicators.columns.to_numpy()[best], first + indicators.shape[1]
    return table


def imputation(name: str, versions: dict[str, str], most: int, seed: int, folder: Path) -> dict[str, object]:
    truth = table_of(name, most, seed)
    holes = np.random.default_rng(seed).random(truth.shape) < 0.2
    frame = truth.mask(holes)
    frame.to_csv(folder / "rows.csv", index=False)
    row: dict[str, object] = {"table": name, "task": "imputation error", "rows": len(truth), "split": seed}
    row |= {
        v: error(truth, pd.read_csv(ask(python, folder, "fill", seed=seed)), holes) for v, python in versions.items()
    }
    return row | ({"neighbors": error(truth, neighbors(frame, truth), holes)} if name == "beijing" else {})


def prediction(name: str, versions: dict[str, str], most: int, seed: int, folder: Path) -> dict[str, object]:
    from sklearn.metrics import roc_auc_score

    frame, (target, positive) = table_of(name, most, seed), TARGETS[name]
    known = len(frame) * 4 // 5
    frame[:known].to_csv(folder / "rows.csv", index=False)
    frame[known:].assign(**{target: np.nan}).to_csv(folder / "others.csv", index=False)
    row: dict[str, object] = {"table": name, "task": "AUC", "rows": len(frame), "split": seed}
    for version, python in versions.items():
        answers = pd.read_csv(ask(python, folder, "predict", target, str(positive), seed), header=None)[0]
        row[version] = float(roc_auc_score(frame[target][known:] == positive, answers))
    return row


def compare(other: str, most: int, splits: int, only: list[str]) -> Iterator[dict[str, object]]:
    versions = {"here": sys.executable, "other": other}
    with tempfile.TemporaryDirectory() as folder:
        for task, names in ((imputation, FILLED), (prediction, TARGETS)):
            for name in names:
                for seed in range(splits if name == "titanic" else 1) if name in only else ():
                    yield task(name, versions, most, seed, Path(folder))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("other", help="the interpreter of the other version")
    parser.add_argument("--rows", type=int, default=10_000, help="the largest number of rows of a table")
    parser.add_argument("--splits", type=int, default=10, help="how often titanic is split; the others are once")
    parser.add_argument("--tables", default="adult,beijing,shoppers,titanic")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args()
    results: dict[tuple[str, str], list[dict[str, object]]] = {}
    for row in compare(options.other, options.rows, options.splits, options.tables.split(",")):
        results.setdefault((str(row["table"]), str(row["task"])), []).append(row)
        print(json.dumps(row) if options.json else "  ".join(map(text, row.items())), flush=True)
    for (table, task), rows in results.items() if not options.json else ():
        means = {
            key: float(np.mean([row[key] for row in rows])) for key in ("here", "other", "neighbors") if key in rows[0]
        }
        print(f"{table}, {task}, mean of {len(rows)}:", "  ".join(map(text, means.items())))


def text(entry: tuple[str, object]) -> str:
    name, value = entry
    return f"{name} {value:.4g}" if isinstance(value, float) else f"{name} {value}"


if __name__ == "__main__":
    if sys.argv[1:2] == ["learn"]:
        task, rows, others, target, positive, seed, answers = sys.argv[2:]
        learn(task, rows, others, target, positive, int(seed), answers)
    else:
        main()
