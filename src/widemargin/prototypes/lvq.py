"""Learning vector quantisation, online: Kohonen's rules, GLVQ, and chains of them.

Samples are presented one at a time. With the rate ``alpha_t = alpha_0 (1 - t/T)`` of
presentation t = 0..T-1,

* LVQ1 moves the nearest prototype, ``p += s alpha_t (x - p)``, s = +1 if its label is
  right and -1 if not;
* OLVQ1 does so with a rate of its own for every prototype, changed after the move to
  ``min(alpha_0, alpha / (1 + s alpha))``;
* LVQ2.1 moves the two nearest when exactly one has the right label and x lies in the
  window ``min(d1/d2, d2/d1) > (1 - w)/(1 + w)``: the right one nearer, the other away;
* LVQ3 does that, and where both have the right label moves both by epsilon alpha_t;
* GLVQ makes the window soft and the move a descent. Of the nearest prototype of the
  class of x, at the squared distance D_plus, and the nearest of the others, at D_minus,
  with ``mu = (D_minus - D_plus) / (D_plus + D_minus)`` and
  ``g = 4 s (1 - s)``, ``s = 1/(1 + exp(beta_t mu))``,

      p_plus  += alpha_t g D_minus / (D_plus + D_minus) (x - p_plus),
      p_minus -= alpha_t g D_plus  / (D_plus + D_minus) (x - p_minus),

  which descends the gradient of s, a smooth count of the mistakes, times
  ``(D_plus + D_minus) / beta_t``: steps have no unit. The window narrows as
  ``beta_t = 10 * 4^(t/T)`` grows.

T. Kohonen, "Self-Organizing Maps", 3rd edition, section 6.
A. Sato, K. Yamada, "Generalized learning vector quantization", NIPS 1995.
"""

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY
from typing import Annotated, Any, Literal

import numpy as np
from scipy.special import expit
from sklearn.exceptions import ConvergenceWarning

from widemargin._compute.engines import engine_for, formula
from widemargin._compute.nearest import narrowed, nearest_of, squared_norms
from widemargin._compute.presentations import (
    Balls,
    Moving,
    Presentations,
    Projections,
)
from widemargin._core.checks import (
    check_count,
    check_number,
    check_option,
    warn_caller,
)
from widemargin._core.params import Counted, Fraction, Number, parameters
from widemargin._core.samples import Samples
from widemargin.prototypes.glvq import GLVQClassifier
from widemargin.prototypes.initialization import class_means, revivals
from widemargin.prototypes.optimizer import State
from widemargin.prototypes.training import (
    Outcome,
    Run,
    Step,
    TrainedPrototypes,
)

Rule = Literal["glvq", "lvq1", "olvq1", "lvq2.1", "lvq3"]
DEFAULT_RATES = {"glvq": 0.4, "lvq1": 0.05, "olvq1": 0.3, "lvq2.1": 0.05, "lvq3": 0.05}
# Features from which on bounds pay: an epoch of USPS takes half the time.
WIDE = 128
# GLVQ's beta in the first presentation and after the last.
SLOPES = (10.0, 40.0)


def class_balls(samples: Samples, n_classes: int) -> Balls:
    """Mean of every class and the largest squared distance of its samples to it."""
    X, codes = samples.X, samples.codes
    centres = class_means(X, codes, np.ones(len(X)), n_classes).astype(X.dtype)
    lengths = squared_norms(X - centres[codes])
    radii_squared = np.zeros(n_classes, dtype=X.dtype)
    np.maximum.at(radii_squared, codes, lengths)
    return Balls(centres, radii_squared)


def feature_range(*met: np.ndarray) -> np.ndarray:
    """(2, d) smallest and largest value of every feature met so far."""
    rows = np.concatenate(met)
    return np.stack([rows.min(axis=0), rows.max(axis=0)])


def padded_range(feature_range: np.ndarray) -> np.ndarray:
    """Box that no push leaves: as wide as the data beyond them on every side."""
    width = feature_range[1] - feature_range[0]
    return np.stack([feature_range[0] - width, feature_range[1] + width])


