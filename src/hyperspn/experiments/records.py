"""Records: one JSON file for each finished run, which is never trained again."""

from __future__ import annotations

import json

from math import isfinite
from pathlib import Path

from ..files import write
from .runs import AnyRun, Record, Run
from .settings import METHODS


class Records:
    """The records in a folder, by run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __contains__(self, run: AnyRun) -> bool:
        return (self.folder / run.path).is_file()

    def __getitem__(self, run: AnyRun) -> Record:
        path = self.folder / run.path
        try:
            record = json.loads(path.read_text())
            belongs = all(record[name] == value for name, value in run._asdict().items())
            is_complete = belongs and isfinite(record["valid"] + record["test"])
        except (KeyError, TypeError, ValueError):
            is_complete = False
        if not is_complete:
            raise ValueError(f"the record {path} is damaged: remove or restore it")
        return record

    def keep(self, run: AnyRun, record: Record) -> None:
        path = self.folder / run.path
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = ",\n".join(f" {json.dumps(key)}: {json.dumps(value)}" for key, value in record.items())
        write(path, f"{{\n{lines}\n}}\n".encode())

    def best_setting(self, dataset: str, method: str) -> str | None:
        """The setting of a method with the best validation value for the first seed, once all of them are there."""
        runs = [Run(dataset, setting, 0) for setting in METHODS[method]]
        if not all(run in self for run in runs):
            return None
        return max(runs, key=lambda run: self[run]["valid"]).setting

    def of_best_setting(self, dataset: str, method: str) -> list[Record]:
        """The records of a method's best setting, one for each seed there is."""
        setting = self.best_setting(dataset, method)
        if setting is None:
            return []
        paths = (self.folder / dataset).glob(f"{setting}-seed*.json")
        seeds = sorted(int(path.stem.rpartition("seed")[2]) for path in paths)
        return [self[Run(dataset, setting, seed)] for seed in seeds]

    def missing_runs(self, dataset: str, method: str, seeds: int) -> list[Run]:
        """The runs to train next: all settings with the first seed, then the best one with the others."""
        best = self.best_setting(dataset, method)
        if best is None:
            runs = [Run(dataset, setting, 0) for setting in METHODS[method]]
        else:
            runs = [Run(dataset, best, seed) for seed in range(seeds)]
        return [run for run in runs if run not in self]
