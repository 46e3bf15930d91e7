"""y = w.x, without a bias: standardise the target instead."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from prism_fcp.types import FloatArray, Layer


@dataclass(frozen=True, slots=True)
class Linear:
    """A linear model of so many features.

    Paper: eq1
    """

    num_features: int

    @property
    def name(self) -> str:
        """Return the kind of model."""
        return "linear"

    @property
    def layers(self) -> tuple[Layer, ...]:
        """Return its one stretch."""
        return (Layer("weights", 0, self.num_features),)

    def init(self, key: int) -> FloatArray:
        """Return zeros."""
        return np.zeros(self.num_features, np.float32)

    def predict(self, models: FloatArray, inputs: FloatArray) -> FloatArray:
        """Return w.x."""
        return np.asarray(np.matmul(inputs, models[..., None])[..., 0])

    def gradient(self, models: FloatArray, inputs: FloatArray, targets: FloatArray) -> FloatArray:
        """Return the mean of -(y - w.x)·x over the samples."""
        errors = self.predict(models, inputs) - targets
        return np.asarray(np.matmul(errors[..., None, :], inputs)[..., 0, :] / inputs.dtype.type(inputs.shape[-2]))


def linear(num_features: int) -> Linear:
    """Return a linear model without bias."""
    return Linear(num_features)
