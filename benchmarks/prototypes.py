"""The LVQ family: test errors, speed against scikit-learn, cost against size.

Accuracy: for every set and number of prototypes the member of the family is chosen by
five-fold cross-validation on the training set and refitted on all of it; the mean over
three other seeds tells how much of the test error is luck.
Speed: one thread, CPU seconds, the smallest of a few interleaved runs.

Run: python benchmarks/prototypes.py [--only PART] [--sets usps letter ...]
"""

import argparse
from copy import deepcopy
from time import process_time

import numpy as np
from common import (
    calibration_error,
    data_folder,
    machine,
    print_table,
    train_test,
)
from joblib import Parallel, delayed
from numba import njit
from sklearn.base import clone
from sklearn.datasets import (
    load_breast_cancer,
    load_digits,
    load_iris,
    load_wine,
)
from sklearn.impute import SimpleImputer
from sklearn.metrics import pairwise_distances
from sklearn.model_selection import StratifiedKFold, cross_val_score, train_test_split
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC
from threadpoolctl import threadpool_limits

from widemargin._compute import lvq
from widemargin._compute.presentations import Balls, Moving, Presentations
from widemargin.datasets import load_mnist
from widemargin.linear import MaxMarginClassifier
from widemargin.margins import Sigmoid
from widemargin.meta import MixtureImputer
from widemargin.metrics import tangent_distances
from widemargin.neighbors import TangentKNeighborsClassifier
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
from widemargin.tangents import ImageTangents

FEW_SAMPLES = {"iris": load_iris, "wine": load_wine, "cancer": load_breast_cancer}
SETS = ("usps", "letter", "satimage", "pendigits", "optdigits")
# Largest error in percent at 5 and 20 prototypes per class. For the other sets it is
# that of 1-NN, plus 0.5 at 5.
BARS = {"usps": (6.0, 5.6), "letter": (15.0, 7.2), "satimage": (10.0, 10.0)}
# Their test sets come from other writers, and the files list one writer after the
# other: folds of consecutive samples ask the same question.
OTHER_WRITERS = ("pendigits", "optdigits")
CANDIDATES = {
    "LVQ (OLVQ1, LVQ2.1)": LVQClassifier(
        algorithm=("olvq1", "lvq2.1"), max_iter=20, random_state=0
    ),
    "GLVQ beta=10": GLVQClassifier(random_state=0),
    "GLVQ beta=20": GLVQClassifier(loss=Sigmoid(20), random_state=0),
    "GMLVQ beta=10": GMLVQClassifier(random_state=0),
    "GMLVQ beta=20": GMLVQClassifier(loss=Sigmoid(20), random_state=0),
    "kernel LVQ beta=20": KernelLVQClassifier(
        loss=Sigmoid(20), max_iter=30, random_state=0
    ),
}


def load(name, dtype=np.float32):
    """Return X_train, y_train, X_test, y_test as the files split them."""
    data = np.load(data_folder() / name / f"{name}.npz")
    if name == "usps":
        X, X_test = data["X_train_milli"] / 1000, data["X_test_milli"] / 1000
        parts = X, data["y_train"], X_test, data["y_test"]
    elif name == "letter":
        X, y = data["X"], data["y"]
        parts = X[:16000], y[:16000], X[16000:], y[16000:]
    else:
        parts = tuple(data[key] for key in ("X_train", "y_train", "X_test", "y_test"))
    X, y, X_test, y_test = parts
    return (
        np.ascontiguousarray(X, dtype),
        y,
        np.ascontiguousarray(X_test, dtype),
        y_test,
    )


def percent_wrong(model, X, y):
    return 100 * float(np.mean(model.predict(X) != y))


