"""A linear estimator in scikit-learn's manner: `partial_fit`, `coef_` and `intercept_`, whoever wrote it.

scikit-learn itself is not imported: any object with these names will do.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from prism_fcp import streams
from prism_fcp.errors import DivergedError, SettingError, did_you_mean
from prism_fcp.federation.sites.learning import Lesson, Memory, RowsSite
from prism_fcp.federation.sites.rows import Predict, SiteRows
from prism_fcp.types import FloatArray, Layer


@dataclass(frozen=True, eq=False)
class EstimatorLearner:
    """An estimator: a step is one call of `partial_fit` on a batch.

    Coefficients and intercept are all that passes from round to round. Where the estimator counts samples (`t_`, for a
    step size that falls) the count follows from the round, and where it shuffles so does its seed.
    """

    make: Callable[[], Any]
    width: int
    _blank: Any = field(init=False, repr=False)  # fitted on made-up rows once, so that it has its attributes

    def __post_init__(self) -> None:
        """Make an estimator, and see that it can be used."""
        object.__setattr__(self, "_blank", _fitted(self.make(), self.width))

    @property
    def layers(self) -> tuple[Layer, ...]:
        """Return the coefficients and, where it fits one, the intercept."""
        found = (Layer("coef_", 0, self.width),)
        return (*found, Layer("intercept_", self.width, self.width + 1)) if self._has_intercept else found

    def start(self) -> FloatArray:
        """Return zeros."""
        return np.zeros(self.layers[-1].stop, np.float32)

    def learn(self, parameters: NDArray[np.float32], memory: Memory, lesson: Lesson) -> tuple[FloatArray, Memory]:
        """Call `partial_fit` with each batch."""
        own = self._with(parameters)
        if hasattr(own, "t_"):
            own.t_ = 1.0 + lesson.seen
        for number, (batch, wanted) in enumerate(zip(lesson.inputs, lesson.targets, strict=True)):
            if "random_state" in _options(own):
                own.set_params(random_state=streams.child(lesson.key, number) % 2**32)
            try:
                own.partial_fit(batch.astype(np.float64), wanted.astype(np.float64))
            except ValueError as error:  # so it says that its coefficients overflow
                raise DivergedError(f"partial_fit: {error!s:.120}; lower the step size") from error
        parts = [own.coef_, own.intercept_] if self._has_intercept else [own.coef_]
        return np.concatenate([np.ravel(part) for part in parts]), {}

    def predictor(self, parameters: NDArray[np.float32]) -> Predict:
        """Return the estimator's predictions."""
        own = self._with(parameters)
        return lambda inputs: np.ravel(own.predict(inputs.astype(np.float64)))

    def _with(self, parameters: NDArray[np.float32]) -> Any:
        """Return an estimator of its own with these parameters."""
        own = copy.deepcopy(self._blank)
        own.coef_ = parameters[: self.width].astype(np.float64).reshape(np.shape(own.coef_))
        if self._has_intercept:
            own.intercept_ = parameters[self.width :].astype(np.float64).reshape(np.shape(own.intercept_))
        return own

    @property
    def _has_intercept(self) -> bool:
        return bool(_options(self._blank).get("fit_intercept", True))


def estimator_site(rows: SiteRows, make: Callable[[], Any], *, local_steps: int = 1, batch_size: int = 32) -> RowsSite:
    """Return a site that trains what `make()` returns, such as `SGDRegressor(learning_rate="constant")`."""
    return RowsSite(rows, EstimatorLearner(make, rows.width), local_steps, batch_size)


def _fitted(estimator: Any, width: int) -> Any:
    """Return the estimator after one call of `partial_fit`, if it is of the kind that can be shared."""
    kind, options = type(estimator).__name__, _options(estimator)
    for name in ("partial_fit", "predict"):
        if not callable(getattr(estimator, name, None)):
            known = [found for found in dir(estimator) if not found.startswith("_")]
            raise SettingError(f"{kind} has no {name}{did_you_mean(name, known[:20])}; SGDRegressor, for one, has")
    if options.get("average"):
        raise SettingError(
            f"{kind}: average={options['average']}; an average of earlier coefficients cannot be taken up again, "
            "write average=False"
        )
    try:
        estimator.partial_fit(np.eye(2, width), np.array([0.5, -0.5]))
    except (TypeError, ValueError) as error:
        raise SettingError(f"{kind}.partial_fit cannot be used ({error!s:.80}); take a regressor") from error
    if hasattr(estimator, "classes_"):
        raise SettingError(f"{kind} tells classes apart; absolute residuals need a regressor")
    for name, wanted in (("coef_", width), ("intercept_", 1)):
        if name == "intercept_" and not options.get("fit_intercept", True):
            continue
        found = np.size(getattr(estimator, name, ()))
        if found != wanted:
            raise SettingError(
                f"{kind}.{name} has {found} numbers after partial_fit on {width} features; must have {wanted}, as a "
                "linear model of one target has"
            )
    return estimator


def _options(estimator: Any) -> dict[str, Any]:
    """Return what the estimator was made with, if it says so."""
    return dict(estimator.get_params()) if hasattr(estimator, "get_params") else {}
