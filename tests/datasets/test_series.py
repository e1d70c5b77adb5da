"""Measured signals and spectra: archives read and checked, sets that are here."""

import os
import zipfile
from pathlib import Path

import numpy as np
import pytest
from sklearn.neighbors import KNeighborsClassifier

from widemargin.datasets import home, load_fruit, load_tecator, load_ucr, series

ROOT = Path(__file__).parents[2]
HOME = Path(os.environ.get("WIDEMARGIN_DATA") or ROOT.parent / "shared" / "data")
TEXT = """# Two classes.
@problemName Tiny
@classLabel true 1 2
@data
0.5,1.25,-3:2
1,2,3:1
"""
PARTS = (
    (np.array([[0.5, 1.25, -3], [1, 2, 3]], np.float32), np.array([1, 0])),
    (np.array([[7, 8, 9]], np.float32), np.array([0])),
)


@pytest.fixture
def archive(tmp_path, monkeypatch):
    """Write the archive of a tiny set where a loader looks for it."""
    (tmp_path / "signals").mkdir()
    with zipfile.ZipFile(tmp_path / "signals" / "Tiny.zip", "w") as file:
        file.writestr("Tiny_TRAIN.ts", TEXT)
        file.writestr("Tiny_TEST.ts", "@data\n7,8,9:1\n")
    digests = tuple(home.content_digest(*part) for part in PARTS)
    monkeypatch.setitem(series.DIGESTS, "Tiny", digests)
    return tmp_path


def test_archives_are_read(archive):
    found = load_ucr("Tiny", data_home=archive, download_if_missing=False)
    np.testing.assert_array_equal(
        found.data, np.concatenate([PARTS[0][0], [[7, 8, 9]]])
    )
    np.testing.assert_array_equal(found.target, [1, 0, 0])
    assert (found.n_train, found.data.dtype) == (2, np.float32)
    X, y = load_ucr("Tiny", subset="test", data_home=archive, return_X_y=True)
    assert (X.shape, list(y)) == ((1, 3), [0])
    home.check_content(
        series.DIGESTS["Tiny"],
        *series._from_zip(archive / "signals" / "Tiny.zip", "Tiny"),
    )


def test_other_archives_are_refused(archive):
    path = archive / "signals" / "Tiny.zip"
    with pytest.raises(ValueError, match="no archive of Other"):
        series._from_zip(path, "Other")
    path.write_bytes(b"not found")
    with pytest.raises(ValueError, match="no archive of Tiny"):
        series._from_zip(path, "Tiny")


def test_what_is_absent_is_said(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"aeon-toolkit/GunPoint\.zip"):
        load_ucr("GunPoint", data_home=tmp_path, download_if_missing=False)
    with pytest.raises(ValueError, match="name must be"):
        load_ucr("Gunpoint", data_home=tmp_path)
    with pytest.raises(FileNotFoundError, match="package caret"):
        load_tecator(data_home=tmp_path)
    (tmp_path / "spectra").mkdir()
    np.savez(tmp_path / "spectra" / "fruit.npz", X=np.ones((2, 3)), y=[0, 1])
    with pytest.raises(OSError, match="not what it should be"):
        load_fruit(data_home=tmp_path)


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("GunPoint", 0.087),
        ("ItalyPowerDemand", 0.045),
        ("Coffee", 0.0),
        ("Beef", 1 / 3),
    ],
)
def test_errors_of_the_nearest_neighbour(name, error):
    try:
        train, test = (
            load_ucr(
                name,
                subset=part,
                data_home=HOME,
                download_if_missing=False,
                return_X_y=True,
            )
            for part in ("train", "test")
        )
    except FileNotFoundError as absent:
        pytest.skip(str(absent))
    model = KNeighborsClassifier(1).fit(*train)
    assert 1 - model.score(*test) == pytest.approx(error, abs=5e-4)


@pytest.mark.parametrize(
    ("load", "shape", "counts"),
    [(load_tecator, (215, 100), [138, 77]), (load_fruit, (1096, 256), [490, 500, 106])],
)
def test_spectra_of_packages(load, shape, counts):
    try:
        found = load(data_home=HOME)
    except FileNotFoundError as absent:
        pytest.skip(str(absent))
    assert found.data.shape == shape
    assert list(np.bincount(found.target)) == counts
