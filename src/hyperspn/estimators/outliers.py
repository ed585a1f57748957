"""HyperSPNOutlierDetector: rows that are less probable than others, and the cells that make them so."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from numpy.typing import ArrayLike, NDArray
from sklearn.base import OutlierMixin
from sklearn.utils.validation import check_is_fitted

from ..asking import TableModel
from .table_estimator import RandomState, TableEstimator

if TYPE_CHECKING:
    import pyarrow as pa

    from typing_extensions import Self

FENCE = 1.5
DRAWN = 2000
IMPOSSIBLE = -1e6


class HyperSPNOutlierDetector(OutlierMixin, TableEstimator):
    """Finds rows that are unlike the others, and tells which of their values are surprising.

    Arguments:
        contamination: The share of outliers in the training rows; "auto" takes those for outliers whose score is below the
            lower fence of a box plot, 1.5 interquartile ranges below the first quartile.
        recipe, steps, validation_fraction, options, random_state, verbose: As all estimators have them (see
            `TableEstimator`).

    Attributes:
        offset_: The score below which a row is an outlier.

    Example:
        >>> x = np.random.default_rng(0).normal(size=(300, 1)).round(2)
        >>> detector = HyperSPNOutlierDetector(recipe="chow-liu", steps=400, random_state=0).fit(np.hstack([x, -x]))
        >>> detector.predict([[1.0, -1.0], [1.0, 1.0]])
        array([ 1, -1])
    """

    def __init__(
        self,
        *,
        contamination: float | Literal["auto"] = "auto",
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
        self.contamination = contamination

    def fit(self, X: Any, y: Any = None, sample_weight: ArrayLike | None = None) -> Self:
        """Learns the distribution of the rows of X; y is ignored."""
        share = self.contamination
        if share != "auto" and (isinstance(share, str) or not 0 < share <= 0.5):
            raise ValueError(f"expected contamination 'auto', or > 0 and <= 0.5, found {share!r}")
        table = self._table(X, reset=True)
        self._learn(X, table, sample_weight)
        scores = self._scores(table)
        self.offset_ = fence(scores) if share == "auto" else float(np.percentile(scores, 100.0 * float(share)))
        self.model_.circuit.notes["offset"] = self.offset_
        return self

    def _open(self, model: TableModel) -> Self:
        super()._open(model)
        offset = model.circuit.notes.get("offset")
        self.offset_ = fence(self._scores(model.sample(DRAWN))) if offset is None else float(offset)
        return self

    def _scores(self, table: pa.Table) -> NDArray[np.float64]:
        """The log-likelihoods of rows; of those that are impossible it is a finite one, below all others."""
        scores = self.model_.log_likelihood(table)
        return np.where(np.isneginf(scores), IMPOSSIBLE, scores)

    def score_samples(self, X: Any) -> NDArray[np.float64]:
        """The log-likelihood of each row, (rows,): the lower, the stranger."""
        check_is_fitted(self)
        return self._scores(self._table(X))

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """How far the score of each row is above that of an outlier, (rows,)."""
        return self.score_samples(X) - self.offset_

    def predict(self, X: Any) -> NDArray[np.int64]:
        """1 for rows like the others and -1 for outliers, (rows,)."""
        return np.where(self.decision_function(X) < 0, -1, 1)

    def explain(self, X: Any) -> Any:
        """The surprisal of every cell, -log2 P(cell | rest of its row), in bits: of the kind of X, missing where X is."""
        import pyarrow as pa

        check_is_fitted(self)
        table = self._table(X)
        bits = dict(zip(self.schema_.names, self.model_.surprisal(table).cells.T, strict=True))
        unknown = np.full(len(table), np.nan)
        cells = [
            np.where(table.column(name).is_null(nan_is_null=True), np.nan, bits.get(name, unknown))
            for name in self._names
        ]
        return self._like_numbers(X, pa.table(cells, self._names))


def fence(scores: NDArray[np.float64]) -> float:
    """The lower fence of a box plot."""
    low, high = np.percentile(scores, [25, 75])
    return float(low - FENCE * (high - low))
