"""The compiled C++ kernel, or None where it could not be built or cannot be used."""

from __future__ import annotations

import warnings

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import torch

from torch import Tensor

kernel: Any = None
try:
    kernel = import_module("hyperspn._kernel")
except ImportError as error:
    reason = (
        "has no compiled kernel, because it could not be built: pip install -v shows the errors"
        if isinstance(error, ModuleNotFoundError) and error.name == "hyperspn._kernel"
        else f"cannot use its compiled kernel ({error})"
    )
    warnings.warn(f"hyperspn {reason}; circuits are evaluated by the slower layered engine", stacklevel=2)


def array(tensor: Tensor | None) -> Any:
    """A tensor as the kernel takes it: handed a tensor, it would call Python code, and lose an interrupt that comes there."""
    return None if tensor is None else tensor.detach().contiguous().numpy()


@contextmanager
def rounded_subnormals() -> Iterator[None]:
    """Rounds numbers below the normal range to zero on PyTorch's threads, which are slow with them."""
    if kernel is None:
        yield
        return
    threads = torch.get_num_threads()
    before = kernel.round_subnormals(True, threads)
    try:
        yield
    finally:
        kernel.round_subnormals(before, threads)
