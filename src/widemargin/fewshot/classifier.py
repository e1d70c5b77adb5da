r"""Few labelled images in one line: copies, two views, a weighted product of members.

The answer to an image x is that of the product of some members (see
`widemargin.fewshot.members`) that see it in some view (`widemargin.fewshot.views`),

.. math:: \log p(c \mid x) = \frac{1}{T} \sum_m w_m \log \max(p_m(c \mid x), 10^{-4})
   - \text{const}.

The labelled images, each left out with its copies, tell the weights w and the
temperature T. Where no class has two images, weights are equal, and what images look
like tells the view. Shapes: X (n, h·w·c) or (n, h, w[, c]).

References: D. Keysers, T. Deselaers, C. Gollan, H. Ney, Deformation models for image
recognition, IEEE PAMI 29 (2007); D. Yu et al., Learning from one and only one shot,
npj Artificial Intelligence (2025).
"""

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY
from functools import cache
from itertools import compress
from typing import Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import log_softmax
from sklearn.utils.validation import check_is_fitted

from widemargin._compute.machine import batched_slices
from widemargin._compute.progress import announced
from widemargin._core.arrays import device_of, to_numpy
from widemargin._core.callbacks import FitTasks
from widemargin._core.checks import (
    check_count,
    check_option,
    hushed,
    refuse_class,
    validate_data,
    warn_caller,
)
from widemargin._core.classifier import MarginClassifier, fit_method, margin_costs
from widemargin._core.decisions import label_margins
from widemargin._core.params import Counted, check_declared, parameters
from widemargin._core.samples import (
    Samples,
    check_samples,
    class_labels,
    distinct_rows,
)
from widemargin._core.temperature import LeftOut, fit_temperature, softmax_of_costs
from widemargin.fewshot.kernel_ridge import squared_distances
from widemargin.fewshot.looks import Looks, as_rows, look_at, shape_of
from widemargin.fewshot.members import (
    Distortion,
    Labels,
    ListedMetric,
    Means,
    Pixels,
    Queries,
    Ridge,
    fit_weights,
    product_of,
)
from widemargin.fewshot.views import View, full_turns, mirrored, small_copies
from widemargin.tangents.transform import check_transformations

MEMBERS = (
    "distortion", "features", "discriminant", "pixels", "values", "discriminant_values",
)  # fmt: skip
# Of ink on paper, in the view that sets it upright, and of what may be at any angle.
INK, TURNED = ("distortion", "features", "discriminant"), ("distortion", "features")
# Means of classes need two images; without, members of these names say nothing.
PAIRED = ("discriminant", "discriminant_values")
# Weights, before anything is seen, are normal: of members in the view that images look
# like about equal ones, of the others about 0. Drawn images and photographs err by a
# twentieth less with the first deviation than with .1, MNIST by a tenth less with the
# second than with .15.
DEVIATION, OTHER_DEVIATION = 0.15, 0.05
# Members with a smaller share of the weights are not asked.
LEAST_SHARE = 0.05
# Labelled images that are left out.
ASKED = 300
# Images, at most, whose median distance is the unit of similarity.
SPREAD = 500
# Queries that are answered at once, and on a device.
CHUNK, DEVICE_CHUNK = 256, 4096
# Weights before anything is seen have the inverse as their sum: of ink, of all else.
USUAL = {True: 1.25, False: 1.6}
# Temperature of the mean of the members where no image can be left out: of things on
# one ground, and of scenes, which one image tells apart far less well. Chosen on twelve
# kinds of images (`benchmarks/few_labels.md`), MNIST's training writers among them: of
# each kind by the least cross-entropy of the others, 1.0 and 3.7 to 5.5.
UNTOLD = {True: 1.0, False: 4.5}


class Nearest(NamedTuple):
    """Images beside the copies of labelled images that are nearest to them.

    `rows` and `labels` are those of the labelled images in `fit`. `seen` and `copies`
    are images with a background of 0, and upright where images are ink.
    """

    rows: NDArray
    labels: NDArray
    seen: NDArray
    copies: NDArray


