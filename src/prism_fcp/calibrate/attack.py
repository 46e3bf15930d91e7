"""Score attacks: what a Byzantine client reports in place of its scores.

A factory returns a `ScoreAttack`; its `forge` turns a view into the reported scores. Reports are not clipped here:
the server's range does that. `sees` declares what an attack must be given beside its own scores, so nobody draws
normals, or computes what honest clients hold, for an attacker that does not use it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple, TypeAlias, get_args

import numpy as np

from prism_fcp.errors import SettingError, did_you_mean, need_number
from prism_fcp.types import FloatArray, T

Fold: TypeAlias = Literal["clip", "reflect"]
MOST: Final = 1e15  # strengths beyond it only overflow float32


@dataclass(frozen=True, slots=True)
class ScoreAttackView:
    """What a score attacker is handed; the optional parts only where its `sees` names them."""

    own: FloatArray  # the attackers' true scores (b, n)
    upper: float | None = None  # the range R_max the server announced
    honest_mean: float | None = None  # mean score of the honest clients
    normals: FloatArray | None = None  # (b, n) standard normals: the attack's randomness


class ScoreAttack(NamedTuple):
    """A calibration attack: the reported scores are `forge(view)`, of the shape of `view.own`."""

    name: str
    sees: frozenset[str]  # subset of {"upper", "honest_mean", "normals"}
    forge: Callable[[ScoreAttackView], FloatArray]


def none() -> ScoreAttack:
    """Report the truth."""
    return ScoreAttack("none", frozenset(), lambda view: view.own)


def efficiency(level: float = 0.0) -> ScoreAttack:
    """Report the normalised score `level` throughout, zero unless told: intervals shrink, coverage is lost.

    Paper: sec "Byzantine Attack during Calibration Phase", efficiency attack
    """
    need_number("score attack 'efficiency': level", level)
    if not 0 <= level <= 1:
        raise SettingError(f"score attack 'efficiency': level={level}; a normalised score must lie in [0, 1]")
    if level == 0:
        return ScoreAttack("efficiency", frozenset(), lambda view: np.zeros_like(view.own))
    return ScoreAttack(
        "efficiency", frozenset({"upper"}), lambda view: np.full_like(view.own, level * _given(view.upper, "upper"))
    )


def coverage(multiple: float = 10.0, at_range: bool = False) -> ScoreAttack:
    """Report `multiple` times the honest mean throughout (or, with `at_range`, R_max): intervals grow vacuous.

    The two readings agree wherever the multiple lies above R_max, which then clips it.

    Paper: sec "Byzantine Attack during Calibration Phase", coverage attack; sec:synth
    """
    need_number("score attack 'coverage': multiple", multiple)
    if not 0 < multiple <= MOST:
        raise SettingError(f"score attack 'coverage': multiple={multiple}; must be positive and at most {MOST:g}")
    if at_range:
        return ScoreAttack(
            "coverage", frozenset({"upper"}), lambda view: np.full_like(view.own, _given(view.upper, "upper"))
        )
    return ScoreAttack(
        "coverage",
        frozenset({"honest_mean"}),
        lambda view: np.full_like(view.own, multiple * _given(view.honest_mean, "honest_mean")),
    )


def random(sd: float = 0.5, fold: Fold = "clip") -> ScoreAttack:
    """Report score + sd·normal, made non-negative: `clip` gives max(0, ·), `reflect` its absolute value.

    Clipping leaves a spike at zero, and the filter lives on that spike; reflecting all but hides the attack.

    Paper: sec "Byzantine Attack during Calibration Phase", random attack (sd is σ_C)
    """
    need_number("score attack 'random': sd", sd)
    if not 0 <= sd <= MOST:
        raise SettingError(
            f"score attack 'random': sd={sd}; a standard deviation must be 0 or more, and at most {MOST:g}"
        )
    if fold not in get_args(Fold):
        raise SettingError(f"score attack 'random': unknown fold {fold!r}{did_you_mean(fold, get_args(Fold))}")

    def forge(view: ScoreAttackView) -> FloatArray:
        noisy = view.own + view.own.dtype.type(sd) * _given(view.normals, "normals")
        return np.maximum(noisy, 0) if fold == "clip" else np.abs(noisy)

    return ScoreAttack("random", frozenset({"normals"}), forge)


SCORE_ATTACKS: Final[dict[str, Callable[..., ScoreAttack]]] = {
    "none": none,
    "efficiency": efficiency,
    "coverage": coverage,
    "random": random,
}  # a user's own joins by assignment


def _given(value: T | None, name: str) -> T:
    if value is None:
        raise SettingError(f"score attack: the view lacks {name!r}; hand over everything the attack's `sees` names")
    return value
