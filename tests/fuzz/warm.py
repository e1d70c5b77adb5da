"""Fit everything once, so that no worker spends a call's time on compiling."""

import os
import warnings

import numpy as np
from tests.contract.registry import NAMES, make
from tests.fuzz import functions  # noqa: F401


def warm() -> None:
    rng = np.random.default_rng(0)
    X, Q = rng.normal(size=(2, 12, 4))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in NAMES:
            for dtype in (np.float64, np.float32):
                for n_classes in (2, 3):
                    model = make(name).fit(X.astype(dtype), np.arange(12) % n_classes)
                    model.confidence(Q.astype(dtype))


# Only where workers are copied from: importing this elsewhere costs nothing.
if os.environ.get("WIDEMARGIN_FUZZ_WARM"):
    warm()
