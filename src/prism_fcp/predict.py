"""Phase 3: intervals around the predictions of any model.

The life cycle is `Predictor(model)`, `.conformalize(calibration)`, `.predict_interval(x)`; a predictor never
changes, each step returns a new one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from prism_fcp.calibrate.calibration import Calibration, ClientId
from prism_fcp.calibrate.model_hash import Hashable, model_hash
from prism_fcp.calibrate.quantile import Level
from prism_fcp.calibrate.radius_file import load_radii, save_radii
from prism_fcp.calibrate.radius_table import PerClient, RadiusTable, Unknown
from prism_fcp.errors import DataError, SettingError
from prism_fcp.evaluation import Evaluation, evaluate
from prism_fcp.types import FloatArray


class Predicts(Protocol):
    """A fitted model, such as a scikit-learn estimator."""

    def predict(self, inputs: Any, /) -> Any:
        """Return one number for each row of the inputs."""
        ...


Model: TypeAlias = "Predicts | Callable[[Any], Any]"
Radii: TypeAlias = "RadiusTable | Calibration | float | Mapping[float, float]"


class Intervals(NamedTuple):
    """Points (n,) and the ends of their intervals (n, 2, L), one layer a confidence level: MAPIE's shapes."""

    point: FloatArray
    bounds: NDArray[np.float64]

    @property
    def lower(self) -> NDArray[np.float64]:
        """Return the lower ends (n,) at the first level."""
        return self.bounds[:, 0, 0]

    @property
    def upper(self) -> NDArray[np.float64]:
        """Return the upper ends (n,) at the first level."""
        return self.bounds[:, 1, 0]


def precomputed(predictions: ArrayLike) -> ArrayLike:
    """Return the predictions that were given in place of inputs: the model of a predictor that needs none."""
    return predictions


@dataclass(frozen=True, eq=False)  # no slots: in Python 3.11 they break the error on assigning a property
class Predictor:
    """A model (an object with `predict`, a function, or none: then inputs are predictions) and its radii.

    The model that predicts must be the one whose residuals were calibrated: a radius from local models around the
    global model's predictions covers less than it says. With `sigma` (a model of its own, or one number for each row)
    the scores must be `normalised_residual` and an interval is prediction ± radius·sigma.
    """

    predict: Model = precomputed
    radii: Radii | None = None
    sigma: Model | ArrayLike | None = None

    def __post_init__(self) -> None:
        """Refuse a model that is none, and read the radii."""
        if isinstance(self.predict, type) or not _is_model(self.predict):
            raise SettingError(
                f"Predictor: predict={self.predict!r:.80}; give a function of the inputs, such as model.predict, "
                "or a fitted model"
            )
        if isinstance(self.sigma, type | str):
            raise SettingError(f"Predictor: sigma={self.sigma!r:.80}; give a function, a fitted model, or an array")
        if self.radii is None:
            return
        object.__setattr__(self, "radii", RadiusTable.of(self.radii, score=self._score))
        if self._table.score != self._score:
            remedy = "give sigma, too" if self.sigma is None else "leave sigma out, or calibrate normalised_residual"
            raise SettingError(f"Predictor: the radii are of the score {self._table.score!r}; {remedy}")

    @property
    def radius(self) -> float | None:
        """Return the radius at the first level, None before calibration."""
        return None if self.radii is None else self._table.levels[0].radius

    @property
    def confidence_levels(self) -> tuple[float | None, ...]:
        """Return the levels calibrated for, in the order of the layers of intervals."""
        return () if self.radii is None else tuple(level for level, _ in self._table.levels)

    def conformalize(
        self,
        calibration: Radii,
        *,
        per_client: PerClient = False,
        model: Hashable | None = None,
        spec_hash: str = "",
        provenance: Mapping[str, str] | None = None,
    ) -> Predictor:
        """Return this predictor with the radii of a calibration (or a radius, or a mapping level -> radius).

        `per_client=True` adds each client's own radius, from its counts; a mapping client -> scores makes them exact.
        `model` (see `model_hash`), `spec_hash` and `provenance` go into the predictor file.
        """
        table = RadiusTable.of(
            calibration,
            per_client=per_client,
            score=self._score,
            model=model,
            spec_hash=spec_hash,
            provenance=provenance,
        )
        return replace(self, radii=table)

    def predict_interval(
        self,
        inputs: Any,
        confidence_level: Level | Sequence[Level] | None = None,
        *,
        client: ClientId | None = None,
        unknown: Unknown = "refuse",
    ) -> Intervals:
        """Return a prediction for each row with [prediction - radius, prediction + radius] at each level.

        All calibrated levels unless some are named. `client` asks for that client's own radius; one that has none is
        an error that says why, or, with `unknown="global"`, gets the radius of all.

        Paper: Alg. 1, phase 3
        """
        radii = self._table.radii(confidence_level, client=client, unknown=unknown)
        point, sigma = self._answers(inputs)
        bounds = np.empty((len(radii), 2, len(point)))  # all lower ends side by side: written in two thirds of the time
        with np.errstate(over="ignore"):  # an end beyond every float is infinite
            for radius, ends in zip(radii, bounds, strict=True):
                half = radius if sigma is None else sigma * radius
                np.subtract(point, half, out=ends[0])
                np.add(point, half, out=ends[1])
        return Intervals(point, bounds.transpose(2, 1, 0))

    def evaluate(
        self,
        clients: Mapping[ClientId, tuple[Any, ArrayLike]],
        *,
        confidence_level: Level | Sequence[Level] | None = None,
        groups: Mapping[ClientId, ArrayLike] | None = None,
        per_client: bool = False,
        unknown: Unknown = "refuse",
    ) -> Evaluation:
        """Return what the intervals are worth on clients' test data, `(inputs, y)` for each; see `evaluate`."""
        table, told = self._table, {}
        for name, (inputs, y) in clients.items():
            point, sigma = self._answers(inputs)
            told[name] = (y, point) if sigma is None else (y, point, sigma)
        return evaluate(
            told, table, confidence_level=confidence_level, groups=groups, per_client=per_client, unknown=unknown
        )

    def save(self, path: Path | str) -> None:
        """Write what is not the model: radii by level and client, score, model hash, spec hash and provenance."""
        save_radii(Path(path), self._table)

    @classmethod
    def load(
        cls,
        path: Path | str,
        model: Model = precomputed,
        *,
        model_hash: Hashable | None = None,
        sigma: Model | ArrayLike | None = None,
    ) -> Predictor:
        """Return the predictor of a file around `model`, whose hash must be the one in the file, if there is one."""
        table = load_radii(Path(path))
        _check_hash(Path(path), table.model_hash, model_hash)
        return cls(model, table, sigma)

    @property
    def _score(self) -> str:
        return "absolute_residual" if self.sigma is None else "normalised_residual"

    @property
    def _table(self) -> RadiusTable:
        if not isinstance(self.radii, RadiusTable):
            raise SettingError(
                "Predictor: predict_interval before calibration; call "
                "predictor.conformalize(calibrate(scores)) and use what it returns"
            )
        return self.radii

    def _answers(self, inputs: Any) -> tuple[FloatArray, NDArray[np.float64] | None]:
        """Return points and, where there is one, sigma, both checked."""
        rows = _as_rows(inputs)
        point = _numbers("predictions", _ask(self.predict, rows), rows)
        with np.errstate(over="ignore", invalid="ignore"):
            whole = np.isfinite(np.einsum("i->", point))  # a finite sum has finite terms; faster than `sum`
        bad = 0 if whole else np.count_nonzero(~np.isfinite(point))
        if bad:
            raise DataError(f"Predictor: {bad} of {point.size} predictions are NaN or infinite; check model and inputs")
        if self.sigma is None:
            return point, None
        sigma = _numbers("sigma", _ask(self.sigma, rows) if _is_model(self.sigma) else self.sigma, point)
        wrong = np.flatnonzero(~((sigma > 0) & (sigma < inf)))
        if wrong.size:
            raise DataError(
                f"Predictor: {wrong.size} of {sigma.size} values of sigma are not positive and finite, the first "
                f"{sigma[wrong[0]]} in row {wrong[0]}; raise them to a smallest sigma of your choice"
            )
        return point, sigma.astype(np.float64, copy=False)


