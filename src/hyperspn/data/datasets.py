"""Data sets: names -> train, valid and test tables."""

from __future__ import annotations

import csv
import gzip
import os
import re
import zlib

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from numpy.typing import NDArray

from ..checks import did_you_mean

SPLITS = ("train", "valid", "test")
GITHUB = "https://raw.githubusercontent.com"
URLS = {
    "DEBD": f"{GITHUB}/arranger1044/DEBD/850908666388f1b1c766a304b37dae14613f1e51/datasets",
    "amzn": f"{GITHUB}/AndyShih12/HyperSPN/fc4f064be22cdfe737f5333c69a8bce351dc6457/datasets/amzn",
}


class Dataset(NamedTuple):
    """Three tables of the same variables, each (rows, variables)."""

    train: NDArray[np.uint8]
    valid: NDArray[np.uint8]
    test: NDArray[np.uint8]


class Listing(NamedTuple):
    """What is known of a data set before it is loaded: its size, and whether it is built in, at hand or a download."""

    name: str
    collection: str
    variables: int
    train: int
    valid: int
    test: int
    where: str


class Benchmark(NamedTuple):
    """The size of a data set, and the checksums of its plain files."""

    collection: str
    variables: int
    rows: tuple[int, int, int]
    sha256: tuple[str, str, str]


def load_dataset(
    name_or_path: str | os.PathLike[str], seed: int = 0, data_dir: str | os.PathLike[str] | None = None
) -> Dataset:
    """Returns a data set by its name, or from a folder of your own.

    Benchmarks are looked for in `data_dir`, as ``<collection>/<name>/<name>.<split>.data``, plain or gzipped; what is not
    there is downloaded once into the user's cache. A folder of your own holds ``<name>.{train,valid,test}.data``.

    Arguments:
        name_or_path: One of the names of `available`, or else a folder.
        seed: What the built-in ones are drawn by; all others are as they are.
        data_dir: The folder of the benchmarks; by default the environment variable HYPERSPN_DATA.
    """
    name = os.fspath(name_or_path)
    if name in BUILT_IN:
        return BUILT_IN[name](seed)
    if name in BENCHMARKS:
        return _benchmark(name, data_folder(data_dir))
    if Path(name).is_dir():
        return _read_folder(Path(name))
    raise ValueError(f"expected the name of a data set or a folder, found {name!r}{did_you_mean(name, BENCHMARKS)}")


def available(data_dir: str | os.PathLike[str] | None = None) -> list[Listing]:
    """All data sets that `load_dataset` knows by name."""
    folders = [data_folder(data_dir), cache_folder()]

    def where(name: str) -> str:
        if name in BUILT_IN:
            return "built in"
        places = [place for folder in folders for place in _places(folder, name)]
        return "at hand" if all(_find(places, name, split) for split in SPLITS) else "download"

    return [
        Listing(name, known.collection, known.variables, *known.rows, where(name)) for name, known in BENCHMARKS.items()
    ]


def hand_crafted(seed: int = 0, rows: int = 10_000) -> Dataset:
    """The paper's hand-crafted data: 256 binary variables whose probabilities spread down a binary tree.

    Every row starts with p_i = 0.5; eight times, each entry of the first half is copied to two neighbors and
    noise is added everywhere; then x_i = 1 where a uniform number exceeds p_i:

        p[2i] = p[2i + 1] = p[i],   p += U(-0.2, 0.2)
    """
    generator = np.random.default_rng(seed)
    p = np.full((rows, 256), 0.5)
    for _ in range(8):
        p = np.repeat(p[:, :128], 2, axis=1) + generator.uniform(-0.2, 0.2, p.shape)
    return _split((generator.random(p.shape) > p).astype(np.uint8))


def digits(seed: int = 0) -> Dataset:
    """Scikit-learn's 1,797 handwritten digits, 8 x 8 pixels, black or white, in random order."""
    from sklearn.datasets import load_digits

    images = (load_digits().data >= 8).astype(np.uint8)
    return _split(np.random.default_rng(seed).permutation(images))


def data_folder(data_dir: str | os.PathLike[str] | None) -> Path | None:
    """The folder of the benchmarks: as given, or else as HYPERSPN_DATA says, if it does."""
    chosen = data_dir or os.environ.get("HYPERSPN_DATA")
    if not chosen:
        return None
    folder = Path(chosen).expanduser()
    if not folder.is_dir():
        raise FileNotFoundError(
            f"expected a folder of data sets, found none at {folder}: check the data directory or HYPERSPN_DATA"
        )
    return folder


def cache_folder() -> Path:
    """Where downloads are kept."""
    import pooch

    return Path(pooch.os_cache("hyperspn"))


