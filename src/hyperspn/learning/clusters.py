"""Clusters of rows, and a circuit for each (the paper's SVHN experiment, section 4.2)."""

from __future__ import annotations

import os

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from torch import Tensor

from ..circuits.circuit import Circuit
from ..circuits.mixtures import Mixture
from ..leaves.evidence import Rows, as_tensor
from .history import History
from .train import fit


def fit_clusters(
    make: Callable[[], Circuit],
    train: Rows,
    valid: Rows | None = None,
    *,
    clusters: int = 10,
    scale: float = 255.0,
    seed: int = 0,
    jobs: int = 1,
    folder: str | os.PathLike[str] | None = None,
    **options: Any,
) -> tuple[Mixture, list[History]]:
    """Finds clusters of rows by k-means, and learns one circuit for each from (x - mean of the cluster) / scale.

    A component weighs as much as its share of the training rows. Validation rows belong to the nearest mean.

    Arguments:
        make: Makes the circuit of a cluster, with starting values.
        train: The rows to learn, (rows, variables), without missing values.
        valid: The rows by which each circuit's best step is chosen.
        clusters: The number of clusters.
        scale: What differences from the mean are divided by.
        seed: Determines clusters, batches and dropout.
        jobs: How many clusters to learn at the same time, in processes of their own.
        folder: Where to keep the runs, one folder for each cluster, if anywhere.
        options: What `fit` takes.
    """
    from joblib import Parallel, delayed

    rows = as_tensor(train, "train").float()
    if not 1 <= clusters <= len(rows) or rows.isnan().any():
        raise ValueError(f"expected 1 to {len(rows)} clusters of complete rows, found {clusters}, or missing values")
    centers, labels = k_means(rows, clusters, seed)
    held_out = rows[:0] if valid is None else as_tensor(valid, "valid").float()
    held_out_labels = nearest(held_out, centers)
    learned = Parallel(n_jobs=jobs)(
        delayed(_learn)(
            make,
            (rows[labels == c] - centers[c]) / scale,
            (held_out[held_out_labels == c] - centers[c]) / scale,
            None if folder is None else Path(folder) / f"cluster-{c:03d}",
            {**options, "seed": seed},
        )
        for c in range(clusters)
    )
    components = [make() for _ in learned]
    for circuit, (parameters, _) in zip(components, learned, strict=True):
        circuit.load_state_dict(parameters)
    sizes = labels.bincount(minlength=clusters).float()
    return Mixture(components, sizes, centers, scale), [history for _, history in learned]


def k_means(rows: Tensor, clusters: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    """The means of clusters of rows, (clusters, variables), and the cluster of each row, (rows,)."""
    from sklearn.cluster import KMeans

    clustering = KMeans(clusters, n_init=3, max_iter=100, random_state=seed).fit(rows.numpy())
    return torch.from_numpy(clustering.cluster_centers_).float(), torch.from_numpy(clustering.labels_).long()


def nearest(rows: Tensor, centers: Tensor) -> Tensor:
    """The center that is nearest to each row, (rows,)."""
    return torch.cdist(rows, centers).argmin(1)


def _learn(
    make: Callable[[], Circuit], train: Tensor, valid: Tensor, folder: Path | None, options: dict[str, Any]
) -> tuple[dict[str, Tensor], History]:
    """The parameters of one cluster's circuit; one without validation rows learns to the end."""
    circuit = make()
    if not len(valid):
        options = {**options, "patience": None}
    history = fit(circuit, train, valid if len(valid) else None, folder=folder, progress=False, **options)
    return circuit.state_dict(), history
