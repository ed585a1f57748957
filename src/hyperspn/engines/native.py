"""The native engine: forests of trees in a fused C++ kernel, their weights chunk by chunk (section 3.1)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch

from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.func import functional_call

from ..kernel import array, kernel
from ..leaves.discrete import Categorical
from ..leaves.evidence import Evidence
from ..leaves.leaves import Leaves
from ..weights.sectors import Sectors
from ..weights.source import WeightSource
from .layered import VALUES_AT_ONCE, LayeredEngine
from .trees import Chunk, Ids, Piece, Trees, integers

WEIGHTS_AT_ONCE = 2**22

Logits = list[Tensor]  # for each kind, (sectors, rows, columns)
Parameters = Sequence[Tensor]


class NativeEngine(LayeredEngine):
    """Evaluates a forest tree by tree in C++, a block of samples at a time, in linear space with exact scaling.

    Sectors are materialised in chunks of at most `WEIGHTS_AT_ONCE` weights and dropped. The backward pass
    materialises them again and pushes their gradients through the weight source, so that no tensor of all weights
    or of all activations ever exists.

    Arguments:
        sectors: The layers of the circuit.
        leaves: The distributions of its variables.
        strict: Whether to refuse a circuit on another device, instead of leaving it to the layered engine.
    """

    def __init__(self, sectors: Sectors, leaves: Leaves, strict: bool = False) -> None:
        if reason := NativeEngine.obstacle(sectors):
            raise ValueError(f"expected a circuit that the native engine can evaluate, found {reason}")
        super().__init__(sectors)
        self.strict = strict
        trees = Trees(sectors, WEIGHTS_AT_ONCE)
        widths = torch.tensor([family.width for family in leaves.families], device="cpu")
        coded = torch.tensor([isinstance(family, Categorical) for family in leaves.families], device="cpu")
        self.codes = Reading(trees, widths, coded)
        self.likelihoods = Reading(trees, widths, torch.zeros_like(coded))

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
        return max(1, VALUES_AT_ONCE // int(self.codes.widths.sum()))

    def log_values(self, evidence: Evidence, leaves: Leaves, weights: WeightSource, flows: bool = False) -> Tensor:
        if not self._serves(evidence.values):
            return super().log_values(evidence, leaves, weights, flows)
        if flows and evidence.missing.any():  # for which a code has no flows
            return self.log_values_of(leaves.log_prob(evidence), weights, flows)
        codes = self.codes.codes(evidence)
        dense = None if self.codes.coded.all() else leaves.log_prob(evidence, categorical=False)
        return self._evaluate(self.codes, codes, dense, weights, dict(weights.named_parameters()), flows)

    def log_values_of(self, leaf_log_probs: Tensor, weights: WeightSource, flows: bool = False) -> Tensor:
        if not self._serves(leaf_log_probs):
            return super().log_values_of(leaf_log_probs, weights, flows)
        codes = torch.empty(0, len(leaf_log_probs), dtype=torch.int8)
        parameters: dict[str, Tensor] = dict(weights.named_parameters()) if flows else {}
        return self._evaluate(self.likelihoods, codes, leaf_log_probs, weights, parameters, flows)

    def _serves(self, x: Tensor) -> bool:
        if self.strict and x.device.type != "cpu":
            raise ValueError(f"expected the circuit on the CPU for the native engine, found it on {x.device}")
        return x.device.type == "cpu"

    def _evaluate(
        self,
        reading: Reading,
        codes: Tensor,
        leaf_log_probs: Tensor | None,
        weights: WeightSource,
        parameters: dict[str, Tensor],
        flows: bool,
    ) -> Tensor:
        """The log-value of every tree, (batch, trees); the dense leaves' largest likelihoods go around the trees."""
        evaluation = Evaluation(reading, codes, weights, tuple(parameters), flows)
        if leaf_log_probs is None:
            return LogValues.apply(evaluation, None, *parameters.values())
        scaled, scale = reading.scaled(leaf_log_probs)
        return LogValues.apply(evaluation, scaled, *parameters.values()) + scale[:, None]


