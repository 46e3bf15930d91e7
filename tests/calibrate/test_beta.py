"""The beta tail against scipy where scipy is right, and against exact rational arithmetic where it is not."""

from __future__ import annotations

from fractions import Fraction
from math import comb, log

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special, stats

from prism_fcp.calibrate.beta import beta_cdf, beta_quantile, beta_quantile_log, clopper_pearson
from prism_fcp.errors import DataError, SettingError

SHAPES = (0.5, 1, 2, 7, 50, 900, 1e4, 1e6, 1e9)
PROBABILITIES = (1e-100, 1e-30, 1e-10, 1e-4, 0.025, 0.3, 0.5, 0.7, 0.975, 0.9999, 1 - 1e-12)


@pytest.mark.parametrize("a", SHAPES)
@pytest.mark.parametrize("b", SHAPES)
def test_equals_scipy(a: float, b: float) -> None:
    for p in PROBABILITIES:
        x = beta_quantile(p, a, b)
        assert x == pytest.approx(special.betaincinv(a, b, p), abs=1e-10)
        # At a = b = 1e9 one rounding of x, 1e-16, is 7e-12 standard deviations: the cdf cannot know more.
        assert beta_cdf(x, a, b) == pytest.approx(special.betainc(a, b, x), rel=1e-7, abs=1e-300)


def exact_log_tail(x: float, a: int, b: int) -> float:
    """Return log P(Bin(a+b-1, x) >= a) in rationals."""
    n, share = a + b - 1, Fraction(x)
    total = sum(comb(n, k) * share**k * (1 - share) ** (n - k) for k in range(a, n + 1))
    return log(total.numerator) - log(total.denominator)


@pytest.mark.parametrize(("a", "b"), [(50, 20), (90, 11), (1, 20), (200, 1)])
@pytest.mark.parametrize("log_p", [-690.0, -40.0, -0.7])
def test_equals_rational_arithmetic_far_in_the_tail(a: int, b: int, log_p: float) -> None:
    """At p = 1e-300 scipy 1.x is wrong in the third digit (a=900, b=20: .4344 for .4249), so it is no judge there."""
    assert exact_log_tail(beta_quantile_log(log_p, a, b), a, b) == pytest.approx(log_p, abs=1e-10)


def test_tails_below_the_smallest_float() -> None:
    # I_x(a, 1) = x^a, so the quantile is p^(1/a): exp(-5000/1000) = exp(-5).
    assert beta_quantile_log(-5000.0, 1000, 1) == pytest.approx(0.006737946999085467, rel=1e-12)
    # I_x(1, b) = 1 - (1-x)^b, about b·x for tiny x; below the smallest float it is 0, the safe side of a lower bound.
    assert beta_quantile_log(-600.0, 1, 1000) == pytest.approx(2.650396620740051e-264, rel=1e-9)
    assert beta_quantile_log(-5000.0, 1, 1000) == 0


@given(st.integers(0, 300), st.integers(1, 300), st.sampled_from([0.5, 0.9, 0.95, 0.999]))
def test_clopper_pearson_equals_scipy(successes: int, n: int, confidence: float) -> None:
    successes = min(successes, n)
    want = stats.binomtest(successes, n).proportion_ci(confidence, "exact")
    assert clopper_pearson(successes, n, confidence) == pytest.approx((want.low, want.high), abs=1e-12)


def test_clopper_pearson_ends() -> None:
    assert clopper_pearson(0, 0) == (0, 1)
    low, high = clopper_pearson(10, 10)
    assert (low, high) == (pytest.approx(0.025 ** (1 / 10)), 1)
    with pytest.raises(DataError, match="11 successes of 10"):
        clopper_pearson(11, 10)
    with pytest.raises(SettingError, match="confidence=1"):
        clopper_pearson(1, 10, 1)


def test_ends_and_errors() -> None:
    assert [beta_quantile(p, 3, 4) for p in (0, 1)] == [0, 1]
    assert [beta_cdf(x, 3, 4) for x in (0, 1)] == [0, 1]
    assert beta_quantile_log(float("-inf"), 3, 4) == 0
    for call in (lambda: beta_quantile(0.5, 0, 1), lambda: beta_cdf(0.5, 1, float("inf"))):
        with pytest.raises(SettingError, match="must be positive and finite"):
            call()
    with pytest.raises(SettingError, match="p=1.5"):
        beta_quantile(1.5, 1, 1)
    with pytest.raises(SettingError, match="x=-1"):
        beta_cdf(-1, 1, 1)
    with pytest.raises(SettingError, match="log_p=0.0"):
        beta_quantile_log(0.0, 1, 1)
