"""Figure 6: HyperSPN and weight decay on clusters of images, one EiNet for each (section 4.2)."""

from __future__ import annotations

from collections.abc import Sequence
from io import BytesIO
from itertools import count, takewhile
from math import ceil, isqrt, prod, sqrt
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple
from zipfile import BadZipFile

import numpy as np
import torch

from numpy.typing import NDArray

from ..circuits.circuit import Circuit
from ..circuits.models import EiNet
from ..data import images
from ..data.datasets import Dataset
from ..data.pictures import image_shape, write_grid
from ..files import write
from ..learning import fit
from ..learning.clusters import k_means, nearest
from ..structures import poon_domingos
from .published import PUBLISHED_SVHN
from .records import Records
from .reports import Row
from .runs import Record, outcome
from .settings import BOTH_METHODS

SCALE = 255.0
WEIGHT_DECAY = 1e-4
SECONDS_PER_STEP, SECONDS_PER_VARIABLE = 0.012, 3e-6


class ClusterSetting(NamedTuple):
    """How images are clustered and their clusters learned: as published, but for the clusters, cuts and epochs.

    A circuit is evaluated after each epoch, and its best one on the validation images counts.
    """

    clusters: int
    delta: int = 8
    layer_size: int = 40
    batch_size: int = 10
    epochs: int = 100

    def build(self, shape: Sequence[int], method: str, seed: int) -> Circuit:
        *sides, channels = shape
        structure = poon_domingos(sides, axes=[1], delta=self.delta, channels=channels)
        return EiNet(structure, self.layer_size, weights="hyper" if method == "hyperspn" else "direct", seed=seed)


CLUSTER_SETTINGS = {
    "svhn": ClusterSetting(100),
    "svhn5000": ClusterSetting(10),
    "mnist": ClusterSetting(10, delta=7, epochs=20),
}
SCALED = ("svhn5000", "mnist")


class ClusterRun(NamedTuple):
    """A data set, its number of clusters, one of them, a method and a seed."""

    dataset: str
    clusters: int
    cluster: int
    method: str
    seed: int

    @property
    def is_annealed(self) -> bool:
        """Whether the learning rates fall to 0; the published ones stay."""
        return False

    @property
    def setting(self) -> str:
        return f"{self.method} cluster {self.cluster} of {self.clusters}"

    @property
    def path(self) -> Path:
        return _folder(self.dataset, self.clusters) / f"{self.method}-cluster{self.cluster}-seed{self.seed}.json"

    @property
    def core_seconds(self) -> float:
        setting, image_set = CLUSTER_SETTINGS[self.dataset], images.IMAGE_SETS[self.dataset]
        steps = setting.epochs * image_set.rows[0] / self.clusters / setting.batch_size
        return steps * (SECONDS_PER_STEP + SECONDS_PER_VARIABLE * prod(image_set.shape))


class AnnealedRun(ClusterRun):
    """The same with learning rates that rise in the first steps and then fall to 0."""

    @property
    def is_annealed(self) -> bool:
        return True

    @property
    def setting(self) -> str:
        return f"{super().setting}, annealed"

    @property
    def path(self) -> Path:
        return super().path.parent / "annealed" / super().path.name


class Labels(NamedTuple):
    """The cluster of each image."""

    train: NDArray[np.uint8]
    valid: NDArray[np.uint8]
    test: NDArray[np.uint8]


def cluster_runs(dataset: str, seed: int, kind: type[ClusterRun] = ClusterRun) -> list[ClusterRun]:
    """The runs of all clusters with a seed."""
    clusters = CLUSTER_SETTINGS[dataset].clusters
    return [kind(dataset, clusters, cluster, method, seed) for cluster in range(clusters) for method in BOTH_METHODS]


def find_clusters(dataset: str, results: Path, data_dir: str | None) -> Labels:
    """The clusters of a data set by k-means on the training images, computed once and kept beside their records.

    Validation and test images belong to the nearest mean. The means are drawn in ``means.png``.
    """
    data, clusters = images.load_images(dataset, data_dir), CLUSTER_SETTINGS[dataset].clusters
    path = results / _folder(dataset, clusters) / "labels.npz"
    labels = _read_labels(path, data)
    if labels is None:
        labels = _cluster(data, clusters)
        path.parent.mkdir(parents=True, exist_ok=True)
        content = BytesIO()
        np.savez_compressed(content, **labels._asdict())
        write(path, content.getbuffer())
    means = np.stack([data.train[labels.train == cluster].mean(0) for cluster in range(clusters)])
    _draw_means(path.with_name("means.png"), means, images.IMAGE_SETS[dataset].shape)
    return labels


def train(
    run: ClusterRun, folder: Path, data_dir: str | None, threads: int, labels: dict[str, Labels]
) -> tuple[ClusterRun, Record]:
    """Trains one run on (x - mean of the cluster) / 255, and returns its record."""
    torch.set_num_threads(threads)
    setting = CLUSTER_SETTINGS[run.dataset]
    parts = zip(images.load_images(run.dataset, data_dir), labels[run.dataset], strict=True)
    rows = Dataset(*(part[clusters == run.cluster] for part, clusters in parts))
    center = rows.train.mean(0)
    local = [((part - center) / SCALE).astype(np.float32) for part in rows]
    circuit = setting.build(images.IMAGE_SETS[run.dataset].shape, run.method, run.seed)
    schedule = _schedule(setting, circuit, len(rows.train)) | ({"annealing": True} if run.is_annealed else {})
    history = fit(circuit, *local[:2], **schedule, seed=run.seed, folder=folder, progress=False)
    return run, {
        **run._asdict(),
        "options": setting._asdict(),
        "schedule": schedule,
        "rows": [len(part) for part in rows],
        **outcome(circuit, history, local[2], threads),
    }


