"""Models behind an imputer leave Python with what it fills in."""

import warnings

import numpy as np
import pytest
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_iris
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler
from tests.export.models import glvq
from tests.export.test_onnx import run

import widemargin as wm
from widemargin.export import NotExportable, check_export, to_c, to_onnx
from widemargin.export.describe import describe
from widemargin.export.program import Affine, Fill


@pytest.fixture(scope="module")
def iris():
    """Three of ten values are missing; some rows are whole, one has nothing."""
    X, y = load_iris(return_X_y=True)
    X[np.random.default_rng(0).random(X.shape) < 0.3] = np.nan
    X[7] = np.nan
    return X, y


IMPUTED = {
    "mean": lambda: make_pipeline(SimpleImputer(), glvq()),
    "median, scaled": lambda: make_pipeline(
        SimpleImputer(strategy="median"), StandardScaler(), glvq()
    ),
    "scaled, most frequent, scaled": lambda: make_pipeline(
        StandardScaler(),
        SimpleImputer(strategy="most_frequent"),
        MinMaxScaler(clip=True),
        wm.MaxMarginClassifier(),
    ),
    "constant": lambda: make_pipeline(
        SimpleImputer(strategy="constant", fill_value=-3.5), glvq()
    ),
    "by columns": lambda: make_pipeline(
        make_column_transformer(
            (SimpleImputer(strategy="median"), [2, 0]), remainder=SimpleImputer()
        ),
        glvq(),
    ),
    "rejecting": lambda: wm.RejectingClassifier(
        make_pipeline(SimpleImputer(), glvq()), coverage=0.7, random_state=0
    ),
}
EXPORTS = {
    "onnx": to_onnx,
    "onnx, float64": lambda model: to_onnx(model, dtype="float64"),
    "c": to_c,
    "c, int8": lambda model: to_c(model, dtype="int8"),
}


def agree(model, export, X):
    agreement = check_export(model, export(model), X)
    assert agreement.agrees, agreement
    assert agreement.n_samples == len(X)
    if agreement.bound is None:
        assert agreement.n_close_differing == 0, agreement


@pytest.mark.usefixtures("gcc")
@pytest.mark.parametrize("export", EXPORTS.values(), ids=EXPORTS)
@pytest.mark.parametrize("make", IMPUTED.values(), ids=IMPUTED)
def test_missing_values_are_filled_in(make, export, iris):
    X, y = iris
    model = make().fit(X, y)
    agree(model, export, X)


@pytest.mark.usefixtures("gcc")
@pytest.mark.parametrize("export", [to_onnx, to_c])
@pytest.mark.parametrize("keep", [False, True])
def test_a_feature_that_nobody_had(keep, export, iris):
    X, y = iris
    imputer = SimpleImputer(strategy="median", keep_empty_features=keep)
    X = np.insert(X, [0, 2], np.nan, axis=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = make_pipeline(imputer, StandardScaler(), glvq()).fit(X, y)
        assert model[-1].n_features_in_ == (6 if keep else 4)
        # Values that are there at last are seen by a model that kept the feature.
        X[::2, 0] = np.linspace(-1, 1, len(X[::2]))
        agree(model, export, X)


@pytest.mark.usefixtures("gcc")
def test_what_is_filled_in_far_from_zero_keeps_its_digits(iris):
    """In float32 a mean of 1e7 has no digits left that matter to the scaled model."""
    X, y = iris
    model = make_pipeline(SimpleImputer(), StandardScaler(), glvq()).fit(X + 1e7, y)
    program = describe(model)
    assert [type(step) for step in program.steps[:2]] == [Affine, Fill]
    rows = np.full((1, 4), np.nan)
    agree(model, to_onnx, rows)
    agree(model, to_c, rows)


def test_one_row_is_answered_as_in_a_batch(iris):
    X, y = iris
    model = make_pipeline(SimpleImputer(), glvq()).fit(X, y)
    rows = X[5:9].astype(np.float32)
    batch = run(to_onnx(model), rows)
    for i in range(4):
        one = run(to_onnx(model), rows[i : i + 1])
        np.testing.assert_array_equal(one["margin"], batch["margin"][i : i + 1])


REFUSED = {
    "SimpleImputer.*fit with add_indicator=False": SimpleImputer(add_indicator=True),
    "SimpleImputer.*missing_values=-1.*fit with NaN": SimpleImputer(missing_values=-1),
}


@pytest.mark.parametrize("reason", REFUSED)
def test_refused(reason):
    X, y = load_iris(return_X_y=True)
    model = make_pipeline(REFUSED[reason], glvq()).fit(X, y)
    for export in (to_onnx, to_c):
        with pytest.raises(NotExportable, match=reason):
            export(model)
