"""skl2onnx converts pipelines that hold our classifiers and transformers."""

import numpy as np
import pytest
from sklearn.decomposition import PCA
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from tests.export.models import ALL, glvq, tvq
from tests.export.test_onnx import fitted

import widemargin as wm
from widemargin.export import NotExportable, check_export, register_converters
from widemargin.tangents import GaussianSmoother

skl2onnx = pytest.importorskip("skl2onnx")

PIPELINES = {
    "scaled": lambda: make_pipeline(StandardScaler(), glvq()),
    "pca": lambda: make_pipeline(PCA(8, random_state=0), tvq()),
    "smoothed": lambda: make_pipeline(GaussianSmoother((8, 8)), tvq()),
    "rejecting": lambda: make_pipeline(
        PCA(8, random_state=0),
        wm.RejectingClassifier(glvq(), max_error=0.2, random_state=0),
    ),
    "knn": ALL["knn"],
    "svc": ALL["svc"],
}


@pytest.mark.parametrize("make", PIPELINES.values(), ids=PIPELINES)
@pytest.mark.filterwarnings("ignore")
def test_pipelines_convert(make, digits):
    X, y, X_test, _ = digits
    register_converters()
    names = np.array(["zero", "one", "two", "three"])
    model = fitted(make, X, names[y])
    converted = skl2onnx.to_onnx(model, X[:1], target_opset=18)
    outputs = [output.name for output in converted.graph.output]
    assert outputs[:3] == ["label", "margin", "confidence"]
    agreement = check_export(model, converted, X_test)
    assert agreement.agrees, agreement


@pytest.mark.filterwarnings("ignore")
def test_older_opsets_are_refused(digits):
    X, y, _, _ = digits
    register_converters()
    with pytest.raises(NotExportable, match="target_opset=18"):
        skl2onnx.to_onnx(glvq().fit(X, y), X[:1], target_opset=15)
