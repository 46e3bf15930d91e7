"""Min-max and min-sum: as far from the honest mean as the honest uploads are from each other."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from prism_fcp.types import AttackView, FloatArray, UpdateAttack


def min_max(probability: float = 1.0) -> UpdateAttack:
    """Upload mean - gamma * sd of the honest participants with the largest gamma that stays inside their spread.

    Inside: no farther from any of them than the two farthest are from each other. The direction is the reference's
    "std"; its search for gamma is a quadratic equation here. Sees the honest participants' full local models.
    Reference: Shejwalkar and Houmansadr 2021.
    """
    return UpdateAttack("min_max", probability, frozenset({"honest"}), lambda view: _forge(view, summed=False))


def min_sum(probability: float = 1.0) -> UpdateAttack:
    """Do as `min_max`, but inside means: the sum of squared distances is at most the worst honest one's.

    Reference: Shejwalkar and Houmansadr 2021.
    """
    return UpdateAttack("min_sum", probability, frozenset({"honest"}), lambda view: _forge(view, summed=True))


def _forge(view: AttackView, *, summed: bool) -> FloatArray:
    if view.honest is None or not len(view.honest):
        return view.own
    honest = view.honest.astype(np.float64)
    centre, spread = honest.mean(axis=0), honest.std(axis=0)
    squared = np.array([np.square(honest - one).sum(axis=1) for one in honest])  # (h, h)
    away = honest - centre
    # |centre - gamma*spread - h_i|^2 = a gamma^2 + 2 b_i gamma + c_i
    a, b, c = np.square(spread).sum(), away @ spread, np.square(away).sum(axis=1)
    if summed:
        gamma = _largest(len(honest) * a, b.sum(keepdims=True), c.sum(keepdims=True), squared.sum(axis=1).max())
    else:
        gamma = _largest(a, b, c, squared.max())
    return np.broadcast_to((centre - gamma * spread).astype(view.own.dtype), view.own.shape)


def _largest(a: float, b: NDArray[np.float64], c: NDArray[np.float64], bound: float) -> float:
    """Return the largest gamma with a gamma^2 + 2 b gamma + c <= bound for all b and c."""
    if a <= 0:
        return 0.0
    roots = (-b + np.sqrt(np.maximum(b * b - a * (c - bound), 0))) / a
    return max(0.0, float(roots.min()))
