"""The course of a run: its evaluations, which of them is the best, when it is over, and how it is shown."""

from __future__ import annotations

from time import monotonic
from typing import NamedTuple

from .checkpoint import LogEntry

MINIMUM = 0.2  # of the steps, before a run may be hopeless


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

    @property
    def entries(self) -> list[LogEntry]:
        """The steps with their validation values."""
        return [{"step": step, "valid": value} for step, value in zip(self.steps, self.valid, strict=True)]


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


class Progress:
    """How far one run is, or several that are stages of one search: a bar on standard error, and when to stop.

    Arguments:
        visible: Whether the bar is shown.
        steps: The number of steps of all stages together.
        minutes: After how many minutes to stop; None for never.
    """

    def __init__(self, visible: bool = True, steps: int = 1, minutes: float | None = None) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as Bar

        columns = (
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("steps"),
        )
        self._bar = Bar(*columns, TimeRemainingColumn(), console=Console(stderr=True), disable=not visible)
        self._task = self._bar.add_task("", total=steps)
        self._deadline = None if minutes is None else monotonic() + 60 * minutes
        self._stage, self._done = "", 0
        self.rival: list[LogEntry] = []

    def __enter__(self) -> Progress:  # noqa: PYI034
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    @property
    def has_end(self) -> bool:
        """Whether the time may be over at all."""
        return self._deadline is not None

    @property
    def is_late(self) -> bool:
        """Whether the time is over."""
        return self._deadline is not None and monotonic() >= self._deadline

    def begin(self, stage: str) -> None:
        """A run begins."""
        self._stage = f"{stage}: " if stage else ""

    def show(self, step: int, evaluations: list[LogEntry]) -> None:
        """The run has reached a step."""
        text = f"{self._stage}{summary(evaluations)}"
        self._bar.update(self._task, completed=self._done + step, description=text)

    def end(self, steps: int) -> None:
        """The run is over, and with it this many steps."""
        self._done += steps
        self._bar.update(self._task, completed=self._done)

    def is_hopeless(self, evaluations: list[LogEntry], steps: int) -> bool:
        """Whether not even twice the progress that the best run so far made from this point on would make this one better."""
        if not self.rival or not evaluations or not MINIMUM * steps <= evaluations[-1]["step"] < steps:
            return False
        part, end = evaluations[-1]["step"] / steps, self.rival[-1]["step"]
        there = [entry["valid"] for entry in self.rival if entry["step"] <= part * end]
        best = max(entry["valid"] for entry in self.rival)
        return best_evaluation(evaluations)["valid"] + 2 * (best - max(there)) < best


def summary(evaluations: list[LogEntry]) -> str:
    """The last and the best values, for the progress bar."""
    if not evaluations:
        return ""
    last, best = evaluations[-1], best_evaluation(evaluations)
    if last["valid"] is None:
        return f"train {last['train']:.3f}"
    return f"train {last['train']:.3f}  valid {last['valid']:.3f}  best {best['valid']:.3f}"
