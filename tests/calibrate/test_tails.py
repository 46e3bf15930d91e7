"""The confidence limits against the exact distribution of sums of unlike, weighted Bernoullis."""

from __future__ import annotations

from math import exp, log

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prism_fcp.calibrate.beta import beta_quantile
from prism_fcp.calibrate.tails import Draws, band, effective_size, least_share, log_choices
from prism_fcp.errors import DataError


def chance_of_reaching(reached: int, chances: np.ndarray, masses: np.ndarray) -> float:
    """Return P(sum of masses·Bernoulli(chances) >= reached), by convolution."""
    law = np.zeros(int(masses.sum()) + 1)
    law[0] = 1
    for chance, mass in zip(chances, masses, strict=True):
        moved = law * chance
        law *= 1 - chance
        law[mass:] += moved[: len(law) - mass]
    return float(law[reached:].sum())


draws_of_clients = st.lists(st.tuples(st.integers(1, 12), st.integers(1, 4), st.floats(0, 1)), min_size=1, max_size=8)


@given(draws_of_clients, st.data(), st.sampled_from([0.3, 0.025, 1e-4]), st.booleans())
def test_no_mixture_below_the_limit_reaches_the_mass_more_often(
    clients: list[tuple[int, int, float]], data: st.DataObject, delta: float, equal: bool
) -> None:
    sizes, masses, chances = (np.array(column) for column in zip(*clients, strict=True))
    masses = np.full_like(masses, 2) if equal else masses
    total = int(sizes @ masses)
    reached = data.draw(st.integers(1, total))
    draws = Draws(total, int(masses.max()), int(masses**2 @ sizes), bool((masses == masses[0]).all()))
    limit = least_share(reached, draws, log(delta))
    assert 0 <= limit < 1
    # Any mixture whose share is the limit, or less: here the drawn one, scaled down to it.
    share = float(chances * sizes @ masses) / total
    scaled = chances * min(1.0, limit / share) if share > 0 else chances
    each = np.repeat(scaled, sizes)
    assert chance_of_reaching(reached, each, np.repeat(masses, sizes)) <= delta * (1 + 1e-9)


def test_equal_weights_are_clopper_pearson_whatever_the_unit() -> None:
    want = beta_quantile(0.025, 90, 11)
    for part in (1, 3, 2**32):
        assert least_share(90 * part, Draws(100 * part, part, 100 * part**2, True), log(0.025)) == want
    assert least_share(89 * 3 + 1, Draws(300, 3, 900, True), log(0.025)) == want  # 89 draws are too few: 90
    # One draw reached: P(N >= 1) <= n·p, so p = .025/100, below the binomial's 1 - .975^(1/100) = .000253.
    assert least_share(1, Draws(100, 1, 100, True), log(0.025)) == pytest.approx(0.025 / 100)
    assert least_share(0, Draws(100, 1, 100, True), log(0.025)) == 0


def test_unequal_weights_cost_little_at_high_shares() -> None:
    # 20,000 draws, half of them at weight .8: mass 18,000, effective size 18,000²/16,400 = 19,756.
    draws = Draws(18_000 * 5, 5, 10_000 * 25 + 10_000 * 16, False)
    lower = least_share(int(0.9 * draws.mass), draws, log(0.025))
    # Its normal counterpart is .9 - 1.96·sqrt(.09/19756) = .8958; Chernoff's factor 2.72/1.96 makes .8942.
    assert 0.893 < lower < 0.8958


@given(st.lists(st.tuples(st.integers(0, 1000), st.floats(0, 1)), min_size=1, max_size=10))
def test_effective_size_is_at_most_the_size(clients: list[tuple[int, float]]) -> None:
    sizes, weights = (np.array(column) for column in zip(*clients, strict=True))
    found = effective_size(sizes, weights)
    assert 0 <= found <= sizes.sum() * (1 + 1e-12)
    assert effective_size(sizes, np.full(len(sizes), 0.3)) == pytest.approx(sizes.sum())


def test_effective_size_golden_and_error() -> None:
    assert effective_size(np.array([100, 100]), np.array([1.0, 0.5])) == pytest.approx(150**2 / 125)
    assert effective_size(np.array([5]), np.array([0.0])) == 0
    with pytest.raises(DataError, match="1 weights for 2 clients"):
        effective_size(np.array([1, 2]), np.array([1.0]))


@pytest.mark.parametrize("clients", [1, 5, 30])
def test_all_sets_together_spend_no_more_than_delta(clients: int) -> None:
    ways = [1.0]
    for left_out in range(1, clients + 1):
        ways.append(ways[-1] * (clients - left_out + 1) / left_out)
    spent = sum(way * exp(-log_choices(clients, left_out)) for left_out, way in enumerate(ways))
    assert spent == pytest.approx(1 - 1 / (clients + 2))  # the sum of 1/((l+1)(l+2)) telescopes


@pytest.mark.statistical
def test_the_band_holds_at_every_point_at_once() -> None:
    """Unlike, weighted uniform draws on [0, 1], 4,000 times: outside in at most 10 %. False alarms below 1e-9.

    Were the true rate just 10 %, 4,000 draws would pass 526 with probability 1e-9; what is seen is below 1 %.
    """
    rng = np.random.default_rng(5)
    weights = np.repeat([1.0, 0.4], [60, 90])
    ends = np.repeat([1.0, 0.5], [60, 90])  # the second group lies on [0, 1/2]
    slack = band(float((weights**2).sum()), float(weights.sum()), log(0.1))
    drawn = rng.uniform(size=(4000, 150)) * ends
    order = np.argsort(drawn, axis=1)
    at = np.take_along_axis(drawn, order, axis=1)
    below = np.cumsum(weights[order], axis=1)
    mean = 60 * at + 36 * np.minimum(at / 0.5, 1)
    outside = (below - mean).max(axis=1) > slack
    assert outside.sum() <= 526
    assert band(0.0, 0.0, log(0.1)) == 0
