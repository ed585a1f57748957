"""Training on several processes: each learns from its part of every batch, and all take the same step."""

from __future__ import annotations

import os

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from typing import Any, TypeVar

import torch

from torch import Tensor
from torch import distributed as group
from torch.distributed.distributed_c10d import PrefixStore
from torch.distributed.rendezvous import rendezvous

T = TypeVar("T")

ENDED = "another process of this job has ended: run the same command again to resume"


def size() -> int:
    """The number of processes that work together: those of the process group, if there is one."""
    return group.get_world_size() if group.is_available() and group.is_initialized() else 1


def rank() -> int:
    """The number of this process among them. The first, 0, reads and writes the files of a run."""
    return group.get_rank() if size() > 1 else 0


def part(rows: int) -> slice:
    """Which of so many rows are for this process: every one is for exactly one process."""
    return slice(rank() * rows // size(), (rank() + 1) * rows // size())


def add(tensors: Sequence[Tensor]) -> None:
    """Replaces tensors by their sums over all processes."""
    if size() == 1 or not tensors:
        return
    flat = torch.cat([tensor.flatten() for tensor in tensors])
    with _peers():
        group.all_reduce(flat)
    for tensor, total in zip(tensors, flat.split([tensor.numel() for tensor in tensors]), strict=True):
        tensor.copy_(total.view_as(tensor))


def first(make: Callable[[], T]) -> T:
    """What the first process makes, in all of them; an error that stops it stops all."""
    if size() == 1:
        return make()
    made: list[Any] = [None, None]
    if rank() == 0:
        try:
            made[0] = make()
        except Exception as error:  # noqa: BLE001
            made[1] = error
    with _peers():
        group.broadcast_object_list(made, src=0)
    if made[1] is not None:
        raise made[1]
    return made[0]


def check_same(arguments: Callable[[], dict[str, Any]]) -> None:
    """Refuses arguments that are not the same in all processes, as they should be."""
    if size() == 1:
        return
    mine = arguments()
    theirs = first(lambda: mine)
    others = torch.tensor([mine[name] != theirs[name] for name in theirs], dtype=torch.float64)
    add([others])
    if others.any():
        listed = ", ".join(name for name, count in zip(theirs, others.tolist(), strict=True) if count)
        raise ValueError(f"expected the same arguments of fit in all processes, found different ones ({listed})")


@contextmanager
def job() -> Iterator[None]:
    """Joins the processes that `torchrun` started, if it did, until the block ends; all but the first are silent."""
    if not group.is_available() or not group.is_torchelastic_launched():
        yield
        return
    with _peers():
        store, place, processes = next(rendezvous("env://"))
        store = PrefixStore(f"attempt {_attempt()}", store)
        group.init_process_group(store=store, rank=place, world_size=processes)
    try:
        if rank() == 0:
            yield
        else:
            with open(os.devnull, "w") as nowhere, redirect_stdout(nowhere), redirect_stderr(nowhere):
                yield
    finally:
        group.destroy_process_group()


def _attempt() -> str:
    """Which start of the job this is: on one machine, a restart would find the addresses of the processes before it."""
    return os.environ["TORCHELASTIC_RESTART_COUNT"] if os.environ["GROUP_WORLD_SIZE"] == "1" else ""


@contextmanager
def _peers() -> Iterator[None]:
    """Says what it means when the processes cannot reach each other any more."""
    try:
        yield
    except RuntimeError as error:
        raise ConnectionError(ENDED) from error
