"""Wide-margin, transformation-invariant classifiers for scikit-learn.

The library has four steps, and each is a package. Tangents describe changes that do not
matter (:mod:`widemargin.tangents`). Distances ignore them (:mod:`widemargin.metrics`).
Margins say how sure an answer is (:mod:`widemargin.margins`). Classifiers learn with
both. All estimators can be imported from here; the rest lives in its package.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from widemargin._compute.progress import show_progress
    from widemargin.comparison import compare
    from widemargin.fewshot import FewShotImageClassifier
    from widemargin.linear import (
        FixedMarginPerceptron,
        MarginPerceptron,
        MaxMarginClassifier,
        SignalClassifier,
        SpectrumClassifier,
    )
    from widemargin.meta import (
        ConformalClassifier,
        MarginReweightingClassifier,
        MixtureImputer,
        ProductClassifier,
        PromiseMonitor,
        RejectingClassifier,
    )
    from widemargin.neighbors import (
        DensityClassifier,
        TangentDensityClassifier,
        TangentKNeighborsClassifier,
    )
    from widemargin.prototypes import (
        GLVQClassifier,
        GMLVQClassifier,
        HSSClassifier,
        KernelLVQClassifier,
        LVQClassifier,
        MarginLVQClassifier,
        RelationalLVQClassifier,
        TDNeuronClassifier,
        TVQClassifier,
    )
    from widemargin.saving import load, save
    from widemargin.svm import (
        DDAGClassifier,
        InvariantHyperplaneSVC,
        JitteredSVC,
        TangentSVC,
        VirtualSVC,
    )

__version__ = "0.1.0"

# Everything loads on first use, so that importing the package stays as cheap as
# importing scikit-learn.
_SUBPACKAGES = (
    "datasets",
    "export",
    "fewshot",
    "inspection",
    "linear",
    "margins",
    "meta",
    "metrics",
    "neighbors",
    "prototypes",
    "svm",
    "tangents",
)
_ESTIMATORS = {
    "ConformalClassifier": "meta",
    "DDAGClassifier": "svm",
    "DensityClassifier": "neighbors",
    "FewShotImageClassifier": "fewshot",
    "FixedMarginPerceptron": "linear",
    "GLVQClassifier": "prototypes",
    "GMLVQClassifier": "prototypes",
    "HSSClassifier": "prototypes",
    "InvariantHyperplaneSVC": "svm",
    "JitteredSVC": "svm",
    "KernelLVQClassifier": "prototypes",
    "LVQClassifier": "prototypes",
    "MarginLVQClassifier": "prototypes",
    "MarginPerceptron": "linear",
    "MarginReweightingClassifier": "meta",
    "MaxMarginClassifier": "linear",
    "SignalClassifier": "linear",
    "SpectrumClassifier": "linear",
    "ProductClassifier": "meta",
    "RejectingClassifier": "meta",
    "RelationalLVQClassifier": "prototypes",
    "TDNeuronClassifier": "prototypes",
    "TVQClassifier": "prototypes",
    "TangentDensityClassifier": "neighbors",
    "TangentKNeighborsClassifier": "neighbors",
    "TangentSVC": "svm",
    "VirtualSVC": "svm",
}
_OTHERS = {
    "MixtureImputer": "meta",
    "PromiseMonitor": "meta",
    "compare": "comparison",
    "load": "saving",
    "save": "saving",
    "show_progress": "_compute.progress",
}

__all__ = [
    "ConformalClassifier",
    "DDAGClassifier",
    "DensityClassifier",
    "FewShotImageClassifier",
    "FixedMarginPerceptron",
    "GLVQClassifier",
    "GMLVQClassifier",
    "HSSClassifier",
    "InvariantHyperplaneSVC",
    "JitteredSVC",
    "KernelLVQClassifier",
    "LVQClassifier",
    "MarginLVQClassifier",
    "MarginPerceptron",
    "MarginReweightingClassifier",
    "MaxMarginClassifier",
    "MixtureImputer",
    "ProductClassifier",
    "PromiseMonitor",
    "RejectingClassifier",
    "RelationalLVQClassifier",
    "SignalClassifier",
    "SpectrumClassifier",
    "TDNeuronClassifier",
    "TVQClassifier",
    "TangentDensityClassifier",
    "TangentKNeighborsClassifier",
    "TangentSVC",
    "VirtualSVC",
    "__version__",
    "compare",
    "datasets",
    "export",
    "fewshot",
    "inspection",
    "linear",
    "load",
    "margins",
    "meta",
    "metrics",
    "neighbors",
    "prototypes",
    "save",
    "show_progress",
    "svm",
    "tangents",
]


def __getattr__(name: str) -> Any:
    if name in _SUBPACKAGES:
        return import_module(f"widemargin.{name}")
    home = _ESTIMATORS.get(name) or _OTHERS.get(name)
    if home:
        return getattr(import_module(f"widemargin.{home}"), name)
    raise AttributeError(f"module 'widemargin' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
