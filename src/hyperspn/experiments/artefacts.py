"""The tables and figures that can be reproduced: what each one rests on, and what it shows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from .. import datasets as benchmarks
from .. import images
from . import beyond, svhn, tables
from .runs import AnyRun, Records, Run, Train, train
from .settings import AMAZON, HAND_CRAFTED, METHODS, SETTINGS, TWENTY
from .tables import BOTH, Column, Row

ALL = (*BOTH, "spn_small")

DATASET = (Column("name", "data set"), Column("variables", "n"))
OURS = (Column("weight_decay", "weight decay", group="ours"), Column("hyperspn", "HyperSPN", group="ours"))
PUBLISHED = (
    Column("weight_decay_published", "published weight decay", group="published"),
    Column("hyperspn_published", "published HyperSPN", group="published"),
)
SEEDS = (Column("weight_decay_seeds", "seeds, weight decay"), Column("hyperspn_seeds", "seeds, HyperSPN"))
CHOSEN = (
    Column("weight_decay_chosen", "chosen w"),
    Column("weight_decay_chosen_published", "published w"),
    Column("hyperspn_chosen", "chosen h"),
    Column("hyperspn_chosen_published", "published h"),
)
PARAMETERS = (
    Column("weight_decay_parameters", "parameters, weight decay"),
    Column("hyperspn_parameters", "parameters, HyperSPN"),
)
SWEEP = tuple(
    Column(setting, f"{symbol} = {SETTINGS[setting].varied}", group=method)
    for method, symbol in zip(BOTH, "wh", strict=True)
    for setting in METHODS[method]
)


class Artefact(NamedTuple):
    """A table, or the curves of a figure, and the data sets, methods and number of seeds that it rests on."""

    title: str
    datasets: tuple[str, ...]
    methods: tuple[str, ...]
    seeds: int
    rows: Callable[[Records, Sequence[str]], list[Row]]
    columns: tuple[Column, ...]

    def default(self, data_dir: str | None) -> Sequence[str]:
        """The data sets to train."""
        return self.datasets

    def prepare(self, runs: Sequence[AnyRun], records: Records, data_dir: str | None) -> Train:
        """Makes sure that all data are at hand, and returns how a run is trained."""
        for name in dict.fromkeys(run.dataset for run in runs):
            benchmarks.load(name, data_dir=data_dir)
        return train

    def missing(self, records: Records, datasets: Sequence[str], seeds: int) -> Sequence[AnyRun]:
        """The runs to train next; once these are there, ask again."""
        return [
            run for dataset in datasets for method in self.methods for run in records.missing(dataset, method, seeds)
        ]

    def later(self, records: Records, datasets: Sequence[str], seeds: int) -> Sequence[AnyRun]:
        """Runs like those that follow: the other seeds of settings that are not chosen yet."""
        return [
            Run(dataset, METHODS[method][0], seed)
            for dataset in datasets
            for method in self.methods
            if records.chosen(dataset, method) is None
            for seed in range(1, seeds)
        ]

    def table(self, records: Records, datasets: Sequence[str]) -> tables.Table:
        """What the records at hand say."""
        return tables.Table(self.title, self.columns, self.rows(records, datasets))


class ByCluster(Artefact):
    """Figure 6, whose runs are clusters of images; without the files of all of SVHN, it is scaled down."""

    def default(self, data_dir: str | None) -> Sequence[str]:
        return ("svhn",) if images.find("svhn", data_dir) else svhn.SCALED

    def prepare(self, runs: Sequence[AnyRun], records: Records, data_dir: str | None) -> Train:
        names = dict.fromkeys(run.dataset for run in runs)
        return partial(svhn.train, labels={name: svhn.find_clusters(name, records.folder, data_dir) for name in names})

    def missing(self, records: Records, datasets: Sequence[str], seeds: int) -> Sequence[AnyRun]:
        runs = (run for dataset in datasets for seed in range(seeds) for run in svhn.cluster_runs(dataset, seed))
        return [run for run in runs if run not in records]

    def later(self, records: Records, datasets: Sequence[str], seeds: int) -> Sequence[AnyRun]:
        return []

    def table(self, records: Records, datasets: Sequence[str]) -> tables.Table:
        table = super().table(records, datasets)
        return table._replace(summary=svhn.summaries(table.rows))


class Beyond(Artefact):
    """Learned structures, in settings that the paper does not have."""

    def prepare(self, runs: Sequence[AnyRun], records: Records, data_dir: str | None) -> Train:
        super().prepare(runs, records, data_dir)
        return beyond.train

    def missing(self, records: Records, datasets: Sequence[str], seeds: int) -> Sequence[AnyRun]:
        return [run for run in beyond.runs(datasets, seeds) if run not in records]

    def later(self, records: Records, datasets: Sequence[str], seeds: int) -> Sequence[AnyRun]:
        return []


ARTEFACTS: dict[str, Artefact] = {
    "table1": Artefact(
        "Table 1: Twenty Datasets, mean test log-likelihood",
        TWENTY,
        BOTH,
        3,
        tables.likelihoods,
        (
            *DATASET,
            *OURS,
            *PUBLISHED,
            Column("einet_adam", "EiNet, Adam"),
            Column("ratspn_sem", "RAT-SPN, sEM"),
            *SEEDS,
            *PARAMETERS,
            *CHOSEN,
        ),
    ),
    "table2": Artefact(
        "Table 2: Amazon Baby Registries, mean test log-likelihood",
        AMAZON,
        BOTH,
        3,
        tables.likelihoods,
        (*DATASET, *OURS, *PUBLISHED, Column("einet_sem", "EiNet, sEM"), *SEEDS, *PARAMETERS, *CHOSEN),
    ),
    "table3": Artefact(
        "Table 3: hand-crafted data, mean test log-likelihood ± standard deviation over seeds",
        (HAND_CRAFTED,),
        ALL,
        3,
        tables.hand_crafted,
        (
            Column("model", "model"),
            Column("log_likelihood", "log-likelihood", spread=True),
            Column("log_likelihood_published", "published", spread=True),
            Column("parameters", "parameters"),
            Column("parameters_published", "published"),
            Column("seeds", "seeds"),
            Column("chosen", "chosen w or h"),
        ),
    ),
    "table4": Artefact(
        "Table 4: settings",
        (),
        (),
        0,
        tables.settings,
        (Column("option", "option"), Column("weight_decay", "SPN, weight decay"), Column("hyperspn", "HyperSPN")),
    ),
    "table5": Artefact(
        "Table 5: test log-likelihood by weight decay w and by h, first seed",
        TWENTY + AMAZON,
        BOTH,
        1,
        tables.sweeps,
        (
            *DATASET,
            *SWEEP,
            *(
                Column(f"{key}_published", f"published {label}", group=f"{group} published")
                for key, label, _, group, _ in SWEEP
            ),
            *CHOSEN,
        ),
    ),
    "table6": Artefact(
        "Table 6: sample quality by Parzen windows, in the authors' protocol and as a density estimate",
        TWENTY + AMAZON,
        BOTH,
        3,
        tables.sample_quality,
        (
            *DATASET,
            *(column._replace(digits=3) for column in (*OURS, *PUBLISHED)),
            Column("weight_decay_proper", "weight decay, density", group="density"),
            Column("hyperspn_proper", "HyperSPN, density", group="density"),
            Column("weight_decay_bandwidth", "bandwidth, weight decay"),
            Column("hyperspn_bandwidth", "bandwidth, HyperSPN"),
        ),
    ),
    "table7": Artefact(
        "Table 7: mean test log-likelihood ± standard deviation over seeds, ⋆ where p < 0.05",
        TWENTY + AMAZON,
        BOTH,
        3,
        tables.likelihoods,
        (*DATASET, *(column._replace(spread=True) for column in (*OURS, *PUBLISHED)), *SEEDS),
    ),
    "figure5": Artefact(
        "Figure 5: training curves",
        ("plants", "pumsb_star"),
        ALL,
        1,
        tables.curves,
        (Column("dataset", "data set"), Column("method", "method"), Column("chosen", "chosen w or h")),
    ),
    "figure6": ByCluster(
        "Figure 6: test log-likelihood by cluster of images, in nats; svhn5000 and mnist are scaled-down versions",
        tuple(svhn.EXPERIMENTS),
        BOTH,
        1,
        svhn.improvements,
        (
            Column("dataset", "data set"),
            Column("cluster", "cluster"),
            Column("size", "size"),
            *(column._replace(group="") for column in OURS),
            Column("improvement", "improvement", spread=True),
            Column("improved", "share improved"),
            Column("improvement_published", "published, all of SVHN", spread=True),
            Column("improved_published", "published share"),
            Column("weight_decay_bits", "density bits/dim, weight decay", digits=3),
            Column("hyperspn_bits", "density bits/dim, HyperSPN", digits=3),
        ),
    ),
    "beyond": Beyond(
        "Beyond the paper: test log-likelihood of what is best on validation, and its learnable parameters",
        (*TWENTY, *AMAZON, HAND_CRAFTED),
        (),
        1,
        beyond.comparison,
        (
            Column("dataset", "data set"),
            Column("published", "published HyperSPN", group="best"),
            Column("published_params", "parameters"),
            Column("best", "ours, at most as many", group="best"),
            Column("best_params", "parameters"),
            Column("half", "ours, at most half"),
            Column("half_params", "parameters"),
            Column("unlimited", "ours, any number"),
            Column("unlimited_params", "parameters"),
            Column("random", "random trees"),
            Column("learned", "learned order"),
            Column("chow_liu", "Chow-Liu"),
            Column("factored", "factored"),
            Column("best_tractable", "best tractable published"),
            Column("by", "by"),
        ),
    ),
}
