"""Score attacks: what a Byzantine client reports in place of its scores.

A factory returns a `ScoreAttack`; its `forge` turns a view into the reported scores. Reports are not clipped here:
the server's range does that. `sees` declares what an attack must be given beside its own scores, so nobody draws
normals, or computes what honest clients hold, for an attacker that does not use it.

The paper's three shout. The others whisper: colluders near the honest, a poisoned part, a stretched tail, a copy.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import lru_cache
from math import erf, sqrt
from typing import Final, Literal, NamedTuple, TypeAlias, get_args

import numpy as np

from prism_fcp.errors import SettingError, did_you_mean, need_number
from prism_fcp.types import FloatArray, T

Fold: TypeAlias = Literal["clip", "reflect"]
MOST: Final = 1e15  # strengths beyond it only overflow float32
HONEST_SHAPE: Final = 5.0  # colluders think of honest scores as Beta(2, 5)


@dataclass(frozen=True, slots=True)
class ScoreAttackView:
    """What a score attacker is handed; the optional parts only where its `sees` names them."""

    own: FloatArray  # the attackers' true scores (b, n)
    upper: float | None = None  # the range R_max the server announced
    honest_mean: float | None = None  # mean score of the honest clients
    normals: FloatArray | None = None  # (b, n) standard normals: the attack's randomness
    honest: FloatArray | None = None  # the honest clients' scores (h, n)
    quantiles: FloatArray | None = None  # (m,) ascending: quantiles of the honest clients' mixture at (i + 1/2)/m


class ScoreAttack(NamedTuple):
    """A calibration attack: the reported scores are `forge(view)`, of the shape of `view.own`."""

    name: str
    sees: frozenset[str]  # the view's parts it needs beside `own`
    forge: Callable[[ScoreAttackView], FloatArray]

    def report(self, view: ScoreAttackView) -> FloatArray:
        """Return what it forges; a report that no client could send is its author's mistake, and told to him."""
        known = [part.name for part in fields(view) if part.name != "own"]
        for part in self.sees.difference(known):
            raise SettingError(f"score attack {self.name!r}: sees {part!r}{did_you_mean(part, known)}")
        scores = np.asarray(self.forge(view))
        if scores.shape != view.own.shape:
            raise SettingError(
                f"score attack {self.name!r}: it forged scores of shape {scores.shape} from {view.own.shape}; return "
                "as many as view.own has"
            )
        wrong = ~(np.isfinite(scores) & (scores >= 0))
        if wrong.any():
            raise SettingError(
                f"score attack {self.name!r}: it forged {scores[wrong][0]} ({wrong.sum()} of {wrong.size} scores are "
                "negative, NaN or infinite); scores must be 0 or more and finite"
            )
        return scores


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


def collusion(shape: float = 3.5) -> ScoreAttack:
    """Report draws of a distribution near the honest one, the same for all colluders: Beta(2, shape) for Beta(2, 5).

    Where honest scores have another distribution, with quantiles Q, a draw x of Beta(2, shape) becomes Q(F(x)), F being
    the distribution function of Beta(2, 5). A shape below 5 makes intervals grow, one above makes them shrink.
    """
    need_number("score attack 'collusion': shape", shape)
    if not 0.1 <= shape <= 1000:
        raise SettingError(f"score attack 'collusion': shape={shape}; must lie in [0.1, 1000], 5 being honest")

    def forge(view: ScoreAttackView) -> FloatArray:
        levels = _warped(_normal_cdf(_given(view.normals, "normals")), shape)
        table = _given(view.quantiles, "quantiles")
        drawn = np.interp(levels, (np.arange(len(table)) + 0.5) / len(table), table)
        return np.asarray(drawn, dtype=view.own.dtype)

    return ScoreAttack("collusion", frozenset({"normals", "quantiles"}), forge)


