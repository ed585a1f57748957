"""Opens damaged files of models, mixtures and checkpoints: `python benchmarks/fuzz.py --cases 20000`.

Nothing but a `ValueError` may come of one, and a small model that opens all the same must sum to 1. Cases run in a
process of their own, which is started again when it dies or hangs. Prints how many cases ended how; any that ended
otherwise than they should is a failure, with the number by which it can be run again.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import resource
import shutil
import struct
import sys
import tempfile
import warnings
import zipfile

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from io import BytesIO
from itertools import product
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch

from safetensors import safe_open

import hyperspn

from hyperspn import SPN, Binomial, Categorical, Circuit, EiNet, Gaussian, Histogram, HyperSPN, Mixture
from hyperspn.data.scales import Scale
from hyperspn.files import tensors_to_bytes
from hyperspn.learning import EM, fit
from hyperspn.leaves import Numeric
from hyperspn.structures import binary_trees, poon_domingos

OLD_MIXTURE = Path(__file__).parents[1] / "tests" / "files" / "0.1.0" / "mixture"
SECONDS, KILOBYTES = 60, 2_000_000
MOST_WORLDS = 4096
RUN = {"steps": 6, "evaluate_every": 2, "batch_size": 10, "progress": False}
ROWS = torch.randint(2, (30, 4), generator=torch.Generator().manual_seed(0))
FAILURES = ("crash", "hang", "memory", "wrong", "error")
NUMBERS = [0, 1, -1, 2, 3, 255, 2**15, 2**31, 2**62, 2**63 - 1, -(2**63), 10**30, 0.5, 1e308, math.nan, math.inf]
VALUES = [*NUMBERS, None, True, "", "a", "outer", "Gaussian", "FactoredWeights", [], [1], {}, {"name": "Categorical"}]
FLOATS = [0.0, 1e30, -1e30, 3e38, math.inf, -math.inf, math.nan]


def models() -> dict[str, Circuit]:
    zeros = SPN(4, 2, 2)
    EM(zeros).step(ROWS[:2])
    numbers = Numeric(Scale.fit(np.random.default_rng(0).normal(size=200).round(1)), members=4)
    return {
        "spn": SPN(4, 2, 2, leaves=[Categorical(2), Categorical(3)] * 2),
        "zeros": zeros,
        "hyperspn": HyperSPN(4, 2, 2, leaves=[Categorical(2), Gaussian(3)] * 2),
        "factored": HyperSPN(4, 2, structure=binary_trees(4, 2, shared=True), weights="factored", hidden=(5,)),
        "einet": EiNet(poon_domingos((2, 2), delta=1), 2, Gaussian(2, 0.1, 1.0)),
        "counts": EiNet(poon_domingos((2, 2), delta=1), 2, [Binomial(2, 3), Histogram(2, 3)] * 2),
        "numbers": SPN(3, 2, 2, leaves=[numbers, Categorical(2), numbers]),
    }


def mixtures() -> dict[str, Mixture]:
    around = [SPN(3, 2, 1, leaves=Gaussian(2)) for _ in range(2)]
    return {
        "plain": Mixture([SPN(3, 2, 1, seed) for seed in range(2)], torch.ones(2), torch.zeros(2, 3)),
        "centers": Mixture(around, torch.ones(2), torch.rand(2, 3), 4.0),
    }


def resume(folder: Path) -> Circuit:
    """Begins or goes on with a run by the optimizer after which its folder is named."""
    circuit = SPN(4, 2, 2) if folder.name == "em" else HyperSPN(4, 2, 2)
    fit(circuit, ROWS[:20], ROWS[20:], **RUN, optimizer=folder.name, folder=folder)
    return circuit


def stop_late(content: dict[str, Any], file: BytesIO, save: Callable = torch.save) -> None:
    if content["evaluations"][-1]["step"] > 4:
        raise KeyboardInterrupt
    save(content, file)


def write_originals(folder: Path) -> list[Path]:
    """Writes sound files, and names those to damage."""
    for name, circuit in models().items():
        (folder / name).mkdir()
        circuit.save(folder / name / "model")
    for name, mixture in mixtures().items():
        (folder / name).mkdir()
        mixture.save(folder / name)
    shutil.copytree(OLD_MIXTURE, folder / "old")
    for optimizer in ("adam", "em"):
        with patch("torch.save", stop_late), suppress(KeyboardInterrupt):
            resume(folder / optimizer)
    names = ("model", "mixture.safetensors", "component-001.safetensors", "checkpoint.pt")
    return sorted(path for name in names for path in folder.glob(f"*/{name}"))


def open_file(path: Path) -> Circuit | Mixture:
    if path.name == "model":
        return hyperspn.load(path)
    return resume(path.parent) if path.name == "checkpoint.pt" else Mixture.load(path.parent)


def damage_bytes(data: bytes, chance: random.Random) -> bytes:
    content, kind = bytearray(data), chance.randrange(6)
    near = chance.choice([16, 200, 2000, len(data)])
    for _ in range(chance.choice([1, 1, 2, 5, 50])):
        place = chance.randrange(max(1, min(near, len(content))))
        length = chance.choice([1, 2, 8, 100])
        if kind == 0 and content:
            content[place % len(content)] ^= 1 << chance.randrange(8)
        elif kind == 1 and content:
            content[place % len(content)] = chance.randrange(256)
        elif kind == 2:
            del content[place : place + length]
        elif kind == 3:
            content[place:place] = content[place : place + length]
        elif kind == 4:
            content[place : place + 8] = struct.pack("<Q", chance.choice([0, 1, 2**31, 2**62, 2**64 - 1]))
        else:
            del content[place:]
    return bytes(content)


def damage_json(value: Any, chance: random.Random) -> Any:
    """The same with one node of it replaced, removed or repeated."""
    if not isinstance(value, (dict, list)) or not value or chance.random() < 0.1:
        return chance.choice(VALUES)
    value = value.copy()
    key = chance.choice(list(value) if isinstance(value, dict) else range(len(value)))
    what = chance.randrange(8)
    if what == 0:
        del value[key]
    elif what == 1 and isinstance(value, list):
        value.insert(key, value[key])
    elif what == 1:
        value[chance.choice(["extra", "name", "hidden"])] = value[key]
    else:
        value[key] = damage_json(value[key], chance)
    return value


def damage_array(array: np.ndarray, chance: random.Random) -> np.ndarray:
    array, what = array.copy(), chance.randrange(7)
    if what == 0 or array.size == 0:
        return array.astype(
            chance.choice([np.uint8, np.int16, np.int64, np.uint64, np.float16, np.float32, np.float64])
        )
    if what == 1:
        return array[:-1] if array.ndim and chance.random() < 0.5 else np.concatenate([array.ravel(), array.ravel()])
    if what == 2:
        return array.reshape(-1) if array.ndim > 1 else array[None]
    if array.dtype.kind == "f":
        for _ in range(chance.choice([1, 2, array.size])):
            array.flat[chance.randrange(array.size)] = chance.choice(FLOATS)
        return array
    if what == 3:
        wide = array.astype(np.int64)
        places = chance.sample(range(array.size), min(4, array.size))
        wide.flat[places] += 2**62
        return wide
    if what == 4:
        return np.array(chance.sample(array.ravel().tolist(), array.size), array.dtype)
    for _ in range(chance.choice([1, 1, 2, 4])):
        array.flat[chance.randrange(array.size)] = chance.choice([0, 1, 2, 3, 5, int(array.max())])
    return array


def damage_tensors(path: Path, chance: random.Random) -> bytes:
    """A safetensors file that is whole, with other content."""
    with safe_open(path, framework="np") as file:
        metadata, arrays = dict(file.metadata() or {}), {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    config = json.loads(metadata.get("config", "{}"))
    for _ in range(chance.choice([1, 1, 2, 3])):
        name = chance.choice(list(arrays))
        what = chance.random()
        if config and what < 0.4:
            config = damage_json(config, chance)
            metadata["config"] = json.dumps(config)
        elif metadata and what < 0.45:
            metadata[chance.choice(list(metadata))] = chance.choice(["", "0", "1", "2", "{}", "[" * 10_000])
        elif what < 0.5 and len(arrays) > 1:
            del arrays[name]
        elif what < 0.55:
            arrays[chance.choice([*arrays, "extra"])] = arrays[name]
        else:
            arrays[name] = damage_array(arrays[name], chance)
    return tensors_to_bytes(arrays, metadata or None)


def damage_archive(data: bytes, chance: random.Random) -> bytes:
    """A checkpoint whose checksums are right, with other content."""
    if chance.random() < 0.5:
        content = torch.load(BytesIO(data), weights_only=True)
        for _ in range(chance.choice([1, 1, 2])):
            content = damage_json(content, chance)
        buffer = BytesIO()
        torch.save(content, buffer)
        return buffer.getvalue()
    whole, buffer = zipfile.ZipFile(BytesIO(data)), BytesIO()
    with zipfile.ZipFile(buffer, "w") as parts:
        for part in whole.infolist():
            content = whole.read(part)
            if part.filename.endswith("data.pkl"):
                content = damage_bytes(content, chance)
            parts.writestr(part.filename, content)
    return buffer.getvalue()


def ending(path: Path, case: int) -> str:
    """Damages a file in a copy of its folder, opens it, and says how that ends."""
    chance = random.Random(case)
    if chance.random() < 0.3:
        content = damage_bytes(path.read_bytes(), chance)
    elif path.name == "checkpoint.pt":
        content = damage_archive(path.read_bytes(), chance)
    else:
        content = damage_tensors(path, chance)
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder, path.parent.name)
        shutil.copytree(path.parent, copy)
        (copy / path.name).write_bytes(content)
        try:
            model = open_file(copy / path.name)
        except ValueError:
            return "refused"
        try:
            return "opened" if is_whole(model) else "wrong"
        except ValueError:
            return "refused when asked"


@torch.no_grad()
def is_whole(model: Circuit | Mixture) -> bool:
    """Whether all worlds of a small discrete model sum to 1; of any model, whether all values unknown give log 1."""
    unknown = model.log_prob(torch.full((1, model.num_variables), torch.nan)).item()
    leaves = (model if isinstance(model, Circuit) else model.components[0]).leaves
    codes = [family.codes for family in leaves.families]
    if None in codes or math.prod(codes) > MOST_WORLDS:
        zeros = model.log_prob(torch.zeros(1, model.num_variables)).item()
        return abs(unknown) < 1e-4 and not math.isnan(zeros)
    worlds = torch.tensor(list(product(*(range(count) for count in codes))))
    return abs(unknown) < 1e-4 and abs(model.log_prob(worlds).double().exp().sum().item() - 1) < 1e-4


def work(connection: Connection, paths: list[Path], first: int, last: int) -> None:
    """Runs cases one after the other, and says of each how it ended."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    connection.send("ready")
    for case in range(first, last):
        try:
            outcome = ending(paths[case % len(paths)], case)
        except Exception as error:  # noqa: BLE001
            outcome = f"error: {error!r}"
        if resource.getrusage(resource.RUSAGE_SELF).ru_maxrss > KILOBYTES:
            connection.send("memory")
            return
        connection.send(outcome)