def accuracy(names):
    rows = []
    for name in names:
        X, y, X_test, y_test = load(name)
        nearest = percent_wrong(KNeighborsClassifier(1).fit(X, y), X_test, y_test)
        if name in OTHER_WRITERS:
            folds = StratifiedKFold(5)
        else:
            folds = StratifiedKFold(5, shuffle=True, random_state=0)
        bars = BARS.get(name, (nearest + 0.5, nearest))
        for k, bar in zip((5, 20), bars, strict=True):
            errors = {}
            for label, candidate in CANDIDATES.items():
                model = clone(candidate).set_params(prototypes_per_class=k)
                scores = cross_val_score(model, X, y, cv=folds)
                errors[label] = 100 * (1 - scores.mean())
            best = min(errors, key=errors.get)
            model = clone(CANDIDATES[best]).set_params(prototypes_per_class=k)
            wrong = percent_wrong(model.fit(X, y), X_test, y_test)
            others = [
                percent_wrong(
                    model.set_params(random_state=s).fit(X, y), X_test, y_test
                )
                for s in (1, 2, 3)
            ]
            listed = ", ".join(f"{error:.2f}" for error in errors.values())
            rows.append(
                (
                    name,
                    k,
                    best,
                    listed,
                    f"{wrong:.2f}",
                    f"{np.mean(others):.2f}",
                    f"{bar:.2f}",
                    f"{nearest:.2f}",
                    "yes" if round(wrong, 2) <= round(bar, 2) else "no",
                )
            )
            print("|", " | ".join(map(str, rows[-1])), "|", flush=True)
    print_table(
        "Error in percent; the candidates' cross-validation errors in the order "
        + ", ".join(CANDIDATES),
        (
            "set",
            "per class",
            "chosen",
            "by CV on train",
            "test",
            "other seeds",
            "bar",
            "1-NN",
            "holds",
        ),
        rows,
    )


SMALL = {
    "digits": load_digits,
    "wine": load_wine,
    "breast_cancer": load_breast_cancer,
}
ALL_SETS = (*SMALL, *SETS, "mnist")
DEFAULTS = {
    "LVQ": LVQClassifier(random_state=0),
    "GLVQ": GLVQClassifier(random_state=0),
    "GMLVQ": GMLVQClassifier(random_state=0),
    "kernel LVQ": KernelLVQClassifier(random_state=0),
    "TVQ": TVQClassifier(random_state=0),
}


def load_any(name):
    """Return a set as it is, unscaled; the small ones split 70 to 30, MNIST 10 000."""
    if name in SMALL:
        X, y = SMALL[name](return_X_y=True)
        X, X_test, y, y_test = train_test_split(
            X, y, test_size=0.3, random_state=0, stratify=y
        )
        return X, y, X_test, y_test
    if name == "mnist":
        X, y, X_test, y_test = train_test(load_mnist)
        return X[:10000].astype(float), y[:10000], X_test.astype(float), y_test
    return load(name, np.float64)


def timed(model, X, y, X_test, y_test):
    """Error in percent, CPU seconds of fit and of predict.

    Of the fit the smallest of up to seven, as many as begin within a second.
    """
    seconds = []
    while not seconds or (sum(seconds) < 1 and len(seconds) < 7):
        start = process_time()
        model.fit(X, y)
        seconds.append(process_time() - start)
    start = process_time()
    wrong = percent_wrong(model, X_test, y_test)
    return wrong, min(seconds), process_time() - start


