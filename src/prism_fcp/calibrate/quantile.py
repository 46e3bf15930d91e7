"""The conformal quantile: which order statistic, exactly, and of which scores.

Ranks are integers throughout: (n+1)·0.9 in floating point is one too high or too low for some n. A float level is
read as the decimal number it prints as.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from math import ceil, inf, isnan
from typing import Final, Literal, NamedTuple, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from prism_fcp.calibrate.span import ClientScores
from prism_fcp.errors import DataError, SettingError, did_you_mean
from prism_fcp.types import FloatArray, IntArray

Level: TypeAlias = "float | str | Decimal | Fraction"
Correction: TypeAlias = Literal["n+1", "n+K"]
UNIT: Final = 2**32  # weights are counted in these parts of one score, so that weighted ranks stay integers


class TooFewScoresWarning(UserWarning):
    """The confidence level needs more scores than there are; the radius is infinite."""


class ClippedScoresWarning(UserWarning):
    """The conformal rank falls among scores above the range."""


def exact_level(confidence_level: Level) -> Fraction:
    """Return the confidence level as the exact fraction its decimal notation stands for.

    >>> exact_level(0.9), exact_level("0.95")
    (Fraction(9, 10), Fraction(19, 20))
    """
    known = isinstance(confidence_level, Fraction | Decimal)
    try:
        level = Fraction(confidence_level) if known else _read(str(confidence_level))
    except (ValueError, OverflowError, ZeroDivisionError) as error:
        raise SettingError(f"confidence_level={confidence_level!r}; must be a number such as 0.9") from error
    if not 0 < level < 1:
        raise SettingError(f"confidence_level={confidence_level}; must lie strictly between 0 and 1, such as 0.9")
    return level


@lru_cache(maxsize=256)
def _read(notation: str) -> Fraction:
    return Fraction(notation)


def rank(n: int, confidence_level: Level, correction: Correction = "n+1", num_clients: int | None = None) -> int:
    """Return which smallest of n scores is the conformal quantile: ceil((n+1)·level), or ceil((n+K)·level).

    A result above n says that n scores cannot give this level. `n+K` is Lu et al.'s correction for partial
    exchangeability; with few scores a client it is much wider.

    >>> rank(9, 0.9), rank(8, 0.9), rank(2000, 0.9, "n+K", 100)
    (9, 9, 1890)

    Paper: sec "Federated Conformal Prediction", q_{1-alpha}
    """
    if n < 0:
        raise SettingError(f"rank: n={n} scores; must be 0 or more")
    return ceil((n + extra_scores(correction, num_clients)) * exact_level(confidence_level))


class Pooled(NamedTuple):
    """A pooled quantile with the arithmetic behind it. Masses count scores, in parts of 1/unit."""

    radius: float  # infinite when there are too few scores
    target: int  # the mass the quantile must reach
    mass: int  # the mass there is
    unit: int  # 1 where every weight is 0 or 1, so that target is the rank


def pooled_quantile(
    scores: ClientScores,
    weights: Sequence[float] | FloatArray | None = None,
    *,
    confidence_level: Level = 0.9,
    correction: Correction = "n+1",
) -> float:
    """Return the conformal quantile of all clients' scores taken together, by partition, without interpolation.

    Weighted, it is the smallest score r with sum_k w_k·#{r_kj <= r} >= (sum_k w_k n_k + 1)·level: the test point
    counts in full and each score by its client's weight in [0, 1] (`n+K` adds sum_k w_k in place of 1). With weights
    0 and 1 the left side is an integer, so this is the rank-th smallest score of the clients that are left.
    Too few scores give an infinite radius and a `TooFewScoresWarning`.

    Paper: eq:quantile; Alg. 1, FCPQuantile
    """
    return pool(scores, weights, confidence_level, correction).radius


def pool(
    scores: ClientScores,
    weights: Sequence[float] | FloatArray | None = None,
    confidence_level: Level = 0.9,
    correction: Correction = "n+1",
) -> Pooled:
    """Return `pooled_quantile` with the rank it used; the same definition."""
    w = np.ones(len(scores)) if weights is None else np.asarray(weights, dtype=np.float64)
    if w.shape != (len(scores),):
        raise DataError(f"pooled_quantile: {w.size} weights for {len(scores)} clients; one for each is needed")
    if not ((w >= 0) & (w <= 1)).all():
        raise DataError(f"pooled_quantile: weights lie in [{w.min()}, {w.max()}]; each must lie in [0, 1]")
    parts, unit = whole_parts(w)
    kept = parts > 0
    chosen = scores[kept] if isinstance(scores, np.ndarray) else [s for s, k in zip(scores, kept, strict=True) if k]
    sizes = np.array([len(own) for own in chosen], dtype=np.int64)
    mass = int((parts[kept] * sizes).sum())
    extra_scores(correction, len(scores))  # refuses an unknown correction
    extra = unit if correction == "n+1" else max(int(parts.sum()), unit)
    target = ceil((mass + extra) * exact_level(confidence_level))
    if target > mass:
        warn_too_few(mass / unit, confidence_level, target / unit, stacklevel=4)
        return Pooled(inf, target, mass, unit)
    flat = chosen.reshape(-1) if isinstance(chosen, np.ndarray) else np.concatenate(chosen)
    if unit == 1:
        flat.partition(target - 1)  # in place: indexing by a mask and concatenating both made a copy
        radius = float(flat[target - 1])
    else:
        radius = _weighted(np.sort(flat), chosen, parts[kept], target)
    if isnan(radius):  # NaN sorts above everything, so it can do no harm below the rank
        raise DataError("pooled_quantile: the rank falls among scores that are NaN; leave their clients out")
    return Pooled(radius, target, mass, unit)


def warn_too_few(scores: float, confidence_level: Level, rank: float, *, stacklevel: int) -> None:
    """Warn that the radius is infinite, and why."""
    warnings.warn(
        f"{scores:g} scores cannot give confidence {confidence_level}: rank {rank:g} is needed; the radius is "
        "infinite; collect more scores or lower the level",
        TooFewScoresWarning,
        stacklevel=stacklevel,
    )


def whole_parts(weights: FloatArray, most: int = 0) -> tuple[NDArray[np.int64], int]:
    """Return `(parts, unit)`, weights as multiples of 1/unit: rounded to 2^-32, never to zero, or exactly 0 and 1.

    Where `most` scores in all would make more than 2^62 parts of that size, the parts are larger.
    """
    unit = min(UNIT, 1 << max(62 - most.bit_length(), 0))
    parts = np.maximum(np.rint(weights * unit).astype(np.int64), weights > 0)
    return (parts, unit) if (parts % unit).any() else (parts // unit, 1)


def _weighted(ordered: FloatArray, scores: ClientScores, parts: NDArray[np.int64], target: int) -> float:
    """Return the smallest score up to which clients hold `target` parts, by bisection over the sorted scores."""
    low, high = 0, len(ordered) - 1
    while low < high:
        middle = (low + high) // 2
        if isinstance(scores, np.ndarray):
            below = np.count_nonzero(scores <= ordered[middle], axis=1)
        else:
            below = np.array([np.count_nonzero(own <= ordered[middle]) for own in scores])
        if int(parts @ below) >= target:
            high = middle
        else:
            low = middle + 1
    return float(ordered[low])


def bracket_from_histogram(counts: IntArray, edges: NDArray[np.floating], rank: int) -> tuple[float, float]:
    """Return the ends of the bin the rank-th smallest score lies in; counts are (H,) or (K, H), edges H + 1.

    A rank beyond the number of counts gives (inf, inf), as there is no such score.

    >>> bracket_from_histogram(np.array([5, 3, 2]), np.array([0.0, 1.0, 2.0, 3.0]), 6)
    (1.0, 2.0)

    Paper: sec:calib-mitig (the quantile that bin counts determine)
    """
    total = np.asarray(counts)
    total = total.sum(axis=0) if total.ndim == 2 else total
    if len(edges) != len(total) + 1:
        raise DataError(f"bracket_from_histogram: {len(edges)} edges for {len(total)} bins; bins + 1 are needed")
    if rank < 1:
        raise SettingError(f"bracket_from_histogram: rank={rank}; must be at least 1")
    reached = np.cumsum(total)
    if rank > reached[-1]:
        return inf, inf
    bin_ = int(np.searchsorted(reached, rank))
    return float(edges[bin_]), float(edges[bin_ + 1])


def extra_scores(correction: str, num_clients: int | None) -> int:
    """Return how many scores the correction adds for the test point; an unknown one is refused."""
    if correction == "n+1":
        return 1
    if correction != "n+K":
        raise SettingError(f"unknown correction {correction!r}{did_you_mean(correction, get_args(Correction))}")
    if num_clients is None or num_clients < 1:
        raise SettingError(f"correction 'n+K': num_clients={num_clients}; say how many clients' scores are pooled")
    return num_clients
