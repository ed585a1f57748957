"""Checkpoints: everything that a run needs to go on as if it had never stopped, in one folder."""

from __future__ import annotations

import hashlib
import json
import os

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from io import BytesIO
from math import isfinite
from pathlib import Path
from time import sleep
from typing import Any, Protocol
from zipfile import ZipFile

import torch

from torch import Tensor

from ..checks import whole
from ..circuits.circuit import Circuit
from ..files import write

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

CHECKPOINT, LOG, MODEL = "checkpoint.pt", "log.jsonl", "model.safetensors"
FORMAT = "hyperspn checkpoint"
FORMAT_VERSION = 1
SECONDS_TO_END = 5
LONGEST = 80

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
            return [], copy_parameters(circuit)
        content = read(self.checkpoint, self.arguments)
        try:
            evaluations = _checked_evaluations(content["evaluations"])
            model, best = (_checked_parameters(content[name], circuit.state_dict()) for name in ("model", "best"))
            state = _checked_state(content["optimizer"], optimizer)
        except Exception as error:
            raise ValueError(_damage(self.checkpoint)) from error
        circuit.load_state_dict(model)
        optimizer.load_state_dict(state)
        return evaluations, best

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
                if not _lock(folder):
                    raise ValueError(f"another process is training in {path}: wait for it, or choose another folder")
            yield

    def finish(self, circuit: Circuit) -> None:
        """Writes the model, unless it is there already."""
        if not self.model.exists():
            circuit.save(self.model)


def _lock(folder: int) -> bool:
    """Waits a little for the lock of a folder: the workers of a process that was killed need a moment to end."""
    for wait in (*[0.1] * int(10 * SECONDS_TO_END), 0):
        try:
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            sleep(wait)
        except OSError:  # a file system without locks
            return True
        else:
            return True
    return False


def check_search(target: Path, trials: Path, names: Iterable[str]) -> None:
    """Refuses to search in a folder with a run, unless that is the best of the same trials."""
    if not (target / CHECKPOINT).exists():
        return
    content = (target / CHECKPOINT).read_bytes()
    checkpoints = list(trials.glob(f"*/*/{CHECKPOINT}"))
    is_best = any(path.read_bytes() == content for path in checkpoints)
    if not is_best or {path.parent.name for path in checkpoints} != set(names):
        raise ValueError(f"there is another run in {target}: choose another folder")


def copy_run(source: Path, target: Path) -> None:
    """Copies the files of a finished run to another folder."""
    for name in (LOG, MODEL, CHECKPOINT):
        write(target / name, (source / name).read_bytes())


def copy_parameters(circuit: Circuit) -> Parameters:
    """A copy of all parameters."""
    return {name: value.detach().clone() for name, value in circuit.state_dict().items()}


def read(path: Path, arguments: dict[str, Any]) -> dict[str, Any]:
    """Reads the checkpoint of a run with these arguments.

    Never runs code from the file. A damaged file, or one of another run, is a `ValueError`.
    """
    data = path.read_bytes()
    try:
        content = {} if _is_broken(data) else torch.load(BytesIO(data), map_location="cpu", weights_only=True)
        kind, version, there = content["format"], content["version"], dict(content["arguments"])
        json.dumps([kind, version, there])  # nothing but numbers and strings
    except Exception as error:
        raise ValueError(_damage(path)) from error
    if kind != FORMAT:
        raise ValueError(_damage(path))
    if version != FORMAT_VERSION:
        raise ValueError(f"expected format version {FORMAT_VERSION}, found {version} in {path}")
    if others := [name for name in arguments if arguments[name] != there.get(name)]:
        differences = ", ".join(_difference(name, arguments[name], there.get(name)) for name in others)
        raise ValueError(
            f"expected the arguments of the run in {path.parent}, found {differences}: choose another folder"
        )
    return content


def _damage(path: Path) -> str:
    return f"expected a checkpoint, found a damaged or foreign file at {path}: remove it, or choose another folder"


def _is_broken(data: bytes) -> bool:
    """Whether a file is not the archive that was written, without compression."""
    archive = ZipFile(BytesIO(data))
    parts = archive.infolist()
    is_plain = sum(part.file_size for part in parts) <= len(data) and not any(part.compress_type for part in parts)
    return not is_plain or archive.testzip() is not None


