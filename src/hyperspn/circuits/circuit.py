"""Circuit: structure + leaves + weights + engine, with the queries as methods; and its files."""

from __future__ import annotations

import json
import os

from dataclasses import asdict
from typing import Any

import numpy as np
import torch

from torch import Tensor, nn

from ..engines import LayeredEngine, NativeEngine, choose_engine
from ..files import tensors_to_bytes, write
from ..leaves.evidence import Evidence, Rows
from ..leaves.leaves import Events, Leaves
from ..structures import RegionGraph
from ..weights.sectors import Sectors
from ..weights.source import WeightSource, initial, normalize
from . import queries

FORMAT = "hyperspn"
FORMAT_VERSION = 1
FAMILIES_SHOWN = 4


class Circuit(nn.Module):
    """A probabilistic circuit: a distribution over n variables with exact answers to queries.

        p(x) = sum_r mixture_r root_r(x)

    Rows of a table go in as tensors or arrays, (batch, variables); NaN, or True in a mask `missing`, means that a
    value is unknown and is integrated out.

    Arguments:
        sectors: The structure and its sum weights, cut into sectors.
        leaves: The distributions of the variables.
        weights: Who writes the weights of the sectors.
        engine: How it is evaluated: "native", "layered", or "auto" (see `engines.choose_engine`).

    Attributes:
        notes: Whatever should be saved with the circuit, as JSON can hold it: the names of columns, for example.

    Example:
        >>> from hyperspn import HyperSPN
        >>> circuit = HyperSPN(num_variables=4, replicas=2)
        >>> x = torch.tensor([[0.0, 1.0, torch.nan, 1.0]])
        >>> circuit.log_prob(x).shape
        torch.Size([1])
    """

    mixture: Tensor

    def __init__(self, sectors: Sectors, leaves: Leaves, weights: WeightSource, engine: str = "auto") -> None:
        super().__init__()
        self.sectors = sectors
        self.leaves = leaves
        self.weights = weights
        mixture = initial(len(sectors.structure.roots), init=weights.init)
        if sectors.num_mixture_weights:
            self.mixture = nn.Parameter(mixture)
        else:
            self.register_buffer("mixture", torch.zeros_like(mixture))
        self.engine = choose_engine(engine, sectors, leaves)
        self.notes: dict[str, Any] = {}

    def read(self, x: Rows | Evidence, missing: Rows | None = None, events: Events | None = None) -> Evidence:
        """Checks rows once; every query takes the evidence in place of rows (see `Leaves.read`)."""
        return self.leaves.read(x, missing, events)

    forward = queries.log_prob
    log_prob = queries.log_prob
    conditional_log_prob = queries.conditional_log_prob
    marginals = queries.marginals
    leave_one_out = queries.leave_one_out
    root_states = queries.root_states
    moments = queries.moments
    sample = queries.sample
    sample_given = queries.sample_given
    most_probable = queries.most_probable
    most_probable_bound = queries.most_probable_bound
    impute = queries.impute

    @property
    def structure(self) -> RegionGraph:
        return self.sectors.structure

    @property
    def num_variables(self) -> int:
        return self.structure.num_variables

    @property
    def num_parameters(self) -> int:
        """The number of learnable parameters m, mixture weights included."""
        return sum(parameter.numel() for parameter in self.parameters())

    def parameter_groups(self) -> list[dict[str, Any]]:
        """Groups for `torch.optim`, each with its default learning rate."""
        groups = self.weights.parameter_groups()
        if self.sectors.num_mixture_weights:
            groups.append({"name": "mixture", "params": [self.mixture], "lr": groups[0]["lr"]})
        return [*groups, *self.leaves.parameter_groups()]

    def __repr__(self) -> str:
        sectors, roots, families = self.sectors, len(self.mixture), [repr(family) for family in self.leaves.distinct]
        if len(families) > FAMILIES_SHOWN:
            families[FAMILIES_SHOWN - 1 :] = [f"{len(families) - FAMILIES_SHOWN + 1} other families"]
        return "\n".join(
            [
                f"Circuit over {self.num_variables:,} variables",
                f"  structure   {roots:,} root{'s' * (roots > 1)}, {self.structure.num_regions:,} regions",
                f"  layer size  {sectors.layer_size}, {sectors.product} products",
                f"  leaves      {', '.join(families)}",
                f"  weights     {sectors.num_used_weights:,} used, {sectors.num_weights:,} stored if direct",
                f"  written by  {type(self.weights).__name__}({self.weights.extra_repr()})",
                f"  learnable   {self.num_parameters:,} parameters",
                f"  engine      {self.engine}{_reason(self.engine)}",
            ]
        )

    @torch.no_grad()
    def region_weights(self, region: int) -> Tensor:
        """The weights of a region's sum nodes as probabilities, (sum nodes, inputs): each row sums to 1.

        The inputs are the products of the region's first partition, then those of the next; of a leaf region, its
        distributions. The weights of the roots themselves are ``circuit.mixture.softmax(0)``.
        """
        if not 0 <= region < self.structure.num_regions:
            raise ValueError(f"expected a region 0..{self.structure.num_regions - 1}, found {region}")
        layer = self.sectors.layers[self.sectors.layer_of[region]]
        if not layer.has_sums:
            return torch.eye(layer.columns, dtype=self.mixture.dtype, device=self.mixture.device)
        sectors = layer.sectors[self.sectors.slot_of[region]].to(self.mixture.device)
        return layer.assemble(self.weights(layer.kind_index, sectors), normalize)[0].exp()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes one safetensors file: learnable parameters, structure, and configuration in its header."""
        arrays, config = self.contents()
        write(
            path,
            tensors_to_bytes(arrays, {"format": FORMAT, "version": str(FORMAT_VERSION), "config": json.dumps(config)}),
        )

    def contents(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """What a file holds: arrays by name, and the configuration."""
        families = [{"name": type(family).__name__, **asdict(family)} for family in self.leaves.distinct]
        config = {
            "num_variables": self.num_variables,
            "spare_sectors": self.structure.spare_sectors,
            "layer_size": self.sectors.layer_size,
            "product": self.sectors.product,
            "leaves": families,
            "weights": {"name": type(self.weights).__name__, **self.weights.config()},
            "notes": self.notes,
        }
        arrays = {f"structure.{name}": array for name, array in self.structure.arrays().items()}
        arrays["leaves.family_of"] = self.leaves.family_of.numpy()
        arrays = {name: _compact(array) for name, array in arrays.items()}
        arrays |= {name: value.detach().cpu().numpy() for name, value in self.state_dict().items()}
        return arrays, config


def _reason(engine: LayeredEngine) -> str:
    """Why the slow engine, where the fast one cannot serve."""
    obstacle = None if isinstance(engine, NativeEngine) else NativeEngine.obstacle(engine.sectors)
    return f" (native is faster, but cannot serve {obstacle})" if obstacle else ""


def _compact(array: np.ndarray) -> np.ndarray:
    """The same integers in the smallest type that holds them."""
    for candidate in (np.uint8, np.int16, np.int32):
        if array.size == 0 or array.max() <= np.iinfo(candidate).max:
            return array.astype(candidate)
    return array
