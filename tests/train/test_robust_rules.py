"""Geometric median, centred clipping, nearest mixing and bucketing: what each promises, by hand and by law."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prism_fcp.errors import SettingError
from prism_fcp.lab.typed import choice
from prism_fcp.train.aggregate import (
    RULES,
    bucketing,
    centred_clipping,
    clipped_median,
    geometric_median,
    nearest_mixing,
    table,
)
from prism_fcp.types import Choice, Uploads

seeds = st.integers(0, 2**32 - 1)


def play(rule, rows, sent=None, previous=None, state=None, ids=None, seed=0):
    """Return (state, model, info) of one round."""
    rows = np.asarray(rows, float)
    sent = np.ones(rows.shape, bool) if sent is None else np.asarray(sent, bool)
    previous = np.zeros(rows.shape[1]) if previous is None else np.asarray(previous, float)
    ids = np.arange(len(rows)) if ids is None else np.asarray(ids)
    state = rule.init(rows.shape[1]) if state is None else state
    return rule.step(state, Uploads.from_dense(ids, rows, sent, previous), np.random.default_rng(seed))


def spread_sum(point, rows, sent):
    return np.sqrt((np.where(sent, rows - point, 0) ** 2).sum(axis=1)).sum()


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([[0, 0], [4, 0], [2, 12**0.5]], [2, 12**0.5 / 3]),  # an equilateral triangle: its centre
        ([[0, 0], [6, 6], [6, 0], [0, 6]], [3, 3]),  # a square: where the diagonals meet
        ([[0, 0], [5, 5], [9, 2], [1, 7]], [61 / 13, 61 / 13]),  # likewise: (9, 2) + 7/13 (-8, 5) is on y = x
        ([[1.0], [2.0], [50.0]], [2.0]),  # on a line: the median
    ],
)
def test_the_geometric_median_by_hand(rows, expected):
    _, model, _ = play(geometric_median(steps=1000), rows)
    np.testing.assert_allclose(model, expected, atol=1e-5)


@given(seed=seeds, n=st.integers(3, 12), density=st.sampled_from([0.5, 0.8, 1.1]))
def test_no_point_has_a_smaller_sum_of_masked_distances(seed, n, density):
    rng = np.random.default_rng(seed)
    rows, sent = rng.standard_normal((n, 6)), rng.random((n, 6)) < density
    _, model, _ = play(geometric_median(steps=300), rows, sent)
    found = spread_sum(model, rows, sent)
    for size in (1e-2, 1e-1, 1.0):
        for other in model + size * rng.standard_normal((20, 6)):
            assert found <= spread_sum(other, rows, sent) * (1 + 1e-6)


def test_those_who_agree_on_other_coordinates_do_not_end_the_search():
    """Five of nine agree on the first two coordinates; the other four send the last two: a square's corner pulled out.

    Of (0, 0), (5, 5), (9, 2), (1, 7) the geometric median is (61/13, 61/13), see above; each coordinate's is (3, 3.5).
    """
    rows, sent = np.zeros((9, 4)), np.zeros((9, 4), bool)
    rows[5:, 2:] = [[0, 0], [5, 5], [9, 2], [1, 7]]
    sent[:5, :2] = sent[5:, 2:] = True
    _, model, _ = play(geometric_median(steps=1000), rows, sent)
    np.testing.assert_allclose(model, [0, 0, 61 / 13, 61 / 13], atol=1e-4)


@given(seed=seeds, n=st.integers(5, 15), far=st.sampled_from([1.0, 1e3, 1e12]))
def test_just_under_half_cannot_carry_the_geometric_median_away(seed, n, far):
    """Any point z: |model - z| <= 2(1 - b)/(1 - 2b) max |honest - z|, b the liars' share (Minsker 2015, lemma 2.1)."""
    rng = np.random.default_rng(seed)
    rows, liars = rng.standard_normal((n, 5)), (n - 1) // 2
    rows[:liars] = far * rng.standard_normal(5)
    centre, share = rows[liars:].mean(axis=0), liars / n
    reach = np.sqrt(((rows[liars:] - centre) ** 2).sum(axis=1)).max()
    _, model, _ = play(geometric_median(), rows)
    assert np.sqrt(((model - centre) ** 2).sum()) <= 2 * (1 - share) / (1 - 2 * share) * reach


@given(seed=seeds, scale=st.sampled_from([1e-6, 0.1, 1e5]), name=st.sampled_from(["geometric_median", *"cnb"]))
def test_what_is_measured_in_other_units_comes_out_in_them(seed, scale, name):
    rule = {
        "geometric_median": geometric_median(),
        "c": centred_clipping(steps=2),
        "n": nearest_mixing(),
        "b": bucketing(Choice("trimmed_mean", {"trim": 1})),
    }[name]
    rng = np.random.default_rng(seed)
    rows, sent, previous = rng.standard_normal((9, 4)), rng.random((9, 4)) < 0.7, rng.standard_normal(4)
    _, model, _ = play(rule, rows, sent, previous)
    _, scaled, _ = play(rule, scale * rows, sent, scale * previous)
    np.testing.assert_allclose(scaled, scale * model, rtol=1e-9, atol=1e-9 * scale)


