"""The step size that leaves the smallest steady-state deviation under attack.

A large step learns fast and lets gradient noise through; a small one forgets what attackers injected so slowly that it
piles up. In between lies the best one.
"""

from __future__ import annotations

from dataclasses import replace
from math import exp, inf, log
from typing import NamedTuple

from prism_fcp.theory.recursion import Training
from prism_fcp.theory.steady import settled, stability_limit

SHRINK = (5**0.5 - 1) / 2
DECADES = 4


class Optimum(NamedTuple):
    """The best step size and the deviation it leaves."""

    step_size: float
    deviation: float
    limit: float  # the step size from which on nothing settles


def optimal_step_size(training: Training, *, model: str = "local", limit: float | None = None) -> Optimum:
    """Return the step size with the least steady-state deviation of the local models, or of the global one.

    A scan downwards from the limit, over four decades at most, then a golden section around its best point.
    """
    most = stability_limit(training, 1e-3) if limit is None else limit

    def deviation(at: float) -> float:
        found = settled(replace(training, step_size=exp(at)))
        return inf if found is None else found.server if model == "global" else found.local

    top, steps = log(0.98 * most), 12
    points = [top - place / steps * DECADES * log(10) for place in range(steps + 1)]
    values: list[float] = []
    for point in points:  # downwards, until it has been rising for a while
        values.append(deviation(point))
        if len(values) > 3 and min(values[-2:]) > min(values):
            break
    best = values.index(min(values))
    low, high = points[min(best + 1, steps)], points[max(best - 1, 0)]
    first, second = high - SHRINK * (high - low), low + SHRINK * (high - low)
    one, other = deviation(first), deviation(second)
    while high - low > 0.06:  # 3 % of a step size are nothing in dB
        if one < other:
            high, second, other = second, first, one
            first = high - SHRINK * (high - low)
            one = deviation(first)
        else:
            low, first, one = first, second, other
            second = low + SHRINK * (high - low)
            other = deviation(second)
    at = (low + high) / 2
    return Optimum(exp(at), deviation(at), most)
