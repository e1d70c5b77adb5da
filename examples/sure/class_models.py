"""
Which classes may this be? Acceptance and extremes
==================================================

A class model accepts a sample or refuses it, whatever the other classes say. The
acceptance plot shows how strange samples are to two classes, with limits that refuse
5 % of their own. The extremes plot checks that, for every level.
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
# Threes and eights are told apart by nearly all samples. Noise is far from both, in the
# corner where no class accepts.
rng = np.random.RandomState(0)
noise = rng.randint(0, 17, (60, 64))
pair = np.isin(y_new, (3, 8))
names = np.append(y_new[pair].astype(str), ["noise"] * len(noise))
samples = np.concatenate([X_new[pair], noise])
AcceptanceDisplay.from_estimator(model, samples, names, classes=(3, 8))

# %%
# Of new samples of a class, a share alpha should have a p-value of at most alpha. The
# band says how far few samples may be from that.
ExtremesDisplay.from_estimator(model, X_new, y_new, classes=(3, 8))
plt.show()
