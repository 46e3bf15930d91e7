"""Norm clipping before a median: no upload moves the model farther than uploads usually do."""

from __future__ import annotations

from typing import Any

import numpy as np

from prism_fcp.errors import SettingError, need_number
from prism_fcp.kernels.codes import CLIP_RATE
from prism_fcp.train.aggregate.lift import admit
from prism_fcp.train.aggregate.order import median
from prism_fcp.types import FloatArray, Rule, RuleInfo, Uploads


def clipped_median(factor: float = 1.0) -> Rule:
    """Clip each upload's change to `factor` times the running median norm, then take the coordinate-wise median.

    The running median steps 5 % towards the round's median norm, so that a round of mostly attackers moves it by 5 %
    and no more; the first round in which half the uploads change anything sets it: of a 0, 5 % are nothing, for good.
    A change is measured over the coordinates sent. Reference: Sun et al. 2019 (norm clipping), Ma et al. 2013 (the
    streaming median).
    """
    need_number("clipped_median: factor", factor)
    if not 0 < factor <= 1e6:
        raise SettingError(f"clipped_median: factor={factor}; must be positive, and at most 1e6")
    inner = median()

    def step(state: Any, uploads: Uploads, rng: np.random.Generator) -> tuple[Any, FloatArray, RuleInfo]:
        uploads, refused = admit(uploads)
        usual = state
        if len(uploads):
            owner = np.repeat(np.arange(len(uploads)), np.diff(uploads.offsets))
            change = uploads.values - uploads.previous[uploads.coordinates]
            norms = np.sqrt(np.bincount(owner, np.square(change, dtype=np.float64), len(uploads)))
            now = float(np.median(norms))
            usual = usual * (1 + CLIP_RATE * float(np.sign(now - usual))) if usual else now
            limit = factor * usual
            shrink = np.where(norms > limit, limit / np.where(norms > 0, norms, 1), 1)
            clipped = uploads.previous[uploads.coordinates] + (shrink[owner] * change).astype(change.dtype)
            clipped = np.where(shrink[owner] < 1, clipped, uploads.values)
            uploads = Uploads(uploads.client_ids, clipped, uploads.coordinates, uploads.offsets, uploads.previous)
        _, model, info = inner.step(None, uploads, rng)
        weakened = info.weakened and info.weakened.replace("median:", "clipped_median:")
        return usual, model, RuleInfo(refused, weakened=weakened)

    return Rule("clipped_median", lambda dimension: None, step, uses_rng=False)
