"""The server table and its ledger: what they remember, whom they leave out, and what they must leave alone."""

from __future__ import annotations

import numpy as np
import pytest

from prism_fcp.errors import SettingError
from prism_fcp.train.aggregate import table
from prism_fcp.train.aggregate.table import weighted_median
from prism_fcp.types import Uploads

CLIENTS, DIMENSION = 40, 30


def play(rule, values, rounds=30, sent=None, seed=1):
    """Let every client upload `values(rng, n)` (K, D) each round; return the model and the last ledger."""
    rng, state, model = np.random.default_rng(seed), rule.init(DIMENSION), np.zeros(DIMENSION)
    info = None
    for n in range(1, rounds + 1):
        rows = values(rng, n)
        mask = np.ones(rows.shape, bool) if sent is None else sent(rng, n)
        state, model, info = rule.step(state, Uploads.from_dense(np.arange(len(rows)), rows, mask, model), rng)
    return model, info.ledger


def honest(rng, n):
    """Independent noise around 1 that does not average away: each client has an error of its own."""
    own = np.random.default_rng(7).standard_normal((CLIENTS, DIMENSION))
    return 1 + 0.1 * own + 0.01 * rng.standard_normal((CLIENTS, DIMENSION))


def lying(change):
    def values(rng, n):
        rows = honest(rng, n)
        rows[:8] = change(rows[:8], rng, n)
        return rows

    return values


def test_the_weighted_median_by_hand():
    """Weights 1, 1, 2 of 1, 2, 9: half of 4 is reached at 2 exactly, so (2 + 9)/2; with 3 it is 9; alone, itself."""
    values = np.array([[1.0, 1.0, 5.0, 4.0], [2.0, 2.0, 0.0, 0.0], [9.0, 9.0, 0.0, 0.0]])
    weights = np.array([[1.0, 1.0, 0.5, 0.0], [1.0, 1.0, 0.0, 0.0], [2.0, 3.0, 0.0, 0.0]])
    assert weighted_median(values, weights, np.full(4, -7.0)).tolist() == [5.5, 9.0, 5.0, -7.0]


def test_time_averages_weigh_by_a_power_of_the_round():
    """One client, uploads 1, 2, 3: power 1 gives (1 + 4 + 9)/6, power 0 the plain mean."""
    for power, expected in ((1.0, 14 / 6), (0.0, 2.0)):
        model, _ = play(table(power=power), lambda rng, n: np.full((1, DIMENSION), float(n)), rounds=3)
        np.testing.assert_allclose(model, expected, rtol=1e-12)


def test_old_news_counts_less():
    """Two clients; the second was heard in round 1 only, weight 1/9^3 by round 9: the first decides alone."""

    def sent(rng, n):
        return np.array([[True] * DIMENSION, [n == 1] * DIMENSION])

    model, _ = play(table(), lambda rng, n: np.array([[1.0], [5.0]]) * np.ones(DIMENSION), rounds=9, sent=sent)
    np.testing.assert_allclose(model, 1.0)


@pytest.mark.parametrize(
    "change",
    [
        lambda rows, rng, n: rows + 5,  # far off
        lambda rows, rng, n: 1 + 3 * rng.standard_normal(rows.shape),  # loud
        lambda rows, rng, n: np.full(rows.shape, 1 - 0.1),  # one spread below the middle in every coordinate: ALIE
        lambda rows, rng, n: rows + 0.3,  # honest errors and three of their spreads on top
    ],
)
@pytest.mark.parametrize("vote", ["table", "round"])
def test_liars_are_left_out_by_name_and_the_honest_are_not(change, vote):
    model, ledger = play(table(first_look=10, every=5, aligned=4.0, vote=vote), lying(change))
    assert set(ledger.client_ids[ledger.excluded]) == set(range(8))
    assert set(ledger.reasons()) == set(range(8)) and "left out at 5 of 5 looks" in ledger.reasons()[3]
    assert (ledger.first_excluded[:8] == 10).all() and ledger.looks == 5
    assert np.abs(model - 1).mean() < 0.05


@pytest.mark.parametrize("scale", [1.0, 1e-3, 1e4])
def test_nobody_honest_is_left_out_whatever_the_scale(scale):
    for seed in range(20):
        own = scale * np.random.default_rng(seed).standard_normal((CLIENTS, DIMENSION))
        spread = np.random.default_rng(seed + 100).uniform(0.5, 1.5, (CLIENTS, 1))
        rows = own * spread
        _, ledger = play(table(first_look=1, every=1, aligned=4.0), lambda rng, n, rows=rows: rows, rounds=2)
        assert not ledger.excluded.any(), seed


@pytest.mark.parametrize("late", [True, False])
def test_old_news_is_not_held_against_a_client(late):
    """Twelve of 40 were last heard of half of the coordinates in round 1, when everybody was at 0.

    With weights n^8 these entries are worth nothing in the median by round 30, and share a direction: towards 0.
    """

    def values(rng, n):
        return honest(rng, n) * (n > 1 or not late)

    def sent(rng, n):
        mask = np.ones((CLIENTS, DIMENSION), bool)
        mask[:12, ::2] = n == 1
        return mask

    _, ledger = play(table(power=8.0, first_look=30, every=1, aligned=4.0), values, sent=sent)
    assert ledger.looks == 1 and not ledger.excluded.any()
    assert np.isfinite(ledger.distance).all()  # the other half of their coordinates is judged


def test_trust_comes_back_when_the_uploads_do():
    def change(rows, rng, n):
        return rows + 5 if n < 10 else rows

    _, ledger = play(table(power=8.0, first_look=5, every=1), lying(change), rounds=120)
    assert not ledger.excluded.any()
    assert "back in" in ledger.reasons()[0] and (ledger.times_excluded[:8] > 0).all()


def test_with_no_cutoff_nobody_is_looked_at():
    _, ledger = play(table(cutoff=0.0, first_look=1, every=1), lying(lambda rows, rng, n: rows + 50))
    assert ledger.looks == 0 and not ledger.excluded.any() and not ledger.reasons()


def test_a_late_comer_gets_a_row_of_its_own():
    rule, rng = table(), np.random.default_rng(0)
    state, model = rule.init(2), np.zeros(2)
    for ids in ([9, 4], [2, 9], [7]):
        rows = np.array([[float(i), -float(i)] for i in ids])
        state, model, info = rule.step(state, Uploads.from_dense(ids, rows, np.ones(rows.shape, bool), model), rng)
    assert info.ledger.client_ids.tolist() == [2, 4, 7, 9]
    assert state.average[:, 0].tolist() == [2.0, 4.0, 7.0, 9.0]
    wide = info.ledger.spread(10)
    assert len(wide.excluded) == 10 and np.isnan(wide.distance[0])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"power": -1.0}, "table: power=-1.0; must lie in 0..16"),
        ({"cutoff": -2.0}, r"table: cutoff=-2.0; must be 0 \(off\) or more"),
        ({"every": 0}, "table: every=0; must be at least 1"),
        ({"vote": "tabel"}, "unknown vote 'tabel'; did you mean 'table'"),
        ({"aligned": float("nan")}, "aligned=nan; must be a finite number"),
    ],
)
def test_settings_out_of_range_are_refused(options, message):
    with pytest.raises(SettingError, match=message):
        table(**options)
