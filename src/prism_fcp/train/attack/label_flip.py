"""Label flip: the attack on data, not on uploads."""

from __future__ import annotations

from prism_fcp.train.attack.strength import strength_of
from prism_fcp.types import UpdateAttack


def label_flip(factor: float = -1.0) -> UpdateAttack:
    """Let Byzantine clients learn from targets times `factor`, and upload what they learned.

    Knows nothing. The only attack that reaches the attackers' own models; what they send is not changed on the way, so
    it injects uploads but no energy. Reference: Tolpegin et al. 2020.
    """
    strength_of("label_flip", "factor", factor)
    return UpdateAttack("label_flip", 1.0, frozenset(), lambda view: view.own, target_factor=float(factor))
