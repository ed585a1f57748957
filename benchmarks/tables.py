"""The estimators beside those of scikit-learn and others, on real tables: imputation, outliers, prediction.

    python benchmarks/tables.py                                      # everything, for hours; run it again to resume
    python benchmarks/tables.py --tables titanic --splits 1          # a part of it
    python benchmarks/tables.py --rows 3000 --out /tmp/small         # smaller, elsewhere
    python benchmarks/tables.py --report                             # a table of the records

Each (table, split, task) is a record of its own in ``results/estimators``. All methods see the same rows. Trees read ordinal
codes, neighbors and linear models one-hot codes; numbers are standardized. What is not installed is left out, and said:
``pip install miceforest pyod`` for all of them.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import time
import warnings

from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    IsolationForest,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.impute import IterativeImputer, KNNImputer, SimpleImputer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import log_loss, r2_score, roc_auc_score
from sklearn.neighbors import LocalOutlierFactor
from sklearn.pipeline import make_pipeline

from hyperspn import HyperSPNClassifier, HyperSPNImputer, HyperSPNOutlierDetector, HyperSPNRegressor, files
from hyperspn.data.tables import find_table

TARGETS = {"adult": "income", "shoppers": "Revenue", "titanic": "survived", "magic": "class", "beijing": "pm2.5"}
TASKS = ("impute-10", "impute-30", "impute-50", "impute-logistic", "outliers", "predict", "predict-holes")
MOST_TEST = 20_000
IMPUTED_TEST = 2000
OURS = "hyperspn"
ROOT = Path(__file__).parents[1]

Frame = pd.DataFrame
Scores = dict[str, dict[str, float]]


def read(name: str) -> Frame:
    """A table without row numbers; numbers stay numbers, all else becomes text, 0 and 1 too."""
    paths = find_table(name)
    table = pd.concat([pd.read_csv(path, na_values=["?"]) for path in paths.values()], ignore_index=True)
    table = table.drop(columns="No", errors="ignore")
    if name == "beijing":
        table = table.dropna(subset=["pm2.5"])
    for column in table:
        if table[column].dtype.kind not in "if" or table[column].nunique() <= 2:
            known = table[column].dropna().astype(str)
            table[column] = known.reindex(table.index).astype(object).where(table[column].notna(), None)
    return table


def split(name: str, seed: int, most: int) -> tuple[Frame, Frame]:
    """Training and test rows: four fifths and one fifth, at most so many."""
    table = read(name).sample(frac=1, random_state=seed).reset_index(drop=True)
    cut = len(table) * 4 // 5
    return table[:cut][:most], table[cut:][:MOST_TEST].reset_index(drop=True)


class Codes:
    """A table as numbers for those who need them: standardized, with ordinal or one-hot codes, NaN where missing."""

    def __init__(self, train: Frame, one_hot: bool) -> None:
        self.one_hot = one_hot
        self.names = list(train)
        self.levels = {name: sorted(train[name].dropna().unique()) for name in train if train[name].dtype == object}
        self.center = {
            name: (train[name].mean(), train[name].std() or 1.0) for name in train if name not in self.levels
        }

    @property
    def owners(self) -> list[str]:
        """The column of the table to which each column of codes belongs."""
        widths = {name: len(self.levels[name]) if self.one_hot and name in self.levels else 1 for name in self.names}
        return [name for name in self.names for _ in range(widths[name])]

    def encode(self, table: Frame) -> np.ndarray:
        columns: list[np.ndarray] = []
        for name in self.names:
            if name not in self.levels:
                mean, std = self.center[name]
                columns.append(((table[name].astype(float) - mean) / std).to_numpy())
                continue
            codes = table[name].map({level: i for i, level in enumerate(self.levels[name])}).astype(float).to_numpy()
            hot = (codes[:, None] == np.arange(len(self.levels[name]))) + 0.0 * codes[:, None]
            columns += [*hot.T] if self.one_hot else [codes]
        return np.stack(columns, 1)

    def decode(self, x: np.ndarray) -> Frame:
        decoded, owners = {}, np.array(self.owners)
        for name in self.names:
            own = x[:, owners == name]
            if name not in self.levels:
                mean, std = self.center[name]
                decoded[name] = own[:, 0] * std + mean
            else:
                most = len(self.levels[name]) - 1
                codes = own.argmax(1) if self.one_hot else own[:, 0].round().clip(0, most).astype(int)
                decoded[name] = np.array(self.levels[name], object)[codes]
        return pd.DataFrame(decoded)


def holes(table: Frame, how: str, generator: np.random.Generator) -> np.ndarray:
    """Where to make holes, (rows, columns): at random, or by a logistic model of one complete column."""
    if how != "logistic":
        return generator.random(table.shape) < int(how) / 100
    complete = [name for name in table if table[name].dtype != object and table[name].notna().all()]
    driver = complete[0]
    z = (table[driver].rank(pct=True).to_numpy() - 0.5) * 4
    offset = np.log(0.3 / 0.7)
    chance = 1 / (1 + np.exp(-(z + offset)))
    chance *= 0.3 / chance.mean()
    hidden = generator.random(table.shape) < chance[:, None]
    hidden[:, list(table).index(driver)] = False
    return hidden


def impute(train: Frame, test: Frame, how: str, seed: int, own: dict[str, Any]) -> Scores:
    generator = np.random.default_rng(seed)
    test = test[:IMPUTED_TEST]
    train_holes, hidden = holes(train, how, generator), holes(test, how, generator) & test.notna().to_numpy()
    known, asked = train.mask(train_holes), test.mask(hidden)
    scores: Scores = {}
    ours = HyperSPNImputer(random_state=seed, **own).fit(known)
    scores[OURS] = imputation(test, ours.transform(asked), hidden) | coverage(ours, train, test, asked, hidden)
    opponents: dict[str, tuple[Any, bool]] = {
        "IterativeImputer, BayesianRidge": (IterativeImputer(random_state=seed), True),
        "IterativeImputer, HistGradientBoosting": (
            IterativeImputer(HistGradientBoostingRegressor(random_state=seed), random_state=seed),
            False,
        ),
        "KNNImputer": (KNNImputer(), True),
    }
    for name, (opponent, one_hot) in opponents.items():
        codes = Codes(train, one_hot)
        opponent.fit(codes.encode(known))
        scores[name] = imputation(test, codes.decode(opponent.transform(codes.encode(asked))), hidden)
    if installed("miceforest"):
        scores["miceforest"] = imputation(test, mice(known, asked, seed), hidden)
    return scores


def mice(known: Frame, asked: Frame, seed: int) -> Frame:
    import miceforest

    codes = Codes(known, one_hot=False)
    frames = [pd.DataFrame(codes.encode(table), columns=codes.names) for table in (known, asked)]
    for frame in frames:
        for name in codes.levels:
            frame[name] = frame[name].astype(pd.CategoricalDtype(np.arange(float(len(codes.levels[name])))))
    kernel = miceforest.ImputationKernel(frames[0], num_datasets=1, random_state=seed)
    kernel.mice(5)
    completed = kernel.impute_new_data(frames[1]).complete_data(0)
    return codes.decode(completed.astype(float).to_numpy())


def imputation(truth: Frame, filled: Frame, hidden: np.ndarray) -> dict[str, float]:
    """The root mean squared error in standard deviations and the accuracy, each a mean over columns."""
    errors, hits = [], []
    for i, name in enumerate(truth):
        rows = hidden[:, i]
        if rows.any() and truth[name].dtype != object:
            far = filled[name][rows].astype(float) - truth[name][rows].astype(float)
            errors.append(float(np.sqrt((far**2).mean()) / truth[name].std()))
        elif rows.any():
            hits.append(float((filled[name][rows].astype(str) == truth[name][rows].astype(str)).mean()))
    return {"nrmse": float(np.mean(errors)), **({"accuracy": float(np.mean(hits))} if hits else {})}


def coverage(imputer: Any, train: Frame, test: Frame, asked: Frame, hidden: np.ndarray) -> dict[str, float]:
    """Of hidden numbers in columns without a frequent value, how many there are and how many are in 90 % intervals."""
    ends = imputer.intervals(asked, coverage=0.9)
    cells = inside = 0
    for i, name in enumerate(test):
        if test[name].dtype != object and train[name].value_counts(normalize=True).max() <= 0.05:
            rows = hidden[:, i]
            low, high, value = (
                column[rows].astype(float) for column in (ends[f"{name}.low"], ends[f"{name}.high"], test[name])
            )
            cells, inside = cells + int(rows.sum()), inside + int(((low <= value) & (value <= high)).sum())
    return {"interval cells": cells, "cells in their interval": inside}


def outliers(train: Frame, test: Frame, seed: int, own: dict[str, Any]) -> Scores:
    """One cell of every other row is swapped for that of another row, with another value."""
    generator = np.random.default_rng(seed)
    test = test[:4000].reset_index(drop=True)
    changed, column_of = swap(test, generator)
    is_strange = column_of >= 0
    ours = HyperSPNOutlierDetector(random_state=seed, **own).fit(train)
    cells = ours.explain(changed).astype(float).to_numpy()
    scores = {OURS: {"auc": auc(is_strange, -ours.score_samples(changed)), "named": named(cells, column_of)}}
    codes = Codes(train, one_hot=True)
    known = SimpleImputer().fit(codes.encode(train))
    x, asked = known.transform(codes.encode(train)), known.transform(codes.encode(changed))
    for name, detector in {
        "IsolationForest": IsolationForest(random_state=seed),
        "LocalOutlierFactor": LocalOutlierFactor(novelty=True),
    }.items():
        scores[name] = {"auc": auc(is_strange, -detector.fit(x).score_samples(asked))}
    if installed("pyod"):
        from pyod.models.copod import COPOD
        from pyod.models.ecod import ECOD

        for name, detector in {"ECOD": ECOD(), "COPOD": COPOD()}.items():
            scores[name] = {"auc": auc(is_strange, detector.fit(x).decision_function(asked))}
            if name == "ECOD":
                own_scores = (
                    pd.DataFrame(detector.O[-len(asked) :].T).groupby(codes.owners, sort=False).max().T.to_numpy()
                )
                scores[name]["named"] = named(own_scores, column_of)
    return scores


def swap(table: Frame, generator: np.random.Generator) -> tuple[Frame, np.ndarray]:
    """Changed rows, and the number of the column that was changed in each, -1 for none."""
    changed, column_of = table.copy(), np.full(len(table), -1)
    for row in range(0, len(table), 2):
        column = int(generator.choice(np.flatnonzero(table.iloc[row].notna())))
        others = table.iloc[:, column].dropna()
        others = others[others != table.iat[row, column]]
        if len(others):
            changed.iat[row, column], column_of[row] = others.iloc[generator.integers(len(others))], column
    return changed, column_of


def auc(truth: np.ndarray, score: np.ndarray) -> float:
    return float(roc_auc_score(truth, score))


def named(cells: np.ndarray, column_of: np.ndarray) -> float:
    """How often the swapped cell has the highest score of its row."""
    rows = column_of >= 0
    return float((np.nan_to_num(cells[rows], nan=-np.inf).argmax(1) == column_of[rows]).mean())


def predict(train: Frame, test: Frame, target: str, seed: int, own: dict[str, Any], share: float = 0.0) -> Scores:
    """Predicts the target, where a share of the cells of test rows is missing."""
    y, truth = train[target], test[target]
    x, asked = train.drop(columns=target), test.drop(columns=target)
    if share:
        asked = asked.mask(np.random.default_rng(seed).random(asked.shape) < share)
    is_class = y.dtype == object
    kind = HyperSPNClassifier if is_class else HyperSPNRegressor
    start = time.perf_counter()
    ours = kind(random_state=seed, discriminative_weight="auto", **own).fit(x, y)
    fitted = time.perf_counter() - start
    scores = {OURS: prediction(ours, asked, truth) | {"weight": ours.discriminative_weight_, "seconds": fitted}}
    scores[OURS] |= {"rate": rate(ours, asked)} if is_class else {}
    trees, linear = Codes(x, one_hot=False), Codes(x, one_hot=True)
    categories = [name in trees.levels and len(trees.levels[name]) <= 255 for name in trees.names]
    forest, line = (RandomForestClassifier, LogisticRegression) if is_class else (RandomForestRegressor, Ridge)
    boosting = HistGradientBoostingClassifier if is_class else HistGradientBoostingRegressor
    opponents: dict[str, tuple[Any, Codes]] = {
        "HistGradientBoosting": (boosting(categorical_features=categories, random_state=seed), trees),
        "RandomForest, imputed": (
            make_pipeline(IterativeImputer(random_state=seed), forest(random_state=seed, n_jobs=-1)),
            trees,
        ),
        "linear, imputed": (make_pipeline(SimpleImputer(), line(**({"max_iter": 1000} if is_class else {}))), linear),
    }
    for name, (opponent, codes) in opponents.items():
        scores[name] = prediction(opponent.fit(codes.encode(x), y), codes.encode(asked), truth)
    return scores


def prediction(model: Any, x: Any, truth: pd.Series) -> dict[str, float]:
    if truth.dtype != object:
        return {"r2": float(r2_score(truth, model.predict(x)))}
    p = model.predict_proba(x)
    is_last = (truth == model.classes_[-1]).to_numpy()
    order = np.array_split(p[:, -1].argsort(kind="stable"), 15)
    gaps = [len(part) * abs(p[part, -1].mean() - is_last[part].mean()) for part in order]
    return {
        "auc": auc(is_last, p[:, -1]),
        "log loss": float(log_loss(is_last, p[:, -1])),
        "calibration error": float(sum(gaps) / len(truth)),
    }


def rate(model: Any, x: Frame) -> float:
    """How many rows `predict_proba` answers while the kernel's own upward pass goes over one."""
    rows = model.schema_.encode(model._table(x))
    seconds = {"forward": 0.0, "predict": 0.0}
    for _ in range(3):
        for name, call in (
            ("forward", lambda: model.circuit_.log_prob(rows)),
            ("predict", lambda: model.predict_proba(x)),
        ):
            start = time.perf_counter()
            call()
            seconds[name] += time.perf_counter() - start
    return seconds["forward"] / seconds["predict"]


