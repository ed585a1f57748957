import numpy as np
import pytest

from matplotlib.image import imread

from hyperspn.data.pictures import SMALLEST, half, image_shape, write_grid


def test_shapes():
    assert image_shape(64) == (8, 8, 1)
    assert image_shape(12, (2, 2, 3)) == (2, 2, 3)
    assert image_shape(6, (2, 3)) == (2, 3, 1)
    for variables, sizes in ((60, ()), (64, (8, 9)), (8, (2, 2, 2))):
        with pytest.raises(ValueError, match=f"images of {variables} values"):
            image_shape(variables, sizes)


def test_halves():
    assert half((2, 3, 1), "lower").tolist() == [False] * 3 + [True] * 3
    assert half((2, 2, 3), "left").tolist() == ([True] * 3 + [False] * 3) * 2
    assert (half((4, 4, 1), "upper") ^ half((4, 4, 1), "lower")).all()
    assert (half((4, 4, 1), "right") ^ half((4, 4, 1), "left")).all()
    with pytest.raises(ValueError, match="found 'middle'"):
        half((2, 2, 1), "middle")


def test_pixels_are_where_they_belong(tmp_path):
    images = np.array([[[0, 255, 0, 0], [0, 0, 51, np.nan]]], float)
    write_grid(tmp_path / "grid.png", images, (2, 2, 1), 0, 255)
    picture = imread(tmp_path / "grid.png")[..., :3]
    zoom = picture.shape[1] // 5
    assert picture.shape == (2 * zoom, 5 * zoom, 3)
    assert max(picture.shape) >= SMALLEST
    small = picture[zoom // 2 :: zoom, zoom // 2 :: zoom]
    np.testing.assert_allclose(small[..., 0], [[0, 1, 0.5, 0, 0], [0, 0, 0.5, 0.2, 0.35]], atol=0.01)
    assert small[1, 4, 2] > small[1, 4, 0]


def test_colors(tmp_path):
    write_grid(tmp_path / "grid.png", np.array([[[1.0, 0.5, 0.0]]]), (1, 1, 3), 0, 1)
    np.testing.assert_allclose(imread(tmp_path / "grid.png")[0, 0, :3], [1, 0.5, 0], atol=0.01)
