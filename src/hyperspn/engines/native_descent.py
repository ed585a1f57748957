"""The way down a forest of trees in the kernel: only through the trees in which travelers are."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from torch import Generator, Tensor

from ..kernel import array, kernel

if TYPE_CHECKING:
    from .native import Evaluation


class NativeAscent:
    """A batch in a forest: the log-values of its trees, and the way down.

    Arguments:
        evaluation: The batch, for the circuit's own weights.
        scale: What to add to the log-values of the trees, (batch, 1).
        best: Whether to choose the best input of each sum, and not to draw one.
    """

    def __init__(self, evaluation: Evaluation, scale: Tensor | float, best: bool) -> None:
        self.evaluation = evaluation
        self.scale = scale
        self.best = best

    @cached_property
    def values(self) -> Tensor:
        if not self.best:
            return self.evaluation.values(kept=self._all_written).T + self.scale
        values = [kernel.best_values(*part, self.evaluation.threads) for part in self._pieces()]
        return torch.from_numpy(np.concatenate(values)).T + self.scale

    def descend(self, roots: Tensor, rows: Tensor, generator: Generator | None) -> Tensor:
        keys = torch.zeros_like(roots) if self.best else _keys(len(roots), generator)
        return self._members("best" if self.best else "posterior", roots, rows, keys)

    def fall(self, roots: Tensor, generator: Generator | None) -> Tensor:
        """The same where nothing is known."""
        return self._members("prior", roots, torch.zeros_like(roots), _keys(len(roots), generator))

    def _members(self, choose: str, roots: Tensor, rows: Tensor, keys: Tensor) -> Tensor:
        columns = self.evaluation.reader.columns()
        members = np.empty((len(roots), sum(map(len, columns))), np.int64)
        travelers = array(roots), array(rows), array(keys)
        for part in self._pieces(roots.unique()):
            kernel.descend(*part, choose, *travelers, *columns, members, self.evaluation.threads)
        return torch.from_numpy(members)

    @cached_property
    def _all_written(self) -> list[Tensor] | None:
        """What is written for all sectors, if they fit into one chunk."""
        evaluation = self.evaluation
        return evaluation.written(evaluation.pieces[0].chunks[0]) if evaluation.is_one_chunk else None

    def _pieces(self, used: Tensor | None = None) -> Iterator[tuple[Any, ...]]:
        """What the kernel takes of each piece with trees that are used: batch, weights and trees."""
        for piece in self.evaluation.pieces:
            first, last = piece.trees.start, piece.trees.stop
            if used is None or ((used >= first) & (used < last)).any():
                written = self._all_written or self.evaluation.written(piece.chunks[0])
                arrays = [array(block) for block in written]
                yield self.evaluation.batch, arrays, piece.chunks[0].bases, first, last


def _keys(count: int, generator: Generator | None) -> Tensor:
    """One key of random numbers for each traveler."""
    return torch.randint(torch.iinfo(torch.int64).max, (count,), generator=generator)
