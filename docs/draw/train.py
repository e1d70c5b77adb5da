"""Train the model of the page to draw on, and write it as a program for JavaScript.

TVQ on the leading components of MNIST's digits, calibrated on the last 10 000 training
images, which other writers wrote. What comes out, ``digits.json``, is kept beside this
file, so that the page is built without data and without training:

    WIDEMARGIN_DATA=... python docs/draw/train.py

Arrays are 16-bit integers with one factor each, in base64. ``program.js`` evaluates the
file; this command checks that it holds what the classifier answers.
"""

import base64
import json
from pathlib import Path

import numpy as np
from sklearn.decomposition import PCA
from sklearn.pipeline import make_pipeline

from widemargin import RejectingClassifier, TVQClassifier
from widemargin.datasets import load_mnist
from widemargin.export.describe import describe
from widemargin.export.program import Affine, Nearest, Project

HERE = Path(__file__).parent
N_LEARNED, N_COMPONENTS, N_MODELS, N_TANGENTS = 50_000, 96, 6, 12
MAX_ERROR, LIKE_A_DIGIT = 0.015, 0.998


def packed(values):
    """Return an array as JSON has it, and as the page will read it."""
    values = np.asarray(values, float)
    factor = float(np.abs(values).max() / 32767) or 1.0
    whole = np.round(values / factor).astype("<i2")
    text = base64.b64encode(whole.tobytes()).decode()
    return {"shape": values.shape, "factor": factor, "data": text}, whole * factor


def program_of(model):
    """Return the program of a fitted pipeline as JSON has it, arrays packed."""
    program = describe(model)
    decision = program.decision
    assert isinstance(decision, Nearest)
    assert decision.rule == "nearest"
    assert decision.references.frames is not None
    steps = []
    for step in program.steps:
        kind = {Affine: "affine", Project: "project"}[type(step)]
        steps.append(
            {"kind": kind} | {k: packed(v)[0] for k, v in step._asdict().items()}
        )
    return {
        "classes": [str(label) for label in program.classes],
        "steps": steps,
        "points": packed(decision.references.points)[0],
        "frames": packed(decision.references.frames)[0],
        "codes": decision.codes.tolist(),
        "threshold": float(program.threshold),
    }


def unpacked(array):
    """Return what `packed` wrote."""
    whole = np.frombuffer(base64.b64decode(array["data"]), "<i2")
    return (whole * array["factor"]).reshape(array["shape"])


def class_distances(program, X):
    """Squared distances of classes, as ``program.js`` computes them."""
    for step in program["steps"]:
        if step["kind"] == "affine":
            centre, scale, shift = (
                unpacked(step[k]) for k in ("centre", "scale", "shift")
            )
            X = (X - centre) * scale + shift
        else:
            X = X @ unpacked(step["matrix"]).T
    points, frames = unpacked(program["points"]), unpacked(program["frames"])
    rest = X[:, None] - points
    along = np.einsum("nkd,kmd->nkm", rest, frames)
    D = (rest**2).sum(axis=2) - (along**2).sum(axis=2)
    codes = np.array(program["codes"])
    return np.stack([D[:, codes == c].min(axis=1) for c in np.unique(codes)], axis=1)


def main():
    """Train, calibrate, check and write."""
    X, y = load_mnist(subset="train", return_X_y=True)
    X = X.astype(np.float32)
    tvq = TVQClassifier(N_MODELS, n_tangents=N_TANGENTS, max_iter=80, random_state=0)
    model = make_pipeline(PCA(N_COMPONENTS, random_state=0), tvq)
    model.fit(X[:N_LEARNED], y[:N_LEARNED])
    others, labels = X[N_LEARNED:], y[N_LEARNED:]
    refusing = RejectingClassifier(model, max_error=MAX_ERROR, cv="prefit")
    refusing.fit(others, labels)
    program = program_of(refusing)
    D = class_distances(program, others.astype(float))
    right = np.mean(D.argmin(axis=1) == labels)
    print(f"error on other writers {100 * (1 - right):.2f} %")
    print(f"as the classifier {np.mean(D.argmin(axis=1) == model.predict(others)):.4f}")
    print(
        f"answers {100 * refusing.coverage_:.1f} % with at most {MAX_ERROR:.1%} errors"
    )
    program |= probabilities(D[:2000], model.predict_proba(others[:2000]))
    program |= {
        "shape": [28, 28],
        "maxError": MAX_ERROR,
        "likeADigit": LIKE_A_DIGIT,
        # What is farther from every model than nearly all digits is no digit.
        "limit": float(np.quantile(D.min(axis=1), LIKE_A_DIGIT) ** 0.5),
    }
    out = HERE / "digits.json"
    out.write_text(json.dumps(program))
    print(f"{out.name}: {out.stat().st_size / 1000:.0f} kB")


def probabilities(D, P):
    """Return temperature and lead that make distances the classifier's probabilities.

    With costs C = D / (sum of the two smallest), P is proportional to
    exp(-C / temperature), that of the answer to exp(lead) more.
    """
    C = D / np.partition(D, 1, axis=1)[:, :2].sum(axis=1, keepdims=True)
    order = np.argsort(-P, axis=1)[:, :3]
    near = np.take_along_axis(C, order, 1)
    logs = np.log(np.take_along_axis(P, order, 1).clip(1e-12))
    seen = logs[:, 2] > np.log(1e-9)
    gaps, falls = near[:, 2] - near[:, 1], logs[:, 1] - logs[:, 2]
    T = float(gaps[seen].sum() / falls[seen].sum())
    lead = logs[:, 0] - logs[:, 1] - (near[:, 1] - near[:, 0]) / T
    b = float(np.median(lead[seen]))
    weights = np.exp(-(C - C.min(axis=1, keepdims=True)) / T - b)
    weights[np.arange(len(D)), D.argmin(axis=1)] = 1.0
    found = weights / weights.sum(axis=1, keepdims=True)
    off = np.abs(found - P).max()
    print(f"probabilities within {off:.4f}")
    assert off < 0.02
    return {"temperature": T, "lead": b}


if __name__ == "__main__":
    main()
