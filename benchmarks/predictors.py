"""Calibrate and predict beside a plain NumPy partition, MAPIE and crepes: 10^6 scores, 10^6 intervals, one level.

The peers know one population, so the limit is for one; a federation of 100 clients with its filter stands beside it.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from math import ceil

import numpy as np

from prism_fcp import Predictor
from prism_fcp.calibrate import calibrate, keep_all
from timing import Line, medians, turns

SCORES, CLIENTS, LEVEL = 1_000_000, 100, 0.9
LIMIT = 1.5  # times the plain partition with its intervals


def predictors(quick: bool) -> list[Line]:
    """Measure each from residuals to intervals; what is compared takes turns."""
    rng = np.random.default_rng(0)
    scores, points = np.abs(rng.standard_normal(SCORES)), rng.standard_normal(SCORES)
    rows = list(scores.reshape(CLIENTS, -1))
    rank = ceil((SCORES + 1) * LEVEL)

    def partition(_: int) -> float:
        return float(np.partition(scores, rank - 1)[rank - 1])

    def plain(_: int) -> tuple[np.ndarray, np.ndarray]:
        radius = partition(0)
        return points - radius, points + radius

    def ours(_: int) -> np.ndarray:
        return Predictor().conformalize(calibrate(rows, confidence_level=LEVEL)).predict_interval(points).bounds

    def alone(_: int) -> np.ndarray:
        calibration = calibrate([scores], confidence_level=LEVEL, filter=keep_all())
        return Predictor().conformalize(calibration).predict_interval(points).bounds

    ready = Predictor(radii={LEVEL: partition(0)})
    tasks: dict[str, Callable[[int], object]] = {
        "plain partition": partition,
        "plain partition and intervals": plain,
        "prism-fcp: predict_interval alone": lambda _: ready.predict_interval(points),
        "prism-fcp, one population": alone,
        "prism-fcp, 100 clients, filtered": ours,
        **{name: make(scores, points) for name, make in PEERS.items() if _installed(name)},
    }
    for name, task in tasks.items():  # warm, and the same intervals
        told = np.asarray(task(0)) if name not in ("plain partition", "prism-fcp: predict_interval alone") else None
        if told is not None and abs((told.max() - told.min()) - np.ptp(points) - 2 * partition(0)) > 1e-3:
            raise RuntimeError(f"{name} gives other intervals than the plain partition")
    repeats = 5 if quick else 15
    seconds = dict(zip(tasks, medians(lambda: turns(list(tasks.values()), 1), repeats), strict=True))
    base = seconds["plain partition and intervals"]
    lines = [Line("calibrate + predict, 1e6", name, 1000 * spent, "ms CPU") for name, spent in seconds.items()]
    for name, limit in (("prism-fcp, one population", LIMIT), ("prism-fcp, 100 clients, filtered", None)):
        lines.append(Line("calibrate + predict, 1e6", f"{name} / plain", seconds[name] / base, "x", limit))
    return lines


def _mapie(scores: np.ndarray, points: np.ndarray) -> Callable[[int], np.ndarray]:
    from mapie.regression import SplitConformalRegressor
    from sklearn.base import BaseEstimator, RegressorMixin

    class Given(RegressorMixin, BaseEstimator):
        """A fitted model whose predictions are its inputs."""

        def fit(self, x, y):
            return self

        def predict(self, x):
            return x[:, 0]

    given = Given()
    given.fitted_ = True
    zeros, column = np.zeros((len(scores), 1)), points[:, None]

    def run(_: int) -> np.ndarray:
        regressor = SplitConformalRegressor(given, LEVEL, prefit=True).conformalize(zeros, scores)
        return regressor.predict_interval(column)[1]

    return run


def _crepes(scores: np.ndarray, points: np.ndarray) -> Callable[[int], np.ndarray]:
    from crepes import ConformalRegressor

    return lambda _: ConformalRegressor().fit(residuals=scores).predict_int(points, confidence=LEVEL)


PEERS = {"mapie": _mapie, "crepes": _crepes}


def _installed(name: str) -> bool:
    if importlib.util.find_spec(name) is None:
        print(f"{name} is not installed: left out", file=sys.stderr)
        return False
    return True
