"""How the kernel reads a batch: the program of a forest, and what it is told of each variable."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch

from numpy.typing import NDArray
from torch import Tensor

from ..kernel import array, kernel
from ..leaves.discrete import Categorical
from ..leaves.evidence import Evidence
from ..leaves.family import LeafFamily
from ..leaves.leaves import Leaves
from ..leaves.numeric import Numeric
from ..weights.bells import quantiles
from ..weights.sector_kind import Grid
from .likelihoods import Dense, Sparse, dense_leaves, scaled, sparse_leaves
from .trees import Trees, integers


class KernelBatch(NamedTuple):
    """A batch as a program reads it.

    Arguments:
        reader: Whose program it is for.
        codes: The categories, -1 where missing, (coded variables, batch).
        dense: The log-likelihoods of dense leaves, if there are any.
        sparse: The likelihoods of sparse leaves, if there are any.
    """

    reader: Reader
    codes: Tensor
    dense: Dense | None = None
    sparse: Sparse | None = None

    @property
    def log_dense(self) -> Tensor | None:
        return None if self.dense is None else self.dense.rows

    @property
    def is_scaled(self) -> bool:
        return self.dense is not None or self.sparse is not None

    @property
    def scale(self) -> Tensor:
        """What to add to the log-values of the trees, (batch,)."""
        scales = [part.scale for part in (self.dense, self.sparse) if part is not None]
        return torch.stack(scales).sum(0) if scales else torch.zeros(self.codes.shape[1])

    def arrays(self) -> tuple[Any, ...]:
        sparse = None if self.sparse is None else self.sparse.arrays()
        return self.reader.program, array(self.codes), array(self.log_dense), sparse


class Reader:
    """The kernel's program for a forest, and how it reads each variable: as a code, as few likelihoods or as all of them.

    Arguments:
        trees: The forest.
        widths: The number of leaf distributions of each variable.
        types: The type of each variable's leaves.
    """

    def __init__(self, trees: Trees, widths: Tensor, types: NDArray) -> None:
        self.trees = trees
        self.widths = widths
        self.types = types
        self.coded = torch.from_numpy(types == kernel.CATEGORICAL)
        self.code_type = torch.int8 if (widths[self.coded] <= 127).all() else torch.int32

    @property
    def is_coded(self) -> bool:
        """Whether all variables are read as codes."""
        return bool(self.coded.all())

    @property
    def program(self) -> Any:
        """The compiled program, made where it is first needed: it cannot be copied to another process."""
        if "_program" not in self.__dict__:
            self._program = self._compiled()
        return self._program

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_program"}

    def batch(self, evidence: Evidence, leaves: Leaves) -> KernelBatch:
        """Rows with values that are known or missing."""
        codes = evidence.values.masked_fill(evidence.missing, -1).to(self.code_type)
        dense, sparse = dense_leaves(leaves, evidence), sparse_leaves(leaves, evidence)
        return KernelBatch(self, codes.T[self.coded].contiguous(), dense, sparse)

    def batch_of(self, leaf_log_probs: Tensor) -> KernelBatch:
        """Rows of which all likelihoods are given, (batch, variables, l)."""
        nothing = torch.empty(0, len(leaf_log_probs), dtype=torch.int8)
        return KernelBatch(self, nothing, scaled(leaf_log_probs, self.widths))

    def columns(self) -> tuple[Any, ...]:
        """Which variables are read as codes, as all likelihoods, and as few of them."""
        types = (kernel.CATEGORICAL, kernel.DENSE, kernel.SPARSE)
        return tuple(integers(np.flatnonzero(self.types == kind)) for kind in types)

    def _compiled(self) -> Any:
        trees, types, widths = self.trees, self.types, self.widths.numpy()
        is_leaf, numbers = trees.variables >= 0, np.empty_like(types)
        for kind in np.unique(types):
            numbers[types == kind] = np.arange((types == kind).sum())
        return kernel.Program(
            tree_ptr=trees.offsets,
            type=integers(np.where(is_leaf, types[trees.variables], kernel.INNER)),
            variable=integers(np.where(is_leaf, numbers[trees.variables], 0)),
            size=integers(np.where(is_leaf, widths[trees.variables], 0)),
            kind=trees.kinds,
            sector=trees.numbers,
            child_ptr=trees.child_offsets,
            children=trees.children,
            slot=trees.slots,
            rows=trees.sectors.layer_size,
            variables=int((types == kernel.CATEGORICAL).sum()),
            sparse=int((types == kernel.SPARSE).sum()),
            grids=[_equal_steps(kind.grid) for kind in trees.sectors.kinds],
            starts=quantiles(trees.sectors.layer_size).tolist(),
            dense_ptr=integers(np.concatenate([[0], np.cumsum(widths[types == kernel.DENSE])])),
        )


def _equal_steps(grid: Grid) -> tuple[float, float, int]:
    """The first place of a grid, its step, and how many places there are."""
    return (grid[0], grid[1] - grid[0], len(grid)) if grid else (0.0, 0.0, 0)


def leaf_type(family: LeafFamily) -> int:
    if isinstance(family, Categorical):
        return kernel.CATEGORICAL
    return kernel.SPARSE if isinstance(family, Numeric) else kernel.DENSE
