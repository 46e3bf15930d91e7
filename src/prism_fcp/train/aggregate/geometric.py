"""The geometric median: the point whose distances to all uploads add up to the least."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from prism_fcp.errors import SettingError, need_number
from prism_fcp.train.aggregate.lift import stateless
from prism_fcp.train.aggregate.order import trim_columns
from prism_fcp.types import BoolArray, FloatArray, Rule

MOST_STEPS = 1000


def geometric_median(steps: int = 32, smoothing: float = 1e-6) -> Rule:
    """Minimise the sum of the distances to the uploads, each over the coordinates its client sent.

    Weiszfeld's steps from the coordinate-wise median: weigh each upload by the reciprocal of its distance, and average
    each coordinate over those who sent it. A distance counts as at least `smoothing` times the median one, so that an
    upload the point falls on does not hold it. Nobody sent a coordinate: the previous value. It stands up to just under
    half the uploads, if they are whole. Reference: Weiszfeld 1937, Pillutla et al. 2022 (smoothed; there from the mean,
    with an absolute limit).
    """
    need_number("geometric_median: steps", steps, integer=True)
    need_number("geometric_median: smoothing", smoothing)
    if not 1 <= steps <= MOST_STEPS:
        raise SettingError(f"geometric_median: steps={steps}; must lie in 1..{MOST_STEPS}")
    if not 0 < smoothing <= 1:
        raise SettingError(f"geometric_median: smoothing={smoothing}; must lie in (0, 1]")

    def function(rows: FloatArray, sent: BoolArray, previous: FloatArray) -> tuple[FloatArray, None]:
        point = trim_columns(rows, sent, previous, len(rows)).astype(np.float64)
        return weiszfeld(rows.astype(np.float64), sent, point, steps, smoothing), None

    return stateless("geometric_median", function)


def weiszfeld(
    rows: NDArray[np.float64], sent: BoolArray, point: NDArray[np.float64], steps: int, smoothing: float
) -> NDArray[np.float64]:
    """Return the point after so many of Weiszfeld's steps; where nobody sent anything it stays."""
    whole = bool((sent == sent[0]).all())
    for _ in range(steps):
        distance = np.sqrt(np.square(np.where(sent, rows - point, 0)).sum(axis=1))
        least = smoothing * float(np.median(distance))
        if not least > 0:  # half the uploads lie here
            if whole or not distance.any():
                break  # no sum of distances is less
            least = smoothing * float(np.median(distance[distance > 0]))  # in coordinates that they sent
        weight = sent * (least / np.maximum(distance, least))[:, None]
        total = weight.sum(axis=0)
        moved = (weight * np.where(sent, rows - point, 0)).sum(axis=0) / np.where(total > 0, total, 1)
        point = point + moved
    return point
