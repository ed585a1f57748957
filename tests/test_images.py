import math
import re

import numpy as np
import pytest

from scipy import stats
from scipy.io import savemat

from hyperspn import images

SIZES = {"train": 7, "extra": 4, "test": 5}  # of which 3 of train validate


@pytest.fixture
def small(monkeypatch):
    """Makes all data sets small, where no folder is set."""
    monkeypatch.delenv("HYPERSPN_DATA", raising=False)
    for name, rows in (("svhn", (8, 3, 5)), ("svhn5000", (2, 1, 1)), ("mnist", (3, 1, 2))):
        monkeypatch.setitem(images.IMAGE_SETS, name, images.IMAGE_SETS[name]._replace(rows=rows))


def pixels(count, shape=(32, 32, 3), seed=0):
    return np.random.default_rng(seed).integers(0, 256, (count, *shape), dtype=np.uint8)


def write_svhn(folder):
    """Writes the three .mat files as they are published, images along the last axis; returns the images."""
    folder.mkdir(parents=True, exist_ok=True)
    made = {name: pixels(count, seed=count) for name, count in SIZES.items()}
    for name, own in made.items():
        content = {"X": own.transpose(1, 2, 3, 0), "y": np.ones((len(own), 1), np.uint8)}
        savemat(folder / f"{name}_32x32.mat", content, do_compression=True)
    return made


@pytest.mark.parametrize("place", ["images", "svhn", "."])
def test_svhn_is_split_as_published(small, tmp_path, monkeypatch, place):
    made = write_svhn(tmp_path / place)
    data = images.load_images("svhn", tmp_path)
    assert [part.shape for part in data] == [(8, 3072), (3, 3072), (5, 3072)]
    assert all(part.dtype == np.uint8 for part in data)
    row, column, channel = 5, 17, 2
    variable = channel + 3 * (32 * row + column)
    assert data.train[:, variable].tolist() == [
        *made["train"][:4, row, column, channel],
        *made["extra"][:, row, column, channel],
    ]
    assert data.valid[:, variable].tolist() == made["train"][4:, row, column, channel].tolist()
    assert np.array_equal(data.test.reshape(5, 32, 32, 3), made["test"])
    monkeypatch.setenv("HYPERSPN_DATA", str(tmp_path))
    assert np.array_equal(images.load_images("svhn").train, data.train)


def test_svhn5000_are_the_first_test_images_in_blocks(small, tmp_path):
    made = write_svhn(tmp_path / "mat")["test"]
    (tmp_path / "npz" / "images").mkdir(parents=True)
    np.savez_compressed(tmp_path / "npz" / "images" / "svhn_test_first5000.npz", images=made[:4])
    for folder in ("mat", "npz"):
        data = images.load_images("svhn5000", tmp_path / folder)
        assert [len(part) for part in data] == [2, 1, 1]
        assert np.array_equal(np.concatenate(data), made[:4].reshape(4, -1))


def test_mnist(small, tmp_path):
    made = pixels(6, (28, 28))
    np.savez(tmp_path / "mnist.npz", images=made, labels=np.zeros(6))
    data = images.load_images("mnist", tmp_path)
    assert [len(part) for part in data] == [3, 1, 2]
    assert np.array_equal(np.concatenate(data), made.reshape(6, 784))


def test_the_published_sizes():
    assert images.IMAGE_SETS["svhn"].rows == (50_000 + 531_131, 73_257 - 50_000, 26_032)


def test_files_that_are_not_there(small, tmp_path):
    (tmp_path / "train_32x32.mat").touch()
    assert images.find("svhn", tmp_path) == []
    needed = "train_32x32.mat and extra_32x32.mat and test_32x32.mat (from http://ufldl.stanford.edu/housenumbers)"
    with pytest.raises(FileNotFoundError, match=re.escape(f"expected {needed} in {tmp_path}, found none: put them")):
        images.load_images("svhn", tmp_path)
    with pytest.raises(FileNotFoundError, match=r"expected mnist.npz .* in a data folder, found none: .*HYPERSPN_DATA"):
        images.load_images("mnist")
    with pytest.raises(ValueError, match="found 'svhn500'; did you mean svhn5000"):
        images.load_images("svhn500")


@pytest.mark.parametrize("name", ["train_32x32.mat", "mnist.npz"])
@pytest.mark.parametrize("content", ["empty", "text", "truncated", "other array"])
def test_damaged_files(small, tmp_path, name, content):
    write_svhn(tmp_path)
    np.savez(tmp_path / "mnist.npz", images=pixels(6, (28, 28)))
    path = tmp_path / name
    whole = path.read_bytes()
    if content == "other array" and path.suffix == ".mat":
        savemat(path, {"Z": np.zeros(3)})
    elif content == "other array":
        np.savez(path, Z=np.zeros(3))
    else:
        path.write_bytes({"empty": b"", "text": b"0,1\n" * 99, "truncated": whole[: len(whole) // 2]}[content])
    with pytest.raises(ValueError, match=f"damaged or foreign one at .*{name}"):
        images.load_images("mnist" if name == "mnist.npz" else "svhn", tmp_path)


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (pixels(6, (28, 27)), r"expected 8-bit images of 28 x 28 x 1 in .*, found uint8 of \(6, 28, 27\)"),
        (pixels(6, (28, 28)) / 255, "found float64"),
        (pixels(4, (28, 28)), r"expected \(3, 1, 2\) images to train, validate and test in .*, found \(3, 1, 0\)"),
    ],
)
def test_other_images(small, tmp_path, array, message):
    np.savez(tmp_path / "mnist.npz", images=array)
    with pytest.raises(ValueError, match=message):
        images.load_images("mnist", tmp_path)


def test_bits_per_dimension_do_not_depend_on_the_units():
    """The density of x / 255 is 255 times that of x, for which bits are -log2 p by definition."""
    x = np.array([12.0, 200.0, 77.0])
    bits = -stats.norm(100, 60).logpdf(x).mean() / math.log(2)
    scaled = stats.norm(100 / 255, 60 / 255).logpdf(x / 255).sum()
    assert images.bits_per_dimension(scaled, num_variables=3) == pytest.approx(bits, rel=1e-12)
