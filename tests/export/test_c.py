"""Headers compile without a warning, answer as the models do and keep their bounds."""

import re
import shutil
import subprocess
from dataclasses import replace

import numpy as np
import pytest
from tests.export.models import IN_C, glvq, tvq
from tests.export.test_onnx import fitted

import widemargin as wm
from widemargin.export import NotExportable, check_export, to_c, to_onnx
from widemargin.export.agreement import (
    c_answers,
    compare,
    compile_header,
    name_of,
    python_answers,
)
from widemargin.export.c_header import frame_bounds, quantise_rows

pytestmark = pytest.mark.usefixtures("gcc")
CONVOLVED = ("signals", "signals of two channels", "convolved")


def asked_of(name, samples):
    """As many as take no time: sanitised convolutions take ten milliseconds each."""
    return samples[:: 5 if name in CONVOLVED else 1]


@pytest.mark.parametrize("name", IN_C)
def test_answers_are_those_of_the_model(name, digits):
    X, y, X_test, _ = digits
    model = fitted(IN_C[name], X, y)
    agreement = check_export(model, to_c(model), asked_of(name, X_test[:150]))
    assert agreement.agrees, agreement
    assert agreement.n_close_differing == 0, agreement


@pytest.mark.parametrize("name", IN_C)
def test_eight_bits_keep_their_bound(name, digits):
    X, y, X_test, _ = digits
    model = fitted(IN_C[name], X, y)
    # Also far from where the data are: the bound holds for every sample.
    rng = np.random.default_rng(0)
    strange = (X_test[:50] + rng.normal(size=(50, 64)) * 3).astype(np.float32)
    samples = asked_of(name, np.concatenate([X_test[:100], strange]))
    agreement = check_export(model, to_c(model, dtype="int8"), samples)
    assert agreement.agrees, agreement


def test_what_eight_bits_accept_python_accepts(digits):
    X, y, X_test, _ = digits
    model = fitted(IN_C["rejecting"], X, y)
    mine = python_answers(model, X_test)
    rounded = c_answers(
        to_c(model, dtype="int8"), X_test, model.classes_, model.reject_label_
    )
    assert 0 < rounded.accepted.sum() <= mine.accepted.sum()
    assert not (rounded.accepted & ~mine.accepted).any()
    np.testing.assert_array_equal(
        rounded.labels[rounded.accepted], mine.labels[rounded.accepted]
    )
    margins = mine.margins[np.arange(len(X_test)), rounded.margins.argmax(axis=1)]
    sure = rounded.least > 0
    assert (margins >= rounded.least - 1e-5)[sure].all()


def test_votes_in_a_circle_are_no_doubt_in_float32():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2))
    model = wm.MaxMarginClassifier(multiclass="ovo").fit(X, np.arange(60) % 3)
    angles = np.deg2rad([90, -30, 210])
    model.coef_ = -np.column_stack([np.cos(angles), np.sin(angles)])
    model.intercept_ = np.zeros(3)
    samples = rng.normal(size=(300, 2)).astype(np.float32)
    found = c_answers(to_c(model), samples, model.classes_, None)
    np.testing.assert_array_equal(found.least, found.confidence)
    np.testing.assert_array_equal(found.labels, model.predict(samples.astype(float)))
    rounded = check_export(model, to_c(model, dtype="int8"), samples)
    assert rounded.agrees, rounded