def improvements(records: Records, datasets: Sequence[str], kind: type[ClusterRun] = ClusterRun) -> list[Row]:
    """The clusters of data sets with all their records, by improvement: test log-likelihoods over the seeds there are."""
    rows = []
    for dataset in datasets:
        if all(run in records for run in cluster_runs(dataset, 0, kind)):
            clusters = range(CLUSTER_SETTINGS[dataset].clusters)
            rows += sorted(
                (_row(records, dataset, cluster, kind) for cluster in clusters), key=lambda row: row["improvement"]
            )
    return rows


def summaries(rows: Sequence[Row]) -> list[Row]:
    """For each data set the means weighted by cluster size, and the share of improved clusters.

    The mean improvement d = sum_c w_c d_c comes with its standard error over clusters, sqrt(sum_c w_c^2 (d_c - d)^2).
    """
    return [
        _summary(dataset, [row for row in rows if row["dataset"] == dataset])
        for dataset in dict.fromkeys(row["dataset"] for row in rows)
    ]


def _row(records: Records, dataset: str, cluster: int, kind: type[ClusterRun]) -> Row:
    """Both methods on one cluster."""
    by_method = {method: _records_of(records, dataset, cluster, method, kind) for method in BOTH_METHODS}
    means = {method: fmean(record["test"] for record in by_method[method]) for method in BOTH_METHODS}
    variables = prod(images.IMAGE_SETS[dataset].shape)
    return {
        "dataset": dataset,
        "cluster": cluster,
        "size": by_method["hyperspn"][0]["rows"][0],
        **means,
        "improvement": means["hyperspn"] - means["weight_decay"],
        **{f"{method}_bits": images.bits_per_dimension(means[method], variables, SCALE) for method in BOTH_METHODS},
        **{f"{method}_seeds": len(by_method[method]) for method in BOTH_METHODS},
    }


def _records_of(records: Records, dataset: str, cluster: int, method: str, kind: type[ClusterRun]) -> list[Record]:
    """The records of a method on a cluster, for seeds 0, 1, 2 ... as far as there are any."""
    clusters = CLUSTER_SETTINGS[dataset].clusters
    runs = (kind(dataset, clusters, cluster, method, seed) for seed in count())
    return [records[run] for run in takewhile(records.__contains__, runs)]


def _summary(dataset: str, rows: list[Row]) -> Row:
    shares = np.array([row["size"] for row in rows]) / sum(row["size"] for row in rows)
    averaged = (*BOTH_METHODS, "improvement", *(f"{method}_bits" for method in BOTH_METHODS))
    means = {key: float(shares @ [row[key] for row in rows]) for key in averaged}
    errors = [share * (row["improvement"] - means["improvement"]) for share, row in zip(shares, rows, strict=True)]
    return {
        "dataset": dataset,
        "cluster": "weighted mean",
        "clusters": len(rows),
        "size": sum(row["size"] for row in rows),
        **means,
        "improvement_std": sqrt(sum(error**2 for error in errors)),
        "improved": fmean(row["improvement"] > 0 for row in rows),
        **(PUBLISHED_SVHN if dataset.startswith("svhn") else {}),
    }


def _folder(dataset: str, clusters: int) -> Path:
    """The place of the records in the folder of results."""
    return Path(dataset, f"{clusters}-clusters")


def _cluster(data: Dataset, clusters: int) -> Labels:
    train, valid, test = (torch.from_numpy(part).float() for part in data)
    centers, train_labels = k_means(train, clusters)
    parts = (train_labels, nearest(valid, centers), nearest(test, centers))
    labels = Labels(*(part.numpy().astype(np.uint8) for part in parts))
    for split, part in labels._asdict().items():
        if empty := set(range(clusters)) - set(part.tolist()):
            raise ValueError(f"expected {split} images in all of {clusters} clusters, found none in {empty}")
    return labels


def _read_labels(path: Path, data: Dataset) -> Labels | None:
    """The labels in a file, if there is one."""
    if not path.is_file():
        return None
    try:
        with open(path, "rb") as file, np.load(file, allow_pickle=False) as content:
            labels = Labels(*(content[split] for split in Labels._fields))
    except (ValueError, KeyError, EOFError, BadZipFile) as error:
        raise ValueError(f"the clusters in {path} are damaged: restore the file") from error
    if [len(part) for part in labels] != [len(part) for part in data]:
        raise ValueError(f"expected the clusters of {[*map(len, data)]} images in {path}, found {[*map(len, labels)]}")
    return labels


def _draw_means(path: Path, means: NDArray, shape: tuple[int, ...]) -> None:
    """Draws the mean images of clusters in a grid that is wider than high."""
    down = max(rows for rows in range(1, isqrt(len(means)) + 1) if len(means) % rows == 0)
    write_grid(path, means.reshape(down, -1, means.shape[1]), image_shape(means.shape[1], shape), 0, SCALE)


def _schedule(setting: ClusterSetting, circuit: Circuit, rows: int) -> dict[str, Any]:
    """Arguments of `fit`: an evaluation after each epoch, and weight decay for all but the network."""
    epoch = ceil(rows / setting.batch_size)
    groups = [group["name"] for group in circuit.parameter_groups() if group["name"] != "network"]
    return {
        "steps": setting.epochs * epoch,
        "evaluate_every": epoch,
        "batch_size": setting.batch_size,
        "weight_decay": dict.fromkeys(groups, WEIGHT_DECAY),
    }
