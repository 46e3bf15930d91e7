"""When the paper proves that known-count filtering is exact: its theorem, and the theorem on observed histograms."""

from __future__ import annotations

from math import log, nan, sqrt
from typing import NamedTuple

import numpy as np

from prism_fcp.errors import DataError, SettingError, need_number
from prism_fcp.types import BoolArray, FloatArray, IntArray


class Detection(NamedTuple):
    """Both sides of the theorem's condition, and what they are made of."""

    separation: float  # Delta: how far the attackers' mean histogram lies from the honest one
    honest_radius: float  # r_b: how far an honest histogram may stray
    attack_radius: float  # r_a: how far an attacking one strays from the attackers' mean
    nearest: float  # gamma: least distance of an attacker to an honest client
    farthest: float  # Gamma: the most
    left: float  # (K_b - 1)·gamma
    right: float  # B·Gamma + (K_b - 1 - B)·2 r_b
    sentence: str

    @property
    def holds(self) -> bool:
        """Return whether the theorem applies: filtering is then exact but for its failure probabilities."""
        return self.left > self.right


def histogram_radius(size: float, bins: int, failure_probability: float = 0.05) -> float:
    """Return how far a histogram of `size` scores may stray from its mean: sqrt(H/2)·sqrt(log(2H/delta)/n).

    No two histograms are farther apart than sqrt(2), so a larger radius says nothing.

    Paper: lem:hist-concentration
    """
    need_number("histogram_radius: bins", bins, integer=True)
    if not size > 0 or bins < 1 or not 0 < failure_probability < 1:
        raise SettingError(
            f"histogram_radius: size={size}, bins={bins}, failure_probability={failure_probability}; the first two "
            "must be positive and the last must lie strictly between 0 and 1"
        )
    return sqrt(bins / 2) * sqrt(log(2 * bins / failure_probability) / size)


def honest_radius(
    smallest_size: float, bins: int, num_honest: int, failure_probability: float = 0.05, drift: float = 0.0
) -> float:
    """Return r_b: the radius of all honest histograms at once, plus `drift`, what training error adds.

    Paper: eq:rb-def
    """
    if num_honest < 1 or drift < 0:
        raise SettingError(f"honest_radius: num_honest={num_honest}, drift={drift}; must be at least 1 and 0")
    return histogram_radius(smallest_size, bins, failure_probability / num_honest) + drift


def margin(separation: float, honest_radius: float, attack_radius: float) -> float:
    """Return the least distance between an attacking and an honest histogram; negative says nothing.

    Paper: prop:margin
    """
    return separation - honest_radius - attack_radius


def detection_condition(
    num_clients: int, num_byzantine: int, separation: float, honest_radius: float, attack_radius: float = 0.0
) -> Detection:
    """Return the theorem's condition: attackers score above (K_b - 1)·gamma, honest clients below the right side.

    Paper: thm:detection; eq:score-sep
    """
    honest = num_clients - num_byzantine
    if num_byzantine < 0 or honest < 1:
        raise SettingError(
            f"detection_condition: num_byzantine={num_byzantine} of {num_clients} clients; must be at least 0 and "
            "leave an honest one"
        )
    nearest = margin(separation, honest_radius, attack_radius)
    farthest = separation + attack_radius + honest_radius
    left = (honest - 1) * nearest
    right = num_byzantine * farthest + (honest - 1 - num_byzantine) * 2 * honest_radius
    if num_byzantine >= honest - 1:
        left = min(left, right)  # the theorem assumes B < K_b - 1
        sentence = f"vacuous: the theorem needs fewer attackers than {honest - 1}, and there are {num_byzantine}"
    elif left > right:
        sentence = f"the theorem applies: {left:.3g} > {right:.3g}, so the filter left out exactly the attackers"
    else:
        sentence = f"vacuous: the theorem needs {left:.3g} > {right:.3g}, so it says nothing about this filtering"
    return Detection(separation, honest_radius, attack_radius, nearest, farthest, left, right, sentence)


