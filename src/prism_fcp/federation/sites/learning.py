"""A site made of its rows and a learner: what is the same whatever the model is written in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from prism_fcp import streams
from prism_fcp.errors import DataError, DivergedError, SettingError, need_number
from prism_fcp.federation.sites.agree import Agreed
from prism_fcp.federation.sites.rows import Predict, SiteRows, naming
from prism_fcp.streams import Role
from prism_fcp.types import FloatArray, Layer

Memory: TypeAlias = dict[str, FloatArray]


class Lesson(NamedTuple):
    """What a learner is handed in a round, all of it in the units agreed on."""

    inputs: FloatArray  # (steps, batch, D) float32
    targets: FloatArray  # (steps, batch)
    key: int  # what else is drawn in this round hangs on it
    seen: int  # rows learnt from in the rounds before


class Learner(Protocol):
    """A model and how it learns. It keeps nothing from one call to the next: what it must know it is handed."""

    @property
    def layers(self) -> tuple[Layer, ...]:
        """Return the named stretches of the flat vector; the last one's stop is its length."""
        ...

    def start(self) -> FloatArray:
        """Return the parameters everybody starts with, the same at every site."""
        ...

    def learn(self, parameters: NDArray[np.float32], memory: Memory, lesson: Lesson) -> tuple[FloatArray, Memory]:
        """Return parameters and memory after a step on each batch; neither of those it is handed is changed."""
        ...

    def predictor(self, parameters: NDArray[np.float32]) -> Predict:
        """Return the function that predicts with these parameters."""
        ...


@dataclass(eq=False)
class RowsSite:
    """A `Site` with rows: each round is `local_steps` steps of its learner on `batch_size` rows each."""

    rows: SiteRows
    learner: Learner
    local_steps: int = 1
    batch_size: int = 1
    _own: SiteRows = field(init=False, repr=False)  # the rows in the units agreed on, drawn from the key that was told
    _memory: Memory = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        """Refuse what cannot work."""
        for name in ("local_steps", "batch_size"):
            need_number(name, getattr(self, name), integer=True)
            if not 1 <= getattr(self, name) <= 1_000_000:
                raise SettingError(f"{name}={getattr(self, name)}; must lie in 1..1,000,000")
        self._own = self.rows

    @property
    def layers(self) -> tuple[Layer, ...]:
        """Return the learner's."""
        return self.learner.layers

    @property
    def samples(self) -> int:
        """Return how many rows it trains on."""
        return len(self.rows.train)

    def start(self) -> FloatArray:
        """Return the parameters everybody starts with."""
        return np.array(self.learner.start(), dtype=np.float32)

    def step(self, parameters: FloatArray, round_number: int) -> FloatArray:
        """Return the parameters after this round's steps.

        Paper: Alg. 1, phase 1
        """
        own = self._taken(parameters, "parameters")
        inputs, targets = self._own.batches(round_number, self.local_steps, self.batch_size)
        key = streams.child(self._own.key, Role.SAMPLES, 1, round_number)
        lesson = Lesson(inputs, targets, key, (round_number - 1) * self.local_steps * self.batch_size)
        with (
            np.errstate(over="ignore", invalid="ignore"),
            naming(self.rows.name),
        ):  # what is not finite is refused, below
            made, memory = self.learner.learn(own, dict(self._memory), lesson)
        done = self._finite(made, round_number)
        self._memory = {name: self._finite(kept, round_number) for name, kept in memory.items()}
        return done

    def scores(self, parameters: FloatArray) -> NDArray[np.float64]:
        """Return the absolute residuals of the calibration rows, in the target's own units.

        Paper: Alg. 1, phase 2
        """
        return self._own.scores(self.learner.predictor(self._taken(parameters, "parameters")))

    def evaluate(self, parameters: FloatArray, radius: float) -> tuple[int, int, float]:
        """Return how many test rows lie within the radius, of how many, and their mean absolute error."""
        return self._own.evaluate(self.learner.predictor(self._taken(parameters, "parameters")), radius)

    def memory(self) -> dict[str, FloatArray]:
        """Return what the learner remembers, such as momentum."""
        return {name: kept.copy() for name, kept in self._memory.items()}

    def recall(self, memory: Mapping[str, FloatArray]) -> None:
        """Take it up again."""
        self._memory = {name: self._taken(kept, f"memory {name!r}") for name, kept in memory.items()}

    def describe(self) -> dict[str, Any]:
        """Describe the training rows' columns, in their own units."""
        return self.rows.describe().to_json()

    def standardise(self, units: Mapping[str, Any]) -> None:
        """Bring the rows to the units agreed on."""
        self._own = replace(self.rows.standardised(Agreed.of_json(units)), key=self._own.key)

    def draw_from(self, key: int) -> None:
        """Let all draws of training hang on this key; which row is for what stays as it is."""
        self._own = replace(self._own, key=key)

    def _taken(self, values: Any, what: str) -> NDArray[np.float32]:
        """Return a copy of a flat vector from outside, if it is one."""
        told, size = np.asarray(values), self.layers[-1].stop
        if told.dtype.kind != "f" or told.shape != (size,):
            raise DataError(
                f"site {self.rows.name!r}: {what} of shape {told.shape} and type {told.dtype}; must be {size} floats, "
                "as this site's model has"
            )
        with np.errstate(over="ignore"):  # a float64 beyond float32 becomes infinite, and is refused
            copy = np.array(told, dtype=np.float32)
        bad = np.count_nonzero(~np.isfinite(copy))
        if bad:
            raise DataError(f"site {self.rows.name!r}: {bad} of {size} {what} are NaN or infinite; they must be finite")
        return copy

    def _finite(self, made: FloatArray, round_number: int) -> NDArray[np.float32]:
        """Return what a step made, unless it left the region where numbers mean anything."""
        size = self.layers[-1].stop
        with np.errstate(over="ignore"):
            done = np.array(made, dtype=np.float32)  # a copy: the learner may keep what it made
        if done.shape != (size,):
            raise DataError(f"site {self.rows.name!r}: a step made shape {done.shape}; the model has {size} parameters")
        bad = np.count_nonzero(~np.isfinite(done))
        if bad:
            raise DivergedError(
                f"site {self.rows.name!r}: round {round_number} left {bad} of {size} parameters NaN or infinite; lower "
                "the step size"
            )
        return done
