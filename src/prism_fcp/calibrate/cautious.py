"""The default filter: leave out only what neither chance nor honest variety explains.

Two kinds of evidence, each strong where the other is weak. A spike: many scores in a cell that is empty for the
typical client. Residuals do not do that, however good or bad the model is at a site, so this needs little evidence
and stands in small federations. A distance: a histogram far from the typical one. Honest sites differ too, so this
needs a lot: several times the typical distance, and more the fewer clients there are to learn it from.
"""

from __future__ import annotations

from math import log, sqrt
from typing import Final

import numpy as np
from numpy.typing import NDArray

from prism_fcp.calibrate.cells import SIZE_CAP, evidence_of_more, typical_cdf
from prism_fcp.calibrate.judgement import Filter, FilterContext, Judgement, Shares
from prism_fcp.errors import SettingError, need_number
from prism_fcp.types import FloatArray, IntArray

FEWEST: Final = 3  # clients; two that differ accuse each other
LEAST: Final = 3  # scores that make a spike: fewer are an accident
ROUGH: Final = 2.0  # the tail of a squared distance is that of counts of coincidences, heavier than a normal's


def cautious(ratio: float = 8.0, floor: float = 0.2, few: float = 8.0, chance: float = 0.05) -> Filter:
    """Leave out clients with a spike the typical client lacks, or many times as far away as the typical client.

    A distance is that of a client's shares from the typical ones, relative to their length, less what its own number
    of scores explains. Too far is beyond `ratio` times the median distance and beyond `floor` + `few`/K. A spike is a
    cell that holds more of its scores than a usual cell, where the typical client has less than 1/`ratio` of that.
    Neither counts unless among alike clients, however many, chance did it less often than `chance`.

    The score is the larger of distance/limit and spike/usual cell; weight is lost above 1. It needs no number of
    suspects and stands any number short of half. Of fewer than 3 clients nobody is left out: two accuse each other.
    On a thin grid, give it the cells of `cells.coarsen`. docs/filters.md has its measured rates.
    """
    for name, value in (("ratio", ratio), ("floor", floor), ("few", few), ("chance", chance)):
        need_number(f"filter 'cautious': {name}", value)
        if not value > 0:
            raise SettingError(f"filter 'cautious': {name}={value}; must be positive")
    if ratio < 1 or chance >= 1:
        bad = f"ratio={ratio}; must be at least 1" if ratio < 1 else f"chance={chance}; must be below 1"
        raise SettingError(f"filter 'cautious': {bad}")

    def weigh(shares: Shares, sizes: IntArray, context: FilterContext) -> Judgement:
        clients = len(shares)
        if clients < FEWEST:
            return Judgement(np.ones(clients), np.zeros(clients), 1.0)
        sizes = np.maximum(sizes, 1)  # shares without sizes count as one score each, which accuses nobody
        needed = log(clients / chance)
        centre = typical_shares(shares)
        far, typical = distances_beyond_chance(shares, sizes, centre, needed)
        spikes = _spikes(shares, sizes, centre, ratio, needed)
        scores = np.maximum(far / max(ratio * typical, floor + few / clients), spikes)
        return Judgement((scores <= 1).astype(np.float64), scores, 1.0)

    return Filter("cautious", "difference from the typical client, over what chance and honest variety explain,", weigh)


def typical_shares(shares: Shares) -> NDArray[np.float64]:
    """Return the typical client's shares (H,): what the median client's CDF grows by in each cell."""
    cdf = typical_cdf(shares, np.ones(len(shares)))
    centre = np.diff(cdf, prepend=0.0).clip(min=0)
    total: NDArray[np.float64] = centre / centre.sum()
    return total


def distances_beyond_chance(
    shares: Shares, sizes: IntArray, centre: FloatArray, needed: float
) -> tuple[NDArray[np.float64], float]:
    """Return each client's distance to the centre less what chance explains, and the median client's, unbiased.

    n scores drawn from the centre lie (1 - |c|²)/n from it in the mean of the square, with standard deviation
    sqrt(2 |c|²)/n; a client is given what happens with probability exp(-needed). In units of |c|.
    """
    square = float(centre @ centre)
    gaps = shares - centre
    squares = (np.einsum("kh,kh->k", gaps, gaps) - (1 - square) / sizes) / square
    allowed = (sqrt(2 * needed) * sqrt(2 / square) + 2 * ROUGH * needed) / sizes
    return np.sqrt(np.maximum(squares - allowed, 0)), sqrt(max(float(np.median(squares)), 0.0))


def _spikes(shares: Shares, sizes: IntArray, centre: FloatArray, ratio: float, needed: float) -> NDArray[np.float64]:
    """Return each client's largest share in a cell the typical client leaves empty, over the typical cell's share.

    It must be more than in the scores of a majority: the clients that hold the least there, and all that hold none.
    As the lucky half would speak for the others, their share is at least what so many clients that hold some imply.
    """
    clients = len(shares)
    large = float(centre @ centre)
    usual = np.maximum(np.median(shares, axis=0), centre)
    score = np.zeros(clients)
    capped = np.minimum(sizes, SIZE_CAP * np.median(sizes))
    for cell in np.flatnonzero((usual * ratio < large) & (shares.max(axis=0) > large)):
        held = shares[:, cell]
        order = np.lexsort((sizes, held))
        majority = order[: max(clients // 2 + 1, np.count_nonzero(held == 0))]
        others = float(capped[majority].sum())
        least = float(capped[majority] @ held[majority]) / others
        holders = (np.count_nonzero(held) - (held > 0)) / (clients - 1)
        implied = -np.log1p(-np.minimum(holders, 0.5)) / np.median(sizes)  # Poisson: exp(-rate·n) hold none
        evidence = evidence_of_more(held, sizes, np.clip(implied, least, 1), others)
        proven = (evidence > needed) & (held * sizes > LEAST - 0.5)
        score = np.maximum(score, np.where(proven, held, 0) / large)
    return score
