"""What a client does with its own data."""

from __future__ import annotations

import numpy as np

from prism_fcp.types import FloatArray, Model


def lms_step(models: FloatArray, inputs: FloatArray, targets: FloatArray, step_size: float) -> FloatArray:
    """Return the models (..., D) after one least-mean-squares step on one sample each.

    Paper: Alg. 1, phase 1.
    """
    errors = targets - np.einsum("...d,...d->...", models, inputs)
    stepped: FloatArray = models + (models.dtype.type(step_size) * errors)[..., None] * inputs
    return stepped


def sgd_steps(
    model: Model,
    models: FloatArray,
    speeds: FloatArray,
    inputs: FloatArray,
    targets: FloatArray,
    step_size: float,
    momentum: float,
) -> tuple[FloatArray, FloatArray]:
    """Return models and speeds (n, P) after a step of gradient descent on each batch: inputs (n, steps, batch, D).

    A step: speed <- momentum·speed + gradient, model <- model - step_size·speed. Without momentum the speeds stay as
    they were.
    """
    for step in range(inputs.shape[1]):
        slope = model.gradient(models, inputs[:, step], targets[:, step])
        if momentum:
            speeds = slope = models.dtype.type(momentum) * speeds + slope
        models = models - models.dtype.type(step_size) * slope
    return models, speeds
