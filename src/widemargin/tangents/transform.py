r"""Transformations given as functions: checked, applied, and their tangents.

Some are X -> X, the changed samples themselves, for virtual samples and jittering.

Others have a parameter, and tangents by central differences. A user's function gives
the transformed samples, f(X, p), with f(X, 0) close to X. Its tangents are
:math:`(f(X, h) - f(X, -h)) / 2h`, with an error of order h² plus rounding of order
eps/h; the best h changes the samples by about eps^(1/3) of their size (Press et al.:
Numerical Recipes, section 5.7).
"""

import inspect
from collections.abc import Callable, Iterator, Sequence
from numbers import Real
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from widemargin._compute.rounding import epsilon
from widemargin._core.arrays import in_dtype, numpy_dtype, xp_of
from widemargin._core.checks import check_size
from widemargin._core.params import parameters
from widemargin._core.samples import check_rows
from widemargin.tangents.bundle import Blocks, like
from widemargin.tangents.generator import (
    DEVICE_METHODS,
    TangentGenerator,
    changed,
    parted,
)

# Samples looked at, and steps tried, when a step is chosen.
_N_PROBES = 16
_STEPS = 8.0 ** np.arange(-12, 1)

Transformation = Callable[[NDArray, float], ArrayLike]


@parameters
class TransformTangents(TangentGenerator):
    """Tangents of transformations given as functions.

    Parameters
    ----------
    functions : callable or sequence of callables
        Each takes samples `X` (n_samples, n_features) and a number p. It returns the
        transformed samples, of the same shape; p = 0 changes nothing. A function must
        treat every sample alone. It gets a copy of the samples, and is called from
        several threads when a bundle is made with `n_jobs` above one. Samples that are
        tensors on a device come as such; what is returned goes there.
    step : float, sequence of floats or "auto", default="auto"
        The p at which differences are taken, the same for all functions or one for
        each. "auto" finds for each function the smallest power of 8, at most 1, that
        changes the samples by 6e-6 of their size (5e-3 in float32). Functions that
        round their result, for example to 8 bits, need a step given that is large
        enough to be seen.

    Attributes
    ----------
    steps_ : ndarray of shape (n_functions,)
        Steps chosen by `fit`. Without `fit` they are chosen anew from the samples of
        every call.

    Examples
    --------
    >>> import numpy as np
    >>> from widemargin.tangents import TransformTangents
    >>> def gamma_correction(X, p):
    ...     return X ** (1 + p)
    >>> X = np.array([[0.5, 1.0, 2.0]])
    >>> TransformTangents(gamma_correction).tangents(X).round(6)
    array([[[-0.346574,  0.      ,  1.386294]]])
    """

    device_methods = DEVICE_METHODS

    functions: Transformation | Sequence[Transformation]
    step: float | Sequence[float] | Literal["auto"] = "auto"

    @property
    def n_tangents(self) -> int:
        """Number of functions."""
        return len(self._named_functions())

    @property
    def is_affine(self) -> bool:
        """False: of a function nothing is known."""
        return False

    def fit(self, X: ArrayLike, y: ArrayLike | None = None) -> Self:
        """Choose the steps on samples.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.
        y : None
            Ignored.

        Returns
        -------
        self : TransformTangents
            The generator itself.
        """
        samples = check_rows(self, X)
        self.steps_ = self._choose_steps(samples)
        return self

    def less_one(self) -> list[Self]:  # noqa: D102
        check_is_fitted(self, "steps_")
        functions, found = [function for _, function in self._named_functions()], []
        for k in parted(functions):
            rest, steps = functions[:k] + functions[k + 1 :], np.delete(self.steps_, k)
            found.append(
                changed(self, functions=rest, step=steps.tolist(), steps_=steps)
            )
        return found

    def _named_functions(self) -> list[tuple[str, Transformation]]:
        functions = self.functions
        if isinstance(functions, TangentGenerator | type):
            raise TypeError(
                "functions must be a callable f(X, p) or a sequence of them; got "
                f"{functions!r}, which is a tangent generator or a class: pass "
                "generators as they are, several as TangentUnion([...])."
            )
        if callable(functions):
            functions = [functions]
        if not isinstance(functions, Sequence) or not functions:
            raise TypeError(
                "functions must be a callable f(X, p) or a sequence of them; "
                f"got {self.functions!r}."
            )
        named = []
        for i, function in enumerate(functions):
            if not callable(function):
                raise TypeError(
                    f"functions[{i}] must be a callable f(X, p) that returns the "
                    f"transformed samples; got {function!r}."
                )
            kind = getattr(function, "__name__", type(function).__name__)
            if not _takes_two(function):
                raise TypeError(
                    f"functions[{i}] ({kind}) must take samples and a number, f(X, p), "
                    "such as lambda X, p: X + p."
                )
            named.append((f"functions[{i}] ({kind})", function))
        return named

    def _choose_steps(self, X: NDArray) -> NDArray:
        named = self._named_functions()
        if isinstance(self.step, str):
            if self.step != "auto":
                raise ValueError(f"step must be 'auto' or numbers; got {self.step!r}.")
            probes = X[:: -(-len(X) // _N_PROBES)]
            return np.array([auto_step(name, f, probes) for name, f in named])
        try:
            steps = np.array([self.step] if isinstance(self.step, Real) else self.step)
        except ValueError:
            steps = np.empty(0)
        if steps.ndim != 1 or len(steps) not in (1, len(named)):
            raise ValueError(
                f"step must be 'auto', one number or one for each of the {len(named)} "
                f"functions; got {self.step!r}."
            )
        if steps.dtype.kind not in "iuf" or not np.all(
            np.isfinite(steps) & (steps > 0)
        ):
            raise ValueError(f"step must be positive and finite; got {self.step!r}.")
        return np.broadcast_to(steps.astype(float), len(named)).copy()

    def _tangents_of(self, X: NDArray, y: ArrayLike | None) -> Blocks:
        named = self._named_functions()
        steps = self.steps_ if hasattr(self, "steps_") else self._choose_steps(X)

        def tangents_of(rows: slice) -> NDArray:
            samples = X[rows]
            out = like((len(samples), len(named), X.shape[1]), X)
            for k, ((name, function), h) in enumerate(zip(named, steps, strict=True)):
                h = float(h)
                out[:, k] = _change(name, function, samples, h) / (2 * h)
            return out

        return tangents_of


def _takes_two(function: Callable) -> bool:
    """Whether a function can be called as f(X, p); if it does not say, it can."""
    try:
        inspect.signature(function).bind(None, 0.0)
    except TypeError:
        return False
    except ValueError:
        return True
    return True


def auto_step(name: str, function: Transformation, X: NDArray) -> float:
    """Smallest power of 8 that changes `X` by at least eps^(1/3) of its size.

    The change must also grow with the step there. Where it does not it is a jump, such
    as that of pixels at the border when an image starts to turn, and a larger step
    makes less of it. The steps are tried from the smallest up to 1, so that a function
    is never called further out than needed.
    """
    returned = numpy_dtype(_call(name, function, X, 0.0))
    # A function that works in a lower precision needs a larger step.
    eps = max(epsilon(t) for t in (numpy_dtype(X), returned) if t.kind == "f")

    def norm(values: NDArray) -> float:
        return float(xp_of(X).linalg.norm(in_dtype(values, np.float64)))

    wanted = eps ** (1 / 3) * (norm(X) or 1.0)

    def change(h: float) -> float:
        return norm(_change(name, function, X, h)) / 2

    before = change(_STEPS[0])
    for h in _STEPS[1:]:
        now = change(h)
        if now >= wanted and now >= 7 * before:
            break
        before = now
    return float(h)


def _change(name: str, function: Transformation, X: NDArray, h: float) -> NDArray:
    """Difference of the samples moved by h and by -h, in float64."""
    one, other = (in_dtype(_call(name, function, X, p), np.float64) for p in (h, -h))
    return one - other


def _call(name: str, function: Transformation, X: NDArray, p: float) -> NDArray:
    """Return the transformed samples, or say what is wrong with them."""
    xp = xp_of(X)
    moved = xp.asarray(function(xp.asarray(X, copy=True), float(p)), device=X.device)
    if moved.shape != X.shape:
        raise ValueError(
            f"{name} must return samples of the shape it got, {tuple(X.shape)}; "
            f"it returned {tuple(moved.shape)}."
        )
    numbers = numpy_dtype(moved).kind in "biuf"
    if not numbers or not xp.isfinite(moved).all():
        raise ValueError(
            f"{name} returned NaN, infinity or no numbers at p = {p:.3g}; it must be "
            "defined for small p of both signs, or be given a smaller step."
        )
    check_size(moved, f"{name} at p = {p:.3g}", dtype=np.float64)
    return moved


def check_transformations(transformations: Any) -> tuple[Callable, ...]:
    """Return functions X -> X as a tuple; None is none of them."""
    if transformations is None:
        return ()
    # An iterator is used up by one look: the next would silently find nothing.
    sized = hasattr(transformations, "__len__") and np.ndim(transformations) == 1
    if not sized or not all(map(callable, transformations)):
        raise ValueError(
            "transformations must be a sequence of functions X -> X, such as a list or "
            f"image_shifts(shape=(16, 16)); got {transformations!r}."
        )
    return tuple(transformations)


def copies(X: NDArray, transformations: Sequence[Callable]) -> Iterator[NDArray]:
    """Yield the samples transformed by one function after the other."""
    for transformation in transformations:
        out = transformation(X)
        out = xp_of(X).asarray(out, dtype=X.dtype, device=X.device)
        if out.shape != X.shape or not xp_of(X).isfinite(out).all():
            raise ValueError(
                "each of transformations must return finite samples of the shape it is "
                f"given, {tuple(X.shape)}; {transformation!r} returned shape "
                f"{tuple(out.shape)}."
            )
        check_size(out, "what transformations return")
        yield out
