"""Files that appear under their names only when they are complete."""

from __future__ import annotations

import json
import os

from collections.abc import Mapping
from pathlib import Path

import safetensors.numpy

from numpy import ndarray


def write(path: str | os.PathLike[str], content: bytes | memoryview) -> None:
    """Writes a file beside its place, makes sure that it is on the disk, and moves it into its place."""
    path = Path(path)
    draft = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        with open(draft, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    except OSError as error:
        raise type(error)(error.errno, error.strerror, os.fspath(path)) from error
    finally:
        draft.unlink(missing_ok=True)


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
