"""The loaders against what is known of the sets; skipped where the data are absent."""

import os
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse
from sklearn.neighbors import KNeighborsClassifier

from widemargin import datasets
from widemargin.datasets import tables

ROOT = Path(__file__).resolve().parents[2]
HOME = Path(os.environ.get("WIDEMARGIN_DATA") or ROOT.parent / "shared" / "data")
if not HOME.is_dir():
    # A worktree lies one level deeper than the clone.
    HOME = ROOT.parents[1] / "shared" / "data"


def need(*folders):
    missing = [name for name in folders if not (HOME / name).is_dir()]
    if missing:
        pytest.skip(f"needs {missing} in WIDEMARGIN_DATA or ../shared/data")


def load(name, **options):
    need(*(("mnist", "qmnist-labels") if name == "nist3" else (name,)))
    loader = getattr(datasets, f"load_{name}")
    return loader(data_home=HOME, download_if_missing=False, **options)


@pytest.mark.parametrize(
    ("name", "mistakes"),
    [
        ("usps", 113),
        ("optdigits", 36),
        ("pendigits", 79),
        ("letter", 174),
        ("satimage", 211),
    ],
)
def test_nearest_neighbour_mistakes_are_those_of_the_literature(name, mistakes):
    train, test = load(name, subset="train"), load(name, subset="test")
    model = KNeighborsClassifier(1, algorithm="brute").fit(train.data, train.target)
    assert (model.predict(test.data) != test.target).sum() == mistakes


@pytest.mark.parametrize(
    ("name", "shape", "n_train", "n_classes"),
    [
        ("usps", (9298, 256), 7291, 10),
        ("mnist", (70000, 784), 60000, 10),
        ("nist3", (10705, 256), 5000, 10),
        ("optdigits", (5620, 64), 3823, 10),
        ("pendigits", (10992, 16), 7494, 10),
        ("satimage", (6435, 36), 4435, 6),
        ("letter", (20000, 16), 16000, 26),
        ("a9a", (48842, 123), 32561, 2),
        ("w8a", (64700, 300), 49749, 2),
    ],
)
def test_split_sets(name, shape, n_train, n_classes):
    everything = load(name)
    assert everything.data.shape == shape
    assert everything.n_train == n_train
    assert len(everything.target_names) == n_classes
    assert len(np.unique(everything.target)) == n_classes
    X, y = load(name, subset="test", return_X_y=True)
    assert (everything.target[n_train:] == y).all()
    same = everything.data[n_train:] != X
    assert same.sum() == 0
    if sparse.issparse(X):
        assert X.indices.dtype == np.int32
    if "image_shape" in everything:
        assert np.prod(everything.image_shape) == shape[1]


def test_mnist_is_mnist():
    test = load("mnist", subset="test")
    assert test.data.dtype == np.float32
    assert test.data.min() == 0
    assert test.data.max() == 1
    assert list(test.target[:5]) == [7, 2, 1, 0, 4]


@pytest.mark.parametrize(
    ("name", "shape", "positive"),
    [("sonar", (208, 60), 111), ("ionosphere", (351, 34), 225), ("wbc", (683, 9), 239)],
)
def test_binary_sets(name, shape, positive):
    X, y = load(name, return_X_y=True)
    assert X.shape == shape
    assert y.sum() == positive
    assert np.isfinite(X).all()


def test_missing_values_can_be_kept():
    kept = load("wbc", drop_missing=False)
    assert kept.data.shape == (699, 9)
    assert np.isnan(kept.data).any(axis=1).sum() == 16


@pytest.mark.parametrize("table", tables.TABLES, ids=lambda table: table.name)
def test_the_digests_are_those_of_the_sets(table):
    need(table.name)
    from widemargin.datasets.home import check_content

    check_content(table.digests, *table.read(HOME / table.name))


def test_unknown_subset():
    with pytest.raises(ValueError, match="subset must be one of 'train', 'test'"):
        load("optdigits", subset="validation")
