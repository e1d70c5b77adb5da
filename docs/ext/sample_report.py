"""Make the report that the page of the command shows: TVQ of digits."""

import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from sklearn.datasets import load_digits
from sphinx.application import Sphinx


def make(app, exception):
    """Write it beside the static files, once per folder."""
    report = Path(app.outdir, "_static", "report.html")
    if exception or app.builder.format != "html" or report.exists():
        return
    X, y = load_digits(return_X_y=True)
    with TemporaryDirectory() as folder:
        for name, rows in (("train", slice(1000)), ("test", slice(1000, None))):
            images = X[rows].reshape(-1, 8, 8) / 16
            np.savez(Path(folder, name), X=images, y=y[rows])
        fit = "fit train.npz --model tvq --seed 0 --out digits.skops"
        for words in (fit, f"report digits.skops test.npz --out {report}"):
            command = [sys.executable, "-m", "widemargin", *words.split()]
            subprocess.run(command, cwd=folder, check=True, capture_output=True)


def setup(app: Sphinx):
    """Connect with the build."""
    app.connect("build-finished", make)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
