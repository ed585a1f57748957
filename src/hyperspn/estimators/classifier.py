"""HyperSPNClassifier: the probabilities of classes, with any values missing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from ..data.columns import Column
from .table_estimator import as_array
from .target import TargetEstimator

if TYPE_CHECKING:
    from typing_extensions import Self


class HyperSPNClassifier(ClassifierMixin, TargetEstimator):
    """Classes of rows: p(y | x) of a joint model of both, with missing values integrated out.

    Arguments:
        discriminative_weight: How much predicting y counts in training: w in 0..1 mixes
            (1 - w) log p(x, y) + w log p(y | x); "auto" takes the best of some on the validation rows.
        recipe, steps, validation_fraction, options, random_state, verbose: As all estimators have them (see
            `TableEstimator`).

    Attributes:
        classes_: The classes.
        target_: The name of the column of y in the model: that of the Series, or "y".
        discriminative_weight_: The weight with which the model was trained.

    Example:
        >>> X = np.array([["red", 1.5], ["blue", 2.5], ["red", None], [None, 2.5]] * 15, dtype=object)
        >>> y = np.array(["apple", "berry", "apple", "berry"] * 15)
        >>> classifier = HyperSPNClassifier(recipe="chow-liu", steps=200, random_state=0).fit(X, y)
        >>> classifier.predict([["red", None], [None, 2.5]])
        array(['apple', 'berry'], dtype='<U5')
    """

    def fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> Self:
        """Learns the distribution of rows and their classes together; rows count as much as their weights."""
        import pyarrow as pa

        labels = self._values(X, y)
        check_classification_targets(labels)
        self.classes_ = np.unique(labels)
        self._learn_target(X, y, pa.array(labels.tolist()), sample_weight, categories=self.classes_.tolist())
        return self

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """p(y | x) in the order of `classes_`, (rows, classes)."""
        check_is_fitted(self)
        p = as_array(self.model_.predict(self._table(X), self.target_))[:, : len(self.classes_)]
        return p / p.sum(1, keepdims=True)

    def predict(self, X: Any) -> NDArray[Any]:
        """The most probable class of each row, (rows,)."""
        p = self.predict_proba(X)
        return self.classes_[p.argmax(1)]

    def _set_target(self, name: str, column: Column) -> None:
        if column.is_numeric:
            raise ValueError(f"expected a target with categories, found the numeric column {name!r}")
        super()._set_target(name, column)
        self.classes_ = np.array(column.categories)
