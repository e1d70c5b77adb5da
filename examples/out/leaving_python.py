"""
Export to ONNX and C, with rejection
====================================

A digit reader that abstains is fitted in Python and needed elsewhere: in a service that
runs ONNX, or on a device that runs C. Both exports carry the margins and the threshold.
"""

import shutil

import numpy as np
import onnxruntime
from matplotlib import pyplot as plt
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from widemargin import RejectingClassifier, TVQClassifier
from widemargin.export import check_export, to_c, to_onnx

X, y = load_digits(return_X_y=True)
X = (X / 16).astype(np.float32)
X, X_new, y, y_new = train_test_split(X, y, test_size=0.4, random_state=0)
model = RejectingClassifier(
    TVQClassifier(max_iter=100), max_error=0.015, random_state=0
).fit(X, y)

# %%
# ONNX
# ----
# ``check_export`` runs the graph and compares all answers with the model's.

graph = to_onnx(model)
print("ONNX:", check_export(model, graph, X_new))
session = onnxruntime.InferenceSession(graph.SerializeToString())
label, confidence, accepted = session.run(
    ["label", "confidence", "accepted"], {"X": X_new}
)
wrong = label != y_new
print(
    f"It answers {accepted.mean():.1%} of the new digits, {wrong[accepted].mean():.1%} "
    "of them wrong."
)

# %%
# C
# -
# The int8 header knows a bound of what rounding can change in each margin. It raises
# the threshold by it: whatever it answers, the model in Python answers too.

for dtype in ("float32", "int8"):
    header = to_c(model, dtype=dtype, name="digits")
    print(f"C, {dtype}: {header.split('tables of ')[1].split('.')[0]} of tables")
    if shutil.which("gcc"):
        print("   ", check_export(model, header, X_new))

# %%
# The confidence of the exported model
# ------------------------------------

figure, ax = plt.subplots(figsize=(7, 3.8), layout="constrained")
bins = np.linspace(0, confidence.max(), 40)
right = accepted & (label == y_new)
parts = [confidence[~accepted], confidence[right], confidence[accepted & wrong]]
ax.hist(
    parts,
    bins,
    stacked=True,
    label=["rejected", "right", "wrong"],
    color=["#9aa5b1", "#2f6db5", "#d64545"],
)
ax.axvline(model.threshold_, color="#1f2933", linewidth=0.8, linestyle=":")
ax.set_xlabel("confidence, by onnxruntime")
ax.set_ylabel("new digits")
ax.spines[["top", "right"]].set_visible(False)
ax.legend(frameon=False)
plt.show()
