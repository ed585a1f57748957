"""TableModel: a circuit over the columns of a table, asked in the table's own words."""

from __future__ import annotations

import os

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from numpy.typing import NDArray

from ..circuits import Circuit, load
from ..data import Schema

if TYPE_CHECKING:
    import pyarrow as pa


class TableModel:
    """A trained circuit and what its variables mean.

    Arguments:
        circuit: The circuit; its notes hold the schema.
        schema: The columns of the table, one for each variable.
    """

    def __init__(self, circuit: Circuit, schema: Schema) -> None:
        self.circuit = circuit.requires_grad_(False)
        self.schema = schema

    @classmethod
    def load(cls, run: str | os.PathLike[str]) -> TableModel:
        """Reads the model that `hyperspn train` wrote: its folder, or the file in it."""
        path = Path(run)
        circuit = load(path / "model.safetensors" if path.is_dir() else path)
        if "schema" not in circuit.notes:
            raise ValueError(f"expected a model that `hyperspn train` wrote, found one without columns at {path}")
        return cls(circuit, Schema.from_dict(circuit.notes["schema"]))

    @torch.no_grad()
    def log_likelihood(self, x: np.ndarray) -> NDArray[np.float64]:
        """The log-likelihood of encoded rows, (rows, variables), in the units of the table: (rows,)."""
        return self.circuit.log_prob(x).double().numpy() - self.schema.log_scale(x)

    def distribution(self, column: str, given: str = "") -> dict[str, Any]:
        """The exact distribution of a column given evidence like ``color=red,size=3``.

        The log-likelihood of the evidence, and the mean and the standard deviation of a continuous column, or the
        probability of each category, the largest first.
        """
        evidence, variable = self.schema.evidence(given), self.schema.index(column)
        answer: dict[str, Any] = {"log_p_given": float(self.log_likelihood(evidence)[0])}
        meaning = self.schema.columns[variable]
        if meaning.is_numeric:
            mean, variance = (float(moment[0, variable]) for moment in self.circuit.moments(evidence))
            return answer | {"mean": mean * meaning.std + meaning.mean, "std": variance**0.5 * meaning.std}
        probabilities = self.circuit.marginals(evidence)[0, variable, : len(meaning.categories)].tolist()
        ranked = sorted(zip(meaning.categories, probabilities, strict=True), key=lambda entry: -entry[1])
        return answer | {"probabilities": {str(category): probability for category, probability in ranked}}

    def sample(self, n: int, given: str = "", seed: int = 0) -> NDArray[np.float64]:
        """Draws encoded rows given evidence, (n, variables); `schema.decode` makes a table of them."""
        generator = torch.Generator().manual_seed(seed)
        return self.circuit.sample_given(self.schema.evidence(given), n=n, generator=generator)[0].double().numpy()

    def impute(self, table: pa.Table) -> pa.Table:
        """The table with each hole filled by its best single guess, and all else as it was."""
        return self.schema.fill(table, self.circuit.impute(self.schema.encode(table)).double().numpy())
