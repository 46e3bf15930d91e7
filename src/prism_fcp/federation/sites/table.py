"""A model of this package, linear, mlp or your own, trained on one site's rows by gradient descent."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from prism_fcp import streams
from prism_fcp.errors import DataError, SettingError, need_number
from prism_fcp.federation.sites.learning import Lesson, Memory, RowsSite
from prism_fcp.federation.sites.rows import Predict, SiteRows
from prism_fcp.streams import Role
from prism_fcp.tables import factories
from prism_fcp.train.local import sgd_steps
from prism_fcp.types import Choice, FloatArray, Layer, Model

SPEED = "speed"  # what momentum is remembered by


@dataclass(frozen=True, slots=True, eq=False)
class ModelLearner:
    """A `Model` and gradient descent on half the mean squared error. One linear step on one row is LMS."""

    model: Model
    step_size: float
    momentum: float = 0.0
    start_key: int = 0  # what the first parameters hang on, the same at every site

    def __post_init__(self) -> None:
        """Refuse what cannot work."""
        for name in ("step_size", "momentum"):
            need_number(name, getattr(self, name))
        if not self.step_size > 0:
            raise SettingError(f"step_size={self.step_size}; must be positive")
        if not 0 <= self.momentum < 1:
            raise SettingError(f"momentum={self.momentum}; must lie in [0, 1)")

    @property
    def layers(self) -> tuple[Layer, ...]:
        """Return the model's."""
        return self.model.layers

    def start(self) -> FloatArray:
        """Return the model's first parameters."""
        return self.model.init(streams.child(self.start_key, Role.START))

    def learn(self, parameters: NDArray[np.float32], memory: Memory, lesson: Lesson) -> tuple[FloatArray, Memory]:
        """Take a step of gradient descent on each batch.

        Paper: Alg. 1, phase 1
        """
        if not memory.keys() <= ({SPEED} if self.momentum else set()):
            raise DataError(f"{sorted(memory)} is remembered; with momentum={self.momentum:g} that cannot be used")
        speed = memory.get(SPEED, np.zeros_like(parameters))
        made, speeds = sgd_steps(
            self.model, parameters[None], speed[None], lesson.inputs[None], lesson.targets[None],
            self.step_size, self.momentum,
        )  # fmt: skip
        return made[0], {SPEED: speeds[0]} if self.momentum else {}

    def predictor(self, parameters: NDArray[np.float32]) -> Predict:
        """Return the model's predictions."""
        return lambda inputs: self.model.predict(parameters, inputs)


def table_site(
    rows: SiteRows,
    model: Model | Choice | str = "linear",
    *,
    step_size: float,
    local_steps: int = 1,
    batch_size: int = 1,
    momentum: float = 0.0,
    start_key: int = 0,
) -> RowsSite:
    """Return a site that trains a model of this package, by name or made already."""
    if isinstance(model, Choice | str):
        choice = Choice.of(model, "model")
        model = choice.build(factories(rows.width), "model")
    learner = ModelLearner(model, step_size, momentum, start_key)
    return RowsSite(rows, learner, local_steps, batch_size)
