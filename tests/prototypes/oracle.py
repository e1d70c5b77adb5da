"""Plain float64 loops, straight from the definitions: slow and obvious."""

import numpy as np


def kohonen(P, labels, X, y, order, rule, alpha_0, window=0.3, epsilon=0.1):
    """Run one stage of presentations `order` and return the moved prototypes."""
    P = np.array(P, dtype=np.float64)
    rates = np.full(len(P), float(alpha_0))
    total = len(order)
    for t, i in enumerate(order):
        x = X[i]
        alpha = alpha_0 * (1 - t / total)
        d = np.sqrt(np.sum((P - x) ** 2, axis=1))
        if rule == "glvq":
            own = labels == y[i]
            plus, minus = np.where(own, d, np.inf).argmin(), (d + own * 1e99).argmin()
            D_plus, D_minus = d[plus] ** 2, d[minus] ** 2
            beta = 10 * 4 ** (t / total)
            s = 1 / (1 + np.exp(beta * (D_minus - D_plus) / (D_minus + D_plus)))
            step = alpha * 4 * s * (1 - s) / (D_minus + D_plus)
            P[plus] += step * D_minus * (x - P[plus])
            P[minus] -= step * D_plus * (x - P[minus])
            continue
        first, second = np.argsort(d, kind="stable")[:2]
        if rule in ("lvq1", "olvq1"):
            s = 1 if labels[first] == y[i] else -1
            rate = rates[first] if rule == "olvq1" else alpha
            P[first] += s * rate * (x - P[first])
            if rule == "olvq1":
                rates[first] = min(alpha_0, rate / (1 + s * rate))
            continue
        right = [labels[first] == y[i], labels[second] == y[i]]
        s = (1 - window) / (1 + window)
        near = min(d[first] / d[second], d[second] / d[first])
        if sum(right) == 1 and near > s:
            good, bad = (first, second) if right[0] else (second, first)
            P[good] += alpha * (x - P[good])
            P[bad] -= alpha * (x - P[bad])
        elif sum(right) == 2 and rule == "lvq3":
            P[first] += epsilon * alpha * (x - P[first])
            P[second] += epsilon * alpha * (x - P[second])
    return P


def class_distance(d, decision, k, h):
    """Distance to a class whose prototypes are at distances `d`."""
    if decision == "parzen":
        return -h * np.log(np.mean(np.exp(-d / h)))
    return np.sort(d)[min(k, len(d)) - 1 if decision == "k_nearest" else 0]


def hypothesis_margin(x, c, P, labels, decision="nearest", k=1, h=1.0):
    """theta of sample x with class c."""
    d = np.sqrt(((P - x) ** 2).sum(axis=1))
    s = {b: class_distance(d[labels == b], decision, k, h) for b in np.unique(labels)}
    return (min(s[b] for b in s if b != c) - s[c]) / 2