class Reading:
    """The kernel's program for a forest: which variables it reads as codes, and which as likelihoods.

    Arguments:
        trees: The forest.
        widths: The number of leaf distributions of each variable.
        coded: Whether a variable is read as the code of its category.
    """

    def __init__(self, trees: Trees, widths: Tensor, coded: Tensor) -> None:
        self.trees = trees
        self.widths = widths
        self.coded = coded
        self.code_type = torch.int8 if (widths[coded] <= 127).all() else torch.int32

    @property
    def program(self) -> Any:
        """The compiled program, made where it is first needed: it cannot be copied to another process."""
        if "_program" not in self.__dict__:
            self._program = self._compiled()
        return self._program

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_program"}

    def codes(self, evidence: Evidence) -> Tensor:
        """The categories, -1 where missing: (coded variables, batch)."""
        codes = evidence.values.masked_fill(evidence.missing, -1).to(self.code_type)
        return codes.T[self.coded].contiguous()

    def scaled(self, leaf_log_probs: Tensor) -> tuple[Tensor, Tensor]:
        """Divides each variable's likelihoods by their largest: (batch, dense variables, l) -> (rows, batch), (batch,)."""
        dense = leaf_log_probs.permute(1, 2, 0)  # (dense variables, l, batch)
        largest = dense.detach().amax(1)  # (dense variables, batch)
        largest = largest.masked_fill(largest == -torch.inf, 0)
        used = torch.arange(dense.shape[1]) < self.widths[~self.coded, None]  # (dense variables, l)
        return (dense - largest[:, None])[used], largest.sum(0)

    def _compiled(self) -> Any:
        trees, coded = self.trees, self.coded.numpy()
        is_leaf = trees.variables >= 0
        rows = np.where(coded, np.cumsum(coded), np.cumsum(~coded)) - 1  # (variables,)
        leaf_types = np.where(coded, kernel.CATEGORICAL, kernel.DENSE)
        return kernel.Program(
            tree_ptr=trees.offsets,
            type=integers(np.where(is_leaf, leaf_types[trees.variables], kernel.INNER)),
            variable=integers(np.where(is_leaf, rows[trees.variables], 0)),
            size=integers(np.where(is_leaf, self.widths.numpy()[trees.variables], 0)),
            kind=trees.kinds,
            sector=trees.numbers,
            child_ptr=trees.child_offsets,
            children=trees.children,
            slot=trees.slots,
            rows=trees.sectors.layer_size,
            variables=int(coded.sum()),
            kinds=len(trees.sectors.kinds),
            dense_ptr=integers(np.concatenate([[0], np.cumsum(self.widths.numpy()[~coded])])),
        )


class Evaluation:
    """One batch on its way through a forest: log-values forwards, gradients backwards, piece by piece.

    Arguments:
        reading: The program, and how it reads the leaves.
        codes: The categories, (coded variables, batch).
        weights: Who writes the weights.
        names: The weight source's parameters that are handed in.
        flows: Whether the gradients of the weights are expected flows.
    """

    def __init__(
        self, reading: Reading, codes: Tensor, weights: WeightSource, names: tuple[str, ...], flows: bool
    ) -> None:
        self.reading = reading
        self.pieces = reading.trees.pieces
        self.codes = codes
        self.weights = weights
        self.names = names
        self.flows = flows
        self.threads = torch.get_num_threads()

    def logits(self, chunk: Chunk, parameters: Parameters) -> Logits:
        """Materialises the sectors of a chunk."""
        named = dict(zip(self.names, parameters, strict=True))
        logits = []
        for index, (kind, ids) in enumerate(zip(self.reading.trees.sectors.kinds, chunk.ids, strict=True)):
            written = functional_call(self.weights, named, (index, ids))
            logits.append(written.view(-1, kind.rows, kind.columns).contiguous())
        return logits

    def values(self, dense: Tensor | None, parameters: Parameters, kept: Logits | None) -> Tensor:
        """The log-value of every tree, (trees, batch)."""
        dtype = next(self.weights.parameters()).dtype
        values = torch.empty(self.pieces[-1].trees.stop, self.codes.shape[1], dtype=dtype)
        for piece in self.pieces:
            if len(piece.chunks) > 1:
                values[piece.trees.start] = self._walk(piece, dense, parameters)[0]
                continue
            (chunk,) = piece.chunks
            logits = kept or self.logits(chunk, parameters)
            found = kernel.forward(
                self.reading.program,
                _arrays(logits),
                array(self.codes),
                array(dense),
                _ends(piece.trees),
                self.threads,
                chunk.bases,
            )
            values[piece.trees.start : piece.trees.stop] = torch.from_numpy(found)
        return values

    def gradients(
        self, dense: Tensor | None, seed: Tensor, parameters: Parameters, kept: Logits | None
    ) -> Iterator[tuple[Logits, Logits, Tensor | None]]:
        """For each chunk its logits and their gradients, and the gradient of the dense log-likelihoods, (rows, batch)."""
        for piece in self.pieces:
            if len(piece.chunks) > 1:
                yield from self._walk_back(piece, dense, seed[piece.trees.start], parameters)
                continue
            (chunk,) = piece.chunks
            logits = kept or self.logits(chunk, parameters)
            seeds = seed[piece.trees.start : piece.trees.stop]
            found, dense_gradient = kernel.backward(
                self.reading.program,
                _arrays(logits),
                array(self.codes),
                array(dense),
                array(seeds),
                _ends(piece.trees),
                self.threads,
                self.flows,
                chunk.bases,
            )
            yield logits, _tensors(found), _tensor(dense_gradient)

    @torch.no_grad()
    def _walk(
        self, piece: Piece, dense: Tensor | None, parameters: Parameters, tape: bool = False
    ) -> tuple[Tensor, list[Walk]]:
        """Evaluates one tree chunk by chunk; samples that underflow in linear space, once more in log space."""
        walks = [Walk(self, piece, slice(None), dense, parameters, tape, log_space=False)]
        values, underflow = walks[0].state.values()
        if underflow.any():
            rows = torch.from_numpy(underflow.nonzero()[0])
            walks.append(Walk(self, piece, rows, dense, parameters, tape, log_space=True))
            values[rows] = walks[1].state.values()[0]
        return torch.from_numpy(values), walks

    def _walk_back(
        self, piece: Piece, dense: Tensor | None, seed: Tensor, parameters: Parameters
    ) -> Iterator[tuple[Logits, Logits, Tensor | None]]:
        _, walks = self._walk(piece, dense, parameters, tape=True)
        for chunk in reversed(piece.chunks):
            logits = self.logits(chunk, parameters)
            total = [torch.zeros_like(block) for block in logits]
            dense_total = None if dense is None else torch.zeros_like(dense)
            for walk in walks:
                found, dense_gradient = walk.backward(chunk, _arrays(logits), seed)
                total = [sofar.add_(part) for sofar, part in zip(total, _tensors(found), strict=True)]
                if dense_total is not None:
                    dense_total[:, walk.rows] += torch.from_numpy(dense_gradient)
            yield logits, total, dense_total


