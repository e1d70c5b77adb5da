"""Tangents of images, signals, spectra and any transformation, given or learned."""

from widemargin.tangents.bundle import Bundle, orthonormalize
from widemargin.tangents.convolution_features import (
    ConvolutionFeatures,
    pad_series,
)
from widemargin.tangents.direction_features import DirectionFeatures
from widemargin.tangents.generator import TangentGenerator, TangentUnion, as_bundle
from widemargin.tangents.image import (
    ImageAffine,
    ImageShift,
    ImageTangents,
    image_affines,
    image_shifts,
)
from widemargin.tangents.learned import LearnedTangents
from widemargin.tangents.preparing import Deskew, GaussianSmoother
from widemargin.tangents.signal import (
    SignalShift,
    SignalStretch,
    SignalTangents,
    signal_shifts,
)
from widemargin.tangents.spectra import (
    MultiplicativeScatterCorrection,
    SavitzkyGolay,
    StandardNormalVariate,
    resample_spectra,
)
from widemargin.tangents.spectrum_tangents import SpectrumTangents
from widemargin.tangents.transform import TransformTangents

__all__ = [
    "Bundle",
    "ConvolutionFeatures",
    "Deskew",
    "DirectionFeatures",
    "GaussianSmoother",
    "ImageAffine",
    "ImageShift",
    "ImageTangents",
    "LearnedTangents",
    "MultiplicativeScatterCorrection",
    "SavitzkyGolay",
    "SignalShift",
    "SignalStretch",
    "SignalTangents",
    "SpectrumTangents",
    "StandardNormalVariate",
    "TangentGenerator",
    "TangentUnion",
    "TransformTangents",
    "as_bundle",
    "image_affines",
    "image_shifts",
    "orthonormalize",
    "pad_series",
    "resample_spectra",
    "signal_shifts",
]
