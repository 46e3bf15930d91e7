"""What kind of difference a client's scores show: so that honest clients whose data simply differ can be recognised.

A histogram cannot tell an honest site with other patients from a liar who imitates one. It can tell three things
apart: errors like everybody's on another scale, scores heaped on one value, and a distribution of another shape.
"""

from __future__ import annotations

from math import log, log2
from typing import Final, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from prism_fcp.calibrate.cells import NEARBY, STEEP, evidence_of_more
from prism_fcp.errors import DataError, counted
from prism_fcp.types import FloatArray, IntArray

Kind: TypeAlias = Literal["alike", "rescaled", "spike", "other"]
PARTS: Final = 20  # the pooled scores are compared in parts of equal mass
OCTAVES: Final = 12  # rescalings are looked for from 2**-12 to 2**12
DOUBT: Final = 4.6  # evidence needed, as a logarithm: chance alone does it about once in a hundred
HEAP: Final = 0.02  # a smaller share in one bin is no spike worth a sentence
EXPLAINED: Final = 1 / 3  # a rescaling explains a difference if it leaves at most this much of the distance


class Difference(NamedTuple):
    """What sets one client's scores apart from the pooled ones, and one sentence on what that shows."""

    kind: Kind
    factor: float  # how many times larger its scores are, by the rescaling that fits best; a spike is set aside
    share_in_spike: float  # share of its scores in the one bin that stands out, 0 if none does
    spike: tuple[float, float] | None  # that bin's edges
    distance: float  # to the pooled scores, less what chance explains: root mean square of the parts' relative error
    remaining: float  # the same after the rescaling, over `distance`; 1 where rescaling explains nothing
    sentence: str


def explain_difference(counts: IntArray, pooled: IntArray | FloatArray, edges: FloatArray) -> Difference:
    """Compare one client's counts (H,) with what the kept clients hold together (H,), on the grid `edges` (H+1,).

    A spike is a bin that the pooled scores nearby do not explain: residuals of a model spread, a constant does not.
    What is left of the scores is compared with the pooled ones as they are and rescaled.
    """
    own, usual = np.asarray(counts, dtype=np.float64), np.asarray(pooled, dtype=np.float64)
    bins = len(edges) - 1
    if own.shape != (bins,) or usual.shape != (bins,) or not (own.sum() > 0 and usual.sum() > 0):
        raise DataError(
            f"explain_difference: {own.sum():g} scores in {own.shape} and {usual.sum():g} in {usual.shape} for {bins} "
            "bins; one row of counts each, none empty, is needed"
        )
    bin_, share = _spike(own, usual)
    rest = own.copy()
    if share:
        rest[bin_] = 0
    finite = np.where(np.isfinite(edges), edges, 2 * edges[-2])
    distance, factor, remaining = _rescaling(own, rest, usual, finite)
    where = (float(edges[bin_]), float(edges[bin_ + 1])) if share else None
    kind: Kind
    if share:
        kind = "spike"
    elif distance == 0:
        kind = "alike"
    else:
        kind = "rescaled" if remaining <= EXPLAINED and abs(log2(factor)) > 0.05 else "other"
    sentence = _sentence(kind, factor, share, where, int(own.sum()))
    return Difference(kind, factor, share, where, distance, remaining, sentence)


def _spike(own: NDArray[np.float64], usual: NDArray[np.float64]) -> tuple[int, float]:
    """Return the bin that stands out most and its share; a share of 0 if none does."""
    n, others = own.sum(), usual.sum()
    cdf = np.concatenate(([0.0], np.cumsum(usual / others)))
    at = np.arange(len(own))
    first, last = np.maximum(at - NEARBY, 0), np.minimum(at + NEARBY + 1, len(own))
    nearby = np.clip(STEEP * (cdf[last] - cdf[first]) / (last - first), 0, 1)
    expected = np.maximum(nearby, usual / others)  # a value that everybody has is nobody's spike
    evidence = evidence_of_more(own / n, np.full(len(own), n), expected, float(others))
    evidence[own < HEAP * n] = 0
    best = int(evidence.argmax())
    return best, float(own[best] / n) if evidence[best] > DOUBT + log(len(own)) else 0.0


def _rescaling(
    own: NDArray[np.float64], rest: NDArray[np.float64], usual: NDArray[np.float64], edges: FloatArray
) -> tuple[float, float, float]:
    """Return `(distance, factor, remaining)`, the last two of what is left without the spike."""
    cdf = np.concatenate(([0.0], np.cumsum(usual) / usual.sum()))
    cuts = np.interp(np.arange(1, PARTS) / PARTS, cdf, edges)
    distance = _distance(own, edges, cuts)
    if not rest.any():
        return distance, 1.0, 1.0
    wide = 2.0 ** np.arange(-OCTAVES, OCTAVES + 0.01, 1 / 8)
    best = wide[np.argmin([_squared(rest, edges, cuts * f) for f in wide])]
    near = best * 2.0 ** np.linspace(-1 / 8, 1 / 8, 41)
    factor = float(near[np.argmin([_squared(rest, edges, cuts * f) for f in near])])
    before = _distance(rest, edges, cuts)
    return distance, factor, _distance(rest, edges, cuts * factor) / before if before else 1.0


def _squared(own: NDArray[np.float64], edges: FloatArray, cuts: NDArray[np.float64]) -> float:
    """Return the mean square of the relative errors of the parts between the cuts, less what n scores explain."""
    cdf = np.concatenate(([0.0], np.cumsum(own) / own.sum()))
    parts = np.diff(np.interp(cuts, edges, cdf), prepend=0.0, append=1.0)
    return float(PARTS * ((parts - 1 / PARTS) ** 2).sum() - (PARTS - 1) / own.sum())


def _distance(own: NDArray[np.float64], edges: FloatArray, cuts: NDArray[np.float64]) -> float:
    allowed = ((2 * DOUBT) ** 0.5 * (2 * PARTS) ** 0.5 + 4 * DOUBT) / own.sum()  # as in the filter `cautious`
    squared = _squared(own, edges, cuts)
    return squared**0.5 if squared > allowed else 0.0


def _sentence(kind: Kind, factor: float, share: float, where: tuple[float, float] | None, n: int) -> str:
    if kind == "alike":
        return (
            f"its {counted(n, 'score')} cannot be told from everybody's, which is not to say that they are true: small "
            "changes stay hidden, the more so the fewer scores there are"
        )
    if where is not None:
        value = "zero or next to it" if where[0] == 0 else f"from {where[0]:.4g} to {where[1]:.4g}"
        return (
            f"{share:.0%} of its scores lie in one bin, {value}; a model's errors do not gather like that. Values "
            "filled in or cut off, an export that went wrong or invented scores would; it does not show which"
        )
    if kind == "rescaled":
        size = f"{factor:.3g} times larger" if factor >= 1 else f"{1 / factor:.3g} times smaller"
        return (
            f"its errors look like everybody's, {size}; another population, a worse or better local fit, or a liar "
            "who multiplies would all look like this"
        )
    return (
        "its errors are spread in another way than everybody's, and no rescaling explains it; a site with other data "
        "and a liar who invents plausible scores would both look like this"
    )
