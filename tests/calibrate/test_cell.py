from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
from tests.calibrate.federation import draw

from prism_fcp.calibrate import (
    FILTERS,
    RANGES,
    SCORE_ATTACKS,
    ClippedScoresWarning,
    FilterContext,
    Span,
    TooFewScoresWarning,
    calibrate,
    down_weight,
    keep_all,
    known_count,
    prepare,
    run_cell,
)
from prism_fcp.errors import DataError, SettingError


@pytest.mark.parametrize("filter", sorted(FILTERS))
@pytest.mark.parametrize("attack", sorted(SCORE_ATTACKS))
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_cell_is_calibrate_without_the_words(filter: str, attack: str, dtype: type) -> None:
    trial = draw(0, clients=20, samples=200, hostile=4)
    scores = trial.scores.astype(dtype)
    span = RANGES["max"]()(scores)
    reported = trial.report(SCORE_ATTACKS[attack](), span.upper).astype(dtype)
    rule = FILTERS[filter]()
    cell = run_cell(prepare(scores, span, 50), trial.attackers, reported, rule)
    sent = scores.copy()
    sent[trial.attackers] = reported
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ClippedScoresWarning)  # the coverage attack, unfiltered
        whole = calibrate(sent, filter=rule, range=span, bins=50, suspects=4, beyond_range="clip")
    assert cell.radius == whole.radius
    np.testing.assert_array_equal(cell.weights, whole.verdict.weights)
    np.testing.assert_array_equal(cell.scores, whole.verdict.scores)


def test_a_cell_leaves_the_trial_alone() -> None:
    trial = draw(1, clients=10, samples=50, hostile=2)
    prepared = prepare(trial.scores, RANGES["max"]()(trial.scores), 20)
    scores, counts = prepared.scores.copy(), prepared.counts.copy()
    for attack in SCORE_ATTACKS.values():
        run_cell(prepared, trial.attackers, trial.report(attack()), known_count(2))
        run_cell(prepared, trial.attackers, trial.report(attack()), down_weight())
    np.testing.assert_array_equal(prepared.scores, scores)
    np.testing.assert_array_equal(prepared.counts, counts)


def test_filtered_attacks_leave_the_honest_quantile() -> None:
    trial = draw(2)
    span = RANGES["max"]()(trial.scores)
    honest = np.sort(trial.scores[trial.honest].ravel())[72_001 - 1]  # ceil(80001·.9) = 72001
    for attack in ("efficiency", "coverage"):
        assert trial.cell(SCORE_ATTACKS[attack](), known_count(20), span).radius == honest


def test_beyond_the_range() -> None:
    # A tenth of the mass at 9 and one more: rank ceil(101·.9) = 91 of 100, while 89 scores lie below the range 2.
    scores = np.concatenate([np.ones(89), np.full(11, 9.0)])[None]
    nobody, nothing = np.empty(0, dtype=int), np.empty((0, 100))
    for choice, radius in (("clip", 2.0), ("infinite", math.inf), ("exact", 9.0)):
        with pytest.warns(ClippedScoresWarning):  # these are true scores: clipping them costs coverage
            cell = run_cell(prepare(scores, Span(2.0), 10), nobody, nothing, keep_all(), beyond_range=choice)  # type: ignore[arg-type]
        assert cell.radius == radius
        low = run_cell(
            prepare(scores, Span(2.0), 10),
            nobody,
            nothing,
            keep_all(),
            confidence_level=0.8,
            beyond_range=choice,  # type: ignore[arg-type]
        )
        assert low.radius == 1.0  # below the range the three agree
    with pytest.raises(SettingError, match="unknown beyond_range 'cut'"):
        run_cell(prepare(scores, Span(2.0), 10), nobody, nothing, keep_all(), beyond_range="cut")  # type: ignore[arg-type]


def test_too_few_scores() -> None:
    with pytest.warns(TooFewScoresWarning):
        cell = run_cell(prepare(np.ones((2, 4)), Span(2.0), 10), np.empty(0, dtype=int), np.empty((0, 4)), keep_all())
    assert cell.radius == math.inf


def test_errors() -> None:
    prepared = prepare(np.ones((4, 5)), Span(2.0), 10)
    with pytest.raises(DataError, match=r"reported scores have shape \(1, 5\); must be \(2, 5\)"):
        run_cell(prepared, np.array([0, 1]), np.ones((1, 5)), keep_all())
    with pytest.raises(DataError, match="must be"):
        prepare(np.ones(5), Span(2.0), 10)
    with pytest.raises(DataError, match="1 of client 0's 5 scores are negative, NaN or infinite"):
        run_cell(prepared, np.array([0]), np.array([[1, 1, 1, 1, np.nan]]), keep_all())
    with pytest.raises(SettingError, match="no number of suspects"):
        run_cell(prepared, np.array([0]), np.ones((1, 5)), known_count(), context=FilterContext())
