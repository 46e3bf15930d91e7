"""Laws of aggregation: every rule in the registry keeps them."""

from __future__ import annotations

import copy

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prism_fcp.train.aggregate import RULES
from prism_fcp.train.aggregate.lift import LARGEST
from prism_fcp.types import Choice, Uploads

from .cases import RULE_ROWS, rows_of

every_rule = pytest.mark.parametrize("row", RULE_ROWS, ids=lambda r: r.label)
seeds = st.integers(0, 2**32 - 1)
sizes = st.integers(7, 14)
BAD = (np.nan, np.inf, -np.inf, 1.01 * LARGEST, -3e38)


def play(choice: Choice, ids, rows, sent, previous):
    """Return (model, info) of one round, and check that `step` leaves its arguments alone."""
    rule = choice.build(RULES, "rule")
    rule.check(len(ids))
    uploads = Uploads.from_dense(ids, rows, sent, previous)
    before = [np.copy(a) for a in (uploads.values, uploads.previous)]
    state = rule.init(len(previous))
    _, model, info = rule.step(state, uploads, np.random.default_rng(0))
    assert (before[0] == uploads.values).all() or np.isnan(before[0]).any()
    assert (before[1] == uploads.previous).all()
    return model, info


def test_every_rule_of_the_registry_has_a_row():
    assert {row.choice.name for row in RULE_ROWS} == set(RULES)


@every_rule
@given(seed=seeds, n=sizes)
def test_a_step_leaves_its_state_alone(row, seed, n):
    """The same state and uploads twice: the same model and state again, also after rounds that others were in."""
    rule = row.choice.build(RULES, "rule")
    state = rule.init(9)
    for number in range(5):
        ids, rows, sent, previous = rows_of(seed + number, n)
        uploads, kept = Uploads.from_dense(ids + number, rows, sent, previous), copy.deepcopy(state)
        after, model, _ = rule.step(state, uploads, np.random.default_rng(number))
        for start in (state, kept):
            again, same, _ = rule.step(start, uploads, np.random.default_rng(number))
            np.testing.assert_array_equal(same, model)
            assert repr(again) == repr(after)
        assert repr(state) == repr(kept)
        state = after


@every_rule
@given(seed=seeds, n=sizes)
def test_the_order_of_the_uploads_does_not_matter(row, seed, n):
    ids, rows, sent, previous = rows_of(seed, n)
    model, info = play(row.choice, ids, rows, sent, previous)
    turn = np.random.default_rng(seed + 1).permutation(n)
    turned, turned_info = play(row.choice, ids[turn], rows[turn], sent[turn], previous)
    np.testing.assert_allclose(turned, model, rtol=0, atol=1e-12)
    assert set(turned_info.selected) == set(info.selected)


@every_rule
@given(seed=seeds, n=sizes, shift=st.floats(-100, 100))
def test_moving_everything_moves_the_model(row, seed, n, shift):
    ids, rows, sent, previous = rows_of(seed, n)
    offset = shift * np.random.default_rng(seed + 1).standard_normal(len(previous))
    model, info = play(row.choice, ids, rows, sent, previous)
    moved, moved_info = play(row.choice, ids, rows + offset, sent, previous + offset)
    np.testing.assert_allclose(moved, model + offset, rtol=0, atol=1e-9)
    assert moved_info.selected == info.selected


@every_rule
@given(seed=seeds, n=sizes)
def test_turning_the_sign_turns_the_model(row, seed, n):
    ids, rows, sent, previous = rows_of(seed, n)
    model, _ = play(row.choice, ids, rows, sent, previous)
    turned, _ = play(row.choice, ids, -rows, sent, -previous)
    np.testing.assert_allclose(turned, -model, rtol=0, atol=1e-12)


@every_rule
@given(seed=seeds, n=sizes, bad=st.sampled_from(BAD), count=st.integers(1, 7))
def test_a_broken_upload_is_refused_by_name_and_counts_for_nothing(row, seed, n, bad, count):
    ids, rows, sent, previous = rows_of(seed, n)
    sent[:, 0] = True
    broken = np.zeros(n, dtype=bool)
    broken[np.random.default_rng(seed + 1).permutation(n)[:count]] = True
    rows[broken, 0] = bad
    model, info = play(row.choice, ids, rows, sent, previous)
    assert set(info.refused) == set(ids[broken].tolist())
    assert all(str(client) in reason for client, reason in info.refused.items())
    assert np.isfinite(model).all()
    if broken.all():
        assert (model == previous).all()
    elif n - count >= 7:  # enough are left for the rule's own settings
        without, _ = play(row.choice, ids[~broken], rows[~broken], sent[~broken], previous)
        np.testing.assert_array_equal(model, without)


