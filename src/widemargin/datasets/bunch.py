"""What a loader returns, made in one place."""

from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils import Bunch

from widemargin._core.checks import check_option

SUBSETS = ("train", "test", "all")


def split_bunch(
    train: tuple, test: tuple, *, subset: str, return_X_y: bool, **extra: Any
) -> Any:
    """Return the chosen subset of a set that comes split."""
    check_option("subset", subset, SUBSETS)
    if subset == "all":
        parts, y = [train[0], test[0]], np.concatenate([train[1], test[1]])
        if sparse.issparse(train[0]):
            X = sparse.vstack(parts, format="csr")
        else:
            X = np.concatenate(parts)
    else:
        X, y = train if subset == "train" else test
    return bunch(X, y, return_X_y=return_X_y, n_train=len(train[1]), **extra)


def bunch(X: Any, y: Any, *, return_X_y: bool, target_names, **extra: Any) -> Any:
    """Return the arrays, alone or with what is known about them."""
    if return_X_y:
        return X, y
    return Bunch(data=X, target=y, target_names=np.asarray(target_names), **extra)
