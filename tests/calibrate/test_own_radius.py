from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prism_fcp.calibrate import calibrate, keep_all
from prism_fcp.calibrate.own_radius import own_radii_from_counts, own_radii_from_scores
from prism_fcp.calibrate.quantile import TooFewScoresWarning, pooled_quantile
from prism_fcp.calibrate.span import Span


@given(
    st.lists(st.floats(0, 1e6), min_size=1, max_size=60), st.lists(st.sampled_from([0.1, 0.5, 0.9, 0.99]), min_size=1)
)
@pytest.mark.filterwarnings("ignore::prism_fcp.calibrate.quantile.TooFewScoresWarning")
def test_is_the_pooled_quantile_of_one_client(scores, levels) -> None:
    (told,) = own_radii_from_scores({"a": scores}, levels).values()
    assert told == tuple(pooled_quantile([np.array(scores)], confidence_level=level) for level in levels)


def test_from_counts_on_the_overflow_grid() -> None:
    # bins of 0.1 up to 1, then one without end; of 9 scores the 5th is 0.45, the 9th lies above the range
    scores = [np.array([0.05, 0.15, 0.25, 0.35, 0.45, 0.55, 0.65, 0.75, 5.0])]
    calibration = calibrate(scores, filter=keep_all(), range=Span(1.0, overflow=True), bins=10, confidence_level=0.5)
    assert own_radii_from_counts(calibration, [0.5, 0.9]) == {0: (pytest.approx(0.5), math.inf)}


def test_too_few_counts_are_infinite_without_a_warning() -> None:
    with pytest.warns(TooFewScoresWarning):
        calibration = calibrate([np.ones(3)], filter=keep_all())
    assert own_radii_from_counts(calibration, [0.9]) == {0: (math.inf,)}
