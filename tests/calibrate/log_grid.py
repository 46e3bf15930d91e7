"""The default log-linear grid, and federations on it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

OCTAVES = np.ldexp(1 + np.arange(64) / 64, np.arange(-30, 30)[:, None]).ravel()
EDGES = np.concatenate(([0.0], OCTAVES, [2.0**30, np.inf]))
BINS = len(EDGES) - 1


def counted(rows: Sequence[Any]) -> Any:
    return np.array([np.bincount(np.searchsorted(EDGES, own, side="right") - 1, minlength=BINS) for own in rows])


def federation(seed: int, clients: int, size: int | tuple[int, int], variety: float = 0.1) -> list[Any]:
    """Draw |normal| scores of a client's own scale; a pair of sizes is a log-uniform range."""
    rng = np.random.default_rng(seed)
    if isinstance(size, int):
        sizes = np.full(clients, size)
    else:
        sizes = np.exp(rng.uniform(np.log(size[0]), np.log(size[1]), clients)).astype(int)
    scales = np.exp(variety * rng.standard_normal(clients))
    return [scale * np.abs(rng.standard_normal(n)) for scale, n in zip(scales, sizes, strict=True)]
