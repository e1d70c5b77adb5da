r"""A product of classifiers: their log-posteriors, weighed and added.

Classifiers of different features err on different samples. With
posteriors p_m, floored so that none can veto all the others,

.. math:: \log p(c \mid x) = \sum_m w_m \log \max(p_m(c \mid x), \varepsilon)
   - \text{const},

and weights w ≥ 0 of the least Brier score :math:`\sum_c (p(c \mid x) - [y = c])^2` on
predictions of left-out samples. The weights also set the sharpness
of the whole: members that are too sure get less.

Shapes: log-posteriors (n_members, n_samples, n_classes), weights (n_members,).

Reference: G. Hinton, Products of experts, ICANN 1999; J. Kittler, M. Hatef, R. Duin,
J. Matas, On combining classifiers, IEEE PAMI 20 (1998).
"""

from collections.abc import Sequence
from dataclasses import KW_ONLY
from numbers import Integral
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import minimize
from scipy.special import log_softmax, softmax
from sklearn import get_config
from sklearn.base import clone
from sklearn.model_selection import (
    GroupKFold,
    StratifiedGroupKFold,
    StratifiedKFold,
)
from sklearn.utils import Bunch, _safe_indexing, get_tags
from sklearn.utils.metadata_routing import (
    UNUSED,
    MetadataRouter,
    MethodMapping,
    get_routing_for_object,
    process_routing,
)
from sklearn.utils.metaestimators import _BaseComposition
from sklearn.utils.validation import _check_method_params, _num_samples

from widemargin._core.arrays import to_numpy
from widemargin._core.callbacks import FitTasks
from widemargin._core.checks import (
    as_float_vector,
    check_count,
    refuse_pairs,
)
from widemargin._core.classifier import fit_method
from widemargin._core.confidence import answering
from widemargin._core.decisions import as_labels, brier_scores, class_codes
from widemargin._core.duplicates import groups_of_copies
from widemargin._core.params import Fraction, check_declared, parameters
from widemargin._core.temperature import with_answers
from widemargin.meta.wrapping import (
    HandingClassifier,
    check_classifier,
    refuse_unrouted,
    takes_weights,
    weighed_rows,
)

# Where held-out answers are all right, sharper is better without end.
MOST_WEIGHT = 10.0


