"""The kept clients' histograms taken together, in integer masses, so that ranks stay exact."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from math import ceil
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from prism_fcp.calibrate.quantile import Correction, Level, exact_level, extra_scores, whole_parts
from prism_fcp.errors import DataError, SettingError
from prism_fcp.types import FloatArray, IntArray

BLOCK_ENTRIES: Final = 1 << 20  # counts handled at a time: 8 MiB


class Pool(NamedTuple):
    """The kept clients' counts taken together. Masses count scores, in parts of 1/unit."""

    counts: NDArray[np.int64]  # (H,)
    parts: NDArray[np.int64]  # (K,) what a score of each client weighs; 0 for those left out
    masses: tuple[int, ...]  # (K,) of each client
    unit: int  # what a score of weight 1 weighs
    mass: int
    extra: int  # what the correction adds to it for the test point: one score, or one for each client

    def rank(self, level: Level) -> int:
        """Return the mass the conformal quantile must reach: ceil((mass + extra)·level)."""
        return ceil((self.mass + self.extra) * exact_level(level))


def pool_counts(counts: IntArray, weights: FloatArray, correction: Correction = "n+1") -> Pool:
    """Return the weighted sum of the clients' histograms (K, H), a bounded number of rows at a time."""
    table, w = np.asarray(counts), np.asarray(weights, dtype=np.float64)
    if table.ndim != 2 or w.shape != table.shape[:1] or table.dtype.kind not in "iu":
        raise DataError(
            f"counts have shape {table.shape}, dtype {table.dtype} and {w.size} weights; "
            "integers (clients, bins) and one weight a client are needed"
        )
    if not ((w >= 0) & (w <= 1)).all():
        raise DataError(f"weights lie in [{w.min()}, {w.max()}]; each must lie in [0, 1]")
    if table.dtype.kind == "i" and table.size and table.min() < 0:
        raise DataError(f"the smallest count is {table.min()}; counts must be 0 or more")
    claimed = table.sum(axis=1, dtype=np.float64)  # in floats: integers would come round in silence
    if claimed.size and claimed.max() >= 2**62:
        raise DataError(f"client {int(claimed.argmax())} claims {claimed.max():.3g} scores, too many to add; refuse it")
    sizes = table.sum(axis=1, dtype=np.int64).tolist()
    parts, unit = whole_parts(w, sum(sizes))
    masses = tuple(part * size for part, size in zip(parts.tolist(), sizes, strict=True))
    mass = sum(masses)
    if mass >= 2**63:
        raise DataError(f"the kept clients claim {mass // unit} scores, too many to add; refuse some of them")
    total = np.zeros(table.shape[1], dtype=np.int64)
    step = max(BLOCK_ENTRIES // max(table.shape[1], 1), 1)
    for start in range(0, len(table), step):
        rows = slice(start, start + step)
        if parts[rows].any():
            total += parts[rows] @ table[rows].astype(np.int64, copy=False)
    return Pool(total, parts, masses, unit, mass, extra_mass(parts, unit, correction))


def extra_mass(parts: NDArray[np.int64], unit: int, correction: Correction) -> int:
    """Return what the correction adds: a score of weight 1, or (n+K) one of each client's weight."""
    extra_scores(correction, len(parts) or 1)  # refuses an unknown one
    return unit if correction == "n+1" else max(int(parts.sum()), unit)


def exact_fraction(value: float | str | Decimal | Fraction, what: str) -> Fraction:
    """Return a share in [0, 1) as the exact fraction its decimal notation stands for."""
    try:
        fraction = value if isinstance(value, Fraction) else Fraction(str(value))
    except (ValueError, ZeroDivisionError) as error:
        raise SettingError(f"{what}: fraction={value!r}; must be a number such as 0.05") from error
    if not 0 <= fraction < 1:
        raise SettingError(f"{what}: fraction={value}; must lie in [0, 1): with nothing honest left nothing can hold")
    return fraction
