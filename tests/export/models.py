"""Every kind of model that `to_onnx` carries, by name; `IN_C` are those of `to_c`."""

import numpy as np
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA, IncrementalPCA, TruncatedSVD
from sklearn.feature_selection import SelectFromModel, SelectKBest, VarianceThreshold
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline, make_union
from sklearn.preprocessing import (
    FunctionTransformer,
    MaxAbsScaler,
    MinMaxScaler,
    Normalizer,
    RobustScaler,
    StandardScaler,
)

import widemargin as wm
from widemargin.tangents import (
    ConvolutionFeatures,
    GaussianSmoother,
    ImageTangents,
    LearnedTangents,
    MultiplicativeScatterCorrection,
    SavitzkyGolay,
    SignalTangents,
    TangentUnion,
)

IMAGES = ImageTangents((8, 8))
UNION = TangentUnion([SignalTangents(), ImageTangents((8, 8), "rotation")])


def glvq(n=1):
    return wm.GLVQClassifier(prototypes_per_class=n, max_iter=3, random_state=0)


def tvq(**options):
    return wm.TVQClassifier(**{"prototypes_per_class": 1, "max_iter": 3, **options})


def _prefit():
    X, y = load_digits(n_class=4, return_X_y=True)
    return glvq().fit(X[400:] / 16, y[400:])


IN_C = {
    "lvq": lambda: wm.LVQClassifier(prototypes_per_class=2, max_iter=2, random_state=0),
    "glvq": glvq,
    "glvq, several": lambda: glvq({0: 1, 1: 3, 2: 2, 3: 1}),
    "gmlvq": lambda: wm.GMLVQClassifier(max_iter=2, random_state=0),
    "gmlvq, few components": lambda: wm.GMLVQClassifier(
        n_components=3, max_iter=2, random_state=0
    ),
    "margin lvq": lambda: wm.MarginLVQClassifier(
        prototypes_per_class=2, max_iter=2, random_state=0
    ),
    "margin lvq, divided": lambda: wm.MarginLVQClassifier(
        scale="within_class_std", max_iter=2, random_state=0
    ),
    "hss": lambda: wm.HSSClassifier(1, n_tangents=3),
    "hss, several": lambda: wm.HSSClassifier(2, n_tangents=3, random_state=0),
    "hss, no tangents": lambda: wm.HSSClassifier(1, n_tangents=0),
    "tvq": tvq,
    "max margin": wm.MaxMarginClassifier,
    "max margin, ovo": lambda: wm.MaxMarginClassifier(multiclass="ovo"),
    "max margin, ddag": lambda: wm.MaxMarginClassifier(multiclass="ddag"),
    "max margin, ovr": lambda: wm.MaxMarginClassifier(multiclass="ovr"),
    "perceptron": lambda: wm.MarginPerceptron(max_iter=20, random_state=0),
    "fixed margin": lambda: wm.FixedMarginPerceptron(max_iter=20, random_state=0),
    "virtual, linear": lambda: wm.VirtualSVC("linear", tangents=np.eye(64)[20:22]),
    "invariant": lambda: wm.InvariantHyperplaneSVC(
        kernel="linear", tangents=np.eye(64)[20:22], shrinkage=0.5, multiclass="ddag"
    ),
    "reweighted": lambda: wm.MarginReweightingClassifier(glvq(), max_iter=2),
    "signals": lambda: wm.SignalClassifier(n_features=500),
    "signals of two channels": lambda: wm.SignalClassifier(2, n_features=500),
    "convolved": lambda: make_pipeline(ConvolutionFeatures(n_features=300), glvq()),
    "spectra": wm.SpectrumClassifier,
    "scatter corrected": lambda: make_pipeline(
        MultiplicativeScatterCorrection(), glvq()
    ),
    "smoothed by polynomials": lambda: make_pipeline(
        SavitzkyGolay(5, 2, 0), MultiplicativeScatterCorrection(), glvq()
    ),
    "standardised": lambda: make_pipeline(StandardScaler(), glvq()),
    "scaled": lambda: make_pipeline(
        MinMaxScaler((-1, 2), clip=True), RobustScaler(), MaxAbsScaler(), glvq()
    ),
    "unit length": lambda: make_pipeline(Normalizer(), tvq()),
    "unit sum": lambda: make_pipeline(Normalizer("l1"), glvq()),
    "unit height": lambda: make_pipeline(Normalizer("max"), "passthrough", glvq()),
    "smoothed": lambda: make_pipeline(
        GaussianSmoother((8, 8), background=0.25), StandardScaler(), tvq()
    ),
    "smoothed signal": lambda: make_pipeline(GaussianSmoother(), glvq()),
    "smoothed channels": lambda: make_pipeline(GaussianSmoother((4, 8, 2)), glvq()),
    "components": lambda: make_pipeline(
        PCA(9), IncrementalPCA(8, whiten=True), TruncatedSVD(6, random_state=0), glvq()
    ),
    "whitened": lambda: make_pipeline(PCA(5, whiten=True), tvq()),
    "selected": lambda: make_pipeline(
        VarianceThreshold(0.01),
        SelectKBest(k=20),
        SelectFromModel(wm.MaxMarginClassifier(), max_features=10),
        glvq(),
    ),
    "by columns": lambda: make_pipeline(
        StandardScaler(),
        make_column_transformer(
            (MinMaxScaler(), [40, 3, 3, 21]),
            ("drop", [1]),
            (make_pipeline(PCA(3), StandardScaler()), slice(8, 30)),
            (PCA(2), np.arange(64) > 50),
            (StandardScaler(), []),
            ("passthrough", [-1]),
            remainder=Normalizer("max"),
        ),
        glvq(),
    ),
    "side by side": lambda: make_pipeline(
        make_union(
            PCA(4),
            make_union(PCA(2), make_column_transformer((PCA(1), [20, 21]))),
            "drop",
            "passthrough",
        ),
        wm.MaxMarginClassifier(),
    ),
    "pipelines in pipelines": lambda: make_pipeline(
        make_pipeline(FunctionTransformer(), make_pipeline("passthrough", PCA(9))),
        FrozenEstimator(StandardScaler().fit(np.eye(9))),
        make_pipeline(MaxAbsScaler(), glvq()),
    ),
    "rejecting": lambda: wm.RejectingClassifier(tvq(), max_error=0.1, random_state=0),
    "rejecting pipeline": lambda: wm.RejectingClassifier(
        make_pipeline(StandardScaler(), glvq()), max_error=0.2, random_state=0
    ),
    "frozen": lambda: wm.RejectingClassifier(
        FrozenEstimator(_prefit()), max_error=0.2, cv="prefit"
    ),
    "searched": lambda: GridSearchCV(
        make_pipeline(StandardScaler(), glvq()),
        {"glvqclassifier__prototypes_per_class": [1, 2]},
        cv=2,
    ),
    "pipeline that rejects": lambda: make_pipeline(
        StandardScaler(),
        wm.RejectingClassifier(glvq(), max_error=0.2, random_state=0),
    ),
}

