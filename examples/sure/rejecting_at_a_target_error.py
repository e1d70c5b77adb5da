"""
Abstaining at a target error
============================

A form reader may hand unclear digits to a person, but at most 2 % of its answers may be
wrong. RejectingClassifier chooses the threshold on samples that the classifier has not
seen. The limit then holds on new digits with probability 95 %, for any classifier.
"""

import numpy as np
from matplotlib import pyplot as plt
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from widemargin.inspection import ErrorRejectDisplay
from widemargin.meta import RejectingClassifier

TARGET = 0.02
X, y = load_digits(return_X_y=True)
X, X_new, y, y_new = train_test_split(X, y, test_size=0.4, random_state=0)
candidates = {
    "5 nearest neighbours": KNeighborsClassifier(weights="distance"),
    "random forest": RandomForestClassifier(50, random_state=0),
    "logistic regression": make_pipeline(
        StandardScaler(), LogisticRegression(max_iter=300)
    ),
}

# %%
# Three classifiers, one limit
# ----------------------------

print(f"guarantee: at most {TARGET:.0%} of the answers wrong, with probability 95 %")
fitted = {}
for name, candidate in candidates.items():
    model = RejectingClassifier(candidate, max_error=TARGET, cv=0.4, random_state=0)
    fitted[name] = model.fit(X, y)
    plain = np.mean(model.estimator_.predict(X_new) != y_new)
    answered = model.accepts(X_new)
    wrong = np.mean((model.predict(X_new) != y_new)[answered])
    print(
        f"  {name:21} {plain:6.1%} wrong if it must answer; "
        f"answers {answered.mean():6.1%}, {wrong:5.1%} of them wrong"
    )

# %%
# Error-reject curves
# -------------------
# The dots show where each classifier stops.

display = ErrorRejectDisplay.from_estimator(fitted, X_new, y_new, max_rejection=0.7)
display.ax_.axhline(100 * TARGET, color="#1f2933", linewidth=0.8, linestyle=":")
for line, model in zip(display.lines_, fitted.values(), strict=True):
    answered = model.accepts(X_new)
    wrong = np.mean((model.predict(X_new) != y_new)[answered])
    display.ax_.plot(
        100 * (1 - answered.mean()),
        100 * wrong,
        "o",
        color=line.get_color(),
        clip_on=False,
    )
plt.show()
