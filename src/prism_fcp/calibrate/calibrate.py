"""Phase 2 on arrays of scores: check, choose a range, count, filter, take the quantile.

A client whose scores cannot be used is left out by name and the others carry on.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Final, TypeAlias, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from prism_fcp.calibrate.filter import FILTERS, Filter, FilterContext, mad
from prism_fcp.calibrate.quantile import (
    ClippedScoresWarning,
    Correction,
    Level,
    exact_level,
)
from prism_fcp.calibrate.radius import BeyondRange, bracket, conformal_radius
from prism_fcp.calibrate.span import RANGES, Range, ScoreArray, Span, high_quantile
from prism_fcp.calibrate.summary import histogram
from prism_fcp.errors import DataError, SettingError
from prism_fcp.types import Choice, Verdict

ClientId: TypeAlias = "int | str"
T = TypeVar("T")
MOST_BINS: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Calibration:
    """A radius with everything that led to it. Arrays follow `client_ids`, the clients whose scores were usable."""

    radius: float
    bracket: tuple[float, float]  # the bin the radius lies in, from the kept clients' counts alone
    verdict: Verdict
    client_ids: tuple[ClientId, ...]
    weights: NDArray[np.float64]  # what each score of a client counts for: the verdict's weight, and the cap
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
    filter: Filter | str | None = None,
    range: Range | Span | str | None = None,
    bins: int = 100,
    correction: Correction = "n+1",
    beyond_range: BeyondRange = "exact",
    cap: float | None = 3.0,
    suspects: int | None = None,
    evidence: Mapping[ClientId, float] | None = None,
) -> Calibration:
    """Return the conformal radius of the clients a filter keeps.

    `filter` is `mad()` unless given, and `range` a `high_quantile` ten times closer to 1 than the confidence level
    (0.99 for 0.9); a `Span` in its place is a range from an earlier pilot pass. Both may be given by name, as in
    an experiment file.

    Clipping at the range shapes what the filter sees. It moves the radius only if the conformal rank falls among
    scores above the range, and then never in silence (`ClippedScoresWarning`). `beyond_range` says what the radius
    is in that case: "exact", the score itself, which covers; "infinite", as a server that sees counts alone must
    say; or "clip", the range's end, the paper's min{r, R_max}, right only where a pilot pass proved that no honest
    score is larger.

    `cap` bounds what one client counts for: at most `cap` times the median client's number of scores, so that nobody
    owns the quantile by sending, or claiming, a million of them; None lets every score count. `suspects` and
    `evidence` reach the filter as its context.

    Paper: Alg. 1, phase 2
    """
    level = exact_level(confidence_level)
    if isinstance(bins, bool) or not isinstance(bins, int | np.integer) or not 2 <= bins <= MOST_BINS:
        raise SettingError(f"calibrate: bins={bins!r}; must be an integer in 2..{MOST_BINS}")
    usable, refused = _usable(scores)
    ids = tuple(usable)
    rows = list(usable.values())
    sizes = np.array([own.size for own in rows])
    chosen = _chosen(filter, FILTERS, "filter") or mad()
    if isinstance(range, Span):
        span = range
    else:
        span = (_chosen(range, RANGES, "range") or high_quantile(float(1 - (1 - level) / 10)))(rows)
    counts = histogram(rows, span, bins)
    context = FilterContext(ids, suspects, evidence or {})
    verdict = chosen(counts, sizes, context)
    weights = np.asarray(verdict.weights, dtype=np.float64)
    if cap is not None:
        if not (isinstance(cap, int | float) and cap >= 1):
            raise SettingError(
                f"calibrate: cap={cap!r}; must be at least 1 (the median client counts in full), or None"
            )
        weights = weights * np.minimum(1, cap * np.median(sizes) / sizes)
    radius, beyond, pooled = conformal_radius(
        rows, weights, span, confidence_level=confidence_level, correction=correction, beyond_range=beyond_range
    )
    if beyond:
        _warn_beyond(span, radius, beyond_range)
    return Calibration(
        radius=radius,
        bracket=bracket(pooled, radius, counts, weights, span, bins),
        weights=weights,
        verdict=verdict,
        client_ids=ids,
        refused=refused,
        num_scores=int(sizes[weights > 0].sum()),
        rank=ceil(pooled.target / pooled.unit),
        span=span,
        counts=counts,
        confidence_level=float(level),
    )


def _chosen(value: T | str | None, registry: Mapping[str, Callable[..., T]], kind: str) -> T | None:
    """Let a name stand for its factory without options."""
    if isinstance(value, str):
        return Choice(value).build(registry, kind)
    if not (value is None or callable(value)):
        raise SettingError(f"calibrate: {kind}={value!r}; give a {kind}, or its name: {', '.join(registry)}")
    return value


def _warn_beyond(span: Span, radius: float, beyond_range: BeyondRange) -> None:
    meaning = {
        "clip": "the radius is cut to it and intervals may cover too little",
        "infinite": "the radius is infinite",
        "exact": f"the radius is that score, {radius:.6g}, which the filter saw only as above the range",
    }[beyond_range]
    warnings.warn(
        f"the conformal rank falls among scores above the range {span.upper:.6g}: {meaning}; use a wider range",
        ClippedScoresWarning,
        stacklevel=3,
    )


def _usable(
    scores: Mapping[ClientId, ArrayLike] | Sequence[ArrayLike],
) -> tuple[dict[ClientId, ScoreArray], dict[ClientId, str]]:
    listed = isinstance(scores, Sequence) or (isinstance(scores, np.ndarray) and scores.ndim > 0)
    if isinstance(scores, str | bytes) or not (isinstance(scores, Mapping) or listed):
        raise DataError(f"calibrate: scores are {type(scores).__name__}; give one array a client, in a list or by name")
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
    if np.ma.is_masked(sent):
        return nothing, "some scores are masked; leave them out yourself"
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
