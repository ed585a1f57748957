"""Evidence: what is known of the variables, checked once."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch

from torch import Tensor

Rows = Tensor | np.ndarray


class Evidence(NamedTuple):
    """Checked input: values where they are known, and which are not."""

    values: Tensor  # (batch, variables), 0 where missing
    missing: Tensor  # (batch, variables), bool


def as_tensor(x: Tensor | np.ndarray, name: str) -> Tensor:
    """Accepts tensors and arrays of bool, integer or float, and nothing else."""
    if isinstance(x, np.ndarray) and x.dtype.kind in "biuf":
        small = x.dtype in (np.bool_, np.uint8, np.float32)
        return torch.from_numpy(np.array(x, x.dtype if small else np.float64 if x.dtype.kind == "f" else np.int64))
    if isinstance(x, Tensor) and not x.is_complex():
        return x.long() if x.dtype in (torch.uint16, torch.uint32, torch.uint64) else x
    found = x.dtype if isinstance(x, (Tensor, np.ndarray)) else type(x).__name__
    raise ValueError(f"expected {name} to be a tensor or array of bool, integer or float, found {found}")
