"""A Little Is Enough: hide inside the spread of the honest updates."""

from __future__ import annotations

from typing import Final

import numpy as np

from prism_fcp.errors import SettingError, need_number
from prism_fcp.types import AttackView, FloatArray, UpdateAttack

MOST: Final = 1e15


def alie(z: float = 0.5, probability: float = 1.0) -> UpdateAttack:
    """Upload the honest participants' mean minus `z` of their standard deviations, coordinate by coordinate.

    Sees the full local models of the honest participants of the round (not only what they send). With none to
    imitate, the attacker sends its own model. Reference: Baruch et al. 2019.

    Paper: tab:alie_results.
    """
    need_number("alie attack: z", z)
    if abs(z) > MOST:
        raise SettingError(f"alie attack: z={z}; must lie in -{MOST:g}..{MOST:g}")

    def forge(view: AttackView) -> FloatArray:
        if view.honest is None or not len(view.honest):
            return view.own
        forged = view.honest.mean(axis=0) - view.own.dtype.type(z) * view.honest.std(axis=0)
        return np.broadcast_to(forged, view.own.shape)

    return UpdateAttack("alie", probability, frozenset({"honest"}), forge)
