"""One trial's clients with rows of a table: what each trains on, calibrates with and is tested on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from prism_fcp import streams
from prism_fcp.data.partition import Rows
from prism_fcp.errors import SettingError
from prism_fcp.streams import Role
from prism_fcp.types import BoolArray, FloatArray, IntArray, Model


@dataclass(frozen=True, slots=True)
class ClientData:
    """Clients that hold rows of one table, in standardised units; `scale` takes residuals back to the target's own.

    All draws of the trial hang on `key`. Training goes through a client's rows in order, again and again.
    """

    key: int
    model: Model
    features: FloatArray  # (R, D) float32
    target: FloatArray  # (R,)
    train: IntArray  # (K, n) rows; a client with fewer repeats its own
    train_sizes: IntArray  # (K,) how many of them are its own, before they repeat
    calibration: tuple[Rows, ...]
    test: tuple[Rows, ...]
    byzantine: BoolArray  # (K,)
    scale: float = 1.0

    @classmethod
    def of(
        cls,
        key: int,
        model: Model,
        features: FloatArray,
        target: FloatArray,
        rows: list[tuple[Rows, Rows, Rows]],
        num_byzantine: int,
        scale: float = 1.0,
    ) -> ClientData:
        """Make it from each client's (train, calibration, test) rows; the Byzantine ones are a random subset."""
        longest = max(len(own[0]) for own in rows)
        return cls(
            key=key,
            model=model,
            features=np.ascontiguousarray(features, dtype=np.float32),
            target=np.ascontiguousarray(target, dtype=np.float32),
            train=np.stack([np.resize(own[0], longest) for own in rows]).astype(np.int32),
            train_sizes=np.array([len(own[0]) for own in rows], np.int32),
            calibration=tuple(own[1] for own in rows),
            test=tuple(own[2] for own in rows),
            byzantine=streams.subset(streams.child(key, Role.BYZANTINE), len(rows), num_byzantine),
            scale=scale,
        )

    @property
    def truth(self) -> FloatArray:
        """Return the model training starts from: nobody knows a true one, divergence is measured from here."""
        return self.start

    @property
    def start(self) -> FloatArray:
        """Return the parameters every client and the server start with."""
        return self.model.init(streams.child(self.key, Role.START))

    def places(self, round_number: int, steps: int, size: int) -> IntArray:
        """Return which of its rows (K, steps·size) each client learns from in this round."""
        first = (round_number - 1) * steps * size
        at = (first + np.arange(steps * size)) % self.train_sizes[:, None]
        return np.asarray(at)

    def batches(self, round_number: int, steps: int, size: int) -> tuple[FloatArray, FloatArray]:
        """Return inputs (K, steps, size, D) and targets (K, steps, size) of this round."""
        rows = np.take_along_axis(self.train, self.places(round_number, steps, size), axis=1)
        shape = (len(rows), steps, size)
        return self.features[rows].reshape(*shape, -1), self.target[rows].reshape(shape)

    def residuals(self, models: FloatArray, role: Role) -> list[FloatArray]:
        """Return each client's absolute residuals of its own model, models (K, P), on its calibration or test rows."""
        held = {Role.CALIBRATION: self.calibration, Role.TEST: self.test}[role]
        if len({len(own) for own in held}) == 1:  # all at once
            rows = np.stack(held)
            told = self.model.predict(models, self.features[rows])
            return list(np.abs(self.target[rows] - told))
        return [
            np.abs(self.target[own] - self.model.predict(mine, self.features[own]))
            for own, mine in zip(held, models, strict=True)
        ]

    def points(self, models: FloatArray, client: int, count: int) -> tuple[FloatArray, FloatArray]:
        """Return targets and predictions of a few of one client's test rows."""
        own = self.test[client][:count]
        return self.target[own], self.model.predict(models[client], self.features[own])

    def honest_training_rows(self) -> NDArray[np.int64]:
        """Return all rows that honest clients train on, each once."""
        parts = [
            own[:size] for own, size, bad in zip(self.train, self.train_sizes, self.byzantine, strict=True) if not bad
        ]
        return np.unique(np.concatenate(parts)).astype(np.int64)

    def oracle(self) -> FloatArray:
        """Return the model that one centre holding all honest clients' rows would train: the floor of a table."""
        rows = self.honest_training_rows()
        features, target = self.features[rows].astype(np.float64), self.target[rows].astype(np.float64)
        if self.model.name == "linear":
            found: Any = np.linalg.lstsq(features, target, rcond=None)[0]
            return np.asarray(found, dtype=np.float32)
        return train_centrally(self.model, self.start, features, target, streams.child(self.key, Role.CENTRAL))


def train_centrally(
    model: Model,
    start: FloatArray,
    features: FloatArray,
    target: FloatArray,
    key: int,
    *,
    step_size: float = 0.05,
    momentum: float = 0.9,
    batch: int | None = None,
    epochs: int | None = None,
) -> FloatArray:
    """Train one model on all rows with momentum and a step size that falls to zero.

    Left open: batches of 256 or an eighth of the rows, and eight passes or a thousand steps, whichever is more.
    """
    batch = min(256, max(32, len(target) // 8)) if batch is None else batch
    epochs = max(8, -(-1000 * batch // max(1, len(target)))) if epochs is None else epochs
    if epochs < 1 or batch < 1:
        raise SettingError(f"train_centrally: epochs={epochs}, batch={batch}; both must be at least 1")
    rng = streams.generator(key)
    inputs, wanted = features.astype(np.float32), target.astype(np.float32)
    own: FloatArray = start.astype(np.float32)
    speed: FloatArray = np.zeros(len(start), np.float32)
    total, done = epochs * max(1, len(target) // batch), 0
    for _ in range(epochs):
        order = rng.permutation(len(target))
        for first in range(0, max(1, len(order) - batch + 1), batch):
            rows = order[first : first + batch]
            rate = np.float32(step_size * max(0.0, 1 - done / total))
            speed = np.float32(momentum) * speed + model.gradient(own, inputs[rows], wanted[rows])
            own = own - rate * speed
            done += 1
    return own
