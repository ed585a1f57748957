"""Named assemblies: ready circuits from a few keywords."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import Lock
from typing import Literal

import torch

from ..leaves.continuous import Gaussian
from ..leaves.discrete import Categorical
from ..leaves.family import LeafFamily
from ..leaves.leaves import Leaves
from ..structures import RegionGraph, binary_trees
from ..weights.direct import DirectWeights
from ..weights.factored import FactoredWeights
from ..weights.hyper import HyperWeights
from ..weights.sectors import Sectors
from ..weights.source import Initialization, WeightSource
from .circuit import Circuit

LeafChoice = LeafFamily | Sequence[LeafFamily]

_SEEDING = Lock()


def SPN(
    num_variables: int,
    layer_size: int = 5,
    replicas: int = 50,
    seed: int = 0,
    *,
    leaves: LeafChoice = Categorical(2),
    structure: RegionGraph | None = None,
    init: Initialization = "uniform",
    engine: str = "auto",
) -> Circuit:
    """A sum-product network with one parameter per weight; by default the paper's RAT-SPN.

    Arguments:
        num_variables: The number of variables n.
        layer_size: The number of sum nodes per region k.
        replicas: The number of random trees r, where no structure is given.
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
    with _seeded(seed):
        return Circuit(sectors, Leaves(families), DirectWeights(sectors, init), engine)


def HyperSPN(
    num_variables: int,
    layer_size: int = 5,
    replicas: int = 50,
    seed: int = 0,
    *,
    weights: Literal["hyper", "factored"] = "hyper",
    embedding_dim: int = 5,
    latent_dim: int = 4,
    features: int = 8,
    hidden: Sequence[int] | None = None,
    leaves: LeafChoice = Categorical(2),
    structure: RegionGraph | None = None,
    init: Initialization = "uniform",
    engine: str = "auto",
) -> Circuit:
    """The same circuit as `SPN`, its weights written by a small network (section 3).

    Arguments:
        weights: What the network reads: one embedding per sector ("hyper", as in the paper), or one latent vector per
            replica of a tree that all of them share ("factored", see `FactoredWeights`).
        embedding_dim: The size of a sector's embedding ("hyper").
        latent_dim: The size of a replica's latent vector ("factored").
        features: The number of features that the network makes of it ("factored").
        hidden: The widths of the network's hidden layers: by default (20, 20), where the paper's h is the last one,
            or (64, 64) for "factored".
        init: How the embeddings, or the base weights, start: "uniform" in [0, 1), or standard "normal".

    The other arguments are those of `SPN`.

    Example:
        >>> HyperSPN(num_variables=16).num_parameters
        9115
    """
    if weights not in ("hyper", "factored"):
        raise ValueError(f"expected weights 'hyper' or 'factored', found {weights!r}")
    if structure is None and weights == "factored":
        structure = binary_trees(num_variables, replicas, seed, shared=True)
    sectors, families = _skeleton(num_variables, layer_size, replicas, seed, leaves, structure)
    widths = {} if hidden is None else {"hidden": hidden}
    with _seeded(seed):
        if weights == "hyper":
            source: WeightSource = HyperWeights(sectors, embedding_dim, init=init, **widths)
        else:
            source = FactoredWeights(sectors, latent_dim, features, init=init, **widths)
        return Circuit(sectors, Leaves(families), source, engine)


def EiNet(
    structure: RegionGraph,
    layer_size: int = 10,
    leaves: LeafChoice | None = None,
    weights: Literal["direct", "hyper"] = "direct",
    seed: int = 0,
    *,
    embedding_dim: int = 8,
    hidden: Sequence[int] = (10, 10),
    init: Initialization = "normal",
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
        embedding_dim: The size of a sector's embedding.
        hidden: The widths of the network's hidden layers.
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
    families = _families(structure.num_variables, Gaussian(layer_size, 1e-6, 0.01) if leaves is None else leaves)
    sectors = Sectors(structure.in_pairs(), layer_size, [family.width for family in families], "outer")
    with _seeded(seed):
        source: WeightSource = DirectWeights(sectors, init)
        if weights == "hyper":
            source = HyperWeights(sectors, embedding_dim, hidden, init)
        return Circuit(sectors, Leaves(families), source, engine)


def _skeleton(
    num_variables: int, layer_size: int, replicas: int, seed: int, leaves: LeafChoice, structure: RegionGraph | None
) -> tuple[Sectors, list[LeafFamily]]:
    if structure is None:
        structure = binary_trees(num_variables, replicas, seed)
    if structure.num_variables != num_variables:
        raise ValueError(f"expected a structure of {num_variables} variables, found one of {structure.num_variables}")
    families = _families(num_variables, leaves)
    return Sectors(structure, layer_size, [family.width for family in families]), families


def _families(num_variables: int, leaves: LeafChoice) -> list[LeafFamily]:
    families = [leaves] * num_variables if isinstance(leaves, LeafFamily) else list(leaves)
    if len(families) != num_variables or not all(isinstance(family, LeafFamily) for family in families):
        raise ValueError(f"expected one leaf family, or a list with one for each of {num_variables} variables")
    return families


@contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """Starting values from the seed; the global random state, one for all threads, stays as it was."""
    with _SEEDING, torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield
