"""Loading: circuits and mixtures from files that `save` wrote. Never runs code from a file; a bad one is a `ValueError`."""

from __future__ import annotations

import json
import os

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from safetensors import safe_open
from torch import Tensor
from torch.overrides import TorchFunctionMode

from ..checks import whole
from ..leaves import Binomial, Categorical, Gaussian, Histogram, LeafFamily, Leaves, Numeric
from ..structures import RegionGraph
from ..weights import DirectWeights, FactoredWeights, HyperWeights, Sectors, WeightSource
from .circuit import FORMAT, FORMAT_VERSION, Circuit
from .mixtures import MIXTURE, MIXTURE_FORMAT, Mixture
from .models import sectors_of

Class = type[LeafFamily] | type[WeightSource]

CLASSES: tuple[Class, ...] = (
    Categorical,
    Gaussian,
    Binomial,
    Histogram,
    Numeric,
    DirectWeights,
    HyperWeights,
    FactoredWeights,
)
LARGEST_RATIO = 1000  # of sectors, or of a replica's weights where these are numbered, to the numbers in the file


def load(path: str | os.PathLike[str], engine: str = "auto", classes: Sequence[Class] = ()) -> Circuit | Mixture:
    """Reads a circuit or a mixture that `save` wrote.

    Arguments:
        path: The file.
        engine: How circuits are evaluated (see `Circuit`).
        classes: Leaf families and weight sources of your own that circuits may be made of.
    """
    metadata, tensors = _read(path, "a model file")
    kind, version = metadata.get("format"), metadata.get("version", "")
    if kind not in (FORMAT, MIXTURE_FORMAT):
        raise ValueError(f"expected a model file of {FORMAT}, found another kind of safetensors file at {path}")
    if not version.isdecimal() or int(version) > FORMAT_VERSION:
        raise ValueError(f"expected format version {FORMAT_VERSION} or older, found {version!r} in {path}")
    known = {known.__name__: known for known in (*CLASSES, *classes)}
    try:
        config = json.loads(metadata["config"])
        parts = [config] if kind == FORMAT else config["components"]
        names = [entry["name"] for part in parts for entry in (*part["leaves"], part["weights"])]
        unknown = [name for name in names if name not in known]
        rebuild = _rebuild if kind == FORMAT else _rebuild_mixture
        model = None if unknown else rebuild(config, tensors, known, engine)
    except Exception as error:
        raise ValueError(f"expected a complete model file, found an inconsistent one at {path} ({error})") from error
    if model is None:
        raise ValueError(
            f"{path} is made with a class {unknown[0]!r} that is not one of hyperspn's: "
            "name it when you open the file, load(path, classes=[...])"
        )
    return model


def load_mixture(path: str | os.PathLike[str]) -> Mixture:
    """Reads a mixture: a file, or a folder with one, which in version 0.1.0 had a file for each component beside it."""
    file = Path(path) / MIXTURE if Path(path).is_dir() else Path(path)
    if not file.is_file():
        raise FileNotFoundError(f"expected a mixture, found no mixture at {file}")
    metadata, tensors = _read(file, "a mixture")
    if metadata.get("format") is None and file.name == MIXTURE:
        return _load_folder(file, tensors)
    mixture = load(file)
    if not isinstance(mixture, Mixture):
        raise ValueError(f"expected a mixture, found a single circuit at {file}")  # noqa: TRY004
    return mixture


def _load_folder(file: Path, tensors: dict[str, Tensor]) -> Mixture:
    """A mixture of version 0.1.0: one file for each component, and this one that joins them."""
    try:
        weights, centers, scale = _weights_and_centers(tensors)
    except Exception as error:
        raise ValueError(f"expected a mixture, found a damaged or foreign file at {file} ({error})") from error
    paths = [file.with_name(f"component-{component:03d}.safetensors") for component in range(len(weights))]
    if absent := [path for path in paths if not path.is_file()]:
        raise ValueError(f"expected a mixture of {len(paths)} components, found no file at {absent[0]}")
    components = [circuit for circuit in map(load, paths) if isinstance(circuit, Circuit)]
    return Mixture(components, weights, centers, scale)


def _rebuild_mixture(
    config: dict[str, Any], tensors: dict[str, Tensor], known: dict[str, Class], engine: str
) -> Mixture:
    components = []
    for c, part in enumerate(config["components"]):
        prefix = f"components.{c}."
        state = {name.removeprefix(prefix): tensors.pop(name) for name in list(tensors) if name.startswith(prefix)}
        components.append(_rebuild(part, state, known, engine))
    mixture = Mixture(components, *_weights_and_centers(tensors))
    mixture.notes = dict(config["notes"])
    return mixture


def _weights_and_centers(tensors: dict[str, Tensor]) -> tuple[Tensor, Tensor | None, float]:
    """What joins the components of a mixture: their weights, and centers and the scale if it has any."""
    weights, scale, centers = (
        tensors.pop("log_weights").exp(),
        tensors.pop("scale").item(),
        tensors.pop("centers", None),
    )
    is_sound = weights.ndim == 1 and abs(weights.sum().item() - 1) < 1e-3 and 0 < scale < torch.inf
    numbers = [weights, *([] if centers is None else [centers])]
    if tensors or not is_sound or not {tensor.dtype for tensor in numbers} <= {torch.float32, torch.float64}:
        raise ValueError("expected weights that sum to 1 and a scale above 0")
    if centers is not None and not centers.isfinite().all():
        raise ValueError("expected finite centers")
    return weights, centers, scale