def defaults(names):
    """Every default against scikit-learn's, on data as they come."""
    rows, ratios, times = [], {}, {}
    few = load_any("wine")
    for model in DEFAULTS.values():
        clone(model).fit(*few[:2]).predict(few[2])
    for name in names:
        data = load_any(name)
        nearest = timed(KNeighborsClassifier(), *data)
        svc = timed(SVC(), *data)
        row = [name, f"{nearest[0]:.2f}", f"{svc[0]:.2f}, {svc[1]:.4f} s"]
        for label, model in DEFAULTS.items():
            wrong, fit, predict = timed(clone(model), *data)
            row.append(f"{wrong:.2f}, {fit:.3f} s, {1e3 * predict:.0f} ms")
            # One mistake less than one cannot be told from none.
            ratio = max(wrong, 100 / len(data[3])) / max(nearest[0], 100 / len(data[3]))
            ratios.setdefault(label, []).append(ratio)
            times.setdefault(label, []).append(fit / svc[1])
        rows.append(row)
        print("|", " | ".join(row), "|", flush=True)
    means = {k: float(np.exp(np.mean(np.log(v)))) for k, v in ratios.items()}
    slower = {k: float(np.exp(np.mean(np.log(v)))) for k, v in times.items()}
    rows.append(["error / 5-NN", "", ""] + [f"{v:.2f}x" for v in means.values()])
    worst = {k: f"{max(v):.2f}x" for k, v in ratios.items()}
    rows.append(["worst of them", "", "", *worst.values()])
    rows.append(["fit / SVC", "", ""] + [f"{v:.2f}x" for v in slower.values()])
    header = ("set", "5-NN", "SVC", *(f"{k}: error, fit, predict" for k in DEFAULTS))
    print_table("Defaults on data as they come, error in percent", header, rows)


def few_samples():
    """Default fits of few samples, beside an SVC's in the same process."""
    rng, rows = np.random.RandomState(0), []
    sets = {name: load(return_X_y=True) for name, load in FEW_SAMPLES.items()}
    images, labels = load_digits(return_X_y=True)
    some = rng.permutation(len(images))[:300]
    sets["300 digits"] = images[some], labels[some]
    models = {**DEFAULTS, "margin LVQ": MarginLVQClassifier(random_state=0)}
    for extra in (HSSClassifier, TDNeuronClassifier):
        models[extra.__name__.removesuffix("Classifier")] = extra(random_state=0)
    for name, (X, y) in sets.items():
        fits = [lambda m=m, X=X, y=y: m.fit(X, y) for m in (SVC(), *models.values())]
        times = smallest(fits, 5)
        ratios = [f"{t / times[0]:.0f}x, {1e3 * t:.0f} ms" for t in times[1:]]
        rows.append([name, f"{1e3 * times[0]:.2f} ms", *ratios])
    print_table("Fits of few samples / SVC's", ("set", "SVC", *models), rows)


def numbers():
    """Compare the number of prototypes that data choose with given ones."""
    rows = []
    for name in ("digits", "satimage", "pendigits", "optdigits"):
        X, y, X_test, y_test = load_any(name)
        for label in ("LVQ", "GLVQ", "GMLVQ"):
            row, means = [name, label], []
            for k in (1, 5, 10, 20, 40, "auto"):
                model = clone(DEFAULTS[label]).set_params(prototypes_per_class=k)
                wrong = [
                    percent_wrong(
                        model.set_params(random_state=s).fit(X, y), X_test, y_test
                    )
                    for s in range(3)
                ]
                means.append(np.mean(wrong))
                row.append(f"{np.mean(wrong):.2f} ({np.std(wrong):.2f})")
            rows.append([*row, f"{means[-1] - min(means[:-1]):+.2f}"])
            print("|", " | ".join(rows[-1]), "|", flush=True)
    header = ("set", "model", "1", "5", "10", "20", "40", "auto", "auto - best")
    print_table("Prototypes per class, error in percent, three seeds", header, rows)


def local_metrics():
    """Compare matrices per prototype with one for all, at equal prototypes."""
    rows = []
    for name in ("letter", "satimage", "pendigits"):
        X, y, X_test, y_test = load(name, np.float64)
        row = [name]
        for metric in ("full", "class", "local"):
            wrong = [
                percent_wrong(
                    GMLVQClassifier(3, metric=metric, random_state=s).fit(X, y),
                    X_test,
                    y_test,
                )
                for s in range(5)
            ]
            row.append(f"{np.mean(wrong):.2f} ({np.std(wrong):.2f})")
        rows.append(row)
        print("|", " | ".join(row), "|", flush=True)
    header = ("set", "GMLVQ", "LGMLVQ, per class", "LGMLVQ, per prototype")
    print_table("3 prototypes per class, five seeds, error in percent", header, rows)


