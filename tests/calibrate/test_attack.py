from __future__ import annotations

import numpy as np
import pytest
from tests.calibrate.federation import draw

from prism_fcp.calibrate import RANGES, SCORE_ATTACKS, ScoreAttackView, Span, histogram, keep_all, known_count, mad
from prism_fcp.errors import SettingError
from prism_fcp.types import Choice

OWN = np.array([[0.5, 1.0], [0.25, 2.0]])
VIEW = ScoreAttackView(own=OWN, upper=4.0, honest_mean=0.7, normals=np.array([[-2.0, 1.0], [0.0, -1.0]]))


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
    view = ScoreAttackView(OWN.astype(np.float32), 4.0, 0.7, np.zeros((2, 2), dtype=np.float32))
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
        ("randm", {}, "did you mean 'random'"),
        ("random", {"sigma": 1.0}, "has no option 'sigma'"),
    ],
)
def test_errors(name: str, options: dict[str, object], message: str) -> None:
    with pytest.raises(SettingError, match=message):
        Choice(name, options).build(SCORE_ATTACKS, "score attack")
