"""Quality of sampled rows: whether they pass for real ones, what they are good for, and whether they are copies.

The metrics are those of "A Sobering Look at Tabular Data Generation via Probabilistic Circuits" (TabPC, arXiv 2603.23016).
All take tables that `align` has made alike: columns of numbers are floats, columns of categories are text.
"""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd

from numpy.typing import NDArray
from sdmetrics.reports import QualityReport
from sklearn.metrics import mutual_info_score, roc_auc_score, root_mean_squared_error
from sklearn.model_selection import ParameterGrid
from xgboost import XGBRegressor

from ..learning.two_sample import align, c2st, numeric_columns, one_hot

BINS = 10
TREES = (10, 50, 100)
GRID = ParameterGrid({"max_depth": [5, 10, 20], "min_child_weight": [1, 10], "gamma": [0.0, 1.0]})
SMALLEST, LARGEST = 1, 20_000
POINT_MASS, MANY_ZEROS = 0.01, 0.05


def quality(
    train: pd.DataFrame, valid: pd.DataFrame, test: pd.DataFrame, sampled: pd.DataFrame, target: str
) -> dict[str, float]:
    """All metrics of sampled rows, by name: against train and validation rows together, and against test rows."""
    real, train, test, sampled = align(pd.concat([train, valid], ignore_index=True), train, test, sampled)
    shape, trend = shape_and_trend(real, sampled)
    equal = min(len(train), len(test), len(sampled))
    return {
        "c2st_xgboost": c2st(real, sampled),
        "c2st_logistic": c2st(real, sampled, "logistic"),
        "c2st_xgboost_held_out": c2st(test, sampled, rows=equal),
        "c2st_xgboost_training": c2st(train, sampled, rows=equal),
        "shape": shape,
        "trend": trend,
        "wnmis": wnmis(real, sampled),
        "utility": utility(sampled, test, target),
        "copies": copies(sampled, train),
        "copies_held_out": copies(test, train),
        "zeros_difference": max((abs(a - b) for a, b in zeros(real, sampled).values()), default=0.0),
        "values_outside": values_outside(train, sampled),
    }


def shape_and_trend(real: pd.DataFrame, sampled: pd.DataFrame) -> tuple[float, float]:
    """How alike single columns and pairs of columns are distributed, by sdmetrics: 1 is best.

    All pairs count, as in the version of sdmetrics that the published values are from; since 0.27 it would leave out pairs
    that hardly depend on each other.
    """
    kinds = {name: {"sdtype": "numerical" if name in numeric_columns(real) else "categorical"} for name in real.columns}
    report = QualityReport()
    report.real_correlation_threshold = report.real_association_threshold = 0
    metadata = {"tables": {"rows": {"columns": kinds}}, "relationships": []}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # sdmetrics names the pairs without a correlation, because a column is constant
        report.generate({"rows": real}, {"rows": sampled}, metadata, verbose=False)
    scores = report.get_properties().set_index("Property")["Score"]
    return float(scores["Column Shapes"]), float(scores["Column Pair Trends"])


def wnmis(real: pd.DataFrame, sampled: pd.DataFrame) -> float:
    """Weighted similarity of normalized mutual information, over all pairs of columns: 1 is best.

    ``1 - sum w |N - N'| / sum w`` with ``N = 2 I(a; b) / (H(a) + H(b))`` in real rows, ``N'`` in sampled ones, and
    ``w = N + N'``. Numbers are in ten equally wide bins of the real ones; what lies outside is one more bin.
    """
    ours, theirs = (_normalized_information(_codes(real, table)) for table in (real, sampled))
    weights = ours + theirs
    return 1 - float((weights * abs(ours - theirs)).sum() / weights.sum()) if weights.any() else 1.0


