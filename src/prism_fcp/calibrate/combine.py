"""Phase 2 on summaries: one count table, from which the filter's view and the quantile are both derived."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from math import inf

import numpy as np
from numpy.typing import NDArray

from prism_fcp.calibrate.calibration import Calibration, ClientId, LevelRadius, capped, level_from_counts
from prism_fcp.calibrate.cautious import cautious
from prism_fcp.calibrate.cells import compared
from prism_fcp.calibrate.judgement import Filter, FilterContext
from prism_fcp.calibrate.masses import pool_counts
from prism_fcp.calibrate.quantile import ClippedScoresWarning, warn_too_few
from prism_fcp.calibrate.spec import CalibrationSpec
from prism_fcp.calibrate.summary import ClientSummary, lowest_places
from prism_fcp.calibrate.wire import check_against
from prism_fcp.errors import DataError
from prism_fcp.types import IntArray


def calibrate_summaries(
    summaries: Sequence[ClientSummary],
    spec: CalibrationSpec,
    *,
    filter: Filter | None = None,
    suspects: int | None = None,
    evidence: Mapping[ClientId, float] | None = None,
    refused: Mapping[ClientId, str] | None = None,
) -> Calibration:
    """Return the radii of the clients a filter keeps, for every level of the spec.

    A summary that is none for this spec is refused by its client's name, and so is a client's second one. `refused`
    are those turned away before.

    Paper: Alg. 1, phase 2
    """
    turned_away: dict[ClientId, str] = dict(refused or {})
    usable: dict[str, ClientSummary] = {}
    for summary in summaries:
        problem = check_against(summary, spec)
        if not problem and summary.client in usable:
            problem = "a second summary of this client; the first one counts"
        if not problem:
            usable[summary.client] = summary
        elif summary.client not in usable:
            turned_away[summary.client] = f"refused: {problem}"
    if len(usable) < spec.quorum:
        raise DataError(
            f"calibrate: no quorum: {len(usable)} of {len(usable) + len(turned_away)} summaries can be used; the spec "
            f"needs {spec.quorum}: wait for more, or agree on a smaller quorum{_first(turned_away)}"
        )
    ids = tuple(usable)
    counts = np.array([summary.counts for summary in usable.values()], dtype=np.uint32)
    sizes = counts.sum(axis=1, dtype=np.int64)
    context = FilterContext(ids, suspects, evidence or {})
    verdict = (filter or cautious())(compared(counts, sizes, spec.cells), sizes, context)
    weights = capped(np.asarray(verdict.weights, dtype=np.float64), sizes, spec.cap, "calibrate")
    return Calibration(
        levels=radii(counts, weights, spec),
        verdict=verdict,
        client_ids=ids,
        sizes=sizes,
        weights=weights,
        refused=turned_away,
        edges=spec.grid.edges,
        counts=counts,
        correction=spec.correction,
        cap=spec.cap,
        model=spec.model,
        spec=spec.hash,
    )


def radii(counts: IntArray, weights: NDArray[np.float64], spec: CalibrationSpec) -> tuple[LevelRadius, ...]:
    """Return the radius for each of the spec's levels, and say where one is not what it should be."""
    pool, lowered = pool_counts(counts, weights, spec.correction), None
    if spec.least_count > 1:
        lowest = np.array([lowest_places(own.astype(np.int64)) for own in counts], dtype=np.uint32)
        lowered = pool_counts(lowest, weights, spec.correction)
    edges, found = spec.grid.edges, []
    for level in spec.confidence_levels:
        one = level_from_counts(pool, edges, level)
        if lowered is not None and one.radius < inf:
            one = one._replace(bracket=(level_from_counts(lowered, edges, level).bracket[0], one.bracket[1]))
        found.append(one)
        _warn(one, edges, pool.mass / pool.unit)
    return tuple(found)


def _warn(one: LevelRadius, edges: NDArray[np.float64], mass: float) -> None:
    if one.bracket == (inf, inf):
        warn_too_few(mass, one.confidence_level, one.rank, stacklevel=5)
    elif one.bracket[1] == edges[-1]:
        end = "the radius is infinite" if one.radius == inf else f"the radius is cut to the grid's end, {one.radius:g}"
        warnings.warn(
            f"the rank for confidence {one.confidence_level:g} falls into the grid's last bin, above "
            f"{one.bracket[0]:g}: {end}; use a wider grid",
            ClippedScoresWarning,
            stacklevel=4,
        )


def _first(turned_away: Mapping[ClientId, str]) -> str:
    for client, reason in turned_away.items():
        return f"; client {client!r} was {reason}"
    return ""