@pytest.mark.parametrize("to", [to_c, to_onnx])
@pytest.mark.parametrize(
    ("scheme", "n_classes"), [("ovo", 2), ("ovo", 4), ("ddag", 4), ("ovr", 4)]
)
def test_ties_fall_as_in_python(scheme, n_classes, to):
    """Duels are the features, small whole numbers: ties of all kinds, and no plane."""
    rng = np.random.default_rng(0)
    n_planes = {2: 1}.get(n_classes, 4 if scheme == "ovr" else 6)
    X = rng.integers(-2, 3, size=(400, n_planes)).astype(float)
    X[:4] = 0.0
    model = wm.MaxMarginClassifier(multiclass=scheme).fit(X, np.arange(400) % n_classes)
    for coef in (-np.eye(n_planes), np.zeros((n_planes, n_planes))):
        model.coef_, model.intercept_ = coef, np.zeros(n_planes)
        model.center_ = np.zeros((n_planes, n_planes))
        model.weight_norm_ = np.abs(coef).max(axis=1)
        model._set_borders(lambda coef=coef: coef @ coef.T)
        agreement = check_export(model, to(model), X)
        assert agreement.n_close_differing == 0, agreement
        assert agreement.agrees, agreement


def test_no_agreement_where_all_answers_differ(digits):
    X, y, _, _ = digits
    model = wm.MaxMarginClassifier().fit(X, y)
    model.coef_, model.intercept_ = 0 * model.coef_, 0 * model.intercept_
    mine = python_answers(model, X)
    assert not mine.confidence.any()
    other = replace(mine, labels=(mine.labels + 1) % 4)
    assert compare(model, mine, X).agrees
    assert not compare(model, other, X).agrees


def test_tables_are_small(digits):
    X, y, _, _ = digits
    model = fitted(tvq, X, y)
    numbers = model.prototypes_.size + model.tangents_.size
    sizes = [
        int(re.search(r"tables of (\d+) bytes", to_c(model, dtype=dtype))[1])
        for dtype in ("float32", "int8")
    ]
    assert 4 * numbers <= sizes[0] < 4 * numbers + 100
    assert numbers <= sizes[1] < numbers + 1000


LABELS = """
#include <stdio.h>
#include <string.h>
#include "model.h"

int main(void)
{
  int i;
  for (i = -1; i < UPPER_CLASSES; i++)
    printf("%s\\n", NAME_label(i));
  return UPPER_REFUSED + 1;
}
"""


def test_labels_survive_whatever_they_are(digits, tmp_path):
    X, y, _, _ = digits
    names = np.array(['"quoted" \\n', "ünïcode ☃", "??/*trigraph*/", "NAME_%s @N@"])
    model = wm.RejectingClassifier(glvq(), max_error=0.3, random_state=0)
    model.fit(X, names[y])
    header = to_c(model, name="odd_Name9")
    assert name_of(header) == "odd_Name9"
    program = compile_header(header, LABELS, "odd_Name9", tmp_path)
    out = subprocess.run([str(program)], capture_output=True, check=True).stdout
    assert out.decode().splitlines() == ["reject", *model.classes_]


def test_the_smallest_integer_is_a_label(digits):
    X, y, X_test, _ = digits
    labels = np.array([-(2**63), -1, 0, 2**63 - 1])
    model = glvq().fit(X, labels[y])
    assert check_export(model, to_c(model), X_test[:20]).agrees


def test_no_heap_and_little_of_the_library(digits):
    X, y, _, _ = digits
    for make in (tvq, wm.MaxMarginClassifier):
        for dtype in ("float32", "int8"):
            header = to_c(fitted(make, X, y), dtype=dtype)
            assert re.findall(r"#include (.*)", header) == ["<math.h>", "<stdint.h>"]
            called = set(re.findall(r"\b([a-z_0-9]+)\(", header))
            own = {name for name in called if name.startswith("model_")}
            assert called - own <= {
                "sqrtf", "fabsf", "for", "if", "while", "sizeof", "return"
            }  # fmt: skip


def test_several_headers_live_in_one_file(digits, tmp_path):
    X, y, _, _ = digits
    one, two = to_c(glvq().fit(X, y), name="one"), to_c(tvq().fit(X, y), name="two")
    main = """
#include "model.h"
int main(void)
{
  float x[64] = {0}, margin;
  return one_predict(x, &margin) + two_predict(x, &margin) < 0;
}
"""
    program = compile_header(one + two, main, "one", tmp_path)
    assert subprocess.run([str(program)]).returncode == 0