def partial(fraction: float = 0.3, multiple: float = 0.0) -> ScoreAttack:
    """Replace this fraction of one's own scores by `multiple` times the honest mean; the others stay true."""
    need_number("score attack 'partial': fraction", fraction)
    need_number("score attack 'partial': multiple", multiple)
    if not 0 <= fraction <= 1:
        raise SettingError(f"score attack 'partial': fraction={fraction}; must lie in [0, 1]")
    if not 0 <= multiple <= MOST:
        raise SettingError(f"score attack 'partial': multiple={multiple}; must be 0 or more, and at most {MOST:g}")

    def forge(view: ScoreAttackView) -> FloatArray:
        reported = view.own.copy()
        lie = multiple * _given(view.honest_mean, "honest_mean") if multiple else 0.0
        reported[:, : round(fraction * view.own.shape[1])] = lie
        return reported

    return ScoreAttack("partial", frozenset({"honest_mean"} if multiple else ()), forge)


def tail(factor: float = 3.0, above: float = 0.8) -> ScoreAttack:
    """Stretch one's own scores above one's own quantile `above`, q, to q + factor·(score - q); the bulk stays true."""
    need_number("score attack 'tail': factor", factor)
    need_number("score attack 'tail': above", above)
    if not 0 <= factor <= MOST:
        raise SettingError(f"score attack 'tail': factor={factor}; must be 0 or more, and at most {MOST:g}")
    if not 0 <= above <= 1:
        raise SettingError(f"score attack 'tail': above={above}; a quantile's level must lie in [0, 1]")

    def forge(view: ScoreAttackView) -> FloatArray:
        start = np.quantile(view.own, above, axis=1, keepdims=True).astype(view.own.dtype)
        return np.where(view.own > start, start + view.own.dtype.type(factor) * (view.own - start), view.own)

    return ScoreAttack("tail", frozenset(), forge)


def copy(factor: float = 1.0) -> ScoreAttack:
    """Report an honest client's scores, each attacker another one's while there are enough, times `factor`."""
    need_number("score attack 'copy': factor", factor)
    if not 0 <= factor <= MOST:
        raise SettingError(f"score attack 'copy': factor={factor}; must be 0 or more, and at most {MOST:g}")

    def forge(view: ScoreAttackView) -> FloatArray:
        honest = _given(view.honest, "honest")
        return view.own.dtype.type(factor) * honest[np.arange(len(view.own)) % len(honest)]

    return ScoreAttack("copy", frozenset({"honest"}), forge)


SCORE_ATTACKS: Final[dict[str, Callable[..., ScoreAttack]]] = {
    "none": none,
    "efficiency": efficiency,
    "coverage": coverage,
    "random": random,
    "collusion": collusion,
    "partial": partial,
    "tail": tail,
    "copy": copy,
}  # a user's own joins by assignment


def _given(value: T | None, name: str) -> T:
    if value is None:
        raise SettingError(f"score attack: the view lacks {name!r}; hand over everything the attack's `sees` names")
    return value


def _normal_cdf(normals: FloatArray) -> FloatArray:
    flat = [0.5 * (1 + erf(z / sqrt(2))) for z in np.ravel(normals).tolist()]
    return np.array(flat).reshape(np.shape(normals))


def _warped(uniforms: FloatArray, shape: float) -> FloatArray:
    """Turn uniforms into F(x), x their quantiles under Beta(2, shape) and F the distribution function of Beta(2, 5)."""
    levels, honest = _beta_table(shape)
    return np.interp(uniforms, levels, honest)


@lru_cache(maxsize=16)
def _beta_table(shape: float) -> tuple[FloatArray, FloatArray]:
    """Return both distribution functions on one fine grid: 1 - (1 - x)^b (1 + b x) is that of Beta(2, b)."""
    x = np.linspace(0, 1, 100_001)
    return 1 - (1 - x) ** shape * (1 + shape * x), 1 - (1 - x) ** HONEST_SHAPE * (1 + HONEST_SHAPE * x)
