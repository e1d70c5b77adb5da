"""
Learning from a stream
======================

Samples arrive by the hundred and the data drift: every batch is rotated a little
further. ``partial_fit`` keeps learning and follows. A model that was fitted once does
not.
"""

import numpy as np
from matplotlib import pyplot as plt
from sklearn.datasets import make_classification

from widemargin import LVQClassifier, MarginPerceptron

BATCHES, SIZE = 40, 100
X, y = make_classification(
    BATCHES * SIZE,
    n_features=10,
    n_informative=4,
    n_redundant=0,
    class_sep=1.6,
    n_clusters_per_class=1,
    random_state=2,
)
# %%
# A stream that drifts
# --------------------

batches = [(X[i : i + SIZE].copy(), y[i : i + SIZE]) for i in range(0, len(X), SIZE)]
for step, (rows, _) in enumerate(batches):
    angle = np.pi * step / BATCHES
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    informative = np.argsort(-np.abs(X[y == 1].mean(axis=0) - X[y == 0].mean(axis=0)))
    rows[:, informative[:2]] = rows[:, informative[:2]] @ turn

# %%
# Predict first, then learn
# -------------------------

streams = {
    "LVQ, goes on": LVQClassifier(
        2, algorithm="lvq1", learning_rate=0.05, random_state=0
    ),
    "perceptron with margin, goes on": MarginPerceptron(
        margin_threshold=1.0, random_state=0
    ),
}
once = LVQClassifier(2, random_state=0).fit(*batches[0])
errors = {name: [] for name in (*streams, "LVQ, fitted once")}
for step, (rows, labels) in enumerate(batches):
    if step > 0:
        # Asked first, then told.
        for name, model in {**streams, "LVQ, fitted once": once}.items():
            errors[name].append(np.mean(model.predict(rows) != labels))
    for model in streams.values():
        model.partial_fit(rows, labels, classes=[0, 1])
for name, values in errors.items():
    print(f"{name:32} {np.mean(values):6.1%} wrong over the whole stream")

# %%
# The error over time
# -------------------

figure, ax = plt.subplots(figsize=(7.5, 4.2), layout="constrained")
colours = ("#d64545", "#e8833a", "#9aa5b1")
for (name, values), colour in zip(errors.items(), colours, strict=True):
    smooth = np.convolve(values, np.ones(5) / 5, mode="valid")
    ax.plot(np.arange(len(smooth)) + 3, 100 * smooth, color=colour, label=name)
ax.set(xlabel="batch of 100 samples", ylabel="error before learning the batch, %")
ax.spines[["top", "right"]].set_visible(False)
ax.set_ylim(bottom=0)
ax.legend(frameon=False)
plt.show()
