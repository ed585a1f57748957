"""Kinds of sectors: what is written for one, and what it means."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from torch import Tensor

from .bells import MEAN_AND_WIDTH, bell_logits

Grid = tuple[float, ...]


@dataclass(frozen=True)
class SectorKind:
    """Sectors of one shape: `count` blocks of `rows` x `columns` unnormalized weights.

    A weight source writes `size` numbers for each. These are the weights; or, where the first columns are distributions
    at the places of a `grid`, fewer numbers from which the weights are made: each row is a bell (see `bell_logits`).
    """

    rows: int
    columns: int
    count: int
    grid: Grid = ()

    @property
    def numbers_per_row(self) -> int:
        """The numbers that are written for a row."""
        return self.columns - len(self.grid) + MEAN_AND_WIDTH + 1 if self.grid else self.columns

    @property
    def size(self) -> int:
        return self.rows * self.numbers_per_row

    @property
    def places(self) -> Tensor:
        return torch.tensor(self.grid, dtype=torch.float64)

    def by_rows(self, written: Tensor) -> Tensor:
        """What is written for each row of sectors, (sectors, size) -> (sectors, rows, numbers per row)."""
        return written.unflatten(-1, (self.rows, self.numbers_per_row))

    def logits(self, written: Tensor) -> Tensor:
        """The unnormalized weights of sectors, (sectors, size) -> (sectors, rows, columns)."""
        rows = self.by_rows(written)
        return bell_logits(rows, self.places.to(written)) if self.grid else rows
