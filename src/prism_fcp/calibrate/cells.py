"""Cells: the bins of a thin grid drawn together, so that a distance between clients is not all sampling noise.

Equal mass under the typical client, and a cell of its own for each single bin that holds more of a client's scores
than chance explains. All of it is derived from the counts the clients sent; nothing is asked for a second time.
"""

from __future__ import annotations

from math import log
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from prism_fcp.errors import SettingError, need_number
from prism_fcp.types import FloatArray, IntArray

CELLS: Final = 40  # a cell holds 2.5 % of the typical client's scores
FEW: Final = 256  # a grid of up to this many bins is not thin: its bins are its cells
ENTRIES: Final = 1 << 20  # numbers held at a time, so that there is no second dense copy of the counts
NEARBY: Final = 32  # bins to either side that say what one bin should hold; half an octave of the default grid
STEEP: Final = 4.0  # how many times the mean of the bins nearby a smooth density may reach
CHANCE: Final = 0.01  # how often alike clients get a spike's cell for nothing; it costs them no verdict
SIZE_CAP: Final = 3.0  # as evidence about the others, no client counts for more than this many median clients


class Cells(NamedTuple):
    """A way to draw bins together: runs of bins, and single bins taken out of them."""

    starts: NDArray[np.int64]  # the first bin of each run, ascending from 0
    spikes: NDArray[np.int64]  # bins that stand alone, ascending; their scores are not counted in the run


def cells(counts: IntArray, sizes: IntArray, number: int = CELLS) -> Cells:
    """Return `number` runs of equal mass under the typical client, and the bins that stand alone.

    Those are the first bin (scores of zero), the last (scores beyond the grid), and each client's fullest bin if the
    bins near it do not explain it, at most `number` of them. A grid of `FEW` bins or fewer stays as it is.
    """
    need_number("cells: number", number, integer=True)
    if number < 2:
        raise SettingError(f"cells: number={number}; must be at least 2, one cell makes all clients look alike")
    bins = counts.shape[1]
    if bins <= FEW:
        return Cells(np.arange(bins), np.empty(0, dtype=np.int64))
    typical = typical_cdf(counts, sizes)
    ends = np.unique(np.searchsorted(typical, np.arange(1, number) / number - 1e-9) + 1)
    ends = ends[typical[ends - 1] < 1 - 0.5 / number]  # a run that is empty for the typical client would be no run
    return Cells(np.concatenate(([0], ends)), _spikes(counts, sizes, typical, number))


def coarsen(counts: IntArray, drawn: Cells) -> NDArray[np.int64]:
    """Return the counts (K, cells) from low scores to high: runs without their spikes, each spike beside its run.

    >>> coarsen(np.array([[1, 2, 3, 4]]), Cells(np.array([0, 2]), np.array([3])))
    array([[3, 3, 4]])
    """
    starts, spikes = drawn
    if len(starts) == counts.shape[1]:
        return np.asarray(counts, dtype=np.int64)
    runs = np.empty((len(counts), len(starts)), dtype=np.int64)
    step = max(ENTRIES // counts.shape[1], 1)
    for first in range(0, len(counts), step):  # reduceat converts its input as a whole where types differ
        rows = slice(first, first + step)
        np.add.reduceat(counts[rows], starts, axis=1, dtype=np.int64, out=runs[rows])
    alone = counts[:, spikes].astype(np.int64)
    owner = np.searchsorted(starts, spikes, side="right") - 1
    for column, run in enumerate(owner):
        runs[:, run] -= alone[:, column]
    return np.insert(runs, owner + (spikes > starts[owner]), alone, axis=1)


def compared(counts: IntArray, sizes: NDArray[np.int64], number: int | None) -> IntArray:
    """Return the counts on the cells that filters compare clients on; 0: the bins themselves.

    Paper: sec:calib-mitig, v_k (derived by the server from the counts that give the quantile)
    """
    return counts if number == 0 else coarsen(counts, cells(counts, sizes, CELLS if number is None else number))


def places(counts: IntArray, sizes: NDArray[np.int64], number: int | None) -> NDArray[np.int64]:
    """Return the first bins of the cells as a page shows them: side by side, a run cut in two where a spike stands."""
    if number == 0:
        return np.arange(counts.shape[1])
    drawn = cells(counts, sizes, CELLS if number is None else number)
    starts = np.unique(np.concatenate((drawn.starts, drawn.spikes, drawn.spikes + 1)))
    inside: NDArray[np.int64] = starts[starts < counts.shape[1]]
    return inside


def typical_cdf(table: IntArray | FloatArray, sizes: IntArray | FloatArray) -> NDArray[np.float64]:
    """Return, for each bin, the median client's share of scores up to and including it. Every client counts once.

    Liars short of half move it no further than to the honest client that lies farthest to their side.
    """
    clients, bins = table.shape
    low, middle = (clients - 1) // 2, clients // 2
    used = np.flatnonzero(table.any(axis=0))
    first, end = (int(used[0]), int(used[-1]) + 1) if used.size else (0, bins)
    typical = np.zeros(bins)
    typical[end:] = 1
    below = np.zeros(clients)
    step = max(ENTRIES // clients, 1)
    for start in range(first, end, step):
        stop = min(start + step, end)
        block = np.cumsum(table[:, start:stop].T, axis=0, dtype=np.float64)
        block += below
        below = block[-1].copy()
        block /= sizes
        block.partition((low, middle), axis=1)
        typical[start:stop] = (block[:, low] + block[:, middle]) / 2
    return typical


def evidence_of_more(
    share: NDArray[np.float64], sizes: IntArray, usual: NDArray[np.float64] | float, others: float
) -> NDArray[np.float64]:
    """Return the log-likelihood ratio by which `share` of `sizes` scores is more than `usual` of `others` scores.

    Two samples are compared, so that a client with many scores cannot be accused by others that have few. It is 0
    where the share is not larger; exp(-evidence) is about how often chance alone would do it.
    """
    together = (share * sizes + usual * others) / (sizes + others)
    gain = sizes * _divergence(share, together) + others * _divergence(usual, together)
    return np.where(share > usual, gain, 0.0)


def _divergence(share: NDArray[np.float64] | float, expected: NDArray[np.float64]) -> NDArray[np.float64]:
    tiny = 1e-300  # 0·log 0 is 0
    inside = share * np.log(np.maximum(share, tiny) / np.maximum(expected, tiny))
    outside = (1 - share) * np.log(np.maximum(1 - share, tiny) / np.maximum(1 - expected, tiny))
    return np.asarray(np.maximum(inside + outside, 0.0))


def _spikes(counts: IntArray, sizes: IntArray, typical: NDArray[np.float64], number: int) -> NDArray[np.int64]:
    clients, bins = counts.shape
    fullest = np.asarray(counts.argmax(axis=1))
    held = counts[np.arange(clients), fullest] / sizes
    cdf = np.concatenate(([0.0], typical))
    first, last = np.maximum(fullest - NEARBY, 0), np.minimum(fullest + NEARBY + 1, bins)
    smooth = np.clip(STEEP * (cdf[last] - cdf[first]) / (last - first), 0, 1)
    others = float(np.minimum(sizes, SIZE_CAP * np.median(sizes)).sum()) / 2  # a majority of them
    found = (held * number > 1) & (evidence_of_more(held, sizes, smooth, others) > log(clients * bins / CHANCE))
    most = np.zeros(bins)
    np.maximum.at(most, fullest[found], held[found])
    chosen = np.argsort(-most, kind="stable")[:number]
    return np.unique(np.concatenate(([0, bins - 1], chosen[most[chosen] > 0])))
