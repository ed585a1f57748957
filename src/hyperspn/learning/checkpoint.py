"""Checkpoints: everything that a run needs to go on as if it had never stopped, in one folder."""

from __future__ import annotations

import hashlib
import json
import os

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from io import BytesIO
from pathlib import Path
from typing import Any, Protocol
from zipfile import ZipFile

import torch

from torch import Tensor

from ..circuits.circuit import Circuit
from ..files import write

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

CHECKPOINT, LOG, MODEL = "checkpoint.pt", "log.jsonl", "model.safetensors"
FORMAT = "hyperspn checkpoint"
FORMAT_VERSION = 1

Parameters = dict[str, Tensor]
LogEntry = dict[str, Any]  # step, train, valid, seconds


class Learner(Protocol):
    """What a checkpoint needs to know of an optimizer."""

    def state_dict(self) -> dict[str, Any]: ...

    def load_state_dict(self, state_dict: dict[str, Any]) -> None: ...


class Folder:
    """The files of a run: ``checkpoint.pt``, ``log.jsonl`` with one evaluation per line, and ``model.safetensors``.

    A file appears under its name only when it is complete, so that a run may be killed at any moment.

    Arguments:
        path: The folder.
        arguments: What the run depends on, by name: numbers and strings.
    """

    def __init__(self, path: str | os.PathLike[str], arguments: dict[str, Any]) -> None:
        self.arguments = arguments
        self.checkpoint = Path(path) / CHECKPOINT
        self.log = Path(path) / LOG
        self.model = Path(path) / MODEL
        self.checkpoint.parent.mkdir(parents=True, exist_ok=True)

    def resume(self, circuit: Circuit, optimizer: Learner) -> tuple[list[LogEntry], Parameters]:
        """Brings circuit and optimizer back to the last evaluation, if there was one: all evaluations, best parameters."""
        if not self.checkpoint.exists():
            self.model.unlink(missing_ok=True)
            return [], copied(circuit)
        content = read(self.checkpoint, self.arguments)
        circuit.load_state_dict(content["model"])
        optimizer.load_state_dict(content["optimizer"])
        return content["evaluations"], content["best"]

    def keep(self, circuit: Circuit, optimizer: Learner, evaluations: list[LogEntry], best: Parameters) -> None:
        """Writes what `resume` reads."""
        content = {
            "format": FORMAT,
            "version": FORMAT_VERSION,
            "arguments": self.arguments,
            "evaluations": evaluations,
            "model": circuit.state_dict(),
            "optimizer": optimizer.state_dict(),
            "best": best,
        }
        lines = "".join(json.dumps(evaluation) + "\n" for evaluation in evaluations)
        write(self.log, lines.encode())
        buffer = BytesIO()  # an interrupt or a full disk amid `torch.save` would end the process
        torch.save(content, buffer)
        write(self.checkpoint, buffer.getbuffer())

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Keeps other processes out, until the block or the process ends; nothing where folders cannot be locked."""
        path = self.checkpoint.parent
        with ExitStack() as stack:
            if fcntl is not None:
                folder = os.open(path, os.O_RDONLY)
                stack.callback(os.close, folder)
                try:
                    fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    raise ValueError(
                        f"expected a folder of its own, found another process training in {path}"
                    ) from None
                except OSError:  # a file system without locks
                    pass
            yield

    def finish(self, circuit: Circuit) -> None:
        """Writes the model, unless it is there already."""
        if not self.model.exists():
            circuit.save(self.model)


def copy_run(source: Path, target: Path) -> None:
    """Copies the files of a finished run to another folder, unless that has a run of its own: a `ValueError`."""
    there = target / CHECKPOINT
    if there.exists() and there.read_bytes() != (source / CHECKPOINT).read_bytes():
        raise ValueError(
            f"expected a folder for the run in {source}, found another run in {target}: choose another folder"
        )
    for name in (LOG, MODEL, CHECKPOINT):
        write(target / name, (source / name).read_bytes())


def copied(circuit: Circuit) -> Parameters:
    """A copy of all parameters."""
    return {name: value.detach().clone() for name, value in circuit.state_dict().items()}


def read(path: Path, arguments: dict[str, Any]) -> dict[str, Any]:
    """Reads the checkpoint of a run with these arguments.

    Never runs code from the file. A damaged file, or one of another run, is a `ValueError`.
    """
    damaged = f"expected a checkpoint, found a damaged or foreign file at {path}: remove it, or choose another folder"
    data = path.read_bytes()
    try:
        broken = ZipFile(BytesIO(data)).testzip()
        content = torch.load(BytesIO(data), map_location="cpu", weights_only=True)
    except Exception as error:
        raise ValueError(damaged) from error
    if broken or not isinstance(content, dict) or content.get("format") != FORMAT:
        raise ValueError(damaged)
    if content["version"] != FORMAT_VERSION:
        raise ValueError(f"expected format version {FORMAT_VERSION}, found {content['version']} in {path}")
    there = content["arguments"]
    others = [name for name in arguments if arguments[name] != there.get(name)]
    if others:
        found = ", ".join(f"{name} {arguments[name]} instead of {there.get(name)}" for name in others)
        raise ValueError(f"expected the arguments of the run in {path.parent}, found {found}: choose another folder")
    return content


def table_digest(table: Tensor) -> str:
    """A short name for the content of a table."""
    content = table.detach().cpu().contiguous().view(torch.uint8).numpy().data
    return f"{hashlib.sha256(content).hexdigest()[:12]} ({len(table)} rows of {table.dtype})"


def circuit_digest(circuit: Circuit) -> str:
    """A short name for a circuit without the values of its parameters: structure, leaves and shapes."""
    shapes = {name: (tuple(value.shape), value.dtype) for name, value in circuit.state_dict().items()}
    source = (type(circuit.weights).__name__, circuit.weights.config())
    digest = hashlib.sha256(repr((circuit.sectors.layer_size, circuit.leaves.families, source, shapes)).encode())
    for array in circuit.structure.arrays().values():
        digest.update(array.tobytes())
    return f"{digest.hexdigest()[:12]} ({circuit.num_parameters} parameters)"
