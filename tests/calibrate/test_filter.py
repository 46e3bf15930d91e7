from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.calibrate.federation import draw

from prism_fcp.calibrate import (
    FILTERS,
    RANGES,
    SCORE_ATTACKS,
    Filter,
    FilterContext,
    characterize,
    down_weight,
    estimated_count,
    keep_all,
    known_count,
    mad,
)
from prism_fcp.calibrate.distance import farthest_scores
from prism_fcp.calibrate.judgement import Judgement
from prism_fcp.errors import DataError, SettingError
from prism_fcp.types import Choice

CASES = {
    "keep_all": keep_all(),
    "known_count": known_count(2),
    "known_count, mean": known_count(2, score="mean"),
    "known_count, from the context": known_count(),
    "mad": mad(),
    "estimated_count, mad": estimated_count(),
    "estimated_count, gap": estimated_count("gap"),
    "down_weight": down_weight(),
}
CONTEXT = FilterContext(suspects=2)


def counts_of(seed: int, clients: int, bins: int = 8, n: int = 40) -> np.ndarray:
    return np.random.default_rng(seed).multinomial(n, np.full(bins, 1 / bins), size=clients)


def test_known_count_golden() -> None:
    # Shares in two bins, on a line: (1-t, t) with t = 0, .1, .2, .3, 1; distances are sqrt(2)|t - t'|.
    # One suspect of five: the three farthest count. In units of sqrt(2):
    #   t=0: 1 + .3 + .2 = 1.5   t=.1: .9 + .2 + .1 = 1.2   t=.2: .8 + .2 + .1 = 1.1
    #   t=.3: .7 + .3 + .2 = 1.2   t=1: 1 + .9 + .8 = 2.7
    counts = np.array([[10, 0], [9, 1], [8, 2], [7, 3], [0, 10]])
    verdict = known_count(1)(counts)
    np.testing.assert_allclose(verdict.scores / math.sqrt(2), [1.5, 1.2, 1.1, 1.2, 2.7], rtol=1e-12)
    assert verdict.weights.tolist() == [1, 1, 1, 1, 0]
    assert verdict.threshold == pytest.approx(math.sqrt(2) * (1.5 + 2.7) / 2)  # midway
    assert verdict.reasons[4] == "left out: sum of distances to the farthest clients 3.818 is above the threshold 2.97"
    np.testing.assert_allclose(known_count(1, "mean")(counts).scores, verdict.scores / 3)


def test_nearest_in_place_of_farthest_would_fail_here() -> None:
    # Two colluders far out. The farthest-distance sum exposes both; a nearest-neighbour sum would see them as a pair.
    counts = np.array([[10, 0], [9, 1], [8, 2], [9, 1], [10, 0], [0, 10], [0, 10]])
    assert known_count(2)(counts).kept.tolist() == [True] * 5 + [False] * 2


def test_mad_golden() -> None:
    # t = 0, .1, .2, .3, .4, 1: the median client is t = .25; distances, in sqrt(2): .25 .15 .05 .05 .15 .75.
    # Sorted .05 .05 .15 .15 .25 .75 -> median .15; |m - .15| = .10 .10 0 0 .10 .60 -> MAD .10;
    # threshold .15 + 2.5·1.4826·.10 = .52065
    counts = np.array([[10, 0], [9, 1], [8, 2], [7, 3], [6, 4], [0, 10]])
    verdict = mad()(counts)
    np.testing.assert_allclose(verdict.scores / math.sqrt(2), [0.25, 0.15, 0.05, 0.05, 0.15, 0.75])
    assert verdict.threshold / math.sqrt(2) == pytest.approx(0.52065)
    assert verdict.kept.tolist() == [True] * 5 + [False]
    # down-weighting: z = (.75 - .15)/(1.4826·.10) = 4.0469, weight (2.5/z)² = .38161
    assert down_weight()(counts).weights == pytest.approx([1, 1, 1, 1, 1, (2.5 * 0.14826 / 0.6) ** 2])
    assert "counted with weight 0.382" in down_weight()(counts).reasons[5]
    assert estimated_count()(counts).kept.tolist() == [True] * 5 + [False]
    assert estimated_count("gap")(counts).kept.tolist() == [True] * 5 + [False]


