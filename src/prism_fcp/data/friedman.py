"""Friedman's first function: five inputs matter, five do not.

y = 10 sin(pi x1 x2) + 20 (x3 - 1/2)^2 + 10 x4 + 5 x5 + noise, inputs uniform on [0, 1]. Reference: Friedman 1991.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from prism_fcp.data.table import Table

FEATURES: Final = 10


def friedman(rows: int, rng: np.random.Generator, noise: float = 1.0) -> Table:
    """Return so many samples."""
    inputs = rng.random((rows, FEATURES))
    target = signal(inputs) + noise * rng.standard_normal(rows)
    return Table(inputs, target, tuple(f"x{place + 1}" for place in range(FEATURES)), "y")


def signal(inputs: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return y without its noise."""
    x = inputs.T
    return np.asarray(10 * np.sin(np.pi * x[0] * x[1]) + 20 * (x[2] - 0.5) ** 2 + 10 * x[3] + 5 * x[4])
