"""What a client does with its own data."""

from __future__ import annotations

import numpy as np

from prism_fcp.types import FloatArray


def lms_step(models: FloatArray, inputs: FloatArray, targets: FloatArray, step_size: float) -> FloatArray:
    """Return the models (..., D) after one least-mean-squares step on one sample each.

    Paper: Alg. 1, phase 1.
    """
    errors = targets - np.einsum("...d,...d->...", models, inputs)
    stepped: FloatArray = models + (models.dtype.type(step_size) * errors)[..., None] * inputs
    return stepped
