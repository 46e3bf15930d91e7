"""The interval width when attackers' scores stay in the pool, for the paper's three score attacks.

Paper: sec "Byzantine Attack during Calibration Phase"; tab:synthetic.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from prism_fcp.errors import SettingError, did_you_mean
from prism_fcp.theory.width import ScoreLaw, Scores, rising

ATTACKS: Final = ("efficiency", "coverage", "random")
RANGE_FACTOR: Final = 1.1  # R_max over the largest true score
_GRID = np.linspace(-4.5, 4.5, 61)
_MASSES = np.exp(-(_GRID**2) / 2) / np.exp(-(_GRID**2) / 2).sum()


class Pooled(NamedTuple):
    """What honest clients get when nobody is left out."""

    attack: str
    width: float
    coverage: float


def pooled(law: ScoreLaw, level: float, samples: int, fraction: float, attack: str, sd: float = 0.5) -> Pooled:
    """Return width and coverage when this fraction of the pooled scores is an attack's and nothing is filtered.

    Zeros (`efficiency`), the range's end (`coverage`), or max(0, r + noise) with noise of this sd (`random`), all cut
    to the range, 1.1 times the largest true score.

    Paper: tab:synthetic.
    """
    if attack not in ATTACKS:
        raise SettingError(f"unknown score attack {attack!r}{did_you_mean(attack, ATTACKS)}")
    clients = float(law.kinds.counts.sum())

    def radius(scores: Scores) -> float:
        if attack == "efficiency":
            return scores.quantile(max((level - fraction) / (1 - fraction), 0.0))
        top = RANGE_FACTOR * scores.largest(clients * samples)
        if attack == "coverage":
            return scores.quantile(level / (1 - fraction)) if level < 1 - fraction else top

        def below(at: float) -> float:
            noisy = sum(
                float(m) * scores.below(at - sd * float(z)) for m, z in zip(_MASSES, _GRID, strict=True) if at > sd * z
            )
            return (1 - fraction) * scores.below(at) + fraction * noisy

        return min(rising(lambda at: below(at) - level, 0.0, top + 5 * sd, 1e-5), top)

    found = [0.0, 0.0]
    for scores, weight in law.worlds():
        at = radius(scores)
        found[0] += weight * at
        found[1] += weight * scores.below(at)
    return Pooled(attack, 2 * found[0], found[1])


def guard_price(law: ScoreLaw, level: float, fraction: float) -> float:
    """Return by what factor a radius grows that allows for this fraction of undetected liars, all at zero.

    The guarded rank L + ceil((n - L + 1)·level) is the level b + (1 - b)·level of the pooled scores.
    """
    if not 0 <= fraction < 1:
        raise SettingError(f"guard={fraction}; must lie in [0, 1)")
    return law.radius(fraction + (1 - fraction) * level) / law.radius(level)


def bins_for(law: ScoreLaw, level: float, samples: int, coverage: float = 0.01) -> int:
    """Return how many equal bins make rounding the quantile up to its bin's end cost at most this much coverage."""
    if not 0 < coverage < 1:
        raise SettingError(f"bin_coverage={coverage}; must lie strictly between 0 and 1")
    scores = next(iter(law.worlds(whole=True)))[0]
    top = RANGE_FACTOR * scores.largest(float(law.kinds.counts.sum()) * samples)
    return int(scores.density(scores.quantile(level)) * top / coverage) + 1