def _checked_evaluations(evaluations: Any) -> list[LogEntry]:
    for entry in evaluations:
        numbers = [entry["train"], entry["seconds"], *([] if entry["valid"] is None else [entry["valid"]])]
        if not all(isinstance(number, float) and isfinite(number) for number in numbers):
            raise ValueError("expected finite numbers")
    steps = [whole("step", entry["step"], least=0) for entry in evaluations]
    if not steps or steps != sorted(set(steps)) or len({entry["valid"] is None for entry in evaluations}) > 1:
        raise ValueError("expected one evaluation after the other")
    return list(evaluations)


def _checked_parameters(parameters: Any, expected: Parameters) -> Parameters:
    kinds, shapes = ({name: (t.shape, t.dtype) for name, t in tensors.items()} for tensors in (parameters, expected))
    if kinds != shapes or not all((value < torch.inf).all() for value in parameters.values()):
        raise ValueError("expected the parameters of the circuit")
    return dict(parameters)


def _checked_state(state: Any, optimizer: Learner) -> dict[str, Any]:
    """The state of an optimizer with its present settings, which are those of the run."""
    present = optimizer.state_dict()
    if "state" not in present:
        return present
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]  # type: ignore[attr-defined]
    for index, entry in state["state"].items():
        shapes = {name: value.shape for name, value in entry.items()}
        moment = parameters[whole("index", index, least=0)].shape
        if shapes != {"step": torch.Size([]), "exp_avg": moment, "exp_avg_sq": moment}:
            raise ValueError("expected the moments of the parameters")
        if not all(value.is_floating_point() and value.isfinite().all() for value in entry.values()):
            raise ValueError("expected finite moments")
        if entry["step"] < 1 or (entry["exp_avg_sq"] < 0).any():
            raise ValueError("expected steps and squares")
    return {**present, "state": state["state"], **_checked_average(state, present)}


def _checked_average(state: Any, present: dict[str, Any]) -> dict[str, Any]:
    """The average of the parameters, where the optimizer keeps one."""
    if "average" not in present:
        return {}
    average, expected = state["average"], present["average"]
    shapes = [[(part.shape, part.dtype) for part in parts] for parts in (average, expected)]
    if shapes[0] != shapes[1] or not all(part.isfinite().all() for part in average):
        raise ValueError("expected an average of the parameters")
    return {"average": list(average), "steps": whole("steps", state["steps"], least=0)}


def _difference(name: str, value: Any, other: Any) -> str:
    """The first difference between two values, as deep in them as it can be found."""
    if isinstance(value, dict) and isinstance(other, dict) and value.keys() == other.keys():
        key = next(key for key in value if value[key] != other[key])
        return _difference(f"{name} {key}", value[key], other[key])
    if isinstance(value, list) and isinstance(other, list) and len(value) == len(other):
        index = next(index for index, pair in enumerate(zip(value, other, strict=True)) if pair[0] != pair[1])
        return _difference(f"{name} {index + 1}", value[index], other[index])
    return f"{name} {_short(value)} instead of {_short(other)}"


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."


def meaning(circuit: Circuit) -> dict[str, Any]:
    """What the variables of a circuit mean, as far as its notes say: the schema of a table, or all of them."""
    notes = json.loads(json.dumps(circuit.notes), parse_constant=str)
    return {"schema": notes["schema"], "notes": None} if "schema" in notes else {"schema": None, "notes": notes or None}


def table_digest(table: Tensor) -> str:
    """A short name for the content of a table."""
    content = table.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().data
    return f"{hashlib.sha256(content).hexdigest()[:12]} ({len(table)} rows of {table.dtype})"


def circuit_digest(circuit: Circuit) -> str:
    """A short name for a circuit without the values of its parameters: structure, leaves and shapes."""
    shapes = {name: (tuple(value.shape), value.dtype) for name, value in circuit.state_dict().items()}
    source = (type(circuit.weights).__name__, circuit.weights.config())
    digest = hashlib.sha256(repr((circuit.sectors.layer_size, circuit.leaves.families, source, shapes)).encode())
    for array in circuit.structure.arrays().values():
        digest.update(array.tobytes())
    return f"{digest.hexdigest()[:12]} ({circuit.num_parameters} parameters)"
