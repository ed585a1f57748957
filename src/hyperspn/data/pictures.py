"""Pictures: rows that are images, as PNG files."""

from __future__ import annotations

import os

from math import isqrt

import numpy as np

from numpy.typing import NDArray

SMALLEST = 400
HIDDEN = (0.35, 0.45, 0.75)
GAP = 0.5

ImageShape = tuple[int, int, int]  # height, width, channels: 1 or 3


def image_shape(num_variables: int, sizes: tuple[int, ...] = ()) -> ImageShape:
    """The shape of images of n variables: as given, (height, width) or with channels, or else square and gray."""
    side = isqrt(num_variables)
    height, width, channels = (*(sizes or (side, side)), 1)[:3]
    if height * width * channels != num_variables or channels not in (1, 3):
        shape = f"{height} x {width} x {channels}"
        raise ValueError(f"expected images of {num_variables} values, with 1 channel or 3, found {shape}")
    return height, width, channels


def half(shape: ImageShape, side: str) -> NDArray[np.bool_]:
    """The variables in the "lower", "upper", "left" or "right" half of an image, (variables,)."""
    rows, columns, _ = np.indices(shape)
    halves = {
        "lower": rows >= shape[0] // 2,
        "upper": rows < shape[0] // 2,
        "left": columns < shape[1] // 2,
        "right": columns >= shape[1] // 2,
    }
    if side not in halves:
        raise ValueError(f"expected a half 'lower', 'upper', 'left' or 'right', found {side!r}")
    return halves[side].ravel()


def write_grid(
    path: str | os.PathLike[str], images: NDArray[np.floating], shape: ImageShape, low: float, high: float
) -> None:
    """Writes images in rows and columns as one PNG file.

    Arguments:
        path: The file.
        images: The values of the images, (down, across, variables); NaN for a hidden one.
        shape: The shape of each image.
        low: The value that is black.
        high: The value that is white, or full color.
    """
    from matplotlib.image import imsave

    pixels = images.reshape(*images.shape[:2], *shape)  # (down, across, height, width, channels)
    pixels = np.broadcast_to(pixels, (*pixels.shape[:4], 3))
    pixels = np.where(np.isnan(pixels), HIDDEN, np.clip((pixels - low) / ((high - low) or 1), 0, 1))
    pixels = np.pad(pixels, ((0, 0), (0, 0), (0, 1), (0, 1), (0, 0)), constant_values=GAP)
    down, across, height, width, _ = pixels.shape
    picture = pixels.transpose(0, 2, 1, 3, 4).reshape(down * height, across * width, 3)[:-1, :-1]
    zoom = -(-SMALLEST // max(picture.shape))
    imsave(os.fspath(path), picture.repeat(zoom, 0).repeat(zoom, 1), format="png")
