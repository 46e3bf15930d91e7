"""The paper's training attack: white Gaussian noise on the upload, now and then."""

from __future__ import annotations

import math

from prism_fcp.errors import SettingError
from prism_fcp.types import UpdateAttack


def gaussian(variance: float = 0.1, probability: float = 0.2) -> UpdateAttack:
    """Add N(0, variance) to every entry of the upload, with `probability` in each round a client is selected.

    Paper: sec:training_attack.
    """
    if variance < 0:
        raise SettingError(f"gaussian attack: variance={variance}; must be 0 or more")
    check_probability("gaussian", probability)
    spread = math.sqrt(variance)
    return UpdateAttack(
        "gaussian", probability, frozenset(), lambda view: view.own + view.own.dtype.type(spread) * view.normals
    )


def check_probability(name: str, probability: float) -> None:
    """Raise `SettingError` unless this is a probability."""
    if not 0 <= probability <= 1:
        raise SettingError(f"{name} attack: probability={probability}; must lie in [0, 1]")
