"""Phase 2 on arrays of scores: check, choose a range, count, filter, take the quantile.

A client whose scores cannot be used is left out by name and the others carry on.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import partial
from math import ceil, inf
from typing import Any, Final, NamedTuple, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from prism_fcp.calibrate.calibration import Calibration, ClientId, LevelRadius, capped, level_from_counts
from prism_fcp.calibrate.cautious import cautious
from prism_fcp.calibrate.cells import compared
from prism_fcp.calibrate.filter import FILTERS
from prism_fcp.calibrate.grid import LogGrid
from prism_fcp.calibrate.histogram import histogram
from prism_fcp.calibrate.judgement import Filter, FilterContext
from prism_fcp.calibrate.masses import pool_counts
from prism_fcp.calibrate.quantile import (
    ClippedScoresWarning,
    Correction,
    Level,
    exact_level,
    rank,
    warn_too_few,
)
from prism_fcp.calibrate.radius import BeyondRange, bracket, check_beyond, conformal_radius
from prism_fcp.calibrate.select import select
from prism_fcp.calibrate.sound import sound
from prism_fcp.calibrate.span import RANGES, Range, ScoreArray, Span, high_quantile
from prism_fcp.errors import DataError, SettingError
from prism_fcp.types import Choice, IntArray, Verdict

T = TypeVar("T")
MOST_BINS: Final = 1_000_000
_DEFAULT: Final = LogGrid()


def calibrate(
    scores: Mapping[ClientId, ArrayLike] | Sequence[ArrayLike],
    *,
    confidence_level: Level | Sequence[Level] = 0.9,
    filter: Filter | str | None = None,
    range: Range | Span | str | None = None,
    bins: int | None = None,
    correction: Correction = "n+1",
    beyond_range: BeyondRange = "exact",
    cap: float | None = 3.0,
    suspects: int | None = None,
    evidence: Mapping[ClientId, float] | None = None,
) -> Calibration:
    """Return the conformal radius of the clients a filter keeps, for one confidence level or several.

    `filter` is `cautious()` unless given; `suspects` and `evidence` reach it as its context: `mixture` and
    `vigilant` use training's evidence (`trained.ledger.suspicion()`), the default goes by scores alone. It may be given
    by name, as in an experiment file, and so may `range`.

    Clients are compared on the log grid's cells, which need no range, unless a `range` or `bins` are given: then on
    that many equal bins (100) of a range taken from the scores, `high_quantile` if none is named, or of a `Span` from
    an earlier pilot pass. Clipping at a range shapes what the filter sees. It moves the radius only if the conformal
    rank falls among scores above the range, and then never in silence (`ClippedScoresWarning`). `beyond_range` says
    what the radius is in that case: "exact", the score itself, which covers; "infinite", as a server that sees counts
    alone must say; or "clip", the range's end, the paper's min{r, R_max}, right only where a pilot pass proved that no
    honest score is larger.

    `cap` bounds what one client counts for: at most `cap` times the median client's number of scores, so that nobody
    owns the quantile by sending, or claiming, a million of them; None lets every score count.

    Paper: Alg. 1, phase 2
    """
    levels = _levels(confidence_level)
    number = 100 if bins is None else bins
    if isinstance(number, bool) or not isinstance(number, int | np.integer) or not 2 <= number <= MOST_BINS:
        raise SettingError(f"calibrate: bins={bins!r}; must be an integer in 2..{MOST_BINS}")
    check_beyond(beyond_range)
    chosen = _chosen(filter, FILTERS, "filter") or cautious()
    grid = _DEFAULT if range is None and bins is None else None
    alone = grid is not None and chosen.keeps_all and isinstance(scores, Mapping | Sequence) and len(scores) == 1
    usable, refused, counts = _usable(scores, None if alone else grid, alone)
    told = _Told(tuple(usable), list(usable.values()), refused, levels, correction, cap)
    context = FilterContext(told.ids, suspects, evidence or {})
    if grid is not None and alone:
        return _alone(told, chosen, context, grid)
    if grid is not None:
        return _on_log_grid(told, chosen, context, grid, np.array(counts))
    if isinstance(range, Span):
        span = range
    else:
        ten_times_closer = float(1 - (1 - max(levels.values())) / 10)
        span = (_chosen(range, RANGES, "range") or high_quantile(ten_times_closer))(told.rows)
    return _on_range(told, chosen, context, span, int(number), beyond_range)


class _Told(NamedTuple):
    """What calibration works on, whatever the bins."""

    ids: tuple[ClientId, ...]
    rows: list[ScoreArray]
    refused: dict[ClientId, str]
    levels: dict[Level, Fraction]
    correction: Correction
    cap: float | None

    def result(
        self,
        levels: list[LevelRadius],
        verdict: Verdict,
        weights: NDArray[np.float64],
        edges: NDArray[np.float64],
        counts: IntArray | Callable[[], IntArray],
    ) -> Calibration:
        return Calibration(
            levels=tuple(levels), verdict=verdict, client_ids=self.ids, sizes=self.sizes, weights=weights,
            refused=self.refused, edges=edges, counts=counts, correction=self.correction, cap=self.cap,
        )  # fmt: skip

    @property
    def sizes(self) -> NDArray[np.int64]:
        return np.array([own.size for own in self.rows])


def _on_log_grid(
    told: _Told, chosen: Filter, context: FilterContext, grid: LogGrid, counts: NDArray[np.int64]
) -> Calibration:
    """Let the counts say where each radius lies: only that bin's scores are ordered."""
    verdict = chosen(compared(counts, told.sizes, None), told.sizes, context)
    weights = capped(np.asarray(verdict.weights, dtype=np.float64), told.sizes, told.cap, "calibrate")
    pool = pool_counts(counts, weights, told.correction)
    reached, found = np.cumsum(pool.counts), []
    for wanted in told.levels:
        one = level_from_counts(pool, grid.edges, wanted)
        if one.bracket == (inf, inf):
            warn_too_few(pool.mass / pool.unit, wanted, one.rank, stacklevel=4)
        else:
            low, high = one.bracket
            below = int(reached[np.searchsorted(grid.edges, low) - 1]) if low > 0 else 0
            one = one._replace(radius=select(told.rows, pool.parts, low, high, below, pool.rank(wanted)))
        found.append(one)
    return told.result(found, verdict, weights, grid.edges, counts)


