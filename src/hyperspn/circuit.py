"""Circuit: structure + leaves + weights + engine, with the queries as methods; and its files."""

from __future__ import annotations

import json
import os

from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from . import queries
from .engines import choose_engine
from .leaves import Binomial, Categorical, Gaussian, Histogram, Leaves
from .sectors import Sectors
from .structures import RegionGraph
from .weights import DirectWeights, FactoredWeights, HyperWeights, WeightSource, initial

FORMAT = "hyperspn"
FORMAT_VERSION = 1
FAMILIES = {family.__name__: family for family in (Categorical, Gaussian, Binomial, Histogram)}
SOURCES = {source.__name__: source for source in (DirectWeights, HyperWeights, FactoredWeights)}


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

    forward = queries.log_prob
    log_prob = queries.log_prob
    conditional_log_prob = queries.conditional_log_prob
    marginals = queries.marginals
    moments = queries.moments
    sample = queries.sample
    sample_given = queries.sample_given
    most_probable = queries.most_probable
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
        sectors, families = self.sectors, ", ".join(map(repr, self.leaves.distinct))
        return "\n".join(
            [
                f"Circuit over {self.num_variables:,} variables",
                f"  structure   {len(self.mixture):,} roots, {self.structure.num_regions:,} regions",
                f"  layer size  {sectors.layer_size}, {sectors.product} products",
                f"  leaves      {families}",
                f"  weights     {sectors.num_used_weights:,} used, {sectors.num_weights:,} stored if direct",
                f"  written by  {type(self.weights).__name__}({self.weights.extra_repr()})",
                f"  learnable   {self.num_parameters:,} parameters",
                f"  engine      {self.engine}",
            ]
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes one safetensors file: learnable parameters, structure, and configuration in its header."""
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
        tensors = {name: torch.from_numpy(_compact(array)) for name, array in arrays.items()}
        tensors |= self.state_dict()
        write_tensors(path, tensors, {"format": FORMAT, "version": str(FORMAT_VERSION), "config": json.dumps(config)})


def write_tensors(
    path: str | os.PathLike[str], tensors: dict[str, Tensor], metadata: dict[str, str] | None = None
) -> None:
    """Writes a safetensors file, which appears under its name only when it is complete."""
    draft = Path(f"{os.fspath(path)}.{os.getpid()}.tmp")
    try:
        draft.touch()
        mode = draft.stat().st_mode
        save_file({name: value.detach().cpu().contiguous() for name, value in tensors.items()}, draft, metadata)
        draft.chmod(mode)  # `save_file` puts one there that nobody else may read
        with open(draft, "rb") as file:
            os.fsync(file.fileno())
        draft.replace(path)
    except SafetensorError as error:
        raise OSError(f"expected to write {os.fspath(path)}, found {error}") from error
    finally:
        draft.unlink(missing_ok=True)


def load(path: str | os.PathLike[str], engine: str = "auto") -> Circuit:
    """Reads a circuit that `Circuit.save` wrote. Never runs code from the file; a bad file is a `ValueError`."""
    if not Path(path).is_file():
        raise FileNotFoundError(f"expected a model file, found none at {os.fspath(path)}")
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118
    except SafetensorError as error:
        raise ValueError(f"expected a model file, found a damaged or foreign one at {path} ({error})") from error
    if metadata.get("format") != FORMAT:
        raise ValueError(f"expected a model file of {FORMAT}, found another kind of safetensors file at {path}")
    version = metadata.get("version", "")
    if not version.isdecimal() or int(version) > FORMAT_VERSION:
        raise ValueError(f"expected format version {FORMAT_VERSION} or older, found {version!r} in {path}")
    try:
        return _rebuild(json.loads(metadata["config"]), tensors, engine)
    except (
        ArithmeticError,
        AttributeError,
        LookupError,
        RecursionError,
        RuntimeError,
        TypeError,
        ValueError,
        MemoryError,
    ) as error:
        raise ValueError(f"expected a complete model file, found an inconsistent one at {path} ({error})") from error


def _rebuild(config: dict[str, Any], tensors: dict[str, Tensor], engine: str) -> Circuit:
    """Builds the circuit without memory for its parameters, and puts those of the file in, if they fit."""
    prefix = "structure."
    arrays = {name.removeprefix(prefix): tensors.pop(name).numpy() for name in list(tensors) if name.startswith(prefix)}
    structure = RegionGraph(config["num_variables"], **arrays, spare_sectors=config["spare_sectors"])
    distinct = [_named(FAMILIES, family) for family in config["leaves"]]
    families = [distinct[index] for index in tensors.pop("leaves.family_of").tolist()]
    widths = [family.width for family in families]
    sectors = Sectors(structure, config["layer_size"], widths, config.get("product", "elementwise"))
    if len(config["weights"].get("hidden", ())) > len(tensors):
        raise ValueError(f"expected a network of {len(tensors)} parameters, found more layers")
    with torch.device("meta"):
        circuit = Circuit(sectors, Leaves(families), _named(SOURCES, config["weights"], sectors), engine)
    expected = {name: tuple(value.shape) for name, value in circuit.state_dict().items()}
    found = {name: tuple(value.shape) for name, value in tensors.items()}
    if expected != found:
        raise ValueError(f"expected parameters {expected}, found {found}")
    if {value.dtype for value in tensors.values()} not in ({torch.float32}, {torch.float64}):
        raise ValueError("expected parameters of float32 or float64")
    if any(value.isnan().any() for value in tensors.values()):
        raise ValueError("expected numbers as parameters, found NaN")
    circuit.load_state_dict(tensors, assign=True)
    circuit.notes = dict(config["notes"])
    return circuit


def _named(choices: dict[str, Any], config: dict[str, Any], *arguments: Any) -> Any:
    options = dict(config)
    return choices[options.pop("name")](*arguments, **options)


def _compact(array: np.ndarray) -> np.ndarray:
    """The same integers in the smallest type that holds them."""
    for candidate in (np.uint8, np.int16, np.int32):
        if array.size == 0 or array.max() <= np.iinfo(candidate).max:
            return array.astype(candidate)
    return array
