"""Inner product manipulation: turn the honest participants' mean update round."""

from __future__ import annotations

import numpy as np

from prism_fcp.train.attack.strength import strength_of
from prism_fcp.types import AttackView, FloatArray, UpdateAttack


def inner_product(strength: float = 2.0, probability: float = 1.0) -> UpdateAttack:
    """Upload the global model minus `strength` times the honest participants' mean update.

    Sees the full local models of the honest participants of the round. With none, the attacker sends its own model.
    Reference: Xie et al. 2019, "Fall of Empires".
    """
    strength_of("inner_product", "strength", strength)

    def forge(view: AttackView) -> FloatArray:
        if view.honest is None or not len(view.honest):
            return view.own
        update = view.honest.mean(axis=0) - view.previous
        return np.broadcast_to(view.previous - view.own.dtype.type(strength) * update, view.own.shape)

    return UpdateAttack("inner_product", probability, frozenset({"honest"}), forge)
