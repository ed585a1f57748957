"""Files that appear under their names only when they are complete."""

from __future__ import annotations

import json
import os

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from glob import escape
from pathlib import Path
from typing import IO

import safetensors.numpy

from numpy import ndarray


def write(path: str | os.PathLike[str], content: bytes | memoryview) -> None:
    """Writes a file in one go (see `draft`)."""
    with draft(path) as file:
        file.write(content)


@contextmanager
def draft(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """A file to write into, beside its place; at the end it is on the disk, and moves into its place.

    Drafts that processes left when they were killed are removed.
    """
    path = Path(path)
    beside = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        _remove_drafts(path)
        with open(beside, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    except OSError as error:
        raise type(error)(error.errno, error.strerror, os.fspath(path)) from error
    finally:
        beside.unlink(missing_ok=True)


def _remove_drafts(path: Path) -> None:
    """Removes the drafts of a file whose processes are no more."""
    for beside in path.parent.glob(f"{escape(path.name)}.*.tmp"):
        process = beside.name.removeprefix(f"{path.name}.").removesuffix(".tmp")
        if process.isdecimal() and not _is_running(int(process)):
            with suppress(OSError):
                beside.unlink()


def _is_running(process: int) -> bool:
    if os.name == "nt":  # where an open file cannot be removed anyway
        return False
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        pass
    return True


def tensors_to_bytes(arrays: Mapping[str, ndarray], metadata: Mapping[str, str] | None = None) -> bytes:
    """The content of a safetensors file, the same for the same arrays: the library orders its metadata at random."""
    content = safetensors.numpy.save(dict(arrays), None if metadata is None else dict(metadata))
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    ordered = {
        name: dict(sorted(header[name].items())) if name == "__metadata__" else header[name] for name in sorted(header)
    }
    encoded = json.dumps(ordered, separators=(",", ":"), ensure_ascii=False).encode()
    encoded += b" " * (-len(encoded) % 8)
    return len(encoded).to_bytes(8, "little") + encoded + content[8 + length :]
