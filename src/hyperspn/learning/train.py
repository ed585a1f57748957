"""Training: Adam or EM on random batches, in one loop that can be stopped and resumed at any moment."""

from __future__ import annotations

import os

from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import replace
from time import perf_counter
from typing import Any, Literal

import numpy as np
import torch

from numpy.typing import ArrayLike
from torch.optim import Optimizer

from ..checks import number, whole
from ..circuits.circuit import Circuit
from ..data.streams import Stream
from ..leaves.evidence import Evidence, Rows, as_tensor
from ..weights.source import WeightSource
from . import distributed
from .adam import Adam
from .averaging import Averaging
from .checkpoint import Folder, LogEntry, Parameters, circuit_digest, copy_parameters, meaning, table_digest
from .em import EM
from .history import History, Progress, as_history, best_evaluation, is_over
from .regularizers import Dropout, Softening
from .steps import Conditional, Learner, Training

IDLE: dict[str, dict[str, float | None]] = {  # what an optimizer does not use, and must be left at
    "adam": {"step_size": 1.0, "pseudocount": 0.0},
    "em": {
        "weight_decay": 0.0,
        "learning_rate": None,
        "annealing": False,
        "dropout": 0.0,
        "discriminative_weight": 0.0,
        "averaging": None,
    },
}

ByGroup = float | Mapping[str, float]


def fit(
    circuit: Circuit,
    train: Rows | Stream,
    valid: Rows | None = None,
    *,
    steps: int = 4000,
    batch_size: int = 500,
    evaluate_every: int = 200,
    patience: int | None = None,
    optimizer: Literal["adam", "em"] = "adam",
    weight_decay: ByGroup = 0.0,
    learning_rate: ByGroup | None = None,
    annealing: bool = False,
    averaging: float | None = None,
    step_size: float = 1.0,
    pseudocount: float = 0.0,
    dropout: float = 0.0,
    softening: float = 0.0,
    discriminative_weight: float = 0.0,
    target: int | None = None,
    sample_weight: ArrayLike | None = None,
    valid_weight: ArrayLike | None = None,
    seed: int = 0,
    folder: str | os.PathLike[str] | None = None,
    progress: bool | Progress = True,
    stage: str = "",
) -> History:
    """Learns the parameters of a circuit, and leaves it with the best ones on the validation rows.

        minimize  -sum_{x in batch} log p(x),   with the gradient of weight_decay / 2 |parameters|^2 added

    by Adam, or without weight decay by expectation maximization (see `EM`). Where `batch_size` is less than all rows
    that is stochastic EM, which wants a smaller `step_size` and a `pseudocount`.

    With a `target` y and a `discriminative_weight` w, Adam maximizes, and the validation rows decide by,

        (1 - w) log p(x, y) + w log p(y | x) = log p(x, y) - w log p(x)

    Missing values (NaN) are integrated out. With a `folder`, the run is written there at every evaluation:
    ``log.jsonl``, ``checkpoint.pt``, and in the end ``model.safetensors``. The same call goes on where the last one
    stopped, whatever stopped it, and ends with the same numbers as if nothing had.

    Where a process group of `torch.distributed` was initialized, all its processes make the same call with the same rows,
    and each works on its part of every batch. The numbers are those of one process, and the first one has the folder.

    Arguments:
        circuit: The circuit, which is changed.
        train: The rows to learn, (rows, variables), or a stream of them (see `data.streams`).
        valid: The rows by which the best step is chosen; without them it is the last one.
        steps: The number of steps.
        batch_size: The number of rows in a batch: drawn without replacement, anew at each step; of a stream, the next ones.
        evaluate_every: The number of steps between evaluations.
        patience: After how many evaluations without a better validation value to stop; None for never.
        optimizer: "adam", or "em" for circuits with direct weights.
        weight_decay: Of Adam, the strength of the L2 penalty on all parameters, or on groups of them by name.
        learning_rate: Of Adam, one learning rate for all parameters, or rates of groups by name, ``{"leaves": 1e-3}``,
            in place of the circuit's own (`parameter_groups`).
        annealing: Of Adam, whether the learning rates rise in the first steps and then fall to 0 (see `annealing_factor`).
        averaging: Of Adam, like 0.999, how much of an average of the parameters remains at a step (see `Averaging`): at each
            evaluation the average or the parameters themselves count, whichever are better on the validation rows.
        step_size: Of EM, how far to go towards the optimum of a batch, > 0 and <= 1.
        pseudocount: Of EM, how many rows' worth of uniform flow each sum is given.
        dropout: The probability of an edge of a sum to be dropped at a step (see `Dropout`); not with EM.
        softening: The part of an observed category that counts for all categories alike (see `Softening`).
        discriminative_weight: How much predicting the target counts, from 0, not more than all else, to 1, alone.
        target: The number of the variable to predict.
        sample_weight: How much each training row counts, (rows,), relative to the others.
        valid_weight: How much each validation row counts, (rows,).
        seed: Determines batches and dropout.
        folder: Where to keep the run, if anywhere.
        progress: Whether to show a progress bar; or that of a search, which may end the run before its last step.
        stage: What the progress bar says before its numbers.

    Example:
        >>> from hyperspn import HyperSPN
        >>> rows = np.random.default_rng(0).integers(0, 2, (100, 1)).repeat(4, axis=1)
        >>> history = fit(HyperSPN(4, replicas=2), rows, steps=50, evaluate_every=25, progress=False)
        >>> history.steps, history.train[-1] > history.train[0]
        ([0, 25, 50], True)
    """
    settings: dict[str, Any] = {
        "steps": whole("steps", steps),
        "batch_size": whole("batch_size", batch_size),
        "evaluate_every": whole("evaluate_every", evaluate_every),
        "patience": None if patience is None else whole("patience", patience),
        "weight_decay": _by_group(circuit, "weight_decay", weight_decay),
        "learning_rate": None if learning_rate is None else _by_group(circuit, "learning_rate", learning_rate),
        "annealing": bool(annealing),
        "step_size": number("step_size", step_size),
        "pseudocount": number("pseudocount", pseudocount),
        "dropout": number("dropout", dropout),
        "softening": number("softening", softening),
        "seed": whole("seed", seed, least=0),
    }
    conditional = _conditional(circuit, discriminative_weight, target)
    settings |= _rare_settings(conditional, target, averaging)
    _check_idle(settings, optimizer)
    _check_rows(train, valid, sample_weight, patience)

    def arguments() -> dict[str, Any]:
        return {**settings, **_digests(circuit, train, valid, sample_weight, valid_weight)}

    distributed.check_same(arguments)
    em = EM(circuit, step_size, pseudocount) if optimizer == "em" else None
    learner: Learner = em or _adam(circuit, weight_decay, learning_rate, averaging)
    training = Training(
        circuit,
        train if isinstance(train, Stream) else _read(circuit, train, "train", sample_weight),
        None if valid is None else _read(circuit, valid, "valid", valid_weight),
        _regularize(circuit, softening, dropout, seed),
        learner,
        batch_size,
        steps if annealing else None,
        seed,
        conditional,
    )
    run = Folder(folder, arguments()) if folder is not None and distributed.rank() == 0 else None
    shared = nullcontext(progress) if isinstance(progress, Progress) else None
    with shared or Progress(bool(progress) and distributed.rank() == 0, steps) as bar:
        bar.begin(stage)
        evaluations = _train(training, run, steps, evaluate_every, patience, bar)
    if run:
        run.finish(circuit)
    return as_history(evaluations, steps)


