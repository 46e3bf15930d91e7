"""The paper's training attack: white Gaussian noise on the upload, now and then."""

from __future__ import annotations

import math
from typing import Final

from prism_fcp.errors import SettingError, need_number
from prism_fcp.types import AttackView, FloatArray, UpdateAttack

MOST: Final = 1e30  # louder noise overflows float32, and rules refuse it anyway


def gaussian(variance: float = 0.1, probability: float = 0.2) -> UpdateAttack:
    """Add N(0, variance) to every entry of the upload, with `probability` in each round a client is selected.

    Paper: sec:training_attack.
    """
    need_number("gaussian attack: variance", variance)
    if not 0 <= variance <= MOST:
        raise SettingError(f"gaussian attack: variance={variance}; must be 0 or more, and at most {MOST:g}")
    spread = math.sqrt(variance)

    def forge(view: AttackView) -> FloatArray:
        if view.normals is None:
            raise SettingError(
                "gaussian attack: the view lacks 'normals'; hand over everything the attack's `sees` names"
            )
        return view.own + view.own.dtype.type(spread) * view.normals

    return UpdateAttack("gaussian", probability, frozenset({"normals"}), forge)
