"""Relevances as drawn: shares of the learned distance, in the order of their size."""

import numpy as np
import pytest
from matplotlib import pyplot as plt
from sklearn.datasets import load_digits, load_wine
from sklearn.decomposition import PCA
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from widemargin import GLVQClassifier, GMLVQClassifier, RejectingClassifier
from widemargin.inspection import RelevanceDisplay

wine = load_wine()
X, y = wine.data, wine.target


def learner(metric="full", **options):
    return GMLVQClassifier(1, metric=metric, max_iter=5, random_state=0, **options)


def names_of(panel):
    return [text.get_text() for text in panel.get_yticklabels()]


def test_bars_are_the_relevances_the_largest_first():
    model = learner().fit(X, y)
    display = RelevanceDisplay.from_estimator(model, feature_names=wine.feature_names)
    bars, beside = display.axes_[0]
    order = np.argsort(-model.feature_importances_)
    widths = [bar.get_width() for bar in bars.patches]
    assert np.allclose(widths, 100 * model.feature_importances_[order])
    assert [name[:9] for name in names_of(bars)] == [
        wine.feature_names[k][:9] for k in order
    ]
    assert bars.get_xlabel() == "share of the distance, %"
    drawn = np.asarray(beside.images[0].get_array())
    spread = X.std(axis=0)
    matrix = model.relevance_matrix_ * np.outer(spread, spread)
    matrix *= 100 / np.trace(matrix)
    assert np.allclose(drawn, matrix[np.ix_(order, order)])
    # Relevances of raw features are no shares of the distance.
    display = RelevanceDisplay(matrix=model.relevance_matrix_).plot()
    label = display.axes_[0, 0].get_xlabel()
    assert label == "relevance in the unit of each feature, %"


def test_the_units_of_the_features_do_not_count_where_samples_are_given():
    factors = np.geomspace(1e-3, 1e3, X.shape[1])
    shown = []
    for samples in (X, X * factors):
        model = learner(scale="within_class_std").fit(samples, y)
        display = RelevanceDisplay.from_estimator(model, samples)
        assert np.isclose(display.relevances_.sum(), 1)
        assert display.axes_[0, 0].get_xlabel() == "share of the distance, %"
        shown.append(display.relevances_)
    # Equal but for the order of the samples, which is that of their bits.
    assert np.allclose(*shown, atol=0.03)
    spread = X.std(axis=0)
    by_hand = learner(scale="within_class_std").fit(X, y).relevances_ * spread**2
    assert np.allclose(shown[0], by_hand / by_hand.sum())


def test_importances_rank_features_of_mixed_units():
    """Proline counts in thousands: its relevance is nothing, its share is not."""
    model = GMLVQClassifier(random_state=0).fit(X, y)
    proline = wine.feature_names.index("proline")
    assert model.relevances_[proline] < 1e-3
    assert np.isclose(model.feature_importances_.sum(), 1)
    assert model.feature_importances_[proline] > 0.1
    weighted = learner().fit(X[:90], y[:90], sample_weight=np.arange(1, 91))
    mean = np.average(X[:90], axis=0, weights=np.arange(1, 91))
    by_hand = np.average((X[:90] - mean) ** 2, axis=0, weights=np.arange(1, 91))
    assert np.allclose(weighted.feature_variances_, by_hand)
    streamed = learner().partial_fit(X, y, classes=[0, 1, 2])
    assert np.allclose(streamed.feature_variances_, X.var(axis=0))


def test_a_pipeline_gives_its_classifier_and_its_names():
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame(X, columns=wine.feature_names)
    model = make_pipeline(StandardScaler(), learner()).fit(table, y)
    for estimator in (
        model,
        RejectingClassifier(model, cv="prefit", max_error=0.2).fit(table, y),
        GridSearchCV(model, {"gmlvqclassifier__max_iter": [5]}, cv=2).fit(table, y),
    ):
        display = RelevanceDisplay.from_estimator(estimator, table, n_features=3)
        order = np.argsort(-model[-1].relevances_)[:3]
        expected = [wine.feature_names[k] for k in order]
        assert names_of(display.axes_[0, 0]) == expected
    mixed = make_pipeline(StandardScaler(), PCA(3), learner()).fit(table, y)
    display = RelevanceDisplay.from_estimator(mixed)
    assert sorted(names_of(display.axes_[0, 0])) == ["0", "1", "2"]


