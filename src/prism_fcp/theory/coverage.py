"""The paper's coverage bounds after filtering, as printed, and whether they say anything."""

from __future__ import annotations

from math import sqrt
from statistics import NormalDist
from typing import NamedTuple

from prism_fcp.errors import SettingError, need_number
from prism_fcp.theory.detection import Detection, misfiltering


class PaperBounds(NamedTuple):
    """The corollary's two terms, and the bounds they leave on the coverage."""

    delta_lower: float
    delta_upper: float
    least: float  # 1 - alpha - delta_lower, not cut to [0, 1]
    most: float  # 1 - alpha + delta_upper

    @property
    def vacuous(self) -> bool:
        """Return whether every coverage from 0 to 1 lies within the bounds."""
        return self.least <= 0 and self.most >= 1

    @property
    def sentence(self) -> str:
        """Return the bounds in words."""
        numbers = f"coverage between {self.least:.3g} and {self.most:.3g}"
        if self.vacuous:
            return f"vacuous: the paper's corollary promises {numbers}, which every coverage fulfils"
        side = " (the upper bound says nothing)" if self.most >= 1 else " (the lower one says nothing)"
        return f"the paper's corollary promises {numbers}{side if self.most >= 1 or self.least <= 0 else ''}"


def paper_bounds(
    num_clients: int,
    num_byzantine: int,
    samples_per_client: float,
    bins: int,
    confidence_level: float = 0.9,
    *,
    filter_failure: float = 0.0,
    failure_probability: float = 0.05,
) -> PaperBounds:
    """Return the corollary's bounds on coverage after filtering; they hold but for `failure_probability` (its beta).

    `filter_failure` (its epsilon) is the probability that an attacker passes the filter; 0 is the most favourable. At
    the paper's own sizes the bounds are vacuous; `calibrate.certificate` has ones that are not.

    Paper: cor:coverage-bounds
    """
    for what, value in (("num_clients", num_clients), ("num_byzantine", num_byzantine), ("bins", bins)):
        need_number(f"paper_bounds: {what}", value, integer=True)
    honest = num_clients - num_byzantine
    if num_byzantine < 0 or 2 * num_byzantine >= num_clients:
        raise SettingError(
            f"paper_bounds: num_byzantine={num_byzantine} of {num_clients} clients; must be fewer than half, as the "
            "bounds divide by what the honest clients are more"
        )
    if not samples_per_client > 0 or bins < 1:
        raise SettingError(f"paper_bounds: samples_per_client={samples_per_client}, bins={bins}; must be positive")
    if not (0 <= filter_failure < 1 and 0 < failure_probability < 1):
        raise SettingError(
            f"paper_bounds: filter_failure={filter_failure}, failure_probability={failure_probability}; both must lie "
            "below 1, the first at 0 or above, the second above 0"
        )
    if not 0 < confidence_level < 1:
        raise SettingError(f"paper_bounds: confidence_level={confidence_level}; must lie strictly between 0 and 1")
    ratio = num_byzantine / honest  # tau
    normal = -NormalDist().inv_cdf(failure_probability / (2 * bins * honest))
    term = bins * normal / (2 * sqrt(samples_per_client)) * (1 + ratio) / (1 - ratio)
    lower = (filter_failure * samples_per_client + 1) / (samples_per_client + honest) + term
    upper = filter_failure + honest / (samples_per_client + honest) + term
    return PaperBounds(lower, upper, confidence_level - lower, confidence_level + upper)


def prism_bounds(
    num_clients: int,
    num_byzantine: int,
    samples_per_client: float,
    bins: int,
    detection: Detection,
    confidence_level: float = 0.9,
    *,
    detection_failure: float = 0.05,
    failure_probability: float = 0.05,
) -> PaperBounds:
    """Return the coverage bounds with the filter's failure that the detection theorem leaves: all or nothing.

    Where its condition does not hold, nothing is known of the filter, and the bounds are vacuous. So less training
    error tightens them in one step, when the condition begins to hold, and not before or after.

    Paper: cor:prism-bounds.
    """
    failure = min(misfiltering(detection, detection_failure), 1 - 1e-12)
    return paper_bounds(
        num_clients, num_byzantine, samples_per_client, bins, confidence_level,
        filter_failure=failure, failure_probability=failure_probability,
    )  # fmt: skip
