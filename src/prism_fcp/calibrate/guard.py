"""Radii that stay right: a rank high enough for liars among the kept clients, and each client's own."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from math import ceil, floor, inf
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from prism_fcp.calibrate.masses import BLOCK_ENTRIES, exact_fraction, pool_counts
from prism_fcp.calibrate.quantile import Correction, Level, bracket_from_histogram, exact_level
from prism_fcp.errors import DataError, SettingError
from prism_fcp.types import FloatArray, IntArray


class Guard(NamedTuple):
    """A radius that allows for liars, beside the one that does not."""

    fraction: float  # of the kept mass that may be lies
    rank: int  # the mass the radius reaches
    level: float  # the confidence level that would ask for the same rank; 1 or more: no radius is large enough
    radius: float
    plain_radius: float
    price: float  # radius over plain radius, which is also how much wider intervals become


def guarded_rank(mass: int, extra: int, level: Level, fraction: float | str | Decimal | Fraction) -> int:
    """Return the rank at which the honest kept clients are covered though this fraction of the mass is lies.

    If lies of mass L all lie below, rank r of all is rank r - L of the honest, who need ceil((mass - L + extra)·level).
    So r = L + ceil((mass - L + extra)·level); it never falls as L grows by one, as the level is below 1, hence the
    largest whole L within the fraction decides for all. Beyond the mass there is no such radius.

    >>> guarded_rank(1000, 1, 0.9, 0), guarded_rank(1000, 1, 0.9, 0.2)  # 200 + ceil(801 * 0.9)
    (901, 921)
    """
    if mass < 0 or extra < 1:
        raise SettingError(f"guarded_rank: mass={mass}, extra={extra}; must be at least 0 and 1")
    lies = floor(exact_fraction(fraction, "guard") * mass)
    return lies + ceil((mass - lies + extra) * exact_level(level))


def guard(
    counts: IntArray,
    weights: FloatArray,
    edges: FloatArray,
    level: Level,
    fraction: float | str | Decimal | Fraction,
    correction: Correction = "n+1",
) -> Guard:
    """Return the radius at `guarded_rank`, and its price.

    What holds is what the level says without liars: coverage on average over repetitions, here of the honest kept
    clients' mixture. `certificate.worst_case(..., rank=guard.rank)` says what holds with confidence. Liars who do not
    lie low make the intervals wider than they need be; nobody can tell.
    """
    pool = pool_counts(counts, weights, correction)
    rank = guarded_rank(pool.mass, pool.extra, level, fraction)
    radius, plain = (bracket_from_histogram(pool.counts, edges, wanted)[1] for wanted in (rank, pool.rank(level)))
    price = 1.0 if radius == plain else radius / plain if plain > 0 else inf
    return Guard(float(fraction), rank, rank / (pool.mass + pool.extra), radius, plain, price)


def own_radii(counts: IntArray, edges: FloatArray, level: Level) -> NDArray[np.float64]:
    """Return the conformal radius of each client from its own counts alone: upper bin edges, (K,).

    Infinite where a client has too few scores for the level. This is all that can be said for a client that was left
    out: no bound about the kept ones speaks of it.

    >>> own_radii(np.array([[8, 2], [5, 3]]), np.array([0.0, 1.0, 2.0]), 0.9)
    array([ 2., inf])
    """
    table, ends = np.asarray(counts), np.asarray(edges, dtype=np.float64)
    if table.ndim != 2 or ends.shape != (table.shape[1] + 1,):
        raise DataError(
            f"own_radii: counts have shape {table.shape} and there are {ends.size} edges; bins + 1 are needed"
        )
    exact, radii = exact_level(level), np.full(len(table), inf)
    step = max(BLOCK_ENTRIES // table.shape[1], 1)
    for start in range(0, len(table), step):
        reached = np.cumsum(table[start : start + step], axis=1, dtype=np.int64)
        sizes = reached[:, -1]
        ranks = np.array([-(-(n + 1) * exact.numerator // exact.denominator) for n in sizes.tolist()], dtype=np.int64)
        bins = (reached < ranks[:, None]).sum(axis=1)
        enough = ranks <= sizes
        radii[start : start + step][enough] = ends[1:][bins[enough]]
    return radii