@parameters
class FewShotImageClassifier(MarginClassifier):
    """Classifier of images from few labels: one, four or ten a class.

    Parameters
    ----------
    shape : tuple (height, width) or (height, width, channels) or "auto", default="auto"
        Shape of one image; a row of `X` is the image flattened in C order. "auto" takes
        that of arrays (n, height, width[, channels]), and squares of at least 8 × 8
        pixels in one channel or three. Rows of other lengths are no images, and
        compared as vectors.
    ink : {"auto", True, False}, default="auto"
        Whether images are ink on paper. Ink is set upright and brought to one size.
        With "auto" there are members of both kinds, and leave-one-out weighs them.
        With one image per class, images with much empty paper count as ink.
    rotations : {"none", "full"}, default="none"
        Symmetry that is known. With "full", copies are turned by multiples of 15
        degrees, and images may be asked about at any angle; nothing is set upright.
    mirror : bool, default=False
        Whether an image and its mirror image have the same label.
    transformations : sequence of callables or "auto", default="auto"
        Functions ``X -> X`` that make a copy of every labelled image (data
        augmentation). "auto" is 26 small rotations and stretches; () is none.
    features : transformer or None, default=None
        Features for kernel ridge regression and for the candidates. None is
        :class:`~widemargin.tangents.DirectionFeatures` with ``power=0.3``.
    metric : "distortion" or callable, default="distortion"
        Distance of the bumps: the image distortion model, or a function
        ``metric(X, Y) -> (n_x, n_y)`` of images with a background of 0.
    members : "auto" or sequence of str, default="auto"
        Members whose probabilities are multiplied. "distortion" is a density in
        `metric`, "pixels" one in tangent distance. "features" and "values" are kernel
        ridge regression, on `features` or on pixels. "discriminant" and
        "discriminant_values" are linear discriminant analysis of the same; they need
        two images of a class. "auto" takes all; of upright ink "distortion",
        "features" and "discriminant". Leave-one-out weighs them.
    n_candidates : int, default=100
        Number of labelled images and copies, the nearest by their features, whose
        distance to a query is computed.
    class_weight : dict, "balanced" or None, default=None
        Factors on the sample weights of each class.
    n_jobs : int, default=None
        Threads; None is one, -1 is one per core.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels.
    shape_ : tuple or None
        (height, width, channels); None where rows are compared as vectors.
    ink_ : bool
        Whether members that see images upright and resized have most of the weight.
    members_ : tuple of str
        The members whose posteriors are multiplied; ``upright_`` begins the names of
        those that see upright images.
    weights_ : ndarray of shape (n_members,)
        What their log-posteriors are multiplied by.
    temperature_ : float
        What the weighted sums are divided by.
    n_features_in_ : int
        Number of features.

    See Also
    --------
    widemargin.DensityClassifier : The member "distortion" alone.
    widemargin.tangents.Deskew : What is done to ink.
    widemargin.ProductClassifier : Products of any classifiers.

    Notes
    -----
    Margins are "log-odds". Large images are averaged down to less than 48 pixels a
    side. Kernel ridge regression takes at most 1500 images and copies. Of tensors on a
    device, distances of "distortion" and "pixels" are computed there, and the rest on
    the CPU.

    References
    ----------
    D. Keysers, T. Deselaers, C. Gollan, H. Ney, Deformation models for image
    recognition, IEEE PAMI 29 (2007).

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_digits
    >>> from widemargin import FewShotImageClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> few = np.concatenate([np.flatnonzero(y == digit)[:5] for digit in range(10)])
    >>> model = FewShotImageClassifier().fit(X[few], y[few])
    >>> model.score(X[1000:], y[1000:]) > 0.85
    True
    """

    margin_unit = "log-odds"
    device_methods: ClassVar[tuple[str, ...]] = (
        *("fit", "predict", "predict_proba", "decision_function"),
        *("margins", "confidence"),
    )

    shape: Any = "auto"
    _: KW_ONLY
    ink: bool | Literal["auto"] = "auto"
    rotations: Literal["none", "full"] = "none"
    mirror: bool = False
    transformations: Sequence[Callable] | Literal["auto"] = "auto"
    features: Any = None
    metric: Any = "distortion"
    members: Any = "auto"
    n_candidates: Counted = 100
    class_weight: Any = None
    n_jobs: int | None = None

    @fit_method
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Remember the images, and choose what is right for them.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features) or (n_samples, height, width) \
                or (n_samples, height, width, channels)
            Labelled images.
        y : array-like of shape (n_samples,)
            Labels.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the images.

        Returns
        -------
        self : FewShotImageClassifier
            The fitted classifier.
        """
        check_declared(self)
        # A few images: what is asked about is worth a device.
        X = to_numpy(X)
        wanted = self._check_members()
        if self.rotations == "full" and self.ink is True:
            raise ValueError(
                "ink must be 'auto' or False with rotations='full': what may be at any "
                "angle cannot be set upright."
            )
        rows, shape = as_rows(X, self.shape)
        samples = check_samples(self, rows, y, sample_weight)
        self._given = samples
        self.classes_ = samples.classes
        self.shape_ = shape_of(shape, samples.X.shape[1])
        first, weights = distinct_rows(samples)
        self._distinct = first
        distinct = samples.take(first)
        _warn_of(distinct, self.shape_)
        looks = look_at(distinct.X, self.shape_)
        images = looks.images(distinct.X)
        labels = _labels(distinct, weights)
        with FitTasks(self, 2, X=X, y=y, sample_weight=sample_weight) as tasks:
            with tasks.whole("views and members"):
                members = self._members(looks, images, labels, wanted)
            with tasks.whole("weights"):
                ink, ground = looks.are_ink(images), looks.have_ground(images)
                self._weigh(members, labels, ink, UNTOLD[ground])
        self._looks, self._dtype = looks, images.dtype
        return self

    def _check_members(self) -> tuple[str, ...]:
        """Return the members that are asked for, none for the usual ones."""
        refuse_class("features", self.features)
        if isinstance(self.metric, str) or not callable(self.metric):
            check_option("metric", self.metric, ("distortion",))
        needed = ("fit", "transform", "get_params")
        if self.features is not None and not all(
            hasattr(self.features, method) for method in needed
        ):
            raise ValueError(
                "features must be None or a transformer with fit, transform and "
                "get_params, such as DirectionFeatures((28, 28)); got "
                f"{self.features!r}."
            )
        if not isinstance(self.transformations, str):
            check_transformations(self.transformations)
        elif self.transformations != "auto":
            check_option("transformations", self.transformations, ("auto",))
        members = self.members
        if isinstance(members, str) and members == "auto":
            return ()
        listed = isinstance(members, list | tuple) and len(members) > 0
        if not listed or not all(one in MEMBERS for one in members):
            raise ValueError(
                f"members must be 'auto' or some of {MEMBERS}, for instance "
                f"('distortion', 'features'); got {members!r}."
            )
        return tuple(dict.fromkeys(members))

    def _members(
        self, looks: Looks, images: NDArray, labels: Labels, wanted: tuple[str, ...]
    ) -> dict[str, Any]:
        """Fit the members that there may be, of images as they are and upright."""
        grey = looks.given is not None and looks.given[2] == 1
        turned = self.rotations == "full" and looks.given is not None
        told = len(labels.asked) > 0
        if not grey or turned:
            views: tuple[bool, ...] = (self.ink is True and looks.given is not None,)
        elif self.ink != "auto":
            views = (bool(self.ink),)
        else:
            views = (True, False) if told else (looks.are_ink(images),)
        make = _Members(self, looks, images, labels, self._copies(looks))
        found = {}
        for upright in views:
            names = wanted or (TURNED if turned else INK if upright else MEMBERS)
            if len(views) == 2 and upright:
                names = tuple(name for name in names if name in INK)
                if not names:
                    continue
            for name in _possible(names, looks.given is not None, told):
                key = f"upright_{name}" if upright and name in INK else name
                found[key] = make(name, upright)
        return found

    def _copies(self, looks: Looks) -> list[Callable]:
        """Return functions that make copies of the labelled images."""
        given = self.transformations
        full = self.rotations == "full"
        if looks.given is None:
            return [] if isinstance(given, str) else list(given or ())
        if not isinstance(given, str):
            found = [*(full_turns(looks.shape) if full else ()), *(given or ())]
        else:
            found = (full_turns if full else small_copies)(looks.shape)
        if self.mirror:
            about = [mirrored(looks.shape, then) for then in (None, *found)]
            pairs = zip(about, [*found, None], strict=True)
            found = [one for pair in pairs for one in pair if one is not None]
        return found

    def _weigh(
        self, members: dict[str, Any], labels: Labels, ink: bool, untold: float
    ) -> None:
        """Weigh the members, and set the temperature, as left-out images tell.

        Images that look like `ink` are expected to be told by upright ones. Where no
        image can be left out, members weigh alike, at the temperature `untold`.
        """
        self.temperature_, self._lead = untold, 0.0
        asked = labels.asked
        codes, of_images = labels.codes[asked], labels.share(asked)
        logs = [member.left_out for member in members.values()]
        upright = np.array([name.startswith("upright") for name in members])
        # Where there is one view, images were not asked what they look like.
        likely = (upright == ink) | (upright == upright[0]).all()
        weights = likely / likely.sum()
        heard = np.ones(len(members), bool)
        if len(asked):
            usual = weights / USUAL[bool(upright.all())]
            spread = np.where(likely, DEVIATION, OTHER_DEVIATION)
            weights = fit_weights(logs, codes, of_images, usual, spread)
            heard = weights >= LEAST_SHARE * weights.sum()
            logs, weights = list(compress(logs, heard)), weights[heard]
            members = dict(compress(members.items(), heard))
            scores = log_softmax(product_of(logs, weights), axis=1)
            costs, answers = margin_costs(scores, label_margins(scores))
            seen = LeftOut(costs, answers, codes, of_images)
            self.temperature_, self._lead = fit_temperature(seen)
        self.weights_, self.members_ = weights, tuple(members)
        self.ink_ = bool(weights[upright[heard]].sum() > weights.sum() / 2)
        self._fitted_members = members

    def add_samples(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Add labelled images to those that the model was fitted to.

        Parameters
        ----------
        X : array-like, as in `fit`
            More labelled images, of the size of the others.
        y : array-like of shape (n_samples,)
            Labels, new ones among them.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights.

        Returns
        -------
        self : FewShotImageClassifier
            The same as after a `fit` to all images.

        Examples
        --------
        >>> import numpy as np
        >>> from sklearn.datasets import load_digits
        >>> from widemargin import FewShotImageClassifier
        >>> X, y = load_digits(return_X_y=True)
        >>> model = FewShotImageClassifier().fit(X[:20], y[:20])
        >>> model.add_samples(X[20:30], y[20:30]).classes_.size
        10
        """
        check_is_fitted(self)
        known = self._given
        rows, _ = as_rows(to_numpy(X), self.shape_)
        rows = validate_data(self, rows, reset=False, dtype=known.X.dtype)
        labels = np.concatenate([known.labels, class_labels(to_numpy(y), len(rows))])
        if sample_weight is None:
            sample_weight = np.ones(len(rows))
        weights = np.concatenate([known.weights, np.asarray(sample_weight, float)])
        shape = "auto" if self.shape_ is None else self.shape_
        kept, kept_weights = self.shape, self.class_weight
        try:
            # Weights of classes are in those that are known.
            self.shape, self.class_weight = shape, None
            return self.fit(np.concatenate([known.X, rows]), labels, weights)
        finally:
            self.shape, self.class_weight = kept, kept_weights

    def nearest(self, X: ArrayLike) -> Nearest:
        """Find the labelled image nearest to each image, in its best copy.

        Nearest is by the distance of "distortion", among candidates by features, or by
        the features of the heaviest member that has any.

        Parameters
        ----------
        X : array-like, as in `fit`
            Images.

        Returns
        -------
        Nearest
            Tuple of rows and labels of the labelled images, of the images as members
            see them, and of the copies that match best.

        Examples
        --------
        >>> from sklearn.datasets import load_digits
        >>> from widemargin import FewShotImageClassifier
        >>> X, y = load_digits(return_X_y=True)
        >>> model = FewShotImageClassifier().fit(X[:20], y[:20])
        >>> model.nearest(X[3:5]).rows
        array([3, 4])
        """
        rows = self._check_predict(to_numpy(X))
        plain = self._looks.images(rows.astype(self._dtype, copy=False))
        member = self._matching()
        if member is None:
            raise ValueError(
                "members=('pixels',) keeps no copies of images to show; fit with "
                "'features' or 'distortion' among the members."
            )
        with hushed():
            images, _, squares = member.view.seen(plain)
        places = squares.argmin(axis=1)
        if isinstance(member, Distortion):
            distances, near = member.near(images, squares)
            places = near[np.arange(len(near)), distances.argmin(axis=1)]
        at = to_numpy(self._distinct)[places % member.view.n]
        given = self._given
        seen = self._looks.as_images(images)
        copies = self._looks.as_images(member.view.images[places])
        return Nearest(given.rows[at], given.labels[at], seen, copies)

    def suggest(self, X: ArrayLike, n: int = 10) -> NDArray:
        """Return which of some unlabelled images to label next.

        Images are taken one by one, each with the largest ``(1 - (p1 - p2)) * (1 -
        s)``. Its two largest probabilities are p1 and p2. Its similarity to the images
        taken before is s, ``exp(-distance / median distance)`` of features.

        Parameters
        ----------
        X : array-like, as in `fit`
            Unlabelled images.
        n : int, default=10
            How many to label.

        Returns
        -------
        ndarray of shape (min(n, n_samples),)
            Rows of `X`, the most useful first.

        Examples
        --------
        >>> from sklearn.datasets import load_digits
        >>> from widemargin import FewShotImageClassifier
        >>> X, y = load_digits(return_X_y=True)
        >>> model = FewShotImageClassifier().fit(X[:20], y[:20])
        >>> len(model.suggest(X[20:200], n=5))
        5
        """
        check_count("n", n)
        P = np.sort(to_numpy(self.predict_proba(X)), axis=1)
        rows = self._check_predict(to_numpy(X))
        unsure = 1 - (P[:, -1] - P[:, -2])
        Z = self._places(rows)
        some = Z[:: -(-len(Z) // SPREAD)]
        apart = np.sqrt(squared_distances(some, some))
        unit = float(np.median(apart[apart > 0])) if (apart > 0).any() else 1.0
        new = np.ones(len(rows))
        found: list[int] = []
        for _ in range(min(n, len(rows))):
            score = unsure * new
            score[found] = -1
            found.append(int(score.argmax()))
            squares = squared_distances(Z, Z[found[-1:]])[:, 0]
            new = np.minimum(new, 1 - np.exp(-np.sqrt(squares) / unit))
        return np.array(found)

    def _matching(self) -> Any:
        """Return the heaviest density with copies, or the heaviest member with any."""
        weighed = [
            (isinstance(member, Distortion), weight, at)
            for at, (member, weight) in enumerate(
                zip(self._fitted_members.values(), to_numpy(self.weights_), strict=True)
            )
            if hasattr(member, "view")
        ]
        if not weighed:
            return None
        return list(self._fitted_members.values())[max(weighed)[2]]

    def _places(self, X: NDArray) -> NDArray:
        """Features (n, F) of checked images, by which they are alike."""
        plain = self._looks.images(X.astype(self._dtype, copy=False))
        member = self._matching()
        if member is None:
            return plain
        with hushed():
            return member.view.seen(plain).features

    def _check_predict(self, X: Any) -> Any:
        check_is_fitted(self)
        rows, _ = as_rows(X, "auto" if self.shape_ is None else None)
        return super()._check_predict(rows)

    def _class_scores(self, X: Any) -> NDArray:
        device = device_of(X)
        X, size = to_numpy(X), CHUNK if device is None else DEVICE_CHUNK
        out = np.empty((len(X), len(self.classes_)))
        with hushed():
            for rows in announced(list(batched_slices(len(X), size)), "images"):
                plain = self._looks.images(X[rows].astype(self._dtype, copy=False))
                queries = Queries(plain, device)
                logs = [
                    member.log_posteriors(queries)
                    for member in self._fitted_members.values()
                ]
                found = product_of(logs, self.weights_)
                out[rows] = log_softmax(found / self.temperature_, axis=1)
        return out

    def predict_proba(self, X: ArrayLike) -> NDArray:
        """Return the probability of each class.

        Parameters
        ----------
        X : array-like, as in `fit`
            Images.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Columns in the order of ``classes_``.
        """
        scores = self._class_scores(self._check_predict(X))
        return softmax_of_costs(-scores, 1.0, scores.argmax(axis=1), self._lead)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        return tags


class _Members:
    """Makes members, each once: views that members share are made once, too."""

    def __init__(
        self,
        model: FewShotImageClassifier,
        looks: Looks,
        images: NDArray,
        labels: Labels,
        copies: Sequence[Callable],
    ) -> None:
        self.model, self.looks, self.images = model, looks, images
        self.labels, self.copies = labels, copies
        self.view, self.made = cache(self._view), cache(self._made)

    def __call__(self, name: str, upright: bool) -> Any:
        """Return a fitted member; pixels are never set upright."""
        return self.made(name, upright and name in INK)

    def _view(self, upright: bool, of_values: bool) -> View:
        features = "values" if of_values else self.model.features
        return View(
            self.looks, self.images, upright=upright, features=features,
            transformations=self.copies,
        )  # fmt: skip

    def _made(self, name: str, upright: bool) -> Any:
        model, labels = self.model, self.labels
        if name == "pixels":
            return Pixels(self.looks, self.images, labels, model.n_jobs)
        view = self.view(upright, name in ("values", "discriminant_values"))
        if name != "distortion":
            return (Means if name in PAIRED else Ridge)(view, labels)
        metric = ListedMetric(model.metric, self.looks.shape)
        return Distortion(view, labels, metric, model.n_candidates, model.n_jobs)


def _possible(names: Sequence[str], images: bool, paired: bool) -> tuple[str, ...]:
    """Return members without what only images, or only classes of two, have.

    Of rows that are no images the features are the values.
    """
    missing = () if images else ("distortion", "values", "discriminant_values")
    left = tuple(name for name in names if name not in missing)
    if not left:
        raise ValueError(
            f"members={tuple(names)} needs images, and rows are none; give shape, or "
            "take 'features' or 'pixels'."
        )
    left = left if paired else tuple(name for name in left if name not in PAIRED)
    if not left:
        raise ValueError(
            f"members={tuple(names)} needs a class with two images; take 'features' "
            "too."
        )
    return left


def _labels(samples: Samples, weights: NDArray) -> Labels:
    """Say which images can be left out: those of classes that have others."""
    counts = np.bincount(samples.codes)
    order = np.random.RandomState(0).permutation(len(samples))
    asked = np.sort(order[counts[samples.codes[order]] > 1][:ASKED])
    groups = np.arange(len(samples))
    return Labels(samples.codes, weights, groups, asked, len(samples.classes))


def _warn_of(samples: Samples, shape: Any) -> None:
    """Say what is strange about labelled images, and what is done about it."""
    if shape is None:
        return
    counts = np.bincount(samples.codes)
    if counts.min() == 1 < counts.max():
        alone = np.flatnonzero(counts == 1)
        names = ", ".join(str(samples.classes[code]) for code in alone[:5])
        more = f" and {len(alone) - 5} more" if len(alone) > 5 else ""
        warn_caller(
            f"Classes with one distinct image each: {names}{more}. They are kept; "
            "weights and probabilities are chosen by the images of the other classes. "
            "Label one more image of each."
        )
    blank = np.flatnonzero(np.ptp(samples.X, axis=1) == 0)
    if len(blank):
        warn_caller(
            f"{len(blank)} of the images are blank; they are kept as any other, and "
            "blank images get their label."
        )
    alike = np.unique(samples.X, axis=0, return_counts=True)[1] > 1
    if alike.any():
        warn_caller(
            f"{alike.sum()} images have two labels or more; all labels are kept, and "
            "such images are not sure."
        )