def test_when_the_mad_is_zero() -> None:
    counts = np.array([[5, 5, 0]] * 6 + [[5, 4, 1], [0, 0, 10]])
    for rule in (mad(), down_weight()):
        verdict = rule(counts)
        assert verdict.threshold == 0
        assert verdict.weights.tolist() == [1] * 6 + [0, 0]
    assert mad()(counts[:6]).kept.all()  # all alike: nobody is farther than the median distance, 0


@pytest.mark.parametrize("name", sorted(CASES))
@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), clients=st.integers(5, 14), data=st.data())
def test_permuting_clients_permutes_the_verdict(name: str, seed: int, clients: int, data: st.DataObject) -> None:
    counts = counts_of(seed, clients)
    order = np.array(data.draw(st.permutations(range(clients))))
    sizes = np.arange(clients) + 40
    one, other = CASES[name](counts, sizes, CONTEXT), CASES[name](counts[order], sizes[order], CONTEXT)
    np.testing.assert_allclose(other.scores, one.scores[order], rtol=1e-9)
    near = np.abs(one.scores - one.threshold) <= 1e-9 * one.scores.max()  # exact ties fall by position
    if not near.any():
        np.testing.assert_allclose(other.weights, one.weights[order], rtol=1e-6, atol=1e-9)
        assert [r.split(":")[0] for r in other.reasons] == [one.reasons[k].split(":")[0] for k in order]