def relevances():
    """Share of the relevance that 3 useful of 50 features get, in their spread."""
    rng = np.random.RandomState(0)
    y = rng.randint(0, 3, 1000)
    X = rng.standard_normal((1000, 50))
    X[:, :3] += 2.5 * np.eye(3)[y]
    X *= rng.uniform(0.1, 10, 50)
    rows = []
    for k in (1, 2, "auto"):
        for sparsity in (0.0, 0.1):
            model = GMLVQClassifier(
                k, metric="diagonal", sparsity=sparsity, random_state=0
            ).fit(X, y)
            shares = model.relevances_ * X.var(axis=0)
            share = f"{100 * shares[:3].sum() / shares.sum():.1f} %"
            rows.append((k, sparsity, share, np.count_nonzero(shares)))
    header = ("per class", "sparsity", "of the useful three", "features kept")
    print_table("GRLVQ, 3 useful of 50 features", header, rows)


CALIBRATED = {
    "GLVQ": GLVQClassifier(),
    "RSLVQ": GLVQClassifier(loss="rslvq"),
    "cross-entropy": GLVQClassifier(loss="cross_entropy"),
    "GMLVQ": GMLVQClassifier(),
    "LVQ": LVQClassifier(),
    "TVQ": TVQClassifier(),
    "HSS": HSSClassifier(),
    "MaxMargin": MaxMarginClassifier(),
}


def soft(n_seeds=3):
    """Errors and calibration of soft losses beside those of other defaults."""
    rows = []
    for name in ("digits", "letter", "satimage"):
        X, y, X_test, y_test = load_any(name)
        row = [name]
        for model in CALIBRATED.values():
            found = []
            for seed in range(n_seeds):
                model.set_params(random_state=seed).fit(X, y)
                right = model.predict(X_test) == y_test
                error = calibration_error(model.predict_proba(X_test), right)
                found.append((100 * np.mean(~right), error))
            mean, worst = np.mean(found, axis=0), np.max(found, axis=0)
            row.append(f"{mean[0]:.2f}, {mean[1]:.3f} ({worst[1]:.3f})")
        rows.append(row)
        print("|", " | ".join(row), "|", flush=True)
    header = ("set", *CALIBRATED)
    print_table("Error in percent, calibration error (worst seed)", header, rows)


PARTIAL = {
    "LVQ": LVQClassifier(),
    "GLVQ": GLVQClassifier(),
    "GLVQ, rslvq": GLVQClassifier(loss="rslvq"),
    "GRLVQ": GMLVQClassifier(metric="diagonal"),
    "GMLVQ": GMLVQClassifier(),
    "LGMLVQ, per class": GMLVQClassifier(metric="class"),
    "5-NN": TangentKNeighborsClassifier(5, tangents="none"),
}


def with_holes(X, y, model, seed):
    """Return X without 20 % of its values, rows to learn from, and rows to ask."""
    holes = np.random.RandomState(seed).uniform(size=X.shape) < 0.2
    if "random_state" in model.get_params():
        model.set_params(random_state=seed)
    rows = np.arange(len(X))
    a, b = train_test_split(rows, test_size=0.3, stratify=y, random_state=seed)
    return np.where(holes, np.nan, X), a, b


