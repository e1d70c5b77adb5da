"""What being right costs: fit and predict of every estimator, now and before.

Two processes, one with the package as it is here and one with that of an older commit
(checked out into a temporary worktree, or lying in a folder), are asked in turn to fit
and to predict the same data with the same settings: the older one's defaults, under
their present names. Each number is a median over the turns, of processor time on one
thread: what else the machine does counts as little as it can.

Run: python benchmarks/cost.py [--commit 5f62f5e] [--folder PATH] [--turns 5]
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from statistics import median

BAR = 1.05
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
HERE = Path(__file__).resolve().parents[1]
# Names and values that changed since; None: no longer a choice.
RENAMED = {
    "n_models": "prototypes_per_class",
    "eta": "learning_rate",
    "shifts": "transformations",
    "shift_test": "transform_test",
    "k": "weight_gain",
    "rho": "intercept_scaling",
    "recenter": "penalize_intercept",
    "b": "margin_threshold",
    "b_upper": "relaxation_target",
    "factor": "update_factor",
    "length": "normalize",
    "landmarks": "n_landmarks",
    "lam": "shrinkage",
    "guard": "stay_in_class",
    "unit": "margin_scale",
    "cv_samples": "max_cv_samples",
    "strange": "outlier_fraction",
    "distance": "outlier_score",
    "criterion": "confidence_func",
}
VALUES = {
    ("sides", "one"): "reference",
    ("sides", "y"): "reference",
    ("sides", "two"): "both",
    ("recenter", True): False,
    ("length", "free"): False,
    ("repair", "dead"): True,
}


def child():
    """Answer requests, one JSON per line: {do, name, settings} -> {seconds, ...}."""
    import time
    import warnings

    import numpy as np
    from sklearn.datasets import load_digits

    import widemargin

    warnings.simplefilter("ignore")
    X, y = load_digits(return_X_y=True)
    X, y, Q = X[:600], y[:600], X[600:1200]
    models = {}
    for line in sys.stdin:
        asked = json.loads(line)
        answer = {}
        try:
            if asked["do"] == "defaults":
                model = make(widemargin, asked["name"])
                held = model.get_params(deep=False)
                plain = (int, float, str, bool, type(None), tuple)
                answer = {k: v for k, v in held.items() if isinstance(v, plain)}
            else:
                if asked["do"] == "fit":
                    model = make(widemargin, asked["name"], asked["settings"])
                    models[asked["name"]] = model
                    begun = time.process_time()
                    model.fit(X, y)
                else:
                    model = models[asked["name"]]
                    begun = time.process_time()
                    model.predict(Q)
                answer["seconds"] = time.process_time() - begun
                if asked["do"] == "predict":
                    answer["answers"] = np.asarray(model.predict(Q)).tolist()
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"[:200]}
        print("\x01" + json.dumps(answer), flush=True)


def make(package, name, settings=None):
    """Return an estimator with those of the settings that it knows."""
    import inspect

    known = inspect.signature(getattr(package, name)).parameters
    chosen = dict(settings or {})
    if "random_state" in known:
        chosen["random_state"] = 0
    if "estimator" in known and known["estimator"].default is inspect.Parameter.empty:
        chosen["estimator"] = package.GLVQClassifier(random_state=0)
    if name == "RejectingClassifier":
        chosen |= {"coverage": 0.8}
    return getattr(package, name)(**{k: v for k, v in chosen.items() if k in known})


class Side:
    """A process with one version of the package."""

    def __init__(self, source):
        self.process = subprocess.Popen(
            [sys.executable, __file__, "--child"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | ONE_THREAD | {"PYTHONPATH": str(source)},
        )

    def ask(self, do, name, settings=None):
        """Return the answer to one request."""
        asked = {"do": do, "name": name, "settings": settings}
        self.process.stdin.write(json.dumps(asked) + "\n")
        self.process.stdin.flush()
        while not (line := self.process.stdout.readline()).startswith("\x01"):
            if not line:
                raise RuntimeError(f"{name}: the process has ended")
        return json.loads(line[1:])

    def end(self):
        """Let the process end."""
        self.process.stdin.close()
        self.process.wait()


def translated(defaults):
    """Return the settings of the older version in today's words."""
    out = {}
    for name, value in defaults.items():
        value = tuple(value) if isinstance(value, list) else value
        now = RENAMED.get(name, name)
        if name == "repair":
            now = "reinit_dead" if value in (True, "dead") else "psd_correction"
        out[now] = VALUES.get((name, value), value)
    return out


@contextmanager
def checkout(commit, folder):
    """Give a folder with the older commit."""
    if folder is not None:
        yield folder
        return
    with tempfile.TemporaryDirectory() as made:
        old = Path(made) / "then"
        git = ["git", "-C", str(HERE), "worktree"]
        subprocess.run([*git, "add", "--detach", str(old), commit], check=True,
                       capture_output=True)  # fmt: skip
        try:
            yield old
        finally:
            subprocess.run([*git, "remove", "--force", str(old)], check=True)


def compare(now, before, turns, only):
    import widemargin

    rows, ratios = [], []
    for name in sorted(n for n in widemargin._ESTIMATORS if only in n):
        defaults = before.ask("defaults", name)
        if "error" in defaults:
            continue
        settings, note = translated(defaults), ""
        tried = now.ask("fit", name, settings)
        if "error" in tried:
            # A setting that is no longer taken: its default then.
            note = tried["error"]
            settings = None
        times = {"now fit": [], "now predict": [], "then fit": [], "then predict": []}
        failed = ""
        for turn in range(turns + 1):
            for side, words, held in (
                (now, "now", settings),
                (before, "then", defaults),
            ):
                for do in ("fit", "predict"):
                    answer = side.ask(do, name, held)
                    failed = answer.get("error", failed)
                    # The first turn compiles.
                    if turn and "error" not in answer:
                        times[f"{words} {do}"].append(answer["seconds"])
        if failed:
            rows.append([name, "-", "-", "-", "-", failed[:60]])
            continue
        t = {key: median(value) for key, value in times.items()}
        fit = t["now fit"] / t["then fit"]
        predict = t["now predict"] / t["then predict"]
        ratios += [fit, predict]
        rows.append([name, f"{1e3 * t['now fit']:.1f}", f"{fit:.2f}",
                     f"{1e3 * t['now predict']:.1f}", f"{predict:.2f}",
                     note[:60]])  # fmt: skip
        print(*rows[-1], flush=True)
    return rows, ratios


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--commit", default="5f62f5e")
    parser.add_argument("--folder", type=Path, help="a checkout of that commit")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--only", default="", help="part of the estimators' names")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        return child()
    from common import machine, print_table

    with checkout(args.commit, args.folder) as old:
        now, before = Side(HERE / "src"), Side(old / "src")
        rows, ratios = compare(now, before, args.turns, args.only)
        now.end()
        before.end()
    print(machine())
    print_table(
        f"digits, 600 to learn and 600 to answer; ratios to commit {args.commit}",
        ["estimator", "fit ms", "ratio", "predict ms", "ratio", "note"],
        rows,
    )
    middle = median(ratios)
    met = "met" if middle <= BAR else "missed"
    print(f"\nmedian ratio {middle:.2f}; bar {BAR}: {met}")


if __name__ == "__main__":
    main()
