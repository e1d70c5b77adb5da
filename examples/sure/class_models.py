"""
Class models: acceptance and extremes plots
===========================================

A class model accepts or rejects a sample, whatever the other classes say, as SIMCA does
in chemometrics. The acceptance plot shows the nonconformity of samples to two classes,
with limits that reject 5 % of each class's own samples.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from widemargin import ConformalClassifier, HSSClassifier
from widemargin.inspection import AcceptanceDisplay, ExtremesDisplay

X, y = load_digits(return_X_y=True)
X, X_new, y, y_new = train_test_split(X, y, test_size=0.4, stratify=y, random_state=0)
model = ConformalClassifier(HSSClassifier(1, n_tangents=8), alpha=0.05, random_state=0)
model.fit(X, y)

# %%
# Acceptance
# ----------
# More than nine in ten threes and eights are accepted by one class only. Noise is far
# from both, in the corner where no class accepts.

rng = np.random.RandomState(0)
noise = rng.randint(0, 17, (60, 64))
pair = np.isin(y_new, (3, 8))
names = np.append(y_new[pair].astype(str), ["noise"] * len(noise))
samples = np.concatenate([X_new[pair], noise])
sets = model.predict_set(samples)[:, [3, 8]]
for name in ("3", "8", "noise"):
    share = np.mean(sets[names == name].sum(axis=1) == (name != "noise"))
    where = "one class" if name != "noise" else "none"
    print(f"{name}: accepted by {where} of the two in {share:.0%}")
AcceptanceDisplay.from_estimator(model, samples, names, classes=(3, 8))
plt.show()

# %%
# Extremes
# --------
# Of new samples of a class, a share alpha should have a p-value of at most alpha. The
# band shows the deviations that chance explains.

ExtremesDisplay.from_estimator(model, X_new, y_new, classes=(3, 8))
plt.show()
