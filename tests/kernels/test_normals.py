"""The compiled normals: equal to their NumPy line, and normal by every test a simulation would notice.

The statistical tests run on fixed keys, so they pass or fail for good; each states how often a perfect generator would
fail it on fresh keys.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from prism_fcp import streams

pytest.importorskip("numba")
from prism_fcp.kernels.normals import normals, normals_numpy  # noqa: E402

ONE_KEY = 20_000_000


@pytest.fixture(scope="module")
def long_stream() -> np.ndarray:
    return normals(np.uint64(streams.key(1)), ONE_KEY // 2)


@pytest.fixture(scope="module")
def many_keys() -> np.ndarray:
    """First 50 normals of 200,000 keys: as the training kernel uses them, many short streams."""
    table = np.empty((200_000, 64), np.float32)
    for i, key in enumerate(streams.keys(streams.key(2), np.arange(len(table)))):
        table[i] = normals(key, 32)
    return table


@pytest.mark.parametrize("half", [1, 5, 16, 17, 1000])
def test_equal_to_the_numpy_line(half):
    for seed in range(50):
        found, expected = normals(np.uint64(streams.key(seed)), half), normals_numpy(streams.key(seed), half)
        assert found.dtype == np.float32 and len(found) == 2 * half
        np.testing.assert_allclose(found, expected, rtol=2e-6, atol=3e-5)  # a radius near 0 is coarse in float32
        assert np.mean(np.abs(found - expected)) < 2e-7


def test_a_key_gives_the_same_normals_at_any_length():
    short, long = (normals(np.uint64(7), half) for half in (10, 1000))
    np.testing.assert_allclose(short[:10], long[:10], atol=1e-6)  # cosines first, then sines
    np.testing.assert_allclose(short[10:], long[1000:1010], atol=1e-6)


@pytest.mark.statistical
@pytest.mark.parametrize("source", ["long_stream", "many_keys"])
def test_distribution(source, request):
    """Kolmogorov-Smirnov at level 1e-6."""
    sample = request.getfixturevalue(source).ravel()[:5_000_000].astype(float)
    assert stats.kstest(sample, "norm").pvalue > 1e-6


@pytest.mark.statistical
@pytest.mark.parametrize("source", ["long_stream", "many_keys"])
def test_moments(source, request):
    """Moments 1 to 4 against the normal's, each within 5 sd: false alarm 4 * 6e-7."""
    sample = request.getfixturevalue(source).ravel().astype(float)
    for power, moment, variance in ((1, 0, 1), (2, 1, 2), (3, 0, 15), (4, 3, 96)):
        assert abs(np.mean(sample**power) - moment) < 5 * math.sqrt(variance / len(sample))


@pytest.mark.statistical
def test_tails(long_stream):
    """Counts beyond 1, 2, 3, 4, 5 on either side against Poisson's law: level 1e-7 each, 1e-6 together."""
    for edge in (1, 2, 3, 4, 5):
        for count in ((long_stream > edge).sum(), (long_stream < -edge).sum()):
            expected = ONE_KEY * stats.norm.sf(edge)
            assert 1e-7 < stats.poisson.cdf(count, expected) and 1e-7 < stats.poisson.sf(count - 1, expected)
    assert np.abs(long_stream).max() > 5


@pytest.mark.statistical
def test_no_memory(long_stream):
    """Autocorrelation of values and of squares at 40 lags, the half-length between pair mates included: |z| < 5.5.

    False alarm below 80 * 4e-8 = 3e-6.
    """
    sample = long_stream.astype(float)
    for series, spread in ((sample, 1.0), ((sample**2 - 1), 2.0)):
        for lag in [*range(1, 33), 50, 64, 100, 128, 512, 1024, 5100, ONE_KEY // 2]:
            product = np.mean(series[:-lag] * series[lag:]) / spread
            assert abs(product) * math.sqrt(len(series) - lag) < 5.5, lag


@pytest.mark.statistical
def test_streams_of_neighbouring_keys_are_independent(many_keys):
    """Correlations of 64 positions, and with those of the next key: |z| < 6, false alarm 6e3 * 2e-9 = 1e-5."""
    sample = many_keys.astype(float)
    for left, right in ((sample, sample), (sample[:-1], sample[1:])):
        z = left.T @ right / math.sqrt(len(left))
        if left is right:
            np.fill_diagonal(z, 0)
        assert np.abs(z).max() < 6


@pytest.mark.statistical
def test_a_pair_is_round(long_stream):
    """The direction of a Box-Muller pair is uniform over 64 sectors: chi-square at level 1e-6."""
    across, up = long_stream[: ONE_KEY // 2], long_stream[ONE_KEY // 2 :]
    sector = np.floor((np.arctan2(up, across) + np.pi) / (2 * np.pi) * 64).astype(int) % 64
    assert stats.chisquare(np.bincount(sector, minlength=64)).pvalue > 1e-6
