"""Signals and spectra that were measured.

Seventeen sets of the UCR archive, in their own splits: heart beats, motions, outlines
of leaves and faces, and spectra of food. Their home publishes zips of text, ``.ts``,
without checksums, so a download is checked by the digest of its rows. Two sets of
spectra, tecator and fruit, come with packages of R and are read from a folder only.

Spectra are rows of absorbance by wavelength, signals rows of values by time, float32.

Reference: H. A. Dau et al., The UCR time series archive, IEEE/CAA J. Autom. Sinica 6
(2019); H. H. Thodberg, tecator, StatLib (1995); M. Hubert, P. Rousseeuw, fruit, in
rrcov.
"""

import zipfile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from widemargin._core.checks import check_option
from widemargin.datasets import home

UCR = "https://timeseriesclassification.com/aeon-toolkit/"
# Sets that are spectra, and lie with these.
SPECTRA = ("Beef", "Coffee", "Ham")
# Digests of the training part and of the test part.
DIGESTS = {
    "Beef": (
        "3a9257059e0a5f88deecb35098847fba26ef616620eddd9a5cc84d0bdd10c750",
        "512e2bde1a991be30226c6918a6e39099eaed42b5bf0a984755fd1120dbc7756",
    ),
    "Coffee": (
        "2f6ffaa34f0eb7460776b5253006883e62c0a86ec27dafdc41b4503fc58abeb1",
        "9897845291d8d94a6c652f5fdc90ce7467234c50237aa8acb9731ad1a0423190",
    ),
    "Ham": (
        "4dad39834a969d731b52d183be7dfe2ab2ec19d43ea9f567316ea8559c38d2d0",
        "570642b0bb44756750d6526935b540ff3824ce7d51344ab689539dfaf7aa3dd3",
    ),
    "ArrowHead": (
        "3b328f04e4085eab019884b4f5c4e05e44718a5daceb5bcac5b18fc74bbbc359",
        "07002e38f82e26fc51777c7ff882ab02b850ac2c4f2dbe39eb2de5fc89c24651",
    ),
    "BME": (
        "3d36dfe5c137e202585cd925a4ed78218781d264993717be94ca338a204e5361",
        "34be5e0f6b17c79261adbc0bda3964ebd8dde5c6d23a9d9fc2d455a0422d1318",
    ),
    "CBF": (
        "859b1e69385fa4f49443987c493f646a01d8ba7c267e20130e08a0dea622d8eb",
        "ab6e4bf0ccba30502f1a1ac98fce2024998d87312f71b20b7689c48e02febdce",
    ),
    "ECG200": (
        "ab280681ea85cc41e3dd8ad057fb73de55d446e335493804874ed78bd6164dcc",
        "6dc11283f97b57082e800d253c1dfd7fe26d703915a74988cdebc5fb9c0adb5a",
    ),
    "FaceFour": (
        "5dbc0bb25cfca621e84eb1d374ba325fc76f7344e9b10c69adf17085bbe03a76",
        "2ef778a9e21b1dcadb8c09177e423057fd95831b0bae631d46b6e8ad8a9d85c1",
    ),
    "GunPoint": (
        "cc94301aeadb387613a877547151342bf5a2f12a685e65273cee1768a12c848a",
        "5781ad38843d9f611b43796176af28df52f67e3424d48a17454d34de79137e26",
    ),
    "ItalyPowerDemand": (
        "475e41ed37f95db6837441e20748d68bdd69b9a0f24b73ae471a8c508e18df2f",
        "a52f2cd9b6b284008e56a20fba965ddca86619e1fe615e4763c9194305ac99d3",
    ),
    "Lightning7": (
        "be2f2dca8e8303165aa379b15288d1e058492dd45ed29baebab0ed3984f09f2e",
        "744a4d7e16e0e0468d5cd9a45f5994ffb60db1dee0fe9619ddec0448a42d0365",
    ),
    "MedicalImages": (
        "11849205955578b750af9847c079b0f9daa6955d9018e95a47e51157b21e4408",
        "361fdecfad1cb4a1c00d61bf18eb5442b26c3cc96dd955ff5106b8692730716b",
    ),
    "OSULeaf": (
        "d60d21e7f53b57a6b5739ae37f083d1ac670fa5b014e5afabea50e922b90b361",
        "0d67f62f2810247d81d2a4ede7303eee29a5801b0ebe3e90c902f97c7d0cf017",
    ),
    "Plane": (
        "ef8289b46522d632d3d26c37b4f97e8e3b0b298417495367006be55d5f78053a",
        "7a8bec03cfd5a85d297cc1e223c946441ed9858a6684d708ff161c043b3d388f",
    ),
    "SyntheticControl": (
        "3b5dc7d6695dec6b1cf8a97adc2d1ac9e49e2627b9fe3ab90f2cfae10d771126",
        "41e0ae00e14d6fe008bacfd5dbc7cbe0acdd40f028fd1d7c665bbebf4e75c55d",
    ),
    "Trace": (
        "df00df3932c872ee91f0bd2419ba387d24e0d5deba897c912d1286d909b8ec4f",
        "58b9e57ce4a66c980e08384bf2c9c4e1a35902b9a7940d4d45e52b3218355c1a",
    ),
    "TwoLeadECG": (
        "40c14eaddcca2f6227ef5fe79e0700919fb9c167ec4aa2da49686b10d12e1359",
        "92f9e99670dcbff4371e1deefd40e775ff86a2bc2132e8abb6d6c1e58b5aff5b",
    ),
}
TECATOR = np.linspace(850, 1048, 100)


