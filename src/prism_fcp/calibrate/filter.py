"""Calibration filters: which clients' scores count, judged by their characterizations.

A factory returns a `Filter`: `filter(counts, sizes, context) -> Verdict`, pure, for counts (K, H) of integers or
shares. Larger scores are worse; weight is lost above the threshold; ties fall on the client that comes first, so
never list attackers first in an experiment. `filter.weigh(shares, sizes, context)` is the same judgement without
sentences, for simulations.
"""

from __future__ import annotations

from collections.abc import Callable
from math import nan
from typing import Final, Literal, TypeAlias, get_args

import numpy as np

from prism_fcp.calibrate.cautious import cautious
from prism_fcp.calibrate.distance import centre_and_spread, farthest_scores, median_distances
from prism_fcp.calibrate.judgement import Filter, FilterContext, Judgement, Shares
from prism_fcp.calibrate.mixture import mixture
from prism_fcp.calibrate.ordered import ordered
from prism_fcp.calibrate.span import NORMAL_SCALE
from prism_fcp.calibrate.vigilant import vigilant
from prism_fcp.errors import SettingError, did_you_mean, need_number
from prism_fcp.types import IntArray

ScoreKind: TypeAlias = Literal["sum", "mean"]
Estimate: TypeAlias = Literal["mad", "gap"]


def keep_all() -> Filter:
    """Keep every client; scores are distances to the coordinate-wise median, for the record.

    Paper: sec:simulations, FCP
    """
    return Filter(
        "keep_all",
        "distance to the median client",
        lambda shares, sizes, context: Judgement(np.ones(len(shares)), median_distances(shares), nan),
        keeps_all=True,
    )


def known_count(suspects: int | None = None, score: ScoreKind = "sum") -> Filter:
    """Leave out the `suspects` clients with the largest farthest-distance scores.

    The score sums (or averages) a client's distances to the K - suspects - 1 clients *farthest* from it. The count
    may be too high (honest clients are lost) or too low (the least conspicuous attackers stay); without one, the
    context's is used. The threshold lies midway between the last client left out and the first one kept.

    Paper: eq:mal_score; Alg. 1, phase 2; rem:scoring (mean)
    """
    if suspects is not None:
        need_number("filter 'known_count': suspects", suspects, integer=True)
    if suspects is not None and suspects < 0:
        raise SettingError(f"filter 'known_count': suspects={suspects}; must be 0 or more")
    if score not in get_args(ScoreKind):
        raise SettingError(f"filter 'known_count': unknown score {score!r}{did_you_mean(score, get_args(ScoreKind))}")

    def weigh(shares: Shares, sizes: IntArray, context: FilterContext) -> Judgement:
        count = context.suspects if suspects is None else suspects
        if count is None:
            raise SettingError("filter 'known_count': no number of suspects; give suspects=..., or use 'mad'")
        return _leave_out(shares, count, score)

    return Filter("known_count", f"{score} of distances to the farthest clients", weigh)


def mad(threshold: float = 2.5, scale: float = NORMAL_SCALE) -> Filter:
    """Leave out clients whose distance m to the coordinate-wise median client exceeds median(m) + threshold·scale·MAD.

    MAD is the median of |m - median(m)|. Where it is 0, more than half of the clients lie at one and the same
    distance, and every client farther away than that is left out.

    Paper: Alg. 1, phase 2; rem:handling_unknown; sec:synth (1.4826, 2.5)
    """
    _check_threshold("mad", threshold, scale)

    def weigh(shares: Shares, sizes: IntArray, context: FilterContext) -> Judgement:
        distances = median_distances(shares)
        centre, spread = centre_and_spread(distances, scale)
        limit = centre + threshold * spread
        return Judgement((distances <= _above_rounding(limit)).astype(np.float64), distances, limit)

    return Filter("mad", "distance to the median client", weigh)


