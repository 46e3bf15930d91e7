"""One cell of a table at the speed of a simulation: arrays in, arrays out, no names and no sentences.

Honest scores are clipped and counted once a trial (`prepare`); each attack then recounts the attackers' rows only.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from math import inf
from typing import Literal, NamedTuple, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from prism_fcp.calibrate.filter import Filter, FilterContext
from prism_fcp.calibrate.quantile import ClippedScoresWarning, Correction, Level, Pooled, pool
from prism_fcp.calibrate.span import Span
from prism_fcp.calibrate.summary import histogram
from prism_fcp.errors import DataError, SettingError, did_you_mean
from prism_fcp.types import FloatArray, IntArray

BeyondRange: TypeAlias = Literal["clip", "infinite", "exact"]


@dataclass(frozen=True, slots=True)
class Prepared:
    """The true scores of a trial (K, n) with their counts."""

    scores: FloatArray
    counts: NDArray[np.int64]
    span: Span
    bins: int
    exceeds: bool  # some true score lies above the range, so clipping at it can cost coverage


class Cell(NamedTuple):
    """What one attack and one filter made of a trial."""

    radius: float
    weights: NDArray[np.float64]  # per client, in the order of the scores
    scores: NDArray[np.float64]  # maliciousness
    threshold: float


def prepare(scores: FloatArray, span: Span, bins: int) -> Prepared:
    """Count the true scores (K, n) once, for all attacks and filters of a trial.

    Paper: sec:calib-mitig
    """
    if scores.ndim != 2 or 0 in scores.shape:
        raise DataError(f"prepare: scores have shape {scores.shape}; must be (clients, samples), neither of them 0")
    return Prepared(scores, histogram(scores, span, bins), span, bins, float(scores.max()) > span.upper)


def run_cell(
    prepared: Prepared,
    attackers: IntArray,
    reported: FloatArray,
    filter: Filter,
    *,
    confidence_level: Level = 0.9,
    correction: Correction = "n+1",
    beyond_range: BeyondRange = "clip",
    context: FilterContext | None = None,
) -> Cell:
    """Put `reported` (b, n) in place of the attackers' scores, filter, and take the conformal quantile.

    The default of `beyond_range` reads the paper: scores are clipped at the range. That is silent where the range
    contains every true score, and a `ClippedScoresWarning` elsewhere. See `calibrate` for the other two.

    Paper: Alg. 1, phase 2
    """
    clients, samples = prepared.scores.shape
    if reported.shape != (len(attackers), samples):
        raise DataError(
            f"run_cell: reported scores have shape {reported.shape}; must be {(len(attackers), samples)}, "
            "one row for each attacker"
        )
    scores, counts = recount(prepared, attackers, reported)
    sizes = np.full(clients, samples)
    judged = filter.weigh(counts / samples, sizes, context or FilterContext(suspects=len(attackers)))
    pooled = pool(scores, judged.weights, confidence_level, correction)
    return Cell(beyond(pooled, prepared.span, beyond_range, warn=prepared.exceeds), *judged)


def recount(prepared: Prepared, attackers: IntArray, reported: FloatArray) -> tuple[FloatArray, NDArray[np.int64]]:
    """Return scores (K, n) and counts (K, H) as the server receives them when the attackers report `reported`."""
    scores, counts = prepared.scores.copy(), prepared.counts.copy()
    if len(attackers):
        scores[attackers] = reported
        counts[attackers] = histogram(reported, prepared.span, prepared.bins)
    return scores, counts


def beyond(pooled: Pooled, span: Span, beyond_range: BeyondRange, warn: bool = False) -> float:
    """Return the radius, once it is settled what a quantile above the range means.

    Clipping is monotone, so it commutes with order statistics: quantiles inside the range are untouched by it.
    """
    if beyond_range not in get_args(BeyondRange):
        raise SettingError(f"unknown beyond_range {beyond_range!r}{did_you_mean(beyond_range, get_args(BeyondRange))}")
    if pooled.radius <= span.upper or pooled.radius == inf:
        return pooled.radius
    if warn:
        meaning = {
            "clip": f"the radius is cut to {span.upper:.6g} and intervals may cover too little",
            "infinite": "the radius is infinite",
            "exact": f"the radius is that score, {pooled.radius:.6g}, which the filter saw only as above the range",
        }[beyond_range]
        warnings.warn(
            f"the conformal rank falls among scores above the range {span.upper:.6g}: {meaning}; use a wider range",
            ClippedScoresWarning,
            stacklevel=3,
        )
    return {"clip": span.upper, "infinite": inf, "exact": pooled.radius}[beyond_range]
