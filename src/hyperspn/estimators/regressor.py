"""HyperSPNRegressor: means and quantiles of a number, with any values missing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from numpy.typing import ArrayLike, NDArray
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_is_fitted

from ..data.columns import Column
from .table_estimator import as_array
from .target import TargetEstimator

if TYPE_CHECKING:
    from typing_extensions import Self


class HyperSPNRegressor(RegressorMixin, TargetEstimator):
    """A number of each row: p(y | x) of a joint model of both, with missing values integrated out.

    Arguments:
        discriminative_weight: How much predicting y counts in training: w in 0..1 mixes
            (1 - w) log p(x, y) + w log p(y | x); "auto" takes the best of some on the validation rows.
        recipe, steps, validation_fraction, options, random_state, verbose: As all estimators have them (see
            `TableEstimator`).

    Attributes:
        target_: The name of the column of y in the model: that of the Series, or "y".
        discriminative_weight_: The weight with which the model was trained.

    Example:
        >>> x = np.random.default_rng(0).normal(size=(300, 1)).round(2)
        >>> regressor = HyperSPNRegressor(recipe="chow-liu", steps=400, random_state=0).fit(x, -x[:, 0])
        >>> bool(abs(regressor.predict([[0.5]])[0] + 0.5) < 0.2)
        True
    """

    def fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> Self:
        """Learns the distribution of rows and their numbers together; rows count as much as their weights."""
        import pyarrow as pa

        numbers = self._values(X, y, numeric=True)
        self._learn_target(X, y, pa.array(numbers), sample_weight, kinds="numeric")
        return self

    def predict(self, X: Any, quantiles: Sequence[float] | None = None) -> NDArray[np.float64]:
        """The mean of y given each row, (rows,); or quantiles at these levels of probability, (rows, levels)."""
        check_is_fitted(self)
        levels = [] if quantiles is None else list(quantiles)
        if not all(0 < level < 1 for level in levels):
            raise ValueError(f"expected quantiles between 0 and 1, found {levels}")
        predictions = as_array(self.model_.predict(self._table(X), self.target_, levels))
        return predictions[:, 0] if quantiles is None else predictions[:, 1:]

    def _set_target(self, name: str, column: Column) -> None:
        if not column.is_numeric:
            raise ValueError(f"expected a target of numbers, found the categories of column {name!r}")
        super()._set_target(name, column)
