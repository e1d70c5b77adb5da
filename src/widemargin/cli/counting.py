"""How many vectors a fitted model keeps: what its answers cost in memory and time."""

from typing import Any

import numpy as np


def learned_tangents(estimator: Any) -> np.ndarray | None:
    """Return the (n_models, n_tangents, n_features) tangents a model learned, if any.

    Models of remembered samples have ``tangents_`` too, but that is a generator.
    """
    tangents = getattr(estimator, "tangents_", None)
    if isinstance(tangents, np.ndarray) and tangents.ndim == 3:
        return tangents
    return None


def vectors_kept(estimator: Any) -> int | None:
    """Count the rows of features that a prediction is computed from.

    Hyperplanes, else support vectors, else prototypes with the tangents they learned,
    else remembered samples.
    """
    coef = getattr(estimator, "coef_", None)
    if coef is not None and np.shape(coef)[-1] == estimator.n_features_in_:
        return len(np.atleast_2d(coef))
    machine = getattr(estimator, "svc_", estimator)
    for name in ("support_vectors_", "support_"):
        if hasattr(machine, name):
            return len(getattr(machine, name))
    if hasattr(estimator, "prototypes_"):
        count = len(estimator.prototypes_)
        tangents = learned_tangents(estimator)
        if tangents is not None and tangents.size:
            count += int((np.abs(tangents).max(axis=2) > 0).sum())
        return count
    if hasattr(estimator, "bundle_"):
        return len(estimator.bundle_.points)
    return None
