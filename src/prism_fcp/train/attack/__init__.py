"""Attacks on training. A new attack is one factory and one line here.

A user's own is registered by `UPDATE_ATTACKS["name"] = factory` before the settings that name it are made.
"""

from __future__ import annotations

from collections.abc import Callable

from prism_fcp.train.attack.alie import alie
from prism_fcp.train.attack.gaussian import gaussian
from prism_fcp.train.attack.inner_product import inner_product
from prism_fcp.train.attack.label_flip import label_flip
from prism_fcp.train.attack.mimic import edge, mimic
from prism_fcp.train.attack.min_max import min_max, min_sum
from prism_fcp.train.attack.shift import concentrate, push, shift, sleeper
from prism_fcp.train.attack.sign_flip import sign_flip
from prism_fcp.types import UpdateAttack


def none() -> UpdateAttack:
    """Return the attack that never happens."""
    return UpdateAttack("none", 0.0, frozenset(), lambda view: view.own)


UPDATE_ATTACKS: dict[str, Callable[..., UpdateAttack]] = {
    "none": none,
    "gaussian": gaussian,
    "alie": alie,
    "inner_product": inner_product,
    "sign_flip": sign_flip,
    "shift": shift,
    "sleeper": sleeper,
    "concentrate": concentrate,
    "push": push,
    "mimic": mimic,
    "edge": edge,
    "min_max": min_max,
    "min_sum": min_sum,
    "label_flip": label_flip,
}

__all__ = ["UPDATE_ATTACKS", "alie", "concentrate", "edge", "gaussian", "inner_product", "label_flip", "min_max"]
__all__ += ["min_sum", "mimic", "none", "push", "shift", "sign_flip", "sleeper"]