def misfiltering(detection: Detection, failure_probability: float = 0.05, attack_failure: float = 0.0) -> float:
    """Return the theorem's bound on the chance that filtering is not exact: delta + delta_a, or 1 where it is silent.

    Paper: thm:detection.
    """
    if not (0 <= failure_probability <= 1 and 0 <= attack_failure <= 1):
        raise SettingError(
            f"misfiltering: failure_probability={failure_probability}, attack_failure={attack_failure}; both must lie "
            "in [0, 1]"
        )
    return min(failure_probability + attack_failure, 1.0) if detection.holds else 1.0


def needed_samples(
    num_clients: int,
    num_byzantine: int,
    separation: float,
    bins: int,
    *,
    attack_radius: float = 0.0,
    drift: float = 0.0,
    failure_probability: float = 0.05,
) -> int:
    """Return the least number of calibration scores a client with which the theorem's condition holds.

    Solved for r_b: (K_b - 1)(Delta - r_a) - B(Delta + r_a) > (K_b - 1 + B + 2(K_b - 1 - B))·r_b.

    Paper: thm:detection; eq:score-sep
    """
    honest = num_clients - num_byzantine
    if num_byzantine < 0 or num_byzantine >= honest - 1:
        raise SettingError(
            f"needed_samples: num_byzantine={num_byzantine} of {num_clients} clients; the theorem needs fewer than "
            f"{max((num_clients - 1) / 2, 0):g} attackers"
        )
    gap = (honest - 1) * (separation - attack_radius) - num_byzantine * (separation + attack_radius)
    most = gap / (honest - 1 + num_byzantine + 2 * (honest - 1 - num_byzantine))
    if not most > drift:
        raise SettingError(
            f"needed_samples: separation={separation:.3g} with attack_radius={attack_radius:.3g} leaves the honest "
            f"radius less than {max(most, 0):.3g}, and drift={drift:.3g} alone fills it: no number of samples is enough"
        )
    need_number("needed_samples: bins", bins, integer=True)
    least = bins / 2 * log(2 * bins * honest / failure_probability) / (most - drift) ** 2
    return int(least) + 1


def observed_detection(
    shares: FloatArray, kept: BoolArray, sizes: IntArray, failure_probability: float = 0.05
) -> Detection:
    """Return the theorem's condition with what was observed put in for what is unknown.

    The clients left out stand for the attackers, the kept ones' mean share for the honest mean histogram, the largest
    distance of a left-out client from their mean for r_a, and training error for nothing. That is a plug-in and no
    proof: it takes the verdict for true, and it is the most favourable reading. Where even this is vacuous, the
    theorem has nothing to say; where it holds, it holds if the verdict was right.

    Paper: thm:detection; prop:margin; eq:score-sep
    """
    table, stay = np.asarray(shares, dtype=np.float64), np.asarray(kept, dtype=np.bool_)
    numbers = np.asarray(sizes)
    if table.ndim != 2 or stay.shape != table.shape[:1] or numbers.shape != stay.shape:
        raise DataError(
            f"observed_detection: shares have shape {table.shape}, with {stay.size} verdicts and {numbers.size} sizes; "
            "one of each for every client is needed"
        )
    if not stay.any():
        raise DataError("observed_detection: every client was left out; there is no honest mean to compare with")
    radius = honest_radius(float(numbers[stay].min()), table.shape[1], int(stay.sum()), failure_probability)
    if stay.all():
        nothing = "vacuous: no client was left out, and of attackers that stayed the theorem says nothing"
        return Detection(nan, radius, nan, nan, nan, nan, nan, nothing)
    honest_mean, attack_mean = table[stay].mean(axis=0), table[~stay].mean(axis=0)
    separation = float(np.linalg.norm(attack_mean - honest_mean))
    attack_radius = float(np.linalg.norm(table[~stay] - attack_mean, axis=1).max())
    return detection_condition(len(table), int((~stay).sum()), separation, radius, attack_radius)