@given(seed=seeds, name=st.sampled_from(["geometric_median", "centred_clipping"]))
def test_whole_uploads_may_be_turned(seed, name):
    """Both go by distances alone: rotate everything, and the model is rotated; of the median its end, not its start."""
    rng = np.random.default_rng(seed)
    rows, turn = rng.standard_normal((9, 3)), np.linalg.qr(rng.standard_normal((3, 3)))[0]
    rule = geometric_median(steps=1000) if name == "geometric_median" else centred_clipping(steps=3)
    _, model, _ = play(rule, rows)
    _, turned, _ = play(rule, rows @ turn)
    np.testing.assert_allclose(turned, model @ turn, atol=1e-4 if name == "geometric_median" else 1e-9)


@given(seed=seeds, far=st.sampled_from([10.0, 1e6, 1e29]), liars=st.integers(1, 4))
def test_a_liar_moves_a_clipped_centre_by_its_share_of_the_usual_length(seed, far, liars):
    """Nine uploads, the centre at 0: liars move it by at most liars/9 of the median length, honest ones likewise."""
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((9, 5))
    rows[:liars] = far
    usual = np.median(np.sqrt((rows**2).sum(axis=1)))
    _, model, _ = play(centred_clipping(), rows)
    clipped = rows[liars:] * np.minimum(1, usual / np.sqrt((rows[liars:] ** 2).sum(axis=1)))[:, None]
    assert np.sqrt(((model - clipped.sum(axis=0) / 9) ** 2).sum()) <= liars / 9 * usual * (1 + 1e-9)


def test_centred_clipping_remembers_by_hand():
    """Round 1: changes 1, 1, 4 on a line, usual 1: the centre moves to 1. Round 2 starts at 1 + 1/2.

    From there 3, 3, 9 lie 1.5, 1.5, 7.5 away; the usual length went up by 5 % to 1.05, so each counts 1.05.
    The second coordinate is sent in round 1 only: its momentum of 2 waits, and its value stays.
    """
    rule = centred_clipping(momentum=0.5)
    sent = [[1, 1], [1, 0], [1, 0]]
    state, model, _ = play(rule, [[1, 0], [1, 0], [4, 0]], sent)
    np.testing.assert_allclose(model, [1, 0])
    np.testing.assert_allclose(state.momentum, [1, 0])
    state = state._replace(momentum=np.array([1.0, 2.0]))
    state, model, _ = play(rule, [[3, 7], [3, 7], [9, 7]], [[1, 0]] * 3, model, state)
    np.testing.assert_allclose(model, [1.5 + 1.05, 0])
    np.testing.assert_allclose(state.momentum, [1.55, 2.0])
    assert state.usual == pytest.approx(1.05)


@pytest.mark.parametrize(
    "rule", [clipped_median(), centred_clipping(), table(vote="round", clip=2.0)], ids=lambda rule: rule.name
)
def test_a_first_round_in_which_nothing_changes_does_not_hold_the_model_for_good(rule):
    """All five send the model they have, then move on by 1 each round: the model goes with them."""
    state, model, _ = play(rule, np.zeros((5, 3)))
    for _ in range(20):
        state, model, _ = play(rule, np.tile(model + 1, (5, 1)), previous=model, state=state)
    assert (model >= 19).all()


def test_nearest_mixing_by_hand():
    """0, 1, 2, 10 on a line, one suspect: the three nearest of each are 0 1 2, 0 1 2, 0 1 2 and 1 2 10."""
    rows = [[0.0], [1.0], [2.0], [10.0]]
    _, model, _ = play(nearest_mixing("mean", suspects=1), rows)
    np.testing.assert_allclose(model, (1 + 1 + 1 + 13 / 3) / 4)
    _, model, _ = play(nearest_mixing(suspects=1), rows)
    np.testing.assert_allclose(model, 1.0)
    _, model, _ = play(nearest_mixing("mean", suspects=0), rows)  # everybody's n nearest are everybody
    np.testing.assert_allclose(model, 13 / 4)


@given(seed=seeds)
def test_mixing_makes_honest_uploads_alike(seed):
    """The variance of mixed rows about their mean is no larger: Allouah et al. 2023, lemma 5 without liars."""
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((10, 6))
    seen = {}

    def spy():
        from prism_fcp.train.aggregate import stateless

        def look(mixed, sent, previous):
            seen["rows"] = mixed
            return mixed.mean(axis=0), None

        return stateless("spy", look)

    RULES["spy"] = spy
    try:
        play(nearest_mixing("spy", suspects=3), rows)
    finally:
        del RULES["spy"]
    assert seen["rows"].var(axis=0).sum() <= rows.var(axis=0).sum()


