"""Sums that clients add up give the statistics of the whole table, even far from zero."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prism_fcp.data.standardise import Moments, Scaler
from prism_fcp.errors import DataError

ROWS = np.random.default_rng(1).lognormal(size=(300, 4)) * [1, 1e3, 1e-3, 1] + [0, 1e6, 0, -5]


@given(st.lists(st.integers(1, 299), max_size=5))
def test_federated_equals_central_however_rows_are_dealt(cuts: list[int]) -> None:
    parts = np.split(ROWS, sorted(cuts))
    told = Scaler.federated(Moments.of(part, ROWS[0]) for part in parts)
    np.testing.assert_allclose(told.mean, ROWS.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(told.sd, ROWS.std(axis=0), rtol=1e-9)


def test_applied_columns_have_mean_zero_and_variance_one() -> None:
    done = Scaler.of(ROWS).apply(ROWS)
    np.testing.assert_allclose(done.mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(done.std(axis=0), 1, rtol=1e-9)


def test_without_a_centre_sums_of_squares_cancel_and_with_one_they_do_not() -> None:
    far = ROWS[:, :1] + 1e9
    assert abs(Scaler.federated([Moments.of(far, far[0])]).sd[0] / far.std() - 1) < 1e-6
    told = Moments.of(far)
    without = np.sqrt(max(0.0, told.squares[0] / told.count - (told.sums[0] / told.count) ** 2))
    assert abs(without / far.std() - 1) > 0.1


def test_refusals() -> None:
    with pytest.raises(DataError, match="no client told its sums"):
        Scaler.federated([])
    with pytest.raises(DataError, match="column 1 is constant over all clients; leave it out"):
        Scaler.of(np.column_stack([np.arange(5.0), np.ones(5)]))
    with pytest.raises(DataError, match="different centres"):
        Moments.of(ROWS, 0.0) + Moments.of(ROWS, 1.0)
