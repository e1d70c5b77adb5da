"""Displays of samples: prototypes, sweeps and alignments, as images and as curves."""

import numpy as np
import pytest
from matplotlib import pyplot as plt
from sklearn.datasets import load_digits, load_wine
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from tests.inspection.stand_ins import Prototypes, TangentModels

from widemargin.inspection import AlignmentDisplay, PrototypeDisplay, TangentDisplay
from widemargin.metrics import tangent_alignment, tangent_distances
from widemargin.neighbors import TangentKNeighborsClassifier
from widemargin.prototypes import (
    GLVQClassifier,
    HSSClassifier,
    KernelLVQClassifier,
)
from widemargin.tangents import (
    ImageTangents,
    LearnedTangents,
    SignalTangents,
    TangentUnion,
    TransformTangents,
)

X, y = load_digits(return_X_y=True)
X, y = X[:200] / 16, y[:200]


def drawn_images(ax):
    return [np.asarray(image.get_array()) for image in ax.images]


class TestPrototypes:
    def test_every_prototype_is_an_image_by_class(self):
        model = Prototypes().fit(X, y)
        display = PrototypeDisplay.from_estimator(model, shape=(8, 8))
        images = drawn_images(display.ax_)
        assert len(images) == 10
        for image, prototype in zip(images, model.prototypes_, strict=True):
            np.testing.assert_array_equal(image, prototype.reshape(8, 8))
        assert [text.get_text() for text in display.ax_.texts] == list("0123456789")

    def test_classes_have_rows_of_their_own(self):
        labels = np.array(["b", "a", "b", "c", "b"])
        display = PrototypeDisplay(prototypes=X[:5], labels=labels, shape=(8, 8)).plot()
        ticks = [tick.get_text() for tick in display.ax_.get_yticklabels()]
        assert ticks == ["a", "b", "c"]
        tops = [image.get_extent()[3] for image in display.ax_.images]
        assert tops == sorted(tops)
        assert [tops.count(top) for top in sorted(set(tops))] == [1, 3, 1]

    def test_shape_comes_from_the_estimators_image_tangents(self):
        model = TangentModels(tangents=ImageTangents((8, 8))).fit(X, y)
        display = PrototypeDisplay.from_estimator(model)
        assert display.shape == (8, 8)

    def test_signals_are_curves_by_class(self):
        time = np.linspace(0, 2, 32)
        labels = np.repeat([0, 1, 2], [2, 1, 1])
        display = PrototypeDisplay(
            prototypes=X[:4], labels=labels, positions=time
        ).plot()
        first = display.axes_.flat[0]
        # 64 features on 32 positions are two channels, of two prototypes.
        assert len(first.lines) == 4
        np.testing.assert_array_equal(first.lines[0].get_xdata(), time)
        np.testing.assert_array_equal(first.lines[1].get_ydata(), X[0, 1::2])
        assert first.get_title() == "0"

    def test_columns_are_drawn_in_the_units_of_the_model(self):
        pytest.importorskip("pandas")
        frame = load_wine(as_frame=True)
        model = GLVQClassifier(1, random_state=0).fit(frame.data, frame.target)
        assert model.scale_ is not None
        display = PrototypeDisplay.from_estimator(model)
        ranges = np.ptp(display.prototypes, axis=0)
        assert ranges.max() < 20 * ranges.min()
        assert display.axes_[0, 0].get_ylabel() == "spreads"

    @pytest.mark.parametrize(("light", "name"), [(False, "gray_r"), (True, "gray")])
    def test_paper_is_light(self, light, name):
        images = 1 - X[:4] if light else X[:4]
        tangents = ImageTangents((8, 8))
        shown = (
            PrototypeDisplay(prototypes=images, shape=(8, 8)).plot().ax_,
            TangentDisplay.from_estimator(tangents, images[0]).ax_,
            AlignmentDisplay.from_estimator(tangents, *images[:2]).axes_[0, 0],
        )
        assert [ax.images[0].get_cmap().name for ax in shown] == [name] * 3

    def test_colours_and_limits(self):
        colours = np.random.default_rng(0).normal(size=(2, 4 * 4 * 3))
        display = PrototypeDisplay(prototypes=colours, shape=(4, 4, 3)).plot()
        image = drawn_images(display.ax_)[0]
        assert image.shape == (4, 4, 3)
        assert image.min() >= 0
        assert image.max() <= 1
        display = PrototypeDisplay(prototypes=X[:2], shape=(8, 8)).plot(limits=(-1, 2))
        assert display.ax_.images[0].get_clim() == (-1, 2)

    @pytest.mark.parametrize(
        ("make", "words"),
        [
            (
                lambda: PrototypeDisplay(prototypes=X, shape=(7, 8)).plot(),
                "64 features",
            ),
            (lambda: PrototypeDisplay(prototypes=X, shape=(4, 8, 2)).plot(), "1, 3 or"),
            (
                lambda: PrototypeDisplay(prototypes=X, positions=range(7)).plot(),
                "divide the 64 features",
            ),
            (
                lambda: PrototypeDisplay(
                    prototypes=X, shape=(8, 8), positions=range(64)
                ).plot(),
                "not both",
            ),
            (lambda: PrototypeDisplay(prototypes=X, labels=[1]).plot(), "200 proto"),
            (lambda: PrototypeDisplay.from_estimator(object()), "no prototypes_"),
        ],
    )
    def test_bad_input_is_named(self, make, words):
        with pytest.raises(ValueError, match=words):
            make()


