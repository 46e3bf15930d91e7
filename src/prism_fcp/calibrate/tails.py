"""What a count of scores below an edge says, with confidence, about the share of the distribution below it.

The scores of one client are independent draws of its own distribution, and clients differ. So the number below a fixed
point is no binomial but a sum of unlike Bernoullis, and with weights a weighted one.
"""

from __future__ import annotations

from collections.abc import Callable
from math import exp, lgamma, log, sqrt
from typing import NamedTuple

import numpy as np

from prism_fcp.calibrate.beta import beta_quantile_log
from prism_fcp.errors import DataError
from prism_fcp.types import FloatArray, IntArray


class Draws(NamedTuple):
    """Weighted draws: all masses in the same small parts of a score, as `whole_parts` gives them."""

    mass: int  # of all draws
    largest: int  # the heaviest draw
    squares: int  # the sum of all draws' squared masses; more than it is allowed
    equal: bool  # every draw weighs `largest`


def effective_size(sizes: IntArray, weights: FloatArray) -> float:
    """Return how many equally weighted scores are worth as much: (sum w·n)² / sum w²·n, 0 where nothing counts.

    >>> effective_size(np.array([100, 300]), np.array([1.0, 1.0]))
    400.0
    """
    n, w = np.asarray(sizes, dtype=np.float64), np.asarray(weights, dtype=np.float64)
    if n.shape != w.shape:
        raise DataError(f"effective_size: {w.size} weights for {n.size} clients; one for each is needed")
    squares = float(w**2 @ n)
    return float(w @ n) ** 2 / squares if squares > 0 else 0.0


def least_share(reached: int, draws: Draws, log_delta: float) -> float:
    """Return p such that draws whose mixture puts less than p below a fixed point reach this mass there too rarely.

    That is, with probability at most delta. Draws of equal weight: Clopper-Pearson's lower end. Hoeffding (1956)
    proved that an upper tail of unlike Bernoullis is within the binomial's of the same mean from one above the mean
    on, hence the cut at (m - 1)/n; where that cuts (m = 1), Markov's inequality gives delta·m/n.
    Unequal weights: the best of Hoeffding's inequality for weighted sums and of Chernoff's bound with the Poisson
    exponent, on the draws below the point and on those above it. The last is nearly exact for high shares.
    """
    if reached <= 0:
        return 0.0
    if reached > draws.mass:
        return 1.0
    if draws.equal:
        n, m = draws.mass // draws.largest, -(-reached // draws.largest)
        exact = beta_quantile_log(log_delta, m, n - m + 1)
        return max(min(exact, (m - 1) / n), exp(log_delta) * m / n)
    below = _rate(reached / draws.largest, -log_delta, upward=False) * draws.largest / draws.mass
    above = _rate((draws.mass - reached) / draws.largest, -log_delta, upward=True) * draws.largest / draws.mass
    hoeffding = (reached - sqrt(draws.squares * -log_delta / 2)) / draws.mass
    return max(below, 1 - above, hoeffding, 0.0)


def _rate(count: float, exponent: float, *, upward: bool) -> float:
    """Return the Poisson mean r above, or below, `count` for which Chernoff's exponent c·log(c/r) - c + r is this."""
    if count == 0:
        return exponent if upward else 0.0
    wanted = exponent / count
    if upward:  # r/c - 1 - log(r/c) = wanted, and r/c is at most 1 + w + sqrt(2w)
        return count * _rising(lambda r: r - 1 - log(r) - wanted, 1.0, 1 + wanted + sqrt(2 * wanted))
    return count * exp(-_rising(lambda s: exp(-s) - 1 + s - wanted, 0.0, 1 + wanted))


def _rising(function: Callable[[float], float], low: float, high: float) -> float:
    """Return where a rising function crosses zero, from above: the safe side for every caller."""
    while high - low > 1e-12 * high:
        middle = (low + high) / 2
        if function(middle) < 0:
            low = middle
        else:
            high = middle
    return high


def log_choices(clients: int, left_out: int) -> float:
    """Return minus the log of the share of delta that falls to one set of left-out clients.

    A filter looks at the counts, so the kept set is no fixed one. Spending delta/((l+1)(l+2)) on the sets of l clients,
    and the same on each of them, makes a bound hold for all sets at once, whatever the filter does: the sum is delta.

    >>> round(exp(log_choices(5, 0))), round(exp(log_choices(5, 1)))  # halves the rest; 6 for l = 1, 5 such clients
    (2, 30)
    """
    ways = lgamma(clients + 1) - lgamma(left_out + 1) - lgamma(clients - left_out + 1)
    return log((left_out + 1) * (left_out + 2)) + ways


def band(squares: float, mass: float, log_delta: float) -> float:
    """Return the slack, in mass, with which counts at every point at once keep to the mixture's shares, one side.

    The classical proof of uniform convergence: Hoeffding's inequality at the points where the mixture reaches 1/I,
    2/I, ..., and monotony between them, for unlike and weighted draws.
    """
    if squares <= 0:
        return 0.0
    points = int(sqrt(2 * mass**2 / squares)) + 1
    return sqrt(squares * (log(points) - log_delta) / 2) + mass / points
