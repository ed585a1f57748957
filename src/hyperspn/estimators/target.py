"""TargetEstimator: what classifier and regressor share, a target y apart from X."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from numpy.typing import ArrayLike, NDArray
from sklearn.utils import Tags
from sklearn.utils.validation import _check_y, check_consistent_length, column_or_1d

from ..asking import TableModel
from ..checks import number
from ..data import split
from ..data.columns import Column
from .table_estimator import RandomState, TableEstimator, is_frame, seed_of

if TYPE_CHECKING:
    import pyarrow as pa

    from typing_extensions import Self

WEIGHTS = (0.5, 0.9, 0.99)  # that "auto" tries, beside 0


class TargetEstimator(TableEstimator):
    """The conditional of a joint model: y is one more column of the table, which is predicted from the others.

    Arguments:
        discriminative_weight: How much predicting y counts in training: w in 0..1 mixes
            (1 - w) log p(x, y) + w log p(y | x); "auto" takes the best of some on the validation rows.
        target: The name of the column of y in a model that is loaded; by default its own.

    Attributes:
        target_: The name of the column of y: that of the Series, or "y".
        discriminative_weight_: The weight with which the model was trained.
    """

    target_: str

    def __init__(
        self,
        *,
        discriminative_weight: float | Literal["auto"] = 0.0,
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
        self.discriminative_weight = discriminative_weight

    @classmethod
    def load(cls, run: Any, target: str | None = None, **arguments: Any) -> Self:
        """An estimator with the model that `save` or `hyperspn train` wrote: its file, or its folder.

        Arguments:
            run: The file or folder.
            target: The name of the column to predict; by default that of the estimator that wrote the file.
            arguments: Those of the estimator.
        """
        model = TableModel.load(run)
        name = target or model.circuit.notes.get("target")
        if name is None:
            raise ValueError(f"expected the name of a column as target, one of {', '.join(model.schema.names)}")
        estimator = cls(**arguments)
        estimator._set_target(name, model.schema.columns[model.schema.index(name)])
        return estimator._open(model)

    def _open(self, model: TableModel) -> Self:
        super()._open(model)
        self._set_names([name for name in self._names if name != self.target_])
        return self

    def _set_target(self, name: str, column: Column) -> None:
        """Takes a column of a model for the target."""
        self.target_ = name

    def _table(self, X: Any, reset: bool = False) -> pa.Table:
        import narwhals.stable.v1 as nw

        if not reset and is_frame(X) and self.target_ in X.columns and self.target_ not in self._names:
            X = nw.from_native(X, eager_only=True).drop(self.target_).to_native()
        return super()._table(X, reset)

    def _values(self, X: Any, y: Any, numeric: bool = False) -> NDArray[Any]:
        """The target as an array, (rows,), once it is known to fit."""
        if y is None:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None")
        values = column_or_1d(_check_y(y, multi_output=True, y_numeric=numeric, estimator=self), warn=True)
        check_consistent_length(X, values)
        return values

    def _learn_target(self, X: Any, y: Any, values: pa.Array, sample_weight: ArrayLike | None, **wishes: Any) -> None:
        """Learns X together with the values of the target, of which something is asked."""
        table = self._table(X, reset=True)
        name = getattr(y, "name", None)
        self.target_ = name if isinstance(name, str) and name else "y"
        while self.target_ in self._names:
            self.target_ += "_"
        table = table.append_column(self.target_, values)
        given: dict[str, Any] = {
            wish: {**(self.options or {}).get(wish, {}), self.target_: of} for wish, of in wishes.items()
        }
        given |= {"target": self.target_, "notes": {"target": self.target_}}
        if self.discriminative_weight == "auto":
            self._choose_weight(X, table, sample_weight, **given)
        else:
            weight = number("discriminative_weight", self.discriminative_weight)
            self._learn(X, table, sample_weight, discriminative_weight=weight, **given)
            self.discriminative_weight_ = weight

    def _choose_weight(self, X: Any, table: pa.Table, sample_weight: ArrayLike | None, **given: Any) -> None:
        """Learns with several weights, and keeps the model that predicts the target best in validation rows."""
        seed = seed_of(self.random_state)
        train, valid, _ = split(len(table), seed, (1 - self.validation_fraction, self.validation_fraction, 0))
        weights = None if sample_weight is None else np.asarray(sample_weight)[train]
        best, chosen = -np.inf, None
        for weight in (0.0, *WEIGHTS):
            self._learn(X, table.take(train), weights, valid=table.take(valid), discriminative_weight=weight, **given)
            given["recipe"] = self.model_.recipe
            value = float(self.model_.conditional_log_likelihood(table.take(valid), self.target_).mean())
            if value > best:
                best, chosen, self.discriminative_weight_ = value, self.model_, weight
        assert chosen is not None
        self.model_ = chosen

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags
