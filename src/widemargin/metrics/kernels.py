r"""Kernels from tangent distances.

Any kernel that is a function of the distance becomes invariant when the distance is
replaced by a tangent distance d:

====== ============================== ==============================
name   k(x, x')                       with the Euclidean distance
====== ============================== ==============================
rbf    :math:`e^{-\gamma d^2}`        positive definite
nd     :math:`-d^\gamma`              conditionally p.d. for γ in (0, 2]
log    :math:`-\log(1 + d^\gamma)`    conditionally p.d. for γ in (0, 2]
====== ============================== ==============================

No tangent distance is a metric, so none of these stays definite for certain; see
:func:`~widemargin.metrics.repair_spectrum`. One-sided distances are not symmetric.

Reference: B. Haasdonk, D. Keysers, Tangent distance kernels for support vector
machines, ICPR 2002, section 4. X is (n_x, d), Y (n_y, d), the result (n_x, n_y).
"""

import inspect
from collections.abc import Callable
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from widemargin._compute.threads import batched_slices
from widemargin._core.arrays import in_kind, is_tensor, numpy_dtype, xp_of
from widemargin._core.checks import check_option
from widemargin.metrics.tangent import DEFAULT_SPRING, tangent_distances

KERNELS = ("rbf", "nd", "log")
# Distances that a user's kernel sees at once: its temporary arrays stay small.
_ENTRIES = 2**20


def _lazily(function: Callable, args: tuple, options: dict[str, Any]) -> Any:
    """Kernel values of Dask collections, from their lazy distances."""
    given = inspect.signature(function).bind(*args, **options)
    given.apply_defaults()
    kernel, gamma = (given.arguments.pop(name) for name in ("kernel", "gamma"))
    X, Y = given.arguments.pop("X"), given.arguments.pop("Y")
    _check_scale(kernel, gamma, Y)
    d2 = tangent_distances(X, Y, **given.arguments)
    width: Any = gamma
    if gamma == "scale":
        # A number that is not known yet: it is computed once for all blocks.
        width = d2.mean(dtype=np.float64).map_blocks(_from_mean, kernel, dtype=float)
        width = width.to_delayed().ravel()[0]
    return d2.map_blocks(_of_block, kernel=kernel, gamma=width, dtype=d2.dtype)


def _from_mean(typical: Any, kernel: Any) -> Any:
    return np.asarray(resolve_gamma(np.full((1, 1), float(typical)), kernel, "scale"))


def _of_block(d2: NDArray, kernel: Any, gamma: Any) -> NDArray:
    return kernel_of_distances(d2.copy(), kernel, float(gamma)) if d2.size else d2


@in_kind(lazily=_lazily)
def tangent_kernel(
    X: Any,
    Y: Any = None,
    *,
    kernel: str | Callable[[NDArray], NDArray] = "rbf",
    gamma: float | str = "scale",
    X_tangents: Any = None,
    Y_tangents: Any = None,
    tangents: Any = None,
    sides: str = "mean",
    spring: float = DEFAULT_SPRING,
    n_jobs: int | None = None,
) -> NDArray:
    r"""Kernel values of all pairs, from their tangent distances.

    Parameters
    ----------
    X, Y, X_tangents, Y_tangents, tangents, sides, spring, n_jobs
        As in :func:`tangent_distances`.
    kernel : {"rbf", "nd", "log"} or callable, default="rbf"
        Radial basis :math:`e^{-\gamma d^2}`, negative distance :math:`-d^\gamma`,
        logarithmic :math:`-\log(1 + d^\gamma)`, or a function from an array of squared
        distances to an array of kernel values of the same shape, called on a few rows
        at a time.
    gamma : float or "scale", default="scale"
        Width of "rbf", exponent of the others; not used by a callable. "scale" is 1
        for the others; for "rbf" it is two over the mean squared distance of all pairs
        of rows of `X`, which is close to scikit-learn's where there are no tangents,
        and `Y` must be None: kernels of other samples need the number that was used
        for the training samples.

    Returns
    -------
    ndarray of shape (n_x, n_y)
        Symmetric where `Y` is None, unless `sides` is "x" or "y". Of Dask collections
        a lazy array.

    Examples
    --------
    >>> import numpy as np
    >>> from widemargin.metrics import tangent_kernel
    >>> X = np.array([[0.0, 0.0], [5.0, 2.0]])
    >>> along_first_axis = np.array([[1.0, 0.0]])
    >>> tangent_kernel(X, kernel="nd", gamma=1.0, tangents=along_first_axis, spring=0)
    array([[-0., -2.],
           [-2., -0.]])
    """
    _check_scale(kernel, gamma, Y)
    d2 = tangent_distances(
        X, Y, X_tangents=X_tangents, Y_tangents=Y_tangents, tangents=tangents,
        sides=sides, spring=spring, n_jobs=n_jobs,
    )  # fmt: skip
    return kernel_of_distances(d2, kernel, resolve_gamma(d2, kernel, gamma))


def _check_scale(kernel: Any, gamma: Any, Y: Any) -> None:
    check_kernel(kernel, gamma)
    if Y is not None and gamma == "scale" and kernel == "rbf":
        raise ValueError(
            "gamma='scale' would depend on the pairs of X and Y given, and differ from "
            "that of the training samples: pass a number, for instance "
            "2 / tangent_distances(X_train, ...).mean()."
        )


def check_kernel(kernel: Any, gamma: Any) -> None:
    """Validate the two parameters that make a kernel of a distance."""
    if not callable(kernel):
        check_option("kernel", kernel, KERNELS)
    if isinstance(gamma, str):
        if gamma != "scale":
            raise ValueError(
                f"gamma must be a positive number or 'scale'; got {gamma!r}."
            )
    elif not isinstance(gamma, Real) or not 0 < float(gamma) < np.inf:
        raise ValueError(f"gamma must be a positive number or 'scale'; got {gamma!r}.")


def resolve_gamma(
    d2: NDArray, kernel: Any, gamma: Any, n_samples: int | None = None
) -> float:
    """Turn "scale" into a number, from the squared distances (n, n) of a set to itself.

    Where the set is a part of `n_samples`, what all of them would give is estimated.
    """
    if gamma != "scale":
        return float(gamma)
    if kernel != "rbf":
        return 1.0
    n = len(d2)
    typical = float(d2.mean(dtype=xp_of(d2).float64))
    if n_samples is not None and n > 1:
        # Distances of samples to themselves, zero, are a share 1/n of all.
        typical *= (1 - 1 / n_samples) / (1 - 1 / n)
    return 2 / typical if typical > 0 else 1.0


def kernel_of_distances(d2: NDArray, kernel: Any, gamma: float) -> NDArray:
    """Kernel values of squared distances, in place."""
    if callable(kernel):
        for rows in batched_slices(len(d2), _ENTRIES // max(1, d2.shape[1])):
            d2[rows] = _values(kernel, d2[rows])
        return d2
    xp = xp_of(d2)
    if kernel == "rbf":
        with np.errstate(over="ignore"):
            # Never infinite in the dtype: a distance of zero has the value one.
            d2 *= -min(float(gamma), float(np.finfo(numpy_dtype(d2)).max))
        return xp.exp(d2, out=d2)
    with np.errstate(over="ignore"):
        if gamma != 2:
            d2 **= float(gamma / 2)
        if kernel == "log":
            xp.log1p(d2, out=d2)
    if not xp.isfinite(d2).all():
        raise ValueError(
            f"gamma={gamma:g} gives values of kernel={kernel!r} that are no numbers; "
            "it is a power, at most 2 for a kernel that is conditionally definite."
        )
    return xp.negative(d2, out=d2)


def _values(kernel: Callable, d2: NDArray) -> NDArray:
    """Values of a kernel that is not ours, checked."""
    values = kernel(d2)
    values = values if is_tensor(d2) and is_tensor(values) else np.asarray(values)
    if values.shape != d2.shape or not xp_of(values).isfinite(values).all():
        raise ValueError(
            "kernel must return finite values of the shape of the squared distances "
            f"it is given, {d2.shape}; got shape {values.shape}."
        )
    return values
