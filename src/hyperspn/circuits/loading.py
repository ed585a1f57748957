"""Loading: circuits from files that `Circuit.save` wrote."""

from __future__ import annotations

import json
import os

from pathlib import Path
from typing import Any

import torch

from safetensors import SafetensorError, safe_open
from torch import Tensor

from ..leaves import Binomial, Categorical, Gaussian, Histogram, Leaves, Numeric
from ..structures import RegionGraph
from ..weights import DirectWeights, FactoredWeights, HyperWeights, Sectors
from .circuit import FORMAT, FORMAT_VERSION, Circuit

FAMILIES = {family.__name__: family for family in (Categorical, Gaussian, Binomial, Histogram, Numeric)}
SOURCES = {source.__name__: source for source in (DirectWeights, HyperWeights, FactoredWeights)}


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
