from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.calibrate.sites import scores, spec, summaries

from prism_fcp.calibrate import TooFewScoresWarning, down_weight, keep_all, known_count
from prism_fcp.calibrate.audit import audit, radii_without, shares_within
from prism_fcp.calibrate.calibration import Calibration
from prism_fcp.calibrate.combine import calibrate_summaries, radii
from prism_fcp.calibrate.grid import LinearGrid
from prism_fcp.calibrate.judgement import Filter, Judgement
from prism_fcp.calibrate.spec import CalibrationSpec


def weighing(weights: list[float]) -> Filter:
    return Filter(
        "given", "nothing", lambda shares, sizes, context: Judgement(np.array(weights), np.zeros(len(weights)), 0)
    )


def run(own: dict[str, np.ndarray], agreed: CalibrationSpec, filter: Filter) -> Calibration:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TooFewScoresWarning)
        return calibrate_summaries(summaries(own, agreed), agreed, filter=filter)


@settings(max_examples=60)
@given(
    seed=st.integers(0, 99),
    sizes=st.lists(st.integers(1, 40), min_size=3, max_size=6),
    given_weights=st.lists(st.sampled_from([0.0, 0.5, 1.0]), min_size=6, max_size=6),
    cap=st.sampled_from([None, 1.0, 3.0]),
    correction=st.sampled_from(["n+1", "n+K"]),
)
def test_leaving_one_out_is_calibrating_without_it(
    seed: int, sizes: list[int], given_weights: list[float], cap: float | None, correction: str
) -> None:
    """Against doing it again by hand, with the weights as they were: caps are not moved by one client less."""
    rng = np.random.default_rng(seed)
    own = {str(place): np.abs(rng.standard_normal(size)) for place, size in enumerate(sizes)}
    agreed = spec(confidence_levels=("0.8", "0.5"), cap=cap, correction=correction)
    weights = given_weights[: len(sizes)]
    if sum(weight > 0 for weight in weights) < 1:
        weights[0] = 1.0
    told = run(own, agreed, weighing(weights))
    full = 1.0 if cap is None else np.minimum(1, cap * np.median(sizes) / np.array(sizes))
    for place, weight in enumerate(weights):
        changed = told.weights.copy()
        changed[place] = 0.0 if weight > 0 else np.broadcast_to(full, len(sizes))[place]
        if not changed.any():
            assert np.isinf(radii_without(told)[place]).all()
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TooFewScoresWarning)
            expected = [level.radius for level in radii(told.counts, changed, agreed)]
        assert radii_without(told)[place].tolist() == expected


def test_by_hand() -> None:
    # Ten bins of width 1; a holds 1..9, b 0.5 nine times, c 8.5 nine times. With two of them 18 scores ask for rank
    # ceil(19·.5) = 10. Without c that is the first of a's, in bin [1, 2); without b, a's 1..7 come first and bin [8, 9)
    # holds the eighth to the seventeenth; without a it is the first of c's.
    own = {"a": np.arange(1.0, 10.0), "b": np.full(9, 0.5), "c": np.full(9, 8.5)}
    agreed = spec(grid=LinearGrid(10.0, 10), confidence_levels=("0.5",), cells=0)
    told = run(own, agreed, keep_all())
    assert told.radius == 6.0  # rank ceil(28·.5) = 14: nine of b's and the fifth of a's, the score 5
    assert radii_without(told)[:, 0].tolist() == [9.0, 9.0, 2.0]
    assert shares_within(told)[:, 0].tolist() == [5 / 9, 1.0, 0.0]
    rows = audit(told, told.counts, np.arange(10))
    assert [row.status for row in rows] == ["kept"] * 3 and math.isnan(rows[0].margin)
    first = rows[1].drivers[0]
    assert (first.low, first.high, first.share, first.typical) == (0.0, 1.0, 1.0, 0.0)


def test_the_margin_and_the_status_tell_the_verdict() -> None:
    own = scores(9, 300)
    own["site-4"] = np.zeros(300)
    agreed = spec(grid=LinearGrid(5.0, 20), confidence_levels=("0.9",), cells=0)
    for filter, status in ((known_count(1), "left out"), (down_weight(), "down-weighted")):
        told = run(own, agreed, filter)
        rows = {row.client: row for row in audit(told, told.counts, np.arange(20))}
        liar = rows["site-4"]
        assert liar.status == status and liar.margin == max(row.margin for row in rows.values()) > 0
        assert liar.drivers[0].low == 0.0 and liar.drivers[0].share == 1.0 and liar.drivers[0].part > 0.5
        assert liar.within == (1.0,) and liar.counted == pytest.approx(300 * liar.weight)
        assert liar.to_json()["drivers"][0]["high"] == 0.25
    assert told.weights[4] < 0.5
