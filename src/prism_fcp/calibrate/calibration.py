"""What calibration comes to: a radius for each confidence level, and everything that led to it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from prism_fcp.calibrate.masses import Pool
from prism_fcp.calibrate.quantile import Correction, Level, bracket_from_histogram, exact_level
from prism_fcp.errors import SettingError
from prism_fcp.types import IntArray, Verdict

ClientId: TypeAlias = "int | str"


class LevelRadius(NamedTuple):
    """The radius for one confidence level."""

    confidence_level: float
    radius: float
    bracket: tuple[float, float]  # the bin the radius lies in, from the kept clients' counts alone
    rank: int  # which smallest score; with weights between 0 and 1, the mass it must reach, rounded up


class _Counts:
    """The field `counts`: an array, or what makes it when somebody asks."""

    def __set__(self, owner: Calibration, value: IntArray | Callable[[], IntArray]) -> None:
        vars(owner)["counts"] = value

    def __get__(self, owner: Calibration | None, kind: type | None = None) -> IntArray:
        if owner is None:  # so that the field has no default
            raise AttributeError("counts")
        value: IntArray | Callable[[], IntArray] = vars(owner)["counts"]
        if callable(value):
            value = vars(owner)["counts"] = value()
        return value


@dataclass(frozen=True, eq=False)
class Calibration:
    """Radii with everything that led to them. Arrays follow `client_ids`, the clients whose scores were usable."""

    levels: tuple[LevelRadius, ...]
    verdict: Verdict
    client_ids: tuple[ClientId, ...]
    sizes: NDArray[np.int64]  # scores of each client
    weights: NDArray[np.float64]  # what each score of a client counts for: the verdict's weight, and the cap
    refused: Mapping[ClientId, str]  # clients whose scores could not be used, and why
    edges: NDArray[np.float64]  # ends of the bins
    counts: _Counts = _Counts()  # (K, H), scores in the bins
    correction: Correction = "n+1"
    cap: float | None = None  # how many times the median client's scores one may count for
    model: str = ""  # hash of the model the scores are of
    spec: str = ""  # hash of the agreement they were counted under
    version: int = 1  # a server's next one, when more summaries came

    @property
    def radius(self) -> float:
        """Return the radius for the first level."""
        return self.levels[0].radius

    @property
    def width(self) -> float:
        """Return the width of every interval of the first level, twice the radius."""
        return 2 * self.radius

    @property
    def confidence_level(self) -> float:
        """Return the first level."""
        return self.levels[0].confidence_level

    @property
    def bracket(self) -> tuple[float, float]:
        """Return the bin that the first level's radius lies in."""
        return self.levels[0].bracket

    @property
    def rank(self) -> int:
        """Return which smallest score the first level's radius is."""
        return self.levels[0].rank

    @property
    def num_scores(self) -> int:
        """Return how many scores the kept clients have."""
        return int(self.sizes[self.weights > 0].sum())

    @property
    def left_out(self) -> dict[ClientId, str]:
        """Return every client that does not count, with the reason: unusable scores, or the filter's verdict."""
        judged = zip(self.client_ids, self.verdict.kept, self.verdict.reasons, strict=True)
        return {**self.refused, **{name: reason for name, kept, reason in judged if not kept}}

    def with_version(self, version: int) -> Calibration:
        """Return the same result under another version."""
        return replace(self, version=version)

    def radius_at(self, confidence_level: Level) -> float:
        """Return the radius for one of the levels."""
        wanted = exact_level(confidence_level)
        for level in self.levels:
            if exact_level(level.confidence_level) == wanted:
                return level.radius
        known = ", ".join(f"{level.confidence_level:g}" for level in self.levels)
        raise SettingError(f"confidence_level={confidence_level} was not calibrated; there are {known}")


def level_from_counts(pool: Pool, edges: NDArray[np.float64], confidence_level: Level) -> LevelRadius:
    """Return the radius that pooled counts give: the upper end of the bin in which the rank is reached.

    No score of that bin is larger, so the radius is never smaller than the exact one. In an overflow bin it is
    infinite, as it is with too few scores. A closed last bin holds what was clipped too: there it is the grid's end.
    """
    target, level = pool.rank(confidence_level), float(exact_level(confidence_level))
    low, high = bracket_from_histogram(pool.counts, edges, target)
    return LevelRadius(level, high, (low, high), -(-target // pool.unit))


def capped(
    weights: NDArray[np.float64], sizes: NDArray[np.int64], cap: float | None, owner: str
) -> NDArray[np.float64]:
    """Return the weights when nobody counts for more than `cap` times the median client's scores."""
    if cap is None:
        return weights
    if isinstance(cap, bool) or not (isinstance(cap, int | float) and cap >= 1):
        raise SettingError(f"{owner}: cap={cap!r}; must be at least 1 (the median client counts in full), or None")
    if len(sizes) == 1:  # the median client itself
        return weights
    return np.asarray(weights * np.minimum(1, cap * np.median(sizes) / sizes))