def missing():
    """Hide 20 % of the values of digits at random, in training and test."""
    X, y = load_digits(return_X_y=True)
    rows = []
    for name, model in PARTIAL.items():
        errors = np.zeros((5, 4))
        for seed in range(5):
            H, a, b = with_holes(X, y, model, seed)
            errors[seed, 0] = percent_wrong(model.fit(X[a], y[a]), X[b], y[b])
            mixed = make_pipeline(MixtureImputer(), clone(model)).fit(H[a], y[a])
            errors[seed, 1] = percent_wrong(mixed, H[b], y[b])
            errors[seed, 2] = percent_wrong(mixed, X[b], y[b])
            filled = make_pipeline(SimpleImputer(), clone(model)).fit(H[a], y[a])
            errors[seed, 3] = percent_wrong(filled, H[b], y[b])
        whole, partial, both, imputed = errors.mean(axis=0)
        holds = "yes" if partial <= 1.5 * whole else "no"
        better = "yes" if partial < imputed else "no"
        rows.append(
            (name, f"{whole:.2f}", f"{partial:.2f}", f"{partial / whole:.2f}x", holds,
             f"{imputed:.2f}", better, f"{both:.2f}, {both / whole:.2f}x")
        )  # fmt: skip
        print("|", " | ".join(rows[-1]), "|", flush=True)
    header = (
        *("model", "full", "20 % missing", "ratio", "<= 1.5x", "mean imputation"),
        *("better", "trained on 20 % missing, tested on full"),
    )
    title = "digits, error in percent, mean of five splits 70 to 30"
    print_table(title, header, rows)


def limit():
    """Ask about samples with holes a model of its own each, of what is there.

    Trained on whole samples: no completion can know more than these do.
    """
    X, y = load_digits(return_X_y=True)
    models = {"SVC(C=10)": SVC(C=10)}
    models |= {k: PARTIAL[k] for k in ("LVQ", "GLVQ", "GMLVQ", "LGMLVQ, per class")}

    def answer(model, a, x):
        there = ~np.isnan(x)
        with threadpool_limits(1):
            return model.fit(X[a][:, there], y[a]).predict(x[None, there])[0]

    rows = []
    for name, model in models.items():
        errors = np.zeros((5, 2))
        for seed in range(5):
            H, a, b = with_holes(X, y, model, seed)
            errors[seed, 0] = percent_wrong(model.fit(X[a], y[a]), X[b], y[b])
            asked = (delayed(answer)(clone(model), a, x) for x in H[b])
            answers = np.array(Parallel(n_jobs=-1, batch_size=8)(asked))
            errors[seed, 1] = 100 * np.mean(answers != y[b])
        whole, own = errors.mean(axis=0)
        rows.append((name, f"{whole:.2f}", f"{own:.2f}", f"{own / whole:.2f}x"))
        print("|", " | ".join(rows[-1]), "|", flush=True)
    title = "digits, 20 % missing, a model for every test sample; error in percent"
    print_table(title, ("model", "full", "of what is there", "ratio"), rows)


def held_out():
    """Hide values of training sets: 60 or 1250 rows to learn from, 1000 to ask."""
    models = {k: PARTIAL[k] for k in ("GLVQ", "GMLVQ", "LGMLVQ, per class", "5-NN")}
    rows = []
    for name in ("optdigits", "pendigits", "satimage", "letter"):
        X, y, _, _ = load_any(name)
        for n, share in ((1250, 0.2), (1250, 0.5), (1250, 0.8), (60, 0.2), (60, 0.5)):
            errors = {model: np.zeros((3, 3)) for model in models}
            for seed in range(3):
                rng = np.random.RandomState(seed)
                order = rng.permutation(len(X))
                a, b = order[:n], order[1250:2250]
                holes = rng.uniform(size=X.shape) < share
                # Nothing can be said of a row without any value.
                holes[np.arange(len(X)), rng.randint(X.shape[1], size=len(X))] = False
                H = np.where(holes, np.nan, X)
                # And of features that no row has, nothing is learned.
                known = ~np.isnan(H[a]).all(axis=0)
                H, W = H[:, known], X[:, known]
                b = b[~np.isnan(H[b]).all(axis=1)]
                a = a[~np.isnan(H[a]).all(axis=1)]
                for model in models:
                    plain = clone(models[model])
                    mixed, filled = (
                        make_pipeline(imputer, clone(plain))
                        for imputer in (MixtureImputer(), SimpleImputer())
                    )
                    errors[model][seed] = (
                        percent_wrong(plain.fit(W[a], y[a]), W[b], y[b]),
                        percent_wrong(mixed.fit(H[a], y[a]), H[b], y[b]),
                        percent_wrong(filled.fit(H[a], y[a]), H[b], y[b]),
                    )
            cells = (" / ".join(f"{e:.1f}" for e in v.mean(0)) for v in errors.values())
            rows.append((name, n, f"{share:.0%}", *cells))
            print("|", " | ".join(map(str, rows[-1])), "|", flush=True)
    title = "Held-out training rows: nothing missing / completed / SimpleImputer"
    print_table(title, ("set", "samples", "missing", *models), rows)


