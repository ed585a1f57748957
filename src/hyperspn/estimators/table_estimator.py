"""TableEstimator: what all estimators share. Tables go in, a `TableModel` is inside, tables of the same kind come out."""

from __future__ import annotations

import os
import warnings

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import Tags, check_random_state
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from ..asking import TableModel, fit_table
from ..checks import whole
from ..circuits import Circuit
from ..data import Schema, like, table_of
from ..learning import History

if TYPE_CHECKING:
    import pyarrow as pa

    from typing_extensions import Self

RandomState = int | np.random.RandomState | None
UNNAMED = "column {}"


class TableEstimator(BaseEstimator):
    """A model of the joint distribution of the columns of a table, with the face of a scikit-learn estimator.

    X is a DataFrame of pandas or polars, a pyarrow table or an array, (rows, columns). What a column is, is recognized
    by its values (see `hyperspn.data.recognize`); strings that look like numbers are categories here. Missing values are
    integrated out, in training too. The columns of DataFrames are found by their names: one that is absent counts as
    missing, and so do categories that `fit` has not seen. Columns that no model can use, such as names that are all
    different, stay as they are.

    Arguments:
        recipe: The name of a recipe, or "auto", which tries several and takes the best on validation rows.
        steps: The number of training steps; None for what suits the table.
        validation_fraction: The share of the rows by which the best step is chosen; with 0 the last step counts.
        options: Further arguments of `hyperspn.fit_table`: what is asked of columns (`kinds`, `bounds`,
            `missing_as_data`), sizes (`model`, `layer_size`, `replicas`), and what `hyperspn.fit` takes.
        random_state: Determines everything that is random: an integer, a `RandomState`, or None.
        verbose: Whether to show a progress bar.

    Attributes:
        model_: The `TableModel`, with all its questions.
        n_features_in_: The number of columns of X.
        feature_names_in_: Their names, where X had names.
    """

    model_: TableModel

    def __init__(
        self,
        *,
        recipe: str = "auto",
        steps: int | None = None,
        validation_fraction: float = 0.1,
        options: Mapping[str, Any] | None = None,
        random_state: RandomState = None,
        verbose: bool = False,
    ) -> None:
        self.recipe = recipe
        self.steps = steps
        self.validation_fraction = validation_fraction
        self.options = options
        self.random_state = random_state
        self.verbose = verbose

    @property
    def circuit_(self) -> Circuit:
        """The trained circuit over the encoded columns, with all its queries."""
        check_is_fitted(self)
        return self.model_.circuit

    @property
    def schema_(self) -> Schema:
        """What the columns are: `schema_.encode` and `schema_.decode` go between tables and the circuit."""
        check_is_fitted(self)
        return self.model_.schema

    @property
    def history_(self) -> History | None:
        """The course of training."""
        check_is_fitted(self)
        return self.model_.history

    def sample(self, n_samples: int = 1, random_state: RandomState = None, *, given: Any = None) -> Any:
        """Draws rows, (n_samples, columns): of the same kind as the X of `fit`.

        Arguments:
            n_samples: The number of rows.
            random_state: In place of the estimator's own, with which each call returns the same rows if it is an integer.
            given: What is known of them, like ``"age=30..40, job=student"`` (see `TableModel`).
        """
        check_is_fitted(self)
        state = self.random_state if random_state is None else random_state
        rows = self.model_.sample(whole("n_samples", n_samples), given, seed_of(state))
        return rows if self.model_.frame is not None or self._has_names() else as_array(rows)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the model into one file, which `load` and the command line open."""
        check_is_fitted(self)
        self.model_.save(path)

    @classmethod
    def load(cls, run: str | os.PathLike[str], **arguments: Any) -> Self:
        """An estimator with the model that `save` or `hyperspn train` wrote: its file, or its folder.

        Arguments are those of the estimator.
        """
        return cls(**arguments)._open(TableModel.load(run))

    def _open(self, model: TableModel) -> Self:
        """Takes a model in place of training one."""
        self.model_ = model
        self._set_names([*model.schema.names, *(name for name, _ in model.schema.left_out)])
        return self

    def _set_names(self, names: Sequence[str]) -> None:
        self._names = list(names)
        self.n_features_in_ = len(names)
        if self._names != [UNNAMED.format(i) for i in range(len(names))]:
            self.feature_names_in_ = np.array(self._names, dtype=object)

    def _has_names(self) -> bool:
        return hasattr(self, "feature_names_in_")

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        tags.non_deterministic = False
        return tags

    def _learn(self, X: Any, table: pa.Table, sample_weight: ArrayLike | None = None, **given: Any) -> None:
        """Learns the columns of a table, X with or without a target, whose rows may count differently."""
        if sample_weight is not None:
            weights = _check_sample_weight(sample_weight, np.empty(len(table)), ensure_non_negative=True)
            table, sample_weight = table.filter(weights > 0), weights[weights > 0]
            if not len(table):
                raise ValueError("expected a sample_weight above 0, found none")
        options: dict[str, Any] = {"numeric_strings": False, "leave_out": "unusable", **(self.options or {}), **given}
        self.model_ = fit_table(
            table,
            recipe=options.pop("recipe", self.recipe),
            steps=self.steps,
            validation_fraction=self.validation_fraction,
            sample_weight=sample_weight,
            seed=seed_of(self.random_state),
            progress=bool(self.verbose),
            **options,
        )
        self.model_.frame = X[:0] if is_frame(X) and self._has_names() else None

    def _table(self, X: Any, reset: bool = False) -> pa.Table:
        """X as a table, once its shape and names are known to fit."""
        if not is_frame(X):
            dtype = object if isinstance(X, list | tuple) else None
            x = validate_data(self, X, reset=reset, dtype=dtype, ensure_all_finite=False)
            if reset:
                self._names = [UNNAMED.format(i) for i in range(x.shape[1])]
            return table_of(x, self._names)
        table = table_of(with_names(X))
        if not len(table):
            raise ValueError(f"Found array with 0 sample(s) (shape={X.shape}) while a minimum of 1 is required.")
        if reset:
            validate_data(self, X, reset=True, skip_check_array=True)
            self._set_names(table.column_names)  # scikit-learn 1.6 does not see those of polars 2
            return table
        table = self._with_all_columns(table) if self._has_names() else table
        validate_data(self, table if self._has_names() else X, reset=False, skip_check_array=True)
        return table.rename_columns(self._names)

    def _with_all_columns(self, table: pa.Table) -> pa.Table:
        """The table with its columns in the order of `fit`, empty ones for those that are absent."""
        import pyarrow as pa

        absent = [name for name in self._names if name not in table.column_names]
        if len(absent) == len(self._names) or not set(table.column_names) <= set(self._names):
            return table
        if absent:
            listed = ", ".join(map(repr, absent))
            warnings.warn(f"there is no column {listed}: what is absent counts as missing", stacklevel=4)
        for name in absent:
            table = table.append_column(name, pa.nulls(len(table), pa.string()))
        return table.select(self._names)

    def _like(self, X: Any, table: pa.Table) -> Any:
        """A table about the rows of X as a DataFrame of its kind, or as an array."""
        if not is_frame(X):
            return as_array(table)
        frame = like(with_names(X), table)
        is_renamed = hasattr(X, "iloc") and with_names(X) is not X
        return frame.set_axis(X.columns, axis=1) if is_renamed and len(frame.columns) == len(X.columns) else frame

    def _like_numbers(self, X: Any, table: pa.Table) -> Any:
        """Numbers about the cells of X as a DataFrame of its kind, but not of the types of its columns, or as an array."""
        import narwhals.stable.v1 as nw

        if not is_frame(X):
            return as_array(table)
        other = [f".{name}" for name in table.column_names]
        frame = nw.from_native(self._like(X, table.rename_columns(other)), eager_only=True)
        return frame.rename(dict(zip(other, table.column_names, strict=True))).to_native()


def is_frame(X: Any) -> bool:
    """Whether X is a DataFrame or a table."""
    from narwhals.stable.v1.dependencies import is_into_dataframe

    return not isinstance(X, np.ndarray) and is_into_dataframe(X)


def with_names(X: Any) -> Any:
    """A frame whose columns have names; in pandas they may be numbers."""
    if not hasattr(X, "iloc") or any(isinstance(name, str) for name in X.columns):
        return X
    return X.set_axis([UNNAMED.format(i) for i in range(X.shape[1])], axis=1)


def as_array(table: pa.Table) -> NDArray[Any]:
    """A table as an array of numbers, or of objects where there are others, (rows, columns)."""
    import pyarrow as pa

    are_numbers = all(pa.types.is_integer(kind) or pa.types.is_floating(kind) for kind in table.schema.types)
    columns = [column.to_numpy().astype(np.float64 if are_numbers else object) for column in table.columns]
    return np.stack(columns, axis=1)


def seed_of(random_state: RandomState) -> int:
    return int(check_random_state(random_state).randint(np.iinfo(np.int32).max))
