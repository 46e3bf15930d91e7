"""Phase 3: intervals around predictions, and what they are worth on test data.

The life cycle is `Predictor(predict)`, `.conformalize(calibration)`, `.predict_interval(x)`; a predictor never
changes, each step returns a new one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import inf
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from prism_fcp.calibrate.calibrate import Calibration
from prism_fcp.errors import DataError, SettingError, need_number
from prism_fcp.types import FloatArray


class Intervals(NamedTuple):
    """Point predictions with the ends of their intervals."""

    point: FloatArray
    lower: FloatArray
    upper: FloatArray


class Evaluation(NamedTuple):
    """What a radius does on each client's test data."""

    coverage: NDArray[np.float64]  # (K,) share of test residuals within the radius
    width: NDArray[np.float64]  # (K,)


@dataclass(frozen=True, slots=True)
class Predictor:
    """A prediction function, and the radius calibration found for it.

    The model that predicts must be the one whose residuals were calibrated: a radius from local models around the
    global model's predictions covers less than it says.
    """

    predict: Callable[[FloatArray], FloatArray]
    radius: float | None = None

    def __post_init__(self) -> None:
        """Refuse a radius that is none."""
        if not callable(self.predict):
            raise SettingError(
                f"Predictor: predict={self.predict!r}; give a function of the inputs, such as model.predict"
            )
        if self.radius is None or self.radius == inf:
            return
        need_number("Predictor: radius", self.radius)
        if self.radius < 0:
            raise SettingError(f"Predictor: radius={self.radius}; must be 0 or more")

    def conformalize(self, calibration: Calibration | float) -> Predictor:
        """Return this predictor with the radius of a calibration."""
        return replace(self, radius=calibration.radius if isinstance(calibration, Calibration) else calibration)

    def predict_interval(self, inputs: ArrayLike) -> Intervals:
        """Return predictions for the rows of `inputs` with [prediction - radius, prediction + radius].

        Paper: Alg. 1, phase 3
        """
        if self.radius is None:
            raise SettingError(
                "Predictor: predict_interval before calibration; call "
                "predictor.conformalize(calibrate(scores)) and use what it returns"
            )
        point = np.asarray(self.predict(np.asarray(inputs)))
        if point.dtype.kind not in "fiu":
            raise DataError(f"Predictor: predictions have dtype {point.dtype}; they must be real numbers")
        point = point.astype(np.result_type(point.dtype, np.float32), copy=False)
        if not np.isfinite(point).all():
            bad = np.count_nonzero(~np.isfinite(point))
            raise DataError(f"Predictor: {bad} of {point.size} predictions are NaN or infinite; check model and inputs")
        return Intervals(point, point - self.radius, point + self.radius)


def evaluate(residuals: FloatArray, radius: float | FloatArray) -> Evaluation:
    """Return coverage and width per client of test residuals (K, n), for one radius or one a client.

    Paper: sec:synth, coverage and width
    """
    table = np.asarray(residuals)
    if table.ndim != 2 or table.shape[1] == 0:
        raise DataError(f"evaluate: residuals have shape {table.shape}; must be (clients, samples), samples at least 1")
    if np.isnan(table).any():
        raise DataError(f"evaluate: {np.isnan(table).sum()} of {table.size} residuals are NaN; check model and data")
    radii = np.broadcast_to(np.asarray(radius, dtype=np.float64), (len(table),))
    return Evaluation((np.abs(table) <= radii[:, None]).mean(axis=1), 2 * radii)
