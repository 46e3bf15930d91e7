"""Sign flip: walk the other way."""

from __future__ import annotations

from prism_fcp.train.attack.strength import strength_of
from prism_fcp.types import AttackView, FloatArray, UpdateAttack


def sign_flip(scale: float = 1.0, probability: float = 1.0) -> UpdateAttack:
    """Upload the global model minus `scale` times the own update, which is the step the client should have sent.

    Knows nothing but its own model and the global one. Reference: Li et al. 2019 (RSA).
    """
    strength_of("sign_flip", "scale", scale)

    def forge(view: AttackView) -> FloatArray:
        forged: FloatArray = view.previous - view.own.dtype.type(scale) * (view.own - view.previous)
        return forged

    return UpdateAttack("sign_flip", probability, frozenset(), forge)
