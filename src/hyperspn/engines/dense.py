"""The leaves that are no categories, as the kernel takes them: one row of log-likelihoods for each distribution."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from torch import Tensor
from torch.autograd.function import once_differentiable

from ..kernel import array, kernel
from ..leaves.discrete import Categorical
from ..leaves.evidence import Evidence
from ..leaves.leaves import Leaves
from ..leaves.numeric import MIN_STD, NumericColumns

Rows = tuple[Tensor, Tensor]  # log-likelihoods, at most 0, (rows, batch), and what they were divided by, (batch,)


def dense_rows(leaves: Leaves, evidence: Evidence, modes: bool = False) -> Rows:
    """The log-likelihoods of all variables that are not categorical, variable by variable (see `Leaves.log_prob`)."""
    groups = [i for i, family in enumerate(leaves.groups) if not isinstance(family, Categorical)]
    rows, scales = zip(*(_group_rows(leaves, evidence, group, modes) for group in groups), strict=True)
    if len(groups) == 1:
        return rows[0], scales[0]
    owners = [leaves.variables[i].repeat_interleave(_widths(leaves, i)) for i in groups]
    order = torch.cat(owners).argsort(stable=True)
    return torch.cat(rows)[order], torch.stack(scales).sum(0)


def scaled(log_probs: Tensor, widths: Tensor) -> Rows:
    """Divides each variable's likelihoods by their largest: (batch, variables, l) -> (rows, batch), (batch,)."""
    dense = log_probs.permute(1, 2, 0)  # (variables, l, batch)
    largest = dense.detach().amax(1)  # (variables, batch)
    largest = largest.masked_fill(largest == -torch.inf, 0)
    used = torch.arange(dense.shape[1]) < widths[:, None]  # (variables, l)
    return (dense - largest[:, None])[used], largest.sum(0)


def _group_rows(leaves: Leaves, evidence: Evidence, group: int, modes: bool) -> Rows:
    family, widths = leaves.groups[group], _widths(leaves, group)
    if modes or not isinstance(family, NumericColumns) or group in evidence.events:
        return scaled(leaves.group_log_prob(evidence, group, modes), widths)
    missing = leaves.columns(evidence.missing, leaves.variables[group])
    numbers = Numbers(family, leaves.reading(evidence, group), missing, widths, leaves.dtype)
    rows, largest = NumberRows.apply(numbers, leaves.raw[group])
    return rows, largest.sum(0)


def _widths(leaves: Leaves, group: int) -> Tensor:
    return torch.from_numpy(np.array([leaves.families[v].width for v in leaves.variables[group].tolist()]))


class Numbers:
    """A batch of numeric columns as arrays.

    Arguments:
        columns: The family.
        reading: What it made of the numbers (see `NumericColumns.read`).
        missing: Where they are missing, (batch, variables).
        widths: The number of distributions of each variable.
        dtype: The precision.
    """

    def __init__(
        self, columns: NumericColumns, reading: tuple[Tensor, ...], missing: Tensor, widths: Tensor, dtype: torch.dtype
    ) -> None:
        *cells, point = reading
        self.cells = [array(part.to(dtype)) for part in cells]
        self.point, self.missing = array(point), array(missing)
        self.points = array(columns.units.to(dtype))
        self.row_ptr = np.concatenate([[0], np.cumsum(widths.numpy())]).astype(np.int32)

    def arguments(self, raw: Tensor) -> tuple[Any, ...]:
        return self.cells, self.point, self.missing, array(raw), MIN_STD, self.points, self.row_ptr


class NumberRows(torch.autograd.Function):
    """The rows of numeric columns, (rows, batch), as a function of the parameters, (variables, members, 2).

    Also the largest of each variable, (variables, batch), which get no gradient.
    """

    @staticmethod
    def forward(ctx: Any, numbers: Numbers, raw: Tensor) -> tuple[Tensor, Tensor]:
        threads = torch.get_num_threads()
        rows, largest = map(torch.from_numpy, kernel.normals_forward(*numbers.arguments(raw), threads))
        ctx.numbers = numbers
        ctx.mark_non_differentiable(largest)
        ctx.save_for_backward(raw, rows, largest)
        return rows, largest

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor, _: Tensor) -> tuple[None, Tensor]:
        raw, rows, largest = ctx.saved_tensors
        results = array(rows), array(largest), array(gradient)
        parameters = kernel.normals_backward(*ctx.numbers.arguments(raw), *results, torch.get_num_threads())
        return None, torch.from_numpy(parameters)
