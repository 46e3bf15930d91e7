"""What an unfiltered fraction of hostile calibration scores can do to coverage."""

from __future__ import annotations

from fractions import Fraction

from prism_fcp.errors import SettingError


def coverage_bounds(contaminated_fraction: float, confidence_level: float) -> tuple[float, float]:
    """Return the least and the most coverage when a fraction b of the pooled calibration mass is hostile.

    The quantile at level c leaves 1 - c of the pooled mass above it. If all hostile scores lie below, the honest ones,
    1 - b of the mass, hold c - b of theirs below: coverage (c - b)/(1 - b). If all lie above, it is c/(1 - b). Both
    are cut to [0, 1], and hold up to the finite-sample terms, for continuous scores of one honest mixture.

    >>> coverage_bounds(0.2, 0.9)
    (0.875, 1.0)

    Paper: cor:coverage-bounds (an exact counterpart; the corollary's own bounds are vacuous at the paper's sizes)
    """
    if not 0 <= contaminated_fraction < 1:
        raise SettingError(
            f"coverage_bounds: contaminated_fraction={contaminated_fraction}; must lie in [0, 1): "
            "with nothing honest left there is no coverage to bound"
        )
    if not 0 < confidence_level < 1:
        raise SettingError(f"coverage_bounds: confidence_level={confidence_level}; must lie strictly between 0 and 1")
    hostile, level = Fraction(str(contaminated_fraction)), Fraction(str(confidence_level))
    return max(float((level - hostile) / (1 - hostile)), 0.0), min(float(level / (1 - hostile)), 1.0)
