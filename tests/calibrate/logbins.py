"""Counts on the default grid, for tests of what is done with counts: 64 equal steps in every octave.

A stand-in until the grid has its own module; then `EDGES` and `count` are that grid's.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

LOWEST, HIGHEST, STEPS = -30, 30, 64
EDGES = np.concatenate(
    (
        [0.0],
        (2.0 ** np.arange(LOWEST, HIGHEST)[:, None] * (1 + np.arange(STEPS) / STEPS)).reshape(-1),
        [2.0**HIGHEST, np.inf],
    )
)
BINS = len(EDGES) - 1


def count(scores: Sequence[NDArray[np.float64]]) -> NDArray[np.int64]:
    """Return (K, H) counts: exponent and first six binary digits of a float are the bin's number."""
    flat = np.ascontiguousarray(np.concatenate(list(scores)), dtype=np.float64)
    cells = (flat.view(np.int64) >> 46) - ((1023 + LOWEST) * STEPS - 1)
    cells = np.clip(cells, 0, BINS - 1) + np.repeat(np.arange(len(scores)) * BINS, [len(own) for own in scores])
    return np.bincount(cells, minlength=len(scores) * BINS).reshape(len(scores), BINS)
