"""Zero mean and unit variance, from one table or from sums that clients add up without showing a row."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from prism_fcp.errors import DataError


@dataclass(frozen=True, slots=True)
class Moments:
    """What a client tells of its columns: how many rows, their sums and sums of squares around a common centre.

    The centre (say, the means of one client, or 0) keeps the sums of squares from cancelling.
    """

    count: int
    sums: NDArray[np.float64]  # (D,) of x - centre
    squares: NDArray[np.float64]  # (D,) of (x - centre)^2
    centre: NDArray[np.float64]  # (D,)

    @classmethod
    def of(cls, values: NDArray[np.float64], centre: NDArray[np.float64] | float = 0.0) -> Moments:
        """Sum up one client's rows (n, D)."""
        around = np.broadcast_to(np.asarray(centre, dtype=np.float64), values.shape[1:])
        shifted = values - around
        with np.errstate(over="ignore"):  # infinity is refused where the sums come together
            return cls(len(values), shifted.sum(axis=0), np.square(shifted).sum(axis=0), around.copy())

    def __add__(self, other: Moments) -> Moments:
        """Add two clients' moments."""
        if not np.array_equal(self.centre, other.centre):
            raise DataError("moments around different centres cannot be added; agree on one centre first")
        return Moments(self.count + other.count, self.sums + other.sums, self.squares + other.squares, self.centre)


@dataclass(frozen=True, slots=True)
class Scaler:
    """Shift and scale of each column."""

    mean: NDArray[np.float64]
    sd: NDArray[np.float64]

    @classmethod
    def of(cls, values: NDArray[np.float64]) -> Scaler:
        """Take them from the whole table (n, D), population variance."""
        return cls.federated([Moments.of(values, values[0])])

    @classmethod
    def federated(cls, told: Iterable[Moments], *, constant: bool = False) -> Scaler:
        """Take them from the sums that clients told. With `constant`, a column that does not vary is only shifted."""
        parts = list(told)
        if not parts:
            raise DataError("standardisation: no client told its sums; at least one is needed")
        total = sum(parts[1:], start=parts[0])
        for place in np.flatnonzero(~np.isfinite(total.squares)):
            raise DataError(f"standardisation: column {place} has values too large to square; give it a larger unit")
        shift = total.sums / total.count
        variance = total.squares / total.count - np.square(shift)
        if constant:  # rounding leaves a constant column a variance of about nothing
            variance = np.where(variance > 1e-12 * np.square(shift), variance, 1.0)
        if not (variance > 0).all():
            first = int(np.flatnonzero(~(variance > 0))[0])
            raise DataError(f"standardisation: column {first} is constant over all clients; leave it out")
        return cls(total.centre + shift, np.sqrt(variance))

    def apply(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the columns with zero mean and unit variance."""
        return (values - self.mean) / self.sd
