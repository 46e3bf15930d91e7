"""Exact binomial limits without scipy: the beta distribution's tail, its quantile, Clopper-Pearson.

Everything is done in logarithms, because a certificate that allows for every choice a filter could have made asks for
tails far below the smallest float.
"""

from __future__ import annotations

from functools import lru_cache
from math import exp, inf, isfinite, lgamma, log, log1p, pi
from typing import Final

from prism_fcp.errors import DataError, SettingError

MOST_STEPS: Final = 10_000_000  # of the continued fraction, which needs about sqrt(max(a, b)) of them


def beta_cdf(x: float, a: float, b: float) -> float:
    """Return I_x(a, b): the probability that a Beta(a, b) variable is at most x; also P(Bin(a+b-1, x) >= a)."""
    _check_shape("beta_cdf", a, b)
    if not 0 <= x <= 1:
        raise SettingError(f"beta_cdf: x={x}; must lie in [0, 1]")
    return x if x in (0.0, 1.0) else exp(_log_tail(x, 1 - x, a, b))


def beta_quantile(p: float, a: float, b: float) -> float:
    """Return the x with I_x(a, b) = p.

    >>> round(beta_quantile(0.025, 9, 1), 6)  # 0.025 ** (1/9)
    0.663733
    """
    if not 0 <= p <= 1:
        raise SettingError(f"beta_quantile: p={p}; must lie in [0, 1]")
    if p in (0.0, 1.0):
        _check_shape("beta_quantile", a, b)
        return p
    return beta_quantile_log(log(p), a, b) if p <= 0.5 else 1 - beta_quantile_log(log1p(-p), b, a)


@lru_cache(maxsize=4096)
def beta_quantile_log(log_p: float, a: float, b: float) -> float:
    """Return the x with log I_x(a, b) = log_p, for probabilities too small for a float as well.

    Newton's method in the logit of x, where the tails are straight lines, kept inside a shrinking bracket.
    """
    _check_shape("beta_quantile_log", a, b)
    if not log_p < 0:
        raise SettingError(f"beta_quantile_log: log_p={log_p}; must be below 0")
    if log_p == -inf:
        return 0.0
    low, high, at = -inf, inf, log(a / b)
    for _ in range(200):
        x, y = (1 / (1 + exp(-at)), 1 / (1 + exp(at))) if abs(at) < 700 else (float(at > 0), float(at < 0))
        if x == 0 or y == 0:
            return x
        gap = _log_tail(x, y, a, b) - log_p
        low, high = (at, high) if gap < 0 else (low, at)
        step = gap / exp(min(_log_front(x, y, a, b) - gap - log_p, 700)) if gap else 0.0
        wanted = at - max(-8.0, min(8.0, step))
        if not low < wanted < high and low > -inf and high < inf:
            wanted = (low + high) / 2
        if abs(wanted - at) <= 4e-16 * max(1.0, abs(at)) or gap == 0:
            break
        at = wanted
    return 1 / (1 + exp(-at))


def clopper_pearson(successes: int, n: int, confidence: float = 0.95) -> tuple[float, float]:
    """Return the exact two-sided confidence interval of a binomial proportion; nothing tried gives (0, 1).

    >>> low, high = clopper_pearson(0, 10)
    >>> low, round(high, 6)  # 1 - 0.025 ** (1/10)
    (0.0, 0.308497)
    """
    if not 0 <= successes <= n:
        raise DataError(f"clopper_pearson: {successes} successes of {n}; must lie between 0 and n")
    if not 0 < confidence < 1:
        raise SettingError(f"clopper_pearson: confidence={confidence}; must lie strictly between 0 and 1")
    tail = log((1 - confidence) / 2)
    low = beta_quantile_log(tail, successes, n - successes + 1) if successes > 0 else 0.0
    high = 1 - beta_quantile_log(tail, n - successes, successes + 1) if successes < n else 1.0
    return low, high


def _log_tail(x: float, y: float, a: float, b: float) -> float:
    """Return log I_x(a, b), y = 1 - x being given because the difference would lose its digits near 1."""
    if x * (a + b + 2) <= a + 1:
        return _log_front(x, y, a, b) - log(a) + log(_fraction(x, a, b))
    return log1p(-min(exp(_log_front(x, y, a, b) - log(b)) * _fraction(y, b, a), 1 - 2**-53))


def _log_front(x: float, y: float, a: float, b: float) -> float:
    """Return log(x^a y^b / B(a, b)), after Loader (2000): differences of lgamma would lose all digits for large a."""
    n = a + b
    return (
        _stirling(n)
        - _stirling(a)
        - _stirling(b)
        - _deviance(a, n * x)
        - _deviance(b, n * y)
        + 0.5 * log(a / n * b / (2 * pi))
    )


def _deviance(at: float, mean: float) -> float:
    """Return at·log(at/mean) - at + mean, where the two are close without cancellation."""
    gap = (at - mean) / mean
    return mean * ((1 + gap) * log1p(gap) - gap) if abs(gap) < 0.5 else at * log(at / mean) - at + mean


def _stirling(z: float) -> float:
    """Return what Stirling's formula lacks: lgamma(z+1) - (z+1/2)·log z + z - log(2·pi)/2."""
    if z < 16:
        return lgamma(z + 1) - (z + 0.5) * log(z) + z - 0.5 * log(2 * pi)
    s = 1 / (z * z)
    return (1 / 12 - s * (1 / 360 - s * (1 / 1260 - s * (1 / 1680 - s / 1188)))) / z


def _fraction(x: float, a: float, b: float) -> float:
    """Return the continued fraction of the incomplete beta function by Lentz's method (DLMF 8.17.22)."""
    c, d = 1.0, 1 / (1 - (a + b) * x / (a + 1))
    value = d
    for m in range(1, MOST_STEPS):
        even = a + 2 * m
        term = m * (b - m) * x / ((even - 1) * even)
        d = 1 / (1 + term * d)
        c = 1 + term / c
        value *= c * d
        term = -(a + m) * (a + b + m) * x / (even * (even + 1))
        d = 1 / (1 + term * d)
        c = 1 + term / c
        change = c * d
        value *= change
        if abs(change - 1) < 2e-16:
            break
    return value


def _check_shape(what: str, a: float, b: float) -> None:
    if not (0 < a and 0 < b and isfinite(a + b)):
        raise SettingError(f"{what}: a={a}, b={b}; both must be positive and finite")
