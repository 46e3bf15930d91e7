from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from tests.calibrate.federation import draw

from prism_fcp.calibrate import (
    RANGES,
    SCORE_ATTACKS,
    ScoreAttack,
    ScoreAttackView,
    Span,
    histogram,
    keep_all,
    known_count,
    mad,
)
from prism_fcp.errors import SettingError
from prism_fcp.types import Choice

OWN = np.array([[0.5, 1.0], [0.25, 2.0]])
VIEW = ScoreAttackView(
    own=OWN, upper=4.0, honest_mean=0.7, normals=np.array([[-2.0, 1.0], [0.0, -1.0]]),
    honest=np.array([[0.5, 0.9], [0.3, 1.1], [0.6, 0.8]]), quantiles=np.array([0.3, 0.5, 0.6, 0.8, 0.9, 1.1]),
)  # fmt: skip


def test_golden() -> None:
    def forge(name: str, **options: object) -> list[list[float]]:
        return Choice(name, options).build(SCORE_ATTACKS, "score attack").forge(VIEW).tolist()

    assert forge("none") == OWN.tolist()
    assert forge("efficiency") == [[0, 0], [0, 0]]
    assert forge("efficiency", level=0.25) == [[1, 1], [1, 1]]  # a quarter of the range 4
    assert forge("coverage") == [[7, 7], [7, 7]]  # 10 x .7
    assert forge("coverage", at_range=True) == [[4, 4], [4, 4]]
    # .5 - 2·.5 = -.5, 1 + .5 = 1.5, .25 + 0, 2 - .5 = 1.5
    assert forge("random") == [[0, 1.5], [0.25, 1.5]]
    assert forge("random", fold="reflect") == [[0.5, 1.5], [0.25, 1.5]]


@pytest.mark.parametrize("name", sorted(SCORE_ATTACKS))
def test_an_attack_is_content_with_what_it_declares(name: str) -> None:
    attack = SCORE_ATTACKS[name]()
    given = {part: getattr(VIEW, part) for part in attack.sees}
    reported = attack.forge(ScoreAttackView(own=OWN.astype(np.float32), **given))
    assert reported.shape == OWN.shape and (reported >= 0).all()
    for part in attack.sees:
        with pytest.raises(SettingError, match=f"the view lacks '{part}'"):
            attack.forge(ScoreAttackView(own=OWN, **{k: v for k, v in given.items() if k != part}))


def test_scores_keep_their_type() -> None:
    honest = VIEW.honest.astype(np.float32)
    view = ScoreAttackView(
        OWN.astype(np.float32), 4.0, 0.7, np.zeros((2, 2), dtype=np.float32), honest, np.sort(honest, axis=None)
    )
    assert {SCORE_ATTACKS[name]().forge(view).dtype for name in SCORE_ATTACKS} == {np.dtype(np.float32)}


@pytest.mark.parametrize("seed", range(5))
def test_both_readings_of_the_coverage_attack_agree(seed: int) -> None:
    # Ten times the honest mean lies above R_max = 1.1·max, so the clip makes it R_max, in histogram and in radius.
    trial = draw(seed)
    span = RANGES["max"]()(trial.scores)
    assert 10 * trial.scores[trial.honest].mean() > span.upper
    multiple, at_range = SCORE_ATTACKS["coverage"](), SCORE_ATTACKS["coverage"](at_range=True)
    counts = [histogram(trial.report(attack, span.upper), span, 100) for attack in (multiple, at_range)]
    np.testing.assert_array_equal(*counts)
    # Unfiltered, a fifth of the mass sits above the 90 % quantile: the radius is R_max (width about 7 in the paper).
    for attack in (multiple, at_range):
        assert trial.calibrate(attack, keep_all(), span).radius == span.upper


def test_all_zero_and_all_one_attacks_look_different() -> None:
    trial = draw(0)
    span = RANGES["max"]()(trial.scores)
    zeros, ones = (
        histogram(trial.report(SCORE_ATTACKS[a](), span.upper), span, 100) for a in ("efficiency", "coverage")
    )
    assert zeros[0, 0] == ones[0, -1] == 1000
    assert zeros[0, -1] == ones[0, 0] == 0


def test_clipping_gives_the_random_attack_away_and_reflecting_hides_it() -> None:
    """READINGS.md: recall 19.9 of 20 with max(0, r + noise), 4.9 with |r + noise|, where chance is 4.

    Fixed seeds. Over 30 trials of this federation the means were 20.0 and 5.4.
    """
    found = {"clip": 0, "reflect": 0}
    for seed in range(10):
        trial = draw(seed)
        for fold in found:
            cell = trial.calibrate(SCORE_ATTACKS["random"](fold=fold), known_count(20), RANGES["max"]())
            found[fold] += trial.found(cell)[0]
    assert found["clip"] >= 198
    assert 20 <= found["reflect"] <= 90


def test_whispering_attacks_golden() -> None:
    def forge(name: str, **options: object) -> list[list[float]]:
        return Choice(name, options).build(SCORE_ATTACKS, "score attack").forge(VIEW).tolist()

    assert forge("partial", fraction=0.5) == [[0, 1], [0, 2]]
    assert forge("partial", fraction=0.5, multiple=10) == [[7, 1], [7, 2]]
    assert forge("partial", fraction=0.0) == OWN.tolist()
    # medians .75 and 1.125: what lies above is stretched to .75 + 2·.25 and 1.125 + 2·.875
    assert forge("tail", factor=2.0, above=0.5) == [[0.5, 1.25], [0.25, 2.875]]
    assert forge("copy") == [[0.5, 0.9], [0.3, 1.1]]
    assert forge("copy", factor=2.0) == [[1.0, 1.8], [0.6, 2.2]]