def _read(path: str | os.PathLike[str], what: str) -> tuple[dict[str, str], dict[str, Tensor]]:
    """The metadata and the tensors of a safetensors file."""
    if not Path(path).is_file():
        raise FileNotFoundError(f"expected {what}, found none at {os.fspath(path)}")
    try:
        with safe_open(path, framework="pt") as file:
            return file.metadata() or {}, {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118
    except OSError:
        raise
    except Exception as error:
        raise ValueError(f"expected {what}, found a damaged or foreign one at {path} ({error})") from error


def _rebuild(config: dict[str, Any], tensors: dict[str, Tensor], known: dict[str, Class], engine: str) -> Circuit:
    """Builds the circuit without memory for its weights' parameters, and puts those of the file in, if they fit."""
    prefix = "structure."
    arrays = {name.removeprefix(prefix): tensors.pop(name).numpy() for name in list(tensors) if name.startswith(prefix)}
    structure = RegionGraph(config["num_variables"], **arrays, spare_sectors=config["spare_sectors"])
    distinct = [_build(known, family) for family in config["leaves"]]
    families = [distinct[index] for index in tensors.pop("leaves.family_of").tolist()]
    sectors = _sectors(config, structure, families, tensors)
    stored = sum(value.numel() for value in tensors.values())
    of_leaves = sum(family.width * family.num_parameters for family in families)
    if of_leaves > stored:
        raise ValueError(f"expected leaves for {stored} parameters, found {of_leaves}")
    leaves = Leaves(families)
    with torch.device("meta"), Hollow():
        circuit = Circuit(sectors, leaves, _build(known, config["weights"], sectors), engine)
    expected = {name: tuple(value.shape) for name, value in circuit.state_dict().items()}
    shapes = {name: tuple(value.shape) for name, value in tensors.items()}
    if expected != shapes:
        raise ValueError(f"expected parameters {expected}, found {shapes}")
    if {value.dtype for value in tensors.values()} not in ({torch.float32}, {torch.float64}):
        raise ValueError("expected parameters of float32 or float64")
    circuit.load_state_dict(tensors, assign=True)
    _check_numbers(circuit)
    circuit.notes = dict(config["notes"])
    return circuit


def _build(known: dict[str, Class], config: dict[str, Any], *arguments: Any) -> Any:
    options = dict(config)
    if any(isinstance(value, int) and value.bit_length() > 62 for value in options.values()):
        raise ValueError(f"expected numbers that can be computed with, found {options}")
    return known[options.pop("name")](*arguments, **options)


def _sectors(
    config: dict[str, Any], structure: RegionGraph, families: Sequence[LeafFamily], tensors: dict[str, Tensor]
) -> Sectors:
    """The sectors of the circuit, unless they or its weights would need far more memory than the file is large."""
    layer_size, product, source = config["layer_size"], config.get("product", "elementwise"), config["weights"]
    stored = len(structure.children) + sum(value.numel() for value in tensors.values())
    rows = np.full(structure.num_regions, float(whole("layer_size", layer_size)))
    rows[structure.roots] = 1
    outer = (rows * np.maximum(structure.partition_counts, 1)).sum() * layer_size
    if product == "outer" and outer > LARGEST_RATIO * stored:
        raise ValueError(f"expected sectors for {stored} numbers, found {outer:.0f}")
    sectors = sectors_of(structure, layer_size, families, product)
    weights = sectors.num_weights / len(structure.roots)
    if source["name"] == FactoredWeights.__name__ and weights > LARGEST_RATIO * stored:
        raise ValueError(f"expected weights for {stored} numbers, found {weights:.0f} in a replica")
    if len(source.get("hidden", ())) > len(tensors):
        raise ValueError(f"expected a network of {len(tensors)} parameters, found more layers")
    return sectors


class Hollow(TorchFunctionMode):
    """Takes random numbers on the meta device for what they are, shapes; on its own torch imports its compiler for them."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in (torch.rand, torch.randn):
            return torch.empty(*args, **(kwargs or {}))
        is_scaled = func is Tensor.mul and not isinstance(args[1], Tensor)
        return args[0] if is_scaled else func(*args, **(kwargs or {}))


def _check_numbers(circuit: Circuit) -> None:
    """Refuses NaN and infinity as parameters. Only a weight may be zero, its logarithm -inf, beside others in a sum."""
    weights = ("mixture", "weights.") if isinstance(circuit.weights, DirectWeights) else ("mixture",)
    has_zeros = False
    for name, value in circuit.state_dict().items():
        is_zero = value == -torch.inf
        if not (value < torch.inf).all() or (is_zero.any() and not name.startswith(weights)):
            raise ValueError(f"expected finite numbers as parameters, found others in {name}")
        has_zeros |= bool(is_zero.any())
    if has_zeros and any((logits.amax(-1) == -torch.inf).any() for logits in _sums(circuit)):
        raise ValueError("expected a weight > 0 in every sum, found a sum without")


def _sums(circuit: Circuit) -> Iterator[Tensor]:
    """The unnormalized weights of all sums, one in each row of the last axis."""
    yield circuit.mixture
    for layer in circuit.sectors.layers:
        if layer.has_sums:
            yield from layer.sums(circuit.weights(layer.kind_index, layer.sectors.flatten()))
