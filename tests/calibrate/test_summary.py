from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.calibrate.sites import MODEL, NOW, spec

from prism_fcp.calibrate.grid import LinearGrid, LogGrid
from prism_fcp.calibrate.summary import lowest_places, merge_small, summarize
from prism_fcp.errors import DataError

counts = st.lists(st.integers(0, 9), min_size=2, max_size=30).map(lambda found: np.array(found, dtype=np.int64))


def test_a_summary_says_what_was_counted_and_for_what() -> None:
    agreed = spec(grid=LogGrid(2, -1, 1))  # edges 0, .5, .75, 1, 1.5, 2, inf
    made = summarize(np.array([0.1, 0.6, 0.6, 5.0]), agreed, "Zürich", created=NOW)
    assert made.counts.tolist() == [1, 2, 0, 0, 0, 1] and made.size == 4
    assert (made.client, made.spec, made.model) == ("Zürich", agreed.hash, MODEL)
    assert made.created == "2026-11-19T12:00:00Z" and made.key == made.signature == ""


def test_blocks_count_as_one_array_does() -> None:
    scores = np.abs(np.random.default_rng(0).standard_normal(1000))
    whole = summarize(scores, spec(), "a", created=NOW)
    blocks = summarize((scores[start : start + 77] for start in range(0, 1000, 77)), spec(), "a", created=NOW)
    assert whole.counts.tolist() == blocks.counts.tolist()


@pytest.mark.parametrize(
    ("scores", "said"),
    [
        (np.array([]), "no scores"),
        (np.array([1.0, np.nan]), "the first at position 1"),
        (np.array([1.0, -1.0]), "negative"),
        (np.array([1j]), "dtype complex"),
        (np.array([[1.0]]), "2 dimensions"),
        (np.array(["1.0"]), "dtype <U3"),
        ([np.ones(5), np.array([np.inf])], "after the first 5"),
        (np.ones(11), "11 scores; the spec believes no client more than 10"),
    ],
)
def test_scores_that_are_none(scores: object, said: str) -> None:
    with pytest.raises(DataError, match=said):
        summarize(scores, spec(most_scores=10), "a")  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["", "a/b", "../a", ".a", "a\nb", "x" * 101, 5])
def test_a_name_that_is_none(name: str) -> None:
    with pytest.raises(DataError):
        summarize(np.ones(3), spec(), name)


def test_merging_by_hand() -> None:
    # from below: 1 + 1 = 2 < 3, and 2 more make 4 in bin 3; bin 5 holds 3 of its own; 1 at the top joins them there
    merged = merge_small(np.array([1, 0, 1, 2, 0, 3, 0, 1]), 3)
    assert merged.counts.tolist() == [0, 0, 0, 4, 0, 0, 0, 4]
    assert (merged.moved, merged.bins) == (2 + 3, 3)
    assert lowest_places(merged.counts).tolist() == [4, 0, 0, 0, 4, 0, 0, 0]
    assert merge_small(np.array([1, 0, 1, 0]), 3).counts.tolist() == [0, 0, 2, 0]  # fewer than three in all


@given(counts, st.integers(1, 12))
def test_merged_counts_lie_between_the_lowest_places_and_their_own(own: np.ndarray, least: int) -> None:
    merged = merge_small(own, least)
    assert merged.counts.sum() == own.sum()
    told = merged.counts[merged.counts > 0]
    assert (told >= least).all() or len(told) == 1
    assert (np.cumsum(merged.counts) <= np.cumsum(own)).all()  # nothing sinks: no quantile becomes smaller
    if own.any():
        assert (np.cumsum(lowest_places(merged.counts)) >= np.cumsum(own)).all()
    places = np.flatnonzero(own)
    if places.size:
        assert 0 <= merged.bins <= places[-1] - places[0] and 0 <= merged.moved <= own.sum()


def test_merging_is_what_the_spec_says() -> None:
    agreed = spec(grid=LinearGrid(10.0, 10), least_count=2)
    assert summarize(np.array([0.5, 1.5, 7.5, 7.6]), agreed, "a").counts.tolist() == [0, 2, 0, 0, 0, 0, 0, 2, 0, 0]
