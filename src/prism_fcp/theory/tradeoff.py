"""Where to stop paying on a curve of cost against what it buys."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

BENT: Final = 0.08  # a knee less far from the straight line, as a part of both spans, is none


def knee(xs: Sequence[float], ys: Sequence[float]) -> int | None:
    """Return the place of the point farthest from the line between the first and the last; None where it is straight.

    >>> knee([1, 2, 3, 4], [10.0, 4.0, 3.0, 2.5]), knee([1, 2, 3], [1.0, 2.0, 3.1])
    (1, None)
    """
    x, y = np.asarray(xs, dtype=float), np.asarray(ys, dtype=float)
    spans = np.ptp(x), np.ptp(y)
    if len(x) < 3 or min(spans) == 0:
        return None
    across, up = (x - x[0]) / spans[0], (y - y[0]) / spans[1]
    away = np.abs(up - across * up[-1] / across[-1])
    return int(np.argmax(away)) if away.max() > BENT else None


def falling_knee(xs: Sequence[float], ys: Sequence[float]) -> tuple[int, int | None]:
    """Return the place of the least y, and of the knee on the way there: past the least, paying more buys less.

    >>> falling_knee([1, 2, 3, 4], [10.0, 4.0, 3.0, 5.0]), falling_knee([1, 2, 3], [1.0, 2.0, 2.1])
    ((2, 1), (0, None))
    """
    least = int(np.argmin(ys))
    return least, knee(xs[: least + 1], ys[: least + 1])
