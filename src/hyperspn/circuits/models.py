"""Named assemblies: ready circuits from a few keywords."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import Lock
from typing import Any, Literal

import numpy as np
import torch

from numpy.typing import ArrayLike, NDArray

from ..leaves import Gaussian, Histogram, LeafFamily, Leaves, Numeric
from ..leaves.discrete import Categorical
from ..structures import RegionGraph, binary_trees, chow_liu
from ..structures.mutual_information import as_array
from ..weights.direct import DirectWeights
from ..weights.factored import FactoredWeights
from ..weights.hyper import HyperWeights, Start
from ..weights.sectors import Product, Sectors
from ..weights.source import Init, WeightSource
from .circuit import Circuit

LeafChoice = LeafFamily | Sequence[LeafFamily]

REPLICAS = 50
EINET_SIZES: dict[str, Any] = {"embedding_dim": 8, "hidden": (10, 10)}
SIZES = {
    "direct": (),
    "hyper": ("embedding_dim", "hidden", "start", "rank"),
    "factored": ("latent_dim", "features", "hidden", "rank"),
}

_SEEDING = Lock()


def SPN(
    num_variables: int,
    layer_size: int = 5,
    replicas: int | None = None,
    seed: int = 0,
    *,
    leaves: LeafChoice = Categorical(2),
    structure: RegionGraph | None = None,
    init: Init = "uniform",
    engine: str = "auto",
) -> Circuit:
    """A sum-product network with one parameter per weight; by default the paper's RAT-SPN, so that `RATSPN` is the same.

    Arguments:
        num_variables: The number of variables n.
        layer_size: The number of sum nodes per region k.
        replicas: The number of random trees r, by default 50; a structure has its own.
        seed: Determines the random trees and the starting values.
        leaves: The family of leaf distributions, or a list with one for each variable.
        structure: A region graph in place of random binary trees.
        init: How the weights start: "uniform" in [0, 1), or standard "normal".
        engine: How the circuit is evaluated: "native", "layered", or "auto", the native engine where it can serve.

    Example:
        >>> SPN(num_variables=16).num_parameters
        40050
    """
    sectors, families = _skeleton(num_variables, layer_size, replicas, seed, leaves, structure)
    with _seed(seed):
        return Circuit(sectors, Leaves(families), DirectWeights(sectors, init), engine)


def HyperSPN(
    num_variables: int,
    layer_size: int = 5,
    replicas: int | None = None,
    seed: int = 0,
    *,
    weights: Literal["hyper", "factored"] = "hyper",
    embedding_dim: int | None = None,
    latent_dim: int | None = None,
    features: int | None = None,
    hidden: Sequence[int] | None = None,
    rank: int | None = None,
    leaves: LeafChoice = Categorical(2),
    structure: RegionGraph | None = None,
    init: Init = "uniform",
    start: Start = "plain",
    engine: str = "auto",
) -> Circuit:
    """The same circuit as `SPN`, its weights written by a small network (section 3).

    Arguments:
        weights: What the network reads: one embedding per sector ("hyper", as in the paper), or one latent vector per
            replica of a tree that all of them share ("factored", see `FactoredWeights`).
        embedding_dim: The size of a sector's embedding ("hyper"), by default 5.
        latent_dim: The size of a replica's latent vector ("factored"), by default 4.
        features: The number of features that the network makes of it ("factored"), by default 8.
        hidden: The widths of the network's hidden layers: by default (20, 20), where the paper's h is the last one,
            or (64, 64) for "factored".
        rank: Large sectors are written as products of two factors of this rank, so that a large k costs few parameters
            (see `HyperWeights` and `FactoredWeights`); by default every weight is written.
        init: How the embeddings, or the base weights, start: "uniform" in [0, 1), or standard "normal".
        start: How the network of "hyper" starts: "plain", as published, or "careful", so that all its hidden units are
            alive (see `weights.hyper.keep_alive`).

    The other arguments are those of `SPN`.

    Example:
        >>> HyperSPN(num_variables=16).num_parameters
        9115
    """
    if weights not in ("hyper", "factored"):
        raise ValueError(f"expected weights 'hyper' or 'factored', found {weights!r}")
    careful = None if start == "plain" else start
    of_network = {"embedding_dim": embedding_dim, "latent_dim": latent_dim, "features": features, "hidden": hidden}
    sizes = _sizes(weights, **of_network, rank=rank, start=careful)
    shared = weights == "factored"
    sectors, families = _skeleton(num_variables, layer_size, replicas, seed, leaves, structure, shared)
    with _seed(seed):
        source = (FactoredWeights if shared else HyperWeights)(sectors, init=init, **sizes)
        return Circuit(sectors, Leaves(families), source, engine)


def HCLT(
    data: ArrayLike,
    layer_size: int = 16,
    replicas: int = 1,
    seed: int = 0,
    *,
    leaves: LeafChoice | None = None,
    init: Init = "uniform",
    engine: str = "auto",
) -> Circuit:
    """A hidden Chow-Liu tree, or a mixture of several: each edge of the tree becomes a sum over k hidden states.

    After A. Liu and G. Van den Broeck, Tractable regularization of probabilistic circuits, NeurIPS 2021. The structure
    is learned here (see `chow_liu`), the weights are not (see `fit`).

    Arguments:
        data: The rows to learn the tree from, (rows, variables), NaN where a value is unknown.
        layer_size: The number of hidden states k.
        replicas: The number of trees r: that of all rows, and then those of bootstrap samples.
        seed: Determines roots, bootstrap samples and starting values.
        leaves: The family of leaf distributions, or a list with one for each variable. By default a column of whole
            numbers >= 0 holds the codes of categories, as many as the largest code asks for; any other column is
            continuous, with k Gaussians, and should be scaled to mean 0 and variance 1.
        init: How the weights start: "uniform" in [0, 1), or standard "normal".
        engine: How the circuit is evaluated: "native", "layered", or "auto", the native engine where it can serve.

    Example:
        >>> rows = np.random.default_rng(0).integers(0, 3, (100, 1)).repeat(4, axis=1)
        >>> HCLT(rows, layer_size=8).leaves.distinct
        (Categorical(categories=3),)
    """
    columns = as_array(data).T
    leaves = [_family(column, layer_size) for column in columns] if leaves is None else leaves
    counted, continuous = countable(data, _families(len(columns), leaves))
    structure = chow_liu(counted, replicas, seed, continuous=continuous)
    return SPN(len(columns), layer_size, seed=seed, leaves=leaves, structure=structure, init=init, engine=engine)


def EiNet(
    structure: RegionGraph,
    layer_size: int = 10,
    leaves: LeafChoice | None = None,
    weights: Literal["direct", "hyper"] = "direct",
    seed: int = 0,
    *,
    embedding_dim: int | None = None,
    hidden: Sequence[int] | None = None,
    init: Init = "normal",
    engine: str = "auto",
) -> Circuit:
    """An einsum network: all k x k products of two children's outputs, on any structure (section 4.2).

    Partitions of more than two are first split into nested pairs.

    Arguments:
        structure: The region graph: `poon_domingos` for images, for example.
        layer_size: The number of sum nodes per region k.
        leaves: The family of leaf distributions, or a list with one for each variable; by default k Gaussians with
            variances between 1e-6 and 0.01, as published for pixels.
        weights: "direct", one parameter per weight, or "hyper", written by a network from one embedding per sector.
        seed: Determines the starting values.
        embedding_dim: The size of a sector's embedding ("hyper"), by default 8.
        hidden: The widths of the network's hidden layers ("hyper"), by default (10, 10).
        init: How weights or embeddings start: standard "normal", or "uniform" in [0, 1).
        engine: How the circuit is evaluated: "layered", or "auto".

    Example:
        >>> from hyperspn.structures import poon_domingos
        >>> structure = poon_domingos((32, 32), axes=[1], delta=8, channels=3)
        >>> EiNet(structure, layer_size=40, weights="hyper").weights.num_parameters
        91256
    """
    if weights not in ("direct", "hyper"):
        raise ValueError(f"expected weights 'direct' or 'hyper', found {weights!r}")
    sizes = EINET_SIZES | _sizes(weights, embedding_dim=embedding_dim, hidden=hidden)
    families = _families(structure.num_variables, Gaussian(layer_size, 1e-6, 0.01) if leaves is None else leaves)
    sectors = sectors_of(structure.in_pairs(), layer_size, families, "outer")
    with _seed(seed):
        source: WeightSource = (
            HyperWeights(sectors, init=init, **sizes) if weights == "hyper" else DirectWeights(sectors, init)
        )
        return Circuit(sectors, Leaves(families), source, engine)


RATSPN = SPN


def countable(rows: ArrayLike, families: Sequence[LeafFamily]) -> tuple[NDArray, list[bool]]:
    """Rows with numbers as bins of their scales, and which variables are still continuous (see `mutual_information`)."""
    counted = np.asarray(rows)
    numeric = [(v, family.scale) for v, family in enumerate(families) if isinstance(family, Numeric)]
    if numeric:
        counted = counted.astype(np.float64)
    for variable, scale in numeric:
        bins = scale.bins(counted[:, variable])
        counted[:, variable] = np.where(bins < 0, np.nan, bins)
    return counted, [not isinstance(family, (Categorical, Histogram, Numeric)) for family in families]


def _skeleton(
    num_variables: int,
    layer_size: int,
    replicas: int | None,
    seed: int,
    leaves: LeafChoice,
    structure: RegionGraph | None,
    shared: bool = False,
) -> tuple[Sectors, list[LeafFamily]]:
    if structure is None:
        structure = binary_trees(num_variables, REPLICAS if replicas is None else replicas, seed, shared=shared)
    elif replicas is not None:
        raise ValueError(f"expected a structure or a number of replicas, found both ({replicas} replicas)")
    if structure.num_variables != num_variables:
        raise ValueError(f"expected a structure of {num_variables} variables, found one of {structure.num_variables}")
    families = _families(num_variables, leaves)
    return sectors_of(structure, layer_size, families), families


def sectors_of(
    structure: RegionGraph, layer_size: int, families: Sequence[LeafFamily], product: Product = "elementwise"
) -> Sectors:
    """The sectors of a structure with these leaves."""
    return Sectors(structure, layer_size, [f.width for f in families], product, [f.grid for f in families])


def _sizes(weights: str, **sizes: int | str | Sequence[int] | None) -> dict[str, Any]:
    """The sizes that are given, once it is known that these weights have them."""
    given = {name: size for name, size in sizes.items() if size is not None}
    for name, size in given.items():
        if name not in SIZES[weights]:
            raise ValueError(f"expected no {name} beside weights={weights!r}, found {size}")
    return given


def _family(column: np.ndarray, members: int) -> LeafFamily:
    """Categories for a column of codes, Gaussians for any other."""
    known = column[~np.isnan(column)]
    if (known < 0).any() or (known % 1).any():
        return Gaussian(members, min_variance=1e-4)
    return Categorical(int(known.max(initial=0)) + 1)


def _families(num_variables: int, leaves: LeafChoice) -> list[LeafFamily]:
    families = [leaves] * num_variables if isinstance(leaves, LeafFamily) else list(leaves)
    if len(families) != num_variables or not all(isinstance(family, LeafFamily) for family in families):
        raise ValueError(f"expected one leaf family, or a list with one for each of {num_variables} variables")
    return families


@contextmanager
def _seed(seed: int) -> Iterator[None]:
    """Starting values from the seed; the global random state, one for all threads, stays as it was."""
    with _SEEDING, torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield
