"""Artifacts: the tables and figures that can be reproduced, what each rests on, and what it shows."""

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
from .settings import AMAZON, BOTH_METHODS, HAND_CRAFTED, METHODS, SETTINGS, TWENTY

DATASET_COLUMNS = (ReportColumn("name", "data set"), ReportColumn("variables", "n"))
OUR_COLUMNS = (
    ReportColumn("weight_decay", "weight decay", group="ours"),
    ReportColumn("hyperspn", "HyperSPN", group="ours"),
)
PUBLISHED_COLUMNS = (
    ReportColumn("weight_decay_published", "published weight decay", group="published"),
    ReportColumn("hyperspn_published", "published HyperSPN", group="published"),
)
SEED_COLUMNS = (
    ReportColumn("weight_decay_seeds", "seeds, weight decay"),
    ReportColumn("hyperspn_seeds", "seeds, HyperSPN"),
)
SETTING_COLUMNS = (
    ReportColumn("weight_decay_chosen", "chosen w"),
    ReportColumn("weight_decay_chosen_published", "published w"),
    ReportColumn("hyperspn_chosen", "chosen h"),
    ReportColumn("hyperspn_chosen_published", "published h"),
)
SIZE_COLUMNS = (
    ReportColumn("weight_decay_parameters", "parameters, weight decay"),
    ReportColumn("hyperspn_parameters", "parameters, HyperSPN"),
)
SWEEP_COLUMNS = tuple(
    ReportColumn(setting, f"{symbol} = {SETTINGS[setting].varied}", group=method)
    for method, symbol in zip(BOTH_METHODS, "wh", strict=True)
    for setting in METHODS[method]
)


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


class ClusterArtifact(Artifact):
    """Figure 6: each run is a cluster of images. Without the files of all of SVHN, smaller sets take its place."""

    def default_datasets(self, data_dir: str | None) -> Sequence[str]:
        return ("svhn",) if images.find("svhn", data_dir) else svhn.SCALED

    def prepare(self, runs: Sequence[AnyRun], records: Records, data_dir: str | None) -> Train:
        names = dict.fromkeys(run.dataset for run in runs)
        return partial(svhn.train, labels={name: svhn.find_clusters(name, records.folder, data_dir) for name in names})

    def missing_runs(self, records: Records, datasets: Sequence[str], seeds: int) -> Sequence[AnyRun]:
        runs = (run for dataset in datasets for seed in range(seeds) for run in svhn.cluster_runs(dataset, seed))
        return [run for run in runs if run not in records]

    def later_runs(self, records: Records, datasets: Sequence[str], seeds: int) -> Sequence[AnyRun]:
        return []

    def report(self, records: Records, datasets: Sequence[str]) -> Report:
        report = super().report(records, datasets)
        return report._replace(summary=svhn.summaries(report.rows))


class BeyondArtifact(Artifact):
    """Learned structures, in settings that the paper does not have."""

    def prepare(self, runs: Sequence[AnyRun], records: Records, data_dir: str | None) -> Train:
        super().prepare(runs, records, data_dir)
        return beyond.train

    def missing_runs(self, records: Records, datasets: Sequence[str], seeds: int) -> Sequence[AnyRun]:
        return [run for run in beyond.runs(datasets, seeds) if run not in records]

    def later_runs(self, records: Records, datasets: Sequence[str], seeds: int) -> Sequence[AnyRun]:
        return []


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


