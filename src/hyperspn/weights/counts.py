"""Counts: how many weights a circuit has, and how few parameters write them (section 3)."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from .hyper import HyperWeights
from .sectors import Sectors


def count_weights(
    sectors: Sectors, embedding_dim: int = 5, hidden: Sequence[int] = (20, 20)
) -> tuple[dict[str, int], dict[str, float]]:
    """The weights that a plain circuit stores and uses, and the learnable parameters of the HyperSPN that writes them."""
    with torch.device("meta"):
        source = HyperWeights(sectors, embedding_dim, hidden)
    learnable = source.num_parameters + sectors.num_mixture_weights
    return {"stored": sectors.num_weights, "used": sectors.num_used_weights}, {
        "learnable": learnable,
        "embeddings": source.embeddings.numel(),
        "network": source.num_parameters - source.embeddings.numel(),
        "mixture": sectors.num_mixture_weights,
        "weights_per_parameter": sectors.num_weights / learnable,
    }
