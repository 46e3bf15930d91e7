"""Whether scores are scores, and a copy of them, in one pass over the memory: with many scores the pass is the cost."""

from __future__ import annotations

from math import inf
from typing import Final

import numpy as np

from prism_fcp.calibrate.span import ScoreArray

_BLOCK: Final = 1 << 16  # scores looked at a time: they stay in the cache


def sound(own: ScoreArray, copy: ScoreArray | None = None) -> bool:
    """Return whether no score (float64 or float32) is negative, NaN or infinite, having filled `copy` if it is given.

    Read as unsigned integers, those are the largest.

    >>> sound(np.array([0.5, -0.0])), sound(np.array([0.5, -1.0])), sound(np.array([np.nan]))
    (True, False, False)
    """
    bits, infinity = (np.uint64, 0x7FF << 52) if own.dtype == np.float64 else (np.uint32, 0xFF << 23)
    for start in range(0, own.size, _BLOCK):
        block = own[start : start + _BLOCK]
        if copy is not None:
            copy[start : start + _BLOCK] = block
            block = copy[start : start + _BLOCK]
        if not (block.view(bits).max() < infinity or (block.min() >= 0 and block.max() < inf)):  # -0.0 has a sign
            return False
    return True
