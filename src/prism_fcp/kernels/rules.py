"""Aggregation of one round: every function writes the model that the rule of its name in `train/aggregate` returns.

`rows` (n, width) hold the previous model where nothing was sent, `sent` (n, width) is 1 or 0. The caller
refused uploads that are not finite or so large that a sum could overflow. Widths are padded, and nobody sends padding.
"""

# mypy: allow-untyped-defs
from __future__ import annotations

import numpy as np

from prism_fcp.kernels._jit import part


@part
def mean(rows, n, out):
    """Equal `rows.mean(axis=0)`."""
    width = rows.shape[1]
    for j in range(width):
        out[j] = rows[0, j]
    for i in range(1, n):
        for j in range(width):
            out[j] += rows[i, j]
    count = np.float32(n)
    for j in range(width):
        out[j] = out[j] / count


@part
def mean_of_sharers(rows, sent, previous, n, count, out):
    """Equal `_mean_of_sharers(rows, sent, previous)`; `count` is scratch (width,)."""
    width = rows.shape[1]
    for j in range(width):
        out[j] = np.float32(0)
        count[j] = 0
    for i in range(n):
        for j in range(width):
            given, value = sent[i, j] != 0, rows[i, j]
            out[j] += value if given else np.float32(0)
            count[j] += np.int32(given)
    for j in range(width):
        c = count[j]
        out[j] = out[j] / np.float32(max(c, np.int32(1))) if c > 0 else previous[j]


@part
def sort_columns(values, n):
    """Equal `values[:n] = np.sort(values[:n], axis=0)`: Batcher's odd-even merge sort, a whole row at a time."""
    width = values.shape[1]
    size, log_size = 1, 0
    while size < n:
        gap = size
        while gap >= 1:
            for start in range(gap % size, n - gap, 2 * gap):
                for i in range(start, min(start + gap, n - gap)):
                    if i >> (log_size + 1) == (i + gap) >> (log_size + 1):
                        for j in range(width):
                            a, b = values[i, j], values[i + gap, j]
                            values[i, j] = a if a < b else b
                            values[i + gap, j] = b if a < b else a
            gap //= 2
        size *= 2
        log_size += 1


@part
def trimmed_mean(rows, sent, previous, n, trim, ordered, first, last, out):
    """Equal `_trim(rows, sent, previous, trim)`; `ordered` (n, width), `first` and `last` (width,) are scratch."""
    width = rows.shape[1]
    for j in range(width):
        last[j] = 0
    for i in range(n):
        for j in range(width):
            given, value = sent[i, j] != 0, rows[i, j]
            ordered[i, j] = value if given else np.float32(np.inf)  # behind everything that was sent
            last[j] += np.int32(given)
    sort_columns(ordered, n)
    for j in range(width):
        first[j] = min(np.int32(trim), np.int32(max(last[j] - 1, 0) >> 1))
        last[j] -= first[j]
        out[j] = np.float32(0)
    for i in range(n):
        place = np.int32(i)
        for j in range(width):
            inside = (place >= first[j]) & (place < last[j])
            value = ordered[i, j]
            out[j] += value if inside else np.float32(0)
    for j in range(width):
        kept = np.int32(last[j] - first[j])
        out[j] = out[j] / np.float32(kept) if last[j] > 0 else previous[j]


@part
def krum_scores(rows, n, closest, squared, scores):
    """Write what `train/aggregate/krum.py` computes under this name; `squared` is scratch (n, n padded) float64."""
    width = rows.shape[1]
    for i in range(n):
        squared[i, i] = np.inf  # a client is not its own neighbour
        for k in range(i + 1, n):
            total = 0.0
            for j in range(width):
                difference = np.float64(rows[k, j]) - np.float64(rows[i, j])
                total += difference * difference
            squared[i, k] = squared[k, i] = total
    sort_columns(squared, n)
    for i in range(n):
        scores[i] = 0.0
    if n > 1:
        for k in range(closest):
            for i in range(n):
                scores[i] += squared[k, i]


@part
def krum(rows, n, suspects, closest, selected, squared, scores, out):
    """Equal `krum` and `multi_krum`: the mean of the `selected` rows of lowest score; negative means the default."""
    near = min(n - 1, max(1, n - suspects - 2 if closest < 0 else closest))
    take = min(n, max(1, n - suspects if selected < 0 else selected))
    krum_scores(rows, n, near, squared, scores)
    width = rows.shape[1]
    for j in range(width):
        out[j] = np.float32(0)
    for i in range(n):
        before = 0
        for k in range(n):
            before += (scores[k] < scores[i]) | ((scores[k] == scores[i]) & (k < i))
        if before < take:
            for j in range(width):
                out[j] += rows[i, j]
    count = np.float32(take)
    for j in range(width):
        out[j] = out[j] / count
