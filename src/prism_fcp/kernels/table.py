"""The server table, its weighted median and its ledger: `train/aggregate/table.py`, compiled. Sums are float64."""

# mypy: allow-untyped-defs
from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from prism_fcp.kernels._jit import part
from prism_fcp.kernels.codes import (
    ENOUGH,
    FARTHEST,
    FRESH,
    LEAST_DISTANCE,
    MANY,
    NO_WEIGHT,
    NORMAL,
    PASSES,
    ROUNDING,
    SLACK,
    STEPS,
)


class Tables(NamedTuple):
    """What the server remembers, for each of the T arms that have a table."""

    average: NDArray[np.float64]  # (T, K, width)
    weight: NDArray[np.float64]  # (T, K, width)
    excluded: NDArray[np.bool_]  # (T, K)
    distance: NDArray[np.float64]  # (T, K)
    aligned: NDArray[np.float64]  # (T, K)
    first_excluded: NDArray[np.int64]  # (T, K)
    times_excluded: NDArray[np.int64]  # (T, K)
    limit: NDArray[np.float64]  # (T,)
    looks: NDArray[np.int64]  # (T,)


@part
def remember(tables, t, rows, sent, owner, admitted, gain):
    """Average the round's uploads into the table."""
    width = rows.shape[1]
    for i in range(admitted):
        k = owner[i]
        for j in range(width):
            if sent[i, j] != 0:
                tables.weight[t, k, j] += gain
                step = gain / tables.weight[t, k, j]
                tables.average[t, k, j] += step * (np.float64(rows[i, j]) - tables.average[t, k, j])


