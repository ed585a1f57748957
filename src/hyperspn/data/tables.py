"""Real tables that are known by name."""

from __future__ import annotations

import gzip
import hashlib
import os
import tempfile

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from .. import files
from .datasets import GITHUB, cache_folder, data_folder

BUILT_IN = "penguins"  # Palmer penguins (Horst, Hill and Gorman 2020), CC0
BROWNLEE = f"{GITHUB}/jbrownlee/Datasets/d20fcb6402ae34e653d4513b00f39257bb37ed7f"
MOSTLY = f"{GITHUB}/mostly-ai/public-demo-data/64020409bdc85b7a04a2e510be00f9f4cf47fd3d"
ADULT = (
    b"age,workclass,fnlwgt,education,education_num,marital_status,occupation,relationship,race,sex,capital_gain,"
    b"capital_loss,hours_per_week,native_country,income\n"
)
MAGIC = b"fLength,fWidth,fSize,fConc,fConc1,fAsym,fM3Long,fM3Trans,fAlpha,fDist,class\n"


class TableFile(NamedTuple):
    """A file of a table: the checksum of the plain file, its address, and what to do with what is found there."""

    sha256: str
    url: str
    prepare: Callable[[bytes], bytes] = bytes


def _adult(content: bytes) -> bytes:
    """With a header, without the blanks after commas and the full stops of the test labels."""
    lines = content.replace(b", ", b",").strip().splitlines()
    return ADULT + b"".join(line.rstrip(b".") + b"\n" for line in lines)


TABLES = {
    "adult": {
        "train": TableFile(
            "3b8a6abd697a6623ef2ccbffc3e2802e167e7fdaa853003d3bd557b0ce7f5d2a", f"{BROWNLEE}/adult-train.csv", _adult
        ),
        "test": TableFile(
            "eb6e9f02496bed4137b1a069b8af64b90eb534ba46143948667034dddef9abd9", f"{BROWNLEE}/adult-test.csv", _adult
        ),
    },
    "beijing": {
        "": TableFile("892e9559205d16d32623135c127a3951c12e46ea1e0b3093e107ce89a9fd60e2", f"{BROWNLEE}/pollution.csv")
    },
    "default": {
        "": TableFile(
            "9654418f1479b2303df704e021675b674821761c0c6310b7a944d96400b0b5f1",
            f"{MOSTLY}/creditcard_default/creditcard_default.csv.gz",
            gzip.decompress,
        )
    },
    "magic": {
        "": TableFile(
            "ed9c3c747b6a424f579fb830b375bfea72ac4b0f4520fb2edd1ee609df79d0bc",
            f"{GITHUB}/gabeLin300/MAGIC-Gamma-Classification/a4b6f31cb90c5a6332cb59eee32de419bf7085e1/magic04.data",
            lambda content: (
                MAGIC + content[content.index(b"\n") + 1 :] if content.startswith(b"f") else MAGIC + content
            ),
        )
    },
    "penguins": {
        "": TableFile(
            "f204db2c753b0937caac3cb35258562c14f073e4bbc76be24b4c51ce22767a93",
            f"{GITHUB}/mcnakhaee/palmerpenguins/24ab5d7ce1ed9afb54f7a304080da112f44542c8/palmerpenguins/data/penguins.csv",
        )
    },
    "shoppers": {
        "": TableFile(
            "62107ee308204b37d602207f54af8d0242cfc7ade27340386b61b8e4f68e3fd8",
            f"{MOSTLY}/online_shoppers/online_shoppers.csv.gz",
            gzip.decompress,
        )
    },
    "titanic": {
        "": TableFile(
            "40a6135269a465cc8b4f456e0c3707c3addc0be30c127093148be118cf1d2c6b", f"{MOSTLY}/titanic/titanic.csv"
        )
    },
}


def find_table(name: str, data_dir: str | os.PathLike[str] | None = None) -> dict[str, Path]:
    """The files of a table that is known by name, with "train" and "test" as keys where its split is given, else "".

    They are built in, or looked for in the folder of the benchmarks, in ``tables``; what is not there is downloaded once
    into the user's cache.
    """
    folder = data_folder(data_dir)
    return {part: _find(_file_name(name, part), entry, folder) for part, entry in TABLES[name].items()}


def where(name: str, data_dir: str | os.PathLike[str] | None = None) -> str:
    """Whether a table is built in, at hand or a download."""
    folders = _folders(data_folder(data_dir))
    at_hand = all(_present(folders, _file_name(name, part)) for part in TABLES[name])
    return "built in" if name == BUILT_IN else "at hand" if at_hand else "download"


def _file_name(name: str, part: str) -> str:
    return f"{name}.{part}.csv" if part else f"{name}.csv"


def _folders(folder: Path | None) -> list[Path]:
    """Where the files of tables may lie."""
    return [Path(__file__).parent, *([folder / "tables", folder] if folder else []), _cache()]


def _cache() -> Path:
    return cache_folder() / "tables"


def _present(folders: list[Path], file: str) -> Path | None:
    paths = (folder / f"{file}{end}" for folder in folders for end in ("", ".gz"))
    return next((path for path in paths if path.is_file()), None)


def _find(file: str, entry: TableFile, folder: Path | None) -> Path:
    path = _present(_folders(folder), file)
    if path is None:
        return _download(file, entry)
    content = path.read_bytes()
    if hashlib.sha256(gzip.decompress(content) if path.suffix == ".gz" else content).hexdigest() != entry.sha256:
        raise ValueError(f"expected sha256 {entry.sha256} of {path}, found another file: replace or remove it")
    return path


def _download(file: str, entry: TableFile) -> Path:
    import pooch

    advice = f"try again, or put {file} into a folder and set HYPERSPN_DATA to it"
    with tempfile.TemporaryDirectory() as folder:
        try:
            raw = Path(pooch.retrieve(entry.url, None, path=folder, progressbar=False)).read_bytes()
        except OSError as error:
            raise OSError(f"{entry.url} cannot be downloaded ({type(error).__name__}): {advice}") from error
    content = entry.prepare(raw)
    if hashlib.sha256(content).hexdigest() != entry.sha256:
        raise ValueError(f"expected sha256 {entry.sha256} of {file} from {entry.url}, found another file: {advice}")
    _cache().mkdir(parents=True, exist_ok=True)
    files.write(_cache() / file, content)
    return _cache() / file
