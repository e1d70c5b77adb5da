"""Files of data, written by hand."""

import csv
import gzip
import struct

import numpy as np


def write_csv(path, names, rows, delimiter=","):
    with path.open("w", newline="") as file:
        writer = csv.writer(file, delimiter=delimiter)
        writer.writerow(names)
        writer.writerows(rows)
    return path


def write_idx(path, values, packed=True):
    raw = bytes([0, 0, 8, values.ndim]) + struct.pack(f">{values.ndim}I", *values.shape)
    raw += values.astype(np.uint8).tobytes()
    path.write_bytes(gzip.compress(raw) if packed else raw)
    return path


def text_rows(n=30):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 3)).round(3)
    return X, [f"{a},{b},{c},{'pq'[i % 2]}" for i, (a, b, c) in enumerate(X)]
