"""Images: SVHN and MNIST as train, valid and test tables of 8-bit pixels."""

from __future__ import annotations

import os
import zlib

from math import log, prod
from pathlib import Path
from typing import NamedTuple
from zipfile import BadZipFile

import numpy as np

from numpy.typing import NDArray

from ..checks import did_you_mean
from .datasets import Dataset, data_folder
from .pictures import ImageShape

Pixels = NDArray[np.uint8]

DAMAGED = (ValueError, TypeError, LookupError, EOFError, OSError, RuntimeError, zlib.error, BadZipFile)
SVHN = "http://ufldl.stanford.edu/housenumbers"


class ImageSet(NamedTuple):
    """An image data set: its size, and the files that it may come from."""

    shape: ImageShape
    rows: tuple[int, int, int]
    choices: tuple[tuple[str, ...], ...]
    origin: str


IMAGE_SETS = {
    "svhn": ImageSet(
        (32, 32, 3),
        (581_131, 23_257, 26_032),
        (("train_32x32.mat", "extra_32x32.mat", "test_32x32.mat"),),
        f"from {SVHN}",
    ),
    "svhn5000": ImageSet(
        (32, 32, 3), (4000, 500, 500), (("svhn_test_first5000.npz",), ("test_32x32.mat",)), f"the latter from {SVHN}"
    ),
    "mnist": ImageSet(
        (28, 28, 1), (50_000, 10_000, 10_000), (("mnist.npz",),), "with all 70,000 `images`, the training images first"
    ),
}


def load_images(name: str, data_dir: str | os.PathLike[str] | None = None) -> Dataset:
    """Returns the images of a data set, three tables of numbers 0 to 255, each (images, pixels x channels).

    Variable c + channels * i is channel c of pixel i, counted row by row.

    - "svhn": the split of the paper. The first 50,000 images of ``train_32x32.mat`` and all of ``extra_32x32.mat``
      to train, the rest of the former to validate, ``test_32x32.mat`` to test.
    - "svhn5000": the first 5,000 images of ``test_32x32.mat``, or ``svhn_test_first5000.npz``, in three blocks of
      4,000, 500 and 500, since neighbors may be digits of one house number. Not comparable with results on SVHN.
    - "mnist": ``mnist.npz``, of whose 60,000 training images the last 10,000 validate.

    Arguments:
        name: "svhn", "svhn5000" or "mnist".
        data_dir: The folder with the files, or with a folder ``images`` of them; by default HYPERSPN_DATA.
    """
    known, files = _image_set(name), find(name, data_dir)
    if not files:
        choices = ", or ".join(" and ".join(choice) for choice in known.choices)
        raise FileNotFoundError(
            f"expected {choices} ({known.origin}) in {data_folder(data_dir) or 'a data folder'}, found none: "
            f"put them there, and set HYPERSPN_DATA to the folder or give it as the data directory"
        )
    train, valid, _ = known.rows
    first, *others = (_read(file, known.shape) for file in files)
    if others:
        extra, last = others
        data = Dataset(np.concatenate([first[:-valid], extra]), first[-valid:], last)
    else:
        data = Dataset(*np.split(first[: sum(known.rows)], [train, train + valid]))
    if (counts := tuple(map(len, data))) != known.rows:
        listed = ", ".join(map(str, files))
        raise ValueError(f"expected {known.rows} images to train, validate and test in {listed}, found {counts}")
    return data


def find(name: str, data_dir: str | os.PathLike[str] | None = None) -> list[Path]:
    """The files of a data set, if all of them are at hand."""
    folder = data_folder(data_dir)
    places = [folder / "images", folder / name, folder] if folder else []
    choices = ([place / file for file in choice] for choice in _image_set(name).choices for place in places)
    return next((files for files in choices if all(file.is_file() for file in files)), [])


def bits_per_dimension(log_likelihood: float, num_variables: int, scale: float = 255.0) -> float:
    """Bits per dimension, (-log p + D log scale) / (D log 2), of D variables whose density is in units of a scale.

    The bits of a density. They are not comparable with those of a discrete likelihood, the probability of an image.

    Example:
        >>> bits_per_dimension(0.0, num_variables=784, scale=256)  # uniform on [0, 1]
        8.0
    """
    return (log(scale) - log_likelihood / num_variables) / log(2)


def _image_set(name: str) -> ImageSet:
    if name not in IMAGE_SETS:
        raise ValueError(f"expected one of {', '.join(IMAGE_SETS)}, found {name!r}{did_you_mean(name, IMAGE_SETS)}")
    return IMAGE_SETS[name]


def _read(path: Path, shape: ImageShape) -> Pixels:
    """The images of a file, (images, height x width x channels): of its array X if .mat, of `images` if .npz."""
    from scipy.io import loadmat
    from scipy.io.matlab import MatReadError

    try:
        if path.suffix == ".mat":
            images = np.moveaxis(loadmat(path, variable_names=["X"])["X"], -1, 0)
        else:
            with open(path, "rb") as file, np.load(file, allow_pickle=False) as content:
                images = content["images"]
    except (*DAMAGED, MatReadError) as error:
        raise ValueError(f"expected a file of images, found a damaged or foreign one at {path} ({error})") from error
    image_shape = images.shape[1:] if shape[2] > 1 else (*images.shape[1:], 1)
    if image_shape != shape or images.dtype != np.uint8:
        size = " x ".join(map(str, shape))
        raise ValueError(f"expected 8-bit images of {size} in {path}, found {images.dtype} of {images.shape}")
    return images.reshape(len(images), prod(shape))
