"""The calibration file: radii, verdicts with their reasons, and certificates, for people, scripts and the page.

Strict JSON: an infinite radius is the text "inf", a number that does not exist is null.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import numpy as np

from prism_fcp import io
from prism_fcp.calibrate.audit import ClientAudit, audit
from prism_fcp.calibrate.calibration import Calibration, LevelRadius, capped
from prism_fcp.calibrate.cells import compared, places
from prism_fcp.calibrate.certificate import worst_case
from prism_fcp.calibrate.guard import guard
from prism_fcp.calibrate.histogram import characterize
from prism_fcp.calibrate.judgement import Filter
from prism_fcp.calibrate.likeness import explain_difference
from prism_fcp.calibrate.masses import pool_counts
from prism_fcp.calibrate.own_radius import own_radii_from_counts
from prism_fcp.calibrate.spec import CalibrationSpec, stamp
from prism_fcp.calibrate.tails import effective_size
from prism_fcp.theory.coverage import paper_bounds
from prism_fcp.theory.detection import observed_detection

KIND: Final = "calibration"
GUARDS: Final = ("0.01", "0.05", "0.1", "0.2")  # fractions of the kept mass that each file says the price of
CONFIDENCE: Final = 0.95
DEFAULT_FILTER: Final = "cautious"


def guarded(calibration: Calibration, fraction: str) -> Calibration:
    """Return the calibration with radii that hold even if liars have this fraction of the kept mass."""
    table = (calibration.counts, calibration.weights, calibration.edges)
    levels = []
    for level in calibration.levels:
        one = guard(*table, level.confidence_level, fraction, calibration.correction)
        levels.append(LevelRadius(level.confidence_level, one.radius, (one.plain_radius, one.radius), one.rank))
    return replace(calibration, levels=tuple(levels))


def describe(
    calibration: Calibration,
    spec: CalibrationSpec,
    filter: Filter,
    now: datetime,
    *,
    warnings: Sequence[str] = (),
    guard_by: str | None = None,
) -> dict[str, Any]:
    """Return the calibration file's body; `guard_by` is the fraction of liars that the predictor's radii allow for."""
    seen = characterize(compared(calibration.counts, calibration.sizes, spec.cells))
    starts = places(calibration.counts, calibration.sizes, spec.cells)
    shown = np.add.reduceat(calibration.counts, starts, axis=1, dtype=np.int64)
    rows = audit(calibration, shown, starts)
    typical = np.median(characterize(shown), axis=0)
    own = own_radii_from_counts(calibration, [level.confidence_level for level in calibration.levels])
    pooled = pool_counts(calibration.counts, calibration.weights).counts
    likeness = {
        row.client: explain_difference(calibration.counts[place], pooled, calibration.edges)._asdict()
        for place, row in enumerate(rows)
        if row.status != "kept" and pooled.any()
    }
    clients = [
        row.to_json()
        | {"own_radii": [*own[row.client]], "likeness": likeness.get(row.client), "cells": shown[place].tolist()}
        for place, row in enumerate(rows)
    ]
    body = {
        "title": spec.title, "round": spec.round, "spec": spec.hash, "model": spec.model,
        "version": calibration.version, "made": stamp(now), "settings": spec.to_json(),
        "filter": {
            "name": filter.name, "measure": filter.measure, "threshold": float(calibration.verdict.threshold),
        },
        "totals": _totals(calibration, rows),
        "levels": [level._asdict() for level in calibration.levels],
        "clients": clients,
        "refused": [{"client": client, "reason": reason} for client, reason in calibration.refused.items()],
        "cells": {
            "edges": [*calibration.edges[starts].tolist(), float(calibration.edges[-1])],
            "typical": typical.tolist(),
        },
        "certificate": _certificate(calibration, seen),
        "guarded": None,
        "warnings": [*warnings],
    }  # fmt: skip
    if guard_by is not None:
        allowed = [
            {"confidence_level": level.confidence_level, "radius": level.radius}
            for level in guarded(calibration, guard_by).levels
        ]
        body["guarded"] = {"fraction": float(guard_by), "levels": allowed}
    return {name: _strict(value) for name, value in body.items()}


def save(path: Path, body: Mapping[str, Any]) -> None:
    """Write the calibration file."""
    io.write_json(path, KIND, body)


def load(path: Path) -> dict[str, Any]:
    """Read a calibration file."""
    return io.read_json(path, KIND, remedy="calibrate again")


def _totals(calibration: Calibration, rows: Sequence[ClientAudit]) -> dict[str, Any]:
    statuses = [row.status for row in rows]
    return {
        "clients": len(rows) + len(calibration.refused), "kept": statuses.count("kept"),
        "down_weighted": statuses.count("down-weighted"), "left_out": statuses.count("left out"),
        "refused": len(calibration.refused), "scores": int(calibration.sizes.sum()),
        "kept_scores": calibration.num_scores,
        "effective_size": float(effective_size(calibration.sizes, calibration.weights)),
    }  # fmt: skip


def _certificate(calibration: Calibration, shares: np.ndarray[Any, Any]) -> dict[str, Any]:
    table = (calibration.counts, calibration.weights, calibration.edges)
    full = capped(np.ones(len(calibration.sizes)), calibration.sizes, calibration.cap, "certificate")
    levels = []
    for level in calibration.levels:
        cases = worst_case(
            *table, level.confidence_level, confidence=CONFIDENCE, correction=calibration.correction, as_if_kept=full
        )
        rows = [
            {
                "liars": case.liars, "fraction": case.fraction, "kept": [*case.kept], "everyone": [*case.everyone],
                "expected": case.expected, "vacuous": case.kept.vacuous, "sentence": case.sentence,
            }
            for case in cases
        ]  # fmt: skip
        prices = [guard(*table, level.confidence_level, part, calibration.correction) for part in GUARDS]
        guards = [{"fraction": one.fraction, "radius": one.radius, "price": one.price} for one in prices]
        levels.append({"confidence_level": level.confidence_level, "rows": rows, "guards": guards})
    kept = calibration.verdict.kept
    clients, left_out = len(kept), int((~kept).sum())
    paper: dict[str, Any] = {"detection": observed_detection(shares, kept, calibration.sizes).sentence}
    if 2 * left_out < clients:
        sizes = float(calibration.sizes[kept].min())
        bounds = paper_bounds(clients, left_out, sizes, shares.shape[1], calibration.confidence_level)
        paper["coverage"] = bounds.sentence
    return {"confidence": CONFIDENCE, "levels": levels, "paper": paper}


def _strict(body: Any) -> Any:
    """Return the body as strict JSON can hold it."""
    if isinstance(body, Mapping):
        return {str(key): _strict(value) for key, value in body.items()}
    if isinstance(body, list | tuple):
        return [_strict(value) for value in body]
    if isinstance(body, float) and not math.isfinite(body):
        return "inf" if body == math.inf else None
    return body
