"""One client's calibration in one small record: counts of its scores on the agreed bins, and nothing else.

The server derives all it needs from these counts, the filter's view as well as the quantile, so no client can send an
honest histogram beside a poisoned sketch.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from prism_fcp.calibrate.names import check_name
from prism_fcp.calibrate.span import ScoreArray
from prism_fcp.calibrate.spec import CalibrationSpec, stamp
from prism_fcp.errors import DataError, PrismError


@dataclass(frozen=True, eq=False)
class ClientSummary:
    """What a client says of its scores. `spec` and `model` are hashes: what it counted for, and of which model."""

    client: str
    spec: str
    model: str
    counts: NDArray[np.int64]  # one a bin of the spec's grid
    created: str  # a moment in UTC, whole seconds
    key: str = ""  # fingerprint of the key it is signed with
    signature: str = ""  # in hex

    @property
    def size(self) -> int:
        """Return the number of scores."""
        return int(self.counts.sum())


class Merged(NamedTuple):
    """What merging small counts did."""

    counts: NDArray[np.int64]
    moved: int  # scores that are told in a higher bin than theirs
    bins: int  # the most bins one of them rose by


def summarize(
    scores: ScoreArray | Iterable[ScoreArray],
    spec: CalibrationSpec,
    client: str,
    *,
    created: datetime | None = None,
) -> ClientSummary:
    """Count a client's scores, an array or blocks of one, on the spec's bins.

    Paper: sec:calib-mitig, v_{k,h}; Alg. 1, phase 2 (one upload in place of v_k and Q_k)
    """
    check_name(client)
    counts = count(scores, spec)
    size = int(counts.sum())
    if size == 0:
        raise DataError("summarize: there are no scores; at least one is needed")
    if size > spec.most_scores:
        raise DataError(f"summarize: {size:,} scores; the spec believes no client more than {spec.most_scores:,}")
    moment = stamp(created or datetime.now(UTC))
    return ClientSummary(client, spec.hash, spec.model, merge_small(counts, spec.least_count).counts, moment)


def count(scores: ScoreArray | Iterable[ScoreArray], spec: CalibrationSpec) -> NDArray[np.int64]:
    """Return the counts of scores that come as an array or in blocks; errors say where in all of them."""
    counts, seen = np.zeros(len(spec.grid.edges) - 1, dtype=np.int64), 0
    for block in [scores] if isinstance(scores, np.ndarray) else scores:
        own = np.asarray(block)
        if own.dtype.kind not in "fiu" or own.ndim != 1:
            raise DataError(
                f"summarize: scores have dtype {own.dtype} and {own.ndim} dimensions; numbers in one needed"
            )
        try:
            if own.size:
                counts += spec.grid.count(own.astype(np.float64, copy=False))
        except PrismError as error:
            where = f" (counted after the first {seen:,})" if seen else ""
            raise DataError(f"summarize: {error}{where}") from error
        seen += own.size
    return counts


def merge_small(counts: NDArray[np.int64], least: int) -> Merged:
    """Return counts none of which lies between 0 and `least`: from below, small ones rise until they suffice together.

    Scores only ever rise, so no quantile becomes smaller; what is too few at the top joins the group below it there,
    at the top. A client with fewer than `least` scores in all tells them in one bin.
    """
    if least <= 1:
        return Merged(counts, 0, 0)
    merged = np.zeros_like(counts)
    held, bottom, moved, rise = 0, 0, 0, 0
    last_bin, last_bottom = -1, 0
    for place in np.flatnonzero(counts).tolist():
        bottom = place if held == 0 else bottom
        held += int(counts[place])
        if held >= least:
            merged[place] = held
            moved += held - int(counts[place])
            rise = max(rise, place - bottom)
            last_bin, last_bottom, held = place, bottom, 0
    if held:
        top = int(np.flatnonzero(counts)[-1])
        if last_bin >= 0:
            moved -= int(merged[last_bin] - counts[last_bin])
            held, bottom = held + int(merged[last_bin]), last_bottom
            merged[last_bin] = 0
        merged[top] = held
        moved += held - int(counts[top])
        rise = max(rise, top - bottom)
    return Merged(merged, moved, rise)


def lowest_places(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return merged counts with each group where its lowest score may have been: just above the group below.

    Between these and the counts as they were told lies what merging hides.
    """
    lowered = np.zeros_like(counts)
    told = np.flatnonzero(counts)
    lowered[np.concatenate(([0], told[:-1] + 1))] = counts[told]
    return lowered
