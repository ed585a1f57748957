"""Tables: how well sampled rows of real tables pass for real ones, beside the published generators."""

from __future__ import annotations

import os

from collections.abc import Callable, Collection, Sequence
from functools import partial
from pathlib import Path
from statistics import fmean, stdev
from time import perf_counter
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import torch

from ..data.datasets import data_folder
from .published import PUBLISHED_TABLES
from .records import Records
from .reports import Row
from .runs import Record, surroundings

if TYPE_CHECKING:
    import pandas as pd

    from ..asking import TableModel

ChosenBy = Literal["likelihood", "samples"]

CHOSEN_BY: tuple[ChosenBy, ...] = ("likelihood", "samples")
HELD_OUT, VALIDATION = 0.1, 0.1
SECONDS_PER_VALUE = 5e-4
METRICS = (
    "c2st_xgboost",
    "c2st_logistic",
    "c2st_xgboost_held_out",
    "c2st_xgboost_training",
    "shape",
    "trend",
    "wnmis",
    "utility",
    "copies",
    "copies_held_out",
    "zeros_difference",
    "values_outside",
    "sample_seconds",
)


class RealTable(NamedTuple):
    """A table of the benchmark: how many values it has, and how it is read.

    Arguments:
        target: The column that is predicted.
        values: About how many cells are learned.
        file: The table, if it has not the name of the data set.
        split: Whether its test rows are a file of their own; otherwise a tenth of the rows is held out.
        holes: The text that marks a hole; otherwise all text is a value.
        missing_as_data: Whether holes are learned; otherwise rows with holes are left out.
        drop: Columns that are left out.
    """

    target: str
    values: int
    file: str = ""
    split: bool = False
    holes: str = ""
    missing_as_data: bool = False
    drop: Sequence[str] = ()


TABLES = {
    "adult": RealTable("income", 488_000, split=True),
    "beijing": RealTable("pm2.5", 451_000, holes="NA", drop=["No"]),
    "default": RealTable("has_default", 648_000),
    "magic": RealTable("class", 188_000),
    "shoppers": RealTable("Revenue", 200_000),
    "adult_holes": RealTable("income", 488_000, file="adult", split=True, holes="?", missing_as_data=True),
}


class TableParts(NamedTuple):
    """The rows of a table: to learn from, to choose by, and held out."""

    train: pd.DataFrame
    valid: pd.DataFrame
    test: pd.DataFrame


class TableRun(NamedTuple):
    """A table and a seed: one search, from which a model is chosen by likelihood and one by samples."""

    dataset: str
    seed: int

    @property
    def setting(self) -> str:
        return "tables"

    @property
    def path(self) -> Path:
        return Path(self.dataset, "tables", f"seed{self.seed}.json")

    @property
    def core_seconds(self) -> float:
        return TABLES[self.dataset].values * SECONDS_PER_VALUE


def runs(names: Sequence[str], seeds: int) -> list[TableRun]:
    return [TableRun(name, seed) for name in names for seed in range(seeds)]


def load_parts(name: str, seed: int = 0, data_dir: str | os.PathLike[str] | None = None) -> TableParts:
    """Reads a table of the benchmark; the seed determines which of the training rows are validation rows."""
    table = TABLES[name]
    file = table.file or name
    if table.split:
        rows, test = (_read(f"{file}.{part}", table, data_dir) for part in ("train", "test"))
    else:
        rows, test = _deal(_read(file, table, data_dir), HELD_OUT, seed=0)
    return TableParts(*_deal(rows, VALIDATION, seed), test)


def train(run: TableRun, folder: Path, data_dir: str | None, threads: int) -> tuple[TableRun, Record]:
    """Learns a table, and returns the record of a model and its samples for each way to choose one.

    The second choice is among the same trials, which are kept in the folder; it is often the same model.
    """
    from ..asking import fit_table

    torch.set_num_threads(threads)
    parts = load_parts(run.dataset, run.seed, data_dir)
    options: dict[str, Any] = {
        "missing_as_data": TABLES[run.dataset].missing_as_data,
        "folder": folder,
        "progress": False,
    }
    chosen: dict[str, Record] = {}
    seconds = 0.0
    for chosen_by, judge in (("likelihood", None), ("samples", judge_by_samples(parts.valid))):
        start = perf_counter()
        model = fit_table(parts.train, valid=parts.valid, seed=run.seed, **options, judge=judge)
        seconds += perf_counter() - start
        facts = _facts(model, parts)
        same = next((record for record in chosen.values() if all(record[name] == facts[name] for name in facts)), None)
        chosen[chosen_by] = {**facts, **(same or _sample_quality(model, run, parts)), "seconds": round(seconds, 1)}
    of_likelihood = {name: chosen["likelihood"][name] for name in ("valid", "test", "seconds")}
    return run, {**run._asdict(), **surroundings(threads), **of_likelihood, **chosen}


