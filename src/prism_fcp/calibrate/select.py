"""The exact quantile once counts have said which bin it lies in: only that bin's scores are ordered.

Counting 10^6 scores and ordering one bin takes one to two times as long as a partition of them all, and with weights,
where partition does not apply, a fraction of a sort.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from prism_fcp.calibrate.span import ClientScores, ScoreArray
from prism_fcp.errors import DataError
from prism_fcp.types import IntArray

_BLOCK: Final = 1 << 15  # scores compared at a time: the comparisons stay in the cache


def select(scores: ClientScores, parts: IntArray, low: float, high: float, below: int, target: int) -> float:
    """Return the smallest score up to which clients hold the mass `target`, each score its client's `parts`.

    It must lie in low <= score < high, and `below` be the mass of the scores under `low`, as the counts tell.

    >>> select([np.array([0.1, 0.5, 0.6]), np.array([0.7])], np.array([1, 2]), 0.5, 1.0, below=1, target=4)
    0.7
    """
    kept = [(own, part) for own, part in zip(scores, parts.tolist(), strict=True) if part]
    inside = [_between(own, low, high) for own, _ in kept]
    flat = np.concatenate(inside) if inside else np.empty(0)
    if all(part == 1 for _, part in kept):
        place = target - below - 1
        if 0 <= place < flat.size:
            flat.partition(place)
            return float(flat[place])
    else:
        mass = np.repeat(np.array([part for _, part in kept], dtype=np.int64), [own.size for own in inside])
        order = np.argsort(flat, kind="stable")
        place = int(np.searchsorted(below + np.cumsum(mass[order]), target)) if below < target else flat.size
        if place < flat.size:
            return float(flat[order[place]])
    raise DataError(f"select: the mass {target} is not reached within [{low}, {high}): counts and scores disagree")


def _between(own: ScoreArray, low: float, high: float) -> ScoreArray:
    found = []
    for start in range(0, len(own), _BLOCK):
        block = own[start : start + _BLOCK]
        inside = block >= low
        inside &= block < high
        found.append(block[inside])
    return np.concatenate(found) if len(found) != 1 else found[0]