def few_prototypes():
    """Print errors of LVQ's default with 5 prototypes per class, on USPS."""
    X, y, X_test, y_test = load_any("usps")
    models = [LVQClassifier(5, random_state=seed) for seed in range(5)]
    errors = [percent_wrong(model.fit(X, y), X_test, y_test) for model in models]
    rows = [
        (*(f"{e:.2f}" for e in errors), "6.2", "no" if max(errors) > 6.2 else "yes")
    ]
    header = (*(f"seed {seed}" for seed in range(5)), "bar", "holds")
    print_table("LVQClassifier(5) on USPS, error in percent", header, rows)


def streams():
    """Learn training rows in batches: from nothing, after a fit, and as they move."""
    kinds = (GLVQClassifier, GMLVQClassifier, KernelLVQClassifier, TVQClassifier)
    kinds = (*kinds, TDNeuronClassifier, LVQClassifier, MarginLVQClassifier)
    rows = []
    for name in ("optdigits", "pendigits", "satimage"):
        X, y, _, _ = load_any(name)
        order = np.random.RandomState(0).permutation(len(X))[:3000]
        codes = np.unique(y, return_inverse=True)[1]
        X, X_held, codes, held = train_test_split(
            X[order], codes[order], test_size=1000, shuffle=False
        )
        # Every feature goes its way, as far as it varies; and labels change places.
        away = np.random.RandomState(1).choice([-1, 1], X.shape[1]) * X.std(axis=0)
        turned, held_turned = ((a + 1) % (codes.max() + 1) for a in (codes, held))
        for kind in (*kinds, HSSClassifier):
            fitted = kind(random_state=0).fit(X[:1000], codes[:1000])
            row = [name, kind.__name__, f"{percent_wrong(fitted, X_held, held):.1f}"]
            for size in (1, 50):
                model = kind(random_state=0)
                learn(model, X[:1000], codes[:1000], size)
                row.append(f"{percent_wrong(model, X_held, held):.1f}")
            for size in (1, 50):
                model = deepcopy(fitted)
                learn(model, X[1000:], codes[1000:], size)
                row.append(f"{percent_wrong(model, X_held, held):.1f}")
            row.append(f"{percent_wrong(fitted, X_held + away, held):.1f}")
            model = deepcopy(fitted)
            learn(model, X + np.linspace(0, 1, 2000)[:, None] * away, codes, 50)
            row.append(f"{percent_wrong(model, X_held + away, held):.1f}")
            model = deepcopy(fitted)
            learn(model, X, turned, 50)
            row.append(f"{percent_wrong(model, X_held, held_turned):.1f}")
            rows.append(row)
            print("|", " | ".join(rows[-1]), "|", flush=True)
    header = (
        *("set", "model", "fit", "stream by 1", "by 50", "fit, then by 1", "by 50"),
        *("features moved, only fit", "followed", "labels changed, followed"),
    )
    print_table("Held-out training rows, error in percent", header, rows)


def learn(model, X, y, size):
    """Give a model the samples in batches."""
    for start in range(0, len(X), size):
        rows = slice(start, start + size)
        model.partial_fit(X[rows], y[rows], classes=np.unique(y))