def _alone(told: _Told, chosen: Filter, context: FilterContext, grid: LogGrid) -> Calibration:
    """Order the scores of one client that is kept whatever they are: counting them can wait until somebody asks."""
    sizes, own = told.sizes, told.rows[0]
    verdict = chosen(sizes[:, None], sizes, context)
    weights = capped(np.asarray(verdict.weights, dtype=np.float64), sizes, told.cap, "calibrate")
    found = []
    for wanted, level in told.levels.items():
        place = rank(own.size, wanted, told.correction, 1)
        radius, low, high = inf, inf, inf
        if place > own.size:
            warn_too_few(own.size, wanted, place, stacklevel=4)
        else:
            own.partition(place - 1)
            radius = float(own[place - 1])
            above = int(np.searchsorted(grid.edges, radius, side="right"))
            low, high = grid.edges[above - 1 : above + 1].tolist()
        found.append(LevelRadius(float(level), radius, (low, high), place))
    return told.result(found, verdict, weights, grid.edges, partial(_count_alone, grid, own))


def _count_alone(grid: LogGrid, own: ScoreArray) -> IntArray:
    return grid.count(own)[None]


def _on_range(
    told: _Told, chosen: Filter, context: FilterContext, span: Span, bins: int, beyond_range: BeyondRange
) -> Calibration:
    """Count on equal bins of a range, as the paper does; radii are of the scores themselves."""
    counts = histogram(told.rows, span, bins)
    verdict = chosen(counts, told.sizes, context)
    weights = capped(np.asarray(verdict.weights, dtype=np.float64), told.sizes, told.cap, "calibrate")
    found = []
    for wanted, level in told.levels.items():
        radius, beyond, pooled = conformal_radius(
            told.rows, weights, span, confidence_level=wanted, correction=told.correction, beyond_range=beyond_range
        )
        if beyond:
            _warn_beyond(span, radius, beyond_range)
        ends = bracket(pooled, radius, counts, weights, span, bins)
        found.append(LevelRadius(float(level), radius, ends, ceil(pooled.target / pooled.unit)))
    return told.result(found, verdict, weights, span.edges(bins), counts)


def _levels(wanted: Level | Sequence[Level]) -> dict[Level, Fraction]:
    asked: list[Any] = [*wanted] if isinstance(wanted, list | tuple) else [wanted]
    if not asked:
        raise SettingError("calibrate: no confidence level; give at least one, such as 0.9")
    return {level: exact_level(level) for level in asked}


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
        stacklevel=4,
    )


def _usable(
    scores: Mapping[ClientId, ArrayLike] | Sequence[ArrayLike], grid: LogGrid | None, alone: bool
) -> tuple[dict[ClientId, ScoreArray], dict[ClientId, str], list[NDArray[np.int64]]]:
    """Return the clients whose scores can be used (a copy, if `alone`), why others' cannot, and counts on the grid."""
    listed = isinstance(scores, Sequence) or (isinstance(scores, np.ndarray) and scores.ndim > 0)
    if isinstance(scores, str | bytes) or not (isinstance(scores, Mapping) or listed):
        raise DataError(f"calibrate: scores are {type(scores).__name__}; give one array a client, in a list or by name")
    named = scores.items() if isinstance(scores, Mapping) else enumerate(scores)
    usable: dict[ClientId, ScoreArray] = {}
    refused: dict[ClientId, str] = {}
    counts: list[NDArray[np.int64]] = []
    for name, sent in named:
        own, problem = _check(sent)
        if not problem:
            try:
                if grid is not None:
                    counts.append(grid.count(own))
                else:
                    copy = np.empty(own.size, own.dtype) if alone else None
                    problem = "" if sound(own, copy) else _trouble(own)
                    own = own if copy is None else copy
            except DataError:
                problem = _trouble(own)
        if problem:
            refused[name] = f"refused: {problem}"
        else:
            usable[name] = own
    if not usable:
        first = next(iter(refused.items()), None)
        detail = f"; client {first[0]!r} was {first[1]}" if first else "; no client sent any"
        raise DataError(f"calibrate: none of {len(refused)} clients sent scores that can be used{detail}")
    return usable, refused, counts


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
    return own, ""


def _trouble(own: ScoreArray) -> str:
    bad = np.flatnonzero(~np.isfinite(own))
    what = "NaN or infinite" if bad.size else "negative"
    bad = bad if bad.size else np.flatnonzero(own < 0)
    return f"{bad.size} of {own.size} scores are {what}, the first at position {bad[0]}"