def test_in_given_axes_bars_stand_alone():
    axes = plt.subplots(2, 2)[1]
    display = RelevanceDisplay.from_estimator(learner().fit(X, y), ax=axes[0, 0])
    assert display.axes_.shape == (1, 1)


def test_the_words_of_several_matrices_are_inside_the_picture():
    model = learner("class").fit(X, y)
    display = RelevanceDisplay.from_estimator(
        model, X, feature_names=wine.feature_names
    )
    figure = display.figure_
    figure.canvas.draw()
    inside = figure.bbox.padded(1)
    for axes in figure.axes:
        box = axes.get_tightbbox()
        assert inside.contains(*box.min)
        assert inside.contains(*box.max)


def test_a_diagonal_metric_has_bars_only():
    display = RelevanceDisplay.from_estimator(learner("diagonal").fit(X, y))
    assert display.axes_.shape == (1, 1)


@pytest.mark.parametrize("metric", ["class", "local"])
def test_several_matrices_are_rows_by_label(metric):
    model = GMLVQClassifier(
        2 if metric == "local" else 1, metric=metric, max_iter=3, random_state=0
    ).fit(X, np.array(["a", "b", "c"])[y])
    display = RelevanceDisplay.from_estimator(model)
    each = model.relevances_ * X.var(axis=0)
    each /= each.sum(axis=1, keepdims=True)
    assert np.allclose(display.relevances_, each)
    assert np.allclose(model.feature_importances_, each.mean(axis=0))
    order = np.argsort(-each.mean(axis=0))
    drawn = np.asarray(display.ax_.images[0].get_array())
    assert np.allclose(drawn, 100 * each[:, order])
    expected = list("abc") if metric == "class" else list("aabbcc")
    assert names_of(display.ax_) == expected


def test_images_are_images_and_spectra_are_curves():
    digits = load_digits()
    model = learner(n_components=3).fit(digits.data[:200], digits.target[:200])
    display = RelevanceDisplay.from_estimator(model, shape=(8, 8))
    drawn = np.asarray(display.ax_.images[0].get_array())
    assert np.allclose(drawn, model.feature_importances_.reshape(8, 8))
    display = RelevanceDisplay.from_estimator(model, positions=np.arange(400, 464))
    (line,) = display.ax_.get_lines()
    assert np.allclose(line.get_ydata(), 100 * model.feature_importances_)
    assert line.get_xdata()[0] == 400
    assert RelevanceDisplay.from_estimator(model).ax_.get_xlabel() == "feature"


def test_what_cannot_be_drawn_is_told():
    with pytest.raises(ValueError, match="has no relevance_matrix_; give one that"):
        RelevanceDisplay.from_estimator(GLVQClassifier(1).fit(X, y))
    with pytest.raises(ValueError, match="GMLVQClassifier is not fitted; fit it fir"):
        RelevanceDisplay.from_estimator(GMLVQClassifier(1))
    with pytest.raises(ValueError, match="X must have samples that differ"):
        RelevanceDisplay.from_estimator(GMLVQClassifier(1).fit(X, y), X[:1])
    with pytest.raises(ValueError, match="matrix must have shape"):
        RelevanceDisplay(matrix=np.ones((2, 3))).plot()
    with pytest.raises(ValueError, match="matrix must be finite, with relevances"):
        RelevanceDisplay(matrix=np.zeros((2, 2))).plot()
    with pytest.raises(ValueError, match="labels must have one entry for each"):
        RelevanceDisplay(matrix=np.ones((3, 2, 2)), labels="ab").plot()
    with pytest.raises(ValueError, match="n_features must be"):
        RelevanceDisplay(matrix=np.eye(2)).plot(n_features=0)
    with pytest.raises(ValueError, match="8 curves of relevances"):
        RelevanceDisplay(matrix=np.ones((8, 2, 2)), positions=[1, 2]).plot()