def _train(
    training: Training, run: Folder | None, steps: int, evaluate_every: int, patience: int | None, progress: Progress
) -> list[LogEntry]:
    """Learns step by step from where the run stopped, and leaves the circuit with the best parameters."""
    circuit, learner = training.circuit, training.learner
    evaluations, best = _resume(circuit, learner, run)
    step, seconds = (evaluations[-1]["step"], evaluations[-1]["seconds"]) if evaluations else (-1, 0.0)
    start = perf_counter() - seconds
    try:
        with run.alone() if run else nullcontext():
            is_late = False
            while not (is_over(evaluations, steps, patience) or progress.is_hopeless(evaluations, steps) or is_late):
                step += 1
                if step > 0:
                    training.learn(step)
                is_late = progress.has_end and distributed.first(lambda: progress.is_late)
                if step % evaluate_every == 0 or step == steps or is_late:
                    evaluation, parameters = _evaluate(training, step, start)
                    evaluations.append(evaluation)
                    if evaluation is best_evaluation(evaluations):
                        best = parameters
                    if run:
                        run.keep(circuit, learner, evaluations, best)
                progress.show(step, evaluations)
    finally:
        circuit.load_state_dict(best)
    return evaluations


def _evaluate(training: Training, step: int, start: float) -> tuple[LogEntry, Parameters]:
    """The evaluation of the parameters, and these; or of their average, if it is better or there is nothing to tell."""
    evaluation, parameters = training.evaluate(step, start), copy_parameters(training.circuit)
    if isinstance(training.learner, Averaging):
        with training.learner.use_average():
            averaged = training.evaluate(step, start)
            if averaged["valid"] is None or averaged["valid"] > evaluation["valid"]:
                return {**averaged, "averaged": True}, copy_parameters(training.circuit)
    return evaluation, parameters


def _resume(circuit: Circuit, learner: Learner, run: Folder | None) -> tuple[list[LogEntry], Parameters]:
    """Brings circuit and optimizer in all processes to where the run stopped: all evaluations, best parameters."""

    def resume() -> tuple[Any, ...]:
        reached = run.resume(circuit, learner) if run else ([], copy_parameters(circuit))
        return *reached, circuit.state_dict(), learner.state_dict()

    evaluations, best, model, state = distributed.first(resume)
    if distributed.rank():
        circuit.load_state_dict(model)
        learner.load_state_dict(state)
    return evaluations, best


