"""Tables: the small UCI sets of the literature on margins, and two large sparse ones.

Features of the UCI sets are float64 as published; scale them as your model likes. They
are one label among numbers, in text files of a dozen conventions. A table is read from
``NAME/NAME.npz`` where that exists, else from the original text. Nobody publishes
checksums of the texts, so a download is checked by the digest of its rows
(`content_digest`).

Of the LIBSVM collection there are a9a (Adult) and w8a (web pages): features are zeros
and ones in a CSR matrix; labels are −1 and 1.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from string import ascii_uppercase
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from widemargin.datasets import home

LIBSVM = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/binary/"


UCI = "https://archive.ics.uci.edu/ml/machine-learning-databases/"


def _load(
    published: "TextTable | SparseSet",
    loader: Callable,
    data_home: home.PathLike,
    download: bool,
    return_X_y: bool,
    subset: str | None = None,
    *,
    drop_missing: bool = False,
) -> Any:
    """Return the Bunch of a public loader, which describes it."""
    folder = home.find_or_fetch(
        home.get_data_home(data_home) / published.name,
        published.sources,
        ready=published.ready,
        download=download,
        verify=published.verify,
    )
    parts = published.read(folder)
    extra: dict[str, Any] = {
        "return_X_y": return_X_y,
        "target_names": published.target_names,
        "DESCR": loader.__doc__,
    }
    if published.image_shape is not None:
        extra["image_shape"] = published.image_shape
    if subset is not None:
        return home.split_bunch(*parts, subset=subset, **extra)
    X, y = parts[0]
    if drop_missing:
        whole = ~np.isnan(X).any(axis=1)
        X, y = X[whole], y[whole]
    return home.bunch(X, y, **extra)


@dataclass(frozen=True)
class TextTable:
    """How the original text of a set is laid out, and what it must contain."""

    name: str
    files: Sequence[str]  # paths below UCI
    digests: Sequence[str]  # one per part: train and test, or the whole
    target_names: ArrayLike
    separator: str | None = ","
    label_first: bool = False
    skip: int = 0  # leading columns that are neither label nor feature
    label_codes: dict[str, int] | None = None
    n_train: int | None = None  # split of a set that comes in one file
    image_shape: tuple[int, int] | None = None
    load = _load

    @property
    def sources(self) -> list[home.Source]:
        """The original files."""
        return [home.Source(Path(file).name, UCI + file) for file in self.files]

    @property
    def ready(self) -> list[str]:
        """All arrays in one file."""
        return [f"{self.name}.npz"]

    def read(self, folder: Path) -> list[tuple[NDArray, NDArray]]:
        """Return the parts (X, y), from npz or from text."""
        if not (folder / self.ready[0]).is_file():
            return self._read_text(folder)
        file = home.read_npz(folder / self.ready[0])
        if "X" in file:
            parts = self._split(file["X"], file["y"])
        else:
            parts = [(file[f"X_{p}"], file[f"y_{p}"]) for p in ("train", "test")]
        return [(X.astype(np.float64), y.astype(np.int64)) for X, y in parts]

    def _read_text(self, folder: Path) -> list[tuple[NDArray, NDArray]]:
        parts = [self._parse(folder / source.name) for source in self.sources]
        return parts if len(parts) > 1 else self._split(*parts[0])

    def _split(self, X, y) -> list[tuple[NDArray, NDArray]]:
        if self.n_train is None:
            return [(X, y)]
        return [
            (X[: self.n_train], y[: self.n_train]),
            (X[self.n_train :], y[self.n_train :]),
        ]

    def _parse(self, path: Path) -> tuple[NDArray, NDArray]:
        lines = path.read_text().splitlines()
        rows = [
            line.split(self.separator)[self.skip :] for line in lines if line.strip()
        ]
        at = 0 if self.label_first else -1
        labels = [row.pop(at).strip() for row in rows]
        codes = self.label_codes
        y = [int(label) if codes is None else codes[label] for label in labels]
        X = [[float(v) if v.strip() != "?" else np.nan for v in row] for row in rows]
        return np.array(X), np.array(y, dtype=np.int64)

    def verify(self, folder: Path) -> None:
        """Raise ValueError unless the text in `folder` holds this set."""
        try:
            parts = self._read_text(folder)
        except (KeyError, IndexError, UnicodeDecodeError) as error:
            raise ValueError(f"unreadable: {error}") from error
        home.check_content(self.digests, *parts)


SOILS = (
    *("red soil", "cotton crop", "grey soil", "damp grey soil"),
    *("soil with vegetation stubble", "very damp grey soil"),
)
OPTDIGITS = TextTable(
    "optdigits",
    ["optdigits/optdigits.tra", "optdigits/optdigits.tes"],
    [
        "e961b8f7cce79f03b4b25f17ca7fc011d29fea7ed1cc9a0bed450288a0841a65",
        "cf98bd35663efcee3e2ee050a2d37f740080bf65b73fd6fd1ee17c8ee7e69ffd",
    ],
    np.arange(10),
    image_shape=(8, 8),
)
PENDIGITS = TextTable(
    "pendigits",
    ["pendigits/pendigits.tra", "pendigits/pendigits.tes"],
    [
        "042d6e8aca2070853f090d93aaa977f695d163662bfe771f143515468dce75e8",
        "a127948262cb416cb82aadd530494d93dca3a45f6d2421eea6e81181d66e0fd0",
    ],
    np.arange(10),
)
SATIMAGE = TextTable(
    "satimage",
    ["statlog/satimage/sat.trn", "statlog/satimage/sat.tst"],
    [
        "eeff3103667849667ca40713cf56ef495a91dcff8488d39875c334de20ae47a9",
        "57dca05f0ba23ac02e19fed444639c2764ba6b5ef2a6fe0cfcff892c226c34ed",
    ],
    SOILS,
    separator=None,
)
LETTER = TextTable(
    "letter",
    ["letter-recognition/letter-recognition.data"],
    [
        "8315850970423e380cb13d77e1499991864affc2b867cfab4fdb766756ecde63",
        "d471edebbab27513619d6c9ba81e03851fc65a380384c39d91e669700228321f",
    ],
    list(ascii_uppercase),
    label_first=True,
    label_codes={letter: code for code, letter in enumerate(ascii_uppercase)},
    n_train=16_000,
)
SONAR = TextTable(
    "sonar",
    ["undocumented/connectionist-bench/sonar/sonar.all-data"],
    ["eab7ae1f54b47332ccf245abf8982c2ae18c7251ed5c22ae003efa1585a06cae"],
    ["rock", "mine"],
    label_codes={"R": 0, "M": 1},
)
IONOSPHERE = TextTable(
    "ionosphere",
    ["ionosphere/ionosphere.data"],
    ["da68983d9ae66ddec435a780578e3a19ce138db8ef95a1bd8b6a22f8d6709ca0"],
    ["bad", "good"],
    label_codes={"b": 0, "g": 1},
)
WBC = TextTable(
    "wbc",
    ["breast-cancer-wisconsin/breast-cancer-wisconsin.data"],
    ["8107694956682d7c9337f85e32f456db26f0a446a82eccfb687e6c5d40caec42"],
    ["benign", "malignant"],
    skip=1,
    label_codes={"2": 0, "4": 1},
)
TABLES = (OPTDIGITS, PENDIGITS, SATIMAGE, LETTER, SONAR, IONOSPHERE, WBC)


def load_optdigits(
    *,
    subset: str = "all",
    data_home: home.PathLike = None,
    download_if_missing: bool = True,
    return_X_y: bool = False,
) -> Any:
    """Optdigits: 3823 + 1797 digits, 8×8 counts of ink.

    Parameters
    ----------
    subset : {"train", "test", "all"}, default="all"
        Which rows; "all" is train first, then test.
    data_home : path, optional
        Folder with ``optdigits/``: see :func:`get_data_home`.
    download_if_missing : bool, default=True
        If False, raise FileNotFoundError where the files are absent.
    return_X_y : bool, default=False
        Return only ``(data, target)``.

    Returns
    -------
    Bunch
        ``data`` (n, 64), counts 0..16; ``target``, ``target_names``, ``n_train``,
        ``DESCR``. Euclidean 1-NN errs on 36 of 1797.

    Examples
    --------
    >>> from widemargin.datasets import load_optdigits
    >>> load_optdigits(subset="test").data.shape  # doctest: +SKIP
    (1797, 64)
    """
    return OPTDIGITS.load(
        load_optdigits, data_home, download_if_missing, return_X_y, subset
    )


def load_pendigits(
    *,
    subset: str = "all",
    data_home: home.PathLike = None,
    download_if_missing: bool = True,
    return_X_y: bool = False,
) -> Any:
    """Pendigits: 7494 + 3498 digits as eight points of a pen's way.

    Parameters
    ----------
    subset : {"train", "test", "all"}, default="all"
        Which rows; "all" is train first, then test.
    data_home : path, optional
        Folder with ``pendigits/``: see :func:`get_data_home`.
    download_if_missing : bool, default=True
        If False, raise FileNotFoundError where the files are absent.
    return_X_y : bool, default=False
        Return only ``(data, target)``.

    Returns
    -------
    Bunch
        ``data`` (n, 16), 0..100; ``target``, ``target_names``, ``n_train``,
        ``DESCR``. Euclidean 1-NN errs on 79 of 3498.

    Examples
    --------
    >>> from widemargin.datasets import load_pendigits
    >>> load_pendigits(subset="test").data.shape  # doctest: +SKIP
    (3498, 16)
    """
    return PENDIGITS.load(
        load_pendigits, data_home, download_if_missing, return_X_y, subset
    )


def load_satimage(
    *,
    subset: str = "all",
    data_home: home.PathLike = None,
    download_if_missing: bool = True,
    return_X_y: bool = False,
) -> Any:
    """Satimage: 4435 + 2000 patches of Landsat pixels, six kinds of soil.

    Parameters
    ----------
    subset : {"train", "test", "all"}, default="all"
        Which rows; "all" is train first, then test.
    data_home : path, optional
        Folder with ``satimage/``: see :func:`get_data_home`.
    download_if_missing : bool, default=True
        If False, raise FileNotFoundError where the files are absent.
    return_X_y : bool, default=False
        Return only ``(data, target)``.

    Returns
    -------
    Bunch
        ``data`` (n, 36); labels 1, 2, 3, 4, 5, 7; ``target``, ``target_names``,
        ``n_train``, ``DESCR``. Euclidean 1-NN errs on 211 of 2000.

    Examples
    --------
    >>> from widemargin.datasets import load_satimage
    >>> load_satimage(subset="test").data.shape  # doctest: +SKIP
    (2000, 36)
    """
    return SATIMAGE.load(
        load_satimage, data_home, download_if_missing, return_X_y, subset
    )


def load_letter(
    *,
    subset: str = "all",
    data_home: home.PathLike = None,
    download_if_missing: bool = True,
    return_X_y: bool = False,
) -> Any:
    """Letter: 16 000 + 4000 printed letters, 16 measurements each.

    Parameters
    ----------
    subset : {"train", "test", "all"}, default="all"
        Which rows; "all" is train first, then test.
    data_home : path, optional
        Folder with ``letter/``: see :func:`get_data_home`.
    download_if_missing : bool, default=True
        If False, raise FileNotFoundError where the files are absent.
    return_X_y : bool, default=False
        Return only ``(data, target)``.

    Returns
    -------
    Bunch
        ``data`` (n, 16), 0..15; label 0 is A; ``target``, ``target_names``,
        ``n_train``, ``DESCR``. Euclidean 1-NN errs on 174 of 4000.

    Examples
    --------
    >>> from widemargin.datasets import load_letter
    >>> load_letter(subset="test").data.shape  # doctest: +SKIP
    (4000, 16)
    """
    return LETTER.load(load_letter, data_home, download_if_missing, return_X_y, subset)


def load_sonar(
    *,
    data_home: home.PathLike = None,
    download_if_missing: bool = True,
    return_X_y: bool = False,
) -> Any:
    """Sonar: 208 echoes in 60 frequency bands, mine (1) or rock (0).

    Parameters
    ----------
    data_home : path, optional
        Folder with ``sonar/``: see :func:`get_data_home`.
    download_if_missing : bool, default=True
        If False, raise FileNotFoundError where the files are absent.
    return_X_y : bool, default=False
        Return only ``(data, target)``.

    Returns
    -------
    Bunch
        ``data`` (208, 60); ``target``, ``target_names``, ``DESCR``.

    Examples
    --------
    >>> from widemargin.datasets import load_sonar
    >>> load_sonar().data.shape  # doctest: +SKIP
    (208, 60)
    """
    return SONAR.load(load_sonar, data_home, download_if_missing, return_X_y)


def load_ionosphere(
    *,
    data_home: home.PathLike = None,
    download_if_missing: bool = True,
    return_X_y: bool = False,
) -> Any:
    """Ionosphere: 351 radar returns, good (1) or bad (0).

    Parameters
    ----------
    data_home : path, optional
        Folder with ``ionosphere/``: see :func:`get_data_home`.
    download_if_missing : bool, default=True
        If False, raise FileNotFoundError where the files are absent.
    return_X_y : bool, default=False
        Return only ``(data, target)``.

    Returns
    -------
    Bunch
        ``data`` (351, 34); the second column is constant; ``target``,
        ``target_names``, ``DESCR``.

    Examples
    --------
    >>> from widemargin.datasets import load_ionosphere
    >>> load_ionosphere().data.shape  # doctest: +SKIP
    (351, 34)
    """
    return IONOSPHERE.load(load_ionosphere, data_home, download_if_missing, return_X_y)


def load_wbc(
    *,
    drop_missing: bool = True,
    data_home: home.PathLike = None,
    download_if_missing: bool = True,
    return_X_y: bool = False,
) -> Any:
    """Wisconsin breast cancer (original): 699 biopsies, malignant (1) or benign (0).

    Parameters
    ----------
    drop_missing : bool, default=True
        Leave out the 16 rows with a missing value, so that 683 remain; if False they
        are there with NaN.
    data_home : path, optional
        Folder with ``wbc/``: see :func:`get_data_home`.
    download_if_missing : bool, default=True
        If False, raise FileNotFoundError where the files are absent.
    return_X_y : bool, default=False
        Return only ``(data, target)``.

    Returns
    -------
    Bunch
        ``data`` (683, 9), grades 1..10; ``target``, ``target_names``, ``DESCR``.

    Examples
    --------
    >>> from widemargin.datasets import load_wbc
    >>> load_wbc().data.shape  # doctest: +SKIP
    (683, 9)
    """
    return WBC.load(
        load_wbc, data_home, download_if_missing, return_X_y, drop_missing=drop_missing
    )


@dataclass(frozen=True)
class SparseSet:
    """Two files, NAME and NAME.t, plain as published or compressed with bz2."""

    name: str
    n_features: int
    digests: Sequence[str]
    target_names: ArrayLike = (-1, 1)
    image_shape: None = None
    load = _load

    @property
    def sources(self) -> list[home.Source]:
        """The original files: train, test."""
        names = (self.name, f"{self.name}.t")
        return [home.Source(name, LIBSVM + name) for name in names]

    @property
    def ready(self) -> list[str]:
        """The same, packed."""
        return [f"{source.name}.bz2" for source in self.sources]

    def read(self, folder: Path) -> list[tuple]:
        """Return the parts (X, y)."""
        parts = []
        for source, packed in zip(self.sources, self.ready, strict=True):
            path = folder / packed
            path = path if path.is_file() else folder / source.name
            X, y = home.read_libsvm(path, self.n_features)
            parts.append((X, y.astype(np.int64)))
        return parts

    def verify(self, folder: Path) -> None:
        """Raise ValueError unless the files in `folder` hold this set."""
        home.check_content(self.digests, *self.read(folder))


A9A = SparseSet(
    "a9a",
    123,
    (
        "5e4e8a6b5143fc0205aeacd6522110faf9d4ffb6fe7e9019074126add26c43f2",
        "b58661169743b89afc337fe658545f21c592a81f5d0f8edbfaedfbf7b42e31a9",
    ),
)
W8A = SparseSet(
    "w8a",
    300,
    (
        "0530606066d96bca71cba5160fc96f90ad2a3d33b08921de05bd74031f8694f3",
        "b64b09c326ec23678e56792779776f9506670046c6e4b05b6b16c493d8606ed3",
    ),
)


def load_a9a(
    *,
    subset: str = "all",
    data_home: home.PathLike = None,
    download_if_missing: bool = True,
    return_X_y: bool = False,
) -> Any:
    """a9a: 32 561 + 16 281 people of a census, who earns more than 50 000 dollars.

    Parameters
    ----------
    subset : {"train", "test", "all"}, default="all"
        Which rows; "all" is train first, then test.
    data_home : path, optional
        Folder with ``a9a/``: see :func:`get_data_home`.
    download_if_missing : bool, default=True
        If False, raise FileNotFoundError where the files are absent.
    return_X_y : bool, default=False
        Return only ``(data, target)``.

    Returns
    -------
    Bunch
        ``data`` sparse (n, 123) of zeros and ones; ``target`` −1 or 1,
        ``target_names``, ``n_train``, ``DESCR``.

    Examples
    --------
    >>> from widemargin.datasets import load_a9a
    >>> load_a9a(subset="test").data.shape  # doctest: +SKIP
    (16281, 123)
    """
    return A9A.load(load_a9a, data_home, download_if_missing, return_X_y, subset)


def load_w8a(
    *,
    subset: str = "all",
    data_home: home.PathLike = None,
    download_if_missing: bool = True,
    return_X_y: bool = False,
) -> Any:
    """w8a: 49 749 + 14 951 web pages by 300 key words, one category or not.

    Parameters
    ----------
    subset : {"train", "test", "all"}, default="all"
        Which rows; "all" is train first, then test.
    data_home : path, optional
        Folder with ``w8a/``: see :func:`get_data_home`.
    download_if_missing : bool, default=True
        If False, raise FileNotFoundError where the files are absent.
    return_X_y : bool, default=False
        Return only ``(data, target)``.

    Returns
    -------
    Bunch
        ``data`` sparse (n, 300) of zeros and ones; ``target`` −1 or 1,
        ``target_names``, ``n_train``, ``DESCR``.

    Examples
    --------
    >>> from widemargin.datasets import load_w8a
    >>> load_w8a(subset="test").data.shape  # doctest: +SKIP
    (14951, 300)
    """
    return W8A.load(load_w8a, data_home, download_if_missing, return_X_y, subset)
