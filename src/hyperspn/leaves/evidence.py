"""Evidence: what is known of the variables of some rows, checked once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch

from torch import Tensor

Rows = Tensor | np.ndarray
Reading = tuple[Any, ...]  # what a family made of values or events: tensors, or else what rows can be taken from


@dataclass(frozen=True)
class Evidence:
    """Checked input: values, events, and what is unknown.

    Arguments:
        values: The known values, (batch, variables), 0 where there is none.
        missing: Where nothing is known, (batch, variables), bool.
        readings: For groups of families that prepare values, what they made of them.
        events: For groups of families with events, what they made of these.
        is_event: Where an event and not a value is known, (batch, variables), bool; None if nowhere.
        importance: How much each row counts where it is learned from, (batch,); None if all count alike.
    """

    values: Tensor
    missing: Tensor
    readings: Mapping[int, Reading] = field(default_factory=dict)
    events: Mapping[int, Reading] = field(default_factory=dict)
    is_event: Tensor | None = None
    importance: Tensor | None = None

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, rows: Tensor | slice) -> Evidence:
        """The evidence of some rows."""
        return Evidence(
            self.values[rows],
            self.missing[rows],
            {group: tuple(part[rows] for part in reading) for group, reading in self.readings.items()},
            {group: tuple(part[rows] for part in reading) for group, reading in self.events.items()},
            None if self.is_event is None else self.is_event[rows],
            None if self.importance is None else self.importance[rows],
        )

    @property
    def known(self) -> Tensor:
        """Where a value is known, (batch, variables), bool."""
        return ~self.missing if self.is_event is None else ~(self.missing | self.is_event)

    def weigh(self, values: Tensor) -> Tensor:
        """Values of the rows, (batch,), each multiplied by how much its row counts."""
        return values if self.importance is None else values * self.importance.to(values)

    def without(self, variables: Tensor) -> Evidence:
        """The same with nothing known of some variables, (variables,) or (batch, variables), bool."""
        return replace(self, missing=self.missing | variables)


def as_tensor(x: Rows, name: str) -> Tensor:
    """Accepts tensors and arrays of bool, integer or float, and nothing else."""
    if isinstance(x, np.ndarray) and x.dtype.kind in "biuf":
        small = x.dtype in (np.bool_, np.uint8, np.float32)
        return torch.from_numpy(np.array(x, x.dtype if small else np.float64 if x.dtype.kind == "f" else np.int64))
    if isinstance(x, Tensor) and not x.is_complex():
        return x.long() if x.dtype in (torch.uint16, torch.uint32, torch.uint64) else x
    kind = x.dtype if isinstance(x, (Tensor, np.ndarray)) else type(x).__name__
    raise ValueError(f"expected {name} to be a tensor or array of bool, integer or float, found {kind}")
