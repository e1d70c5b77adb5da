"""The sets of the re-weighting reproduction: nist3, and USPS as a second opinion."""

import os
from pathlib import Path

from widemargin.datasets import load_usps
from widemargin.datasets.nist3 import Split, read_nist3

SETS = ("nist3", "usps")


def data_folder(data_home: str | Path | None = None) -> Path:
    """Folder with ``mnist``, ``qmnist-labels`` and ``usps``."""
    beside = Path.cwd().parent / "shared" / "data"
    folder = Path(data_home or os.environ.get("WIDEMARGIN_DATA") or beside)
    if not folder.is_dir():
        raise FileNotFoundError(
            f"{folder} is not a folder; pass data_home= or set WIDEMARGIN_DATA to a "
            "folder that holds mnist, qmnist-labels and usps."
        )
    return folder


def read_usps(folder: Path) -> Split:
    """USPS as float32 rows in [0, 1], in its official split."""
    train, test = (
        load_usps(
            subset=part, data_home=folder, download_if_missing=False, return_X_y=True
        )
        for part in ("train", "test")
    )
    return Split(*train, *test)


def load_set(name: str, data_home: str | Path | None, quick: bool) -> Split:
    """One set; `quick` keeps the first 1000 samples of each part."""
    folder = data_folder(data_home)
    split = read_nist3(folder) if name == "nist3" else read_usps(folder)
    return Split(*(part[:1000] for part in split)) if quick else split