ARTIFACTS: dict[str, Artifact] = {
    "table1": Artifact(
        "Table 1: Twenty Datasets, mean test log-likelihood",
        TWENTY,
        BOTH_METHODS,
        3,
        reports.likelihoods,
        (
            *DATASET_COLUMNS,
            *OUR_COLUMNS,
            *PUBLISHED_COLUMNS,
            ReportColumn("einet_adam", "EiNet, Adam"),
            ReportColumn("ratspn_sem", "RAT-SPN, sEM"),
            *SEED_COLUMNS,
            *SIZE_COLUMNS,
            *SETTING_COLUMNS,
        ),
    ),
    "table2": Artifact(
        "Table 2: Amazon Baby Registries, mean test log-likelihood",
        AMAZON,
        BOTH_METHODS,
        3,
        reports.likelihoods,
        (
            *DATASET_COLUMNS,
            *OUR_COLUMNS,
            *PUBLISHED_COLUMNS,
            ReportColumn("einet_sem", "EiNet, sEM"),
            *SEED_COLUMNS,
            *SIZE_COLUMNS,
            *SETTING_COLUMNS,
        ),
    ),
    "table3": Artifact(
        "Table 3: hand-crafted data, mean test log-likelihood ± standard deviation over seeds",
        (HAND_CRAFTED,),
        tuple(METHODS),
        3,
        reports.hand_crafted,
        (
            ReportColumn("model", "model"),
            ReportColumn("log_likelihood", "log-likelihood", spread=True),
            ReportColumn("log_likelihood_published", "published", spread=True),
            ReportColumn("parameters", "parameters"),
            ReportColumn("parameters_published", "published"),
            ReportColumn("seeds", "seeds"),
            ReportColumn("chosen", "chosen w or h"),
        ),
    ),
    "table4": Artifact(
        "Table 4: settings",
        (),
        (),
        0,
        reports.hyperparameters,
        (
            ReportColumn("option", "option"),
            ReportColumn("weight_decay", "SPN, weight decay"),
            ReportColumn("hyperspn", "HyperSPN"),
        ),
    ),
    "table5": Artifact(
        "Table 5: test log-likelihood by weight decay w and by h, first seed",
        TWENTY + AMAZON,
        BOTH_METHODS,
        1,
        reports.sweeps,
        (
            *DATASET_COLUMNS,
            *SWEEP_COLUMNS,
            *(
                ReportColumn(f"{key}_published", f"published {label}", group=f"{group} published")
                for key, label, _, group, _ in SWEEP_COLUMNS
            ),
            *SETTING_COLUMNS,
        ),
    ),
    "table6": Artifact(
        "Table 6: sample quality by Parzen windows, in the authors' protocol and as a density estimate",
        TWENTY + AMAZON,
        BOTH_METHODS,
        3,
        reports.sample_quality,
        (
            *DATASET_COLUMNS,
            *(column._replace(digits=3) for column in (*OUR_COLUMNS, *PUBLISHED_COLUMNS)),
            ReportColumn("weight_decay_proper", "weight decay, density", group="density"),
            ReportColumn("hyperspn_proper", "HyperSPN, density", group="density"),
            ReportColumn("weight_decay_bandwidth", "bandwidth, weight decay"),
            ReportColumn("hyperspn_bandwidth", "bandwidth, HyperSPN"),
        ),
    ),
    "table7": Artifact(
        "Table 7: mean test log-likelihood ± standard deviation over seeds, ⋆ where p < 0.05",
        TWENTY + AMAZON,
        BOTH_METHODS,
        3,
        reports.likelihoods,
        (
            *DATASET_COLUMNS,
            *(column._replace(spread=True) for column in (*OUR_COLUMNS, *PUBLISHED_COLUMNS)),
            *SEED_COLUMNS,
        ),
    ),
    "figure5": Artifact(
        "Figure 5: training curves",
        ("plants", "pumsb_star"),
        tuple(METHODS),
        1,
        reports.curves,
        (
            ReportColumn("dataset", "data set"),
            ReportColumn("method", "method"),
            ReportColumn("chosen", "chosen w or h"),
        ),
    ),
    "figure6": ClusterArtifact(
        "Figure 6: test log-likelihood by cluster of images, in nats; svhn5000 and mnist are scaled-down versions",
        tuple(svhn.CLUSTER_SETTINGS),
        BOTH_METHODS,
        1,
        svhn.improvements,
        (
            ReportColumn("dataset", "data set"),
            ReportColumn("cluster", "cluster"),
            ReportColumn("size", "size"),
            *(column._replace(group="") for column in OUR_COLUMNS),
            ReportColumn("improvement", "improvement", spread=True),
            ReportColumn("improved", "share improved"),
            ReportColumn("improvement_published", "published, all of SVHN", spread=True),
            ReportColumn("improved_published", "published share"),
            ReportColumn("weight_decay_bits", "density bits/dim, weight decay", digits=3),
            ReportColumn("hyperspn_bits", "density bits/dim, HyperSPN", digits=3),
        ),
    ),
    "beyond": BeyondArtifact(
        "Beyond the paper: test log-likelihood of what is best on validation, and its learnable parameters",
        (*TWENTY, *AMAZON, HAND_CRAFTED),
        (),
        1,
        beyond.comparison,
        (
            ReportColumn("dataset", "data set"),
            ReportColumn("published", "published HyperSPN", group="best"),
            ReportColumn("published_params", "parameters"),
            ReportColumn("best", "ours, at most as many", group="best"),
            ReportColumn("best_params", "parameters"),
            ReportColumn("half", "ours, at most half"),
            ReportColumn("half_params", "parameters"),
            ReportColumn("unlimited", "ours, any number"),
            ReportColumn("unlimited_params", "parameters"),
            ReportColumn("random", "random trees"),
            ReportColumn("learned", "learned order"),
            ReportColumn("chow_liu", "Chow-Liu"),
            ReportColumn("factored", "factored"),
            ReportColumn("best_tractable", "best tractable published"),
            ReportColumn("by", "by"),
        ),
    ),
    "tables": TablesArtifact(
        "Tables: sampled rows beside those of the published generators, whose times are on GPUs",
        tuple(tables.TABLES),
        tables.CHOSEN_BY,
        5,
        tables.means,
        (
            ReportColumn("dataset", "data set"),
            ReportColumn("method", "method"),
            ReportColumn("c2st_xgboost", "C2ST, XGBoost", digits=3, spread=True),
            ReportColumn("c2st_logistic", "C2ST, logistic", digits=3),
            ReportColumn("c2st_xgboost_held_out", "C2ST, XGBoost, held-out rows", digits=3),
            ReportColumn("c2st_xgboost_training", "as many training rows", digits=3),
            ReportColumn("shape", "Shape", digits=3),
            ReportColumn("trend", "Trend", digits=3),
            ReportColumn("wnmis", "wNMIS", digits=3),
            ReportColumn("utility", "utility (AUC; beijing: RMSE)", digits=3),
            ReportColumn("copies", "copies", digits=3),
            ReportColumn("copies_held_out", "copies, held-out rows", digits=3),
            ReportColumn("test_log_likelihood", "test log-likelihood"),
            ReportColumn("parameters", "parameters"),
            ReportColumn("train_seconds", "seconds to train", digits=0),
            ReportColumn("sample_seconds", "to sample", digits=1),
            ReportColumn("seeds", "seeds"),
            ReportColumn("recipe", "recipe"),
        ),
    ),
}
