"""The tables and figures that can be reproduced: what each one rests on, and what it shows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from . import tables
from .runs import Records, Run
from .settings import AMAZON, HAND_CRAFTED, TWENTY
from .tables import BOTH, SWEEP, Column, Row

DATASET = (Column("name", "data set"), Column("variables", "variables"))
OURS = (Column("weight_decay", "weight decay", group="ours"), Column("hyperspn", "HyperSPN", group="ours"))
PUBLISHED = (
    Column("weight_decay_published", "published weight decay", group="published"),
    Column("hyperspn_published", "published HyperSPN", group="published"),
)
CHOSEN = (
    Column("weight_decay_setting", "chosen"),
    Column("weight_decay_parameters", "parameters"),
    Column("hyperspn_setting", "chosen"),
    Column("hyperspn_parameters", "parameters"),
    Column("hyperspn_seeds", "seeds"),
)


class Artefact(NamedTuple):
    """A table, or the curves of a figure, and the data sets, methods and number of seeds that it rests on."""

    title: str
    datasets: tuple[str, ...]
    methods: tuple[str, ...]
    seeds: int
    rows: Callable[[Records, Sequence[str]], list[Row]]
    columns: tuple[Column, ...]

    def missing(self, records: Records, datasets: Sequence[str], seeds: int | None = None) -> list[Run]:
        """The runs to train next; once these are there, ask again."""
        return [
            run
            for dataset in datasets
            for method in self.methods
            for run in records.missing(dataset, method, seeds or self.seeds)
        ]

    def table(self, records: Records, datasets: Sequence[str]) -> tables.Table:
        """What the records at hand say."""
        return tables.Table(self.title, self.columns, self.rows(records, datasets))


ARTEFACTS = {
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
            *CHOSEN,
        ),
    ),
    "table2": Artefact(
        "Table 2: Amazon Baby Registries, mean test log-likelihood",
        AMAZON,
        BOTH,
        3,
        tables.likelihoods,
        (*DATASET, *OURS, *PUBLISHED, Column("einet_sem", "EiNet, sEM"), *CHOSEN),
    ),
    "table3": Artefact(
        "Table 3: hand-crafted data, mean test log-likelihood",
        (HAND_CRAFTED,),
        (*BOTH, "spn_small"),
        3,
        tables.hand_crafted,
        (
            Column("model", "model"),
            Column("log_likelihood", "log-likelihood"),
            Column("log_likelihood_published", "published"),
            Column("parameters", "parameters"),
            Column("parameters_published", "published"),
            Column("setting", "chosen"),
            Column("seeds", "seeds"),
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
        "Table 5: test log-likelihood by weight decay and by h",
        TWENTY + AMAZON,
        BOTH,
        1,
        tables.sweeps,
        (
            *DATASET,
            *(Column(setting, setting.replace("_", " "), group=setting[:3]) for setting in SWEEP),
            *(Column(f"{setting}_published", "published", group=f"{setting[:3]} published") for setting in SWEEP),
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
            Column("hyperspn_bandwidth", "bandwidth"),
        ),
    ),
    "table7": Artefact(
        "Table 7: mean test log-likelihood ± standard deviation over seeds, * where p < 0.05",
        TWENTY + AMAZON,
        BOTH,
        3,
        tables.error_bars,
        (*DATASET, *OURS, *PUBLISHED, Column("weight_decay_seeds", "seeds"), Column("hyperspn_seeds", "seeds")),
    ),
    "figure5": Artefact(
        "Figure 5: training curves",
        ("plants", "pumsb_star"),
        (*BOTH, "spn_small"),
        1,
        tables.curves,
        (Column("dataset", "data set"), Column("method", "method"), Column("setting", "chosen")),
    ),
}
