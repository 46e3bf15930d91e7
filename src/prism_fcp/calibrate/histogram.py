"""What a client's scores look like to the server: counts in bins, and the same as shares."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from prism_fcp.calibrate.span import ClientScores, Span
from prism_fcp.errors import DataError, SettingError
from prism_fcp.types import FloatArray, IntArray

BLOCK_SCORES: Final = 24_576  # scores counted at a time: their temporaries stay in the cache


def histogram(scores: ClientScores, span: Span, bins: int) -> NDArray[np.int64]:
    """Count each client's scores in `bins` equal bins of [0, upper]: (K, bins), or (K, bins + 1) with overflow.

    Bin h holds edges[h] <= score < edges[h+1]; the last one is closed and takes what lies above, unless there is an
    overflow bin. A score of zero is in bin 0 (published code puts it in the last bin, where zeros and ones look
    alike). `scores` is a (K, n) array or one array a client.

    >>> histogram([np.array([0.0, 0.25, 1.0, 7.0])], Span(1.0), 4)
    array([[1, 1, 0, 2]])

    Paper: sec:calib-mitig, v_{k,h}; Alg. 1, phase 2
    """
    if bins < 2:
        raise SettingError(f"histogram: bins={bins}; must be at least 2, one bin makes all clients look alike")
    columns = bins + span.overflow
    counts = np.empty((len(scores), columns), dtype=np.int64)
    total = sum(len(own) for own in scores)
    step = max(BLOCK_SCORES * len(scores) // max(total, 1), 1)
    for start in range(0, len(scores), step):
        block = scores[start : start + step]
        sizes = [len(own) for own in block]
        flat = block.reshape(-1) if isinstance(block, np.ndarray) else np.concatenate(block)
        if flat.dtype != np.float32 or bins > 10_000:
            flat = flat.astype(np.float64, copy=False)
        if flat.size and not (flat.min() >= 0 and flat.max() < np.inf):  # written so that NaN fails too
            _name_bad(scores)
        cells = _bin_index(flat, span, bins) + np.repeat(np.arange(len(sizes)) * columns, sizes)
        counts[start : start + step] = np.bincount(cells, minlength=len(sizes) * columns).reshape(-1, columns)
    return counts


def _bin_index(flat: FloatArray, span: Span, bins: int) -> NDArray[np.int64]:
    """Return each score's bin. The edges decide; a product would put 0.29 x 100 = 28.999999999999996 one bin low.

    The product, lowered by more than its rounding, is the bin or the one below it; comparing with that bin's
    ceiling, in the scores' own type, settles which.
    """
    kind = flat.dtype.type
    exact = span.edges(bins)[1 : bins + 1]
    ceilings = exact.astype(kind)
    ceilings = np.where(ceilings < exact, np.nextafter(ceilings, kind(np.inf)), ceilings)
    ceilings[-1] = np.inf
    if span.overflow:  # the smallest number above the range
        nearest = kind(span.upper)
        ceilings[-1] = nearest if float(nearest) > span.upper else np.nextafter(nearest, kind(np.inf))
    within = np.minimum(flat, kind(span.upper)) if flat.size and flat.max() > span.upper else flat
    scale = kind(bins / span.upper * (1 - 4 * float(np.finfo(kind).eps)))
    index = (within * scale).astype(np.int32).astype(np.int64)
    index += flat >= ceilings.take(index)
    return index


def characterize(counts: IntArray | FloatArray, client_ids: Sequence[int | str] | None = None) -> NDArray[np.float64]:
    """Turn counts (K, H) into shares: each row on the simplex. Rows that are shares already stay as they are.

    Paper: sec:calib-mitig, v_k in Delta^H
    """
    table = np.asarray(counts, dtype=np.float64)
    if table.ndim != 2 or 0 in table.shape:
        raise DataError(f"characterize: counts have shape {table.shape}; must be (clients, bins), neither of them 0")
    totals = table.sum(axis=1)
    if not (table.min() >= 0 and totals.max() < np.inf):
        bad = int(np.flatnonzero(~(np.isfinite(totals) & (table >= 0).all(axis=1)))[0])
        raise DataError(f"characterize: client {_name(bad, client_ids)} has negative, NaN or infinite counts")
    if totals.min() == 0:
        bad = int(np.flatnonzero(totals == 0)[0])
        raise DataError(f"characterize: client {_name(bad, client_ids)} has no scores; leave it out of the filter")
    shares: NDArray[np.float64] = table / totals[:, None]
    return shares


def _name(position: int, client_ids: Sequence[int | str] | None) -> str:
    return repr(position if client_ids is None else client_ids[position])


def _name_bad(scores: ClientScores) -> None:
    for client, own in enumerate(scores):
        bad = np.count_nonzero(~np.isfinite(own)) + np.count_nonzero(np.asarray(own) < 0)
        if bad:
            raise DataError(
                f"histogram: {bad} of client {client}'s {len(own)} scores are negative, NaN or infinite; "
                "leave this client out"
            )