def outcomes(paths: list[Path], first: int, last: int) -> Iterator[str]:
    """How cases end, as far as one process gets: one that needs much memory, dies or hangs is the last."""
    context = get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=work, args=(there, paths, first, last))
    process.start()
    there.close()
    try:
        here.recv()  # "ready": imports do not count as a hang, however busy the machine is
        for _ in range(first, last):
            outcome = here.recv() if here.poll(SECONDS) else "hang"
            yield outcome
            if outcome in ("memory", "hang"):
                return
    except EOFError:
        yield "crash"
    finally:
        process.kill()
        process.join()


def fuzz(first: int, last: int) -> Counter[tuple[str, str]]:
    """Counts how cases end, by file; prints those that end badly."""
    endings, case = Counter[tuple[str, str]](), first
    with tempfile.TemporaryDirectory() as folder:
        paths = write_originals(Path(folder))
        while case < last:
            for outcome in outcomes(paths, case, last):
                name = "/".join(paths[case % len(paths)].parts[-2:])
                if outcome.startswith(FAILURES):
                    print(f"case {case}, {name}: {outcome}", flush=True)
                endings[name, outcome.partition(":")[0]] += 1
                case += 1
    return endings


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--cases", type=int, default=20_000)
    options = parser.parse_args()
    endings = fuzz(options.first, options.first + options.cases)
    for (name, outcome), count in sorted(endings.items()):
        print(f"{name:35} {outcome:20} {count:6}")
    failures = sum(count for (_, outcome), count in endings.items() if outcome.startswith(FAILURES))
    print(f"{options.cases:,} damaged files: {failures or 'no'} failures")
    sys.exit(failures > 0)


if __name__ == "__main__":
    main()
