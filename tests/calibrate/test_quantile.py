from __future__ import annotations

import math
import random
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prism_fcp.calibrate import Span, TooFewScoresWarning, bracket_from_histogram, histogram, pooled_quantile, rank
from prism_fcp.calibrate.quantile import UNIT, exact_level, pool
from prism_fcp.errors import DataError, SettingError


def test_rank_golden() -> None:
    assert rank(9, 0.9) == 9  # ceil(10·9/10)
    assert rank(10, 0.9) == 10  # ceil(9.9)
    assert rank(8, 0.9) == 9  # ceil(8.1): more than there are
    assert rank(80_000, 0.9) == 72_001  # ceil(72000.9)
    assert rank(99, 0.07) == 7  # 100·.07 is 7.000000000000001 in floating point
    assert rank(2000, 0.9, "n+K", 100) == 1890  # ceil(2100·.9), where n+1 gives ceil(1800.9) = 1801
    assert rank(2000, 0.9, "n+1", 100) == 1801


def test_rank_is_exact_where_floats_are_not() -> None:
    """10,000 (n, level) pairs against the definition in integers: the least r with r·denominator >= (n+1)·numerator."""
    drawn, naive_rank, naive_level = random.Random(5), 0, 0
    for _ in range(10_000):
        digits = drawn.choice([1, 2, 3])
        numerator, denominator = drawn.randrange(1, 10**digits), 10**digits
        n = drawn.randrange(1, 5_000)
        level = float(f"{Decimal(numerator).scaleb(-digits):f}")
        got = rank(n, level)
        assert (got - 1) * denominator < (n + 1) * numerator <= got * denominator
        naive_rank += math.ceil((n + 1) * (1 - (1 - level))) != got  # as libraries that keep alpha do
        naive_level += math.ceil(n * (got / n)) != got  # a rank handed to np.quantile as the level rank/n
    assert naive_rank > 10 and naive_level > 10  # the trap is real


@pytest.mark.parametrize(
    "level", [0.9, "0.9", Decimal("0.9"), Fraction(9, 10), np.float64(0.9), np.float32(0.9), "9/10"]
)
def test_every_way_to_write_nine_tenths(level: object) -> None:
    assert exact_level(level) == Fraction(9, 10)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "level", [0.0, 1.0, -0.1, 90, float("nan"), float("inf"), "0.9.", "", None, Decimal("NaN"), True]
)
def test_levels_that_are_none(level: object) -> None:
    with pytest.raises(SettingError, match="confidence_level="):
        rank(10, level)  # type: ignore[arg-type]


def test_the_rank_does_not_depend_on_what_was_asked_before() -> None:
    assert exact_level(Fraction(0.9)) != exact_level(0.9)  # equal as numbers, and as keys of a cache
    assert exact_level(Decimal(0.9)) != exact_level(0.9) == Fraction(9, 10)


def test_rank_errors() -> None:
    with pytest.raises(SettingError, match="unknown correction 'n\\+k'; did you mean 'n\\+K'"):
        rank(10, 0.9, "n+k")  # type: ignore[arg-type]
    with pytest.raises(SettingError, match="num_clients=None"):
        rank(10, 0.9, "n+K")
    with pytest.raises(SettingError, match="n=-1"):
        rank(-1, 0.9)


levels = st.integers(1, 99).map(lambda percent: percent / 100)
clients = st.lists(st.lists(st.integers(0, 9).map(float), max_size=12).map(np.array), min_size=1, max_size=6)


@settings(max_examples=200, deadline=None)
@given(clients, levels, st.sampled_from(["n+1", "n+K"]))
def test_pooled_quantile_is_the_order_statistic(scores: list[np.ndarray], level: float, correction: str) -> None:
    pooled = sorted(value for own in scores for value in own.tolist())
    position = rank(len(pooled), level, correction, len(scores))  # type: ignore[arg-type]
    options = {"confidence_level": level, "correction": correction}
    if position > len(pooled):
        with pytest.warns(TooFewScoresWarning, match="collect more scores"):
            assert pooled_quantile(scores, **options) == math.inf  # type: ignore[arg-type]
    else:
        assert pooled_quantile(scores, **options) == pooled[position - 1]  # type: ignore[arg-type]


@settings(max_examples=200, deadline=None)
@given(clients, levels, st.data())
@pytest.mark.filterwarnings("ignore::prism_fcp.calibrate.TooFewScoresWarning")
def test_weights_zero_and_one_are_leaving_out(scores: list[np.ndarray], level: float, data: st.DataObject) -> None:
    keep = data.draw(st.lists(st.booleans(), min_size=len(scores), max_size=len(scores)))
    kept = [own for own, k in zip(scores, keep, strict=True) if k] or [np.empty(0)]
    weighted = pool(scores, [float(k) for k in keep], level)
    assert weighted.radius == pooled_quantile(kept, confidence_level=level)
    assert weighted.unit == 1 and weighted.target == rank(sum(map(len, kept)), level)


@settings(max_examples=200, deadline=None)
@given(clients, levels, st.data(), st.sampled_from(["n+1", "n+K"]), st.booleans())
@pytest.mark.filterwarnings("ignore::prism_fcp.calibrate.TooFewScoresWarning")
def test_weighted_equals_its_definition_in_fractions(
    scores: list[np.ndarray], level: float, data: st.DataObject, correction: str, halves: bool
) -> None:
    numerators = data.draw(st.lists(st.integers(0, 8), min_size=len(scores), max_size=len(scores)))
    exact = [Fraction(w, 8) for w in numerators]
    extra = 1 if correction == "n+1" else max(sum(exact), 1)
    needed = (sum((w * len(s) for w, s in zip(exact, scores, strict=True)), Fraction(0)) + extra) * exact_level(level)
    want = math.inf
    for candidate in sorted({v for s in scores for v in s.tolist()}, reverse=True):
        if sum(w * int((s <= candidate).sum()) for w, s in zip(exact, scores, strict=True)) >= needed:
            want = candidate
    got = pool(scores, [float(w) for w in exact], level, correction)  # type: ignore[arg-type]
    assert got.radius == want


