"""Attacks on training. A new attack is one factory and one line here.

A user's own is registered by `UPDATE_ATTACKS["name"] = factory` before the settings that name it are made.
"""

from __future__ import annotations

from collections.abc import Callable

from prism_fcp.train.attack.alie import alie
from prism_fcp.train.attack.gaussian import gaussian
from prism_fcp.types import UpdateAttack


def none() -> UpdateAttack:
    """Return the attack that never happens."""
    return UpdateAttack("none", 0.0, frozenset(), lambda view: view.own)


UPDATE_ATTACKS: dict[str, Callable[..., UpdateAttack]] = {"none": none, "gaussian": gaussian, "alie": alie}

__all__ = ["UPDATE_ATTACKS", "alie", "gaussian", "none"]
