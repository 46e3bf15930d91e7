"""Copies and extremes of honest uploads: nothing in them could not be an honest client's."""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

import numpy as np

from prism_fcp.errors import SettingError, did_you_mean
from prism_fcp.kernels.codes import TIE
from prism_fcp.types import AttackView, FloatArray, UpdateAttack

Whom: TypeAlias = Literal["first", "noisiest"]
Side: TypeAlias = Literal["highest", "lowest"]


def mimic(whom: Whom = "first", probability: float = 1.0) -> UpdateAttack:
    """Upload a copy of one honest participant's model: of the lowest id (ids say nothing), or the one farthest out.

    Sees the full local models of the honest participants; farthest is measured from their mean. With none, the attacker
    sends its own model. Reference: Karimireddy et al. 2022.
    """
    if whom not in get_args(Whom):
        raise SettingError(f"mimic attack: unknown whom {whom!r}{did_you_mean(whom, get_args(Whom))}")

    def forge(view: AttackView) -> FloatArray:
        if view.honest is None or not len(view.honest):
            return view.own
        chosen = 0
        if whom == "noisiest":
            far = view.honest - view.honest.mean(axis=0)
            distance = np.square(far, dtype=np.float64).sum(axis=1)
            for i, one in enumerate(distance):  # two are equally far from their mean: the first of them, always
                if TIE * one > distance[chosen]:
                    chosen = i
        return np.broadcast_to(view.honest[chosen], view.own.shape)

    return UpdateAttack("mimic", probability, frozenset({"honest"}), forge)


def edge(side: Side = "highest", probability: float = 1.0) -> UpdateAttack:
    """Upload, coordinate by coordinate, the highest (lowest) value of the honest participants.

    Sees their full local models. With none, the attacker sends its own model.
    """
    if side not in get_args(Side):
        raise SettingError(f"edge attack: unknown side {side!r}{did_you_mean(side, get_args(Side))}")

    def forge(view: AttackView) -> FloatArray:
        if view.honest is None or not len(view.honest):
            return view.own
        extreme = view.honest.max(axis=0) if side == "highest" else view.honest.min(axis=0)
        return np.broadcast_to(extreme, view.own.shape)

    return UpdateAttack("edge", probability, frozenset({"honest"}), forge)
