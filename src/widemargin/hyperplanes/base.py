"""What the hyperplane classifiers share: samples, planes, decisions, margins, batches.

Many classes are decided by two-class problems (positive, negative), negative being -1
for the rest. One against the rest compares functional scores ``f_i = n_i (u_i.x +
b_i)``, each at its own margin one: unit distances would favour the classes that are
hard to separate. The margin of a label is then the smallest distance to a border
between it and another class, ``(f_i - f_j) / ||n_i u_i - n_j u_j||``. One-vs-one and
DDAG share their k (k - 1) / 2 problems; they decide and measure by the distances to the
planes of the pairs. Shapes: distances (n, n_problems); scores (n, n_classes).
"""

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import replace
from itertools import combinations
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from widemargin._compute.patterns import Walk
from widemargin._compute.rounding import rounding
from widemargin._core.checks import check_random_state, warn_caller
from widemargin._core.classifier import (
    SoftClassifier,
    margin_costs,
    restore_on_failure,
)
from widemargin._core.decisions import (
    combine,
    duel_costs,
    duel_margins,
    from_decision,
    winners,
)
from widemargin._core.left_out import OF_A_CLASS
from widemargin._core.samples import Samples, batch_classes, check_samples
from widemargin._core.temperature import FITTED, LeftOut
from widemargin.hyperplanes.blocks import blocks_of, by_blocks
from widemargin.hyperplanes.certificate import unit_hyperplane
from widemargin.hyperplanes.left_out import LeaveOneOut, walk_shifts
from widemargin.hyperplanes.patterns import (
    Patterns,
    comfortable_unit,
    height_of,
    longest_row,
    random_state_array,
    reflect,
    scaled,
    size_of,
    squared_row_norms,
)
from widemargin.hyperplanes.problem import some_rows
from widemargin.hyperplanes.walks import Budget, start_walk

# Samples that each two-class problem is about, and a number for each of them.
OfProblems = list[tuple[NDArray, NDArray]]
SCHEMES = ("ovo", "ddag", "ovr")
# Distances, over the size of the training samples, that may be rounding.
_CLOSE = 1e-7
# Scores, over the largest of a sample, that differ by rounding.
_TIE = 1e-13
# Features beyond which each sample that is left out costs much.
MANY_FEATURES = 100


def two_class_problems(n_classes: int, scheme: str) -> list[tuple[int, int]]:
    """List the (positive, negative) pairs that a scheme trains.

    >>> two_class_problems(3, "ovr")
    [(0, -1), (1, -1), (2, -1)]
    >>> two_class_problems(3, "ovo")
    [(1, 0), (2, 0), (2, 1)]
    """
    if n_classes == 2:
        return [(1, 0)]
    if scheme == "ovr":
        return [(positive, -1) for positive in range(n_classes)]
    return [(j, i) for i, j in combinations(range(n_classes), 2)]


def class_members(codes: NDArray, n_classes: int) -> list[NDArray]:
    """Row numbers of the samples of each class."""
    order = np.argsort(codes, kind="stable")
    return np.split(order, np.cumsum(np.bincount(codes, minlength=n_classes))[:-1])


def signed_rows(
    codes: NDArray, problem: tuple[int, int], members: list[NDArray] | None = None
) -> tuple[NDArray, NDArray]:
    """Find the samples that a two-class problem is about, and their signs.

    All samples come in their own order; those of a pair come class by class, because
    two short lists end to end take half the time of one mask over everything, and much
    less where the `members` of each class are known.
    """
    positive, negative = problem
    if negative >= 0:
        plus, minus = (
            np.flatnonzero(codes == code) if members is None else members[code]
            for code in problem
        )
        if len(plus) + len(minus) < len(codes):
            signs = np.ones(len(plus) + len(minus))
            signs[len(plus) :] = -1.0
            return np.concatenate((plus, minus)), signs
    return np.arange(len(codes)), np.where(codes == positive, 1.0, -1.0)


def scalar(values: list) -> Any:
    """Give the one number of one problem, or an array of several."""
    return values[0] if len(values) == 1 else np.array(values)


def _flat(values: OfProblems) -> tuple[NDArray, NDArray, NDArray]:
    """Problems, samples and values of all that are not zero."""
    counts = [len(rows) for rows, _ in values]
    problem = np.repeat(np.arange(len(values)), counts)
    sample, value = (np.concatenate(part) for part in zip(*values, strict=True))
    # Comparing first takes a sixth of the time.
    some = np.flatnonzero(value != 0.0)
    return problem[some], sample[some], value[some]