@parameters
class ProductClassifier(HandingClassifier, _BaseComposition):
    r"""Multiply the probabilities of several classifiers, each to a learned power.

    Parameters
    ----------
    estimators : list of (str, classifier)
        Named classifiers, all with ``predict_proba``. Pipelines may give each its own
        features.
    weights : array-like of shape (n_estimators,) or None, default=None
        Powers, at least 0 and not all 0. None minimises the Brier score of
        cross-validated predictions.
    cv : int, splitter, iterable of (train, test) or None, default=None
        Cross-validation, see :func:`sklearn.model_selection.check_cv`; None is five
        folds. Folds are shuffled, keep equal samples together, and with `groups` in
        `fit` whole groups.
    min_proba : float, default=1e-4
        Smallest probability of a member, in (0, 1): no member alone excludes a class.

    Attributes
    ----------
    estimators_ : list of classifiers
        The members, fitted on all samples.
    named_estimators_ : Bunch
        The same by name.
    weights_ : ndarray of shape (n_estimators,)
        Powers, between 0 and 10 where they were chosen.
    cv_score_ : float
        Mean Brier score of the product on the samples held out, the squared error of
        its probabilities; only where weights were chosen.
    member_scores_ : ndarray of shape (n_estimators,)
        That of every member alone, as it is.
    classes_ : ndarray of shape (n_classes,)
        Labels.
    n_features_in_ : int
        Number of features, where the samples have any.

    See Also
    --------
    widemargin.RejectingClassifier : Refuses where the product is not sure.
    widemargin.TangentDensityClassifier : A member that knows invariances.
    sklearn.ensemble.VotingClassifier : Means of probabilities.
    sklearn.ensemble.StackingClassifier : A classifier of the members' answers.

    Notes
    -----
    Margins are "log-odds" of the product. With `sample_weight` every sample counts as
    much in the Brier score as for the members. Where nothing beats guessing, all
    members count alike. Export the members one by one; their product cannot be.

    Parameters of the members' `fit` other than `sample_weight` go by scikit-learn's
    metadata routing. `groups` reaches the splitter, and the members that request it.

    References
    ----------
    .. [1] G. Hinton, Products of experts, ICANN 1999.
    .. [2] J. Kittler, M. Hatef, R. Duin, J. Matas, On combining classifiers, IEEE
       Transactions on Pattern Analysis and Machine Intelligence 20 (1998).

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.pipeline import make_pipeline
    >>> from widemargin import GLVQClassifier, ProductClassifier
    >>> from widemargin.tangents import DirectionFeatures
    >>> X, y = load_digits(return_X_y=True)
    >>> model = ProductClassifier([
    ...     ("pixels", GLVQClassifier(max_iter=10, random_state=0)),
    ...     ("edges", make_pipeline(DirectionFeatures((8, 8)), LogisticRegression())),
    ... ], cv=3).fit(X[:900], y[:900])
    >>> model.weights_.shape
    (2,)
    >>> bool(model.cv_score_ < model.member_scores_.min())
    True
    """

    margin_unit = "log-odds"
    # They go to the members and the splitter, whose own requests decide.
    __metadata_request__fit = {"sample_weight": UNUSED, "groups": UNUSED}  # noqa: RUF012

    estimators: Sequence[tuple[str, Any]]
    _: KW_ONLY
    weights: ArrayLike | None = None
    cv: Any = None
    min_proba: Fraction = 1e-4

    @fit_method
    def fit(
        self,
        X: Any,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        groups: ArrayLike | None = None,
        **params: Any,
    ) -> Self:
        """Choose the weights on samples held out, then fit the members on all.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame of shape (n_samples, n_features)
            Samples, handed to the members as they are.
        y : array-like of shape (n_samples,)
            Labels.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the samples; zero leaves a sample out.
        groups : array-like of shape (n_samples,), default=None
            Samples that resemble each other, such as those of one writer or one day:
            they are held out together.
        **params : dict
            Further metadata for the members, by metadata routing.

        Returns
        -------
        self : ProductClassifier
            The fitted classifier.
        """
        weights = self._check_parameters()
        X, labels = self._check_rows(X, y)
        members = [member for _, member in self.estimators]
        rows, of_samples = weighed_rows(members, labels, sample_weight)
        codes = self._set_classes(labels[rows])
        if sample_weight is not None:
            params["sample_weight"] = sample_weight
        if groups is not None:
            params["groups"] = groups = as_labels("groups", groups, len(labels))
        routed, for_split = self._route(params)
        splits: list[tuple[NDArray, NDArray]] = []
        if weights is None:
            splits = self._splits(X, labels, rows, for_split.get("groups"))

        def fitted(at: NDArray) -> list:
            return [
                tasks.delegate(name).fit(
                    clone(member),
                    _safe_indexing(X, at),
                    labels[at],
                    **_check_method_params(X, own, indices=at),
                )
                for (name, member), own in zip(self.estimators, routed, strict=True)
            ]

        n_fits = (1 + len(splits)) * len(members)
        with FitTasks(self, n_fits, X=X, y=labels) as tasks:
            if weights is None:
                place = np.full(len(labels), -1)
                place[rows] = np.arange(len(rows))
                held = place[np.concatenate([part for _, part in splits])]
                logs = [
                    self._log_posteriors(fitted(fit), _safe_indexing(X, part))
                    for fit, part in splits
                ]
                weights = self._choose(
                    np.concatenate(logs, axis=1), codes[held], of_samples[held]
                )
            self.estimators_ = fitted(rows)
        self.weights_ = weights
        return self

    @property
    def named_estimators_(self) -> Bunch:
        """The fitted members by name."""
        return Bunch(**dict(zip(self._names, self.estimators_, strict=True)))

    def _check_parameters(self) -> NDArray | None:
        """Return the weights that were given, if any."""
        try:
            names = [name for name, _ in self.estimators]
            named = bool(names) and all(isinstance(name, str) for name in names)
        except (TypeError, ValueError):
            named = False
        if not named:
            raise ValueError(
                "estimators must be a list of (name, classifier), for instance "
                f"[('near', KNeighborsClassifier())]; got {self.estimators!r}."
            )
        self._validate_names(names)
        self._names = names
        for name, member in self.estimators:
            check_classifier(f"estimators: {name!r}", member)
            refuse_pairs(f"estimators: {name!r}", member)
            if not hasattr(member, "predict_proba"):
                raise ValueError(
                    f"estimators: {name!r}, {member!r}, has no predict_proba, which a "
                    "product multiplies; give a classifier that has, or wrap it in "
                    "CalibratedClassifierCV."
                )
        check_declared(self)
        self._min_proba = float(self.min_proba)
        if self.weights is None:
            return None
        weights = as_float_vector("weights", self.weights)
        if weights.shape != (len(names),) or (weights < 0).any() or not weights.any():
            raise ValueError(
                f"weights must be {len(names)} numbers, one per estimator, at least 0 "
                f"and not all 0; got {self.weights!r}."
            )
        return weights

    def _route(self, params: dict) -> tuple[list[dict], dict]:
        """Metadata of every member's fit, and of the splitter."""
        if get_config()["enable_metadata_routing"]:
            routed = process_routing(self, "fit", **params)
            return [routed[name].fit for name, _ in self.estimators], routed.cv.split
        groups = {k: params.pop(k) for k in ("groups",) if k in params}
        weights = {k: params.pop(k) for k in ("sample_weight",) if k in params}
        refuse_unrouted(params)
        members = [weights if takes_weights(m) else {} for _, m in self.estimators]
        return members, groups

    def _splits(
        self, X: Any, labels: NDArray, rows: NDArray, groups: NDArray | None
    ) -> list[tuple[NDArray, NDArray]]:
        """Pairs of rows to fit on and rows held out, all of positive weight."""
        cv = self.cv
        if not (cv is None or isinstance(cv, Integral) or _is_splitter(cv)):
            pairs = _given_splits(cv, rows, len(labels))
        else:
            if groups is None and _wants_groups(cv):
                raise ValueError(
                    f"groups must be given to fit: cv={cv!r} holds whole groups out."
                )
            samples = _safe_indexing(X, rows)
            some = None if groups is None else groups[rows]
            splitter, some = self._splitter(samples, labels[rows], some)
            found = splitter.split(samples, labels[rows], some)
            pairs = [(rows[fit], rows[held]) for fit, held in found]
        for fit, held in pairs:
            if len(np.unique(labels[fit])) < 2 or not len(held):
                raise ValueError(
                    f"cv={cv!r} leaves {len(held)} samples held out and "
                    f"{len(np.unique(labels[fit]))} class(es) to fit on; at least one "
                    "and two are needed: give more samples or groups, another cv, or "
                    "weights."
                )
        return pairs

    def _splitter(self, X: Any, y: NDArray, groups: NDArray | None) -> tuple[Any, Any]:
        """Return what makes parts, and the groups that it holds together."""
        if _is_splitter(self.cv):
            return self.cv, groups
        n_parts = 5 if self.cv is None else check_count("cv", self.cv, low=2)
        if groups is not None:
            n_groups = len(np.unique(groups))
            if n_groups < 2:
                raise ValueError(
                    f"groups must hold at least two groups to hold one out; got "
                    f"{n_groups}."
                )
            return GroupKFold(min(n_parts, n_groups)), groups
        # Beside its copy a sample is not held out.
        copies = groups_of_copies(X, y)
        first = np.unique(copies, return_index=True)[1]
        smallest = int(np.unique(y[first], return_counts=True)[1].min())
        if smallest < 2:
            raise ValueError(
                "y has a class of one sample, which cannot be held out and learned: "
                "give weights, more samples, or a cv of your own."
            )
        # Shuffled: a file may be sorted by what it measures.
        options = {"shuffle": True, "random_state": 0}
        n_parts = min(n_parts, smallest)
        if len(first) == len(y):
            return StratifiedKFold(n_parts, **options), None
        return StratifiedGroupKFold(n_parts, **options), copies

    def _choose(self, logs: NDArray, codes: NDArray, of_samples: NDArray) -> NDArray:
        of_samples = of_samples / of_samples.sum()
        weights, self.cv_score_ = product_weights(logs, codes, of_samples)
        self.member_scores_ = np.array(
            [of_samples @ brier_scores(softmax(one, axis=1), codes) for one in logs]
        )
        return weights

    def _log_posteriors(self, members: Sequence[Any], X: Any) -> NDArray:
        """(n_members, n_samples, n_classes), floored, also where a class is unknown."""
        n_samples = _num_samples(X)
        logs = np.empty((len(members), n_samples, len(self.classes_)))
        for name, member, out in zip(self._names, members, logs, strict=True):
            with answering(member):
                P = np.asarray(to_numpy(member.predict_proba(X)), dtype=float)
            if P.shape != (n_samples, len(member.classes_)) or np.isnan(P).any():
                raise ValueError(
                    f"estimators: {name!r} must give one probability per sample and "
                    f"class, {(n_samples, len(member.classes_))}; got shape {P.shape}"
                    f"{' with NaN' if np.isnan(P).any() else ''}."
                )
            out[:] = np.log(self._min_proba)
            known = class_codes(member.classes_, self.classes_)
            out[:, known] = np.log(np.maximum(P, self._min_proba))
        return logs

    def _class_scores(self, X: Any) -> NDArray:
        logs = self._log_posteriors(self.estimators_, X)
        return log_softmax(np.tensordot(self.weights_, logs, 1), axis=1)

    def predict_proba(self, X: Any) -> NDArray:
        """Return the probabilities of the product.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Columns in the order of ``classes_``.
        """
        scores = self._class_scores(self._check_predict(X))
        return with_answers(np.exp(scores), scores.argmax(axis=1))

    def get_params(self, deep: bool = True) -> dict:
        """Return the parameters, those of the members by their names.

        Parameters
        ----------
        deep : bool, default=True
            Whether to return those of the members too.

        Returns
        -------
        dict
            Names and values.
        """
        return self._get_params("estimators", deep=deep)

    def set_params(self, **params: Any) -> Self:
        """Set parameters, or replace members by their names.

        Parameters
        ----------
        **params : dict
            Names and values, for instance ``svm__C=1``.

        Returns
        -------
        self : ProductClassifier
            The estimator.
        """
        return self._set_params("estimators", **params)

    def get_metadata_routing(self) -> MetadataRouter:
        """Say where metadata goes: to the members' `fit`, and `groups` to the splitter.

        Returns
        -------
        MetadataRouter
            For scikit-learn's metadata routing.
        """
        router = MetadataRouter(owner=self)
        to_fit = MethodMapping().add(caller="fit", callee="fit")
        for name, member in self.estimators:
            router.add(**{name: member}, method_mapping=to_fit)
        splitter = self.cv if _is_splitter(self.cv) else GroupKFold()
        to_split = MethodMapping().add(caller="fit", callee="split")
        return router.add(cv=splitter, method_mapping=to_split)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        try:
            inner = [get_tags(member) for _, member in self.estimators]
        except (TypeError, ValueError, AttributeError):
            return tags  # fit says what is wrong
        tags.input_tags.sparse = all(one.input_tags.sparse for one in inner)
        tags.input_tags.allow_nan = all(one.input_tags.allow_nan for one in inner)
        return tags