@part
def middle_of(values, weights, count, otherwise):
    """Equal `weighted_median` of one column; reorders its scratch. All weights count."""
    total = 0.0
    for i in range(count):
        total += weights[i]
    if total <= 0.0:
        return otherwise
    half, slack = total / 2, SLACK * total
    low, high, below, found, at = 0, count, 0.0, values[0], total
    while low < high:
        pivot = values[(low + high) // 2]
        less, i, more = low, low, high
        under, equal = 0.0, 0.0
        while i < more:
            value, weight = values[i], weights[i]
            if value < pivot:
                values[i], weights[i] = values[less], weights[less]
                values[less], weights[less] = value, weight
                under += weight
                less += 1
                i += 1
            elif value > pivot:
                more -= 1
                values[i], weights[i] = values[more], weights[more]
                values[more], weights[more] = value, weight
            else:
                equal += weight
                i += 1
        found, at = pivot, below + under + equal
        if below + under >= half - slack:
            high = less
        elif at >= half - slack:
            break
        else:
            below = at
            low = more
    if at > half + slack:
        return found
    following = np.inf
    for i in range(count):
        if values[i] > found and values[i] < following:
            following = values[i]
    return 0.5 * found + 0.5 * following if following < np.inf else found


@part
def consult(tables, t, sent, admitted, gain, values, weights, out):
    """Write the weighted median of each coordinate somebody sent into `out`; `values`, `weights` (K,) are scratch."""
    num_clients, width = tables.average.shape[1], len(out)
    for j in range(width):
        touched = False
        for i in range(admitted):
            touched |= sent[i, j] != 0
        if not touched:
            continue
        count = 0
        for k in range(num_clients):
            held = tables.weight[t, k, j]
            if held > 0.0 and not tables.excluded[t, k]:
                trust = min(1.0, held / gain)
                if trust >= NO_WEIGHT:
                    values[count], weights[count] = tables.average[t, k, j], trust
                    count += 1
        out[j] = np.float32(middle_of(values, weights, count, np.float64(out[j])))


@part
def judge(tables, t, n, gain, cutoff, aligned, dimension):
    """Equal `look` of `train/aggregate/ledger.py`."""
    num_clients = tables.average.shape[1]
    values, scaled = np.empty(num_clients), np.zeros((num_clients, dimension))
    total, count = np.zeros(num_clients), np.zeros(num_clients, np.int64)
    for j in range(dimension):
        seen = 0
        for k in range(num_clients):
            if tables.weight[t, k, j] / gain >= FRESH:
                values[seen] = tables.average[t, k, j]
                seen += 1
        if seen < ENOUGH:
            continue
        middle = np.median(values[:seen])
        for i in range(seen):
            values[i] = abs(values[i] - middle)
        spread = NORMAL * np.median(values[:seen])
        if not spread > ROUNDING * abs(middle):
            continue
        for k in range(num_clients):
            if tables.weight[t, k, j] / gain >= FRESH:
                scaled[k, j] = (tables.average[t, k, j] - middle) / spread
                total[k] += min(scaled[k, j] * scaled[k, j], FARTHEST)
                count[k] += 1
    usable = 0
    for k in range(num_clients):
        tables.distance[t, k] = np.nan
        if count[k] > 0:
            tables.distance[t, k] = total[k] / count[k]
            values[usable] = np.log(max(tables.distance[t, k], LEAST_DISTANCE))
            usable += 1
    limit = np.inf
    if usable >= ENOUGH:
        centre = np.median(values[:usable])
        for i in range(usable):
            values[i] = abs(values[i] - centre)
        around = np.median(values[:usable])
        if around > 0.0:
            limit = np.exp(min(centre + cutoff * NORMAL * around, 700.0))
    tables.limit[t] = limit
    tables.looks[t] += 1
    left = np.zeros(num_clients, np.bool_)
    for k in range(num_clients):
        tables.aligned[t, k] = np.nan
        tables.excluded[t, k] = tables.distance[t, k] > limit
        left[k] = count[k] > 0 and not tables.excluded[t, k]
    if aligned > 0:
        _align(tables, t, scaled, left, aligned, values)
    for k in range(num_clients):
        if tables.excluded[t, k]:
            if tables.times_excluded[t, k] == 0:
                tables.first_excluded[t, k] = n
            tables.times_excluded[t, k] += 1


@part
def _align(tables, t, scaled, left, aligned, values):
    """Equal `alignment` of `train/aggregate/ledger.py`; changes `scaled` and `left`."""
    num_clients, dimension = scaled.shape
    for k in range(num_clients):
        length = 0.0
        for j in range(dimension):
            length += scaled[k, j] * scaled[k, j]
        left[k] = left[k] and length > 0.0
        for j in range(dimension):
            scaled[k, j] = scaled[k, j] / np.sqrt(length) if left[k] else 0.0
    place, direction, fresh = np.zeros(num_clients), np.empty(dimension), np.empty(dimension)
    for _ in range(PASSES):
        if left.sum() < MANY:
            return
        direction[:] = 1.0
        for _ in range(STEPS):
            fresh[:] = 0.0
            for k in range(num_clients):
                if left[k]:
                    along = 0.0
                    for j in range(dimension):
                        along += scaled[k, j] * direction[j]
                    for j in range(dimension):
                        fresh[j] += along * scaled[k, j]
            size = 0.0
            for j in range(dimension):
                size += fresh[j] * fresh[j]
            if not size > 0.0:
                return
            for j in range(dimension):
                direction[j] = fresh[j] / np.sqrt(size)
        found = 0
        for k in range(num_clients):
            along = 0.0
            for j in range(dimension):
                along += scaled[k, j] * direction[j]
            place[k] = along
            if left[k]:
                values[found] = along
                found += 1
        centre = np.median(values[:found])
        for i in range(found):
            values[i] = abs(values[i] - centre)
        spread = NORMAL * np.median(values[:found])
        if not spread > 0.0:
            return
        gone = 0
        for k in range(num_clients):
            if left[k]:
                far = abs(place[k] - centre)
                tables.aligned[t, k] = far / spread
                if far > aligned * spread:
                    tables.excluded[t, k], left[k] = True, False
                    gone += 1
        if gone == 0:
            return


@part
def keep_trusted(tables, t, rows, sent, owner, admitted):
    """Move the rows of clients that are not left out to the front, and return how many they are."""
    kept = 0
    for i in range(admitted):
        if not tables.excluded[t, owner[i]]:
            if kept < i:
                owner[kept] = owner[i]
                for j in range(rows.shape[1]):
                    rows[kept, j], sent[kept, j] = rows[i, j], sent[i, j]
            kept += 1
    return kept
