"""The course of a run: its evaluations, which of them is the best, when it is over, and how it is shown."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from .checkpoint import LogEntry

if TYPE_CHECKING:
    from rich.progress import Progress


class History(NamedTuple):
    """The course of a run: mean log-likelihoods by step, and where the best validation value was.

    Without validation rows, `valid` is empty, `best_valid` None, and `best_step` the last one.
    """

    steps: list[int]
    train: list[float]
    valid: list[float]
    best_step: int
    best_valid: float | None
    seconds: float
    stopped_early: bool


def is_over(evaluations: list[LogEntry], steps: int, patience: int | None) -> bool:
    """Whether all steps are done, or the last evaluations were no better for too long."""
    if not evaluations:
        return False
    since_best = len(evaluations) - 1 - evaluations.index(best_evaluation(evaluations))
    return evaluations[-1]["step"] >= steps or (patience is not None and since_best >= patience)


def best_evaluation(evaluations: list[LogEntry]) -> LogEntry:
    """The first with the highest validation value; without these, the last."""
    if evaluations[-1]["valid"] is None:
        return evaluations[-1]
    return max(evaluations, key=lambda evaluation: evaluation["valid"])


def as_history(evaluations: list[LogEntry], steps: int) -> History:
    """The course of a run that was to have this many steps."""
    best, last = best_evaluation(evaluations), evaluations[-1]
    return History(
        steps=[evaluation["step"] for evaluation in evaluations],
        train=[evaluation["train"] for evaluation in evaluations],
        valid=[evaluation["valid"] for evaluation in evaluations if evaluation["valid"] is not None],
        best_step=best["step"],
        best_valid=best["valid"],
        seconds=last["seconds"],
        stopped_early=last["step"] < steps,
    )


def progress_bar(visible: bool, stage: str) -> Progress:
    """A bar for steps, on standard error."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn(f"{stage}: step" if stage else "step", markup=False),
        MofNCompleteColumn(),
        BarColumn(),
        TextColumn("{task.description}"),
    )
    return Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True), disable=not visible)


def summary(evaluations: list[LogEntry]) -> str:
    """The last and the best values, for the progress bar."""
    if not evaluations:
        return ""
    last, best = evaluations[-1], best_evaluation(evaluations)
    if last["valid"] is None:
        return f"train {last['train']:.3f}"
    return f"train {last['train']:.3f}  valid {last['valid']:.3f}  best {best['valid']:.3f} at {best['step']}"
