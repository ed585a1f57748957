"""The classifier two-sample test: whether sampled rows pass for real ones."""

from __future__ import annotations

import warnings

from typing import Literal

import numpy as np
import pandas as pd

from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import RobustScaler

Classifier = Literal["xgboost", "logistic"]

FEW_VALUES = 20
FOLDS, SEED_OF_FOLDS, SEED_OF_REAL, SEED_OF_SAMPLED = 3, 7, 101, 202


def align(real: pd.DataFrame, *others: pd.DataFrame) -> list[pd.DataFrame]:
    """All tables with the columns of the first, which decides what is a number.

    A column of numbers with fractions, or with more than 20 different values, is numeric; all others are categories,
    and a hole is one more of them.
    """
    numeric = [name for name in real.columns if _is_numeric(real[name])]
    return [_spell(table[list(real.columns)], real, numeric) for table in (real, *others)]


def c2st(
    real: pd.DataFrame, sampled: pd.DataFrame, classifier: Classifier = "xgboost", rows: int | None = None
) -> float:
    """Classifier two-sample test: ``1 - (2 max(AUC, 1/2) - 1)`` of telling real from sampled rows, over three folds.

    1 if they cannot be told apart, 0 if they always can. There are equally many of both, by default as many as possible.
    Tables are often ordered by time or class, so rows are shuffled with other seeds than the folds.
    """
    rows = rows or min(len(real), len(sampled))
    chosen = [real.sample(rows, random_state=SEED_OF_REAL), sampled.sample(rows, random_state=SEED_OF_SAMPLED)]
    x, y = one_hot(pd.concat(chosen, ignore_index=True)), np.repeat([1, 0], rows)
    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=SEED_OF_FOLDS).split(x, y)
    return 2 - 2 * float(np.mean([max(0.5, _auc(classifier, x, y, *fold)) for fold in folds]))


def _is_numeric(column: pd.Series) -> bool:
    if not pd.api.types.is_numeric_dtype(column) or pd.api.types.is_bool_dtype(column):
        return False
    return bool(column.nunique() > FEW_VALUES or (column.dropna() % 1 != 0).any())


def _spell(table: pd.DataFrame, real: pd.DataFrame, numeric: list[str]) -> pd.DataFrame:
    """A table with numbers as floats, and with categories as text that is spelled in one way."""
    columns = {}
    for name in real.columns:
        kind = real[name].dtype
        is_number = pd.api.types.is_numeric_dtype(kind) and not pd.api.types.is_bool_dtype(kind)
        columns[name] = table[name].astype(float) if is_number else table[name].astype(str)
        if name not in numeric:
            columns[name] = columns[name].astype(str)
            if set(map(str.lower, real[name].astype(str).unique())) == {"true", "false"}:
                columns[name] = columns[name].str.lower()
    return pd.DataFrame(columns).reset_index(drop=True)


def numeric_columns(table: pd.DataFrame) -> list[str]:
    """The columns of numbers of a table that `align` has made."""
    return list(table.select_dtypes(float).columns)


def one_hot(table: pd.DataFrame) -> NDArray[np.float32]:
    """Numbers as they are, and one column for each category: (rows, features)."""
    numeric = numeric_columns(table)
    return pd.get_dummies(table[numeric + [name for name in table.columns if name not in numeric]]).to_numpy(np.float32)


def _auc(
    classifier: Classifier,
    x: NDArray[np.float32],
    y: NDArray[np.int64],
    train: NDArray[np.intp],
    test: NDArray[np.intp],
) -> float:
    from xgboost import XGBClassifier

    model = XGBClassifier()
    if classifier == "logistic":
        model = make_pipeline(SimpleImputer(), RobustScaler(), LogisticRegression())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the published protocol stops after 100 steps
        model.fit(x[train], y[train])
    return float(roc_auc_score(y[test], model.predict_proba(x[test])[:, 1]))
