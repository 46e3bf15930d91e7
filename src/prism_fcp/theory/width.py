"""The distribution of scores a steady state leaves, and so the interval width, before anything is trained.

Given a client's model its residual on Gaussian inputs is Gaussian, of variance sigma_k^2 + E(x.e)^2; the scores of
all clients are a mixture of their absolute values. Errors are taken for Gaussian vectors, correlated as the steady
state says; docs/theory.md measures what that leaves out.

Paper: eq:quantile; prop:width (the value itself, not a bound).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import erf, exp, pi, sqrt

import numpy as np

from prism_fcp.errors import SettingError
from prism_fcp.theory.modes import Real
from prism_fcp.theory.recursion import Kinds, Training
from prism_fcp.theory.steady import Settled, Steady

_ERF = np.frompyfunc(erf, 1, 1)
_NODES = np.polynomial.hermite_e.hermegauss(7)[0]
_WEIGHTS = np.polynomial.hermite_e.hermegauss(7)[1] / sqrt(2 * pi)


@dataclass(frozen=True, slots=True)
class Scores:
    """The law of the absolute residuals of a mixture of clients: one variance and one weight a kind."""

    variances: Real  # (G,)
    weights: Real  # (G,) add up to 1

    def below(self, at: float) -> float:
        """Return the share of scores below a point."""
        inner = at / np.sqrt(2 * np.maximum(self.variances, 1e-300))
        return float(self.weights @ _ERF(inner).astype(np.float64))

    def density(self, at: float) -> float:
        """Return the density of the scores at a point."""
        v = np.maximum(self.variances, 1e-300)
        return float(self.weights @ (np.sqrt(2 / (pi * v)) * np.exp(-at * at / (2 * v))))

    def quantile(self, level: float) -> float:
        """Return the score that this share of all scores lies below."""
        if not 0 <= level < 1:
            raise SettingError(f"Scores.quantile: level={level}; must lie in [0, 1)")
        top = 10 * float(np.sqrt(self.variances.max()))
        return rising(lambda at: self.below(at) - level, 0.0, top)

    def largest(self, number: float) -> float:
        """Return about the mean of the largest of so many scores: exp(-0.5772) of them are expected above it."""
        return self.quantile(1 - exp(-0.5772156649) / max(number, 1.0))

    def histogram(self, top: float, bins: int) -> Real:
        """Return the share of scores in each of `bins` equal bins of [0, top]; scores above it fall in the last."""
        edges = np.linspace(0, top, bins + 1)
        inner = edges[:, None] / np.sqrt(2 * np.maximum(self.variances, 1e-300))
        reached = _ERF(inner).astype(np.float64) @ self.weights
        reached[-1] = 1.0
        return np.diff(reached)


@dataclass(frozen=True, slots=True)
class ScoreLaw:
    """What scores are like over trials: the squared length of each client's error varies, partly as everybody's does.

    A Gaussian error vector's squared length is a chi-square of D degrees; two that are correlated by rho have lengths
    correlated by rho^2.
    """

    kinds: Kinds
    excess: Real  # (G,) mean of (x.e)^2
    correlation: float  # of two clients' errors
    dimension: int

    def worlds(self, *, honest: bool = True, whole: bool = False) -> Iterator[tuple[Scores, float]]:
        """Yield laws of the pooled scores, the honest clients' or everybody's, each with its weight: one a length.

        `whole` yields one alone, everybody's errors of mean length.
        """
        share = self.kinds.counts * (1 - self.kinds.byzantine) if honest else self.kinds.counts
        lengths = _lengths(self.dimension, 1 - self.correlation**2)
        weights = np.outer(share / share.sum(), _WEIGHTS).ravel()
        noise = self.kinds.noise_variances[:, None]
        common = [(1.0, 1.0)]
        if not whole:
            drawn = _lengths(self.dimension, self.correlation**2)
            common = [(float(length), float(weight)) for length, weight in zip(drawn, _WEIGHTS, strict=True)]
        for length, weight in common:
            variances = length * self.excess[:, None] * lengths + noise
            yield Scores(variances.ravel(), weights), weight

    def radius(self, level: float) -> float:
        """Return the honest clients' quantile at this level, half of the interval width.

        Paper: eq:quantile.
        """
        return sum(weight * scores.quantile(level) for scores, weight in self.worlds())


def law_of(training: Training, steady: Steady | Settled, model: str = "local") -> ScoreLaw:
    """Return the law of scores under local models, or under the global one, in a steady state."""
    if model == "local":
        return ScoreLaw(training.kinds, steady.excess, steady.correlation, training.dimension)
    return ScoreLaw(training.kinds, steady.server_excess, 1.0, training.dimension)


def _lengths(dimension: int, share: float) -> Real:
    """Return chi-squares over their degrees, D/share of them, by Wilson and Hilferty's cube of a normal."""
    spread = 2 * share / (9 * dimension)
    return np.asarray(np.maximum(1 - spread + _NODES * sqrt(spread), 0.0) ** 3)


def rising(function: Callable[[float], float], low: float, high: float, tolerance: float = 1e-10) -> float:
    """Return where a rising function crosses zero between two points, or the nearer end."""
    for _ in range(200):
        middle = (low + high) / 2
        if high - low <= tolerance * high or middle in (low, high):
            break
        low, high = (middle, high) if function(middle) < 0 else (low, middle)
    return (low + high) / 2