class Walk:
    """Some samples of a batch on their way through one tree, chunk by chunk."""

    def __init__(
        self,
        evaluation: Evaluation,
        piece: Piece,
        rows: Ids,
        dense: Tensor | None,
        parameters: Parameters,
        tape: bool,
        log_space: bool,
    ) -> None:
        self.rows = rows
        self.flows = evaluation.flows
        self.codes = array(evaluation.codes[:, rows])
        self.dense = None if dense is None else array(dense[:, rows])
        self.state: Any = None
        for chunk in piece.chunks:
            logits = _arrays(evaluation.logits(chunk, parameters))
            self.state = self.state or kernel.State(
                evaluation.reading.program,
                piece.trees.start,
                self.codes.shape[1],
                str(logits[0].dtype),
                tape,
                log_space,
                evaluation.threads,
            )
            self.state.forward(logits, self.codes, self.dense, *_ends(chunk.nodes), chunk.bases)

    def backward(self, chunk: Chunk, logits: list[Any], seed: Tensor) -> Any:
        seeds = array(seed[self.rows])
        return self.state.backward(logits, self.codes, self.dense, seeds, *_ends(chunk.nodes), self.flows, chunk.bases)


class LogValues(torch.autograd.Function):
    """The log-values of all trees, (batch, trees), as a function of dense log-likelihoods and the source's parameters.

    One chunk is kept from the forward pass for the backward pass; several are materialised again.
    """

    @staticmethod
    def forward(ctx: Any, evaluation: Evaluation, log_dense: Tensor | None, *parameters: Tensor) -> Tensor:
        dense = None if log_dense is None else log_dense.exp()
        own = [parameter.detach().requires_grad_(parameter.requires_grad) for parameter in parameters]
        first = evaluation.pieces[0]
        kept = None
        if len(evaluation.pieces) == len(first.chunks) == 1:
            with torch.set_grad_enabled(any(ctx.needs_input_grad)):
                kept = evaluation.logits(first.chunks[0], own)
        ctx.evaluation, ctx.own, ctx.kept = evaluation, own, kept
        ctx.save_for_backward(dense, *parameters)
        return evaluation.values(dense, own, kept).T

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        dense, *parameters = ctx.saved_tensors
        total: list[Tensor | None] = [None] * len(parameters)
        dense_total = None
        wanted = [index for index, need in enumerate(ctx.needs_input_grad[2:]) if need]
        with torch.enable_grad():
            chunks = ctx.evaluation.gradients(dense, gradient.T.contiguous(), ctx.own, ctx.kept)
            for logits, gradients, dense_gradient in chunks:
                dense_total = _sum(dense_total, dense_gradient)
                if wanted:
                    own = [ctx.own[index] for index in wanted]
                    found = torch.autograd.grad(logits, own, gradients, ctx.kept is not None, allow_unused=True)
                    for index, part in zip(wanted, found, strict=True):
                        total[index] = _sum(total[index], part)
        return None, dense_total, *total


def _sum(total: Tensor | None, part: Tensor | None) -> Tensor | None:
    if total is None or part is None:
        return part if total is None else total
    return total.add_(part)


def _arrays(logits: Logits) -> list[Any]:
    return [array(block) for block in logits]


def _tensors(arrays: list[Any]) -> Logits:
    return [torch.from_numpy(array) for array in arrays]


def _tensor(array: Any) -> Tensor | None:
    return None if array is None else torch.from_numpy(array)


def _ends(span: range) -> tuple[int, int]:
    return span.start, span.stop