class TestTangents:
    def test_images_are_the_sample_moved_along_its_tangents(self):
        generator = ImageTangents((8, 8))
        display = TangentDisplay.from_estimator(generator, X[3])
        images = np.array(drawn_images(display.ax_)).reshape(7, 5, 64)
        np.testing.assert_array_equal(images[:, 2], np.tile(X[3], (7, 1)))
        raw = generator.tangents(X[3:4])[0]
        for strip, tangent in zip(images, raw, strict=True):
            for step, moved in zip((-0.6, -0.3, 0, 0.3, 0.6), strip, strict=True):
                change = moved - X[3]
                expected = step * np.ptp(X[3]) * tangent / np.abs(tangent).max()
                np.testing.assert_allclose(change, expected, atol=1e-12)

    def test_names_of_every_generator(self):
        def names(generator, row=X[3]):
            display = TangentDisplay.from_estimator(generator, row)
            plt.close(display.figure_)
            return list(display.names)

        simard = ImageTangents((8, 8))
        assert names(simard) == [*simard.linear_directions, "thickness"]
        assert names(simard)[2:4] == ["scaling", "rotation"]
        assert names(ImageTangents((8, 8), "blur")) == ["blur"]
        two = SignalTangents(["shift", "offset"], n_channels=2)
        assert names(two) == ["shift", "offset 1", "offset 2"]

        def fade(X, p):
            return X * (1 + p)

        given = TransformTangents([fade, lambda X, p: X + p])
        assert names(given) == ["fade", "function 2"]
        learned = LearnedTangents(2).fit(X, y)
        assert names(learned) == ["tangent 1", "tangent 2"]
        union = TangentUnion([SignalTangents("slope"), learned]).fit(X, y)
        assert names(union) == ["slope", "tangent 1", "tangent 2"]

    def test_curves_have_a_panel_per_tangent(self):
        generator = SignalTangents(["shift", "offset", "slope", "curvature"])
        time = np.linspace(0, 1, 64)
        display = TangentDisplay.from_estimator(
            generator, X[3], positions=time, steps=(-1, 0, 1)
        )
        assert display.axes_.shape == (2, 3)
        offset = display.axes_[0, 1]
        assert offset.get_title() == "offset"
        below, middle, above = (line.get_ydata() for line in offset.lines)
        np.testing.assert_array_equal(middle, X[3])
        np.testing.assert_allclose(above - middle, np.ptp(X[3]))
        np.testing.assert_allclose(middle - below, np.ptp(X[3]))

    def test_a_model_is_swept_along_its_own_tangents(self):
        model = TangentModels(n_tangents=3).fit(X, y)
        model.tangents_[4, 2] = 0  # a class that varies in two directions only
        display = TangentDisplay.from_estimator(model, index=4, shape=(8, 8))
        np.testing.assert_array_equal(display.sample, model.prototypes_[4])
        assert len(display.tangents) == 2

    def test_a_union_knows_the_shape_of_a_part(self):
        union = TangentUnion([LearnedTangents(2), ImageTangents((8, 8), "rotation")])
        assert TangentDisplay.from_estimator(union.fit(X), X[0]).ax_.images
        assert TangentUnion([SignalTangents()]).shape is None

    def test_a_classifier_lends_its_generator(self):
        model = TangentModels(tangents=ImageTangents((8, 8))).fit(X, y)
        display = TangentDisplay.from_estimator(model, X[3])
        assert len(display.names) == 7

    def test_panels_go_into_the_axes_given(self):
        figure, axes = plt.subplots(1, 2)
        display = TangentDisplay.from_estimator(SignalTangents(), X[3], ax=axes[1])
        assert display.figure_ is figure
        assert display.ax_ is axes[1]
        left = axes[1].get_position().x0
        assert all(
            panel.get_position().x0 >= left - 1e-9 for panel in display.axes_.flat
        )
        loose = figure.add_axes((0.1, 0.1, 0.2, 0.2))
        with pytest.raises(ValueError, match="subplots or add_subplot"):
            TangentDisplay.from_estimator(SignalTangents(), X[3], ax=loose)

    @pytest.mark.parametrize(
        ("make", "words"),
        [
            (lambda: TangentDisplay.from_estimator(Prototypes(), X[0]), "no tangents"),
            (lambda: TangentDisplay.from_estimator(SignalTangents()), "prototypes_"),
            (lambda: TangentDisplay.from_estimator(SignalTangents(), X), "one sample"),
            (
                lambda: TangentDisplay(sample=X[0], tangents=np.ones((2, 3))).plot(),
                r"\(n_tangents, 64\)",
            ),
        ],
    )
    def test_bad_input_is_named(self, make, words):
        with pytest.raises(ValueError, match=words):
            make()

    def test_channels_are_curves_of_their_own(self):
        two = SignalTangents(["shift", "offset"], n_channels=2)
        display = TangentDisplay.from_estimator(two, X[3])
        first, second = display.axes_.flat[0].lines[:2]
        assert len(first.get_xdata()) == 32
        np.testing.assert_array_equal(
            display.axes_.flat[0].lines[4].get_xdata(), np.arange(32)
        )
        assert not np.array_equal(first.get_ydata(), second.get_ydata())
        shown = AlignmentDisplay.from_estimator(two, X[3], X[4])
        np.testing.assert_array_equal(shown.axes_[0, 0].lines[0].get_ydata(), X[3, ::2])

    def test_many_or_high_images_fit_on_a_page(self):
        display = TangentDisplay.from_estimator(ImageTangents((32, 2)), X[3])
        assert max(display.figure_.get_size_inches()) < 13
        labels = np.arange(60) // 2
        display = PrototypeDisplay(
            prototypes=X[:60], labels=labels, shape=(8, 8)
        ).plot()
        assert max(display.figure_.get_size_inches()) < 13
        names = [f"column {k}" for k in range(64)]
        display = PrototypeDisplay(prototypes=X[:30], feature_names=names).plot()
        assert max(display.figure_.get_size_inches()) < 13


