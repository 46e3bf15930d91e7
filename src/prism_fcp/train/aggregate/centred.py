"""Centred clipping: an average that nobody pulls farther from where it was than others usually do."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from prism_fcp.errors import SettingError, need_number
from prism_fcp.kernels.codes import CLIP_RATE
from prism_fcp.train.aggregate.lift import admit
from prism_fcp.types import FloatArray, Rule, RuleInfo, Uploads

MOST_STEPS = 100


class CentreState(NamedTuple):
    """What the next round starts from."""

    momentum: NDArray[np.float64]  # (D,) each coordinate's last change, in the round it was last sent in
    usual: float | None  # the running median distance from the centre


def centred_clipping(factor: float = 1.0, momentum: float = 0.9, steps: int = 1) -> Rule:
    """Move a centre by the mean of the uploads' differences from it, each clipped to `factor` times the usual length.

    The centre starts at the previous model plus `momentum` times each coordinate's last change. The usual length is the
    running median of the differences', as in `clipped_median`; each is taken over the coordinates sent, and a
    coordinate moves by the mean over those who sent it. Nobody sent it: the previous value. Reference: Karimireddy et
    al. 2021; there the radius is a constant, and momentum is also the clients' own.
    """
    for name, value in (("factor", factor), ("momentum", momentum)):
        need_number(f"centred_clipping: {name}", value)
    need_number("centred_clipping: steps", steps, integer=True)
    if not 0 < factor <= 1e6:
        raise SettingError(f"centred_clipping: factor={factor}; must be positive, and at most 1e6")
    if not 0 <= momentum < 1:
        raise SettingError(f"centred_clipping: momentum={momentum}; must lie in [0, 1)")
    if not 1 <= steps <= MOST_STEPS:
        raise SettingError(f"centred_clipping: steps={steps}; must lie in 1..{MOST_STEPS}")

    def step(
        state: CentreState, uploads: Uploads, rng: np.random.Generator
    ) -> tuple[CentreState, FloatArray, RuleInfo]:
        uploads, refused = admit(uploads)
        if not len(uploads):
            told = "centred_clipping: no upload is left; the model stays as it was"
            return state, uploads.previous, RuleInfo(refused, weakened=told)
        where, size = uploads.coordinates, len(uploads.previous)
        owner = np.repeat(np.arange(len(uploads)), np.diff(uploads.offsets))
        values, count = uploads.values.astype(np.float64), np.bincount(where, minlength=size)
        centre, usual = uploads.previous + momentum * state.momentum, state.usual
        for number in range(steps):
            away = values - centre[where]
            length = np.sqrt(np.bincount(owner, np.square(away), len(uploads)))
            if number == 0:
                now = float(np.median(length))
                usual = usual * (1 + CLIP_RATE * float(np.sign(now - usual))) if usual else now
            limit = factor * (usual or 0.0)
            shrink = np.where(length > limit, limit / np.where(length > 0, length, 1), 1)[owner]
            places = np.where(shrink < 1, centre[where] + shrink * away, values)
            centre = np.bincount(where, places, size) / np.maximum(count, 1)
        model = np.where(count > 0, centre, uploads.previous).astype(uploads.previous.dtype)
        kept = CentreState(np.where(count > 0, centre - uploads.previous, state.momentum), usual)
        return kept, model, RuleInfo(refused)

    def init(dimension: int) -> Any:
        return CentreState(np.zeros(dimension), None)

    return Rule("centred_clipping", init, step, uses_rng=False)
