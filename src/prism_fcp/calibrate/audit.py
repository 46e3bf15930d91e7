"""Why each client was judged as it was, and what the result would be without it.

Everything here is derived from the counts that gave the result; no client is asked again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import Any, Final, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from prism_fcp.calibrate.calibration import Calibration, ClientId, capped
from prism_fcp.calibrate.masses import pool_counts
from prism_fcp.calibrate.quantile import exact_level, whole_parts
from prism_fcp.types import IntArray

DRIVERS: Final = 3
_ROWS: Final = 256  # clients at a time
Status = Literal["kept", "down-weighted", "left out"]


class Driver(NamedTuple):
    """Where a client's scores lie otherwise than a typical client's."""

    low: float
    high: float
    share: float  # of the client's scores between them
    typical: float  # the median client's share there
    part: float  # of the squared distance that comes from here


@dataclass(frozen=True)
class ClientAudit:
    """One client's verdict with its reasons. Lists over levels follow the calibration's."""

    client: ClientId
    status: Status
    reason: str
    score: float
    threshold: float
    size: int
    weight: float  # what each of its scores counts for
    drivers: tuple[Driver, ...]
    within: tuple[float, ...]  # share of its own scores within each radius
    without: tuple[float, ...]  # the radii without it, or, of a client left out, with it

    @property
    def margin(self) -> float:
        """Return how far the score lies above the threshold; nan where the filter has none."""
        return self.score - self.threshold

    @property
    def counted(self) -> float:
        """Return how many scores the client counts for."""
        return self.size * self.weight

    def to_json(self) -> dict[str, Any]:
        """Return the audit as a table."""
        return {
            "client": self.client, "status": self.status, "reason": self.reason, "score": self.score,
            "threshold": self.threshold, "margin": self.margin, "size": self.size, "weight": self.weight,
            "counted": self.counted, "drivers": [driver._asdict() for driver in self.drivers],
            "within": [*self.within], "without": [*self.without],
        }  # fmt: skip


def audit(calibration: Calibration, cells: IntArray, starts: NDArray[np.int64]) -> list[ClientAudit]:
    """Return every judged client's audit; `cells` (K, C) are the counts the filter compared, from bin `starts` on."""
    verdict, kept = calibration.verdict, calibration.verdict.kept
    within, without = shares_within(calibration), radii_without(calibration)
    drivers = _drivers(cells, starts, calibration.edges)
    found = []
    for place, client in enumerate(calibration.client_ids):
        weight = float(verdict.weights[place])
        status: Status = "left out" if not kept[place] else "kept" if weight == 1 else "down-weighted"
        found.append(
            ClientAudit(
                client,
                status,
                verdict.reasons[place],
                float(verdict.scores[place]),
                float(verdict.threshold),
                int(calibration.sizes[place]),
                float(calibration.weights[place]),
                drivers[place],
                tuple(within[place].tolist()),
                tuple(without[place].tolist()),
            )  # fmt: skip
        )
    return found


def shares_within(calibration: Calibration) -> NDArray[np.float64]:
    """Return (K, levels): the share of each client's own scores within each radius, as far as bins can tell.

    A radius that is no edge counts the bins that end below it, so the share is never too high.
    """
    ends = np.array([level.radius for level in calibration.levels])
    last = np.searchsorted(calibration.edges, ends, side="right") - 1  # the number of whole bins below each radius
    shares = np.empty((len(calibration.sizes), len(ends)))
    for start in range(0, len(shares), _ROWS):
        rows = slice(start, start + _ROWS)
        reached = np.cumsum(calibration.counts[rows], axis=1, dtype=np.int64)
        below = np.concatenate((np.zeros((len(reached), 1), dtype=np.int64), reached), axis=1)
        shares[rows] = below[:, last] / calibration.sizes[rows, None]
    shares[:, ends == inf] = 1
    return shares


def radii_without(calibration: Calibration) -> NDArray[np.float64]:
    """Return (K, levels): the radii if a client were left out, and, if it was, the radii with it, weighted in full.

    The other verdicts stay as they are. Radii are ends of bins.
    """
    sizes, edges, counted = calibration.sizes, calibration.edges, calibration.weights > 0
    full = capped(np.ones(len(sizes)), sizes, calibration.cap, "audit")
    every, unit = whole_parts(np.where(counted, calibration.weights, full), int(sizes.sum()))
    change = np.where(counted, -every, every)
    pool = pool_counts(calibration.counts, np.where(counted, every / unit, 0.0), calibration.correction)
    parts, reached = np.where(counted, every, 0), np.cumsum(pool.counts) * (unit // pool.unit)
    mass_after = pool.mass * (unit // pool.unit) + change * sizes
    extra = np.maximum(parts.sum() + change, unit) if calibration.correction == "n+K" else np.full(len(sizes), unit)
    radii = np.empty((len(sizes), len(calibration.levels)))
    for start in range(0, len(sizes), _ROWS):
        rows = slice(start, start + _ROWS)
        after = reached + change[rows, None] * np.cumsum(calibration.counts[rows], axis=1, dtype=np.int64)
        for place, level in enumerate(calibration.levels):
            share = exact_level(level.confidence_level)
            target = _ceilings(mass_after[rows] + extra[rows], share.numerator, share.denominator)
            enough = target <= mass_after[rows]
            bins = (after >= target[:, None]).argmax(axis=1)
            radii[rows, place] = np.where(enough, edges[bins + 1], inf)
    return radii


def _ceilings(mass: NDArray[np.int64], numerator: int, denominator: int) -> NDArray[np.int64]:
    """Return ceil(mass·numerator/denominator), exactly: a level's digits times a mass may not fit 64 bits."""
    return np.array([-(-int(own) * numerator // denominator) for own in mass], dtype=np.int64)


def _drivers(cells: IntArray, starts: NDArray[np.int64], edges: NDArray[np.float64]) -> Sequence[tuple[Driver, ...]]:
    shares = cells / np.asarray(cells).sum(axis=1, keepdims=True)
    typical = np.median(shares, axis=0)
    ends = edges[np.append(starts, len(edges) - 1)]
    found = []
    for own in shares:
        gaps = (own - typical) ** 2
        total = gaps.sum()
        order = np.argsort(-gaps, kind="stable")[:DRIVERS]
        found.append(
            tuple(
                Driver(*(float(x) for x in (ends[h], ends[h + 1], own[h], typical[h], gaps[h] / total)))
                for h in order
                if gaps[h] > 0
            )
        )
    return found
