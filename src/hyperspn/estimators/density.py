"""HyperSPNDensity: the joint distribution of the columns of a table."""

from __future__ import annotations

import warnings

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from numpy.typing import ArrayLike, NDArray
from sklearn.base import DensityMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from ..checks import whole
from ..data import Schema
from .table_estimator import RandomState, TableEstimator, as_array

if TYPE_CHECKING:
    from typing_extensions import Self

LEARNING = ("batch_size", "evaluate_every", "patience", "weight_decay", "learning_rate", "dropout")


def _has_target(estimator: HyperSPNDensity) -> bool:
    return estimator.target is not None


class HyperSPNDensity(DensityMixin, TableEstimator):
    """The joint distribution of the columns of a table, learned as a HyperSPN or SPN.

    X is a DataFrame or an array, as all estimators take them (see `TableEstimator`).

    Arguments:
        model: "hyperspn", whose weights a small network writes, or "spn", with one parameter per weight.
        recipe: The name of a recipe (see `recipes`), or "auto", which tries several and takes the best on validation rows
            (without these, "learned").
        layer_size: The number of sum nodes per region k; None for what suits the recipe.
        replicas: The number of trees r; None for what suits the recipe.
        embedding_dim: The size of a sector's embedding; None for what suits the recipe.
        hidden: The widths of the network's hidden layers; None for what suits the recipe.
        steps: The number of training steps; None for what suits the number of rows, as for the next two
            (see `Recipe.schedule`).
        batch_size: The number of rows per step.
        evaluate_every: The number of steps between evaluations.
        patience: After how many evaluations without a better validation value to stop; None for never.
        validation_fraction: The share of the rows by which the best step is chosen, at least one row; with 0, or with
            a single row in all, the last step counts.
        weight_decay: The strength of the L2 penalty; None for what suits the recipe.
        learning_rate: One learning rate for all parameters, in place of the circuit's own.
        dropout: The probability of an edge of a sum to be dropped at a step.
        categories: "auto", or the categories of columns: a list with an entry for each, or a dict from some names or
            positions to entries. An entry is "auto", a list of categories, or an empty list for a column of numbers.
            Columns of pandas' type "category" bring their own.
        target: The name or position of a column to predict; without it there is no `predict`, `predict_proba`, `classes_`.
        options: Further arguments of `hyperspn.fit_table`, such as `kinds`, `bounds` or `missing_as_data`.
        random_state: Determines everything that is random: an integer, a `RandomState`, or None.
        verbose: Whether to show a progress bar.
        structure: The name of `recipe` in version 0.1.0.

    Attributes:
        model_: The `TableModel`, with all its questions.
        circuit_: Its circuit over the encoded columns.
        schema_: What the columns are: `schema_.encode` and `schema_.decode` go between tables and the circuit.
        history_: The course of training.
        classes_: The categories of the target.
        n_features_in_: The number of columns.
        feature_names_in_: Their names, where X had names.

    Example:
        >>> X = np.array([["red", 1.5], ["blue", 2.5], ["red", None], [None, 1.0]] * 10, dtype=object)
        >>> density = HyperSPNDensity(target=0, recipe="chow-liu", steps=100, random_state=0).fit(X)
        >>> density.score_samples(X[:3]).shape
        (3,)
        >>> density.predict([[None, 1.5]])
        array(['red'], dtype='<U4')
    """

    def __init__(
        self,
        *,
        model: str = "hyperspn",
        recipe: str = "auto",
        layer_size: int | None = None,
        replicas: int | None = None,
        embedding_dim: int | None = None,
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
        options: Mapping[str, Any] | None = None,
        random_state: RandomState = None,
        verbose: bool = False,
        structure: str | None = None,
    ) -> None:
        super().__init__(
            recipe=recipe,
            steps=steps,
            validation_fraction=validation_fraction,
            options=options,
            random_state=random_state,
            verbose=verbose,
        )
        self.model = model
        self.layer_size = layer_size
        self.replicas = replicas
        self.embedding_dim = embedding_dim
        self.hidden = hidden
        self.batch_size = batch_size
        self.evaluate_every = evaluate_every
        self.patience = patience
        self.weight_decay = weight_decay
        self.learning_rate = learning_rate
        self.dropout = dropout
        self.categories = categories
        self.target = target
        self.structure = structure

    def fit(self, X: Any, y: Any = None, sample_weight: ArrayLike | None = None) -> Self:
        """Recognizes the columns of X and learns their distribution; y is ignored."""
        table = self._table(X, reset=True)
        if self.target is not None:
            _name(self.target, self._names)
        given = {name: getattr(self, name) for name in ("model", *LEARNING)} | self._sizes()
        given["categories"] = self._categories(X, self._names)
        if self.structure is not None:
            warnings.warn("structure is now recipe", FutureWarning, stacklevel=2)
            given["recipe"] = self.structure
        self._learn(X, table, sample_weight, **given)
        if self.target is not None:
            self._target(self.schema_)
        return self

    def score_samples(self, X: Any) -> NDArray[np.float64]:
        """The log-likelihood of each row in the units of X, with missing values integrated out, (rows,).

        A category that `fit` has not seen counts as one among all rows: its probability is 1 / (rows + 1).
        """
        check_is_fitted(self)
        return self.model_.log_likelihood(self._table(X))

    def score(self, X: Any, y: Any = None) -> float:
        """The mean log-likelihood of the rows, as `GaussianMixture.score` has it (`KernelDensity.score` is the sum)."""
        return float(self.score_samples(X).mean())

    def impute(self, X: Any) -> Any:
        """Fills each hole with its best single guess (see `HyperSPNImputer`): a table of the kind of X."""
        check_is_fitted(self)
        return self._like(X, self.model_.impute(self._table(X)))

    @property
    def classes_(self) -> np.ndarray:
        if self.target is None:
            raise AttributeError("expected a target for classes_, found None")
        return np.array(self.schema_.columns[self._target(self.schema_)].categories)

    @available_if(_has_target)
    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """p(target | all other columns) in the order of `classes_`, (rows, classes).

        X has all columns; what it holds in the target's is ignored.
        """
        classes, target = self.classes_, self._target(self.schema_)
        p = as_array(self.model_.predict(self._table(X), self.schema_.names[target]))[:, : len(classes)]
        return p / p.sum(1, keepdims=True)

    @available_if(_has_target)
    def predict(self, X: Any) -> np.ndarray:
        """The most probable category of the target given all other columns, (rows,)."""
        return self.classes_[self.predict_proba(X).argmax(1)]

    def _sizes(self) -> dict[str, Any]:
        sizes = {name: getattr(self, name) for name in ("layer_size", "replicas", "embedding_dim")}
        given: dict[str, Any] = {name: whole(name, size) for name, size in sizes.items() if size is not None}
        if self.hidden is not None:
            given["hidden"] = tuple(whole("a width in hidden", width) for width in self.hidden)
        return given

    def _categories(self, X: Any, names: Sequence[str]) -> dict[str, list[Any]]:
        """The categories that are given, by the names of their columns."""
        types = X.dtypes if hasattr(X, "iloc") else [None] * len(names)
        given = {name: type.categories for name, type in zip(names, types, strict=True) if hasattr(type, "categories")}
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
        given |= {name: entry for name, entry in named.items() if not isinstance(entry, str)}
        return {name: list(entry) for name, entry in given.items()}

    def _target(self, schema: Schema) -> int:
        """The position of the column to predict, which has categories."""
        position = schema.index(_name(self.target, self._names))
        if schema.columns[position].is_numeric:
            raise ValueError(f"expected a target with categories, found the numeric column {schema.names[position]!r}")
        return position


def _name(column: str | int | None, names: Sequence[str]) -> str:
    """The name of a column that is given by name or position."""
    if isinstance(column, str):
        return column
    if not isinstance(column, int | np.integer) or not -len(names) <= column < len(names):
        raise ValueError(f"expected the name or position of one of {len(names)} columns, found {column!r}")
    return names[column]