@every_rule
@given(seed=seeds, n=sizes)
def test_a_broken_value_that_was_not_sent_is_nobodys_business(row, seed, n):
    ids, rows, sent, previous = rows_of(seed, n)
    model, _ = play(row.choice, ids, rows, sent, previous)
    rows[~sent] = np.nan
    same, info = play(row.choice, ids, rows, sent, previous)
    assert not info.refused
    np.testing.assert_array_equal(same, model)


@every_rule
@given(seed=seeds, n=sizes)
def test_a_coordinate_nobody_sent_keeps_its_value(row, seed, n):
    ids, rows, sent, previous = rows_of(seed, n)
    sent[:, [1, 4]] = False
    model, _ = play(row.choice, ids, rows, sent, previous)
    np.testing.assert_allclose(model[[1, 4]], previous[[1, 4]], rtol=1e-14, atol=0)


@every_rule
@given(seed=seeds, n=sizes, dtype=st.sampled_from([np.float32, np.float64]))
def test_everybody_agreeing_is_obeyed(row, seed, n, dtype):
    ids, rows, sent, previous = rows_of(seed, n, density=1.1)
    rows, previous = np.repeat(rows[:1], n, axis=0).astype(dtype), previous.astype(dtype)
    model, _ = play(row.choice, ids, rows, sent, previous)
    assert model.dtype == dtype
    np.testing.assert_allclose(model, rows[0], rtol=10 * np.finfo(dtype).eps)


@every_rule
@given(
    seed=seeds,
    n=sizes,
    size=st.sampled_from([1e-3, 1.0, 1e3, 1e29]),
    together=st.booleans(),
    dtype=st.sampled_from([np.float32, np.float64]),
)
def test_as_many_liars_as_a_rule_stands_cannot_leave_the_honest_range(row, seed, n, size, together, dtype):
    ids, rows, sent, previous = rows_of(seed, n, density=1.1)
    liars = row.stands(n)
    rng = np.random.default_rng(seed + 1)
    lies = size * (np.ones((liars, rows.shape[1])) if together else rng.standard_normal((liars, rows.shape[1])))
    if row.selects and size < 10:
        return  # a lie that close is not one Krum promises to see
    who = rng.permutation(n)[:liars]
    rows[who] = lies
    honest = np.delete(rows, who, axis=0).astype(dtype)
    model, info = play(row.choice, ids, rows.astype(dtype), sent, previous.astype(dtype))
    slack = 100 * np.finfo(dtype).eps
    assert not info.refused
    if row.pulls:
        honest = np.vstack([honest, previous.astype(dtype)])
    assert (model >= honest.min(axis=0) - slack).all() and (model <= honest.max(axis=0) + slack).all()
    assert not set(info.selected) & set(ids[who].tolist())


@every_rule
@given(seed=seeds, n=sizes, bad=st.sampled_from([*BAD, LARGEST]))
def test_masked_lies_of_no_more_than_the_trimmed_stay_in_range(row, seed, n, bad):
    if row.choice.name not in ("median", "trimmed_mean") or row.choice.options.get("trim") == 0:
        return  # the rules that promise it coordinate by coordinate
    ids, rows, sent, previous = rows_of(seed, n)
    liar = seed % n
    sent[:, :] |= sent.sum(axis=0) < 3  # three sharers or more: one lie among them is trimmed
    rows[liar] = bad
    model, _ = play(row.choice, ids, rows, sent, previous)
    others = np.arange(n) != liar
    low = np.where(sent & others[:, None], rows, np.inf).min(axis=0)
    high = np.where(sent & others[:, None], rows, -np.inf).max(axis=0)
    assert (model >= low - 1e-12).all() and (model <= high + 1e-12).all()


@every_rule
@given(seed=seeds, n=sizes)
def test_uploads_of_different_masks_never_mix_coordinates(row, seed, n):
    """Packed, all uploads are equally long; coordinate j's values lie near 100 j and must stay there."""
    ids, rows, _, previous = rows_of(seed, n)
    rng = np.random.default_rng(seed + 1)
    sent = rng.permuted(np.tile(np.arange(9) < 4, (n, 1)), axis=1)
    place = 100.0 * np.arange(9)
    model, _ = play(row.choice, ids, 0.1 * rows + place, sent, 0.1 * previous + place)
    assert (np.abs(model - place) < 1).all()


