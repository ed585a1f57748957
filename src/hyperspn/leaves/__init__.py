"""Leaves: the distributions of single variables at the bottom of a circuit."""

from .continuous import Gaussian
from .discrete import Binomial, Categorical, Histogram
from .evidence import Evidence
from .family import LeafFamily, pick
from .leaves import Leaves
from .numeric import Numeric

__all__ = ["Binomial", "Categorical", "Evidence", "Gaussian", "Histogram", "LeafFamily", "Leaves", "Numeric", "pick"]
