from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import cdist

from prism_fcp.calibrate import characterize
from prism_fcp.calibrate.distance import farthest_scores, median_distances, median_rows


def brute(shares: np.ndarray, count: int) -> np.ndarray:
    distances = cdist(shares, shares)
    return np.array([sorted(np.delete(row, k))[::-1][:count] for k, row in enumerate(distances)]).sum(axis=1)


def test_golden() -> None:
    # Points 0, 1, 3, 7 on a line. Two farthest of 0: 7 + 3; of 1: 6 + 2; of 3: 4 + 3; of 7: 7 + 6.
    line = np.array([[0.0], [1.0], [3.0], [7.0]])
    np.testing.assert_allclose(farthest_scores(line, 2), [10, 8, 7, 13], rtol=1e-14)
    np.testing.assert_allclose(farthest_scores(line, 3), [11, 9, 9, 17], rtol=1e-14)
    np.testing.assert_array_equal(farthest_scores(line, 0), np.zeros(4))


@settings(max_examples=60, deadline=None)
@given(st.integers(3, 40), st.integers(2, 30), st.integers(0, 2**32 - 1), st.integers(1, 7), st.data())
def test_blocks_equal_brute_force(clients: int, bins: int, seed: int, block: int, data: st.DataObject) -> None:
    shares = np.random.default_rng(seed).dirichlet(np.full(bins, 0.3), size=clients)
    count = data.draw(st.integers(1, clients - 1))
    np.testing.assert_allclose(farthest_scores(shares, count, block), brute(shares, count), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(farthest_scores(shares, count), brute(shares, count), rtol=1e-9, atol=1e-9)


def test_equal_clients_are_at_distance_zero_exactly() -> None:
    # A Gram product leaves squares of 1e-17 and distances of 1e-8 here, and rounding would pick who stays.
    p, q = np.random.default_rng(0).dirichlet(np.ones(101), size=2)
    np.testing.assert_array_equal(farthest_scores(np.tile(p, (50, 1)), 39), np.zeros(50))
    shares = np.concatenate([np.tile(p, (13, 1)), np.tile(q, (17, 1))])
    # 25 farthest: p sees 17 q's and 8 at zero, q sees 13 p's and 12 at zero
    want = np.repeat([17, 13], [13, 17]) * np.linalg.norm(p - q)
    np.testing.assert_allclose(farthest_scores(shares, 25), want, rtol=1e-13)


def test_close_clients_keep_their_precision() -> None:
    # Differences of 1e-7 on top of a common vector of length 1: squares of 1e-14 need the centring.
    rng = np.random.default_rng(1)
    shares = np.eye(1, 100) + 1e-7 * rng.standard_normal((60, 100))
    np.testing.assert_allclose(farthest_scores(shares, 47), brute(shares, 47), rtol=1e-9)


def test_memory_does_not_grow_with_the_square() -> None:
    shares = characterize(np.random.default_rng(2).integers(0, 30, size=(4000, 20)))
    tracemalloc.start()
    farthest_scores(shares, 3199)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 12e6  # the full matrix would be 128 MB


@pytest.mark.parametrize("clients", [1, 2, 5, 6])
def test_median(clients: int) -> None:
    shares = np.random.default_rng(3).dirichlet(np.ones(7), size=clients)
    np.testing.assert_array_equal(median_rows(shares), np.median(shares, axis=0))
    # (3, 4) away from the median row 0
    assert median_distances(np.array([[0.0, 0.0], [0.0, 0.0], [3.0, 4.0]])).tolist() == [0, 0, 5]