@pytest.mark.parametrize(
    ("compiler", "flags"),
    [
        ("gcc", "-std=c99 -Wshadow -Wconversion -Wdouble-promotion -Wundef -O2"),
        ("gcc", "-std=c11 -Wstrict-prototypes -Wmissing-prototypes -Wcast-qual"),
        ("g++", "-std=c++11"),
    ],
)
def test_every_header_at_once_and_twice(compiler, flags, digits, tmp_path):
    """Strict compilers and C++ have nothing to say about any of them."""
    if shutil.which(compiler) is None:
        pytest.skip(f"there is no {compiler}")
    X, y, _, _ = digits
    made = ("tvq", "max margin, ovo", "max margin, ddag", "max margin, ovr", "smoothed")
    made = (*made, "unit sum", "by columns", "side by side", "rejecting pipeline")
    lines = []
    for number, name in enumerate(made):
        model = fitted(IN_C[name], X, np.array(["a", "b", "c", 'd"'])[y])
        for dtype in ("float32", "int8"):
            file = f"{dtype}_{number}"
            (tmp_path / f"{file}.h").write_text(to_c(model, name=file, dtype=dtype))
            lines += [f'#include "{file}.h"'] * 2
    source = tmp_path / {"gcc": "all.c", "g++": "all.cpp"}[compiler]
    source.write_text("\n".join([*lines, "int main(void) { return 0; }\n"]))
    strict = ("-Wall", "-Wextra", "-Wpedantic", "-Werror", *flags.split(), "-c")
    result = subprocess.run(
        [compiler, *strict, str(source), "-o", str(tmp_path / "all.o")],
        capture_output=True,
        text=True,
    )
    assert not result.returncode, result.stderr[:1000]


@pytest.mark.parametrize("name", ["", "2x", "a-b", "x;", "x" * 50, "int main"])
def test_names_must_be_identifiers(name, digits):
    X, y, _, _ = digits
    with pytest.raises(ValueError, match="C identifier"):
        to_c(glvq().fit(X, y), name=name)


def test_rounded_rows_are_as_wrong_as_they_say():
    rng = np.random.default_rng(1)
    table = rng.normal(size=(20, 30)) * 10.0 ** rng.integers(-3, 4, size=(20, 1))
    table[3] = 0
    found = quantise_rows(table)
    errors = np.linalg.norm(found.values - table, axis=1)
    np.testing.assert_allclose(found.errors, errors)
    assert (errors <= 0.51 * np.sqrt(30) * found.scales).all()


def test_the_bound_of_a_rounded_frame_holds():
    rng = np.random.default_rng(2)
    for _ in range(200):
        d, m = rng.integers(6, 20), rng.integers(1, 5)
        T = np.linalg.qr(rng.normal(size=(d, m)))[0].T
        stored = T + rng.normal(size=T.shape) * 10 ** rng.uniform(-4, -1.2)
        (E,), (rho,) = frame_bounds(T[None], stored[None])
        delta = rng.normal(size=d)
        if rng.random() < 0.5:
            # Nearly all within the frame, where rounding matters most.
            delta = rng.normal(size=m) @ T + 1e-3 * delta
        true = np.linalg.norm(delta - T.T @ (T @ delta))
        a = stored @ delta
        r = np.linalg.norm(delta - stored.T @ a)
        moved, whole = np.linalg.norm(a), np.linalg.norm(delta)
        high = r + E * moved
        low = np.sqrt(max(0, r**2 - (rho * moved) ** 2)) - E * (moved + E * whole)
        assert low - 1e-12 <= true <= high + 1e-12


def test_a_lost_tangent_is_refused():
    with pytest.raises(NotExportable, match="eight bits lose a tangent"):
        frame_bounds(np.eye(3)[None, :1], 0.1 * np.eye(3)[None, :1])
