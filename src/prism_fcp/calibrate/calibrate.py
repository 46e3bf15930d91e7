"""Phase 2 on arrays of scores: check, choose a range, count, filter, take the quantile.

A client whose scores cannot be used is left out by name and the others carry on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil, inf, nextafter
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from prism_fcp.calibrate.cell import BeyondRange, beyond
from prism_fcp.calibrate.filter import Filter, FilterContext, mad
from prism_fcp.calibrate.quantile import (
    Correction,
    Level,
    Pooled,
    bracket_from_histogram,
    exact_level,
    pool,
    whole_parts,
)
from prism_fcp.calibrate.span import Range, ScoreArray, Span, high_quantile
from prism_fcp.calibrate.summary import histogram
from prism_fcp.errors import DataError, SettingError
from prism_fcp.types import Verdict

ClientId: TypeAlias = "int | str"


@dataclass(frozen=True, slots=True)
class Calibration:
    """A radius with everything that led to it. Arrays follow `client_ids`, the clients whose scores were usable."""

    radius: float
    bracket: tuple[float, float]  # the bin the radius lies in, from the kept clients' counts alone
    verdict: Verdict
    client_ids: tuple[ClientId, ...]
    refused: Mapping[ClientId, str]  # clients whose scores could not be read, and why
    num_scores: int  # scores of kept clients
    rank: int  # which smallest of them; with weights between 0 and 1, the mass it must reach, rounded up
    span: Span
    counts: NDArray[np.int64]
    confidence_level: float

    @property
    def width(self) -> float:
        """Return the width of every interval, twice the radius."""
        return 2 * self.radius

    @property
    def left_out(self) -> dict[ClientId, str]:
        """Return every client that does not count, with the reason: unusable scores, or the filter's verdict."""
        judged = zip(self.client_ids, self.verdict.kept, self.verdict.reasons, strict=True)
        return {**self.refused, **{name: reason for name, kept, reason in judged if not kept}}


def calibrate(
    scores: Mapping[ClientId, ArrayLike] | Sequence[ArrayLike],
    *,
    confidence_level: Level = 0.9,
    filter: Filter | None = None,
    range: Range | Span | None = None,
    bins: int = 100,
    correction: Correction = "n+1",
    beyond_range: BeyondRange = "exact",
    max_scores: int | None = None,
    suspects: int | None = None,
    evidence: Mapping[ClientId, float] | None = None,
) -> Calibration:
    """Return the conformal radius of the clients a filter keeps.

    `filter` is `mad()` unless given, and `range` a `high_quantile` ten times closer to 1 than the confidence level
    (0.99 for 0.9); a `Span` in its place is a range from an earlier pilot pass.

    Clipping at the range shapes what the filter sees. It moves the radius only if the conformal rank falls among
    scores above the range, and then never in silence (`ClippedScoresWarning`). `beyond_range` says what the radius
    is in that case: "exact", the score itself, which covers; "infinite", as a server that sees counts alone must
    say; or "clip", the range's end, the paper's min{r, R_max}, right only where a pilot pass proved that no honest
    score is larger.

    `max_scores` bounds the mass of one client: one that sends more is weighted down to it. `suspects` and
    `evidence` reach the filter as its context.

    Paper: Alg. 1, phase 2
    """
    level = exact_level(confidence_level)
    usable, refused = _usable(scores)
    ids = tuple(usable)
    rows = list(usable.values())
    sizes = np.array([own.size for own in rows])
    measure = high_quantile(float(1 - (1 - level) / 10)) if range is None else range
    span = measure if isinstance(measure, Span) else measure(rows)
    counts = histogram(rows, span, bins)
    context = FilterContext(ids, suspects, evidence or {})
    verdict = (filter or mad())(counts, sizes, context)
    weights = np.asarray(verdict.weights, dtype=np.float64)
    if max_scores is not None:
        if max_scores < 1:
            raise SettingError(f"calibrate: max_scores={max_scores}; must be at least 1")
        weights = weights * np.minimum(1, max_scores / sizes)
    pooled = pool(rows, weights, confidence_level, correction)
    radius = beyond(pooled, span, beyond_range, warn=True)
    return Calibration(
        radius=radius,
        bracket=_bracket(pooled, radius, counts, weights, span, bins),
        verdict=verdict,
        client_ids=ids,
        refused=refused,
        num_scores=int(sizes[weights > 0].sum()),
        rank=ceil(pooled.target / pooled.unit),
        span=span,
        counts=counts,
        confidence_level=float(level),
    )


def _bracket(
    pooled: Pooled, radius: float, counts: NDArray[np.int64], weights: NDArray[np.float64], span: Span, bins: int
) -> tuple[float, float]:
    if pooled.radius == inf:
        return inf, inf
    if pooled.radius > span.upper and radius > span.upper:
        return span.upper, inf
    low, high = bracket_from_histogram(whole_parts(weights)[0] @ counts, span.edges(bins), pooled.target)
    return (low, high) if high < inf else (span.upper, nextafter(span.upper, inf))


def _usable(
    scores: Mapping[ClientId, ArrayLike] | Sequence[ArrayLike],
) -> tuple[dict[ClientId, ScoreArray], dict[ClientId, str]]:
    named = scores.items() if isinstance(scores, Mapping) else enumerate(scores)
    usable: dict[ClientId, ScoreArray] = {}
    refused: dict[ClientId, str] = {}
    for name, sent in named:
        own, problem = _check(sent)
        if problem:
            refused[name] = f"refused: {problem}"
        else:
            usable[name] = own
    if not usable:
        first = next(iter(refused.items()), None)
        detail = f"; client {first[0]!r} was {first[1]}" if first else "; no client sent any"
        raise DataError(f"calibrate: none of {len(refused)} clients sent scores that can be used{detail}")
    return usable, refused


def _check(sent: ArrayLike) -> tuple[ScoreArray, str]:
    nothing = np.empty(0)
    try:
        own = np.asarray(sent)
    except ValueError:
        return nothing, "scores are ragged; one array of numbers is needed"
    if own.dtype.kind not in "fiu":
        return nothing, f"scores have dtype {own.dtype}; real numbers are needed"
    if own.ndim != 1:
        return nothing, f"scores have {own.ndim} dimensions; one is needed"
    if own.size == 0:
        return nothing, "there are no scores; at least one is needed"
    if own.dtype not in (np.float32, np.float64):
        own = own.astype(np.float64)
    finite = np.isfinite(own)
    if not finite.all():
        bad = np.flatnonzero(~finite)
        return nothing, f"{bad.size} of {own.size} scores are NaN or infinite, the first at position {bad[0]}"
    if own.min() < 0:
        bad = np.flatnonzero(own < 0)
        return nothing, f"{bad.size} of {own.size} scores are negative, the first at position {bad[0]}"
    return own, ""
