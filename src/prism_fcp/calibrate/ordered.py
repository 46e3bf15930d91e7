"""A filter that knows the order of the bins: distances between distribution functions instead of histograms.

A histogram's distance adds up the bins' errors one by one, so a small shift of many scores drowns in their noise. Added
up from low scores to high, the noise cancels and the shift does not: near-honest colluders show several times earlier.
"""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from prism_fcp.calibrate.cautious import typical_shares
from prism_fcp.calibrate.distance import centre_and_spread, median_distances
from prism_fcp.calibrate.judgement import Filter, FilterContext, Judgement, Shares
from prism_fcp.calibrate.span import NORMAL_SCALE
from prism_fcp.errors import SettingError, did_you_mean, need_number
from prism_fcp.types import IntArray

Array: TypeAlias = NDArray[np.float64]
Suspects: TypeAlias = int | Literal["told"] | None
FEW: Final = 8.0  # so many clients double the threshold: a spread learnt from few is a guess


def ordered(suspects: Suspects = None, threshold: float = 5.0) -> Filter:
    """Leave out the clients whose distribution function lies farthest from the median client's.

    The squared distance is Anderson and Darling's, the sum over bins of w (F_k - F)² / (F (1 - F)), F being the median
    client's function and w its share there; F (1 - F) counts as 1/n at least, n the median client's number of scores.
    `suspects` is how many are left out, "told" the context's number. Without one it is whoever lies beyond median +
    `threshold`·(1 + 8/K)·1.4826·MAD of the distances of K clients. Bins must be ordered by score.

    Reference: Anderson and Darling 1952; Scholz and Stephens 1987 (several samples). Departure: the median client's
    function takes the place of the pooled one, which liars could move.
    """
    check_suspects("ordered", suspects)
    need_number("filter 'ordered': threshold", threshold)
    if threshold <= 0:
        raise SettingError(f"filter 'ordered': threshold={threshold}; must be positive")

    def weigh(shares: Shares, sizes: IntArray, context: FilterContext) -> Judgement:
        distances = median_distances(_weighted_cdf(shares, 1 / max(float(np.median(sizes)), 2.0)))
        if suspects is not None:
            return leave_out_most("ordered", distances, told("ordered", suspects, context))
        centre, spread = centre_and_spread(distances, NORMAL_SCALE)
        limit = centre + threshold * (1 + FEW / len(shares)) * spread
        kept = distances <= limit * (1 + 1e-12)
        return Judgement(kept.astype(np.float64), distances, limit)

    return Filter("ordered", "distance to the median client's distribution function", weigh)


def check_suspects(name: str, suspects: Suspects) -> None:
    """Refuse what is no number of suspects."""
    if isinstance(suspects, str):
        if suspects != "told":
            raise SettingError(
                f"filter {name!r}: suspects={suspects!r}{did_you_mean(suspects, ('told',))}; give a number, 'told' for "
                "the context's, or leave it out"
            )
    elif suspects is not None:
        need_number(f"filter {name!r}: suspects", suspects, integer=True)
        if suspects < 0:
            raise SettingError(f"filter {name!r}: suspects={suspects}; must be 0 or more")


def told(name: str, suspects: Suspects, context: FilterContext) -> int:
    """Return the number of suspects: the setting's, or the context's where it says "told"."""
    if not isinstance(suspects, str) and suspects is not None:
        return suspects
    if context.suspects is None:
        raise SettingError(f"filter {name!r}: suspects='told', but nobody told; give a number, or leave it out")
    return context.suspects


def leave_out_most(name: str, scores: Array, suspects: int) -> Judgement:
    """Return the verdict that leaves out so many of the largest scores; ties fall on the client that comes first."""
    clients = len(scores)
    if suspects > 0 and 2 * suspects >= clients:
        raise SettingError(
            f"filter {name!r}: suspects={suspects} of {clients} clients; must be fewer than half, at most "
            f"{max((clients - 1) // 2, 0)}; a hostile majority looks normal, so get more clients or lower suspects"
        )
    weights = np.ones(clients)
    if suspects == 0:
        return Judgement(weights, scores, float("nan"))
    rounded = np.round(scores / (np.abs(scores).max() or 1.0), 12)  # rounding inside a sum must not decide who stays
    order = np.argsort(-rounded, kind="stable")
    weights[order[:suspects]] = 0
    return Judgement(weights, scores, float(scores[order[suspects - 1 : suspects + 1]].mean()))


def _weighted_cdf(shares: Shares, least: float) -> Array:
    usual = typical_shares(shares)
    cdf = np.cumsum(usual)[:-1]
    width = (usual[:-1] + usual[1:]) / 2
    scale = np.sqrt(width / np.maximum(cdf * (1 - cdf), least))
    return np.asarray(np.cumsum(shares, axis=1)[:, :-1] * scale)
