"""The native engine: forests of trees in a fused C++ kernel, their weights chunk by chunk (section 3.1)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch

from torch import Generator, Tensor
from torch.autograd.function import once_differentiable
from torch.func import functional_call

from ..kernel import array, kernel
from ..leaves.evidence import Evidence
from ..leaves.leaves import Leaves
from ..weights.sectors import Sectors
from ..weights.source import WeightSource
from .descent import Ascent
from .layered import VALUES_AT_ONCE, LayeredEngine
from .native_descent import NativeAscent
from .reader import KernelBatch, Reader, leaf_type
from .trees import Chunk, Ids, Piece, Trees

Written = list[Tensor]  # for each kind, what its sectors are made from, (sectors, rows, numbers per row)
Parameters = Sequence[Tensor]


class NativeEngine(LayeredEngine):
    """Evaluates a forest tree by tree in C++, a block of samples at a time, in linear space with exact scaling.

    Sectors are materialized in chunks and dropped. The backward pass materializes them again and pushes their
    gradients through the weight source, so that no tensor of all weights or of all activations ever exists.

    Arguments:
        sectors: The layers of the circuit.
        leaves: The distributions of its variables.
        strict: Whether to refuse a circuit on another device, instead of leaving it to the layered engine.
        weights_at_once: How many weights may be materialized at a time.
    """

    def __init__(self, sectors: Sectors, leaves: Leaves, strict: bool = False, weights_at_once: int = 2**22) -> None:
        if reason := NativeEngine.obstacle(sectors):
            raise ValueError(f"expected a circuit that the native engine can evaluate, found {reason}")
        super().__init__(sectors)
        self.strict = strict
        trees = Trees(sectors, weights_at_once)
        widths = torch.from_numpy(np.array([family.width for family in leaves.families]))
        types = np.array([leaf_type(family) for family in leaves.families])
        self.values = Reader(trees, widths, types)
        self.likelihoods = Reader(trees, widths, np.full_like(types, kernel.DENSE))

    @staticmethod
    def obstacle(sectors: Sectors) -> str | None:
        """Why this engine cannot serve a circuit, if it cannot."""
        if kernel is None:
            return "an installation without the compiled kernel"
        if sectors.product == "outer":
            return "outer products"
        if not sectors.structure.is_forest:
            return "a structure that is not a forest of trees"
        if sectors.structure.leaf_sizes.max() > 1:
            return "leaf regions of several variables"
        return None

    def __repr__(self) -> str:
        return f"native ({kernel.instruction_set()})"

    @property
    def rows_at_once(self) -> int:
        return max(1, VALUES_AT_ONCE // int(self.values.widths.sum()))

    def log_values(self, evidence: Evidence, leaves: Leaves, weights: WeightSource, flows: bool = False) -> Tensor:
        if torch.compiler.is_compiling():
            return torch.compiler.disable(self.log_values)(evidence, leaves, weights, flows)
        if not self._serves(evidence.values):
            return super().log_values(evidence, leaves, weights, flows)
        if flows and evidence.missing.any():  # for which a code has no flows
            return self.log_values_of(leaves.log_prob(evidence), weights, flows)
        return self._evaluate(self.values.batch(evidence, leaves), weights, flows, learns=True)

    def log_values_of(self, leaf_log_probs: Tensor, weights: WeightSource, flows: bool = False) -> Tensor:
        if torch.compiler.is_compiling():
            return torch.compiler.disable(self.log_values_of)(leaf_log_probs, weights, flows)
        if not self._serves(leaf_log_probs):
            return super().log_values_of(leaf_log_probs, weights, flows)
        return self._evaluate(self.likelihoods.batch_of(leaf_log_probs), weights, flows, learns=flows)

    def rows_both_ways(self, leaves: Leaves) -> int:
        return self.rows_at_once if self._descends(leaves) else super().rows_both_ways(leaves)

    def rows_downward(self, leaves: Leaves) -> int:
        return VALUES_AT_ONCE // len(leaves.families) if self._descends(leaves) else super().rows_downward(leaves)

    def ascend(self, evidence: Evidence, leaves: Leaves, weights: WeightSource, best: bool = False) -> Ascent:
        if not self._descends(leaves):
            return super().ascend(evidence, leaves, weights, best)
        if evidence.events or (best and not self.values.is_coded):
            batch = self.likelihoods.batch_of(leaves.log_prob(evidence, modes=best))
        else:
            batch = self.values.batch(evidence, leaves)
        return NativeAscent(Evaluation(batch, weights, (), False), batch.scale[:, None], best)

    def descend(self, roots: Tensor, leaves: Leaves, weights: WeightSource, generator: Generator | None) -> Tensor:
        if not self._descends(leaves):
            return super().descend(roots, leaves, weights, generator)
        nobody = leaves.read(torch.empty(0, len(leaves.families)))
        evaluation = Evaluation(self.values.batch(nobody, leaves), weights, (), False)
        return NativeAscent(evaluation, 0.0, best=False).fall(roots, generator)

    def _descends(self, leaves: Leaves) -> bool:
        """Whether the way down is in the kernel: on the CPU, and in trees whose weights fit into memory at a time."""
        return self._serves(leaves.raw[0]) and all(len(piece.chunks) == 1 for piece in self.values.trees.pieces)

    def _serves(self, x: Tensor) -> bool:
        if torch._C._are_functorch_transforms_active():
            raise ValueError("the native engine works on plain batches, not inside torch.func.vmap or torch.func.grad")
        if x.dtype not in (torch.float32, torch.float64):
            raise ValueError(f"expected a circuit in float32 or float64 for the native engine, found {x.dtype}")
        if self.strict and x.device.type != "cpu":
            raise ValueError(f"expected the circuit on the CPU for the native engine, found it on {x.device}")
        return x.device.type == "cpu"

    def _evaluate(self, batch: KernelBatch, weights: WeightSource, flows: bool, learns: bool) -> Tensor:
        """The log-value of every tree, (batch, trees); the scale of likelihoods goes around the trees.

        One chunk is written before the forward pass and kept for the backward pass; several are materialized in both.
        """
        parameters = dict(weights.named_parameters()) if learns else {}
        evaluation = Evaluation(batch, weights, tuple(parameters), flows)
        if evaluation.is_one_chunk:
            with torch.set_grad_enabled(learns and torch.is_grad_enabled()):
                written = evaluation.written(evaluation.pieces[0].chunks[0])
            values = LogValues.apply(evaluation, batch.log_dense, *written)
        else:
            values = LogValuesInChunks.apply(evaluation, batch.log_dense, *parameters.values())
        return values + batch.scale[:, None] if batch.is_scaled else values


class Evaluation:
    """One batch on its way through a forest: log-values forwards, gradients backwards, piece by piece.

    Arguments:
        batch: The batch.
        weights: Who writes the weights.
        names: The weight source's parameters that are handed in.
        flows: Whether the gradients of the weights are expected flows.
    """

    def __init__(self, batch: KernelBatch, weights: WeightSource, names: tuple[str, ...], flows: bool) -> None:
        self.reader = batch.reader
        self.pieces = batch.reader.trees.pieces
        self.weights = weights
        self.names = names
        self.flows = flows
        self.threads = torch.get_num_threads()
        self.dtype = next(weights.parameters()).dtype
        dtype = str(self.dtype).removeprefix("torch.")
        self.batch = kernel.Batch(*batch.arrays(), dtype, self.threads)

    @property
    def is_one_chunk(self) -> bool:
        return len(self.pieces) == len(self.pieces[0].chunks) == 1

    def written(self, chunk: Chunk, parameters: Parameters | None = None) -> Written:
        """What the source writes for the sectors of a chunk, with these parameters if they are given."""
        write: Callable[[int, Ids], Tensor] = self.weights
        if parameters is not None:
            named = dict(zip(self.names, parameters, strict=True))
            write = lambda kind, ids: functional_call(self.weights, named, (kind, ids))
        kinds = self.reader.trees.sectors.kinds
        return [kinds[index].by_rows(write(index, ids)).contiguous() for index, ids in enumerate(chunk.ids)]

    def values(self, parameters: Parameters | None = None, kept: Written | None = None) -> Tensor:
        """The log-value of every tree, (trees, batch)."""
        values = [self._walk_up(piece, parameters, kept).values() for piece in self.pieces]
        return torch.from_numpy(values[0] if len(values) == 1 else np.concatenate(values))

    def gradients(
        self, seeds: Tensor, parameters: Parameters | None = None, kept: Written | None = None
    ) -> Iterator[tuple[Written, Written, Tensor | None]]:
        """For each chunk what is written for it and the gradients of that, and the gradient of the dense log-likelihoods, (rows, batch)."""
        for piece in self.pieces:
            if len(piece.chunks) > 1:
                walk = self._walk_up(piece, parameters, kept, tape=True)
            else:  # goes up and down a tree at once
                walk = kernel.Walk(self.batch, *_ends(piece.trees), False, self.threads)
            for chunk in reversed(piece.chunks):
                written = kept or self.written(chunk, parameters)
                piece_seeds = array(seeds[piece.trees.start : piece.trees.stop])
                gradients, dense_gradient = walk.backward(
                    _arrays(written), chunk.bases, *_ends(chunk.nodes), piece_seeds, self.flows
                )
                dense = None if dense_gradient is None else torch.from_numpy(dense_gradient)
                yield written, [torch.from_numpy(gradient) for gradient in gradients], dense

    @torch.no_grad()
    def _walk_up(self, piece: Piece, parameters: Parameters | None, kept: Written | None, tape: bool = False) -> Any:
        """Evaluates trees chunk by chunk, more than once if the kernel has to be more exact."""
        walk = kernel.Walk(self.batch, *_ends(piece.trees), tape, self.threads)
        while not walk.finished():
            for chunk in piece.chunks:
                written = _arrays(kept or self.written(chunk, parameters))
                walk.forward(written, chunk.bases, *_ends(chunk.nodes))
        return walk


class LogValues(torch.autograd.Function):
    """The log-values of all trees, (batch, trees), as a function of dense log-likelihoods and what is written for one chunk."""

    @staticmethod
    def forward(ctx: Any, evaluation: Evaluation, log_dense: Tensor | None, *written: Tensor) -> Tensor:
        ctx.evaluation = evaluation
        ctx.save_for_backward(*written)
        return evaluation.values(kept=list(written)).T

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        seeds = gradient.T.contiguous()
        ((_, gradients, dense_gradient),) = ctx.evaluation.gradients(seeds, kept=list(ctx.saved_tensors))
        return None, dense_gradient, *gradients


class LogValuesInChunks(torch.autograd.Function):
    """The same, as a function of the source's parameters."""

    @staticmethod
    def forward(ctx: Any, evaluation: Evaluation, log_dense: Tensor | None, *parameters: Tensor) -> Tensor:
        ctx.evaluation = evaluation
        ctx.detached = [parameter.detach().requires_grad_(parameter.requires_grad) for parameter in parameters]
        ctx.save_for_backward(*parameters)
        return evaluation.values(ctx.detached).T

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        total: list[Tensor | None] = [None] * len(ctx.saved_tensors)
        dense_total = None
        wanted = [index for index, need in enumerate(ctx.needs_input_grad[2:]) if need]
        sources = [ctx.detached[index] for index in wanted]
        with torch.enable_grad():
            for written, gradients, dense_gradient in ctx.evaluation.gradients(gradient.T.contiguous(), ctx.detached):
                dense_total = _sum(dense_total, dense_gradient)
                if wanted:
                    parts = torch.autograd.grad(Seeded.apply(gradients, *written), sources, allow_unused=True)
                    for index, part in zip(wanted, parts, strict=True):
                        total[index] = _sum(total[index], part)
        return None, dense_total, *total


class Seeded(torch.autograd.Function):
    """A number that has these gradients with respect to what was written.

    To be told them itself, `torch.autograd.grad` would import torch's compiler.
    """

    @staticmethod
    def forward(ctx: Any, gradients: Written, *written: Tensor) -> Tensor:
        ctx.gradients = gradients
        return written[0].new_zeros(())

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        return None, *ctx.gradients


def _sum(total: Tensor | None, part: Tensor | None) -> Tensor | None:
    if total is None or part is None:
        return part if total is None else total
    return total.add_(part)


def _arrays(written: Written) -> list[Any]:
    return [array(block) for block in written]


def _ends(span: range) -> tuple[int, int]:
    return span.start, span.stop
