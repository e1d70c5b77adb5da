"""What a user writes; `make lint` runs mypy over it, as strict as --strict."""

# mypy: disallow-any-generics, disallow-subclassing-any, disallow-untyped-calls
# mypy: disallow-untyped-defs, disallow-incomplete-defs, check-untyped-defs
# mypy: disallow-untyped-decorators, warn-unused-ignores, warn-return-any
# mypy: no-implicit-reexport, strict-equality, extra-checks

from typing import Any, Literal, assert_type

import numpy as np
from numpy.typing import NDArray

import widemargin
from widemargin import (
    LVQClassifier,
    MaxMarginClassifier,
    RejectingClassifier,
    TangentDensityClassifier,
    TangentKNeighborsClassifier,
    TangentSVC,
    TVQClassifier,
)
from widemargin.tangents import ImageTangents

X, y = np.zeros((4, 64)), np.arange(4)
tvq = TVQClassifier(prototypes_per_class=2, sides="both", init="hss", theta=0.4)
assert_type(tvq.fit(X, y), TVQClassifier)
assert_type(LVQClassifier(algorithm="lvq1").fit(X, y), LVQClassifier)
assert_type(LVQClassifier().partial_fit(X, y), LVQClassifier)
assert_type(MaxMarginClassifier(method="dual").fit(X, y), MaxMarginClassifier)
assert_type(TangentSVC(kernel="nd", sides="query").fit(X, y), TangentSVC)
assert_type(
    TangentDensityClassifier(gamma="cv").fit(X, y).predict_proba(X), NDArray[Any]
)
refusing = RejectingClassifier(tvq, max_error=0.1).fit(X, y)
assert_type(refusing, RejectingClassifier)
knn = TangentKNeighborsClassifier(3, tangents=ImageTangents(shape=(8, 8)), sides="both")
assert_type(knn.fit(X, y).margins(X, y), NDArray[Any])
assert_type(knn.confidence(X), NDArray[Any])
knn.sides = "query"
TVQClassifier(sides="three")  # type: ignore[arg-type]
TangentKNeighborsClassifier(algorithm="quick")  # type: ignore[arg-type]
TangentSVC(multiclass="one")  # type: ignore[arg-type]
side: Literal["reference", "both"] = tvq.sides
widemargin.save(knn, "model.skops")
labels: NDArray[np.int64] = knn.predict(X)
