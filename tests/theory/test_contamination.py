from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prism_fcp.errors import SettingError
from prism_fcp.theory.contamination import coverage_bounds


def test_golden() -> None:
    assert coverage_bounds(0.2, 0.9) == (0.875, 1.0)  # .7/.8; .9/.8 > 1
    assert coverage_bounds(0.0, 0.9) == (0.9, 0.9)
    assert coverage_bounds(0.1, 0.9) == (8 / 9, 1.0)  # .8/.9; .9/.9
    assert coverage_bounds(0.05, 0.9) == (17 / 19, 18 / 19)  # .85/.95 and .9/.95
    assert coverage_bounds(0.95, 0.9) == (0.0, 1.0)


@given(st.floats(0, 0.99), st.floats(0, 0.99), st.floats(0.01, 0.99))
def test_more_contamination_widens_the_bounds(one: float, other: float, level: float) -> None:
    less, more = sorted((one, other))
    inner, outer = coverage_bounds(less, level), coverage_bounds(more, level)
    assert 0 <= outer[0] <= inner[0] <= level <= inner[1] <= outer[1] <= 1


@pytest.mark.parametrize(
    ("fraction", "level", "message"),
    [
        (1.0, 0.9, r"contaminated_fraction=1.0; must lie in \[0, 1\)"),
        (-0.1, 0.9, "contaminated_fraction=-0.1"),
        (float("nan"), 0.9, "contaminated_fraction=nan"),
        (0.1, 1.0, "confidence_level=1.0; must lie strictly between 0 and 1"),
    ],
)
def test_errors(fraction: float, level: float, message: str) -> None:
    with pytest.raises(SettingError, match=message):
        coverage_bounds(fraction, level)
