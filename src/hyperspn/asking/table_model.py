"""TableModel: a circuit over the columns of a table, asked in the table's own words."""

from __future__ import annotations

import os

from collections.abc import Sequence
from math import nan
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch

from ..circuits import Circuit, Mixture, load
from ..data import Schema, like, table_of
from ..learning import History
from .distributions import LEVELS, distribution
from .explain import explain
from .imputing import Strategy, bounds, fill
from .influence import influence
from .numbers import mean_and_std, quantiles
from .probability import chance, probability
from .reading import FloatArray, Given, known_of, possible, read, read_present, width_of
from .similarity import similar
from .surprisal import anomalies, surprisal

if TYPE_CHECKING:
    import pyarrow as pa

    from ..explorer import Explorer


class TableModel:
    """The joint distribution of the columns of a table: a trained circuit, and what its variables mean.

    Evidence is text like ``age=30..40, job=student|retired``, or a dictionary of events by column (see `data.events`).

    Arguments:
        circuit: The circuit, or a mixture of circuits (see `fit_ensemble`).
        schema: The columns of the table, one for each variable.
        frame: A DataFrame whose kind and types answers should have; by default they are pyarrow tables.

    Attributes:
        num_rows: The number of rows of the table that the model was learned from, if it is known.
        recipe: The name of the recipe by which it was made, if it is known.
        history: The course of its training, if `fit_table` has trained it as a single circuit.
    """

    circuit: Circuit  # or a mixture, which answers the same queries

    def __init__(self, circuit: Circuit | Mixture, schema: Schema, frame: Any = None) -> None:
        self.circuit = cast(Circuit, circuit.requires_grad_(False).double())
        self.schema = schema
        self.frame = frame
        self.num_rows: int | None = circuit.notes.get("rows")
        self.recipe: str | None = circuit.notes.get("recipe")
        self.history: History | None = None

    @classmethod
    def load(cls, run: str | os.PathLike[str]) -> TableModel:
        """Reads the model that `hyperspn train` or `save` wrote: its folder, or its file."""
        path = Path(run)
        circuit = load(path / "model.safetensors" if path.is_dir() else path)
        if "schema" not in circuit.notes:
            raise ValueError(f"expected a model that `hyperspn train` wrote, found one without columns at {path}")
        return cls(circuit, Schema.from_dict(circuit.notes["schema"]))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the model into one file."""
        self.circuit.notes = {**self.circuit.notes, "schema": self.schema.to_dict()}
        self.circuit.save(path)

    def explore(self, rows: Any = None) -> Explorer:
        """The explorer: a page that shows every column, and how it changes with what is known.

        A notebook shows it; ``explore().save("people.html")`` writes it into one file. No row of a table is in it, unless
        rows are given: a DataFrame, table or array.
        """
        from ..explorer import Explorer

        return Explorer.of(self, rows)

    def __repr__(self) -> str:
        return f"TableModel of {', '.join(self.schema.names)}"

    chance = chance
    probability = probability
    distribution = distribution
    surprisal = surprisal
    anomalies = anomalies
    influence = influence
    similar = similar
    explain = explain

    def predict(self, frame: Any, column: str, levels: Sequence[float] = LEVELS) -> Any:
        """The distribution of a column given all others, for each row.

        The probability of each category, or the mean and the quantiles of a column of numbers, as a DataFrame or table.
        What the table holds in the column itself is ignored.
        """
        import pyarrow as pa

        variable = self.schema.index(column)
        x = possible(self.schema, self.schema.encode(table_of(frame)))
        x[:, variable] = nan
        posterior = self.circuit.marginals(read_present(self, x, [variable]))[:, variable, : width_of(self, variable)]
        meaning = self.schema.columns[variable]
        if not meaning.is_numeric:
            labels = meaning.labels
            return like(frame, pa.table([*posterior[:, : len(labels)].double().numpy().T], [*map(str, labels)]))
        values = quantiles(self.circuit, variable, posterior, levels)
        mean = mean_and_std(self.circuit, variable, posterior)[0] * meaning.std + meaning.mean
        names = ["mean", *(f"{100 * level:g}%" for level in levels)]
        return like(frame, pa.table([mean, *(meaning.decode(level) for level in values.T)], names))

    def log_likelihood(self, frame: Any, notes: list[str] | None = None) -> FloatArray:
        """The log-likelihood of each row in the units of the table, with unknown values integrated out: (rows,).

        The probability of a value that the model has never seen counts as 1 / (N + 1), N its number of training rows.
        """
        table = table_of(frame)
        x = self.schema.encode(table, notes=notes)
        return self.log_likelihood_of_rows(x) + self._log_shares(table, x)

    @torch.no_grad()
    def conditional_log_likelihood(self, frame: Any, column: str) -> FloatArray:
        """log p(column | rest of the row) of each row, in the units of the column: (rows,)."""
        x = possible(self.schema, self.schema.encode(table_of(frame)))
        rest = x.copy()
        rest[:, self.schema.index(column)] = nan
        return self.log_likelihood_of_rows(x) - self.log_likelihood_of_rows(rest)

    def _log_shares(self, table: pa.Table, x: FloatArray) -> FloatArray:
        """What values that are pooled, or that the model has never seen, add to the log-likelihoods: (rows,)."""
        total = np.zeros(len(x))
        for variable, column in enumerate(self.schema.columns):
            if column.name in table.column_names:
                values = table.column(column.name)
                unseen = np.isnan(x[:, variable]) & np.asarray(values.is_valid())
                total[unseen] -= np.log((self.num_rows or 0) + 1)
                total += column.log_shares(values)
        return total

    @torch.no_grad()
    def log_likelihood_of_rows(self, x: np.ndarray) -> FloatArray:
        """The log-likelihood of encoded rows, (rows, variables), in the units of the table: (rows,)."""
        return self.circuit.log_prob(x).double().numpy() - self.schema.log_scale(x)

    def sample(self, n: int, given: Given = None, seed: int = 0) -> Any:
        """Draws rows under evidence, without rejecting any: a DataFrame or table."""
        table = self.schema.decode(self.sample_rows(n, given, seed), seed)
        return table if self.frame is None else like(self.frame, table)

    def sample_rows(self, n: int, given: Given = None, seed: int = 0) -> FloatArray:
        """Draws encoded rows under evidence, (n, variables)."""
        generator = torch.Generator().manual_seed(seed)
        known = known_of(self.schema, given)
        if not known:
            return self.circuit.sample(n, generator).double().numpy()
        return self.circuit.sample_given(read(self, known), n=n, generator=generator)[0].double().numpy()

    def impute(
        self,
        frame: Any,
        draws: int | None = None,
        interval: float | None = None,
        seed: int = 0,
        notes: list[str] | None = None,
        strategy: Strategy = "best",
    ) -> Any:
        """The table with its holes filled, and all else as it was.

        Each hole gets its best single guess: the most probable category, or the mean, rounded as numbers are recorded.
        Numbers without any probability, outside the bounds of their column or far from all others, count as unknown.

        Arguments:
            frame: A DataFrame, table or array.
            draws: Fill each hole by that many draws instead: one table after the other, told apart by a first column
                ``.imputation``.
            interval: Add columns with the bounds that hold a filled number with this probability, like 0.9.
            seed: Determines the draws.
            notes: A list to which sentences about the table are added.
            strategy: "best", "median" for the median of numbers in place of the mean, or "sample" for one draw.
        """
        table = table_of(frame)
        x = possible(self.schema, self.schema.encode(table, notes=notes))
        if draws is not None:
            return like(frame, self._draws(table, x, draws, seed))
        filled = fill(self.circuit, self.schema, read_present(self, x), strategy, seed)
        completed = self.schema.fill(table, filled)
        return like(frame, completed if interval is None else self._with_bounds(completed, table, x, interval))

    def bounds(self, frame: Any, coverage: float = 0.9) -> Any:
        """Bounds that hold each missing number with this probability: columns ``<name>.low`` and ``<name>.high``."""
        import pyarrow as pa

        table = table_of(frame)
        x = possible(self.schema, self.schema.encode(table))
        names, columns = [], []
        for column, ends in bounds(self.circuit, self.schema, read_present(self, x), coverage):
            if column.name in table.column_names:
                names += [f"{column.name}.low", f"{column.name}.high"]
                columns += [column.decode(end) for end in ends.T]
        return like(frame, pa.table(columns, names))

    def _draws(self, table: pa.Table, x: FloatArray, draws: int, seed: int) -> pa.Table:
        import pyarrow as pa

        generator = torch.Generator().manual_seed(seed)
        drawn = self.circuit.sample_given(read_present(self, x), n=draws, generator=generator).double().numpy()
        tables = [self.schema.fill(table, drawn[:, i]) for i in range(draws)]
        numbered = [t.add_column(0, ".imputation", [np.full(len(t), i + 1)]) for i, t in enumerate(tables)]
        return pa.concat_tables(numbered, promote_options="permissive")

    def _with_bounds(self, completed: pa.Table, table: pa.Table, x: FloatArray, interval: float) -> pa.Table:
        """Adds the columns ``<name>.low`` and ``<name>.high`` of numbers that were filled."""
        for column, ends in bounds(self.circuit, self.schema, read_present(self, x), interval):
            if column.name in table.column_names and not np.isnan(ends).all():
                for end, values in zip(("low", "high"), ends.T, strict=True):
                    completed = completed.append_column(f"{column.name}.{end}", column.decode(values))
        return completed
