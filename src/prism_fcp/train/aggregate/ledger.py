"""The client ledger: who lies so far from the others, over all coordinates together, that its word is left out."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from prism_fcp.kernels.codes import ENOUGH, FARTHEST, FRESH, LEAST_DISTANCE, MANY, NORMAL, PASSES, ROUNDING, STEPS
from prism_fcp.types import BoolArray, FloatArray, Ledger


def look(
    ledger: Ledger,
    average: NDArray[np.float64],
    trust: NDArray[np.float64],
    number: int,
    cutoff: float,
    aligned: float,
) -> Ledger:
    """Return the ledger after judging every client anew, in round `number`.

    `trust` is an entry's weight over this round's. Below 1/20 it is old news, from when models had not arrived yet, and
    says nothing: rows would share the direction of what was still to learn. Far: T_k is the mean over the coordinates
    client k has lately sent of ((average_kd - med_d) / (1.4826 MAD_d))^2, each at most 10^6; a coordinate that fewer
    than four sent says nothing. Left out is whoever has log T_k > med + cutoff * 1.4826 MAD, both of the clients' log
    T. Aligned: those who lie no farther than others, but all to the same side; see `alignment`. Nothing is permanent,
    and no number of attackers is asked for. The plain MAD stands up to just under half the clients.
    """
    seen = trust >= FRESH
    middle = _median(average, seen)
    spread = NORMAL * _median(np.abs(average - middle), seen)
    enough = (spread > ROUNDING * np.abs(middle)) & (seen.sum(axis=0) >= ENOUGH)
    usable = seen & enough
    scaled = np.where(usable, average - middle, 0) / np.where(enough, spread, 1)
    count = usable.sum(axis=1)
    distance = np.minimum(np.square(scaled), FARTHEST).sum(axis=1) / np.maximum(count, 1)
    distance[count == 0] = np.nan
    logs = np.log(np.maximum(distance[count > 0], LEAST_DISTANCE))
    limit = np.inf
    if len(logs) >= ENOUGH:
        centre = np.median(logs)
        around = np.median(np.abs(logs - centre))
        limit = float(np.exp(min(centre + cutoff * NORMAL * around, 700))) if around > 0 else np.inf
    out = distance > limit  # a nan is not
    sides = np.full(len(out), np.nan)
    if aligned:
        sides, together = alignment(scaled, ~out & (count > 0), aligned)
        out = out | together
    first = np.where(out & (ledger.times_excluded == 0), number, ledger.first_excluded)
    return Ledger(ledger.client_ids, out, distance, limit, sides, first, ledger.times_excluded + out, ledger.looks + 1)


def alignment(scaled: NDArray[np.float64], judged: BoolArray, aligned: float) -> tuple[NDArray[np.float64], BoolArray]:
    """Return how far out each client lies in the rows' common direction, in spreads, and who lies beyond `aligned`.

    Rows are brought to one length, so that only their direction counts; honest rows point anywhere, those of attackers
    who agree on a direction point there, be they ever so close. The top direction of their second moments is found by
    power iteration; who is far from the median along it goes, and the rest is looked at again, three times at most.
    Reference: Diakonikolas et al. 2017 (filtering), Locantore et al. 1999 (spherical components).
    """
    length = np.sqrt(np.square(scaled).sum(axis=1))
    left = judged & (length > 0)
    rows = np.where(left[:, None], scaled, 0) / np.where(left, length, 1)[:, None]
    sides, out = np.full(len(rows), np.nan), np.zeros(len(rows), dtype=np.bool_)
    for _ in range(PASSES):
        if left.sum() < MANY:
            break
        direction = np.ones(rows.shape[1])
        for _ in range(STEPS):
            direction = rows[left].T @ (rows[left] @ direction)
            size = np.sqrt(np.square(direction).sum())
            if not size > 0:
                return sides, out
            direction = direction / size
        place = rows @ direction
        far = np.abs(place - np.median(place[left]))
        spread = NORMAL * np.median(far[left])
        if not spread > 0:
            break
        sides[left] = far[left] / spread
        beyond = left & (far > aligned * spread)
        if not beyond.any():
            break
        out, left = out | beyond, left & ~beyond
    return sides, out


def _median(values: FloatArray, seen: NDArray[np.bool_]) -> FloatArray:
    """Return each column's median over the rows that are seen; 0 where none is."""
    if not len(values):
        return np.zeros(values.shape[1])
    count = seen.sum(axis=0)
    ordered = np.sort(np.where(seen, values, np.inf), axis=0)
    column = np.arange(values.shape[1])
    low, high = ordered[np.maximum(count - 1, 0) // 2, column], ordered[np.minimum(count // 2, len(values) - 1), column]
    with np.errstate(invalid="ignore"):
        return np.where(count > 0, 0.5 * low + 0.5 * high, 0)