def _split(rows: NDArray[np.uint8]) -> Dataset:
    """The first 70 % to train, the next 10 % to validate, the last 20 % to test."""
    return Dataset(*np.split(rows, [len(rows) * 7 // 10, len(rows) * 8 // 10]))


def _places(folder: Path | None, name: str) -> list[Path]:
    """Where the files of a benchmark may lie."""
    return [folder / BENCHMARKS[name].collection / name, folder / name, folder] if folder else []


def _find(places: list[Path], name: str, split: str) -> Path | None:
    files = (place / f"{name}.{split}.data{end}" for place in places for end in ("", ".gz"))
    return next((file for file in files if file.is_file()), None)


def _benchmark(name: str, folder: Path | None) -> Dataset:
    variables, places = BENCHMARKS[name].variables, _places(folder, name)
    paths = [_find(places, name, split) or _download(name, split) for split in SPLITS]
    data = Dataset(*map(_read, paths))
    for split, path, rows, part in zip(SPLITS, paths, BENCHMARKS[name].rows, data, strict=True):
        if part.shape != (rows, variables):
            raise ValueError(
                f"expected {rows} rows of {variables} values in {path}, found {len(part)} of {part.shape[1]}: "
                f"replace it by {_url(name, split)}"
            )
    return data


def _url(name: str, split: str) -> str:
    return f"{URLS[BENCHMARKS[name].collection]}/{name}/{name}.{split}.data"


def _download(name: str, split: str) -> Path:
    """The file in the user's cache, fetched if it is not there or not intact."""
    import pooch

    url, collection, sha256 = (
        _url(name, split),
        BENCHMARKS[name].collection,
        BENCHMARKS[name].sha256[SPLITS.index(split)],
    )
    advice = f"try again, or put {name}.{split}.data into a folder and set HYPERSPN_DATA to it"
    try:
        path = pooch.retrieve(
            url,
            f"sha256:{sha256}",
            fname=f"{name}.{split}.data",
            path=cache_folder() / collection / name,
        )
    except OSError as error:
        raise OSError(f"{url} cannot be downloaded ({type(error).__name__}): {advice}") from error
    except ValueError as error:
        raise ValueError(f"expected sha256 {sha256} of {url}, found another file: {advice}") from error
    return Path(path)


def _read_folder(folder: Path) -> Dataset:
    """A folder with ``<name>.{train,valid,test}.data``, named like the folder or in any one way."""
    endings = (".train.data", ".train.data.gz")
    files = [path.name for path in folder.iterdir() if path.name.endswith(endings)]
    names = {file.removesuffix(".gz").removesuffix(".train.data") for file in files}
    same = folder.resolve().name
    names = {same} if same in names else names
    if len(names) != 1:
        listed = ", ".join(sorted(names)) or "none"
        raise ValueError(f"expected one data set <name>.{{train,valid,test}}.data in {folder}, found {listed}")
    name = names.pop()
    data = Dataset(*(_read(_locate(folder, name, split)) for split in SPLITS))
    if len({part.shape[1] for part in data}) > 1:
        widths = ", ".join(f"{part.shape[1]} in {split}" for split, part in zip(SPLITS, data, strict=True))
        raise ValueError(f"expected equally many variables in the files of {folder}, found {widths}")
    return data


def _locate(folder: Path, name: str, split: str) -> Path:
    path = _find([folder], name, split)
    if path is None:
        raise FileNotFoundError(f"expected {name}.{split}.data or {name}.{split}.data.gz in {folder}, found neither")
    return path


def _read(path: Path) -> NDArray[np.uint8]:
    """Reads lines like ``0,1,1,0``, (rows, variables)."""
    try:
        with gzip.open(path) if path.suffix == ".gz" else open(path, "rb") as file:
            content = file.read()
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise ValueError(f"the gzip file {path} is damaged: copy or fetch it again") from error
    content = content.replace(b"\r\n", b"\n").rstrip(b"\n") + b"\n"
    width = content.index(b"\n") + 1
    if len(content) % width == 0:
        symbols = np.frombuffer(content, np.uint8).reshape(-1, width)
        values, ends = symbols[:, ::2] - ord("0"), symbols[:, 1::2]
        if (values < 2).all() and (ends[:, :-1] == ord(",")).all() and (ends[:, -1:] == ord("\n")).all():
            return values
    number, line = _first_misfit(content.split(b"\n"))
    shown = line[:40].decode(errors="replace")
    raise ValueError(
        f"expected 0 or 1 with commas, equally many in every line, found {shown!r} in line {number} of {path}: "
        f"fix the file, or give other tables as .csv, .tsv, .parquet or .npy"
    )


def _first_misfit(lines: list[bytes]) -> tuple[int, bytes]:
    """The first line that is not like ``0,1,1,0`` or not as long as the first."""
    good, width = re.compile(rb"[01](,[01])*"), len(lines[0])
    return next((i, line) for i, line in enumerate(lines, 1) if len(line) != width or not good.fullmatch(line))


def _benchmarks() -> dict[str, Benchmark]:
    with open(Path(__file__).with_name("datasets.csv"), encoding="utf-8", newline="") as file:
        return {
            row["name"]: Benchmark(
                row["collection"],
                int(row["variables"]),
                (int(row["train"]), int(row["valid"]), int(row["test"])),
                (row["train_sha256"], row["valid_sha256"], row["test_sha256"]),
            )
            for row in csv.DictReader(file)
        }


BUILT_IN: dict[str, Callable[[int], Dataset]] = {"hand-crafted": hand_crafted, "digits": digits}
BENCHMARKS = _benchmarks()