def load_ucr(
    name: str,
    *,
    subset: str = "all",
    data_home: home.PathLike = None,
    download_if_missing: bool = True,
    return_X_y: bool = False,
) -> Any:
    """Load one of seventeen sets of the UCR archive: signals, and spectra of food.

    Parameters
    ----------
    name : str
        "Beef", "Coffee" and "Ham" are spectra; "ArrowHead", "BME", "CBF", "ECG200",
        "FaceFour", "GunPoint", "ItalyPowerDemand", "Lightning7", "MedicalImages",
        "OSULeaf", "Plane", "SyntheticControl", "Trace" and "TwoLeadECG" are signals.
    subset : {"train", "test", "all"}, default="all"
        Which rows, in the archive's own split; "all" is train first, then test.
    data_home : path, optional
        Folder with ``signals/`` and ``spectra/``: see :func:`get_data_home`.
    download_if_missing : bool, default=True
        If False, raise FileNotFoundError where the files are absent.
    return_X_y : bool, default=False
        Return only ``(data, target)``.

    Returns
    -------
    Bunch
        ``data`` (n, length) float32, every row with mean 0 and standard deviation 1 in
        most sets; ``target``, ``target_names``, ``n_train``, ``DESCR``. Euclidean 1-NN
        errs on 8.7 % of GunPoint's test part.

    Examples
    --------
    >>> from widemargin.datasets import load_ucr
    >>> load_ucr("GunPoint", subset="test").data.shape  # doctest: +SKIP
    (150, 150)
    """
    check_option("name", name, DIGESTS)
    is_spectrum = name in SPECTRA
    packed = f"{name.lower() if is_spectrum else name}.npz"
    zipped = home.Source(f"{name}.zip", f"{UCR}{name}.zip")

    def verify(folder: Path) -> None:
        home.check_content(DIGESTS[name], *_from_zip(folder / zipped.name, name))

    folder = home.find_or_fetch(
        home.get_data_home(data_home) / ("spectra" if is_spectrum else "signals"),
        [zipped],
        ready=[packed],
        download=download_if_missing,
        verify=verify,
    )
    if (folder / packed).is_file():
        file = home.read_npz(folder / packed)
        parts = [(file[f"X_{p}"], file[f"y_{p}"]) for p in ("train", "test")]
    else:
        parts = _from_zip(folder / zipped.name, name)
    train, test = ((X.astype(np.float32), y.astype(np.int64)) for X, y in parts)
    return home.split_bunch(
        train, test, subset=subset, return_X_y=return_X_y,
        target_names=np.unique(train[1]), DESCR=load_ucr.__doc__,
    )  # fmt: skip