def _is_splitter(cv: Any) -> bool:
    return hasattr(cv, "split") and not isinstance(cv, str | bytes)


def _given_splits(cv: Any, rows: NDArray, n_samples: int) -> list[tuple]:
    """Take pairs of positions among all samples, less those of no weight."""
    try:
        pairs = [(np.asarray(fit), np.asarray(held)) for fit, held in cv]
        every = np.concatenate([part for pair in pairs for part in pair])
    except (TypeError, ValueError):
        every = np.array(["none"])
    if every.dtype.kind not in "iu" or every.min() < 0 or every.max() >= n_samples:
        raise ValueError(
            "cv must be None, a number of parts, a splitter, or pairs of positions "
            f"(train, test) below {n_samples}; got {cv!r}."
        )
    return [tuple(part[np.isin(part, rows)] for part in pair) for pair in pairs]


def _wants_groups(cv: Any) -> bool:
    if not hasattr(cv, "get_metadata_routing"):
        return False
    return bool(get_routing_for_object(cv).consumes("split", ["groups"]))


def product_brier(
    weights: NDArray, logs: NDArray, codes: NDArray, of_samples: NDArray
) -> tuple[float, NDArray]:
    """Mean Brier score of a product, and its derivative by the weights.

    With P the softmax of the weighed sum S, dB/dS_c = P_c (g_c - sum_k g_k P_k), where
    g = 2 (P - [y = c]) is the derivative by P.
    """
    P = softmax(np.tensordot(weights, logs, 1), axis=1)
    g = 2 * P
    g[np.arange(len(P)), codes] -= 2
    slopes = P * (g - (g * P).sum(axis=1, keepdims=True)) * of_samples[:, None]
    return float(of_samples @ brier_scores(P, codes)), np.einsum("mnc,nc", logs, slopes)


def product_weights(
    logs: NDArray, codes: NDArray, of_samples: NDArray
) -> tuple[NDArray, float]:
    """Weights of the least mean Brier score, and that score.

    The score is not convex in the weights: the climb down begins at the product as it
    is, at its geometric mean and at every member alone.
    """
    n_members = len(logs)
    ones = np.ones(n_members)
    found = [
        minimize(
            product_brier, start, (logs, codes, of_samples), jac=True,
            method="L-BFGS-B", bounds=[(0, MOST_WEIGHT)] * n_members,
        )
        for start in (ones, ones / n_members, *np.eye(n_members))
    ]  # fmt: skip
    weights = np.asarray(min(found, key=lambda one: one.fun).x)
    if not weights.any():
        weights = ones / n_members
    return weights, product_brier(weights, logs, codes, of_samples)[0]