class TestAlignment:
    def test_neighbours_have_no_model_to_align_with(self):
        model = TangentKNeighborsClassifier(tangents=ImageTangents((8, 8))).fit(X, y)
        with pytest.raises(ValueError, match=r"^y must be given: TangentKNeighbors"):
            AlignmentDisplay.from_estimator(model, X[3])

    @pytest.mark.parametrize("sides", ["query", "reference", "both", "midpoint"])
    def test_distances_and_samples_are_those_of_the_metrics(self, sides):
        generator = ImageTangents((8, 8))
        display = AlignmentDisplay.from_estimator(generator, X[3], X[13], sides=sides)
        pair = X[3:4], X[13:14]
        aligned = tangent_alignment(*pair, tangents=generator, sides=sides)
        distance = tangent_distances(
            *pair, tangents=generator, sides=sides, squared=False
        )
        np.testing.assert_allclose(display.x, X[3], atol=1e-12)
        np.testing.assert_allclose(display.y, X[13], atol=1e-12)
        assert display.euclidean_distance == pytest.approx(np.linalg.norm(X[3] - X[13]))
        assert display.tangent_distance == pytest.approx(distance[0, 0])
        residual = np.asarray(display.axes_[1, 2].images[0].get_array())
        np.testing.assert_allclose(
            residual.ravel(), aligned.residual[0], rtol=0, atol=1e-9
        )
        assert f"{display.tangent_distance:.3g}" in display.axes_[1, 2].get_title()

    def test_without_another_sample_it_is_the_nearest_model(self):
        model = TangentModels(n_tangents=3).fit(X, y)
        display = AlignmentDisplay.from_estimator(model, X[7], shape=(8, 8))
        delta = X[7] - model.prototypes_
        along = np.einsum("kmd,kd->km", model.tangents_, delta)
        squared = (delta**2).sum(axis=1) - (along**2).sum(axis=1)
        nearest = squared.argmin()
        np.testing.assert_allclose(display.y, model.prototypes_[nearest], atol=1e-12)
        assert display.tangent_distance == pytest.approx(
            np.sqrt(squared[nearest]), rel=1e-3
        )
        np.testing.assert_allclose(display.x_aligned, X[7], atol=1e-12)
        assert display.names[1] == f"model of {model.prototype_labels_[nearest]}"

    def test_a_two_sided_model_moves_the_sample_too(self):
        generator = ImageTangents((8, 8))
        model = TangentModels(n_tangents=3, tangents=generator).fit(X, y)
        one = AlignmentDisplay.from_estimator(model, X[7])
        two = AlignmentDisplay.from_estimator(model, X[7], sides="both")
        assert two.tangent_distance < one.tangent_distance
        assert np.abs(two.x_aligned - X[7]).max() > 0.01
        with pytest.raises(ValueError, match="use sides='reference'"):
            AlignmentDisplay.from_estimator(
                TangentModels().fit(X, y), X[7], sides="both", shape=(8, 8)
            )

    def test_signals_are_laid_over_each_other(self):
        time = np.linspace(-1, 1, 40)
        x, other = np.sin(5 * time), np.sin(5 * time) + 2 * time - 3
        display = AlignmentDisplay.from_estimator(
            SignalTangents(["offset", "slope"]), x, other, positions=time, spring=1e-9
        )
        assert display.tangent_distance < 1e-3 < display.euclidean_distance
        before, after = display.axes_[:, 1]
        np.testing.assert_allclose(before.lines[0].get_ydata(), x - other)
        np.testing.assert_allclose(after.lines[0].get_ydata(), 0, atol=1e-4)

    def test_bad_input_is_named(self):
        with pytest.raises(ValueError, match="leave y out"):
            AlignmentDisplay.from_estimator(TangentModels().fit(X, y), X[0], X[1])
        with pytest.raises(ValueError, match="y must be given: ImageTangents keeps"):
            AlignmentDisplay.from_estimator(ImageTangents((8, 8)), X[0])


