"""
Tables with mixed units: feature importance
===========================================

The wine data have thirteen measurements: alcohol in per cent, proline in the hundreds.
Neighbours use the distance of the largest column, unless somebody scales. GLVQ scales
columns when that helps. GMLVQ learns the distance and says which features matter.
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
# %%
# With and without scaling
# ------------------------

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

# %%
# The errors
# ----------

figure, ax = plt.subplots(figsize=(5.5, 4.2), layout="constrained")
places = np.arange(len(errors))
for i, (label, colour) in enumerate((("raw", "#9aa5b1"), ("scaled", "#d64545"))):
    bars = ax.bar(
        places + 0.4 * i - 0.2,
        [both[i] for both in errors.values()],
        0.4,
        color=colour,
        label=label,
    )
    ax.bar_label(bars, fmt="%.1f", padding=2)
ax.set_xticks(places, list(errors))
ax.set_ylabel("error in cross-validation, %")
ax.legend(frameon=False)
ax.spines[["top", "right"]].set_visible(False)
plt.show()

# %%
# Which features matter
# ---------------------
# ``feature_importances_`` has no unit. The matrix shows which features act together.

model = GMLVQClassifier(random_state=0).fit(X, y)
figure, ax = plt.subplots(figsize=(9, 4.4), layout="constrained")
RelevanceDisplay.from_estimator(model, X, feature_names=wine.feature_names, ax=ax)
plt.show()
# sphinx_gallery_thumbnail_number = 2