def estimated_count(
    method: Estimate = "mad", threshold: float = 2.5, scale: float = NORMAL_SCALE, score: ScoreKind = "sum"
) -> Filter:
    """Estimate the number of suspects from the data, then filter as `known_count` does.

    `mad` counts the clients that the MAD rule would leave out. `gap` sorts the distances to the median client and
    counts those above the widest gap in the upper half, if it is wider than threshold·scale·MAD; otherwise none.
    The estimate stops at the most that farthest-distance scores can stand, fewer than half of the clients.

    Paper: sec "Byzantine Attack during Calibration Phase" (footnote: an estimate); rem:handling_unknown
    """
    _check_threshold("estimated_count", threshold, scale)
    if method not in get_args(Estimate):
        hint = did_you_mean(method, get_args(Estimate))
        raise SettingError(f"filter 'estimated_count': unknown method {method!r}{hint}")
    known_count(0, score)  # refuses an unknown score

    def weigh(shares: Shares, sizes: IntArray, context: FilterContext) -> Judgement:
        distances = median_distances(shares)
        centre, spread = centre_and_spread(distances, scale)
        if method == "mad":
            count = int(np.count_nonzero(distances > _above_rounding(centre + threshold * spread)))
        else:
            upper = np.sort(distances)[len(distances) // 2 :]
            gaps = np.diff(upper)
            wide = len(gaps) > 0 and gaps.max() > threshold * spread
            count = len(gaps) - int(np.argmax(gaps)) if wide else 0
        return _leave_out(shares, min(count, (len(shares) - 1) // 2), score)

    return Filter("estimated_count", f"{score} of distances to the farthest clients", weigh)


def down_weight(threshold: float = 2.5, scale: float = NORMAL_SCALE) -> Filter:
    """Give weight min(1, (threshold/z)²), z = (m - median(m)) / (scale·MAD), to a client at distance m.

    Nobody is dropped by a hair: at the MAD rule's threshold a weight is 1, at twice as far a quarter. Where MAD is 0,
    z is infinite for every farther client and its weight is 0, as under `mad`.

    Paper: abstract ("downweight or filter suspected Byzantine contributions")
    """
    _check_threshold("down_weight", threshold, scale)

    def weigh(shares: Shares, sizes: IntArray, context: FilterContext) -> Judgement:
        distances = median_distances(shares)
        centre, spread = centre_and_spread(distances, scale)
        limit = centre + threshold * spread
        beyond = distances > _above_rounding(limit)
        weights = np.ones(len(distances))
        weights[beyond] = (threshold * spread / (distances[beyond] - centre)) ** 2
        return Judgement(weights, distances, limit)

    return Filter("down_weight", "distance to the median client", weigh)


FILTERS: Final[dict[str, Callable[..., Filter]]] = {
    "keep_all": keep_all,
    "cautious": cautious,
    "known_count": known_count,
    "mad": mad,
    "estimated_count": estimated_count,
    "down_weight": down_weight,
    "ordered": ordered,
    "mixture": mixture,
    "vigilant": vigilant,
}  # a user's own joins by assignment


def _leave_out(shares: Shares, suspects: int, score: ScoreKind) -> Judgement:
    clients = len(shares)
    if suspects > 0 and clients - suspects <= 1:
        raise SettingError(
            f"filter 'known_count': suspects={suspects} of {clients} clients leaves {max(clients - suspects, 0)}; "
            f"at least 2 honest ones are needed; lower suspects to {max((clients - 1) // 2, 0)} or less"
        )
    if 2 * suspects >= clients > 0 and suspects > 0:
        raise SettingError(
            f"filter 'known_count': suspects={suspects} of {clients} clients; must be fewer than half, at most "
            f"{(clients - 1) // 2}; a hostile majority looks normal, so get more clients or lower suspects"
        )
    farthest = clients - suspects - 1
    scores = farthest_scores(shares, farthest)
    if score == "mean":
        scores /= max(farthest, 1)
    weights = np.ones(clients)
    if suspects == 0:
        return Judgement(weights, scores, nan)
    # Scores that agree to twelve digits are a tie: rounding inside a matrix product must not decide who stays.
    order = np.argsort(-np.round(scores / (scores.max() or 1.0), 12), kind="stable")
    weights[order[:suspects]] = 0
    return Judgement(weights, scores, float(scores[order[suspects - 1 : suspects + 1]].mean()))


def _above_rounding(limit: float) -> float:
    return limit * (1 + 1e-12)


def _check_threshold(name: str, threshold: float, scale: float) -> None:
    for key, value in (("threshold", threshold), ("scale", scale)):
        need_number(f"filter {name!r}: {key}", value)
        if value <= 0:
            raise SettingError(f"filter {name!r}: {key}={value}; must be positive")
