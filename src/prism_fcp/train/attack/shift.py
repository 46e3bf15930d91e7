"""Constant shifts: from the first round on, after a long sleep, or all of it where the round's mask looks."""

from __future__ import annotations

import math

import numpy as np

from prism_fcp.errors import SettingError, need_number
from prism_fcp.train.attack.strength import strength_of
from prism_fcp.types import AttackView, FloatArray, UpdateAttack


def shift(size: float = 1.0, probability: float = 1.0) -> UpdateAttack:
    """Add `size` to every entry of the upload: all attackers pull the same way, always.

    Knows nothing. Its energy is size squared a coordinate.
    """
    strength_of("shift", "size", size)
    return UpdateAttack("shift", probability, frozenset(), lambda view: view.own + view.own.dtype.type(size))


def sleeper(size: float = 1.0, after: int = 700, probability: float = 1.0) -> UpdateAttack:
    """Upload honestly up to and with round `after`, then add `size` to every entry: trust is earned, then spent.

    Knows nothing but the round's number. Until it wakes it counts as injecting nothing of energy.
    """
    strength_of("sleeper", "size", size)
    need_number("sleeper attack: after", after, integer=True)
    if after < 0:
        raise SettingError(f"sleeper attack: after={after}; must be 0 or more")

    def forge(view: AttackView) -> FloatArray:
        return view.own + view.own.dtype.type(size) if view.round > after else view.own

    return UpdateAttack("sleeper", probability, frozenset(), forge)


def concentrate(size: float = 0.1, probability: float = 1.0) -> UpdateAttack:
    """Spend the energy of a `shift` of this size on the coordinates of the round's mask alone.

    Each of the M entries sent gets size * sqrt(D/M): the adaptive adversary who knows the mask, whose harm partial
    sharing does not attenuate. Sees the attackers' masks of the round.

    Paper: eq:per-iteration-attenuation (what it takes for granted).
    """
    strength_of("concentrate", "size", size)

    def forge(view: AttackView) -> FloatArray:
        if view.masks is None:
            raise SettingError("concentrate attack: the view lacks 'masks'; hand over what the attack's `sees` names")
        count = np.maximum(view.masks.sum(axis=1, keepdims=True), 1)
        gain = np.sqrt(view.own.shape[1] / count) * size
        forged: FloatArray = view.own + view.masks * gain.astype(view.own.dtype)
        return forged

    return UpdateAttack("concentrate", probability, frozenset({"masks"}), forge)


def push(size: float = 1.0, probability: float = 1.0) -> UpdateAttack:
    """Add to the upload the direction of the global model's present error, `size` in root mean square an entry.

    Sees the true model, as no real attacker does: the worst direction there is for a model that echoes. Without an
    error it shifts nothing.
    """
    strength_of("push", "size", size)

    def forge(view: AttackView) -> FloatArray:
        if view.truth is None:
            raise SettingError("push attack: the view lacks 'truth'; hand over what the attack's `sees` names")
        error = view.previous - view.truth
        length = math.sqrt(float(np.square(error, dtype=np.float64).sum()))
        gain = 0.0 if length == 0 else size * math.sqrt(len(error)) / length
        forged: FloatArray = view.own + view.own.dtype.type(gain) * error.astype(view.own.dtype)
        return forged

    return UpdateAttack("push", probability, frozenset({"truth"}), forge)