def _is_model(value: object) -> bool:
    return callable(getattr(value, "predict", None)) or callable(value)


def _ask(model: Any, rows: Any) -> Any:
    return model.predict(rows) if callable(getattr(model, "predict", None)) else model(rows)


def _as_rows(inputs: Any) -> Any:
    """Return lists as arrays; a data frame or a sparse matrix reaches the model as it is."""
    try:
        return np.asarray(inputs) if isinstance(inputs, list | tuple) else inputs
    except ValueError as error:
        raise DataError("Predictor: inputs are ragged; every row needs as many numbers") from error


def _numbers(what: str, told: Any, rows: Any) -> FloatArray:
    if np.ma.is_masked(told):
        raise DataError(f"Predictor: some {what} are masked; fill them or leave their rows out")
    try:
        values = np.asarray(told)
    except ValueError as error:
        raise DataError(f"Predictor: {what} are ragged; one number for each row is needed") from error
    if values.dtype.kind not in "fiu":
        raise DataError(f"Predictor: {what} have dtype {values.dtype}; they must be real numbers")
    shape = getattr(rows, "shape", None)
    wanted = len(values) if values.ndim == 1 and not shape else shape[0] if shape else "n"
    if values.shape != (wanted,):
        raise DataError(f"Predictor: {what} have shape {values.shape}; must be ({wanted},): one number for each row")
    return values.astype(np.result_type(values.dtype, np.float32), copy=False)


def _check_hash(path: Path, stored: str, given: Hashable | None) -> None:
    if given is None and stored:
        raise DataError(f"{path}: made for model {stored[:12]}...; give model_hash, the file's Path or the parameters")
    if given is None:
        return
    found = model_hash(given)
    if not stored:
        raise DataError(
            f"{path}: names no model, so {found[:12]}... cannot be checked; leave model_hash out to trust it"
        )
    if found != stored:
        raise DataError(
            f"{path}: made for model {stored[:12]}..., this is {found[:12]}...; use that model, or calibrate this one"
        )
