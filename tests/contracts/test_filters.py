"""Every filter, range and score attack is a row here; a member of a registry without one fails."""

import numpy as np
import pytest

from prism_fcp.calibrate import FILTERS, RANGES, SCORE_ATTACKS, FilterContext, ScoreAttackView, characterize, histogram
from prism_fcp.calibrate.score import SCORES
from prism_fcp.calibrate.span import Span

from .cases import FILTER_ROWS, RANGE_ROWS, SCORE_ATTACK_ROWS, SCORE_ROWS


def test_every_member_has_a_row():
    assert set(FILTER_ROWS) == set(FILTERS)
    assert set(RANGE_ROWS) == set(RANGES)
    assert set(SCORE_ATTACK_ROWS) == set(SCORE_ATTACKS)
    assert set(SCORE_ROWS) == set(SCORES)


@pytest.fixture
def counts():
    """20 clients of 200 scores; three of them hold other scores than the rest."""
    rng = np.random.default_rng(5)
    scores = np.abs(rng.standard_normal((20, 200)))
    scores[[2, 9, 17]] = rng.uniform(0, 4, (3, 200))
    return histogram(scores, Span(4.5), 30)


@pytest.mark.parametrize(("name", "options"), FILTER_ROWS.items())
def test_filters_know_clients_by_their_histogram_alone(name, options, counts):
    rule = FILTERS[name](**options)
    verdict = rule(counts)
    order = np.random.default_rng(1).permutation(20)
    shuffled = rule(counts[order])
    np.testing.assert_allclose(shuffled.weights, verdict.weights[order], atol=1e-12)
    np.testing.assert_allclose(shuffled.scores, verdict.scores[order], atol=1e-12)
    flipped = rule(counts[:, ::-1])  # the name of a bin means nothing to a distance
    np.testing.assert_allclose(flipped.weights, verdict.weights, atol=1e-12)
    assert ((verdict.weights >= 0) & (verdict.weights <= 1)).all() and np.isfinite(verdict.scores).all()
    assert len(verdict.reasons) == 20 and all(verdict.reasons)
    if name not in ("keep_all", "cautious"):  # to the cautious one these three may be honest, but it ranks them first
        assert (verdict.weights[[2, 9, 17]] < 1).all()
    assert set(np.argsort(verdict.scores)[-3:]) == {2, 9, 17}


@pytest.mark.parametrize(("name", "options"), FILTER_ROWS.items())
def test_evidence_goes_by_the_client_it_names(name, options, counts):
    rule, names = FILTERS[name](**options), tuple(f"site {k}" for k in range(20))
    evidence = dict(zip(names[:15], np.random.default_rng(3).standard_normal(15), strict=True)) | {"site 5": np.inf}
    verdict = rule(counts, context=FilterContext(names, evidence=evidence))
    order = np.random.default_rng(1).permutation(20)
    shuffled = rule(counts[order], context=FilterContext(tuple(names[k] for k in order), evidence=evidence))
    np.testing.assert_allclose(shuffled.weights, verdict.weights[order], atol=1e-12)
    np.testing.assert_allclose(shuffled.scores, verdict.scores[order], atol=1e-9)
    assert np.isfinite(verdict.scores).all()
    takes = not np.array_equal(verdict.scores, rule(counts, context=FilterContext(names)).scores)
    assert takes == (name in ("mixture", "vigilant"))


@pytest.mark.parametrize(("name", "options"), FILTER_ROWS.items())
def test_filters_judge_shares_whatever_the_number_of_scores(name, options, counts):
    """A client that sends its histogram a thousand times over is judged as before, and nothing is overwritten."""
    rule, before = FILTERS[name](**options), counts.copy()
    many = counts.copy()
    many[4] *= 1000
    np.testing.assert_allclose(rule(many).weights, rule(counts).weights, atol=1e-12)
    weighed = rule.weigh(characterize(counts), counts.sum(axis=1), FilterContext())
    np.testing.assert_array_equal(weighed.weights, rule(counts).weights)
    np.testing.assert_array_equal(counts, before)


@pytest.mark.parametrize(("name", "options"), RANGE_ROWS.items())
def test_ranges_scale_with_the_scores_and_ignore_the_order_of_clients(name, options):
    scores = np.abs(np.random.default_rng(2).standard_normal((9, 50)))
    span = RANGES[name](**options)(scores)
    assert RANGES[name](**options)(7 * scores).upper == pytest.approx(7 * span.upper)
    assert RANGES[name](**options)(scores[::-1]).upper == span.upper
    assert RANGES[name](**options)(list(scores)).upper == pytest.approx(span.upper)
    hostile = scores.copy()
    hostile[3] *= 1e6
    assert (RANGES[name](**options)(hostile).upper < 2 * span.upper) == (name != "max")


@pytest.mark.parametrize(("name", "row"), SCORE_ATTACK_ROWS.items())
def test_score_attacks_by_hand(name, row):
    options, expected = row
    attack = SCORE_ATTACKS[name](**options)
    own = np.array([[1.0, 2.0, 4.0]])
    everything = {
        "upper": 5.0, "honest_mean": 2.0, "normals": np.array([[-3.0, 0.0, 1.0]]),
        "honest": np.array([[1.0, 2.0, 3.0]]), "quantiles": np.array([1.0, 2.0, 3.0]),
    }  # fmt: skip
    view = ScoreAttackView(own=own, **{key: value for key, value in everything.items() if key in attack.sees})
    np.testing.assert_allclose(attack.forge(view), [expected])
    np.testing.assert_array_equal(own, [[1.0, 2.0, 4.0]])  # what the attacker holds is left alone


@pytest.mark.parametrize(("name", "expected"), SCORE_ROWS.items())
def test_scores_by_hand(name, expected):
    np.testing.assert_allclose(SCORES[name]([1.0, -2.0, 0.5], [1.5, 1.0, 0.5]), expected)
