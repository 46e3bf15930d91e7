"""The radius: the pooled quantile inside the range, three meanings beyond it."""

import math

import numpy as np
import pytest
from tests.calibrate.federation import draw

from prism_fcp.calibrate import (
    RANGES,
    SCORE_ATTACKS,
    ClippedScoresWarning,
    Span,
    TooFewScoresWarning,
    calibrate,
    conformal_radius,
    keep_all,
    known_count,
)
from prism_fcp.errors import SettingError


def test_filtered_attacks_leave_the_honest_quantile() -> None:
    trial = draw(2)
    span = RANGES["max"]()(trial.scores)
    honest = np.sort(trial.scores[trial.honest].ravel())[72_001 - 1]  # ceil(80001·.9) = 72001
    for attack in ("efficiency", "coverage"):
        assert trial.calibrate(SCORE_ATTACKS[attack](), known_count(20), span).radius == honest


# A tenth of the mass at 9 and one more: rank ceil(101·.9) = 91 of 100, while 89 scores lie below the range 2.
SCORES = np.concatenate([np.ones(89), np.full(11, 9.0)])[None]


@pytest.mark.parametrize(("choice", "radius"), [("clip", 2.0), ("infinite", math.inf), ("exact", 9.0)])
def test_beyond_the_range(choice: str, radius: float) -> None:
    found = conformal_radius(SCORES, np.ones(1), Span(2.0), beyond_range=choice)  # type: ignore[arg-type]
    assert found.value == radius and found.beyond
    low = conformal_radius(SCORES, np.ones(1), Span(2.0), confidence_level=0.8, beyond_range=choice)  # type: ignore[arg-type]
    assert low.value == 1.0 and not low.beyond  # below the range the three agree
    with pytest.warns(ClippedScoresWarning, match="above the range 2"):
        whole = calibrate(SCORES, filter=keep_all(), range=Span(2.0), beyond_range=choice)  # type: ignore[arg-type]
    assert whole.radius == radius


def test_too_few_scores_are_not_beyond_the_range() -> None:
    with pytest.warns(TooFewScoresWarning):
        found = conformal_radius(np.ones((2, 4)), np.ones(2), Span(2.0))
    assert found.value == math.inf and not found.beyond


def test_unknown_meaning() -> None:
    with pytest.raises(SettingError, match="unknown beyond_range 'cut'"):
        conformal_radius(SCORES, np.ones(1), Span(2.0), beyond_range="cut")  # type: ignore[arg-type]
