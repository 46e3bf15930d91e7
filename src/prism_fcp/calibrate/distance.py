"""How far each client's characterization lies from the others: the two measures the filters judge by."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

BLOCK_ENTRIES: Final = 1 << 18  # distances held at a time: 2 MiB, whatever the number of clients
# A product of up to this many multiplications does not wake BLAS's threads. For a small federation waking them costs
# several times the product, and in a simulation of many trials it doubles the CPU time of the whole.
QUIET_PRODUCT: Final = 1 << 18
SMALL_FEDERATION: Final = 1 << 25


def farthest_scores(shares: NDArray[np.float64], count: int, block: int | None = None) -> NDArray[np.float64]:
    """Return, for each row, the sum of its distances to the `count` rows farthest from it.

    Exact, in O(K·block) memory: a Gram product of centred rows for `block` rows at a time. Centring first keeps
    the precision when all rows are alike; squared distances below the product's rounding are set to zero, so that
    equal rows are at distance exactly zero.

    Paper: eq:mal_score; rem:scalability_filtering (blockwise streaming)
    """
    clients, width = shares.shape
    if block is None:
        small = clients * clients * width <= SMALL_FEDERATION
        block = max(QUIET_PRODUCT // (clients * width) if small else BLOCK_ENTRIES // clients, 1)
    centred = shares - shares.mean(axis=0)
    squares = np.einsum("kh,kh->k", centred, centred)
    noise = 4 * np.finfo(np.float64).eps * width
    totals = np.zeros(clients)
    if count <= 0:
        return totals
    for start in range(0, clients, block):
        rows = slice(start, min(start + block, clients))
        sums = squares[rows, None] + squares
        gaps = centred[rows] @ centred.T
        gaps *= -2
        gaps += sums
        sums *= noise
        gaps[gaps <= sums] = 0
        own = np.arange(rows.stop - start)
        gaps[own, own + start] = 0  # a client is no neighbour of its own: nothing is nearer
        if count < clients:
            gaps.partition(clients - count, axis=1)
        totals[rows] = np.sqrt(gaps[:, clients - count :]).sum(axis=1)
    return totals


def median_distances(shares: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return each row's distance to the coordinate-wise median of all rows.

    Paper: Alg. 1, phase 2 (unknown count); rem:handling_unknown
    """
    gaps = shares - median_rows(shares)
    distances: NDArray[np.float64] = np.sqrt(np.einsum("kh,kh->k", gaps, gaps))
    return distances


def median_rows(shares: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the coordinate-wise median; the same as `np.median(axis=0)`, without its detours."""
    middle = len(shares) // 2
    columns = np.ascontiguousarray(shares.T)
    low = (len(shares) - 1) // 2
    columns.partition((low, middle), axis=1)
    midway: NDArray[np.float64] = (columns[:, low] + columns[:, middle]) / 2
    return midway


def centre_and_spread(distances: NDArray[np.float64], scale: float) -> tuple[float, float]:
    """Return `(centre, spread)`: the median, and scale·MAD where MAD is the median distance to it."""
    centre = float(np.median(distances))
    return centre, scale * float(np.median(np.abs(distances - centre)))