class TestLookingThrough:
    def test_prototypes_of_a_pipeline_are_in_the_space_of_its_samples(self):
        model = make_pipeline(StandardScaler(), GLVQClassifier(max_iter=2)).fit(X, y)
        display = PrototypeDisplay.from_estimator(model, shape=(8, 8))
        expected = model[0].inverse_transform(model[1].prototypes_)
        np.testing.assert_array_equal(display.prototypes, expected)
        np.testing.assert_array_equal(display.labels, model[1].prototype_labels_)

    def test_a_sample_is_shown_as_the_classifier_sees_it(self):
        model = make_pipeline(StandardScaler(), HSSClassifier(1, 2, max_iter=2)).fit(
            X, y
        )
        display = AlignmentDisplay.from_estimator(model, X[3])
        np.testing.assert_allclose(display.x, model[0].transform(X[3:4])[0])
        display = TangentDisplay.from_estimator(model, index=2)
        np.testing.assert_array_equal(display.sample, model[1].prototypes_[2])

    @pytest.mark.parametrize("options", [{}, {"local": True}, {"per_class": True}])
    def test_tangents_learned_inside_a_classifier(self, options):
        generator = LearnedTangents(2, **options)
        model = TangentKNeighborsClassifier(tangents=generator).fit(X, y)
        for whole in (model, make_pipeline(StandardScaler(), model).fit(X, y)):
            display = TangentDisplay.from_estimator(whole, X[0], shape=(8, 8))
            assert np.shape(display.tangents) == (2, 64)

    def test_tangents_have_the_names_of_the_api(self):
        display = TangentDisplay.from_estimator(ImageTangents((8, 8)), X[0])
        assert display.names[:4] == ["x_shift", "y_shift", "scaling", "rotation"]
        assert len(display.names) == 7


def test_prototypes_of_another_space_are_not_drawn():
    X, y = load_digits(return_X_y=True)
    model = KernelLVQClassifier(1, max_iter=1, n_components=9).fit(X[:100], y[:100])
    with pytest.raises(ValueError, match="KernelLVQClassifier has prototypes in a sp"):
        PrototypeDisplay.from_estimator(model)
