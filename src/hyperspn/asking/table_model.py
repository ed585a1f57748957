"""TableModel: a circuit over the columns of a table, asked in the table's own words."""

from __future__ import annotations

import os

from collections.abc import Mapping, Sequence
from itertools import pairwise, product
from math import inf, nan
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch

from numpy.typing import NDArray
from torch import Tensor

from ..circuits import Circuit, load
from ..data import Schema, like, table_of
from ..data.events import Event, Known, as_known, intersect, present
from ..data.parsing import parse_evidence
from ..learning import History
from ..leaves import Evidence
from .distributions import LEVELS, Categories, Distribution, Joint, Numbers
from .imputing import Strategy, bounds, fill
from .numbers import quantiles

if TYPE_CHECKING:
    import pyarrow as pa

Given = str | Mapping[str, Event] | None
FloatArray = NDArray[np.float64]

MOST_JOINT = 10_000
STEPS = 400


class Chance(NamedTuple):
    """How probable evidence is.

    Arguments:
        log_p: The logarithm of its probability, or of its density.
        is_probability: Whether it is a probability: not where exact values of continuous numbers or likelihoods are given.
        rows: About how many rows of the table are like that: its length times the probability.
    """

    log_p: float
    is_probability: bool
    rows: float | None


class TableModel:
    """The joint distribution of the columns of a table: a trained circuit, and what its variables mean.

    Evidence is text like ``age=30..40, job=student|retired``, or a dictionary of events by column (see `data.events`).

    Arguments:
        circuit: The circuit.
        schema: The columns of the table, one for each variable.
        frame: A DataFrame whose kind and types answers should have; by default they are pyarrow tables.

    Attributes:
        num_rows: The number of rows of the table that the model was learned from, if it is known.
        recipe: The name of the recipe by which it was made, if it is known.
        history: The course of its training, if `fit_table` has trained it.
    """

    def __init__(self, circuit: Circuit, schema: Schema, frame: Any = None) -> None:
        self.circuit = circuit.requires_grad_(False).double()
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

    def __repr__(self) -> str:
        return f"TableModel of {', '.join(self.schema.names)}"

    def chance(self, given: Given) -> Chance:
        """How probable evidence is."""
        known = self._known(given)
        log_p = float(self.circuit.log_prob(self._read(known))[0])
        log_p -= float(self.schema.log_scale(self._values(known))[0])
        is_probability = all(event.is_probability for event in known.values())
        rows = float(self.num_rows * np.exp(log_p)) if is_probability and self.num_rows is not None else None
        return Chance(log_p, is_probability, rows)

    def probability(self, event: Given, given: Given = None) -> float:
        """P(event | given), exact, in one pass.

        Example:
            >>> import numpy as np
            >>> from hyperspn import fit_table
            >>> rows = np.array([["red", 1], ["red", 1], ["blue", 2], ["blue", 3]] * 30, dtype=object)
            >>> model = fit_table(rows, names=["color", "size"], recipe="chow-liu", steps=100, progress=False)
            >>> bool(model.probability("color=red", given="size=1") > 0.9)
            True
        """
        asked, condition = self._known(event), self._known(given)
        for variable, entry in asked.items():
            if not entry.is_probability:
                raise ValueError(
                    f"column {self.schema.names[variable]!r} is continuous, where a single value has a density and no "
                    "probability: ask for a range, like 1.5..2.5"
                )
        both = {**condition, **{v: intersect(entry, condition.get(v)) for v, entry in asked.items()}}
        log_both, log_given = (float(self.circuit.log_prob(self._read(known))[0]) for known in (both, condition))
        self._check_possible(log_given)
        return float(np.exp(log_both - log_given))

    def distribution(self, columns: str | Sequence[str], given: Given = None) -> Distribution:
        """The exact distribution of a column, or the joint one of several, given evidence."""
        names = [columns] if isinstance(columns, str) else list(columns)
        variables = [self.schema.index(name) for name in names]
        known = self._known(given)
        if len(names) > 1:
            return self._joint(names, known)
        (variable,) = variables
        posterior = self._posterior(known)[:, variable, : self._width(variable)]
        if self.schema.columns[variable].is_numeric:
            return self._numbers(variable, posterior, known.get(variable))
        labels = self.schema.columns[variable].labels
        probabilities = posterior[0, : len(labels)].double().tolist()
        ranked = sorted(zip(labels, probabilities, strict=True), key=lambda entry: -entry[1])
        return Categories(names[0], dict(ranked))

    def predict(self, frame: Any, column: str, levels: Sequence[float] = LEVELS) -> Any:
        """The distribution of a column given all others, for each row.

        The probability of each category, or the mean and the quantiles of a column of numbers, as a DataFrame or table.
        What the table holds in the column itself is ignored.
        """
        import pyarrow as pa

        variable = self.schema.index(column)
        x = self._possible(self.schema.encode(table_of(frame)))
        x[:, variable] = nan
        posterior = self.circuit.marginals(self._present(x, [variable]))[:, variable, : self._width(variable)]
        meaning = self.schema.columns[variable]
        if not meaning.is_numeric:
            labels = meaning.labels
            return like(frame, pa.table([*posterior[:, : len(labels)].double().numpy().T], [*map(str, labels)]))
        values = quantiles(self.circuit, variable, posterior, levels)
        mean = self._means(variable, posterior)[0].numpy()
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
        x = self._possible(self.schema.encode(table_of(frame)))
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
        known = self._known(given)
        if not known:
            return self.circuit.sample(n, generator).double().numpy()
        return self.circuit.sample_given(self._read(known), n=n, generator=generator)[0].double().numpy()

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
        x = self._possible(self.schema.encode(table, notes=notes))
        if draws is not None:
            return like(frame, self._draws(table, x, draws, seed))
        filled = fill(self.circuit, self.schema, self._present(x), strategy, seed)
        completed = self.schema.fill(table, filled)
        return like(frame, completed if interval is None else self._with_bounds(completed, table, x, interval))

    def bounds(self, frame: Any, coverage: float = 0.9) -> Any:
        """Bounds that hold each missing number with this probability: columns ``<name>.low`` and ``<name>.high``."""
        import pyarrow as pa

        table = table_of(frame)
        x = self._possible(self.schema.encode(table))
        names, columns = [], []
        for column, ends in bounds(self.circuit, self.schema, self._present(x), coverage):
            if column.name in table.column_names:
                names += [f"{column.name}.low", f"{column.name}.high"]
                columns += [column.decode(end) for end in ends.T]
        return like(frame, pa.table(columns, names))

    def _draws(self, table: pa.Table, x: FloatArray, draws: int, seed: int) -> pa.Table:
        import pyarrow as pa

        generator = torch.Generator().manual_seed(seed)
        drawn = self.circuit.sample_given(self._present(x), n=draws, generator=generator).double().numpy()
        tables = [self.schema.fill(table, drawn[:, i]) for i in range(draws)]
        numbered = [t.add_column(0, ".imputation", [np.full(len(t), i + 1)]) for i, t in enumerate(tables)]
        return pa.concat_tables(numbered, promote_options="permissive")

    def _with_bounds(self, completed: pa.Table, table: pa.Table, x: FloatArray, interval: float) -> pa.Table:
        """Adds the columns ``<name>.low`` and ``<name>.high`` of numbers that were filled."""
        for column, ends in bounds(self.circuit, self.schema, self._present(x), interval):
            if column.name in table.column_names and not np.isnan(ends).all():
                for end, values in zip(("low", "high"), ends.T, strict=True):
                    completed = completed.append_column(f"{column.name}.{end}", column.decode(values))
        return completed

    def _possible(self, x: FloatArray) -> FloatArray:
        """The rows, changed, with nothing known where a number has no probability."""
        for variable, column in enumerate(self.schema.columns):
            x[column.impossible(x[:, variable]), variable] = nan
        return x

    def _known(self, given: Given) -> dict[int, Known]:
        """Evidence by variable, as the circuit sees it."""
        if not given:
            return {}
        events = parse_evidence(given, self.schema.names) if isinstance(given, str) else given
        return {
            variable: as_known(self.schema.columns[variable], event)
            for variable, event in ((self.schema.index(name), event) for name, event in events.items())
        }

    def _values(self, known: Mapping[int, Known]) -> FloatArray:
        """One row of the values in evidence, (1, variables), NaN elsewhere."""
        x = np.full((1, len(self.schema.columns)), nan)
        for variable, entry in known.items():
            if entry.value is not None:
                x[0, variable] = entry.value
        return x

    def _read(self, *known: Mapping[int, Known]) -> Evidence:
        """Evidence of several rows for the circuit."""
        events = [{v: entry.event for v, entry in row.items() if entry.event is not None} for row in known]
        return self.circuit.read(np.concatenate([self._values(row) for row in known]), events=events)

    def _present(self, x: FloatArray, variables: Sequence[int] = ()) -> Evidence:
        """Evidence for rows with holes to fill: where "missing" is data, these hold some value."""
        x = x.copy()
        events: list[dict[int, FloatArray]] = [{} for _ in x]
        for variable, column in enumerate(self.schema.columns):
            if column.missing_as_data:
                holes = ~(x[:, variable] < (inf if column.is_numeric else column.size - 1))
                x[holes, variable] = nan
                for row in np.flatnonzero(holes | (variable in variables)):
                    events[row][variable] = present(column)
        return self.circuit.read(x, events=events)

    def _width(self, variable: int) -> int:
        """The number of leaf distributions of a variable."""
        return self.circuit.leaves.families[variable].width

    def _posterior(self, known: Mapping[int, Known]) -> Tensor:
        """The posterior of all leaf distributions, (1, variables, l)."""
        self._check_possible(float(self.circuit.log_prob(self._read(known))[0]))
        return self.circuit.marginals(self._read(known))

    def _numbers(self, variable: int, posterior: Tensor, known: Known | None) -> Numbers:
        column, family = self.schema.columns[variable], self.circuit.leaves.families[variable]
        within = None if known is None else known.event
        values = quantiles(self.circuit, variable, posterior, LEVELS, within)[0]
        mean, std = self._mean_and_std(variable, posterior, within)
        points = getattr(family, "points", ())
        chances = dict(
            zip(points, posterior[0, family.width - len(points) : family.width].double().tolist(), strict=True)
        )
        missing = chances.pop(inf, None)
        written = [entry.as_py() for entry in column.decode(np.array([*values, mean, *chances]))]
        ranked = sorted(zip(written[len(LEVELS) + 1 :], chances.values(), strict=True), key=lambda entry: -entry[1])
        middle = written[len(LEVELS)] if column.kind == "date" else float(mean * column.std + column.mean)
        return Numbers(
            column.name, dict(zip(LEVELS, written, strict=False)), middle, std * column.std, dict(ranked), missing
        )

    def _mean_and_std(self, variable: int, posterior: Tensor, within: FloatArray | None) -> tuple[float, float]:
        """Of a mixture of the leaf distributions; within intervals, averages over equal steps of probability."""
        if within is not None:
            steps = quantiles(self.circuit, variable, posterior, (np.arange(STEPS) + 0.5) / STEPS, within)[0]
            return float(steps.mean()), float(steps.std())
        mean, std = self._means(variable, posterior)
        return float(mean[0]), float(std[0])

    def _means(self, variable: int, posterior: Tensor) -> tuple[Tensor, Tensor]:
        """Means and standard deviations of mixtures of the leaf distributions, two of (rows,)."""
        family = self.circuit.leaves.families[variable]
        single = type(family).join([family])
        mean, variance = (part[0].double() for part in single.moments(self.circuit.leaves.parameters_of(variable)))
        weights = posterior[:, : len(mean)].double().clone()
        if self.schema.columns[variable].missing_as_data:
            weights[:, -1] = 0
        weights /= weights.sum(1, keepdim=True)
        center = weights @ mean
        return center, (weights * (variance + (mean - center[:, None]).square())).sum(1).sqrt()

    def _joint(self, names: Sequence[str], known: Mapping[int, Known]) -> Joint:
        """All combinations of categories, or of ranges between the quartiles of numbers."""
        choices = [self._alternatives(name, known) for name in names]
        count = int(np.prod([len(choice) for choice in choices]))
        if count > MOST_JOINT:
            raise ValueError(
                f"expected at most {MOST_JOINT:,} combinations of values, found {count:,}: ask for fewer columns"
            )
        combinations = list(product(*(choice.items() for choice in choices)))
        rows = [dict(known) for _ in combinations]
        for row, combination in zip(rows, combinations, strict=True):
            for name, (_, entry) in zip(names, combination, strict=True):
                variable = self.schema.index(name)
                row[variable] = intersect(entry, known.get(variable))
        log_given = float(self.circuit.log_prob(self._read(known))[0])
        self._check_possible(log_given)
        log_p = self.circuit.log_prob(self._read(*rows)).double().numpy() - log_given
        labels = [tuple(label for label, _ in combination) for combination in combinations]
        return Joint(tuple(names), dict(zip(labels, np.exp(log_p).tolist(), strict=True)))

    def _alternatives(self, name: str, known: Mapping[int, Known]) -> dict[Any, Known]:
        """The values of a column among which a joint distribution tells apart."""
        variable = self.schema.index(name)
        column = self.schema.columns[variable]
        if not column.is_numeric:
            return {label: Known(event=np.eye(column.size)[code]) for code, label in enumerate(column.labels)}
        answer = self.distribution(name, None)
        assert isinstance(answer, Numbers)
        limits = list(dict.fromkeys(answer.quantiles[level] for level in (0.25, 0.5, 0.75)))
        events = {f"<= {limits[0]}": (None, limits[0])}
        edges = [as_known(column, (None, limit)).event for limit in limits]
        cuts = [-inf, *(float(edge[0, 1]) for edge in edges if edge is not None), inf]
        labels = [
            *events,
            *(f"{low} to {high}" for low, high in pairwise(limits)),
            f"> {limits[-1]}",
        ]
        pieces = [np.array([[low, high]]) for low, high in pairwise(cuts)]
        return {label: Known(event=piece) for label, piece in zip(labels, pieces, strict=True)}

    def _check_possible(self, log_p: float) -> None:
        if log_p == -inf:
            raise ValueError("the evidence is impossible under the model: no row can be like that")
