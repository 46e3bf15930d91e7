from __future__ import annotations

from fractions import Fraction
from math import ceil, inf

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.calibrate.logbins import EDGES, count

from prism_fcp.calibrate.guard import guard, guarded_rank, own_radii
from prism_fcp.calibrate.quantile import UNIT, bracket_from_histogram, rank
from prism_fcp.errors import DataError, SettingError

levels = st.sampled_from([0.5, 0.8, 0.9, 0.905, 0.95, 0.999])
fractions = st.sampled_from([0.0, 0.01, 0.05, 0.2, 1 / 3, 0.9])


@given(st.integers(0, 400), st.sampled_from([1, 7]), levels, fractions)
def test_enough_for_every_smaller_lie_and_no_more_than_needed(
    mass: int, unit: int, level: float, fraction: float
) -> None:
    found = guarded_rank(mass, unit, level, fraction)
    exact, b = Fraction(str(level)), Fraction(str(fraction))
    needed = [lies + ceil((mass - lies + unit) * exact) for lies in range(mass + 1) if lies <= b * mass]
    assert found == max(needed)


@given(st.integers(0, 10**6), levels)
def test_no_lies_is_the_plain_rank(mass: int, level: float) -> None:
    assert guarded_rank(mass, 1, level, 0) == rank(mass, level)


def test_golden_and_exact() -> None:
    # 1,000 scores, a fifth lies: the honest 800 need ceil(801·.9) = 721, and 200 lies may lie below.
    assert guarded_rank(1000, 1, 0.9, 0.2) == 921
    assert guarded_rank(1000, 1, 0.9, "0.29") == 290 + ceil(711 * 0.9)  # .29·1000 is 290, not the float's 289.99
    assert guarded_rank(1000 * UNIT, UNIT, 0.9, 0.2) == 200 * UNIT + -(-801 * UNIT * 9 // 10)
    assert guarded_rank(50, 1, 0.9, 0.9) == 45 + 6  # beyond the 50 there are: no radius is large enough


def test_guard_on_counts() -> None:
    counts, edges = np.array([[50, 40, 5, 5], [60, 30, 7, 3]]), np.array([0.0, 1.0, 2.0, 4.0, inf])
    plain = guard(counts, np.ones(2), edges, 0.9, 0)  # rank ceil(201·.9) = 181 of 110, 180, 192, 200
    assert (plain.rank, plain.radius, plain.plain_radius, plain.price) == (181, 4.0, 4.0, 1.0)
    half = guard(counts, np.ones(2), edges, 0.85, 0.05)  # rank 171 -> 10 + ceil(191·.85) = 173: both in [1, 2)
    assert (half.rank, half.radius, half.price) == (173, 2.0, 1.0)
    more = guard(counts, np.ones(2), edges, 0.85, 0.5)  # 100 + ceil(101·.85) = 186
    assert (more.rank, more.radius, more.plain_radius, more.price) == (186, 4.0, 2.0, 2.0)
    assert more.level == pytest.approx(186 / 201)
    assert guard(counts, np.ones(2), edges, 0.9, 0.95).radius == inf
    nobody = guard(counts, np.zeros(2), edges, 0.9, 0.1)
    assert nobody.radius == inf and nobody.price == 1.0
    with pytest.raises(SettingError, match=r"guard: fraction=1; must lie in \[0, 1\)"):
        guarded_rank(10, 1, 0.9, 1)
    with pytest.raises(SettingError, match="fraction='half'"):
        guarded_rank(10, 1, 0.9, "half")
    with pytest.raises(SettingError, match="mass=-1"):
        guarded_rank(-1, 1, 0.9, 0)


@pytest.mark.statistical
@pytest.mark.parametrize("hostile", [0, 1, 4])
def test_the_promise_holds_against_liars_at_zero(hostile: int) -> None:
    """20 clients of 50 uniform scores, `hostile` of them all zero: coverage of the honest is the radius.

    Mean over 600 draws at least .9, less 5 standard errors of sqrt(.09/800)/sqrt(600) = .00043. False alarms 3e-7.
    Without the guard it would be .9 - b·.1/(1-b): .895 and .875, far below.
    """
    rng = np.random.default_rng(hostile)
    b = hostile / 20
    edges = np.append(np.arange(0, 1001) / 1000, inf)
    radii = []
    for _ in range(600):
        cells = rng.integers(0, 1000, size=(20, 50))
        cells[20 - hostile :] = 0
        counts = np.bincount((cells + 1001 * np.arange(20)[:, None]).reshape(-1), minlength=20 * 1001).reshape(20, -1)
        radii.append(guard(counts, np.ones(20), edges, 0.9, b).radius)
    # A radius is the upper edge of its bin, which adds .0005 on average.
    assert 0.9 - 0.0022 < np.mean(radii) - 0.0005 < 0.9 + 0.004


@given(st.lists(st.lists(st.floats(0, 100), max_size=60), min_size=1, max_size=6), levels)
def test_own_radii_are_each_clients_bracket(scores: list[list[float]], level: float) -> None:
    counts = count([np.array(own, dtype=np.float64) for own in scores])
    want = [bracket_from_histogram(row, EDGES, rank(int(row.sum()), level))[1] for row in counts]
    np.testing.assert_array_equal(own_radii(counts, EDGES, level), want)


def test_own_radii_golden() -> None:
    edges = np.array([0.0, 1.0, 2.0, inf])
    counts = np.array([[9, 0, 0], [8, 0, 0], [8, 1, 0], [0, 8, 2], [0, 0, 0]], dtype=np.uint32)
    np.testing.assert_array_equal(own_radii(counts, edges, 0.9), [1.0, inf, 2.0, inf, inf])
    assert own_radii(counts[:0], edges, 0.9).shape == (0,)
    # A level with a long fraction must not overflow: (n+1) times its numerator passes 2^63.
    assert own_radii(np.array([[10**6, 0, 0]]), edges, 0.1234567890123456789)[0] == 1.0
    with pytest.raises(DataError, match="4 edges"):
        own_radii(np.ones((2, 2), dtype=int), edges, 0.9)