def test_equal_weights_below_one_shrink_the_sample() -> None:
    # Weight 1/2 on all: sum w·count >= (n/2 + 1)·level, so the least count is ceil((n + 2)·level): 101 -> 93, not 92.
    scores = np.random.default_rng(0).exponential(size=(1, 101))
    ordered = np.sort(scores[0])
    assert pooled_quantile(scores, confidence_level=0.9) == ordered[math.ceil(102 * 0.9) - 1] == ordered[91]
    assert pooled_quantile(scores, [0.5], confidence_level=0.9) == ordered[92]


def test_rectangular_and_ragged_agree_and_the_input_is_left_alone() -> None:
    scores = np.random.default_rng(1).exponential(size=(7, 30)).astype(np.float32)
    before = scores.copy()
    for weights in (None, [1, 0, 1, 1, 0, 1, 1], [0.3, 1, 1, 0, 0.5, 1, 1]):
        assert pooled_quantile(scores, weights) == pooled_quantile(list(scores), weights)
    np.testing.assert_array_equal(scores, before)
    one = np.random.default_rng(2).exponential(size=50)
    kept = one.copy()
    pooled_quantile([one])
    np.testing.assert_array_equal(one, kept)


def test_tiny_weights_still_count_and_large_samples_do_not_overflow() -> None:
    assert pool([np.arange(100.0), np.arange(100.0)], [1.0, 1e-30]).mass == 100 * UNIT + 100


def test_weight_errors() -> None:
    with pytest.raises(DataError, match="2 weights for 1 clients"):
        pooled_quantile([np.ones(3)], [1.0, 1.0])
    for bad in (-0.1, 1.1, np.nan):
        with pytest.raises(DataError, match=r"each must lie in \[0, 1\]"):
            pooled_quantile([np.ones(3)], [bad])


def test_nobody_left_is_an_infinite_radius() -> None:
    for correction in ("n+1", "n+K"):
        with pytest.warns(TooFewScoresWarning, match="0 scores"):
            assert pooled_quantile([np.ones(3)], [0.0], correction=correction) == math.inf


def test_nan_is_not_a_radius() -> None:
    scores = [np.array([1.0] * 15 + [math.nan] * 5)]
    assert pooled_quantile(scores, confidence_level=0.5) == 1.0
    for weights in (None, [0.5]):
        with pytest.raises(DataError, match="scores that are NaN"):
            pooled_quantile(scores, weights, confidence_level=0.8)


def test_bracket_golden() -> None:
    edges = np.array([0.0, 1.0, 2.0, np.inf])
    assert bracket_from_histogram(np.array([5, 3, 2]), edges, 5) == (0, 1)
    assert bracket_from_histogram(np.array([[2, 2, 1], [3, 1, 1]]), edges, 8) == (1, 2)
    assert bracket_from_histogram(np.array([5, 3, 2]), edges, 9) == (2, math.inf)
    assert bracket_from_histogram(np.array([5, 3, 2]), edges, 11) == (math.inf, math.inf)
    with pytest.raises(DataError, match="4 edges for 2 bins"):
        bracket_from_histogram(np.array([1, 2]), edges, 1)
    with pytest.raises(SettingError, match="rank=0"):
        bracket_from_histogram(np.array([1, 2, 3]), edges, 0)


@settings(deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(2, 50), levels, st.sampled_from([np.float32, np.float64]))
def test_the_bracket_holds_the_quantile(seed: int, bins: int, level: float, dtype: type) -> None:
    scores = (np.random.default_rng(seed).integers(0, 30, size=(4, 120)) / 29).astype(dtype)
    span = Span(1.0)
    low, high = bracket_from_histogram(histogram(scores, span, bins), span.edges(bins), rank(480, level))
    radius = pooled_quantile(scores, confidence_level=level)
    assert low <= radius < high or radius == high == 1.0


def test_n_plus_k_costs_what_peers_measured() -> None:
    """PEERS.md: at 100 clients x 20 scores, n+K covers 94.5 % where 90 % is asked for, with half-normals 16 % wider.

    Uniform scores: coverage is the radius, whose mean is rank/(n+1): 1890/2001 = 94.45 %, against 1801/2001 = 90.0 %.
    """
    rng = np.random.default_rng(0)
    radii = [[pooled_quantile(rng.uniform(size=(100, 20)), correction=c) for _ in range(200)] for c in ("n+1", "n+K")]
    # sd of one radius: sqrt(.9·.1/2000) = .0067, of a mean .00047; 5 of those: false alarms below 1e-6
    assert np.mean(radii[0]) == pytest.approx(1801 / 2001, abs=0.0024)
    assert np.mean(radii[1]) == pytest.approx(1890 / 2001, abs=0.0024)


def test_the_level_is_not_rounded_to_percents() -> None:
    """Both published federated codes do that: 90.5 % of 999 scores would become the 900th or the 910th."""
    assert [rank(999, level) for level in (0.9, 0.905, 0.91)] == [900, 905, 910]
