"""Averages: the paper's, where silence votes for the previous model, and the one over those who spoke."""

from __future__ import annotations

import numpy as np

from prism_fcp.train.aggregate.lift import packed
from prism_fcp.types import FloatArray, IntArray, Rule, Uploads


def mean() -> Rule:
    """Average over all uploads, a coordinate a client did not send counting as the previous model.

    A coordinate nobody sent keeps its previous value.

    Paper: Alg. 1, phase 1.
    """

    def function(uploads: Uploads) -> tuple[FloatArray, None]:
        total, count = _add_up(uploads)
        return (total + (len(uploads) - count) * uploads.previous) / len(uploads), None

    return packed("mean", function)


def mean_of_sharers() -> Rule:
    """Average each coordinate over the clients that sent it; nobody sent it: the previous value.

    Paper: Alg. 1, phase 1 (a variant).
    """

    def function(uploads: Uploads) -> tuple[FloatArray, None]:
        total, count = _add_up(uploads)
        return np.where(count > 0, total / np.maximum(count, 1), uploads.previous), None

    return packed("mean_of_sharers", function)


def _add_up(uploads: Uploads) -> tuple[FloatArray, IntArray]:
    """Return the sum of what was sent for each coordinate, in float64, and how many sent it."""
    where, size = uploads.coordinates, len(uploads.previous)
    if uploads.whole:  # the same sums without looking up where each value belongs
        rows = uploads.values.reshape(-1, size)
        return rows.sum(axis=0, dtype=np.float64), np.full(size, len(rows))
    total = np.bincount(where, uploads.values, size).astype(np.float64, copy=False)
    return total, np.bincount(where, minlength=size)