@settings(max_examples=100, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), clients=st.integers(5, 25), suspects=st.integers(1, 12))
def test_sum_and_mean_order_alike(seed: int, clients: int, suspects: int) -> None:
    suspects = min(suspects, (clients - 1) // 2)
    counts = counts_of(seed, clients, n=20)
    total, mean = known_count(suspects, "sum")(counts), known_count(suspects, "mean")(counts)
    np.testing.assert_array_equal(total.weights, mean.weights)
    np.testing.assert_allclose(mean.scores * (clients - suspects - 1), total.scores, rtol=1e-12)


@pytest.mark.parametrize("name", sorted(CASES))
def test_verdicts_are_whole(name: str) -> None:
    counts = counts_of(7, 12)
    verdict = CASES[name](counts, None, CONTEXT)
    assert verdict.weights.shape == verdict.scores.shape == (12,) and len(verdict.reasons) == 12
    assert ((verdict.weights >= 0) & (verdict.weights <= 1)).all()
    lost = verdict.weights < 1
    if not math.isnan(verdict.threshold):
        assert (verdict.scores[lost] >= verdict.threshold).all() and (verdict.scores[~lost] <= verdict.threshold).all()
    for weight, reason in zip(verdict.weights, verdict.reasons, strict=True):
        assert reason.startswith("kept" if weight == 1 else "left out" if weight == 0 else "counted with weight")
        assert "\n" not in reason
    as_shares = CASES[name](characterize(counts), None, CONTEXT)
    np.testing.assert_array_equal(as_shares.weights, verdict.weights)


def test_ties_fall_on_the_first_client() -> None:
    counts = np.array([[0, 10], [10, 0], [10, 0], [10, 0], [0, 10]])
    for _ in range(3):
        verdict = known_count(1)(counts)
        assert verdict.weights.tolist() == [0, 1, 1, 1, 1]
    assert "a tie" in verdict.reasons[0]
    everyone = known_count(2)(np.full((6, 4), 5))
    assert everyone.weights.tolist() == [0, 0, 1, 1, 1, 1]
    many = known_count(90)(np.full((200, 4), 5))
    assert (np.flatnonzero(many.weights == 0) == np.arange(90)).all()


def test_attackers_of_equal_report_tie_whatever_the_block() -> None:
    counts = counts_of(1, 30, n=500)
    counts[[3, 17, 29]] = [0] * 7 + [500]
    scores = [farthest_scores(characterize(counts), 26, block) for block in (1, 7, 30)]
    for got in scores:
        assert np.ptp(got[[3, 17, 29]]) < 1e-13


@pytest.mark.parametrize(("suspects", "found", "lost"), [(0, 0, 0), (5, 5, 0), (20, 20, 0), (30, 20, 10), (45, 20, 25)])
def test_over_and_understated_counts(suspects: int, found: int, lost: int) -> None:
    trial = draw(11)
    cell = trial.calibrate(SCORE_ATTACKS["coverage"](), known_count(suspects), RANGES["max"]())
    assert trial.found(cell) == (found, lost)


@pytest.mark.parametrize("attack", ["efficiency", "coverage", "random"])
def test_the_estimate_finds_twenty(attack: str) -> None:
    # Measured over 30 trials: gap 20/20 with no false positive; the mad estimate inherits MAD's false positives.
    for seed in range(4):
        trial = draw(seed)
        by_gap = trial.calibrate(SCORE_ATTACKS[attack](), estimated_count("gap"), RANGES["max"]())
        assert trial.found(by_gap) == (20, 0)
        assert trial.found(trial.calibrate(SCORE_ATTACKS[attack](), estimated_count(), RANGES["max"]()))[0] == 20


def test_estimates_stay_quiet_without_attack_and_below_half() -> None:
    trial = draw(5, hostile=0)
    nobody = trial.calibrate(SCORE_ATTACKS["none"](), estimated_count("gap"), RANGES["max"]())
    assert trial.found(nobody) == (0, 0)
    crowd = np.array([[5, 5, 0]] * 5 + [[0, 0, 10], [0, 1, 9], [10, 0, 0], [9, 0, 1]])
    assert (~estimated_count()(crowd).kept).sum() <= 4
    for clients in (1, 2):
        assert estimated_count()(crowd[:clients]).kept.all()


def test_the_context_counts_unless_the_argument_does() -> None:
    counts = counts_of(3, 9)
    assert (known_count()(counts, None, FilterContext(suspects=3)).weights == 0).sum() == 3
    assert (known_count(1)(counts, None, FilterContext(suspects=3)).weights == 0).sum() == 1
    with pytest.raises(SettingError, match="no number of suspects"):
        known_count()(counts)


@pytest.mark.parametrize(
    ("clients", "suspects", "message"),
    [
        (10, 5, "suspects=5 of 10 clients; must be fewer than half, at most 4"),
        (10, 8, "suspects=8 of 10 clients; must be fewer than half, at most 4"),
        (10, 9, "suspects=9 of 10 clients leaves 1; at least 2 honest ones are needed; lower suspects to 4 or less"),
        (10, 12, "suspects=12 of 10 clients leaves 0"),
        (2, 1, "suspects=1 of 2 clients leaves 1"),
    ],
)
def test_counts_it_cannot_stand(clients: int, suspects: int, message: str) -> None:
    with pytest.raises(SettingError, match=message):
        known_count(suspects)(counts_of(0, clients))


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("known_count", {"suspects": -1}, "suspects=-1"),
        ("known_count", {"suspects": 1, "score": "summ"}, "did you mean 'sum'"),
        ("known_count", {"neighbours": 3}, "no option 'neighbours'"),
        ("mad", {"threshold": 0.0}, "threshold=0.0; must be positive"),
        ("down_weight", {"scale": -1.0}, "scale=-1.0"),
        ("estimated_count", {"method": "gaps"}, "did you mean 'gap'"),
        ("estimated_count", {"score": "median"}, "unknown score 'median'"),
        ("madd", {}, "did you mean 'mad'"),
    ],
)
def test_settings_errors(name: str, options: dict[str, object], message: str) -> None:
    with pytest.raises(SettingError, match=message):
        Choice(name, options).build(FILTERS, "filter")


def test_empty_clients_are_named() -> None:
    with pytest.raises(DataError, match="client 'hospital-2' has no scores"):
        mad()(np.array([[1, 1], [0, 0]]), None, FilterContext(("hospital-1", "hospital-2")))


def test_a_filter_of_ones_own_must_judge_every_client() -> None:
    short = Filter("mine", "nothing", lambda shares, sizes, context: Judgement(np.ones(2), np.zeros(len(shares)), 1.0))
    with pytest.raises(
        SettingError, match=r"filter 'mine': weights of shape \(2,\) for 3 clients; a judgement needs one"
    ):
        short(np.ones((3, 4), dtype=np.int64))