@given(seed=seeds, n=st.integers(1, 9))
def test_buckets_of_one_are_the_rule_and_one_bucket_is_the_mean(seed, n):
    rng = np.random.default_rng(seed)
    rows, sent = rng.standard_normal((n, 4)), rng.random((n, 4)) < 0.7
    for size, like in ((1, "median"), (n, "mean_of_sharers"), (100, "mean_of_sharers")):
        _, model, _ = play(bucketing(size=size), rows, sent)
        _, wanted, _ = play(RULES[like](), rows, sent)
        np.testing.assert_allclose(model, wanted, atol=1e-12)


def test_buckets_are_dealt_anew_each_round_and_their_clients_are_selected_together():
    rows = np.array([[0.0], [0.1], [0.2], [9.0], [0.3], [0.4], [0.5], [0.6], [0.7], [0.8]])
    ids = 100 + np.arange(10)
    chosen = set()
    for seed in range(20):
        _, model, info = play(bucketing(Choice("krum", {"suspects": 1}), size=2), rows, ids=ids, seed=seed)
        pair = [int(i) for i in info.selected]
        assert len(pair) == 2 and 103 not in pair
        np.testing.assert_allclose(model, rows[np.isin(ids, pair)].mean())
        chosen.add(tuple(sorted(pair)))
    assert len(chosen) > 3


def test_mixing_before_the_table_keeps_its_clients_apart_and_bucketing_is_refused():
    rule = nearest_mixing(Choice("table", {"first_look": 1, "every": 1}), suspects=2)
    rng, state = np.random.default_rng(1), None
    for _ in range(5):
        state, _, info = play(rule, rng.standard_normal((8, 6)), ids=np.arange(8) + 3, state=state)
    assert rule.remembers and info.ledger.client_ids.tolist() == list(range(3, 11)) and info.ledger.looks == 5
    with pytest.raises(SettingError, match="bucketing: then='table' remembers clients"):
        bucketing("table")


def test_a_pre_step_says_when_it_or_what_follows_is_weakened():
    rows = np.zeros((4, 2))
    for rule, said in (
        (nearest_mixing(suspects=2), "nearest_mixing: suspects=2 of 4 uploads; need 2"),
        (nearest_mixing(Choice("trimmed_mean", {"trim": 2}), suspects=1), "trimmed_mean: trim=2 leaves no rows of 4"),
        (bucketing(Choice("trimmed_mean", {"trim": 1}), size=2), "trimmed_mean: trim=1 leaves no rows of 2"),
    ):
        assert play(rule, rows)[2].weakened.startswith(said)
        with pytest.raises(SettingError, match=said.split(";")[0]):
            rule.check(4)
    for rule in (nearest_mixing(), bucketing(), geometric_median(), centred_clipping()):
        _, model, info = play(rule, np.full((3, 2), np.nan), previous=[4, 5])
        assert "no upload is left" in info.weakened and model.tolist() == [4, 5] and len(info.refused) == 3


def test_an_experiment_names_the_rule_that_follows():
    told = {"name": "nearest_mixing", "suspects": 1, "then": {"name": "table", "power": 2}}
    made = choice(told, RULES, "rule", "here: rule")
    assert made.options["then"].options["power"] == 2.0 and made.options["then"].options["every"] == 20
    assert choice({"name": "bucketing"}, RULES, "rule", "here").options == {"then": "median", "size": 2}
    with pytest.raises(SettingError, match="here: rule 'nearest_mixing': then 'trimmed_mean': trim = 'two' is text"):
        choice({"name": "nearest_mixing", "then": {"name": "trimmed_mean", "trim": "two"}}, RULES, "rule", "here: rule")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: geometric_median(steps=0), r"geometric_median: steps=0; must lie in 1..1000"),
        (lambda: geometric_median(smoothing=0.0), r"geometric_median: smoothing=0.0; must lie in \(0, 1\]"),
        (lambda: centred_clipping(factor=0.0), "centred_clipping: factor=0.0; must be positive"),
        (lambda: centred_clipping(momentum=1.0), r"centred_clipping: momentum=1.0; must lie in \[0, 1\)"),
        (lambda: centred_clipping(steps=101), "centred_clipping: steps=101; must lie in 1..100"),
        (lambda: nearest_mixing(suspects=-1), "nearest_mixing: suspects=-1; must be 0 or more"),
        (lambda: nearest_mixing("medain"), "unknown rule 'medain'; did you mean 'median'"),
        (lambda: nearest_mixing("trimmed_mean"), "rule 'trimmed_mean' needs trim"),
        (lambda: bucketing(size=0), "bucketing: size=0; must be 1 or more"),
        (lambda: bucketing(size=1.5), "bucketing: size=1.5; must be an integer"),
    ],
)
def test_settings_out_of_range_are_refused(make, message):
    with pytest.raises(SettingError, match=message):
        make()
