"""What meta-estimators share."""

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.metrics import pairwise_distances
from sklearn.svm import SVC

from widemargin import (
    DDAGClassifier,
    MarginReweightingClassifier,
    ProductClassifier,
    RejectingClassifier,
    RelationalLVQClassifier,
)


@pytest.mark.parametrize(
    "model",
    [
        RejectingClassifier(RelationalLVQClassifier(), max_error=0.2),
        MarginReweightingClassifier(SVC(kernel="precomputed")),
        ProductClassifier([("all pairs", RelationalLVQClassifier())]),
        DDAGClassifier(SVC(kernel="precomputed")),
    ],
    ids=lambda model: type(model).__name__,
)
def test_matrices_of_all_pairs_are_not_cut(model):
    X, y = load_iris(return_X_y=True)
    with pytest.raises(ValueError, match=r"^estimators?\b.* a matrix of all pairs"):
        model.fit(pairwise_distances(X), y)


def test_a_fitted_model_of_pairs_may_refuse():
    X, y = load_iris(return_X_y=True)
    D, learns = pairwise_distances(X), np.arange(len(X)) % 2 == 0
    inner = RelationalLVQClassifier(random_state=0).fit(D[learns][:, learns], y[learns])
    model = RejectingClassifier(inner, max_error=0.2, cv="prefit")
    model.fit(D[~learns][:, learns], y[~learns])
    assert model.accepts(D[:, learns]).mean() > 0.8