def installed(package: str) -> bool:
    return importlib.util.find_spec(package) is not None


def run(name: str, seed: int, task: str, most: int, own: dict[str, Any]) -> dict[str, Any]:
    train, test = split(name, seed, most)
    kind, _, how = task.partition("-")
    calls: dict[str, Callable[[], Scores]] = {
        "impute": lambda: impute(train, test, how, seed, own),
        "outliers": lambda: outliers(train, test, seed, own),
        "predict": lambda: predict(train, test, TARGETS[name], seed, own, 0.3 if how else 0.0),
    }
    facts = {"table": name, "split": seed, "task": task, "rows": len(train), "test rows": len(test), **own}
    return {**facts, "scores": calls[kind]()}


def records(folder: Path) -> Iterator[dict[str, Any]]:
    for path in sorted(folder.glob("*.json")):
        yield json.loads(path.read_text())


def report(folder: Path) -> str:
    """Means over tables and splits, and for imputation mean ranks."""
    found: dict[tuple[str, str, str], list[float]] = defaultdict(list)
    for record in records(folder):
        task = record["task"]
        for method, values in record["scores"].items():
            for what, value in values.items():
                found[task, what, method].append(value)
        for what, sign in (("nrmse", 1), ("accuracy", -1)):
            known = {method: sign * values[what] for method, values in record["scores"].items() if what in values}
            for place, method in enumerate(sorted(known, key=lambda method: known[method])):
                found[task, f"rank by {what}", method].append(place + 1)
    methods = list(dict.fromkeys(method for _, _, method in found))
    lines = [["task", "what", *methods], ["---"] * (len(methods) + 2)]
    for task, what in dict.fromkeys((task, what) for task, what, _ in found):
        cells = [found.get((task, what, method)) for method in methods]
        lines.append([task, what, *("" if cell is None else f"{np.mean(cell):.3f}" for cell in cells)])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", nargs="+", default=list(TARGETS), choices=list(TARGETS))
    parser.add_argument("--tasks", nargs="+", default=list(TASKS), choices=TASKS)
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--rows", type=int, default=10_000, help="the most training rows")
    parser.add_argument("--recipe", default="auto", help="of our estimators")
    parser.add_argument("--out", type=Path, default=ROOT / "results" / "estimators")
    parser.add_argument("--report", action="store_true", help="only print the table of the records")
    arguments = parser.parse_args()
    for package in ("miceforest", "pyod"):
        if not installed(package) and not arguments.report:
            print(f"{package} is not installed: it is left out")
    arguments.out.mkdir(parents=True, exist_ok=True)
    wanted = [(t, s, k) for s in range(arguments.splits) for t in arguments.tables for k in arguments.tasks]
    for table, seed, task in [] if arguments.report else wanted:
        path = arguments.out / f"{table}-{seed}-{task}.json"
        if not path.exists():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                record = run(table, seed, task, arguments.rows, {"recipe": arguments.recipe})
            files.write(path, (json.dumps(record, indent=1) + "\n").encode())
            print(table, seed, task, json.dumps(record["scores"][OURS]), flush=True)
    print(report(arguments.out))


if __name__ == "__main__":
    main()