def presentation_order(
    weights: np.ndarray, shuffle: bool, rng: np.random.RandomState
) -> np.ndarray:
    """Return the rows that an online learner sees in one epoch, in their order.

    An epoch has n presentations. Sample i has ``n w_i / sum(w)`` of them in
    expectation, and never more than one away from that (systematic sampling); equal
    weights present every sample exactly once.
    """
    n = len(weights)
    if np.all(weights == weights[0]):
        order = np.arange(n)
    else:
        edges = np.cumsum(weights)
        edges *= n / edges[-1]
        edges[-1] = n
        marks = np.floor(np.concatenate([[0.0], edges]) + rng.uniform())
        order = np.repeat(np.arange(n), np.diff(marks).astype(np.intp))
    if shuffle:
        rng.shuffle(order)
    return order


def glvq_like(model: TrainedPrototypes) -> GLVQClassifier:
    """Return GLVQ in batches, for trials: it needs as many prototypes."""
    other = GLVQClassifier(
        model.prototypes_per_class, init=model.init, max_iter=model._n_epochs()
    )
    other.classes_ = model.classes_
    return other


# The rules. Each presents the samples of an epoch, moves the prototypes and counts
# their wins, in place; it returns how many samples were on the wrong side, and how many
# pushes the box stopped. An engine takes `search` to find the nearest.


def distances(x: np.ndarray, P: np.ndarray) -> np.ndarray:
    """Squared distances of one sample."""
    gaps = P - x
    return np.einsum("jf,jf->j", gaps, gaps)


def pushed(
    p: np.ndarray, x: np.ndarray, rate: float, box: np.ndarray
) -> np.ndarray | None:
    """Return `p` pushed away from `x`; None if that leaves the box."""
    moved = p - rate * (x - p)
    # Written so that NaN counts as outside.
    return moved if ((box[0] <= moved) & (moved <= box[1])).all() else None


@formula
def lvq1_epoch(
    prototypes: Moving,
    shown: Presentations,
    alpha_0: float,
    rates: np.ndarray,
    search: Projections | None = None,
) -> tuple[int, int]:
    """LVQ1; with `rates`, one per prototype, OLVQ1."""
    (P, labels, wins, box), (X, y, order, start, total) = prototypes, shown
    errors, stopped, adapts = 0, 0, len(rates) > 0
    for t, i in enumerate(order, start):
        j = distances(X[i], P).argmin()
        rate = float(rates[j]) if adapts else alpha_0 * (1 - t / total)
        wins[j] += 1
        right = labels[j] == y[i]
        if right:
            P[j] += rate * (X[i] - P[j])
        else:
            errors += 1
            moved = pushed(P[j], X[i], rate, box)
            stopped += moved is None
            P[j] = P[j] if moved is None else moved
        if adapts:
            rates[j] = min(alpha_0, rate / (1 + (rate if right else -rate)))
    return errors, stopped


@formula
def window_epoch(
    prototypes: Moving,
    shown: Presentations,
    alpha_0: float,
    window: float,
    epsilon: float,
    balls: Balls,
    search: Projections | None = None,
) -> tuple[int, int]:
    """LVQ2.1 (`epsilon` 0) and LVQ3; the window is tested on squared distances."""
    (P, labels, wins, box), (X, y, order, start, total) = prototypes, shown
    (centres, radii_squared), errors, stopped = balls, 0, 0
    ratio = ((1 - window) / (1 + window)) ** 2
    for t, i in enumerate(order, start):
        D, x, rate = distances(X[i], P), X[i], alpha_0 * (1 - t / total)
        first, second = (*np.argsort(D, kind="stable")[:2], -1)[:2]
        wins[first] += 1
        right = labels[first] == y[i], second >= 0 and labels[second] == y[i]
        errors += not right[0]
        if second < 0:
            continue
        if all(right):
            for j in (first, second):
                P[j] += epsilon * rate * (x - P[j])
        elif any(right) and D[first] > ratio * D[second]:
            near, far = (first, second) if right[0] else (second, first)
            P[near] += rate * (x - P[near])
            c = labels[far]
            moved = P[far] - rate * (x - P[far])
            if len(centres) and ((moved - centres[c]) ** 2).sum() > radii_squared[c]:
                continue
            moved = pushed(P[far], x, rate, box)
            stopped += moved is None
            P[far] = P[far] if moved is None else moved
    return errors, stopped


