"""HyperSPNImputer: fills the missing values of tables with strings, numbers and dates."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from numpy.typing import ArrayLike, NDArray
from sklearn.base import TransformerMixin
from sklearn.utils import Tags
from sklearn.utils._set_output import _get_output_config
from sklearn.utils.validation import _check_feature_names_in, check_is_fitted

from ..asking import TableModel
from ..asking.imputing import Strategy
from ..checks import whole
from .table_estimator import RandomState, TableEstimator, as_array, is_frame, seed_of

if TYPE_CHECKING:
    import pyarrow as pa

    from typing_extensions import Self

INDICATOR = "missingindicator_{}"


class HyperSPNImputer(TransformerMixin, TableEstimator):
    """Fills the missing values of a table, given what is known of their rows.

    Arguments:
        strategy: "best" for the most probable category, and the mean of numbers and dates, rounded as they are recorded;
            "median" for the median in place of the mean; "sample" for draws of all holes of a row together.
        n_imputations: How many completed tables `transform` returns, with strategy "sample"; a tuple if several.
        add_indicator: Whether to add a column for each column with holes in `fit` that tells where they were.
        recipe, steps, validation_fraction, options, random_state, verbose: As all estimators have them (see
            `TableEstimator`).

    Example:
        >>> X = np.array([["red", 1.5], ["blue", 2.5], ["red", None], [None, 2.5]] * 15, dtype=object)
        >>> imputer = HyperSPNImputer(recipe="chow-liu", steps=200, random_state=0).fit(X)
        >>> imputer.transform([[None, 2.5], ["red", None]])[0]
        array(['blue', 2.5], dtype=object)
    """

    def __init__(
        self,
        *,
        strategy: Strategy = "best",
        n_imputations: int = 1,
        add_indicator: bool = False,
        recipe: str = "auto",
        steps: int | None = None,
        validation_fraction: float = 0.1,
        options: Mapping[str, Any] | None = None,
        random_state: RandomState = None,
        verbose: bool = False,
    ) -> None:
        super().__init__(
            recipe=recipe,
            steps=steps,
            validation_fraction=validation_fraction,
            options=options,
            random_state=random_state,
            verbose=verbose,
        )
        self.strategy = strategy
        self.n_imputations = n_imputations
        self.add_indicator = add_indicator

    def fit(self, X: Any, y: Any = None, sample_weight: ArrayLike | None = None) -> Self:
        """Learns the distribution of the rows of X; y is ignored."""
        if whole("n_imputations", self.n_imputations) > 1 and self.strategy != "sample":
            raise ValueError(f"expected strategy 'sample' for several imputations, found {self.strategy!r}")
        table = self._table(X, reset=True)
        self._learn(X, table, sample_weight)
        self._indicated = [name for name, column in zip(self._names, table.columns, strict=True) if column.null_count]
        return self

    def _open(self, model: TableModel) -> Self:
        self._indicated = []
        return super()._open(model)

    def transform(self, X: Any) -> Any:
        """X with its missing values filled, and all else as it was; a tuple of tables if there are several imputations."""
        check_is_fitted(self)
        table = self._table(X)
        seeds = np.random.default_rng(seed_of(self.random_state)).integers(2**31, size=self.n_imputations)
        completed = [self._complete(X, table, int(seed)) for seed in seeds]
        return completed[0] if len(completed) == 1 else tuple(completed)

    def _complete(self, X: Any, table: pa.Table, seed: int) -> Any:
        filled = self.model_.impute(table, strategy=self.strategy, seed=seed)
        for name in self._indicated if self.add_indicator else ():
            filled = filled.append_column(INDICATOR.format(name), table.column(name).is_null())
        wanted = _get_output_config("transform", self)["dense"]
        if wanted == "polars" and not type(X).__module__.startswith("polars"):
            import polars

            return polars.from_arrow(filled)
        if wanted == "pandas" and not hasattr(X, "iloc"):
            return filled.to_pandas()
        if is_frame(X):
            return self._like(X, filled)
        x = as_array(filled)
        return x.astype(X.dtype) if getattr(X, "dtype", None) in (np.float32, np.float64) else x

    def intervals(self, X: Any, coverage: float = 0.9) -> Any:
        """Bounds that hold each missing number with this probability.

        Of a DataFrame, one with the columns ``<name>.low`` and ``<name>.high`` of numbers and dates, empty where the value
        is known. Of an array, (rows, columns, 2), NaN where the value is known or no number.
        """
        check_is_fitted(self)
        table = self._table(X)
        bounds = self.model_.bounds(table, coverage)
        if is_frame(X):
            return self._like(X, bounds)
        ends = np.full((len(table), len(self._names), 2), np.nan)
        for i, name in enumerate(self._names):
            for j, end in enumerate(("low", "high")):
                if f"{name}.{end}" in bounds.column_names:
                    ends[:, i, j] = bounds.column(f"{name}.{end}").to_numpy()
        return ends

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """The names of the columns of what `transform` returns."""
        check_is_fitted(self)
        names = _check_feature_names_in(self, input_features)
        indicated = [names[self._names.index(name)] for name in self._indicated] if self.add_indicator else []
        return np.array([*names, *map(INDICATOR.format, indicated)], dtype=object)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
