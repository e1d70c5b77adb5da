"""The page's pipeline of aeon's features and our heads; skips without aeon."""

import re
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone

pytest.importorskip("aeon", reason="aeon is not installed")

PAGE = Path(__file__).resolve().parents[1] / "docs/howto/signals.md"


def waves(n, seed):
    """Two kinds of waves that begin anywhere, in noise."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 2
    at = np.linspace(0, 1, 80) + rng.uniform(size=(n, 1))
    X = np.sin(2 * np.pi * (3 + 2 * y[:, np.newaxis]) * at)
    return X + rng.normal(size=X.shape), np.array(["slow", "fast"])[y]


# aeon compiles with parallel=True and looks at versions of packages.
@pytest.mark.filterwarnings("ignore")
def test_the_pipeline_of_the_page():
    (block,) = re.findall(r"```text\n(import numpy.*?)```", PAGE.read_text(), re.S)
    found = {}
    exec(block, found)
    X, y = waves(120, 0)
    X_new, y_new = waves(400, 1)
    model = clone(found["model"]).fit(X, y)
    right = model.predict(X_new) == y_new
    assert right.mean() > 0.9
    P = model.predict_proba(X_new)
    assert abs(P.max(axis=1).mean() - right.mean()) < 0.06
    answers = found["sure"].fit(*waves(600, 2)).predict(X_new)
    kept = np.isin(answers, ["slow", "fast"])
    assert kept.mean() > 0.3
    assert np.mean(answers[kept] != y_new[kept]) <= 0.02
