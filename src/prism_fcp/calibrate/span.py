"""The range that scores are normalised by before they are counted in bins.

A range is a function `(scores_by_client) -> Span`. `max_range` is the paper's; it needs a pilot pass nobody lies in,
since one score of 100x the maximum makes all bins 100x wider and hides the random attack. The other three take a
quantity from each client and then the median over clients, each client counting once whatever number of scores it
claims: fewer than half of the clients can push the median no farther than the honest clients' own values.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from prism_fcp.errors import DataError, SettingError, need_number

ScoreArray: TypeAlias = NDArray[np.floating[Any]]
ClientScores: TypeAlias = "Sequence[ScoreArray] | ScoreArray"  # one array a client, or (K, n)
Range: TypeAlias = Callable[[ClientScores], "Span"]

SMALLEST: Final = 1e-30  # so that dividing by a range overflows in neither float type
LARGEST: Final = 1e30
NORMAL_SCALE: Final = 1.4826  # MAD times this estimates the standard deviation of normal data


@dataclass(frozen=True, slots=True)
class Span:
    """Where the bins end. With `overflow`, scores above `upper` get a bin of their own instead of the last one."""

    upper: float
    overflow: bool = False

    def __post_init__(self) -> None:
        """Refuse a range nothing can be divided by."""
        if not SMALLEST <= self.upper <= LARGEST:
            raise DataError(
                f"score range: upper={self.upper}; must lie in {SMALLEST}..{LARGEST}: "
                "are all scores zero, with nothing to calibrate? Is one absurdly large? Then use a robust range"
            )

    def edges(self, bins: int) -> NDArray[np.float64]:
        """Return the ends of the bins in units of the scores: bins + 1 of them, and infinity after an overflow bin."""
        regular = self.upper * (np.arange(bins + 1) / bins)
        return np.append(regular, np.inf) if self.overflow else regular


def max_range(factor: float = 1.1) -> Range:
    """Return the range factor·max over all scores of all clients, trusting every one of them.

    Paper: rem Normalization of scores
    """
    _positive("max", "factor", factor)

    def measure(scores: ClientScores) -> Span:
        known = _clients(scores)
        return Span(factor * float(known.max() if isinstance(known, np.ndarray) else max(own.max() for own in known)))

    return measure


def high_quantile(level: float = 0.99, factor: float = 1.1) -> Range:
    """Return the range factor·(median over clients of each client's `level` quantile).

    Paper: rem Normalization of scores
    """
    _positive("high_quantile", "factor", factor)
    _level("high_quantile", level)

    def measure(scores: ClientScores) -> Span:
        return Span(factor * float(np.median(client_quantiles(scores, level))))

    return measure


def median_mad(multiples: float = 5.0) -> Range:
    """Return the range M + multiples·1.4826·A: M and A are medians over clients of each one's median and MAD.

    For half-normal scores the default ends near the 99.97 % point.

    Paper: rem Normalization of scores
    """
    _positive("median_mad", "multiples", multiples)

    def measure(scores: ClientScores) -> Span:
        if isinstance(scores, np.ndarray) and scores.size:
            medians = np.median(scores, axis=1)
            deviations = np.median(np.abs(scores - medians[:, None]), axis=1)
        else:
            medians = np.array([np.median(own) for own in _clients(scores)])
            deviations = np.array([np.median(np.abs(own - m)) for own, m in zip(scores, medians, strict=True)])
        return Span(float(np.median(medians) + multiples * NORMAL_SCALE * np.median(deviations)))

    return measure


def overflow(level: float = 0.95, factor: float = 1.1) -> Range:
    """Return a range over the bulk of the scores, as `high_quantile`, with one more bin for all that lies above.

    Paper: rem Normalization of scores
    """
    _positive("overflow", "factor", factor)
    _level("overflow", level)

    def measure(scores: ClientScores) -> Span:
        return Span(factor * float(np.median(client_quantiles(scores, level))), overflow=True)

    return measure


RANGES: Final[dict[str, Callable[..., Range]]] = {
    "max": max_range,
    "high_quantile": high_quantile,
    "median_mad": median_mad,
    "overflow": overflow,
}  # a user's own joins by assignment


def client_quantiles(scores: ClientScores, level: float) -> NDArray[np.float64]:
    """Return each client's ceil(level·n)-th smallest score; an order statistic, so no interpolation enters."""
    exact = Fraction(str(level))

    def position(n: int) -> int:
        return max(-(-n * exact.numerator // exact.denominator), 1) - 1

    if isinstance(scores, np.ndarray) and scores.ndim == 2 and scores.size:
        at = position(scores.shape[1])
        return np.partition(scores, at, axis=1)[:, at].astype(np.float64)
    return np.array([np.partition(own, position(own.size))[position(own.size)] for own in _clients(scores)])


def _clients(scores: ClientScores) -> ClientScores:
    if len(scores) == 0:
        raise DataError("score range: no client; at least one client's scores are needed")
    if isinstance(scores, np.ndarray) and scores.size:
        return scores
    for client, own in enumerate(scores):
        if own.size == 0:
            raise DataError(f"score range: client {client} has no scores; leave it out")
    return scores


def _positive(owner: str, name: str, value: float) -> None:
    need_number(f"range {owner!r}: {name}", value)
    if value <= 0:
        raise SettingError(f"range {owner!r}: {name}={value}; must be positive")


def _level(owner: str, level: float) -> None:
    need_number(f"range {owner!r}: level", level)
    if not 0 < level <= 1:
        raise SettingError(f"range {owner!r}: level={level}; must lie in (0, 1]")