def _from_zip(path: Path, name: str) -> list[tuple[NDArray, NDArray]]:
    """Return the parts (X, y) of an archive of .ts files; labels are 0, 1, ..."""
    try:
        with zipfile.ZipFile(path) as archive:
            texts = [archive.read(f"{name}_{part}.ts") for part in ("TRAIN", "TEST")]
    except (zipfile.BadZipFile, KeyError) as error:
        raise ValueError(f"{path.name} is no archive of {name} ({error})") from error
    parts = [_from_text(text.decode("utf-8", "replace")) for text in texts]
    known = sorted({label for _, labels in parts for label in labels}, key=float)
    codes = {label: code for code, label in enumerate(known)}
    return [(X, np.array([codes[label] for label in labels])) for X, labels in parts]


def _from_text(text: str) -> tuple[NDArray, list[str]]:
    """Return what follows @data: values with commas, a colon, the label."""
    lines = [line.strip() for line in text.splitlines()]
    start = [line.lower() for line in lines].index("@data") + 1
    rows, labels = [], []
    for line in filter(None, lines[start:]):
        values, label = line.rsplit(":", 1)
        rows.append(np.array(values.split(","), float))
        labels.append(label)
    return np.array(rows, np.float32), labels


class PackageSet(NamedTuple):
    """A set that comes with a package of R: how to make its file there."""

    name: str
    package: str
    digest: str

    def read(self, data_home: home.PathLike) -> tuple[NDArray, NDArray]:
        """Return (X, y), or say where the file belongs and what it holds."""
        path = home.get_data_home(data_home) / "spectra" / f"{self.name}.npz"
        if not path.is_file():
            raise FileNotFoundError(
                f"{path} is not there. The data come with the package {self.package} "
                "of R, which is not read here; write its spectra and classes 0, 1, ... "
                f"to the arrays X and y of {path.name}, or set {home.ENVIRONMENT} or "
                "data_home= to the folder that holds spectra/."
            )
        file = home.read_npz(path)
        X, y = file["X"].astype(np.float32), file["y"].astype(np.int64)
        try:
            home.check_content([self.digest], (X, y))
        except ValueError as error:
            raise OSError(f"{path} is not what it should be ({error}).") from error
        return X, y


TECATOR_SET = PackageSet(
    "tecator",
    "caret (tecator)",
    "3cbdf9eec9e6cbc9a3a6740069e2bbb676dc9139c2ac242d860c19f1ba8b382f",
)
FRUIT_SET = PackageSet(
    "fruit",
    "rrcov (fruit)",
    "9781d94a9296ebe0c6de6192de05943bc5857a985120bc9f1406e8b2d9feec26",
)


def load_tecator(*, data_home: home.PathLike = None, return_X_y: bool = False) -> Any:
    """Load tecator: 215 near-infrared spectra of minced meat; 1 is fat above 20 %.

    Parameters
    ----------
    data_home : path, optional
        Folder with ``spectra/``: see :func:`get_data_home`.
    return_X_y : bool, default=False
        Return only ``(data, target)``.

    Returns
    -------
    Bunch
        ``data`` (215, 100) float32, absorbances; ``wavelengths`` (100,), 850 to 1048
        nm; ``target``, ``target_names``, ``DESCR``.

    Examples
    --------
    >>> from widemargin.datasets import load_tecator
    >>> load_tecator().data.shape  # doctest: +SKIP
    (215, 100)
    """
    X, y = TECATOR_SET.read(data_home)
    return home.bunch(
        X, y, return_X_y=return_X_y, target_names=["lean", "fat"],
        wavelengths=TECATOR, DESCR=load_tecator.__doc__,
    )  # fmt: skip


def load_fruit(*, data_home: home.PathLike = None, return_X_y: bool = False) -> Any:
    """Load fruit: 1096 near-infrared spectra of melons of three cultivars.

    One cultivar holds a group that was measured after a change of lamp.

    Parameters
    ----------
    data_home : path, optional
        Folder with ``spectra/``: see :func:`get_data_home`.
    return_X_y : bool, default=False
        Return only ``(data, target)``.

    Returns
    -------
    Bunch
        ``data`` (1096, 256) float32; ``target``, ``target_names``, ``DESCR``.

    Examples
    --------
    >>> from widemargin.datasets import load_fruit
    >>> load_fruit().data.shape  # doctest: +SKIP
    (1096, 256)
    """
    X, y = FRUIT_SET.read(data_home)
    return home.bunch(
        X, y, return_X_y=return_X_y, target_names=np.unique(y),
        DESCR=load_fruit.__doc__,
    )  # fmt: skip
