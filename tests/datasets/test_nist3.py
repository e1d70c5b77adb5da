import gzip
import os
import struct
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from widemargin.datasets import load_nist3, read_idx
from widemargin.datasets.digits import fill_frame, make_nist3

BESIDE = Path(__file__).parents[3] / "shared" / "data"
DATA = Path(os.environ.get("WIDEMARGIN_DATA", BESIDE))


def test_fill_frame_cuts_empty_borders():
    image = np.zeros((28, 28), np.uint8)
    image[5:21, 9:25] = np.arange(1, 257).reshape(16, 16).clip(max=255)
    assert_allclose(fill_frame(image, 16), image[5:21, 9:25] / 255, atol=1e-6)


@pytest.mark.parametrize("shape", [(4, 4), (20, 9), (28, 28), (1, 20)])
def test_fill_frame_keeps_a_flat_grey(shape):
    image = np.zeros((28, 28), np.uint8)
    image[: shape[0], : shape[1]] = 51
    assert_allclose(fill_frame(image, 16), 0.2, atol=1e-6)


def test_fill_frame_keeps_a_slope():
    ramp = np.tile(np.arange(1, 33), (32, 1)).astype(np.uint8)
    out = fill_frame(ramp, 16) * 255
    assert_allclose(out[:, 1:-1], np.tile(1.5 + 2 * np.arange(1, 15), (16, 1)),
                    atol=1e-4)  # fmt: skip


def test_blank_image():
    assert_array_equal(fill_frame(np.zeros((28, 28), np.uint8), 16), 0)


def test_make_nist3_takes_sd3_only():
    rng = np.random.RandomState(0)
    labels = np.arange(12_000) % 10
    images = np.zeros((12_000, 28, 28), np.uint8)
    images[:, 4:20, 4:20] = (10 + labels)[:, None, None]
    series = np.where(rng.permutation(12_000) < 11_000, 0, 1)
    images[series == 1] = 255
    (X_train, y_train), (X_test, y_test) = make_nist3(images, labels, series)
    assert X_train.shape == (5000, 256)
    assert X_test.shape == (5705, 256)
    assert_allclose(X_train[:, 0] * 255, 10 + y_train, atol=1e-4)
    again = make_nist3(images, labels, series)
    assert_array_equal(y_test, again[1][1])
    with pytest.raises(ValueError, match="needs 10705"):
        make_nist3(images, labels, np.ones(12_000))


def test_read_idx(tmp_path):
    path = tmp_path / "numbers.gz"
    numbers = np.array([[1, -2], [300000, 4]], dtype=">i4")
    with gzip.open(path, "wb") as file:
        file.write(b"\0\0\x0c\x02" + struct.pack(">2I", 2, 2) + numbers.tobytes())
    assert_array_equal(read_idx(path), numbers)
    with gzip.open(path, "wb") as file:
        file.write(b"something else")
    with pytest.raises(ValueError, match="not an idx file"):
        read_idx(path)


@pytest.mark.skipif(
    not (DATA / "mnist").is_dir(), reason="needs MNIST and QMNIST labels"
)
def test_nist3_itself():
    X = load_nist3(data_home=DATA, download_if_missing=False).data
    assert X.dtype == np.float32
    assert 0 <= X.min() < X.max() <= 1
    assert len(np.unique(X, axis=0)) > 10_700
