"""Layouts: what a network writes for a sector, its numbers as they are or two factors of low rank."""

from __future__ import annotations

from math import sqrt
from typing import NamedTuple

import numpy as np
import torch

from numpy.typing import NDArray
from torch import Tensor

from .sector_kind import SectorKind


class Layout(NamedTuple):
    """How a network writes the `rows` x `columns` numbers of a sector: as they are, or as two factors.

    With a rank it writes A (rows, rank) over B (columns, rank), and the numbers are A B^T / sqrt(rank). Sums are
    normalized after that, so their weights may have any rank.
    """

    rows: int
    columns: int
    rank: int | None = None

    @classmethod
    def of(cls, kind: SectorKind, rank: int | None) -> Layout:
        """The layout of a kind: of this rank where that is fewer numbers, (k + c) rank < k c, but not for bells."""
        plain, ranked = cls(kind.rows, kind.numbers_per_row), cls(kind.rows, kind.numbers_per_row, rank)
        return ranked if not kind.grid and ranked.size < plain.size else plain

    @property
    def shape(self) -> tuple[int, int]:
        return (self.rows, self.columns) if self.rank is None else (self.rows + self.columns, self.rank)

    @property
    def size(self) -> int:
        return self.shape[0] * self.shape[1]

    def sectors(self, blocks: Tensor) -> Tensor:
        """The numbers of sectors from what is written for them, (sectors, size) -> (sectors, rows columns)."""
        if self.rank is None:
            return blocks
        first, second = blocks.unflatten(1, self.shape).split([self.rows, self.columns], 1)
        return (first / sqrt(self.rank) @ second.mT).flatten(1)

    def corner_mask(self, rows: int, columns: int) -> NDArray[np.bool_]:
        """Which part of a block writes the upper left corner of a sector; its rank is at most that of the corner."""
        used = np.zeros(self.shape, bool)
        if self.rank is None:
            used[:rows, :columns] = True
        else:
            most = min(self.rank, rows, columns)
            used[:rows, :most] = used[self.rows : self.rows + columns, :most] = True
        return used

    def block(self, corner: Tensor) -> Tensor:
        """What to write for a corner with 0 in its last column, (rows, columns) -> (shape).

        With a rank that is what comes nearest to it, once a number is added to each row: softmax does not see that.
        """
        block, (rows, columns) = corner.new_zeros(self.shape), corner.shape
        if self.rank is None:
            block[:rows, :columns] = corner
            return block
        left, sizes, right = torch.linalg.svd(corner - corner.mean(1, keepdim=True), full_matrices=False)
        roots, most = (sizes * sqrt(self.rank)).sqrt(), min(self.rank, rows, columns)
        block[:rows, :most] = (left * roots)[:, :most]
        block[self.rows : self.rows + columns, :most] = ((right - right[:, -1:]).mT * roots)[:, :most]
        return block
