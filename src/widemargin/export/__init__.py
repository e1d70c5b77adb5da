"""Fitted models outside Python: ONNX graphs and C headers, with margins.

:func:`to_onnx` and :func:`to_c` write what a fitted classifier does to a sample, with
its margins and, where a threshold was learned, its refusals; :func:`check_export` runs
the result and compares. What cannot be carried exactly is refused, by
:class:`NotExportable`. All of it needs ``pip install 'widemargin[onnx]'``, the header
only a C compiler where it is checked.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from numpy.typing import ArrayLike

from widemargin._core.checks import check_option
from widemargin.export.program import NotExportable

__all__ = ["NotExportable", "check_export", "register_converters", "to_c", "to_onnx"]


# What the extra "onnx" brings.
_EXTRA = ("onnx", "onnxruntime", "skl2onnx")


@contextmanager
def _needing(what: str) -> Iterator[None]:
    """Say how to get a library of the extra that is missing."""
    try:
        yield
    except ModuleNotFoundError as missing:
        if missing.name not in _EXTRA:
            raise
        raise ModuleNotFoundError(
            f"{what} needs {missing.name}: pip install 'widemargin[onnx]'",
            name=missing.name,
        ) from None


def to_onnx(model: Any, *, dtype: str = "float32") -> Any:
    """Return a fitted classifier as an ONNX model.

    Parameters
    ----------
    model : fitted classifier
        LVQ, MarginLVQ, GLVQ, GMLVQ, HSS, TVQ, TD-Neuron, kernel LVQ ("rbf"),
        :class:`~widemargin.TangentKNeighborsClassifier`. With the kernels "linear" and
        "rbf" the hyperplanes of :mod:`widemargin.linear`,
        :class:`~widemargin.TangentSVC`, :class:`~widemargin.VirtualSVC` and
        :class:`~widemargin.InvariantHyperplaneSVC`. A
        :class:`~widemargin.RejectingClassifier` around one of them, or a pipeline that
        ends in one. Before it may be, of scikit-learn, scalers, ``SimpleImputer``,
        ``PCA``, ``TruncatedSVD``, selectors of features, ``ColumnTransformer``,
        ``FeatureUnion`` and pipelines of these, and
        :class:`~widemargin.tangents.GaussianSmoother`.
    dtype : {"float32", "float64"}, default="float32"
        Of the input and of the arithmetic. Distances to many references, those in
        which the samples bend, hyperplanes and TD-Neuron are in float64 in either case.

    Returns
    -------
    onnx.ModelProto
        Input ``X`` (n, n_features). Outputs ``label`` (n,), ``margin`` (n, n_classes),
        ``confidence`` (n,), and ``accepted`` (n,) where a threshold was learned: what
        is not accepted has the reject label. A ``SimpleImputer`` in the pipeline
        replaces NaN. Without one a sample with NaN has a confidence of NaN and is not
        accepted. Nor is one whose squares overflow `dtype`. Opset 18, default domain
        only; ``model.SerializeToString()`` are the bytes of the file.

    Raises
    ------
    NotExportable
        If the model does more than products and elementwise steps can.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from widemargin import GLVQClassifier
    >>> from widemargin.export import to_onnx
    >>> X, y = load_iris(return_X_y=True)
    >>> graph = to_onnx(GLVQClassifier(random_state=0).fit(X, y)).graph
    >>> [output.name for output in graph.output]
    ['label', 'margin', 'confidence']
    """
    from widemargin.export.describe import describe
    from widemargin.export.onnx_graph import onnx_model

    check_option("dtype", dtype, ("float32", "float64"))
    with _needing("to_onnx"):
        return onnx_model(describe(model), dtype)


def to_c(model: Any, *, name: str = "model", dtype: str = "float32") -> str:
    """Return a fitted classifier as one self-contained C99 header.

    Parameters
    ----------
    model : fitted classifier
        LVQ, MarginLVQ, GLVQ and GMLVQ. HSS and TVQ with tangents at the models only.
        Hyperplanes of :mod:`widemargin.linear` and of the support vector machines with
        a linear kernel. A :class:`~widemargin.RejectingClassifier` around one of them,
        or a pipeline that ends in one, with the steps that :func:`to_onnx` knows.
    name : str, default="model"
        What the functions of the header are called after.
    dtype : {"float32", "int8"}, default="float32"
        Of the tables; the arithmetic is float32. With int8 the rounding error of a
        margin has a proven bound. It is added to the threshold of a
        :class:`~widemargin.RejectingClassifier`: what its header answers, the model in
        Python answers alike.

    Returns
    -------
    str
        ``int NAME_predict(const float *x, float *margin)`` returns the number of the
        class, or -1 if rejected, and writes the confidence. ``NAME_margins`` gives the
        margins of all classes, and a lower bound of the best one before rounding.
        ``NAME_label`` gives the label of an answer. A sample with infinity, with NaN
        that no imputer fills in, or too far away for squares is answered by -1, with
        -ffast-math too. Its label is ``NAME_NO_LABEL``: the reject label, or one that
        no class has (empty text, -1). No heap; of the mathematics library at most
        ``sqrtf`` and ``fabsf``.

    Raises
    ------
    NotExportable
        If the model needs more than that.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from widemargin import GLVQClassifier
    >>> from widemargin.export import to_c
    >>> X, y = load_iris(return_X_y=True)
    >>> header = to_c(GLVQClassifier(random_state=0).fit(X, y), name="iris")
    >>> "static inline int iris_predict(const float *x, float *margin)" in header
    True
    """
    from widemargin.export.c_header import c_header
    from widemargin.export.describe import describe

    check_option("dtype", dtype, ("float32", "int8"))
    return c_header(describe(model), name, dtype).text


def check_export(model: Any, exported: Any, X: ArrayLike) -> Any:
    """Run an exported model, and compare its answers with those of the original.

    Parameters
    ----------
    model : fitted classifier
        What was exported.
    exported : onnx.ModelProto, bytes or str
        What :func:`to_onnx` or :func:`to_c` returned; the latter is compiled by gcc,
        with sanitisers.
    X : array-like of shape (n_samples, n_features)
        Samples to compare on.

    Returns
    -------
    Agreement
        ``agrees`` is True if margins differ by at most 1e-5 of their scale, and labels
        only where the margin is smaller. For int8 headers it is True if their bound
        holds. ``str`` of it is a line with the counts.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from widemargin import GLVQClassifier
    >>> from widemargin.export import check_export, to_onnx
    >>> X, y = load_iris(return_X_y=True)
    >>> model = GLVQClassifier(random_state=0).fit(X, y)
    >>> check_export(model, to_onnx(model), X).agrees
    True
    """
    from widemargin.export.agreement import check

    with _needing("check_export"):
        return check(model, exported, X)


def register_converters() -> None:
    """Teach skl2onnx the classifiers and transformers of widemargin.

    Afterwards ``skl2onnx.to_onnx(..., target_opset=18)`` converts pipelines and other
    compositions that hold them, with the outputs of :func:`to_onnx`.

    Examples
    --------
    >>> import numpy as np
    >>> import skl2onnx
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.decomposition import PCA
    >>> from sklearn.pipeline import make_pipeline
    >>> from widemargin import GLVQClassifier
    >>> from widemargin.export import register_converters
    >>> register_converters()
    >>> X, y = load_iris(return_X_y=True)
    >>> model = make_pipeline(PCA(2), GLVQClassifier(random_state=0)).fit(X, y)
    >>> sample = X[:1].astype(np.float32)
    >>> graph = skl2onnx.to_onnx(model, sample, target_opset=18).graph
    >>> [output.name for output in graph.output]
    ['label', 'margin', 'confidence']
    """
    from widemargin.export.onnx_graph import register

    with _needing("register_converters"):
        register()
