"""
A table whose columns have nothing in common
============================================

Wine, thirteen measurements: alcohol in per cent, proline in the hundreds. Neighbours
compare vectors by distance, and the distance is that of the largest column unless
somebody scales. GLVQ divides columns by their spread where that helps. GMLVQ learns the
distance along with the prototypes, and says which columns it used, and which together.
"""

import numpy as np
from matplotlib import pyplot as plt
from sklearn.datasets import load_wine
from sklearn.model_selection import cross_val_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from widemargin import GLVQClassifier, GMLVQClassifier
from widemargin.inspection import RelevanceDisplay

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

model = GMLVQClassifier(random_state=0).fit(X, y)

figure, (left, right) = plt.subplots(
    1, 2, figsize=(13, 4.4), layout="constrained", width_ratios=[1, 2.2]
)
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
RelevanceDisplay.from_estimator(model, X, feature_names=wine.feature_names, ax=right)
left.spines[["top", "right"]].set_visible(False)
plt.show()