def _check_idle(settings: dict[str, Any], optimizer: str) -> None:
    """Takes the settings out that belong to the other optimizer, unless they were meant."""
    if optimizer not in IDLE:
        raise ValueError(f"expected optimizer 'adam' or 'em', found {optimizer!r}")
    for name, idle in IDLE[optimizer].items():
        if (value := settings.pop(name, idle)) != idle:
            raise ValueError(f"expected no {name} with optimizer {optimizer!r}, found {value}")


def _check_rows(
    train: Rows | Stream, valid: Rows | None, sample_weight: ArrayLike | None, patience: int | None
) -> None:
    if isinstance(train, Stream) and sample_weight is not None:
        raise ValueError("expected rows that count alike in a stream, found weights of them")
    if patience is not None and valid is None:
        raise ValueError("expected validation rows for early stopping, found patience without them")


def _rare_settings(conditional: Conditional | None, target: int | None, averaging: float | None) -> dict[str, Any]:
    """Settings that a run has only where they are asked for."""
    settings: dict[str, Any] = {}
    if conditional is not None:
        settings |= {"discriminative_weight": conditional.weight, "target": target}
    return settings if averaging is None else settings | {"averaging": number("averaging", averaging)}


def _conditional(circuit: Circuit, weight: float, target: int | None) -> Conditional | None:
    """What is asked of the target; nothing if its weight is 0."""
    if not 0 <= number("discriminative_weight", weight) <= 1:
        raise ValueError(f"expected discriminative_weight 0..1, found {weight}")
    if weight == 0:
        return None
    variables = len(circuit.leaves.families)
    if target is None or not 0 <= whole("target", target, least=0) < variables:
        raise ValueError(f"expected the number of a variable 0..{variables - 1} as target, found {target}")
    return Conditional(float(weight), torch.arange(variables) == target)


def _adam(
    circuit: Circuit, weight_decay: ByGroup, learning_rate: ByGroup | None, averaging: float | None
) -> Optimizer | Averaging:
    groups = circuit.parameter_groups()
    for setting, key in ((learning_rate, "lr"), (weight_decay, "weight_decay")):
        for group in groups:
            value = setting.get(group["name"]) if isinstance(setting, Mapping) else setting
            if value is not None:
                group[key] = value
    fused = circuit.mixture.device.type in ("cpu", "cuda")
    adam = Adam(groups, fused=fused)
    return adam if averaging is None else Averaging(adam, averaging)


def _regularize(circuit: Circuit, softening: float, dropout: float, seed: int) -> WeightSource:
    """What writes the weights of the circuit while it learns."""
    weights = circuit.weights
    if softening:
        weights = Softening(weights, circuit.sectors, circuit.leaves, softening)
    return Dropout(weights, circuit.sectors, dropout, seed) if dropout else weights


def _digests(circuit: Circuit, train: Rows | Stream, valid: Rows | None, *weights: ArrayLike | None) -> dict[str, Any]:
    digests = {
        "train": train.digest() if isinstance(train, Stream) else table_digest(as_tensor(train, "train")),
        "valid": None if valid is None else table_digest(as_tensor(valid, "valid")),
    }
    for name, importance in zip(("sample_weight", "valid_weight"), weights, strict=True):
        if importance is not None:
            digests[name] = table_digest(torch.as_tensor(np.asarray(importance, np.float64)))
    return {"circuit": circuit_digest(circuit), **digests, **meaning(circuit)}


def _read(circuit: Circuit, rows: Rows, name: str, weights: ArrayLike | None) -> Evidence:
    """The evidence of rows that count as much as their weights, 1 on average."""
    evidence = circuit.read(as_tensor(rows, name))
    if not len(evidence):
        raise ValueError(f"expected at least one row in {name}, found none")
    if weights is None:
        return evidence
    importance = torch.as_tensor(np.asarray(weights, np.float64))
    if importance.shape != (len(evidence),) or not (importance >= 0).all() or not 0 < importance.sum() < torch.inf:
        raise ValueError(f"expected a weight >= 0 of each of {len(evidence)} rows in {name}, not all 0, found others")
    return replace(evidence, importance=(importance / importance.mean()).to(evidence.values.device))


def _by_group(circuit: Circuit, name: str, value: ByGroup) -> ByGroup:
    if not isinstance(value, Mapping):
        return number(name, value)
    groups = [group["name"] for group in circuit.parameter_groups()]
    if not value.keys() <= set(groups):
        raise ValueError(f"expected {name} of {', '.join(groups)}, found {', '.join(value)}")
    return {group: number(f"{name} of {group}", of_group) for group, of_group in value.items()}
