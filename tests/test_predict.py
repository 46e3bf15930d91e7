from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

from prism_fcp.calibrate import calibrate, keep_all
from prism_fcp.errors import DataError, SettingError
from prism_fcp.predict import Predictor, evaluate


def test_life_cycle() -> None:
    predictor = Predictor(lambda x: x @ np.array([1.0, 2.0]))
    with pytest.raises(SettingError, match="predict_interval before calibration; call predictor.conformalize"):
        predictor.predict_interval([[1.0, 1.0]])
    calibrated = predictor.conformalize(calibrate([np.arange(100.0)], filter=keep_all()))
    point, lower, upper = calibrated.predict_interval([[1.0, 1.0], [0.0, 2.0]])
    # rank ceil(101·.9) = 91, so the radius is the 91st of 0..99: 90
    assert (point.tolist(), lower.tolist(), upper.tolist()) == ([3, 4], [-87, -86], [93, 94])
    assert predictor.radius is None  # a predictor never changes
    with pytest.raises(dataclasses.FrozenInstanceError):
        calibrated.radius = 1.0  # type: ignore[misc]


def test_an_infinite_radius_gives_honest_infinite_intervals() -> None:
    _, lower, upper = Predictor(lambda x: x).conformalize(math.inf).predict_interval([1.0])
    assert lower[0] == -math.inf and upper[0] == math.inf


@pytest.mark.parametrize("radius", [-1.0, math.nan])
def test_radii_that_are_none(radius: float) -> None:
    with pytest.raises(SettingError, match="must be"):
        Predictor(lambda x: x, radius)


def test_a_broken_model_is_said() -> None:
    with pytest.raises(DataError, match="1 of 2 predictions are NaN or infinite"):
        Predictor(lambda x: x, 1.0).predict_interval([1.0, math.nan])


def test_evaluate() -> None:
    residuals = np.array([[0.5, 1.0, 1.5, -2.0], [0.0, 0.1, 0.2, 0.3]])
    coverage, width = evaluate(residuals, 1.0)
    assert coverage.tolist() == [0.5, 1.0]  # a residual equal to the radius is covered
    assert width.tolist() == [2.0, 2.0]
    coverage, width = evaluate(residuals, np.array([1.5, 0.1]))
    assert coverage.tolist() == [0.75, 0.5] and width.tolist() == [3.0, 0.2]
    assert evaluate(residuals, math.inf).coverage.tolist() == [1, 1]
    with pytest.raises(DataError, match="1 of 4 residuals are NaN"):
        evaluate(np.array([[1.0, np.nan], [0.0, 0.0]]), 1.0)
    with pytest.raises(DataError, match=r"shape \(3,\)"):
        evaluate(np.ones(3), 1.0)


def test_coverage_at_the_asked_level() -> None:
    """Split conformal covers ceil((n+1)·c)/(n+1) on average: 901/1001 for n = 1000, c = .9.

    300 trials, each with sd sqrt(.09/1000 + .09/1000) = .0134; mean sd .00078; tolerance .004: 5 sd, below 1e-6.
    """
    rng, covered = np.random.default_rng(0), []
    for _ in range(300):
        scores = np.abs(rng.standard_normal((10, 200)))
        radius = calibrate(scores[:, :100], filter=keep_all()).radius
        covered.append(evaluate(scores[:, 100:], radius).coverage.mean())
    assert np.mean(covered) == pytest.approx(901 / 1001, abs=0.004)