@formula
def pair_epoch(
    prototypes: Moving,
    shown: Presentations,
    alpha_0: float,
    slope: float,
    last_slope: float,
    balls: Balls,
    search: Projections | None = None,
) -> tuple[int, int]:
    """GLVQ, whose beta grows from `slope` to `last_slope` by equal factors."""
    (P, labels, wins, (low, high)), (X, y, order, start, total) = prototypes, shown
    (centres, radii_squared), errors = balls, 0
    codes = range(1 + max(y.max(initial=-1), labels.max(initial=-1)))
    sides = [(np.flatnonzero(labels == c), np.flatnonzero(labels != c)) for c in codes]
    for t, i in enumerate(order, start):
        D, x, (own, others) = distances(X[i], P), X[i], sides[y[i]]
        if not len(own) or not len(others):
            wins[D.argmin()] += 1
            errors += not len(own)
            continue
        plus, minus = own[D[own].argmin()], others[D[others].argmin()]
        d_plus, d_minus = float(D[plus]), float(D[minus])
        right = (d_plus, plus) < (d_minus, minus)
        wins[plus if right else minus] += 1
        errors += not right
        both = d_plus + d_minus
        if not both > 0:
            continue
        beta = slope * (last_slope / slope) ** (t / total)
        s = expit(-beta * (d_minus - d_plus) / both)
        rate = alpha_0 * (1 - t / total) * 4 * s * (1 - s)
        P[plus] += rate * d_minus / both * (x - P[plus])
        moved = P[minus] - rate * d_plus / both * (x - P[minus])
        if len(centres):
            c = labels[minus]
            gap = moved - centres[c]
            if gap @ gap > radii_squared[c]:
                continue
        P[minus] = np.minimum(np.maximum(moved, low), high)
    return errors, 0


