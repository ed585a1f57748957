"""Artifacts: the tables and figures that can be reproduced, what each rests on, and what it shows."""

from __future__ import annotations

from functools import partial

from . import beyond, reports, svhn, tables
from .kinds import (
    AnnealedArtifact,
    Artifact,
    BeyondArtifact,
    ClusterArtifact,
    DrawsArtifact,
    StartArtifact,
    TablesArtifact,
)
from .reports import ReportColumn
from .settings import (
    AMAZON,
    BOTH_METHODS,
    HAND_CRAFTED,
    METHODS,
    PUBLISHED_METHODS,
    SETTINGS,
    TWENTY,
)

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
    ReportColumn(setting, f"{symbol} = {SETTINGS[setting].choice}", group=method)
    for method, symbol in zip(BOTH_METHODS, "wh", strict=True)
    for setting in METHODS[method]
)
CLUSTER_COLUMNS = (
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
)

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
        PUBLISHED_METHODS,
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
    "table3-draws": DrawsArtifact(
        "Table 3 on further draws of the hand-crafted rows: mean test log-likelihood ± standard deviation over draws",
        (HAND_CRAFTED,),
        PUBLISHED_METHODS,
        3,
        reports.draws,
        (
            ReportColumn("model", "model"),
            ReportColumn("log_likelihood", "log-likelihood", spread=True),
            ReportColumn("lowest", "lowest"),
            ReportColumn("highest", "highest"),
            ReportColumn("log_likelihood_published", "published", spread=True),
            ReportColumn("draws", "draws"),
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
        PUBLISHED_METHODS,
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
        CLUSTER_COLUMNS,
    ),
    "figure6-annealed": AnnealedArtifact(
        "Figure 6 at learning rates that fall to 0: test log-likelihood by cluster of images, in nats",
        tuple(svhn.CLUSTER_SETTINGS),
        BOTH_METHODS,
        3,
        partial(svhn.improvements, kind=svhn.AnnealedRun),
        CLUSTER_COLUMNS,
    ),
    "careful": StartArtifact(
        "Careful start: mean test log-likelihood of HyperSPNs ± standard deviation over seeds, by the start of the network",
        TWENTY + AMAZON,
        ("hyperspn", "hyperspn_careful"),
        3,
        reports.starts,
        (
            *DATASET_COLUMNS,
            ReportColumn("hyperspn", "plain start", group="ours", spread=True),
            ReportColumn("hyperspn_careful", "careful start", group="ours", spread=True),
            ReportColumn("hyperspn_published", "published", spread=True),
            ReportColumn("hyperspn_seeds", "seeds, plain"),
            ReportColumn("hyperspn_careful_seeds", "seeds, careful"),
            ReportColumn("hyperspn_chosen", "chosen h, plain"),
            ReportColumn("hyperspn_careful_chosen", "chosen h, careful"),
        ),
    ),
    "beyond": BeyondArtifact(
        "Beyond the paper: test log-likelihood of what is best on validation, and its learnable parameters",
        (*TWENTY, *AMAZON, HAND_CRAFTED),
        (),
        3,
        beyond.comparison,
        (
            ReportColumn("dataset", "data set"),
            ReportColumn("published", "published HyperSPN", group="best"),
            ReportColumn("published_params", "parameters"),
            ReportColumn("best", "ours, at most as many", group="best", spread=True),
            ReportColumn("best_params", "parameters"),
            ReportColumn("half", "ours, at most half", spread=True),
            ReportColumn("half_params", "parameters"),
            ReportColumn("unlimited", "ours, any number", spread=True),
            ReportColumn("unlimited_params", "parameters"),
            ReportColumn("ensemble", "ensemble", spread=True),
            ReportColumn("ensemble_params", "parameters"),
            ReportColumn("random", "random trees"),
            ReportColumn("learned", "learned order"),
            ReportColumn("chow_liu", "Chow-Liu"),
            ReportColumn("factored", "factored"),
            ReportColumn("best_tractable", "best tractable published"),
            ReportColumn("by", "by"),
            ReportColumn("seeds", "seeds"),
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
