"""Kinds of artifacts: which runs each rests on, how they are trained, and what they show."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from ..data import datasets as benchmarks
from ..data import images
from . import beyond, reports, svhn, tables
from .records import Records
from .reports import Report, ReportColumn, Row
from .runs import AnyRun, Run, Train, train
from .settings import METHODS, PLATEAUS


class Artifact(NamedTuple):
    """A table, or the curves of a figure, and the data sets, methods and number of seeds that it rests on."""

    title: str
    datasets: tuple[str, ...]
    methods: tuple[str, ...]
    seeds: int
    rows: Callable[[Records, Sequence[str]], list[Row]]
    columns: tuple[ReportColumn, ...]

    def default_datasets(self, data_dir: str | None) -> Sequence[str]:
        """The data sets to train."""
        return self.datasets

    def prepare(self, runs: Sequence[AnyRun], records: Records, data_dir: str | None) -> Train:
        """Makes sure that all data are there, and returns the function that trains a run."""
        for name in dict.fromkeys(run.dataset for run in runs):
            benchmarks.load_dataset(name, data_dir=data_dir)
        return train

    def missing_runs(self, records: Records, datasets: Sequence[str], seeds: int) -> Sequence[AnyRun]:
        """The runs to train next; once these are there, ask again."""
        return [
            run
            for dataset in datasets
            for method in self.methods
            for run in records.missing_runs(dataset, method, seeds)
        ]

    def later_runs(self, records: Records, datasets: Sequence[str], seeds: int) -> Sequence[AnyRun]:
        """Runs like those that follow: the other seeds of the best settings, which are not known yet."""
        return [
            Run(dataset, METHODS[method][0], seed)
            for dataset in datasets
            for method in self.methods
            if records.best_setting(dataset, method) is None
            for seed in range(1, seeds)
        ]

    def report(self, records: Records, datasets: Sequence[str]) -> Report:
        """The report of the records that exist."""
        return Report(self.title, self.columns, self.rows(records, datasets))


class StartArtifact(Artifact):
    """Two starts of the same networks, by default on the data sets where the plain one fails."""

    def default_datasets(self, data_dir: str | None) -> Sequence[str]:
        return PLATEAUS


class ClusterArtifact(Artifact):
    """Figure 6: each run is a cluster of images. Without the files of all of SVHN, smaller sets take its place."""

    kind = svhn.ClusterRun

    def default_datasets(self, data_dir: str | None) -> Sequence[str]:
        return ("svhn",) if images.find("svhn", data_dir) else svhn.SCALED

    def prepare(self, runs: Sequence[AnyRun], records: Records, data_dir: str | None) -> Train:
        names = dict.fromkeys(run.dataset for run in runs)
        return partial(svhn.train, labels={name: svhn.find_clusters(name, records.folder, data_dir) for name in names})

    def missing_runs(self, records: Records, datasets: Sequence[str], seeds: int) -> Sequence[AnyRun]:
        pairs = [(dataset, seed) for dataset in datasets for seed in range(seeds)]
        runs = (run for dataset, seed in pairs for run in svhn.cluster_runs(dataset, seed, self.kind))
        return [run for run in runs if run not in records]

    def later_runs(self, records: Records, datasets: Sequence[str], seeds: int) -> Sequence[AnyRun]:
        return []

    def report(self, records: Records, datasets: Sequence[str]) -> Report:
        report = super().report(records, datasets)
        return report._replace(summary=svhn.summaries(report.rows))


class AnnealedArtifact(ClusterArtifact):
    """Figure 6 with learning rates that fall to 0, by default on the scaled-down SVHN."""

    kind = svhn.AnnealedRun

    def default_datasets(self, data_dir: str | None) -> Sequence[str]:
        return ("svhn5000",)


class DrawsArtifact(Artifact):
    """Table 3 on further draws of its rows, as many as there are seeds."""

    def missing_runs(self, records: Records, datasets: Sequence[str], seeds: int) -> Sequence[AnyRun]:
        return [run for run in reports.draw_runs(seeds) if run not in records]

    def later_runs(self, records: Records, datasets: Sequence[str], seeds: int) -> Sequence[AnyRun]:
        return []


class BeyondArtifact(Artifact):
    """Learned structures, in settings that the paper does not have; once they are trained, ensembles of the best ones."""

    def prepare(self, runs: Sequence[AnyRun], records: Records, data_dir: str | None) -> Train:
        super().prepare(runs, records, data_dir)
        ensembles = [run for run in runs if run.setting == beyond.ENSEMBLE]
        leaders = {(run.dataset, run.seed): beyond.leaders(records, run.dataset, run.seed) for run in ensembles}
        return partial(beyond.train, leaders=leaders)

    def missing_runs(self, records: Records, datasets: Sequence[str], seeds: int) -> Sequence[AnyRun]:
        single = [run for run in beyond.runs(datasets, seeds) if run not in records]
        return single or [run for run in beyond.ensemble_runs(datasets, seeds) if run not in records]

    def later_runs(self, records: Records, datasets: Sequence[str], seeds: int) -> Sequence[AnyRun]:
        ensembles = [run for run in beyond.ensemble_runs(datasets, seeds) if run not in records]
        return [] if all(run in records for run in beyond.runs(datasets, seeds)) else ensembles

    def report(self, records: Records, datasets: Sequence[str]) -> Report:
        """Without the columns of what is not there yet."""
        report = super().report(records, datasets)
        known = [c for c in self.columns if any(row.get(c.key) is not None for row in report.rows)]
        return report._replace(columns=known) if report.rows else report


class TablesArtifact(Artifact):
    """Sampled rows of real tables, beside the published generators."""

    def prepare(self, runs: Sequence[AnyRun], records: Records, data_dir: str | None) -> Train:
        try:
            from . import table_quality  # noqa: F401
        except ImportError as error:
            raise ValueError("sdmetrics and xgboost are not installed: pip install 'hyperspn[tables]'") from error
        for name in dict.fromkeys(run.dataset for run in runs):
            tables.load_parts(name, data_dir=data_dir)
        return tables.train

    def missing_runs(self, records: Records, datasets: Sequence[str], seeds: int) -> Sequence[AnyRun]:
        return [run for run in tables.runs(datasets, seeds) if run not in records]

    def later_runs(self, records: Records, datasets: Sequence[str], seeds: int) -> Sequence[AnyRun]:
        return []

    def report(self, records: Records, datasets: Sequence[str]) -> Report:
        report = super().report(records, datasets)
        return report._replace(others=tables.published({row["dataset"] for row in report.rows}))