@every_rule
def test_nothing_that_is_admitted_overflows(row):
    """Two finite rows of 3e38 once made the mean infinite; now the largest that is let in cannot."""
    sent, previous = np.ones((9, 2), bool), np.zeros(2, np.float32)
    rows = np.where(np.arange(9)[:, None] < 8, LARGEST, -LARGEST).astype(np.float32).repeat(2, axis=1)
    model, info = play(row.choice, np.arange(9), rows, sent, previous)
    assert not info.refused and (np.abs(model) < 1.001 * LARGEST).all()
    model, info = play(row.choice, np.arange(9), np.full((9, 2), 3e38, np.float32), sent, previous)
    assert set(info.refused) == set(range(9)) and (model == previous).all()
    assert info.refused[3] == "client 3: 2 of 2 uploaded values are NaN, Inf or beyond 1e+30"


def test_a_rule_says_when_it_is_weakened():
    for choice, enough, reason in (
        (Choice("trimmed_mean", {"trim": 5}), 11, "trim=5 leaves no rows of"),
        (Choice("krum", {"suspects": 2}), 7, r"suspects=2 of"),
        (Choice("multi_krum", {"suspects": 0, "selected": 4}), 4, "multi_krum: "),
        (Choice("mean"), 1, "mean: no upload is left"),
    ):
        rule = choice.build(RULES, "rule")
        for n in range(enough + 2):
            ids, rows, sent, previous = rows_of(1, n)
            _, _, info = rule.step(None, Uploads.from_dense(ids, rows, sent, previous), None)
            assert (info.weakened is None) == (n >= enough), (choice, n)
            assert n >= enough or n == 0 or reason in info.weakened
        ids, rows, sent, previous = rows_of(1, enough, density=1.1)
        rows[0] = np.nan  # enough were sent, but too few are left
        _, _, info = rule.step(None, Uploads.from_dense(ids, rows, sent, previous), None)
        assert info.weakened is not None and len(info.refused) == 1


@pytest.mark.parametrize("name", ["krum", "multi_krum"])
def test_krum_is_exact_where_models_are_close(name):
    """The trap: at sigma=1e-4, n=40, f=8 a float32 Gram matrix keeps Byzantine clients, the exact scores keep none."""
    n, f, dimension, sigma = 40, 8, 1000, 1e-4
    rng = np.random.default_rng(0)
    rows = rng.standard_normal(dimension) + sigma * rng.standard_normal((n, dimension))
    liars = rng.permutation(n)[:f]
    rows[liars] += sigma * rng.standard_normal((f, dimension))
    rows = rows.astype(np.float32)

    gram = rows @ rows.T
    norms = np.diag(gram)
    approximate = norms[:, None] + norms[None, :] - 2 * gram
    trapped = np.sort(approximate, axis=1)[:, 1 : n - f - 1].sum(axis=1)
    assert set(np.argsort(trapped)[: n - f]) & set(liars), "the trap is not set"

    _, info = play(
        Choice(name, {"suspects": f}), np.arange(n), rows, np.ones_like(rows, bool), np.zeros(dimension, np.float32)
    )
    assert len(info.selected) == (1 if name == "krum" else n - f)
    assert not set(info.selected) & set(liars.tolist())


def test_rules_by_hand():
    """Six clients, three coordinates: of the first, 1, 2, 3, 4, 10 are sent, of the second 5, 7, of the third none."""
    previous = np.array([0.0, 1.0, 8.0])
    rows = np.array([[1, 5, 0], [2, 7, 0], [3, 0, 0], [4, 0, 0], [10, 0, 0], [0, 0, 0]], float)
    sent = np.array([[1, 1, 0], [1, 1, 0], [1, 0, 0], [1, 0, 0], [1, 0, 0], [0, 0, 0]], bool)
    expected = {
        "mean": [20 / 6, (5 + 7 + 4 * 1) / 6, 8],  # silence votes for the previous model
        "mean_of_sharers": [20 / 5, 12 / 2, 8],
        "median": [3, 6, 8],
        "trimmed_mean": [(2 + 3 + 4) / 3, 6, 8],  # two values of coordinate 1 cannot lose one at each end
    }
    for name, model in expected.items():
        choice = Choice(name, {"trim": 1} if name == "trimmed_mean" else {})
        found, _ = play(choice, np.arange(6), rows, sent, previous)
        np.testing.assert_allclose(found, model, rtol=1e-15)


def test_krum_by_hand():
    """Points 0, 1, 3, 7, 8 on a line, two nearest each: scores 10, 5, 13, 17, 26; the best two average 0.5."""
    rows = np.array([[8.0], [3.0], [0.0], [7.0], [1.0]])
    ids, sent, previous = np.array([50, 40, 30, 20, 10]), np.ones((5, 1), bool), np.zeros(1)
    model, info = play(Choice("krum", {"suspects": 1}), ids, rows, sent, previous)
    assert (model.tolist(), info.selected) == ([1.0], (10,))
    model, info = play(Choice("multi_krum", {"suspects": 1, "selected": 2}), ids, rows, sent, previous)
    assert (model.tolist(), info.selected) == ([0.5], (30, 10))
