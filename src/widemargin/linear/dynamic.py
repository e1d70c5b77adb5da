"""The online side of the maximum margin: the perceptron with dynamic margin.

A batch is swept once with the test ``y.a <= (1 - tol) ||a||^2 / sum(m)``. Kept in its
own file because it shares no code with the solvers that look at all samples at once.
"""

from abc import abstractmethod
from typing import Any

import numpy as np
from sklearn.utils.metaestimators import available_if

from widemargin._compute.progress import Advance, silent
from widemargin.linear.online import OnlineClassifier, forget_patterns
from widemargin.linear.patterns import Patterns, reflect
from widemargin.linear.problem import Outcome, height_of
from widemargin.linear.walks import Walk, learn, start_walk


def _is_online(estimator: Any) -> bool:
    if estimator.method == "dynamic" and estimator.kernel == "linear":
        return True
    raise AttributeError(
        "partial_fit needs method='dynamic' and kernel='linear': the other methods "
        "look at all samples at once."
    )


class DynamicMarginClassifier(OnlineClassifier):
    """Base of the maximum margin classifier; not for direct use."""

    C: float
    tol: float

    @abstractmethod
    def _check_parameters(self) -> None:
        """Raise where a parameter is out of its range."""

    def _private_squares(self, weight: np.ndarray) -> np.ndarray | None:
        return 0.5 / (self.C * weight) if np.isfinite(self.C) else None

    def _continue_online(self, X, codes, weight, found: list[Outcome]) -> None:
        """Let `partial_fit` go on from the combination of patterns found."""
        rho, walks = height_of(X, self.rho), []
        f = np.ones(len(codes)) if weight is None else weight
        for p, problem in enumerate(self._problems()):
            signs = np.where(codes == problem[0], 1.0, -1.0)
            m = found[p].solution.dual
            diag = self._private_squares(f)
            patterns = reflect(X, signs, rho=rho, diag=diag)
            walks.append(forget_patterns(start_walk(patterns, m), patterns))
        self._go_online(walks, rho)

    def _sweep(
        self,
        patterns: Patterns,
        walk: Walk,
        f: np.ndarray,
        max_sweeps: int,
        seed: np.ndarray,
        tick: Advance = silent,
    ) -> tuple[int, int]:
        from widemargin._compute import perceptron

        return learn(
            patterns,
            walk,
            perceptron.DYNAMIC,
            eps=self.tol,
            max_sweeps=max_sweeps,
            seed=seed,
            tick=tick,
        )

    @available_if(_is_online)
    def partial_fit(
        self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None
    ) -> Any:
        """Sweep once over a batch with the dynamic-margin rule.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Batch.
        y : array-like of shape (n_samples,)
            Labels.
        classes : array-like of shape (n_classes,), default=None
            All labels there will ever be; needed in the first call.
        sample_weight : array-like of shape (n_samples,), default=None
            Factors of `C`.

        Returns
        -------
        self : object
            The classifier after this batch; `margin_upper_bound_` bounds the
            directional margin of everything seen so far.
        """
        self._check_parameters()
        return self._partial_fit(X, y, classes, sample_weight)
