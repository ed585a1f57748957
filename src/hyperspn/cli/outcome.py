"""What training came to, and how it is told."""

from __future__ import annotations

import json

from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

from numpy.typing import NDArray

from ..asking import TableModel
from ..asking.fitting import possible_rows
from ..checks import plural
from ..circuits import Mixture
from ..data import Splits
from ..data.streams import in_memory
from ..learning.checkpoint import LOG
from ..learning.ensembles import judging_rows
from .output import UNIT, impossible_rows, print_table


def outcome(model: TableModel, splits: Splits, out: Path) -> dict[str, Any]:
    """What the run came to, beside two plain models of the same rows."""
    from ..learning.baselines import chow_liu_tree, independent_columns

    is_ensemble = isinstance(model.circuit, Mixture)
    rows = (_unseen_rows(splits, model.circuit.notes["seed"]) if is_ensemble else splits.valid, splits.test)
    likelihoods = [model.log_likelihood_of_rows(x) for x in rows]
    impossible = [*impossible_rows(likelihoods[0], "validation rows"), *impossible_rows(likelihoods[1], "test rows")]
    table = {
        "chow_liu_tree": _means(chow_liu_tree(splits.schema, in_memory(splits.train), *rows)),
        "independent_columns": _means(independent_columns(splits.schema, in_memory(splits.train), *rows)),
    }
    return {
        "recipe": model.recipe,
        **(_members(model, rows) if is_ensemble else {"step": _best_step(out)}),
        **_means(likelihoods),
        "unit": UNIT,
        "baselines": table,
        "parameters": model.circuit.num_parameters,
        "rows": {name: len(x) for name, x in zip(("train", "valid", "test"), splits[1:4], strict=True)},
        "left_out": dict(splits.schema.left_out),
        "notes": [*splits.notes, *impossible],
    }


def _means(likelihoods: Sequence[NDArray]) -> dict[str, float]:
    """The mean log-likelihoods of validation and test rows."""
    return {part: float(values.mean()) for part, values in zip(("valid", "test"), likelihoods, strict=True)}


def _unseen_rows(splits: Splits, seed: int) -> NDArray:
    """The validation rows that the weights of an ensemble have not seen."""
    valid = splits.valid[possible_rows(splits.schema, splits.valid)]
    return valid[judging_rows(len(valid), seed)] if len(valid) > 1 else valid


def _members(model: TableModel, rows: Sequence[NDArray]) -> dict[str, Any]:
    """What each member of an ensemble comes to."""
    mixture = cast(Mixture, model.circuit)
    members = [
        {
            **circuit.notes,
            "weight": weight,
            **_means([TableModel(circuit, model.schema).log_likelihood_of_rows(x) for x in rows]),
            "parameters": circuit.num_parameters,
        }
        for circuit, weight in zip(mixture.components, mixture.log_weights.exp().tolist(), strict=True)
    ]
    return {"members": members, "left_out_members": mixture.notes["trained"] - len(members)}


def _best_step(out: Path) -> int:
    evaluations = [json.loads(line) for line in (out / LOG).read_text().splitlines()]
    return max(evaluations, key=lambda entry: entry["valid"])["step"]


def show(report: dict[str, Any]) -> None:
    names = {"independent_columns": "independent columns", "chow_liu_tree": "one Chow-Liu tree, no hidden states"}
    lines = [[names[name], *report["baselines"][name].values()] for name in names]
    lines += [
        [f"member {number} ({member['recipe']}, weight {member['weight']:.2f})", member["valid"], member["test"]]
        for number, member in enumerate(report.get("members", ()), 1)
    ]
    label = f"this model ({report['recipe']}, {report['parameters']:,} parameters)"
    valid = "half of valid" if "members" in report else "valid"
    print_table((UNIT, valid, "test"), [*lines, [label, report["valid"], report["test"]]])
    if "members" in report:
        left_out = report["left_out_members"]
        ending = f"; {plural(left_out, 'member')} with hardly any weight left out" if left_out else ""
        print(f"weights are learned from the other half of the validation rows{ending}")
    print(f"{report['seconds']:,} seconds. Try next:\n")
