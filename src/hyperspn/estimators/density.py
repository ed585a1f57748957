"""HyperSPNDensity: a circuit over the columns of a table, with the face of a scikit-learn estimator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from numpy.typing import NDArray
from sklearn.base import BaseEstimator, DensityMixin
from sklearn.utils import Tags, check_random_state
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, validate_data

from ..checks import whole
from ..data import Schema, recognize, split, table_of
from ..learning.recipes import Recipe, candidates, leaf_families, search

if TYPE_CHECKING:
    import pyarrow as pa

RandomState = int | np.random.RandomState | None


def _has_target(estimator: HyperSPNDensity) -> bool:
    return estimator.target is not None


class HyperSPNDensity(DensityMixin, BaseEstimator):
    """The joint distribution of the columns of a table, learned as a HyperSPN or SPN.

    X is an array or a pandas DataFrame, (rows, columns). Each column is recognized by its values (`tables.recognize`):
    numbers with decimals, or with more than 20 different values, are continuous; other numbers, booleans (as 0 and 1)
    and strings, even those that look like numbers, are categories. NaN, None, the NA of pandas, and in an array of
    strings what is missing in a CSV file, are missing values: they are integrated out, in training too.

    Arguments:
        model: "hyperspn", whose weights a small network writes, or "spn", with one parameter per weight.
        structure: "random", "learned", "chow-liu", or for "hyperspn" also "factored", "tree-mixture" or "balanced" (see
            `recipes`); "auto" tries all of them (`recipes.search`), and takes the best on the validation rows (without
            these, "learned").
        layer_size: The number of sum nodes per region k; None for what suits the structure.
        replicas: The number of trees r; None for what suits the structure.
        embedding_dim: The size of a sector's embedding, for "hyperspn".
        hidden: The widths of the network's hidden layers, for "hyperspn"; None for what suits the structure.
        steps: The number of training steps; None for what suits the number of rows, as for the next two
            (see `Recipe.schedule`).
        batch_size: The number of rows per step.
        evaluate_every: The number of steps between evaluations.
        patience: After how many evaluations without a better validation value to stop; None for never.
        validation_fraction: The share of the rows by which the best step is chosen, at least one row; with 0, or with
            a single row in all, the last step counts.
        weight_decay: The strength of the L2 penalty; None for what suits the structure.
        learning_rate: One learning rate for all parameters, in place of the circuit's own.
        dropout: The probability of an edge of a sum to be dropped at a step.
        categories: "auto", or the categories of columns: a list with an entry for each, or a dict from some names or
            positions to entries. An entry is "auto", a list of categories, or an empty list for a continuous column.
            Columns of pandas' type "category" bring their own.
        target: The name or position of a column to predict; without it there is no `predict`, `predict_proba`, `classes_`.
        random_state: Determines everything that is random: an integer, a `RandomState`, or None.
        verbose: Whether to show a progress bar.

    Attributes:
        circuit_: The trained circuit over the encoded columns, with all its queries.
        schema_: What the columns are: `schema_.encode` and `schema_.decode` go between tables and the circuit.
        history_: The course of training.
        classes_: The categories of the target.
        n_features_in_: The number of columns.
        feature_names_in_: Their names, where X had names.

    Example:
        >>> X = np.array([["red", 1.5], ["blue", 2.5], ["red", None], [None, 1.0]] * 10, dtype=object)
        >>> density = HyperSPNDensity(target=0, steps=100, random_state=0).fit(X)
        >>> density.score_samples(X[:3]).shape
        (3,)
        >>> density.predict([[None, 1.5]])
        array(['red'], dtype='<U4')
    """

    def __init__(
        self,
        *,
        model: str = "hyperspn",
        structure: str = "auto",
        layer_size: int | None = None,
        replicas: int | None = None,
        embedding_dim: int = 5,
        hidden: Sequence[int] | None = None,
        steps: int | None = None,
        batch_size: int | None = None,
        evaluate_every: int | None = None,
        patience: int | None = None,
        validation_fraction: float = 0.1,
        weight_decay: float | None = None,
        learning_rate: float | None = None,
        dropout: float = 0.0,
        categories: str | Sequence[Any] | Mapping[Any, Any] = "auto",
        target: str | int | None = None,
        random_state: RandomState = None,
        verbose: bool = False,
    ) -> None:
        self.model = model
        self.structure = structure
        self.layer_size = layer_size
        self.replicas = replicas
        self.embedding_dim = embedding_dim
        self.hidden = hidden
        self.steps = steps
        self.batch_size = batch_size
        self.evaluate_every = evaluate_every
        self.patience = patience
        self.validation_fraction = validation_fraction
        self.weight_decay = weight_decay
        self.learning_rate = learning_rate
        self.dropout = dropout
        self.categories = categories
        self.target = target
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Any = None) -> HyperSPNDensity:
        """Recognises the columns of X and learns their distribution; y is ignored."""
        table = self._table(X, reset=True)
        given = self._categories(X, table.column_names)
        schema = recognize(table, categories=given, numeric_strings=False, leave_out=False)
        if self.target is not None:
            self._target(schema)
        x = schema.encode(table, strict=True)
        seed = _seed(self.random_state)
        train, valid = (x[rows] for rows in self._split(len(x), seed))
        names = ("steps", "batch_size", "evaluate_every", "patience", "weight_decay", "learning_rate", "dropout")
        options = {name: getattr(self, name) for name in names}
        options |= {"seed": seed, "progress": bool(self.verbose)}
        if not len(valid):
            valid, options["patience"] = None, None
        best = search(self._recipes(valid is not None), train, valid, leaf_families(schema), **options)
        self.history_ = best.history
        self.circuit_ = best.circuit.requires_grad_(False).double()
        self.schema_ = schema
        self._header = X.iloc[:0] if _is_frame(X) else None
        return self

    def score_samples(self, X: Any) -> NDArray[np.float64]:
        """The log-density of each row in the units of X, with missing values integrated out, (rows,)."""
        check_is_fitted(self)
        x = self.schema_.encode(self._table(X), strict=True)
        return self.circuit_.log_prob(x).numpy() - self.schema_.log_scale(x)

    def score(self, X: Any, y: Any = None) -> float:
        """The mean log-density of the rows, as `GaussianMixture.score` has it (`KernelDensity.score` is the sum)."""
        return float(self.score_samples(X).mean())

    def sample(self, n_samples: int = 1, random_state: RandomState = None) -> Any:
        """Draws rows, (n_samples, columns): a DataFrame if X was one in `fit`, else an array.

        Arguments:
            n_samples: The number of rows.
            random_state: In place of the estimator's own, with which each call returns the same rows if it is an integer.
        """
        check_is_fitted(self)
        seed = _seed(self.random_state if random_state is None else random_state)
        x = self.circuit_.sample(whole("n_samples", n_samples), torch.Generator().manual_seed(seed))
        table = self.schema_.decode(x.double().numpy())
        if self._header is None:
            return self._array(table)
        return _frame(self._header, table).astype(self._header.dtypes)

    def impute(self, X: Any) -> Any:
        """Fills each hole with its best single guess, the most probable category or the mean: a DataFrame or an array."""
        check_is_fitted(self)
        table = self._table(X)
        x = self.circuit_.impute(self.schema_.encode(table, strict=True))
        filled = self.schema_.fill(table, x.double().numpy())
        if not _is_frame(X):
            return self._array(filled)
        return _frame(X, filled).set_index(X.index).astype(X.dtypes[X.notna().any()])

    @property
    def classes_(self) -> np.ndarray:
        if self.target is None:
            raise AttributeError("expected a target for classes_, found None")
        check_is_fitted(self)
        return np.array(self.schema_.columns[self._target(self.schema_)].categories)

    @available_if(_has_target)
    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """p(target | all other columns) in the order of `classes_`, (rows, classes).

        X has all columns; what it holds in the target's is ignored.
        """
        count, target = len(self.classes_), self._target(self.schema_)
        x = self.schema_.encode(self._table(X, ignored=target), strict=True)
        return self.circuit_.marginals(x)[:, target, :count].numpy()

    @available_if(_has_target)
    def predict(self, X: Any) -> np.ndarray:
        """The most probable category of the target given all other columns, (rows,)."""
        return self.classes_[self.predict_proba(X).argmax(1)]

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        return tags

    def _table(self, X: Any, reset: bool = False, ignored: int | None = None) -> pa.Table:
        """X as a table, once its shape and names are known to fit; the values of one column may be ignored."""
        import pyarrow as pa

        dtype = object if isinstance(X, list | tuple) else None
        x = validate_data(self, X, reset=reset, dtype=dtype, ensure_all_finite=False)
        table = table_of(x, getattr(self, "feature_names_in_", None))
        if ignored is None:
            return table
        holes = table.column(ignored).take(pa.nulls(len(table), pa.int64()))
        return table.set_column(ignored, table.column_names[ignored], holes)

    def _categories(self, X: Any, names: Sequence[str]) -> dict[str, list[Any]]:
        """The categories that are given, by the names of their columns."""
        types = X.dtypes if _is_frame(X) else [None] * len(names)
        own = {name: type.categories for name, type in zip(names, types, strict=True) if hasattr(type, "categories")}
        entries = {} if isinstance(self.categories, str) and self.categories == "auto" else self.categories
        if isinstance(entries, Mapping):
            named = {_name(column, names): entry for column, entry in entries.items()}
        elif isinstance(entries, list | tuple) and len(entries) == len(names):
            named = dict(zip(names, entries, strict=True))
        else:
            raise ValueError(f"expected categories 'auto', a dict or a list of {len(names)}, found {entries!r}")
        for name, entry in named.items():
            if isinstance(entry, str) and entry != "auto":
                raise ValueError(f"expected 'auto' or a list of categories for column {name!r}, found {entry!r}")
        own |= {name: entry for name, entry in named.items() if not isinstance(entry, str)}
        return {name: list(entry) for name, entry in own.items()}

    def _target(self, schema: Schema) -> int:
        """The position of the column to predict, which has categories."""
        position = schema.index(_name(self.target, schema.names))
        if schema.columns[position].is_numeric:
            raise ValueError(f"expected a target with categories, found the numeric column {schema.names[position]!r}")
        return position

    def _split(self, rows: int, seed: int) -> tuple[NDArray[np.integer], NDArray[np.integer]]:
        """The rows to learn, and those by which the best step is chosen."""
        share = self.validation_fraction
        if not 0 <= share < 1:
            raise ValueError(f"expected validation_fraction >= 0 and < 1, found {share}")
        train, valid, _ = split(rows, seed, (1 - share, share, 0) if rows > 1 else (1, 0, 0))
        return train, valid

    def _recipes(self, can_choose: bool) -> dict[str, Recipe]:
        """The recipes among which to choose: for "auto" all, or learned orders where no validation rows can decide."""
        sizes = {name: getattr(self, name) for name in ("layer_size", "replicas", "embedding_dim")}
        given: dict[str, Any] = {name: whole(name, size) for name, size in sizes.items() if size is not None}
        if self.hidden is not None:
            given["hidden"] = tuple(whole("a width in hidden", width) for width in self.hidden)
        structure = self.structure if can_choose or self.structure != "auto" else "learned"
        return candidates(self.model, structure, **given)

    def _array(self, table: pa.Table) -> np.ndarray:
        """A complete table as an array of numbers, or of objects where there are strings, (rows, columns)."""
        categories = [category for column in self.schema_.columns for category in column.categories]
        has_strings = any(isinstance(category, str) for category in categories)
        return np.stack([np.array(column.to_pylist(), object) for column in table.columns], axis=1).astype(
            object if has_strings else np.float64
        )


def _frame(like: Any, table: pa.Table) -> Any:
    """The table as a DataFrame with the columns of another."""
    frame = type(like)({i: column.to_pylist() for i, column in enumerate(table.columns)})
    frame.columns = like.columns
    return frame


def _is_frame(X: Any) -> bool:
    return hasattr(X, "iloc")


def _seed(random_state: RandomState) -> int:
    return int(check_random_state(random_state).randint(np.iinfo(np.int32).max))


def _name(column: str | int | None, names: Sequence[str]) -> str:
    """The name of a column that is given by name or position."""
    if isinstance(column, str):
        return column
    if not isinstance(column, int | np.integer) or not -len(names) <= column < len(names):
        raise ValueError(f"expected the name or position of one of {len(names)} columns, found {column!r}")
    return names[column]
