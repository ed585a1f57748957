"""The leaves that are no categories, as the kernel takes them: all likelihoods, or those few that are not 0."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch

from torch import Tensor

from ..kernel import array
from ..leaves.discrete import Categorical
from ..leaves.evidence import Evidence
from ..leaves.leaves import Leaves
from ..leaves.numeric import NumericColumns
from .trees import Int32Array, integers


class Dense(NamedTuple):
    """Log-likelihoods, at most 0, (rows, batch), one row for each distribution, and what they were divided by, (batch,)."""

    rows: Tensor
    scale: Tensor


class Sparse(NamedTuple):
    """Likelihoods, at most 1, and the distributions that they belong to, both (rows, batch), 0 where there are no more.

    A variable has the rows ptr[v] : ptr[v + 1]. They were divided by a scale, (batch,).
    """

    members: Tensor
    likelihoods: Tensor
    ptr: Int32Array
    scale: Tensor

    def arrays(self) -> tuple[np.ndarray, np.ndarray, Int32Array]:
        return array(self.members), array(self.likelihoods), self.ptr


def dense_leaves(leaves: Leaves, evidence: Evidence) -> Dense | None:
    """The log-likelihoods of all variables that are neither categorical nor numbers, variable by variable."""
    groups = [i for i, f in enumerate(leaves.groups) if not isinstance(f, (Categorical, NumericColumns))]
    if not groups:
        return None
    parts = [scaled(leaves.group_log_prob(evidence, group), _widths(leaves, group)) for group in groups]
    owners = torch.cat([leaves.variables[i].repeat_interleave(_widths(leaves, i)) for i in groups])
    order = owners.argsort(stable=True)
    return Dense(torch.cat([part.rows for part in parts])[order], torch.stack([part.scale for part in parts]).sum(0))


def scaled(log_probs: Tensor, widths: Tensor) -> Dense:
    """Divides each variable's likelihoods by their largest, (batch, variables, l)."""
    dense = log_probs.permute(1, 2, 0)  # (variables, l, batch)
    largest = dense.detach().amax(1)  # (variables, batch)
    largest = largest.masked_fill(largest == -torch.inf, 0)
    used = torch.arange(dense.shape[1]) < widths[:, None]  # (variables, l)
    return Dense((dense - largest[:, None])[used], largest.sum(0))


def sparse_leaves(leaves: Leaves, evidence: Evidence) -> Sparse | None:
    """The likelihoods of all columns of numbers, whose values are known or missing."""
    groups = [i for i, family in enumerate(leaves.groups) if isinstance(family, NumericColumns)]
    if not groups:
        return None
    parts = [_sparse_group(leaves, evidence, group) for group in groups]
    order = np.argsort(np.concatenate([leaves.variables[group].numpy() for group in groups]), kind="stable")
    blocks = [block for part in parts for block in part]
    members, likelihoods = (torch.cat([blocks[i][side] for i in order]) for side in (0, 1))
    ptr = np.cumsum([0, *(len(blocks[i][0]) for i in order)])
    scale = torch.stack([_scale(leaves, evidence, group) for group in groups]).sum(0)
    return Sparse(members, likelihoods, integers(ptr), scale)


def _sparse_group(leaves: Leaves, evidence: Evidence, group: int) -> list[tuple[Tensor, Tensor]]:
    """Members and likelihoods of each variable of a group, (rows, batch)."""
    missing = leaves.columns(evidence.missing, leaves.variables[group])  # (batch, variables)
    blocks = []
    for levels, is_missing in zip(leaves.reading(evidence, group), missing.T, strict=True):
        most = int(levels.counts[levels.places].masked_fill(is_missing, 0).max().clamp(min=1)) if len(missing) else 1
        members = levels.members[:most].index_select(1, levels.places)
        likelihoods = levels.likelihoods[:most].index_select(1, levels.places).to(leaves.dtype)
        members[0].masked_fill_(is_missing, -1)
        blocks.append((members, likelihoods.masked_fill_(is_missing, 0)))
    return blocks


def _scale(leaves: Leaves, evidence: Evidence, group: int) -> Tensor:
    missing = leaves.columns(evidence.missing, leaves.variables[group])
    logs = torch.stack([levels.logs[levels.places] for levels in leaves.reading(evidence, group)], 1)
    return logs.to(leaves.dtype).masked_fill(missing, 0).sum(1)


def _widths(leaves: Leaves, group: int) -> Tensor:
    return torch.from_numpy(np.array([leaves.families[v].width for v in leaves.variables[group].tolist()]))