def test_copies_start_over_when_there_are_fewer_honest_clients() -> None:
    view = ScoreAttackView(np.zeros((3, 1)), honest=np.array([[1.0], [2.0]]))
    assert SCORE_ATTACKS["copy"]().forge(view).tolist() == [[1], [2], [1]]


@pytest.mark.parametrize("shape", [3.5, 8.0])
@pytest.mark.statistical
def test_colluders_of_a_beta_federation_are_exactly_beta(shape: float) -> None:
    """Kolmogorov-Smirnov with 20,000 draws at one fixed seed; a false alarm has probability 0.001."""
    rng = np.random.default_rng(3)
    exact = stats.beta(2, 5).ppf((np.arange(1 << 16) + 0.5) / (1 << 16))
    view = ScoreAttackView(np.zeros((20, 1000)), normals=rng.standard_normal((20, 1000)), quantiles=exact)
    reported = SCORE_ATTACKS["collusion"](shape=shape).forge(view).ravel()
    assert stats.kstest(reported, stats.beta(2, shape).cdf).pvalue > 0.001


def test_colluders_move_the_quantile_to_their_own_side_and_one_shape_is_honest() -> None:
    rng = np.random.default_rng(4)
    honest = np.sort(np.abs(rng.standard_normal(50_000)))
    view = ScoreAttackView(np.zeros((1, 50_000)), normals=rng.standard_normal((1, 50_000)), quantiles=honest)
    at = [np.quantile(SCORE_ATTACKS["collusion"](shape=b).forge(view), 0.9) for b in (3.5, 5.0, 8.0)]
    assert at[0] > at[1] > at[2]
    assert at[1] == pytest.approx(np.quantile(honest, 0.9), rel=0.02)


@pytest.mark.parametrize("name", ["efficiency", "coverage"])
def test_constant_attacks_are_found_in_full(name: str) -> None:
    for seed in range(5):
        trial = draw(seed)
        assert trial.found(trial.calibrate(SCORE_ATTACKS[name](), known_count(20), RANGES["max"]())) == (20, 0)
        hits, false = trial.found(trial.calibrate(SCORE_ATTACKS[name](), mad(), RANGES["max"]()))
        assert hits == 20 and false <= 12


def test_the_range_trap() -> None:
    """One honest-looking score of 100x the maximum: `max` loses the random attack, the robust ranges do not."""
    attack, recall = SCORE_ATTACKS["random"](), dict.fromkeys(RANGES, 0)
    for seed in range(5):
        trial = draw(seed)
        poisoned = trial.scores.copy()
        poisoned[trial.honest[0], 0] = 100 * poisoned.max()
        for name in RANGES:
            span = RANGES[name]()(poisoned)
            recall[name] += trial.found(trial.calibrate(attack, known_count(20), Span(span.upper, span.overflow)))[0]
    assert recall["max"] <= 40  # of 100; chance is 20
    assert {name: recall[name] for name in RANGES if name != "max"} == {
        "high_quantile": 100,
        "median_mad": 100,
        "overflow": 100,
    }


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("efficiency", {"level": 2.0}, r"level=2.0; a normalised score must lie in \[0, 1\]"),
        ("coverage", {"multiple": 0.0}, "multiple=0.0; must be positive"),
        ("random", {"sd": -1.0}, "sd=-1.0"),
        ("random", {"fold": "reflct"}, "did you mean 'reflect'"),
        ("collusion", {"shape": 0.0}, r"shape=0.0; must lie in \[0.1, 1000\], 5 being honest"),
        ("partial", {"fraction": 1.5}, r"fraction=1.5; must lie in \[0, 1\]"),
        ("partial", {"multiple": -1.0}, "multiple=-1.0; must be 0 or more"),
        ("tail", {"factor": -1.0}, "factor=-1.0; must be 0 or more"),
        ("tail", {"above": 2.0}, r"above=2.0; a quantile's level must lie in \[0, 1\]"),
        ("copy", {"factor": -2.0}, "factor=-2.0; must be 0 or more"),
        ("randm", {}, "did you mean 'random'"),
        ("random", {"sigma": 1.0}, "has no option 'sigma'"),
    ],
)
def test_errors(name: str, options: dict[str, object], message: str) -> None:
    with pytest.raises(SettingError, match=message):
        Choice(name, options).build(SCORE_ATTACKS, "score attack")


@pytest.mark.parametrize(
    ("sees", "forge", "told"),
    [
        ((), lambda view: view.own[:, :1], r"it forged scores of shape \(2, 1\) from \(2, 2\); return as many"),
        ((), lambda view: -view.own, r"it forged -0.5 \(4 of 4 scores are negative, NaN or infinite\)"),
        ((), lambda view: view.own * [1, np.nan], r"it forged nan \(2 of 4 scores"),
        (("honest_men",), lambda view: view.own, "sees 'honest_men'; did you mean 'honest_mean'"),
    ],
)
def test_an_attack_of_ones_own_that_cannot_be_sent_is_told_as_such(sees, forge, told) -> None:
    with pytest.raises(SettingError, match=f"score attack 'mine': {told}"):
        ScoreAttack("mine", frozenset(sees), forge).report(VIEW)
    assert SCORE_ATTACKS["none"]().report(VIEW) is VIEW.own