def judge_by_samples(valid: pd.DataFrame) -> Callable[[Any], float]:
    """A judge of models: how well their samples pass for validation rows, by the classifier two-sample test."""
    from ..learning.two_sample import c2st

    def judge(model: Any) -> float:
        model.frame = valid
        return c2st(valid, model.sample(len(valid)))

    return judge


def means(records: Records, names: Sequence[str]) -> list[Row]:
    """For each table, and each way to choose a recipe, the means over the seeds there are."""
    rows = []
    for name in names:
        seeds = sorted(int(path.stem[4:]) for path in (records.folder / name / "tables").glob("seed*.json"))
        of_table = [records[TableRun(name, seed)] for seed in seeds]
        rows += [
            _mean_row(name, chosen_by, [record[chosen_by] for record in of_table]) for chosen_by in CHOSEN_BY if seeds
        ]
    return rows


def published(names: Collection[str]) -> list[Row]:
    """The published generators on these tables."""
    return [row for row in PUBLISHED_TABLES if row["dataset"] in names]


def _read(stem: str, table: RealTable, data_dir: str | os.PathLike[str] | None) -> pd.DataFrame:
    import pandas as pd

    folder = data_folder(data_dir)
    paths = [] if folder is None else [folder / "tables" / f"{stem}.csv{end}" for end in (".gz", "")]
    path = next((path for path in paths if path.is_file()), None)
    if path is None:
        raise FileNotFoundError(
            f"no {stem}.csv or {stem}.csv.gz in the folder tables of the data directory or HYPERSPN_DATA"
        )
    rows = pd.read_csv(path, keep_default_na=False, na_values=[table.holes] if table.holes else [])
    rows = rows.drop(columns=list(table.drop))
    return rows if table.missing_as_data else rows.dropna(ignore_index=True)


def _deal(rows: pd.DataFrame, share: float, seed: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Deals rows at random into those that stay and a share of them."""
    stay, dealt = np.split(np.random.default_rng(seed).permutation(len(rows)), [round((1 - share) * len(rows))])
    return rows.iloc[stay].reset_index(drop=True), rows.iloc[dealt].reset_index(drop=True)


def _time(work: Callable[[], Any]) -> tuple[Any, float]:
    start = perf_counter()
    return work(), perf_counter() - start


def _sample_quality(model: TableModel, run: TableRun, parts: TableParts) -> Record:
    """How good the rows are that a model draws, as many as it was learned and chosen by."""
    from .table_quality import quality

    sampled, seconds = _time(partial(model.sample, len(parts.train) + len(parts.valid), seed=run.seed))
    return {"sample_seconds": round(seconds, 2), **quality(*parts, sampled, TABLES[run.dataset].target)}


def _facts(model: TableModel, parts: TableParts) -> Record:
    """What a model is, and its mean log-likelihoods of a row; rows that it holds for impossible are counted apart."""
    values = {
        "valid": np.asarray(model.log_likelihood(parts.valid)),
        "test": np.asarray(model.log_likelihood(parts.test)),
    }
    means = {part: float(rows[np.isfinite(rows)].mean()) for part, rows in values.items()}
    impossible = {part: int((~np.isfinite(rows)).sum()) for part, rows in values.items()}
    return {"recipe": str(model.recipe), "parameters": model.circuit.num_parameters, **means, "impossible": impossible}


def _mean_row(dataset: str, chosen_by: ChosenBy, records: list[Record]) -> Row:
    """The record that all seeds of a table and a choice make together."""
    keys = {name: name for name in METRICS} | {"test_log_likelihood": "test", "train_seconds": "seconds"}
    values = {name: [record[key] for record in records] for name, key in keys.items()}
    return {
        "dataset": dataset,
        "method": f"ours, chosen by {chosen_by}",
        "chosen_by": chosen_by,
        "recipe": " or ".join(dict.fromkeys(record["recipe"] for record in records)),
        "seeds": len(records),
        **{name: fmean(numbers) for name, numbers in values.items()},
        **{f"{name}_std": stdev(numbers) if len(numbers) > 1 else None for name, numbers in values.items()},
        "parameters": round(fmean(record["parameters"] for record in records)),
    }
