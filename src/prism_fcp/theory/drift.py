"""How far training error moves a histogram of scores, and how far honest clients' histograms lie apart.

Paper: lem:hist-lip; rem:non-iid.
"""

from __future__ import annotations

from math import log, sqrt
from typing import Literal, NamedTuple, TypeAlias

import numpy as np

from prism_fcp.errors import DataError, SettingError, did_you_mean
from prism_fcp.theory.bound import Bound, need_at_least, need_share
from prism_fcp.theory.quantiles import Neighbourhood, quantile_bound
from prism_fcp.types import FloatArray

Constant: TypeAlias = Literal["printed", "corrected"]
FARTHEST = sqrt(2)  # two histograms are never farther apart


def bin_constant(bins: int, constant: Constant = "corrected") -> float:
    """Return C_bin: 2·sqrt(2(H+1)) as printed, 4·sqrt(H+1) as the argument supports.

    The proof takes sqrt(2) for the norm of the first-difference matrix, because each row holds a 1 and a -1; that
    bounds its rows. Its norm is 2·cos(pi/(2(H+1))), which comes close to 2.

    Paper: lem:hist-lip.
    """
    need_at_least("bin_constant", 1, bins=bins)
    if constant not in ("printed", "corrected"):
        raise SettingError(f"unknown constant {constant!r}{did_you_mean(constant, ('printed', 'corrected'))}")
    return 2 * sqrt(2 * (bins + 1)) if constant == "printed" else 4 * sqrt(bins + 1)


def histogram_drift(
    bins: int, most_density: float, input_energy: float, model_distance: float, constant: Constant = "corrected"
) -> Bound:
    """Return how far a client's mean histogram lies from the true model's when its model is this far from the truth.

    `most_density` bounds the density of a residual given its input, in the unit of the bins; `input_energy` is
    L_x^2 = E||x||^2.

    Paper: lem:hist-lip.
    """
    need_at_least("histogram_drift", 0, most_density=most_density)
    need_at_least("histogram_drift", 0, input_energy=input_energy, model_distance=model_distance)
    value = bin_constant(bins, constant) * most_density * sqrt(input_energy) * model_distance
    return Bound(value, FARTHEST, "the drift of a histogram")


def unlikeness(histograms: FloatArray) -> float:
    """Return how far the clients' mean histograms (K, H) lie from their average at most.

    The bounds take it for 0. Where clients differ it adds to the honest radius like a drift.

    Paper: rem:non-iid.
    """
    table = np.asarray(histograms, dtype=np.float64)
    if table.ndim != 2 or not len(table):
        raise DataError(f"unlikeness: histograms have shape {table.shape}; one row a client is needed")
    return float(np.linalg.norm(table - table.mean(axis=0), axis=1).max())


class Bias(NamedTuple):
    """The quantile after filtering against the true model's: as printed, and with what the sample adds."""

    training: float
    adversaries: float
    sample: float  # not in the paper
    reach: float

    @property
    def printed(self) -> Bound:
        """Return the corollary as it stands: 0 for a perfect model and filter, where the sample still fluctuates."""
        return Bound(self.training + self.adversaries, self.reach, "the quantile's bias, as printed,")

    @property
    def corrected(self) -> Bound:
        """Return it with the sample's term."""
        return Bound(self.training + self.adversaries + self.sample, self.reach, "the quantile's bias")


def calibration_bias(
    input_energy: float,
    deviation: float,
    near: Neighbourhood,
    pooled_samples: int,
    *,
    filter_failure: float = 0.0,
    score_range: float = 1.0,
    failure_probability: float = 0.05,
) -> Bias:
    """Return how far the calibrated quantile lies from the true model's: by training error, attackers, and the sample.

    The sample's term is (sqrt(log(2/delta)/(2N)) + 1/N)/f_min, after Dvoretzky, Kiefer, Wolfowitz and Massart; it
    holds but for `failure_probability`.

    Paper: cor:calib-bias.
    """
    need_at_least("calibration_bias", 1, pooled_samples=pooled_samples)
    need_at_least("calibration_bias", 0, filter_failure=filter_failure, score_range=score_range)
    need_share("calibration_bias", failure_probability=failure_probability)
    training = quantile_bound(input_energy, deviation, near)
    shares = sqrt(log(2 / failure_probability) / (2 * pooled_samples)) + 1 / pooled_samples
    least = max(near.least_density, 1e-300)
    return Bias(training.value, score_range * min(filter_failure, 1.0), shares / least, training.most)
