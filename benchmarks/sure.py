"""Does it know how sure it is? AURC of default classifiers beside a forest's.

    python benchmarks/sure.py [--splits 3] [--on choice|report] [--rows 1000]
                              [--only MODEL ...]

Every table is split at random, `--rows` samples at most to learn from and 3000 at most
to ask. Each classifier is at its defaults, on the features as they come (SVC, logistic
regression, MaxMargin with a kernel and neighbours behind a StandardScaler), and orders
its answers by :func:`widemargin.margins.confidence_of`. AURC is the mean error among
the k surest answers, over all k; it falls with the error and with a better order.
Ratios are to a random forest of 100 trees on the same split, (AURC + 1e-5) / (forest's
+ 1e-5), in geometric means over tables and splits. "perfect" is the AURC of the same
answers if all right ones came first: no order is better. Orders were chosen on the
tables of `choice`.
"""

import argparse
import warnings

import numpy as np
from common import data_folder, print_table
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

import widemargin as wm
from widemargin.margins import aurc_score, confidence_of

warnings.filterwarnings("ignore")
SMALLEST = 1e-5


def scaled(model):
    """Return a pipeline that scales before it."""
    return make_pipeline(StandardScaler(), model)


MODELS = {
    "random forest": lambda: RandomForestClassifier(random_state=0),
    "forest, calibrated": lambda: CalibratedClassifierCV(
        RandomForestClassifier(random_state=0)
    ),
    "boosting": lambda: HistGradientBoostingClassifier(max_iter=50, random_state=0),
    "SVC": lambda: scaled(SVC()),
    "SVC, calibrated": lambda: CalibratedClassifierCV(scaled(SVC()), ensemble=False),
    "logistic regression": lambda: scaled(LogisticRegression(max_iter=2000)),
    "logistic, calibrated": lambda: CalibratedClassifierCV(
        scaled(LogisticRegression(max_iter=2000))
    ),
    "5 neighbours": lambda: scaled(KNeighborsClassifier()),
    "LVQ": lambda: wm.LVQClassifier(random_state=0),
    "GLVQ": lambda: wm.GLVQClassifier(random_state=0),
    "GMLVQ": lambda: wm.GMLVQClassifier(random_state=0),
    "kernel LVQ": lambda: wm.KernelLVQClassifier(random_state=0),
    "HSS": lambda: wm.HSSClassifier(random_state=0),
    "HSS, as they are": lambda: wm.HSSClassifier(scale="none", random_state=0),
    "HSS, divided": lambda: wm.HSSClassifier(scale="within_class_std", random_state=0),
    "TVQ": lambda: wm.TVQClassifier(random_state=0),
    "MaxMargin, rbf": lambda: scaled(wm.MaxMarginClassifier(kernel="rbf")),
}


def joined(name):
    """X, y of a set with a training and a test part."""
    z = np.load(data_folder() / name)
    if "X" in z:
        return z["X"].astype(float), z["y"]
    X = np.concatenate([z["X_train"], z["X_test"]]).astype(float)
    return X, np.concatenate([z["y_train"], z["y_test"]])


def tables(which):
    """Tables by name: those that orders were chosen on, or others."""
    if which == "choice":
        yield "breast cancer", *load_breast_cancer(return_X_y=True)
        yield "digits", *load_digits(return_X_y=True)
        for name in ("sonar", "ionosphere", "satimage", "pendigits", "letter"):
            yield name, *joined(f"{name}/{name}.npz")
        return
    yield "iris", *load_iris(return_X_y=True)
    yield "wine", *load_wine(return_X_y=True)
    X, y = joined("wbc/wbc.npz")
    whole = ~np.isnan(X).any(axis=1)
    yield "wbc", X[whole], y[whole]
    yield "optdigits", *joined("optdigits/optdigits.npz")
    z = np.load(data_folder() / "usps" / "usps.npz")
    yield "USPS", z["X_train_milli"] / 1000, z["y_train"]
    for name in ("fruit", "tecator", "ham"):
        yield f"{name}, spectra", *joined(f"spectra/{name}.npz")


def main():
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--rows", type=int, default=1000)
    parser.add_argument("--on", choices=("choice", "report"), default="report")
    parser.add_argument("--only", nargs="+", choices=list(MODELS), metavar="MODEL")
    options = parser.parse_args()
    asked = {"random forest", *(options.only or MODELS)}
    models = {name: make for name, make in MODELS.items() if name in asked}
    found = {name: [] for name in models}
    names = []
    for table, X, y in tables(options.on):
        names.append(table)
        y = np.unique(y, return_inverse=True)[1]
        for seed in range(options.splits):
            A, B, a, b = train_test_split(
                X, y, test_size=0.5, stratify=y, random_state=seed
            )
            A, a, B, b = A[: options.rows], a[: options.rows], B[:3000], b[:3000]
            for name, make in models.items():
                model = make().fit(A, a)
                answers = model.predict(B)
                right = (answers == b).astype(float)
                scores = [
                    aurc_score(b, answers, sure)
                    for sure in (confidence_of(model, B), right)
                ]
                found[name].append([1 - right.mean(), *scores])
        print(table, flush=True)
    forest = np.array(found["random forest"])
    rows = []
    for name, values in found.items():
        v = np.array(values)
        least = [1e-3, SMALLEST, SMALLEST]
        reference = forest[:, [0, 1, 1]]
        ratios = np.exp(np.log((v + least) / (reference + least)).mean(axis=0))
        per = v[:, 1].reshape(-1, options.splits).mean(axis=1)
        own = forest[:, 1].reshape(-1, options.splits).mean(axis=1)
        by_table = (per + SMALLEST) / (own + SMALLEST)
        rows.append(
            (name, *(f"{r:.2f}" for r in ratios), *(f"{r:.1f}" for r in by_table))
        )
    header = ("classifier", "error", "AURC", "perfect", *names)
    print_table("Over a forest's, and AURC by table", header, rows)


if __name__ == "__main__":
    main()