ONLY_ONNX = {
    "margin lvq, second nearest": lambda: wm.MarginLVQClassifier(
        prototypes_per_class=3, decision="k_nearest", max_iter=2, random_state=0
    ),
    "margin lvq, parzen": lambda: wm.MarginLVQClassifier(
        prototypes_per_class=3, decision="parzen", max_iter=2, random_state=0
    ),
    "margin lvq, parzen, divided": lambda: wm.MarginLVQClassifier(
        prototypes_per_class=3,
        decision="parzen",
        scale="within_class_std",
        max_iter=2,
        random_state=0,
    ),
    "kernel lvq": lambda: wm.KernelLVQClassifier(2, max_iter=2, random_state=0),
    "kernel lvq, few": lambda: make_pipeline(
        StandardScaler(),
        wm.KernelLVQClassifier(
            1, max_support=60, n_components=9, max_iter=2, random_state=0
        ),
    ),
    "neuron": lambda: wm.TDNeuronClassifier(max_tangents=2, max_iter=3, random_state=0),
    "hss, two sides": lambda: wm.HSSClassifier(
        1, n_tangents=3, sides="both", tangents=IMAGES, max_iter=2
    ),
    "tvq, two sides": lambda: tvq(sides="both", tangents=IMAGES),
    "tvq, shared tangents": lambda: tvq(sides="both", tangents=LearnedTangents(3)),
    "tvq, union": lambda: tvq(sides="both", tangents=UNION),
    "knn": lambda: wm.TangentKNeighborsClassifier(tangents=IMAGES),
    "knn, x": lambda: wm.TangentKNeighborsClassifier(tangents=IMAGES, sides="query"),
    "knn, y": lambda: wm.TangentKNeighborsClassifier(
        tangents=IMAGES, sides="reference"
    ),
    "knn, mean": lambda: wm.TangentKNeighborsClassifier(tangents=IMAGES, sides="mean"),
    "knn, shared": lambda: wm.TangentKNeighborsClassifier(tangents=np.eye(64)[20:23]),
    "three neighbours": lambda: wm.TangentKNeighborsClassifier(3, tangents=IMAGES),
    "five by distance": lambda: wm.TangentKNeighborsClassifier(
        5, weights="distance", tangents=np.eye(64)[20:23]
    ),
    "svc": lambda: wm.TangentSVC(tangents=IMAGES, multiclass="ovo"),
    "svc, ddag": lambda: wm.TangentSVC(tangents=IMAGES, multiclass="ddag"),
    "svc, two": lambda: wm.TangentSVC(
        tangents=IMAGES, sides="both", spring=0.1, multiclass="ovo"
    ),
    "svc, repaired": lambda: wm.TangentSVC(
        tangents=IMAGES, sides="both", spring=1e-5, psd_correction="clip"
    ),
    "svc, x": lambda: wm.TangentSVC(tangents=IMAGES, sides="query", multiclass="ovo"),
    "svc, nd": lambda: wm.TangentSVC(
        kernel="nd", tangents=np.eye(64)[20:23], multiclass="ovo"
    ),
    "svc, log": lambda: wm.TangentSVC(
        kernel="log", tangents=IMAGES, sides="reference", multiclass="ovo"
    ),
    "max margin, rbf": lambda: wm.MaxMarginClassifier(
        kernel="rbf", multiclass="ovo", C=10.0
    ),
    "virtual": lambda: wm.VirtualSVC(tangents=IMAGES, step=0.1, multiclass="ddag"),
    "invariant, rbf": lambda: wm.InvariantHyperplaneSVC(
        kernel="rbf", tangents=np.eye(64)[20:22], n_components=60, random_state=0
    ),
    "svc, landmarks": lambda: wm.TangentSVC(
        tangents=IMAGES, n_landmarks=40, random_state=0, multiclass="ovo"
    ),
}

ALL = IN_C | ONLY_ONNX