def relational():
    """Compare LVQ on matrices of dissimilarities with GLVQ and 1-NN on digits."""
    X, y = load_digits(return_X_y=True)
    tangents = ImageTangents(shape=(8, 8))
    matrices = {
        "squared Euclidean": pairwise_distances(X, metric="sqeuclidean"),
        "city block": pairwise_distances(X, metric="cityblock"),
        "squared tangent": tangent_distances(X, X, tangents=tangents) ** 2,
    }
    a, b = train_test_split(
        np.arange(len(X)), test_size=0.3, stratify=y, random_state=0
    )
    rows = []
    for name, D in matrices.items():
        train, test = D[np.ix_(a, a)], D[np.ix_(b, a)]
        one = KNeighborsClassifier(1, metric="precomputed").fit(train, y[a])
        row = [name, f"{percent_wrong(one, test, y[b]):.2f}"]
        for method in ("relational", "median"):
            model = RelationalLVQClassifier(method=method, random_state=0)
            start = process_time()
            model.fit(train, y[a])
            seconds = process_time() - start
            wrong = percent_wrong(model, test, y[b])
            row.append(f"{wrong:.2f}, {len(model.prototype_labels_)}, {seconds:.1f} s")
        rows.append(row)
    points = percent_wrong(GLVQClassifier(random_state=0).fit(X[a], y[a]), X[b], y[b])
    header = ("dissimilarity", "1-NN", "relational: error, prototypes, fit", "median")
    title = f"digits, error in percent; GLVQ on the points {points:.2f}"
    print_table(title, header, rows)


def smallest(functions, repeats=3):
    """CPU seconds of each function, the smallest of interleaved runs."""
    best = [np.inf] * len(functions)
    for _ in range(repeats):
        for i, function in enumerate(functions):
            start = process_time()
            function()
            best[i] = min(best[i], process_time() - start)
    return best


@njit
def bare_distances(X, P):
    """Find the nearest prototype of every sample and do nothing else."""
    total = 0
    for i in range(X.shape[0]):
        total += lvq.nearest(X[i], P)[0]
    return total


def speed_of_fit():
    rows = []
    for dtype in (np.float32, np.float64):
        X, y, _, _ = load("usps", dtype)
        lvq1 = LVQClassifier(5, algorithm="lvq1", max_iter=20, random_state=0)
        glvq = GLVQClassifier(5, max_iter=20, random_state=0)
        for model in (lvq1, glvq):
            clone(model).set_params(max_iter=1).fit(X[:500], y[:500])
        svc, *ours = smallest(
            [
                lambda X=X, y=y: SVC(C=10).fit(X, y),
                lambda X=X, y=y, m=lvq1: m.fit(X, y),
                lambda X=X, y=y, m=glvq: m.fit(X, y),
            ],
            # Few differ by a third on a machine that others share.
            20,
        )
        for label, bar, t in zip(("LVQ1", "GLVQ"), (25, 30), ours, strict=True):
            ratio = f"{100 * t / svc:.0f} %"
            rows.append(
                (label, dtype.__name__, f"{t:.3f}", f"{svc:.3f}", ratio, f"{bar} %")
            )
    header = ("fit", "data", "seconds", "SVC(C=10)", "ratio", "bar")
    print_table("USPS, 50 prototypes, 20 epochs", header, rows)


def speed_of_presentations():
    rows = []
    for dtype in (np.float32, np.float64):
        X, y, _, _ = load("usps", dtype)
        codes = y.astype(np.intp)
        start = LVQClassifier(5, algorithm="lvq1", max_iter=1, random_state=0)
        P = start.fit(X, y).prototypes_
        labels = start.prototype_labels_.astype(np.intp)
        order = np.random.RandomState(0).permutation(len(X))
        wins, rates = np.zeros(50, np.intp), np.full(50, 0.3)
        balls = Balls(np.zeros((10, X.shape[1]), dtype), np.full(10, np.inf, dtype))
        box = np.array([[-np.inf], [np.inf]]) + np.zeros_like(P[:1])
        given = Moving(P, labels, wins, box), Presentations(X, codes, order, 0, 1e9)
        runs = {
            "LVQ1": lambda a=given: lvq.lvq1_epoch(*a, 0.05, np.zeros(0)),
            "OLVQ1": lambda a=given, r=rates: lvq.lvq1_epoch(*a, 0.3, r),
            "LVQ3": lambda a=given, b=balls: lvq.window_epoch(*a, 0.05, 0.3, 0.1, b),
        }
        bare, *ours = smallest(
            [lambda X=X, P=P: bare_distances(X, P), *runs.values()], 8
        )
        each = 1e6 / len(X)
        for name, t in zip(runs, ours, strict=True):
            times = f"{each * t:.2f}", f"{each * bare:.2f}", f"{t / bare:.2f}x"
            rows.append((name, dtype.__name__, *times, "1.5x"))
    header = ("rule", "data", "µs", "bare distances, µs", "ratio", "bar")
    print_table("One presentation, USPS, 50 prototypes", header, rows)


