from __future__ import annotations

from bisect import bisect_right

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from prism_fcp.calibrate import Span, characterize, histogram
from prism_fcp.errors import DataError, SettingError


def test_golden() -> None:
    # edges 0, .5, 1, 1.5, 2: 0 and .49 in the first, .5 opens the second, 2 and all above close the last
    assert histogram([np.array([0.0, 0.49, 0.5, 2.0, 9.0])], Span(2.0), 4).tolist() == [[2, 1, 0, 2]]
    # the overflow bin takes what lies above 2, and not 2 itself
    assert histogram([np.array([0.0, 0.49, 0.5, 2.0, 9.0])], Span(2.0, True), 4).tolist() == [[2, 1, 0, 1, 1]]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_zero_is_in_the_first_bin_and_one_in_the_last(dtype: type) -> None:
    # Rob-FCP's published histogram puts 0 in bin -1, the last: all-zero and all-one clients look alike.
    counts = histogram(np.array([[0, 0], [1, 1]], dtype=dtype), Span(1.0), 100)
    assert counts[0, 0] == 2 and counts[1, 99] == 2
    shares = characterize(counts)
    assert np.linalg.norm(shares[0] - shares[1]) == pytest.approx(np.sqrt(2))  # as far apart as the simplex allows


def test_a_score_on_an_edge_opens_its_bin() -> None:
    # 0.29·100 is 28.999999999999996 in floating point; the bin of 0.29 is 29 all the same
    for h in range(100):
        assert histogram([np.array([h / 100])], Span(1.0), 100)[0, h] == 1


@settings(max_examples=300, deadline=None)
@given(
    data=st.data(),
    bins=st.integers(2, 200),
    upper=st.floats(1e-6, 1e6),
    overflow=st.booleans(),
    dtype=st.sampled_from([np.float32, np.float64]),
)
def test_equals_the_definition_on_and_beside_edges(
    data: st.DataObject, bins: int, upper: float, overflow: bool, dtype: type
) -> None:
    edges = Span(upper, overflow).edges(bins)
    picks = data.draw(st.lists(st.integers(0, bins), min_size=1, max_size=30))
    base = edges[picks].astype(dtype)
    scores = np.concatenate([base, np.nextafter(base, dtype(np.inf)), np.maximum(np.nextafter(base, dtype(-1)), 0)])
    want = np.zeros(bins + overflow, dtype=int)
    for score in scores.astype(float).tolist():
        last = bins if overflow and score > upper else bins - 1
        want[min(bisect_right(edges.tolist(), score) - 1, last) if score < upper else last] += 1
    got = histogram([scores], Span(upper, overflow), bins)[0]
    np.testing.assert_array_equal(got, want)


@settings(deadline=None)
@given(
    hnp.arrays(np.float64, st.tuples(st.integers(1, 6), st.integers(1, 40)), elements=st.floats(0, 1e12)),
    st.integers(2, 64),
    st.booleans(),
)
def test_counts_add_up_and_shapes_agree(scores: np.ndarray, bins: int, overflow: bool) -> None:
    counts = histogram(scores, Span(3.0, overflow), bins)
    assert counts.dtype == np.int64
    np.testing.assert_array_equal(counts.sum(axis=1), scores.shape[1])
    np.testing.assert_array_equal(histogram(list(scores), Span(3.0, overflow), bins), counts)


def test_ragged_across_blocks() -> None:
    rng = np.random.default_rng(0)
    ragged = [rng.exponential(size=int(n)) for n in rng.integers(0, 4000, size=60)]
    counts = histogram(ragged, Span(2.0), 10)
    for own, row in zip(ragged, counts, strict=True):
        want = np.histogram(np.minimum(own, 2.0), bins=Span(2.0).edges(10))[0]  # NumPy closes the last bin too
        np.testing.assert_array_equal(row, want)


def test_shares() -> None:
    np.testing.assert_array_equal(characterize(np.array([[1, 3], [5, 5]])), [[0.25, 0.75], [0.5, 0.5]])
    shares = characterize(np.array([[0.25, 0.75]]))
    np.testing.assert_array_equal(characterize(shares), shares)


def test_errors_name_the_client() -> None:
    with pytest.raises(DataError, match="client 'b' has no scores"):
        characterize(np.array([[1, 2], [0, 0]]), ["a", "b"])
    with pytest.raises(DataError, match="client 1 has negative, NaN or infinite counts"):
        characterize(np.array([[1.0, 2.0], [np.nan, 0.0]]))
    with pytest.raises(DataError, match="client 0 has negative"):
        characterize(np.array([[3, -1], [1, 1]]))
    with pytest.raises(DataError, match="must be"):
        characterize(np.ones(3))
    for bad in (np.nan, np.inf, -1.0):
        with pytest.raises(DataError, match="1 of client 1's 2 scores are negative, NaN or infinite"):
            histogram([np.ones(2), np.array([1.0, bad])], Span(1.0), 10)
    with pytest.raises(SettingError, match="bins=1; must be at least 2"):
        histogram([np.ones(2)], Span(1.0), 1)