def walked_shifts(
    X: Any, parts: list, walks: list, rho: float, factors: NDArray, left: LeaveOneOut
) -> OfProblems:
    """Return what samples add to their own margins on walks: rows and values of each.

    `parts` are rows of X and signs, `walks` went over these rows, or None did.
    """
    own = []
    for (rows, signs), walk in zip(parts, walks, strict=True):
        values = np.zeros(len(rows))
        if walk is not None and len(rows):
            given = some_rows(X, rows), signs, walk, rho, factors[rows], left.take(rows)
            values = walk_shifts(*given)
        own.append((rows, values))
    return own


class HyperplaneClassifier(SoftClassifier):
    """Base of the classifiers in :mod:`widemargin.linear`; not for direct use.

    Those that learn from batches say how to sweep over patterns: ``_sweep`` updates the
    walk in place within a budget and returns its status.
    """

    margin_unit = "distance"
    _sparse: ClassVar[bool] = True

    multiclass: str
    class_weight: Any
    random_state: Any
    intercept_scaling: float | None
    n_features_in_: int
    coef_: NDArray
    intercept_: NDArray
    weight_norm_: NDArray
    _borders: Any
    _online: list[Walk | None] | None

    def _check_samples(
        self,
        X: Any,
        y: Any,
        sample_weight: Any,
        *,
        classes: Any = None,
        reset: bool = True,
    ) -> tuple[Samples, Any]:
        """Give checked samples in double precision, and the precision they came in."""
        samples = check_samples(self, X, y, sample_weight, classes=classes, reset=reset)
        X, dtype = samples.X, samples.X.dtype
        X = X.astype(np.float64, copy=False)
        if sp.issparse(X) and not X.has_canonical_format:
            X = X.copy()
            X.sum_duplicates()
        return replace(samples, X=X), dtype

    def _set_classes(self, classes: NDArray, X: Any) -> list[tuple[int, int]]:
        """Remember what decides: classes, how they are told apart, the size of X."""
        self.classes_ = classes
        self._scheme = self.multiclass if len(classes) > 2 else "two"
        self._unit = size_of(X)
        return two_class_problems(len(classes), self.multiclass)

    def _problem_name(self, classes: NDArray, problem: tuple[int, int]) -> str:
        positive, negative = problem
        labels = classes.tolist()
        rest = "the rest" if negative < 0 else repr(labels[negative])
        return f"{labels[positive]!r} against {rest}"

    def _set_borders(self, products: Callable[[], NDArray]) -> None:
        """Remember how fast functional scores part; `products` of the unit normals.

        They are asked for where a plane belongs to a class: pairs have too many.
        """
        self._borders = None
        if self._scheme == "ovr":
            n = self.weight_norm_ / (self.weight_norm_.max() or 1.0)
            gram = n[:, None] * products() * n
            squares = np.diag(gram)[:, None] + np.diag(gram) - 2 * gram
            between = np.sqrt(np.maximum(squares, 0.0)) * self.weight_norm_.max()
            self._borders = np.where(between > 0.0, between, 1.0)

    def _distances(self, X: Any) -> NDArray:
        """Signed distances (n, n_problems) of checked X, in double precision.

        What is rounding is zero, alone as in a batch, where products round otherwise.
        """
        X = X.astype(np.float64, copy=False)
        distances = np.asarray(X @ self.coef_.T.astype(np.float64))
        distances += self.intercept_
        limit = _CLOSE * self._unit
        near = (distances < limit) & (distances > -limit)
        close = np.flatnonzero(near.any(axis=1))
        if len(close):
            lengths = np.sqrt(squared_row_norms(X[close]))[:, None]
            noise = rounding(X.shape[1]) * (lengths + np.abs(self.intercept_))
            some = distances[close]
            distances[close] = np.where(np.abs(some) <= noise, 0.0, some)
        return distances

    def pairwise_distances(self, X: Any) -> NDArray:
        """Signed distance of every sample to every hyperplane.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        distances : ndarray of shape (n_samples, n_hyperplanes)
            One column per two-class problem: one for two classes, one per class for
            one-vs-rest, one per pair of classes (i, j), i < j, otherwise, positive on
            the side of j.

        Examples
        --------
        >>> from widemargin.linear import MaxMarginClassifier
        >>> X, y = [[0.0], [4.0], [9.0]], [0, 1, 2]
        >>> model = MaxMarginClassifier(C=float("inf"), multiclass="ovo").fit(X, y)
        >>> model.pairwise_distances([[4.0]])
        array([[ 2. , -0.5, -2.5]])
        """
        return self._distances(self._check_predict(X))

    def _scores_of(self, distances: NDArray) -> NDArray:
        if self._scheme == "two":
            return from_decision(distances[:, 0])
        if self._scheme == "ovr":
            scores = distances * self.weight_norm_
            # Scores that differ by rounding alone are equal.
            best, size = scores.max(axis=1), np.abs(scores).max(axis=1)
            tie = best[:, None] - scores <= (_TIE * size)[:, None]
            return np.where(tie, best[:, None], scores)
        return combine(self._duels_of(distances), len(self.classes_), self._scheme)

    def _duels_of(self, distances: NDArray) -> NDArray:
        """Duels in the unit of the training samples, far ones as far as numbers go."""
        most = 1e300 * self._unit
        return np.clip(distances, -most, most) / -self._unit

    def _by_blocks(self, answer: Callable[[NDArray], Any], X: Any) -> Any:
        """Give what `answer` says of the distances of samples, part by part."""
        n_planes = len(self.weight_norm_)
        return by_blocks(lambda part: answer(self._distances(part)), X, n_planes)

    def _class_scores(self, X: Any) -> NDArray:
        return self._by_blocks(self._scores_of, X)

    def _scored(self, X: Any) -> tuple[NDArray, NDArray]:
        return self._by_blocks(self._scored_at, X)

    def _scored_at(self, distances: NDArray) -> tuple[NDArray, NDArray]:
        """Scores and margins of samples with these distances."""
        scores = self._scores_of(distances)
        if self._scheme == "two":
            return scores, self._label_margins(scores)
        if self._scheme == "ovr":
            rows, answer = np.arange(len(scores)), scores.argmax(axis=1)
            # Another label lies beyond its border with the answer.
            gaps = (scores - scores[rows, answer][:, None]) / self._borders[answer]
            gaps[rows, answer] = -np.inf
            gaps[rows, answer] = -gaps.max(axis=1)
            return scores, gaps
        duels = self._duels_of(distances)
        margins = duel_margins(duels, len(self.classes_), self._scheme)
        return scores, margins * self._unit

    def _costs(self, X: Any) -> tuple[NDArray, NDArray]:
        return self._by_blocks(self._costs_of, X)

    def _costs_of(self, distances: NDArray) -> tuple[NDArray, NDArray]:
        """Costs of the classes, and answers, of samples with these distances."""
        if self._scheme in ("two", "ovr"):
            return margin_costs(*self._scored_at(distances))
        duels, n_classes = self._duels_of(distances), len(self.classes_)
        answers = winners(duels, n_classes, self._scheme)
        return duel_costs(duels, answers, n_classes) * self._unit, answers

    def _leave_out(
        self, samples: Samples, *, few: bool = False, refit: bool = True
    ) -> LeaveOneOut | None:
        """Choose the samples that the temperature is fitted to, each left out.

        They are `few` where each costs much; some of every class they are anyway. None
        where planes are made again without them, or nobody asks for probabilities.
        """
        if refit and (hasattr(self, "_is_part") or self._left_out_parts(samples)):
            return None
        most = FITTED
        if few or samples.X.shape[1] > MANY_FEATURES:
            most = min(most, OF_A_CLASS * len(samples.classes))
        asked = np.ones(len(samples), bool)
        if len(samples) > most:
            asked[np.random.RandomState(0).permutation(len(samples))[most:]] = False
        return LeaveOneOut(asked, samples.observations)

    def _calibrate_without(
        self, samples: Samples, shifts: OfProblems, leave: LeaveOneOut | None
    ) -> None:
        """Let a probability, when asked for, leave these samples out.

        `shifts` are what samples add to their functional margins, 0 where that was not
        asked. What is kept is a copy: X is the user's to change.
        """
        if hasattr(self, "_is_part"):
            return
        if leave is None:
            self._calibrate_later(samples.take(np.arange(len(samples))), None)
            return
        asked = np.flatnonzero(leave.asked)
        problems, rows, values = _flat(shifts)
        at = np.searchsorted(asked, rows), problems
        self._calibrate_later(samples.take(asked), (values, at))

    def _left_out_costs(self, samples: Samples, shifts: Any) -> LeftOut:
        """Say what samples cost, each left out of the planes that it helped make.

        `shifts` are in closed form what they add to their own margins, and where these
        are among all (n_samples, n_problems). Where features are more than samples of a
        class, others take over that no formula knows of: it is None, and planes are
        made again.
        """
        if shifts is None:
            found = self._refitted_costs(samples)
            assert found is not None
            return found
        values, (at, problem) = shifts
        order = np.argsort(at, kind="stable")
        values, at, problem = values[order], at[order], problem[order]
        problems = two_class_problems(len(self.classes_), self._scheme)
        mine = samples.codes[at] == np.array(problems)[problem, 0]
        norms = np.where(self.weight_norm_ > 0.0, self.weight_norm_, np.inf)[problem]
        # Beyond all distances nothing is known of the sample.
        known, own = 1e-150 * values < norms, np.zeros(len(values))
        np.divide(values, np.where(mine, norms, -norms), out=own, where=known)
        costs = np.empty((len(samples), len(self.classes_)))
        answers = np.empty(len(samples), np.intp)
        for rows in blocks_of(len(samples), len(self.weight_norm_)):
            distances = self._distances(samples.X[rows])
            some = slice(*np.searchsorted(at, (rows.start, rows.stop)))
            distances[at[some] - rows.start, problem[some]] -= own[some]
            costs[rows], answers[rows] = self._costs_of(distances)
        return LeftOut(costs, answers, samples.codes, samples.weights)

    def _keep_duals(
        self, samples: Samples, problems: list[tuple[int, int]], duals: OfProblems
    ) -> NDArray:
        """Store signed coefficients of the samples; return who has any, in order."""
        p, i, values = _flat(duals)
        supports = np.zeros(len(samples), bool)
        supports[i] = True
        kept, at = np.flatnonzero(supports), (np.cumsum(supports) - 1)[i]
        values[samples.codes[i] != np.array(problems)[p, 0]] *= -1.0
        ends = np.searchsorted(p, np.arange(len(problems) + 1))
        shape = len(problems), len(kept)
        self._dual = sp.csr_array((values, at, ends), shape=shape)
        self._dual.sort_indices()
        self.support_ = samples.rows[kept]
        return kept

    @property
    def dual_coef_(self) -> NDArray:
        """Coefficients of the supports; kept sparse, as pairs of classes have few."""
        if "dual_coef_" in vars(self):
            # A model that was saved before they were.
            return vars(self)["dual_coef_"]
        if not hasattr(self, "_dual"):
            raise AttributeError(
                f"{type(self).__name__} has no dual_coef_ before fit, and none after "
                "batches."
            )
        return self._dual.toarray()

    def predict_proba(self, X: Any) -> NDArray:
        """Return the probability of each class.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Softmax over the classes of ``-distance / temperature_``, with the distance
            by which the answer is on its side of its border with the class: the
            largest is the class predicted, and of two classes probabilities are a
            sigmoid of the margin. The temperature is fitted to training samples, each
            left out of the planes that it helped make.
        """
        return super().predict_proba(X)

    def _first_walk(self, patterns: Patterns) -> Walk:
        return start_walk(patterns)

    @abstractmethod
    def _sweep(
        self,
        patterns: Patterns,
        walk: Walk,
        weights: NDArray,
        budget: Budget,
        seed: NDArray,
        unit: float,
    ) -> int:
        """Sweep over patterns of samples divided by the unit; return the status."""

    def _private_squares(self, weights: NDArray, unit: float) -> Any:
        """Squared private coordinates of a soft margin; none by default."""
        return None

    def _go_online(
        self, walks: list[Walk | None], rho: float, unit: float, dtype: Any
    ) -> None:
        """Set where the next batch begins: nowhere yet, or at the end of a fit."""
        self._online, self._online_rho = walks, float(rho)
        self._online_unit, self._online_dtype = unit, np.dtype(dtype).name
        self._generator = check_random_state(self.random_state)

    @restore_on_failure
    def _partial_fit(self, X: Any, y: Any, classes: Any, sample_weight: Any) -> Any:
        first = getattr(self, "_online", None) is None
        classes = batch_classes(classes, None if first else self.classes_)
        samples, dtype = self._check_samples(
            X, y, sample_weight, classes=classes, reset=first
        )
        X = samples.X
        if first:
            n_problems = len(self._set_classes(samples.classes, X))
            unit = comfortable_unit(X)
            rho = height_of(self.intercept_scaling, scaled(X, unit), unit)
            self._go_online([None] * n_problems, rho, unit, dtype)
            self._longest, self.n_iter_ = 0.0, 0
        # What a model knew of samples that it had not seen is what it knows of others.
        before = None
        if not first:
            before = LeftOut(*self._costs(X), samples.codes, samples.weights)
        X = scaled(X, self._online_unit)
        self._longest = max(
            self._longest, float(np.hypot(longest_row(X), self._online_rho))
        )
        seed = int(self._generator.randint(2**31 - 1))
        multiclass = "ovr" if self._scheme == "ovr" else "ovo"
        problems = two_class_problems(len(self.classes_), multiclass)
        parts = [signed_rows(samples.codes, problem) for problem in problems]
        walks = [
            self._sweep_batch(X, samples, earlier, part, seed + p)
            for p, (earlier, part) in enumerate(
                zip(self._online or [], parts, strict=True)
            )
        ]
        self._online = [forgetful for _, forgetful in walks]
        self.n_iter_ += 1
        self._publish_walks()
        if before is None:
            # In closed form: a fit would go over the batch more than once.
            leave = self._leave_out(samples, refit=False)
            assert leave is not None
            rho, factors = self._online_rho, np.ones(len(samples))
            first_walks = [walk for walk, _ in walks]
            shifts = walked_shifts(X, parts, first_walks, rho, factors, leave)
            self._calibrate_without(samples, shifts, leave)
        else:
            self._calibrate_further(before)
        return self

    def _sweep_batch(
        self, X, samples, before, part, seed
    ) -> tuple[Walk | None, Walk | None]:
        """Go on over one batch; return the walk, and what is kept of it."""
        rows, signs = part
        if len(rows) == 0:
            return before, before
        weights, unit = samples.weights[rows], self._online_unit
        patterns = reflect(
            some_rows(X, rows), signs, rho=self._online_rho,
            diag=self._private_squares(weights, unit),
        )  # fmt: skip
        if before is None:
            walk = self._first_walk(patterns)
        else:
            walk = before.copy()._replace(m=np.zeros(len(rows)))
        state = random_state_array(seed)
        self._sweep(patterns, walk, weights, Budget(1), state, unit)
        return walk, walk.without_patterns(patterns.diag)

    def _publish_walks(self) -> None:
        planes, bounds, updates = [], [], []
        for walk in self._online or []:
            if walk is None or walk.norm == 0.0:
                planes.append((np.zeros(self.n_features_in_), 0.0))
                bounds.append(np.inf)
                updates.append(0 if walk is None else walk.n_updates)
                continue
            planes.append((walk.v, self._online_rho**2 * walk.total))
            # Every update rounds what it adds to.
            drift = rounding(2 * walk.n_updates + 4 * len(walk.v)) * self._longest
            bound = walk.upper_bound * (1 + rounding(len(walk.v))) + 2 * drift
            bounds.append(float(bound) * self._online_unit)
            updates.append(walk.n_updates)
        self._set_planes(planes, self._online_unit, np.dtype(self._online_dtype))
        self.margin_upper_bound_ = scalar(bounds)
        self.n_updates_ = scalar(updates)

    def _set_planes(
        self, planes: list[tuple[NDArray, float]], unit: float, dtype: Any
    ) -> None:
        """Store unit normals in `dtype`, biases in double: they carry the offset of X.

        Zero weights stay: then there is no plane, only the sign of the bias.
        """
        if not all(np.isfinite(w).all() and np.isfinite(bias) for w, bias in planes):
            raise self._no_plane()
        normals, offsets, lengths = zip(
            *(unit_hyperplane(w, bias) for w, bias in planes), strict=True
        )
        self.coef_ = np.vstack(normals).astype(dtype)
        self.intercept_ = np.array([float(b) * unit for b in offsets])
        norms = np.array([float(length) / unit for length in lengths])
        if not np.isfinite(norms).all():
            raise self._no_plane()
        self.weight_norm_ = norms
        coef = self.coef_.astype(np.float64)
        self._set_borders(lambda: coef @ coef.T)

    def _no_plane(self) -> ValueError:
        return ValueError(
            "X, sample_weight and the parameters have sizes with which the weights of "
            "the plane are no numbers; scale the data, for instance by StandardScaler."
        )


def warn_unfinished(words: list[str]) -> None:
    """Warn once for all problems; a problem that was solved has no words."""
    said = [text for text in words if text]
    if said:
        others = f" The same goes for {len(said) - 1} more of {len(words)} problems."
        warn_caller(said[0] + others * (len(said) > 1), ConvergenceWarning)
