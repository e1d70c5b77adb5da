"""Displays of named columns: dots over names, not a curve."""

import matplotlib.pyplot as plt
import numpy as np
import pytest
from sklearn.datasets import load_wine
from sklearn.decomposition import PCA
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from widemargin import GLVQClassifier
from widemargin.inspection import AlignmentDisplay, PrototypeDisplay, TangentDisplay
from widemargin.tangents import SignalTangents

pandas = pytest.importorskip("pandas")


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


def fitted(columns=None, *steps):
    wine = load_wine(as_frame=True)
    X = wine.data if columns is None else wine.data.set_axis(columns, axis=1)
    model = make_pipeline(StandardScaler(), *steps, GLVQClassifier(1, random_state=0))
    return model.fit(X, wine.target)


def test_prototypes_of_a_table_are_dots_over_the_names_as_the_model_sees_them():
    model = fitted()
    display = PrototypeDisplay.from_estimator(model)
    assert display.feature_names[:2] == ["alcohol", "malic_acid"]
    panel = display.axes_[-1, 0]
    assert panel.get_xticklabels()[1].get_text() == "malic_acid"
    (line,) = panel.get_lines()
    assert line.get_linestyle() == "None"
    assert np.allclose(line.get_ydata(), model[-1].prototypes_[2])


@pytest.mark.parametrize("unit", ["", " nm"])
def test_names_that_are_numbers_belong_to_curves(unit):
    model = fitted([f"{400 + 10 * k}{unit}" for k in range(13)])
    display = PrototypeDisplay.from_estimator(model)
    assert display.feature_names is None
    assert display.axes_[-1, 0].get_xlabel() == "feature"
    assert display.axes_[0, 0].get_ylabel() == "value"


def test_names_of_mixed_features_are_not_those_of_the_components():
    display = PrototypeDisplay.from_estimator(fitted(None, PCA(3)))
    assert display.feature_names is None


def test_a_name_too_few_is_told():
    with pytest.raises(ValueError, match="feature_names must be one name for each"):
        PrototypeDisplay(prototypes=np.ones((2, 3)), feature_names=["a", "b"]).plot()


def test_signals_have_labelled_axes():
    time = np.linspace(0, 1, 20)
    tangents = SignalTangents(["offset", "slope"])
    display = TangentDisplay.from_estimator(tangents, time**2, positions=time)
    assert display.axes_[0, 0].get_xlabel() == "position"
    display = AlignmentDisplay.from_estimator(tangents, time**2, time)
    assert display.axes_[1, 0].get_xlabel() == "feature"
    assert display.axes_[0, 0].get_ylabel() == "value"
