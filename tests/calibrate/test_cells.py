from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.calibrate.log_grid import BINS, EDGES, counted, federation

from prism_fcp.calibrate.cells import FEW, Cells, cells, coarsen, evidence_of_more, typical_cdf
from prism_fcp.errors import SettingError


def test_runs_hold_equal_mass_of_the_typical_client() -> None:
    counts = counted(federation(1, 30, 2000, 0.2))
    drawn = cells(counts, counts.sum(axis=1), 20)
    assert drawn.starts[0] == 0 and len(drawn.starts) == 20
    masses = np.diff(np.append(typical_cdf(counts, counts.sum(axis=1)), 1.0)[drawn.starts[1:] - 1], prepend=0, append=1)
    assert masses == pytest.approx(np.full(20, 0.05), abs=0.01)
    assert drawn.spikes.tolist() == [0, BINS - 1]


def test_typical_cdf_by_hand() -> None:
    # CDFs: .5 1 1, .2 .6 1, .1 .4 1, .9 1 1; medians of four are the mean of the middle two: .35, .8, 1
    counts = np.array([[5, 5, 0], [2, 4, 4], [1, 3, 6], [9, 1, 0]])
    assert typical_cdf(counts, counts.sum(axis=1)) == pytest.approx([0.35, 0.8, 1.0])


def test_a_constant_gets_a_cell_of_its_own() -> None:
    rows = federation(2, 9, 200)
    rows[4] = np.full(200, 7.7)
    counts = counted(rows)
    drawn = cells(counts, counts.sum(axis=1))
    where = int(np.searchsorted(EDGES, 7.7, side="right") - 1)
    assert drawn.spikes.tolist() == [0, where, BINS - 1]
    coarse = coarsen(counts, drawn)
    alone = np.flatnonzero(coarse[4])
    assert alone.size == 1 and coarse[:, alone[0]].tolist() == [0, 0, 0, 0, 200, 0, 0, 0, 0]


def test_the_small_grid_of_the_paper_stays_as_it_is() -> None:
    counts = np.random.default_rng(0).multinomial(50, np.full(100, 0.01), size=12)
    drawn = cells(counts, counts.sum(axis=1))
    assert drawn.starts.tolist() == list(range(100)) and drawn.spikes.size == 0
    np.testing.assert_array_equal(coarsen(counts, drawn), counts)
    assert len(cells(np.ones((3, FEW), dtype=int), np.full(3, FEW)).starts) == FEW


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), clients=st.integers(1, 9), bins=st.integers(2, 700), kind=st.booleans())
def test_no_score_is_lost_and_order_does_not_matter(seed: int, clients: int, bins: int, kind: bool) -> None:
    rng = np.random.default_rng(seed)
    counts = rng.poisson(0.05 if kind else 3.0, size=(clients, bins))
    counts[:, 0] += 1
    counts[0, rng.integers(bins)] += 500
    counts = counts.astype(rng.choice([np.uint16, np.int32, np.uint64, np.int64]))
    sizes = counts.sum(axis=1).astype(np.int64)
    drawn = cells(counts, sizes)
    coarse = coarsen(counts, drawn)
    assert (coarse >= 0).all() and coarse.dtype == np.int64
    np.testing.assert_array_equal(coarse.sum(axis=1), sizes)
    order = rng.permutation(clients)
    again = cells(counts[order], sizes[order])
    np.testing.assert_array_equal(again.starts, drawn.starts)
    np.testing.assert_array_equal(again.spikes, drawn.spikes)
    np.testing.assert_array_equal(coarsen(counts[order], again), coarse[order])


def test_spikes_stand_beside_the_run_they_were_taken_from() -> None:
    counts = np.array([[1, 2, 4, 8, 16, 32]])
    drawn = Cells(np.array([0, 3]), np.array([0, 4, 5]))
    assert coarsen(counts, drawn).tolist() == [[1, 6, 8, 16, 32]]


def test_liars_short_of_half_move_the_typical_client_within_the_honest_ones_only() -> None:
    counts = counted(federation(3, 51, 300, 0.3) + [np.zeros(300)] * 49)
    sizes = counts.sum(axis=1)
    typical = typical_cdf(counts, sizes)
    honest = np.cumsum(counts[:51], axis=1) / 300
    assert (typical <= honest.max(axis=0) + 1e-12).all() and (typical >= honest.min(axis=0) - 1e-12).all()


def test_evidence_by_hand_and_its_limits() -> None:
    # 4 of 50 against 0 of 200: together .016; 50(.08 ln 5 + .92 ln(.92/.984)) + 200(-ln .984) = 6.570
    got = evidence_of_more(np.array([0.08]), np.array([50]), 0.0, 200.0)
    assert got == pytest.approx([6.570], abs=2e-3)
    assert evidence_of_more(np.array([0.02, 1.0, 0.0]), np.array([50, 9, 9]), 0.02, 99.0)[[0, 2]].tolist() == [0, 0]
    # five scores of the others cannot accuse, however many scores a client has
    assert evidence_of_more(np.array([0.1]), np.array([10**9]), 0.0, 5.0)[0] < 1


@pytest.mark.parametrize("number", [1, 0, True, 2.5])
def test_settings_errors(number: object) -> None:
    with pytest.raises(SettingError, match="cells: number="):
        cells(np.ones((2, 300), dtype=int), np.full(2, 300), number)  # type: ignore[arg-type]
