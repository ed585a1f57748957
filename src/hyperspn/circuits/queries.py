"""Queries: exact questions to a circuit, each a few lines over an upward and a downward pass."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import torch

from torch import Generator, Tensor
from torch.nn.utils.rnn import pad_sequence

from ..engines import LayeredEngine
from ..engines.descent import at_random, log_weights_of
from ..engines.layered import log_max, log_sum
from ..leaves.discrete import Categorical
from ..leaves.evidence import Evidence, Rows, as_tensor
from ..leaves.leaves import Leaves
from ..weights.sectors import Sectors, SumLayer
from ..weights.source import WeightSource, normalize

LOWEST = {torch.float32: -40.0, torch.float64: -600.0}  # how far log-densities are from the largest, at most


class Density(Protocol):
    """Anything that reads rows and says how probable they are: a circuit, a mixture of circuits."""

    def read(self, x: Rows | Evidence, missing: Rows | None = None) -> Evidence: ...

    def log_prob(self, x: Rows | Evidence, missing: Rows | None = None) -> Tensor: ...


class Parts(Protocol):
    """What a query needs to know of a circuit."""

    sectors: Sectors
    leaves: Leaves
    weights: WeightSource
    mixture: Tensor  # (roots,)
    engine: LayeredEngine


def log_prob(
    model: Parts, x: Rows | Evidence, missing: Rows | None = None, weights: WeightSource | None = None
) -> Tensor:
    """log p(x), with missing values integrated out: (batch,).

    With `weights`, these are used in place of the circuit's.
    """
    evidence, source = model.leaves.read(x, missing), model.weights if weights is None else weights
    if torch.is_grad_enabled():
        return _mix_roots(model, _root_values(model, evidence, source))
    parts = _split(evidence, model.engine.rows_at_once)
    return torch.cat([_mix_roots(model, _root_values(model, part, source)) for _, part in parts])


def conditional_log_prob(model: Density, x: Rows | Evidence, query: Rows, missing: Rows | None = None) -> Tensor:
    """log p(x_query | x_rest) = log p(x_query, x_rest) - log p(x_rest): (batch,)."""
    evidence = model.read(x, missing)
    columns = as_tensor(query, "query").to(evidence.values.device)
    if columns.dtype != torch.bool or columns.shape != evidence.values.shape[1:]:
        raise ValueError(
            f"expected query to be bool of shape {tuple(evidence.values.shape[1:])}, "
            f"found {columns.dtype} {tuple(columns.shape)}"
        )
    rest = model.log_prob(evidence.without(columns))
    check_possible(rest)
    return model.log_prob(evidence) - rest


def marginals(model: Parts, x: Rows | Evidence, missing: Rows | None = None) -> Tensor:
    """The posterior of every variable given what is known of its row: (batch, variables, l).

    Entry [b, v, j] is the posterior probability that variable v comes from its leaf distribution j. For a
    categorical variable that is p(X_v = j | row b); for others, the weights of the mixture that is its posterior.
    All of them together are the gradient of log p with respect to the log-densities of the leaves: one upward and
    one downward pass.
    """
    return _marginals(model, model.leaves.read(x, missing))


@torch.no_grad()
def leave_one_out(model: Parts, x: Rows | Evidence, missing: Rows | None = None) -> tuple[Tensor, Tensor]:
    """What the rest of a row says of each variable: log p(x_v | rest), and the posterior of v given the rest.

        log p(x_v | rest) = -log sum_j posterior_j / f_j,   P(j | rest) ~ posterior_j / f_j

    f_j is the density of x_v under leaf distribution j, and the posterior that of `marginals`: all variables of all rows
    take one upward and one downward pass. So that no f_j is 0, those below a limit far from the largest are raised to it
    (`LOWEST`): in float64 that changes only what is less probable than e^-600. A value that is impossible in itself
    counts as unknown for the others.

    Returns:
        The log-densities, (batch, variables), 0 where nothing is known and -inf where impossible; and the posteriors of
        the leaf distributions, (batch, variables, l).
    """
    return rest_of_rows(model, model.leaves.read(x, missing))[1:]


def rest_of_rows(model: Parts, evidence: Evidence) -> tuple[Tensor, Tensor, Tensor]:
    """The log-probability of the rest of a row for each variable, (batch, variables), and what `leave_one_out` returns."""
    rests, densities, posteriors = [], [], []
    for _, part in _split(evidence, model.engine.rows_at_once):
        log_f = model.leaves.log_prob(part)
        largest = log_f.amax(-1, keepdim=True)  # (batch, variables, 1)
        lowest = largest.masked_fill(largest == -torch.inf, 0) + LOWEST[log_f.dtype]
        raised = torch.maximum(log_f, lowest)
        posterior, log_p = _leaf_posteriors(model, raised)
        odds = posterior.log() - raised  # (batch, variables, l)
        total = odds.logsumexp(-1)
        rests.append(log_p[:, None] + total)
        densities.append((-total).masked_fill(largest[..., 0] == -torch.inf, -torch.inf))
        posteriors.append((odds - total[..., None]).exp())
    return torch.cat(rests), torch.cat(densities), torch.cat(posteriors)


@torch.no_grad()
def root_states(model: Parts, x: Rows | Evidence, missing: Rows | None = None) -> Tensor:
    """P(r, s | row): which root r a row comes from, and by which input s of its sum, (batch, roots, inputs)."""
    sectors, parts = model.engine.placed, []
    for first, part in _split(model.leaves.read(x, missing), model.engine.rows_upward):
        roots, inputs = model.engine.upward(model.leaves.log_prob(part), model.weights)
        check_possible((roots + normalize(model.mixture)).amax(-1), first)
        rows, states = torch.arange(len(roots), device=roots.device), []
        for root, log_weight in zip(sectors.roots.tolist(), normalize(model.mixture), strict=True):
            layer, slot = sectors.layers[sectors.layer_of[root]], sectors.slot_of[root]
            scores = inputs[sectors.layer_of[root]].products(slot.expand_as(rows), rows)  # (batch, inputs)
            if layer.plan.has_sums:
                scores = scores + log_weights_of(model.weights, layer, slot[None], torch.zeros_like(slot[None]))
            states.append(scores + log_weight)
        joint = pad_sequence([state.T for state in states], padding_value=-torch.inf)  # (inputs, roots, batch)
        parts.append(joint.flatten(0, 1).softmax(0).view(joint.shape).permute(2, 1, 0))
    return torch.cat(parts)


@torch.no_grad()
def moments(model: Parts, x: Rows | Evidence, missing: Rows | None = None) -> tuple[Tensor, Tensor]:
    """Mean and variance of every variable given what is known of its row, two of (batch, variables).

    A known value is its own mean, with variance 0. Categories count as their codes.
    """
    evidence = model.leaves.read(x, missing)
    mean, variance = model.leaves.moments(_marginals(model, evidence))
    known = evidence.known
    return torch.where(known, evidence.values, mean), variance.masked_fill(known, 0)


@torch.no_grad()
def impute(model: Parts, x: Rows | Evidence, missing: Rows | None = None) -> Tensor:
    """Fills every hole with the best single guess for it, and keeps the rest: (batch, variables).

    The guess is the most probable category, the mean of a continuous variable, the rounded mean of a count.
    """
    evidence = model.leaves.read(x, missing)
    guess = model.leaves.guess(_marginals(model, evidence))
    return _as_data(model, torch.where(evidence.known, evidence.values, guess))


@torch.no_grad()
def sample(model: Parts, n: int, generator: Generator | None = None) -> Tensor:
    """Draws n rows, (n, variables): from one root down, through one chosen input of each sum on the way."""
    if n < 0:
        raise ValueError(f"expected a number of samples >= 0, found {n}")
    shares = normalize(model.mixture).double().exp().cumsum(0)  # (roots,)
    levels = torch.rand(n, dtype=shares.dtype, device=shares.device, generator=generator)
    roots = torch.searchsorted(shares / shares[-1], levels, right=True)
    parts = []
    for few_roots in roots.split(max(1, model.engine.rows_downward(model.leaves))):
        members = model.engine.descend(few_roots, model.leaves, model.weights, generator)
        parts.append(model.leaves.sample(members, generator))
    return _as_data(model, torch.cat(parts))


@torch.no_grad()
def sample_given(
    model: Parts, x: Rows | Evidence, missing: Rows | None = None, n: int = 1, generator: Generator | None = None
) -> Tensor:
    """Draws n completions of each row from p(missing | known), (batch, n, variables)."""
    if n < 1:
        raise ValueError(f"expected a number of samples >= 1, found {n}")
    choose, parts = at_random(generator), []
    for first, part in _split(model.leaves.read(x, missing), _rows_at_once(model, n)):
        ascent = model.engine.ascend(part, model.leaves, model.weights)
        scores = ascent.values + normalize(model.mixture)  # (batch, roots)
        check_possible(scores.amax(-1), first)
        rows = torch.arange(len(scores), device=scores.device).repeat_interleave(n)
        members = ascent.descend(choose(scores[rows]), rows, generator)
        drawn = model.leaves.complete(part[rows], members, generator)
        parts.append(drawn.view(len(scores), n, drawn.shape[1]))
    return _as_data(model, torch.cat(parts))


@torch.no_grad()
def most_probable(model: Parts, x: Rows | Evidence, missing: Rows | None = None) -> Tensor:
    """Completes each row by max-product: the most probable choice of one input for each sum, (batch, variables).

    This is the most probable completion where only one such choice explains a complete row (a deterministic
    circuit; k = r = 1 with categorical leaves is one). Elsewhere it is a good guess: the most probable completion
    together with the hidden choices, not with these summed out. `most_probable_bound` says how far off it may be.
    """
    parts = []
    for first, part in _split(model.leaves.read(x, missing), _rows_at_once(model, 1)):
        ascent = model.engine.ascend(part, model.leaves, model.weights, best=True)
        scores = ascent.values + normalize(model.mixture)  # (batch, roots)
        check_possible(scores.amax(-1), first)
        members = ascent.descend(scores.argmax(-1), torch.arange(len(scores), device=scores.device), None)
        parts.append(torch.where(part.known, part.values, model.leaves.modes(members)))
    return _as_data(model, torch.cat(parts))


@torch.no_grad()
def most_probable_bound(model: Parts, x: Rows | Evidence, missing: Rows | None = None) -> Tensor:
    """An upper bound of log p of each row's most probable completion, (batch,).

        max_y p(x, y) <= the upward pass with every unknown leaf at its largest value

    A sum over the categories of an unknown variable is at its largest at its most probable one. `log_prob` of any
    completion, as of `most_probable`, is a lower bound.
    """
    is_categorical = torch.tensor([isinstance(family, Categorical) for family in model.leaves.families])

    def largest(layer: SumLayer, inputs: Tensor, log_weights: Tensor) -> Tensor:
        is_code = is_categorical[layer.factors[layer.offsets[:-1]]].to(inputs.device)  # (U,)
        return torch.where(is_code[:, None, None], log_max(inputs, log_weights), log_sum(inputs, log_weights))

    parts = []
    for _, part in _split(model.leaves.read(x, missing), model.engine.rows_upward):
        leaf_log_probs = model.leaves.log_prob(part, modes=True)
        parts.append(_mix_roots(model, model.engine.upward(leaf_log_probs, model.weights, at_leaves=largest)[0]))
    return torch.cat(parts)


def _root_values(model: Parts, evidence: Evidence, weights: WeightSource) -> Tensor:
    """The log-values of all roots, (batch, roots)."""
    if evidence.events:
        leaf_log_probs = model.leaves.log_prob(evidence)
        if torch.is_grad_enabled() and any(parameter.requires_grad for parameter in weights.parameters()):
            return model.engine.upward(leaf_log_probs, weights)[0]  # so that weights get gradients, too
        return model.engine.log_values_of(leaf_log_probs, weights)
    return model.engine.log_values(evidence, model.leaves, weights)


def _mix_roots(model: Parts, roots: Tensor) -> Tensor:
    """log sum_r mixture_r root_r: (batch, roots) -> (batch,)."""
    return log_sum(roots[None], normalize(model.mixture)[None, None])[0, :, 0]


def _marginals(model: Parts, evidence: Evidence) -> Tensor:
    parts = []
    for first, part in _split(evidence, model.engine.rows_at_once):
        with torch.no_grad():
            leaf_log_probs = model.leaves.log_prob(part)
        posterior, log_p = _leaf_posteriors(model, leaf_log_probs)
        check_possible(log_p, first)
        parts.append(posterior)
    return torch.cat(parts)


def _leaf_posteriors(model: Parts, leaf_log_probs: Tensor) -> tuple[Tensor, Tensor]:
    """The gradient of log p with respect to the log-densities of the leaves, (batch, variables, l), and log p, (batch,)."""
    with torch.inference_mode(False), torch.enable_grad():
        leaves = leaf_log_probs.detach().clone().requires_grad_()
        log_p = _mix_roots(model, model.engine.log_values_of(leaves, model.weights))
        return torch.autograd.grad(log_p.sum(), leaves)[0], log_p.detach()


def _rows_at_once(model: Parts, n: int) -> int:
    """How many rows to send upward, each with n travelers on the way down."""
    return min(model.engine.rows_both_ways(model.leaves), model.engine.rows_downward(model.leaves) // n)


def _split(evidence: Evidence, rows: int) -> Iterator[tuple[int, Evidence]]:
    """Cuts a batch into parts that fit into memory, each with the number of its first row."""
    rows = max(1, rows)
    return ((first, evidence[first : first + rows]) for first in range(0, max(len(evidence), 1), rows))


def check_possible(log_p: Tensor, first_row: int = 0) -> None:
    impossible = (log_p == -torch.inf).nonzero()
    if len(impossible):
        raise ValueError(
            f"expected evidence of positive probability, found impossible values in row {first_row + int(impossible[0]) + 1}"
        )


def _as_data(model: Parts, values: Tensor) -> Tensor:
    """Codes and counts as integers, where all variables have them."""
    return values.long() if model.leaves.is_discrete else values