def speed_of_predict():
    rows = []
    for name in ("usps", "letter"):
        X, y, X_test, _ = load(name)
        model = GLVQClassifier(5, max_iter=1, random_state=0).fit(X, y)
        nearest = KNeighborsClassifier(1).fit(X, y)
        ours, theirs = smallest(
            [
                lambda m=model, x=X_test: m.predict(x),
                lambda m=nearest, x=X_test: m.predict(x),
            ]
        )
        rows.append(
            (name, f"{ours:.4f}", f"{theirs:.3f}", f"{theirs / ours:.0f}x", "20x")
        )
    header = ("set", "seconds", "KNeighborsClassifier(1)", "faster", "bar")
    print_table("Prediction of the test set, 5 prototypes per class", header, rows)


def cost():
    rng = np.random.RandomState(0)
    base = {"samples": 8000, "prototypes": 40, "features": 128}
    rows = []
    for name in base:
        for factor in (1, 2, 4):
            size = {**base, name: base[name] * factor}
            X = rng.standard_normal((size["samples"], size["features"]))
            y = rng.randint(0, 10, len(X))
            k = size["prototypes"] // 10
            options = {"init": "samples", "reinit_dead": False, "random_state": 0}
            models = [
                LVQClassifier(
                    algorithm="lvq1", prototypes_per_class=k, max_iter=10, **options
                ),
                GLVQClassifier(k, max_iter=10, batch_size=200, **options),
            ]
            times = smallest([lambda m=m, X=X, y=y: m.fit(X, y) for m in models])
            rows.append((name, size[name], *(f"{t:.3f}" for t in times)))
    header = ("what grows", "to", "LVQ1, seconds", "GLVQ, seconds")
    title = "Cost of 10 epochs from 8000 samples, 40 prototypes, 128 features"
    print_table(title, header, rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parts = (
        *("accuracy", "speed", "defaults", "local", "relevances", "soft"),
        *("missing", "limit", "holes", "relational", "numbers", "few", "streams"),
        "small",
    )
    parser.add_argument("--only", choices=parts)
    parser.add_argument("--sets", nargs="+", choices=ALL_SETS)
    arguments = parser.parse_args()
    print(machine())
    if arguments.only in (None, "speed"):
        with threadpool_limits(1):
            speed_of_fit()
            speed_of_presentations()
            speed_of_predict()
            cost()
    if arguments.only in (None, "small"):
        with threadpool_limits(1):
            few_samples()
    if arguments.only in (None, "relevances"):
        relevances()
    if arguments.only in (None, "numbers"):
        numbers()
    if arguments.only in (None, "few"):
        few_prototypes()
    if arguments.only in (None, "streams"):
        streams()
    if arguments.only in (None, "relational"):
        relational()
    if arguments.only == "limit":
        limit()
    if arguments.only in (None, "missing"):
        missing()
    if arguments.only in (None, "holes"):
        held_out()
    if arguments.only in (None, "soft"):
        soft()
    if arguments.only in (None, "local"):
        local_metrics()
    if arguments.only in (None, "defaults"):
        defaults(arguments.sets or ALL_SETS)
    if arguments.only in (None, "accuracy"):
        accuracy(arguments.sets or SETS)


if __name__ == "__main__":
    main()
