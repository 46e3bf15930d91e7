"""A multi-layer perceptron with ReLU and one output, its gradient written out for whole federations at once."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import Any

import numpy as np

from prism_fcp import streams
from prism_fcp.errors import SettingError, need_number
from prism_fcp.types import FloatArray, Layer


@dataclass(frozen=True, slots=True)
class MLP:
    """Fully connected layers `num_features -> hidden... -> 1`; a layer is its weights, row by row, then its biases.

    Paper: tab:nonlinear_results
    """

    num_features: int
    hidden: tuple[int, ...] = (64, 64)

    @property
    def name(self) -> str:
        """Return the kind of model."""
        return "mlp"

    @property
    def widths(self) -> tuple[tuple[int, int], ...]:
        """Return (inputs, outputs) of each layer."""
        sizes = (self.num_features, *self.hidden, 1)
        return tuple(zip(sizes[:-1], sizes[1:], strict=True))

    @property
    def layers(self) -> tuple[Layer, ...]:
        """Return a stretch for each layer's weights and biases together."""
        found, start = [], 0
        for number, (rows, columns) in enumerate(self.widths, 1):
            stop = start + (rows + 1) * columns
            found.append(Layer(f"layer {number} ({rows}x{columns})", start, stop))
            start = stop
        return tuple(found)

    def init(self, key: int) -> FloatArray:
        """Return weights and biases uniform within 1/sqrt(inputs), each layer of its own, from the key alone."""
        rng = streams.generator(key)
        parts = [rng.uniform(-1, 1, (rows + 1) * columns) / sqrt(rows) for rows, columns in self.widths]
        return np.concatenate(parts).astype(np.float32)

    def predict(self, models: FloatArray, inputs: FloatArray) -> FloatArray:
        """Return the output of the last layer."""
        return np.asarray(self.forward(np, models, inputs)[-1][..., 0])

    def forward(self, xp: Any, models: Any, inputs: Any) -> list[Any]:
        """Return inputs and each layer's output, computed with `xp`, numpy or jax.numpy."""
        return self.through(xp, self.parts(models), inputs)

    def through(self, xp: Any, parts: list[tuple[Any, Any]], inputs: Any) -> list[Any]:
        """Return the same for weights and biases that are apart already."""
        outputs = [inputs]
        for number, (weights, biases) in enumerate(parts, 1):
            mixed = xp.matmul(outputs[-1], weights) + biases[..., None, :]
            outputs.append(mixed if number == len(self.widths) else xp.maximum(mixed, 0))
        return outputs

    def parts(self, models: Any) -> list[tuple[Any, Any]]:
        """Return (weights (..., in, out), biases (..., out)) of each layer: views of the flat vectors."""
        found = []
        for (rows, columns), layer in zip(self.widths, self.layers, strict=True):
            cut = layer.start + rows * columns
            weights = models[..., layer.start : cut].reshape(*models.shape[:-1], rows, columns)
            found.append((weights, models[..., cut : layer.stop]))
        return found

    def gradient(self, models: FloatArray, inputs: FloatArray, targets: FloatArray) -> FloatArray:
        """Return the gradient of half the mean squared error, by backpropagation."""
        outputs = self.forward(np, models, inputs)
        flow = ((outputs[-1][..., 0] - targets) / inputs.dtype.type(inputs.shape[-2]))[..., None]
        found = np.empty_like(models)
        for number in reversed(range(len(self.widths))):
            weights, biases = self.parts(found)[number]
            np.matmul(np.swapaxes(outputs[number], -1, -2), flow, out=weights)
            flow.sum(axis=-2, out=biases)
            if number:
                kept, _ = self.parts(models)[number]
                flow = np.matmul(flow, np.swapaxes(kept, -1, -2)) * (outputs[number] > 0)
        return found


def mlp(num_features: int, hidden: tuple[int, ...] = (64, 64)) -> MLP:
    """Return a perceptron with these hidden layers."""
    for width in hidden:
        need_number("mlp: hidden", width, integer=True)
        if not 1 <= width <= 100_000:
            raise SettingError(f"mlp: hidden={list(hidden)}; each width must lie in 1..100,000")
    return MLP(num_features, tuple(hidden))