@parameters
class LVQClassifier(TrainedPrototypes):
    """Learning vector quantisation: LVQ1, OLVQ1, LVQ2.1, LVQ3 and GLVQ online.

    Each sample in turn moves the nearest prototypes: towards it if they have its
    label, else away from it.

    Parameters
    ----------
    prototypes_per_class : int, dict of label to int, or "auto", default="auto"
        Number of prototypes per class; at most the number of distinct samples. "auto"
        takes the smallest of 1, 2, 5 and a tenth of the samples of a class, at most 20.
        It must not be clearly worse on validation samples than the others. The largest
        may double in the first half of the epochs. Prototypes nearest to no sample are
        dropped at the end.
    algorithm : {"glvq", "lvq1", "olvq1", "lvq2.1", "lvq3"} or tuple of rules
        Learning rule, or several to run one after the other, each from where the one
        before it stopped. Four are Kohonen's; ``("olvq1", "lvq2.1")`` is his order.
        "glvq", the default, is Sato and Yamada's LVQ2.1 with a soft window, and makes
        fewer mistakes.
    init : {"kmeans", "means", "samples"} or array of shape (n_prototypes, n_features)
        Start of the prototypes: k-means within each class, class means, random samples,
        or the given array, which then sets their number.
    init_labels : array-like of shape (n_prototypes,), optional
        Labels of the array `init`.
    max_iter : int or tuple of int, default=30
        Number of epochs, of each rule of a chain.
    learning_rate : float or tuple of float, optional
        alpha_0, in (0, 1), for every rule or for each. By default 0.4 for GLVQ, 0.3
        for OLVQ1 and 0.05 for the others.
    window : float in (0, 1), default=0.3
        Kohonen's w, for LVQ2.1 and LVQ3.
    epsilon : float in (0, 1], default=0.1
        LVQ3's step where both nearest prototypes have the right label.
    shuffle : bool, default=True
        Present the samples in a new random order every epoch; False keeps the order
        of the data.
    stay_in_class : bool, default=True
        Skip updates of GLVQ, LVQ2.1 and LVQ3 that push a prototype out of the ball of
        its class. This is the smallest ball around the class mean with all its training
        samples. False is Kohonen's rule, as in LVQ_PAK, which can diverge.
    reinit_dead : bool, default=True
        Move a prototype that is nearest to no sample in an epoch. It goes to the sample
        of its class farthest from all its prototypes. For LVQ1, OLVQ1 and the first
        half of GLVQ.
    scale : {"auto", "within_class_std", "none"}, default="auto"
        Scaling of the features: by the standard deviation within classes, or none.
        "auto" scales if that lowers the leave-one-out error of 1-NN on up to 1000
        training samples.
    class_weight : dict or "balanced", optional
        Factors on the sample weights by label.
    early_stopping : bool, default=False
        Hold out validation samples and return the model that is best on them.
    validation_fraction : float, default=0.1
        Fraction of each class that early stopping holds out.
    n_iter_no_change : int, default=5
        Early stopping ends after so many epochs without a better validation score.
    random_state : int, RandomState instance or None, default=None
        Seed of the initial prototypes, the order of the samples and the validation
        samples.

    Attributes
    ----------
    prototypes_ : ndarray of shape (n_prototypes, n_features)
        The prototypes.
    prototype_labels_ : ndarray of shape (n_prototypes,)
        Their labels.
    scale_ : ndarray of shape (n_features,) or None
        What features are divided by in distances; None where they are not.
    temperature_ : float
        Softmax temperature of ``predict_proba``, fitted to validation samples, else to
        leave-one-out distances; after ``partial_fit`` to the latest 2000 samples, each
        predicted before it was learned.
    classes_ : ndarray of shape (n_classes,)
        The labels there are.
    history_ : dict of list of float
        Per epoch, ``"loss"``: the fraction of the samples that were wrong when
        presented; with early stopping ``"validation_score"``: the accuracy.
    n_iter_ : int
        Epochs run, over all rules.

    See Also
    --------
    widemargin.GLVQClassifier : Descends in batches, by Adam, any loss.
    widemargin.MarginLVQClassifier : Descends a margin loss, with a bound.

    Notes
    -----
    Weights of samples set how often they are presented. An epoch has n presentations,
    and a sample of weight w takes part ``n w / sum(w)`` times in expectation. After the
    first 500 samples, or after ``fit``, ``partial_fit`` presents each batch once. With
    an array as `init` it does so from the first batch on. It uses the last rule of the
    chain with the constant rate alpha_0. OLVQ1 keeps adapting its rates. GLVQ's rate is
    alpha_0 / 4 and its beta 28, as after three quarters of a training.

    If most of the samples nearest to a prototype have another label, the rules push it
    away at exponential speed. Its samples fall to the next one, and in the end all of
    them flee. No push leaves the box of the data widened by its own width on every
    side, which these rules do not come near otherwise. A rule that reaches it is given
    up, with a warning, for the prototypes that had made the fewest mistakes. GLVQ goes
    on at the border of the box: few features of some prototypes come there.

    References
    ----------
    .. [1] T. Kohonen, Self-Organizing Maps, 3rd edition, section 6.
    .. [2] A. Sato, K. Yamada, Generalized learning vector quantization, NIPS 1995.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from widemargin.prototypes import LVQClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = LVQClassifier(prototypes_per_class=2, random_state=0).fit(X, y)
    >>> model.prototypes_.shape
    (6, 4)
    >>> model.score(X, y) > 0.95
    True
    """

    prototypes_per_class: Any = "auto"
    _: KW_ONLY
    algorithm: Rule | Sequence[Rule] = "glvq"
    init: Any = "kmeans"
    init_labels: Any = None
    max_iter: int | Sequence[int] = 30
    learning_rate: float | Sequence[float] | None = None
    window: Fraction = 0.3
    epsilon: Annotated[float, Number(above=0, at_most=1)] = 0.1
    shuffle: bool = True
    stay_in_class: bool = True
    reinit_dead: bool = True
    scale: Literal["auto", "within_class_std", "none"] = "auto"
    class_weight: Any = None
    early_stopping: bool = False
    validation_fraction: Fraction = 0.1
    n_iter_no_change: Counted = 5
    random_state: Any = None

    def _stages(self) -> list[tuple[str, int, float]]:
        """Check and spread the parameters: (rule, epochs, alpha_0) of every stage."""
        asked: Any = self.algorithm
        names = [asked] if isinstance(asked, str) else asked
        if not isinstance(names, list | tuple) or not len(names):
            raise ValueError(
                "algorithm must be one of "
                f"{', '.join(map(repr, DEFAULT_RATES))}, or a tuple of them to run one "
                f"after the other; got {self.algorithm!r}."
            )
        names = [check_option("algorithm", name, DEFAULT_RATES) for name in names]
        epochs = self._per_stage("max_iter", self.max_iter, len(names))
        rates = [DEFAULT_RATES[name] for name in names]
        if self.learning_rate is not None:
            rates = self._per_stage("learning_rate", self.learning_rate, len(names))
        epochs = [check_count("max_iter", count) for count in epochs]
        rates = [check_number("learning_rate", r, above=0, below=1) for r in rates]
        return list(zip(names, epochs, rates, strict=True))

    def _per_stage(self, name: str, value: Any, n_stages: int) -> list:
        if not isinstance(value, list | tuple | np.ndarray):
            return [value] * n_stages
        if np.ndim(value) != 1 or len(value) != n_stages:
            raise ValueError(
                f"{name} must be one number or one for each of the {n_stages} rules "
                f"of algorithm; got {value!r}."
            )
        return list(value)

    @property
    def _begins_anew(self) -> bool:
        # Prototypes that are given need no samples to be placed.
        return isinstance(self.init, str)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self._stages()

    _of_samples = ("fewest", "given_up")

    def _n_epochs(self) -> int:
        return sum(epochs for _, epochs, _ in self._stages())

    def _trial_model(self) -> GLVQClassifier:
        return glvq_like(self)

    def _prepare(
        self, samples: Samples, rng: np.random.RandomState, run: Run, first: bool
    ) -> Samples:
        return self._divided(samples, first)

    def _start(self, data: Samples, rng: np.random.RandomState) -> State:
        P = self._place(data.X, data, rng)
        return self._state(
            P, np.full(len(P), self._stages()[-1][2]), feature_range(data.limits, P)
        )

    def _state(
        self, P: np.ndarray, rates: np.ndarray, feature_range: np.ndarray
    ) -> State:
        codes = self._prototype_codes
        return {
            "prototypes": self._inverse_transform(P),
            "codes": codes,
            "rates": rates,
            "feature_range": feature_range,
            "fewest": {"error": np.inf, "prototypes": P, "codes": codes},
            "given_up": -1,
        }

    def _resume(self, state: State, data: Samples, rng: np.random.RandomState) -> State:
        added = self._place_new(data.X, data, rng)
        P = np.concatenate([self._scaled(state["prototypes"]), added])
        fresh = np.full(len(added), self._stages()[-1][2])
        rates = np.concatenate([state["rates"], fresh])
        return self._state(
            P, rates, feature_range(data.limits, P, state["feature_range"])
        )

    def _step(self, data: Samples, rng: np.random.RandomState, n_epochs: float) -> Step:
        stages = self._stages()
        plan = [
            (stage, epoch)
            for stage, (_, epochs, _) in enumerate(stages)
            for epoch in range(epochs)
        ]
        if n_epochs == np.inf:
            plan = [(len(stages) - 1, 0)]
        balls = self._balls(data, [name for name, _, _ in stages])
        # Bounds are not worth it for the one epoch of a batch.
        bounded = data.X.shape[1] >= WIDE and n_epochs < np.inf
        bounds: list[Any] = []

        def search_for(rule: Callable, given: tuple) -> Any:
            """Return what tells an engine which prototypes may be the nearest."""
            if not bounded or engine_for(rule.__name__, *given) is None:
                return None
            if not bounds:
                from widemargin._compute.projection_bounds import ProjectionBounds

                centre = data.X.mean(axis=0)
                Z, unit = narrowed(data.X, centre, data.limits)
                bounds.append(ProjectionBounds(Z, centre, unit))
            return bounds[0].at(given[0].P)

        def train(state: State, at: int) -> Outcome:
            stage, epoch = plan[at]
            name, epochs, rate = stages[stage]
            if state["given_up"] == stage:
                return Outcome(state, {"loss": state["fewest"]["error"]})
            labels = state["codes"]
            order = presentation_order(data.weights, self.shuffle, rng)
            span = (epoch * len(order), float(epochs * len(order)))
            rates = state["rates"].copy()
            if n_epochs == np.inf:
                # A span without end keeps the rate where it is.
                span, epochs = (0, np.inf), 1
                if name == "glvq":
                    span = 3 * 2**50, 2.0**52
            elif epoch == 0:
                rates[:] = rate
            before = self._scaled(state["prototypes"])
            P, wins = before.copy(), np.zeros(len(labels), dtype=np.intp)
            box = padded_range(state["feature_range"])
            moving = Moving(P, labels, wins, box)
            shown = Presentations(data.X, data.codes, order, *span)
            rule, options = self._epoch(name, rates, balls)
            given = (moving, shown, rate, *options)
            errors, stopped = rule(*given, search_for(rule, given))
            error = errors / len(order)
            fewest = state["fewest"]
            if error < fewest["error"]:
                fewest = {"error": error, "prototypes": before, "codes": labels}
            state = {**state, "fewest": fewest}
            if stopped and n_epochs < np.inf:
                P, labels = fewest["prototypes"], fewest["codes"]
                rates = np.full(len(P), rate)
                _say_fled(name)
                state = {**state, "given_up": stage}
            else:
                if self._revives(name, epoch, epochs) and not wins.all():
                    dead, rows = revivals(data.X, data.codes, P, labels, wins)
                    P[dead], rates[dead] = data.X[rows], rate
                added, stay = self._added_and_kept(
                    data, labels, lambda: nearest_of(data.X, P), rng, at, n_epochs
                )
                P = np.concatenate([P[stay], data.X[added]])
                labels = np.concatenate([labels[stay], data.codes[added]])
                rates = np.concatenate([rates[stay], np.full(len(added), rate)])
            moved = {
                "prototypes": self._inverse_transform(P),
                "codes": labels,
                "rates": rates,
            }
            return Outcome({**state, **moved}, {"loss": error})

        return train

    def _revives(self, name: str, epoch: int, epochs: float) -> bool:
        until = {"glvq": epochs / 2, "lvq1": epochs, "olvq1": epochs}.get(name, 0)
        return self.reinit_dead and epoch + 1 < until

    def _balls(self, samples: Samples, names: list[str]) -> Balls:
        """Where the guard keeps the prototypes of each class; empty if not needed."""
        kept = self.stay_in_class and {"glvq", "lvq2.1", "lvq3"} & {*names}
        n = len(self.classes_) if kept else 0
        return class_balls(samples if n else samples.take(slice(0, 0)), n)

    def _epoch(
        self, name: str, rates: np.ndarray, balls: Balls
    ) -> tuple[Callable, tuple]:
        """Return the rule of a stage, and what it takes after the presentations."""
        if name in ("lvq1", "olvq1"):
            return lvq1_epoch, (rates if name == "olvq1" else rates[:0],)
        if name == "glvq":
            return pair_epoch, (*SLOPES, balls)
        epsilon = float(self.epsilon) if name == "lvq3" else 0.0
        return window_epoch, (float(self.window), epsilon, balls)


def _say_fled(name: str) -> None:
    warn_caller(
        f"{name} drives the prototypes out of the data: most samples nearest to some "
        "prototype have another label than it. The rule is given up for the prototypes "
        "that made the fewest mistakes; more prototypes_per_class may help.",
        ConvergenceWarning,
    )
