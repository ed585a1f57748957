"""Export: what a page needs of a model, packed into text."""

from __future__ import annotations

import base64
import gzip
import json

from collections.abc import Mapping
from dataclasses import asdict
from math import inf
from typing import Any

import numpy as np

from numpy.typing import NDArray

from ..asking import TableModel
from ..circuits import Circuit
from ..data import table_of
from ..data.columns import Column
from ..leaves import Categorical, Gaussian, Numeric
from ..weights import DirectWeights, FactoredWeights, HyperWeights

SOURCES = {DirectWeights: "direct", HyperWeights: "hyper", FactoredWeights: "factored"}
TYPES = {"float32": "f4", "float64": "f8", "uint8": "u1", "int16": "i2", "int32": "i4"}

Arrays = dict[str, NDArray]


def pack(
    model: TableModel,
    with_weights: bool = True,
    more: Mapping[str, Any] | None = None,
    arrays: Mapping[str, NDArray] | None = None,
) -> str:
    """A model as text: a header in JSON and arrays, in gzip, in base64.

    Arguments:
        model: The model.
        with_weights: Whether parameters and structure are wanted, or only what columns mean.
        more: Further entries of the header.
        arrays: Further arrays.
    """
    packed = {name: _compact(array) for name, array in {**_arrays(model, with_weights), **(arrays or {})}.items()}
    header = {
        **summary(model),
        "columns": [
            {**describe(column), "hats": len(family.grid)}
            for column, family in zip(model.schema.columns, model.circuit.leaves.families, strict=True)
        ],
        "circuit": circuit_sizes(model.circuit) if with_weights else None,
        "arrays": [{"name": n, "type": TYPES[a.dtype.name], "count": a.size} for n, a in packed.items()],
        **(more or {}),
    }
    text = json.dumps(header, allow_nan=False).encode()
    parts = [len(text).to_bytes(4, "little"), text, *(_bytes_by_place(array) for array in packed.values())]
    return base64.b64encode(gzip.compress(b"".join(parts), 9, mtime=0)).decode()


def encode_rows(model: TableModel, frame: Any, notes: list[str] | None = None) -> Arrays:
    """The rows of a table as arrays for `pack`: codes and numbers, the surprisal of each in bits, and its rarest cell.

    That is -1 where no cell is rarer than one in two.
    """
    table = table_of(frame)
    bits, _, rarity = model.surprisal(table, notes)
    strange = np.where(rarity.max(1, initial=0) > 1, rarity.argmax(1), -1)
    return {"rows.codes": model.schema.encode(table), "rows.bits": bits.astype(np.float32), "rows.strange": strange}


def check(circuit: Circuit) -> None:
    """The page evaluates trees whose leaves have one variable each; all that `hyperspn train` makes of tables is like that."""
    structure = circuit.structure
    fits = circuit.sectors.product == "elementwise" and structure.partition_counts.max(initial=0) <= 1
    known = type(circuit.weights) in SOURCES and all(
        isinstance(family, Categorical | Numeric | Gaussian) for family in circuit.leaves.distinct
    )
    if not (fits and known and (structure.leaf_sizes == 1).all()):
        raise ValueError("expected trees over single columns with categories or numbers, found another kind of circuit")


def summary(model: TableModel) -> dict[str, Any]:
    """What is told of the model and its table as a whole."""
    notes = model.circuit.notes
    return {
        "title": str(notes.get("data", "table")),
        "rows": model.num_rows,
        "recipe": model.recipe,
        "parameters": model.circuit.num_parameters,
        "left_out": [list(entry) for entry in model.schema.left_out],
    }


def describe(column: Column) -> dict[str, Any]:
    """What a column means, as the page's `makeColumn` takes it."""
    entries: dict[str, Any] = {"name": column.name, "missing": column.missing_as_data}
    if column.is_numeric:
        entries |= {"kind": column.kind, "decimals": column.decimals, "mean": column.mean, "std": column.std}
        if column.scale is not None:
            scale = {
                name: value
                for name, value in asdict(column.scale).items()
                if value is not None and value not in (inf, -inf)
            }
            entries |= {"scale": scale, "decimals": column.scale.decimals}
        if column.kind == "date":
            is_time = column.format.is_time_of_day if column.format else column.type.startswith("time")
            entries |= {"unit": column.unit, "isTime": is_time and not column.type.startswith("timestamp")}
    else:
        labels = [*map(str, column.labels)]
        entries |= {"kind": "categorical", "labels": labels}
        if column.categories and not isinstance(column.categories[0], str | bool):
            entries["numbers"] = list(column.categories)
        if column.pooled:
            entries |= {"pooled": [*map(str, column.pooled)], "shares": list(column.shares)}
    for name in ("spelling", "format"):
        if getattr(column, name) is not None:
            entries[name] = asdict(getattr(column, name))
    return entries


def circuit_sizes(circuit: Circuit) -> dict[str, Any]:
    source, kinds, depth = circuit.weights, circuit.sectors.kinds, 0
    ranks: list[int | None] = [None] * len(kinds)
    if isinstance(source, HyperWeights | FactoredWeights):
        depth, ranks = len(source.net), [layout.rank for layout in source.layouts]
    return {
        "layerSize": circuit.sectors.layer_size,
        "source": SOURCES[type(source)],
        "depth": depth,
        "kinds": [
            {"columns": kind.columns, "count": kind.count, "written": kind.numbers_per_row, "hats": len(kind.grid)}
            | {"rank": rank}
            for kind, rank in zip(kinds, ranks, strict=True)
        ],
    }


def _arrays(model: TableModel, with_weights: bool) -> Arrays:
    """Leaf distributions by variable, and with weights the structure and all that writes them."""
    circuit = model.circuit
    arrays: Arrays = {}
    for variable, family in enumerate(circuit.leaves.families):
        if isinstance(family, Gaussian):
            mean, variance = family.moments(circuit.leaves.parameters_of(variable).detach().double())
            arrays |= {
                f"leaves.{variable}.means": mean[0].numpy(),
                f"leaves.{variable}.stds": variance[0].sqrt().numpy(),
            }
    if with_weights:
        structure = circuit.structure
        arrays |= {
            "structure.partitions": structure.partition_counts,
            "structure.arities": structure.arities,
            "structure.children": structure.children,
            "structure.variables": structure.leaf_variables,
            "weights.mixture": circuit.mixture.detach().numpy(),
        }
        state = circuit.weights.state_dict()
        arrays |= {f"weights.{name}": value.numpy() for name, value in state.items()}
    return arrays


def _compact(array: NDArray) -> NDArray:
    """The same numbers in the smallest type that holds them."""
    array = np.ascontiguousarray(array).ravel()
    candidates = [np.float32, np.float64] if array.dtype.kind == "f" else [np.uint8, np.int16, np.int32]
    with np.errstate(over="ignore"):
        return next(
            array.astype(c)
            for c in candidates
            if np.array_equal(array.astype(c), array, equal_nan=array.dtype.kind == "f")
        )


def _bytes_by_place(array: NDArray) -> bytes:
    """The first bytes of all numbers, then their second ones, and so on: gzip finds more in common there."""
    return array.view(np.uint8).reshape(-1, array.itemsize).T.tobytes()