def utility(sampled: pd.DataFrame, test: pd.DataFrame, target: str) -> float:
    """XGBoost that is trained on sampled rows, on real test rows: the AUC of a class, or the RMSE of a number's logarithm.

    The options of the trees are chosen on a ninth of the sampled rows. Before its logarithm is taken, a number is moved
    into 1 to 20,000. Rows of one class only are worth nothing: 1/2.
    """
    regress = target in numeric_columns(test)
    x, x_test = np.split(one_hot(pd.concat([sampled, test], ignore_index=True).drop(columns=target)), [len(sampled)])
    y, y_test = (_target(table[target], regress, test[target].max()) for table in (sampled, test))
    valid, train = np.split(np.random.default_rng(0).permutation(len(x)), [len(x) // 9])
    if not regress and min(len(np.unique(y[part])) for part in (train, valid)) < 2:
        return 0.5
    best, chosen = -np.inf, np.empty(0)
    for options in GRID:
        objective = "reg:squarederror" if regress else "binary:logistic"
        model = XGBRegressor(n_estimators=max(TREES), objective=objective, **options).fit(x[train], y[train])
        for trees in TREES:
            score = _score(y[valid], model.predict(x[valid], iteration_range=(0, trees)), regress)
            if score > best:
                best, chosen = score, model.predict(x_test, iteration_range=(0, trees))
    return abs(_score(y_test, chosen, regress))


def copies(rows: pd.DataFrame, train: pd.DataFrame) -> float:
    """The share of rows that equal a training row in every column."""
    known = set(_tuples(train))
    return float(np.mean([row in known for row in _tuples(rows)]))


def zeros(real: pd.DataFrame, sampled: pd.DataFrame) -> dict[str, tuple[float, float]]:
    """The shares of zeros among real and sampled rows, of each column in which 5 % of the real ones are zero."""
    ours, theirs = (((table == 0) | (table == "0.0")).mean() for table in (real, sampled))
    return {name: (float(ours[name]), float(theirs[name])) for name in real.columns if ours[name] >= MANY_ZEROS}


def values_outside(train: pd.DataFrame, sampled: pd.DataFrame) -> int:
    """How many sampled numbers are negative where no training value is, or above a largest one that is a point mass."""
    count = 0
    for name in numeric_columns(train):
        known, drawn = train[name].dropna(), sampled[name]
        count += int((drawn < 0).sum()) if known.min() >= 0 else 0
        count += int((drawn > known.max()).sum()) if (known == known.max()).mean() >= POINT_MASS else 0
    return count


def _codes(real: pd.DataFrame, table: pd.DataFrame) -> list[NDArray[np.int64]]:
    """Each column as whole numbers: its bins between the least and the greatest real number, or its categories."""
    codes = []
    for name in real.columns:
        if name in numeric_columns(real):
            edges, values = np.linspace(real[name].min(), real[name].max(), BINS + 1), table[name].to_numpy()
            inside = (values >= edges[0]) & (values <= edges[-1])
            codes.append(np.where(inside, np.searchsorted(edges[1:-1], values), BINS))
        else:
            codes.append(pd.factorize(table[name])[0])
    return codes


def _normalized_information(codes: list[NDArray[np.int64]]) -> NDArray[np.float64]:
    """``2 I(a; b) / (H(a) + H(b))`` of each pair of columns, 0 where both are constant: (pairs,)."""
    entropies = [mutual_info_score(column, column) for column in codes]
    pairs = [(a, b) for a in range(len(codes)) for b in range(a)]
    information = np.array([mutual_info_score(codes[a], codes[b]) for a, b in pairs])
    totals = np.array([entropies[a] + entropies[b] for a, b in pairs])
    return np.divide(2 * information, totals, out=np.zeros_like(totals), where=totals > 0)


def _target(column: pd.Series, regress: bool, positive: object) -> NDArray[np.float64]:
    """What XGBoost learns of a column: the logarithm of a number, or whether a class is the one called positive."""
    return np.log(column.clip(SMALLEST, LARGEST)).to_numpy() if regress else (column == positive).to_numpy(float)


def _score(truth: NDArray[np.float64], predicted: NDArray[np.float64], regress: bool) -> float:
    """The AUC, or minus the RMSE: more is better."""
    return float(-root_mean_squared_error(truth, predicted) if regress else roc_auc_score(truth, predicted))


def _tuples(table: pd.DataFrame) -> list[tuple[object, ...]]:
    """Rows that can be compared: a hole equals a hole."""
    return list(table.astype(object).where(table.notna(), None).itertuples(index=False, name=None))
