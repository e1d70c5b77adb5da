"""
A table whose columns have nothing in common
============================================

Wine, thirteen measurements: alcohol in per cent, proline in the hundreds. Prototypes
compare vectors by distance, and the distance is that of the largest column unless
somebody scales. GMLVQ learns the distance along with the prototypes: it needs no
scaling, and says which columns it used.
"""

import numpy as np
from matplotlib import pyplot as plt
from sklearn.datasets import load_wine
from sklearn.model_selection import cross_val_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from widemargin import GLVQClassifier, GMLVQClassifier

wine = load_wine()
X, y = wine.data, wine.target
models = {
    "5 neighbours": KNeighborsClassifier(),
    "GLVQ": GLVQClassifier(random_state=0),
    "GMLVQ": GMLVQClassifier(random_state=0),
}
errors = {}
print("error in ten folds:        raw   scaled")
for name, model in models.items():
    both = [
        100 * (1 - cross_val_score(candidate, X, y, cv=10).mean())
        for candidate in (model, make_pipeline(StandardScaler(), model))
    ]
    errors[name] = both
    print(f"{name:22} {both[0]:6.1f} % {both[1]:6.1f} %")

scaled = StandardScaler().fit_transform(X)
model = GMLVQClassifier(random_state=0).fit(scaled, y)
relevance = model.relevances_
order = relevance.argsort()

figure, (left, right) = plt.subplots(1, 2, figsize=(10.5, 4.4), layout="constrained")
places = np.arange(len(errors))
for i, (label, colour) in enumerate((("raw", "#9aa5b1"), ("scaled", "#d64545"))):
    bars = left.bar(
        places + 0.4 * i - 0.2,
        [both[i] for both in errors.values()],
        0.4,
        color=colour,
        label=label,
    )
    left.bar_label(bars, fmt="%.1f", padding=2)
left.set_xticks(places, list(errors))
left.set_ylabel("error in cross-validation, %")
left.legend(frameon=False)
right.barh(
    [wine.feature_names[i].replace("_", " ") for i in order],
    relevance[order],
    color="#1f5f8b",
)
right.set_xlabel("share of the learned distance")
for ax in (left, right):
    ax.spines[["top", "right"]].set_visible(False)
plt.show()
