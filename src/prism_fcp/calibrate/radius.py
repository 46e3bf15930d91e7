"""From scores and weights to the radius: the pooled quantile, and what it means above the range."""

from __future__ import annotations

from math import inf, nextafter
from typing import Literal, NamedTuple, TypeAlias, get_args

from prism_fcp.calibrate.quantile import Correction, Level, Pooled, bracket_from_histogram, pool, whole_parts
from prism_fcp.calibrate.span import ClientScores, Span
from prism_fcp.errors import SettingError, did_you_mean
from prism_fcp.types import FloatArray, IntArray

BeyondRange: TypeAlias = Literal["clip", "infinite", "exact"]


class Radius(NamedTuple):
    """A radius with the arithmetic behind it."""

    value: float
    beyond: bool  # the conformal rank falls among scores above the range
    pooled: Pooled


def conformal_radius(
    scores: ClientScores,
    weights: FloatArray,
    span: Span,
    *,
    confidence_level: Level = 0.9,
    correction: Correction = "n+1",
    beyond_range: BeyondRange = "exact",
) -> Radius:
    """Return the conformal radius of the clients' scores, each client counting by its weight.

    Clipping at the range is monotone, so it commutes with order statistics and matters only if the rank falls among
    scores above the range. There "exact" is the score itself, which covers; "infinite" what a server that sees
    counts alone must say; "clip" the range's end, the paper's min{r, R_max}, right where no honest score is larger.

    Paper: Alg. 1, phase 2
    """
    check_beyond(beyond_range)
    pooled = pool(scores, weights, confidence_level, correction)
    if pooled.radius <= span.upper or pooled.radius == inf:
        return Radius(pooled.radius, False, pooled)
    return Radius({"clip": span.upper, "infinite": inf, "exact": pooled.radius}[beyond_range], True, pooled)


def check_beyond(beyond_range: object) -> None:
    """Raise `SettingError` for an unknown meaning of what lies beyond the range."""
    if beyond_range not in get_args(BeyondRange):
        raise SettingError(f"unknown beyond_range {beyond_range!r}{did_you_mean(beyond_range, get_args(BeyondRange))}")


def bracket(
    pooled: Pooled, radius: float, counts: IntArray, weights: FloatArray, span: Span, bins: int
) -> tuple[float, float]:
    """Return the ends of the bin the radius lies in: what the clients' counts alone say of it.

    The upper end is a radius that never covers less. Above the range it is infinite, as no bin ends there.

    Paper: sec:calib-mitig (the quantile that bin counts determine)
    """
    if pooled.radius == inf:
        return inf, inf
    if pooled.radius > span.upper and radius > span.upper:
        return span.upper, inf
    low, high = bracket_from_histogram(whole_parts(weights)[0] @ counts, span.edges(bins), pooled.target)
    return (low, high) if high < inf else (span.upper, nextafter(span.upper, inf))
