"""How loose the paper's bounds are: each beside the thing it bounds, over a grid; the table of docs/theory.md.

`python benchmarks/bounds.py` draws Gaussian inputs and noise; a client's model errs by a fixed vector of given length.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from math import pi, sqrt
from typing import NamedTuple

import numpy as np

from prism_fcp.theory.coverage import paper_bounds, prism_bounds
from prism_fcp.theory.detection import detection_condition, histogram_radius, honest_radius, margin, misfiltering
from prism_fcp.theory.drift import calibration_bias, histogram_drift
from prism_fcp.theory.quantiles import (
    neighbourhood,
    quantile_bound,
    quantile_bound_of_parts,
    quantile_stability,
    residual_bound,
    width_bound,
    width_inflation_bound,
)
from prism_fcp.theory.steady import Parts
from prism_fcp.theory.width import Scores

LEVEL = 0.9
DRAWS = 20_000


class Measured(NamedTuple):
    """A bound and what it bounds, or the largest of many such things."""

    label: str
    bound: float
    truth: float
    vacuous: bool


def world(dimension: int, spread: float, noise: float, length: float, rng: np.random.Generator) -> Iterator[Measured]:
    """Yield the bounds on residuals, quantiles, widths and histograms for one model that errs by this length."""
    error = rng.standard_normal(dimension)
    error *= length / np.linalg.norm(error)
    x = sqrt(spread) * rng.standard_normal((DRAWS, dimension))
    nu = sqrt(noise) * rng.standard_normal(DRAWS)
    moved, true = np.abs(nu - x @ error), np.abs(nu)
    norms = np.linalg.norm(x, axis=1)
    ratio = np.abs(moved - true) / (norms * length)
    worst = int(ratio.argmax())
    yield Measured("lem:residual-lip", residual_bound(norms[worst], length), abs(moved - true)[worst], False)

    one = np.ones(1)
    clean, dirty = Scores(noise * one, one), Scores((noise + spread * length**2) * one, one)
    at, energy = clean.quantile(LEVEL), spread * dimension
    shift = dirty.quantile(LEVEL) - at
    tries = [neighbourhood(clean, LEVEL, reach) for reach in at * np.geomspace(0.01, 3, 40)]

    def best(bound):
        found = [bound(near) for near in tries]
        silent = [b for b in found if not b.vacuous]
        return min(silent or found, key=lambda b: b.value)

    b = best(lambda near: quantile_stability(float(np.abs(moved - true).mean()), near))
    yield Measured("thm:quantile-stability", b.value, shift, b.vacuous)
    b = best(lambda near: quantile_bound(energy, length**2, near))
    yield Measured("cor:quantile-ps", b.value, shift, b.vacuous)
    parts = Parts(0.3 * length**2, 0.7 * length**2, 0.0)
    b = best(lambda near: quantile_bound_of_parts(energy, parts, near))
    yield Measured("cor:quantile-exact", b.value, shift, b.vacuous)
    b = best(lambda near: width_bound(energy, length**2, near))
    yield Measured("prop:width", b.value, 2 * shift, b.vacuous)
    b = best(lambda near: width_inflation_bound(energy, parts, near))
    yield Measured("eq:PhiM-bound", b.value, 2 * shift, b.vacuous)
    pooled = 20_000
    gap = np.abs(
        np.quantile(np.abs(rng.standard_normal((40, pooled))), LEVEL, axis=1) * sqrt(noise + spread * length**2) - at
    )
    b = best(lambda near: calibration_bias(energy, length**2, near, pooled).corrected)
    yield Measured("cor:calib-bias, with the sample's term", b.value, float(np.quantile(gap, 0.95)), b.vacuous)
    b = best(lambda near: calibration_bias(energy, length**2, near, pooled).printed)
    yield Measured("cor:calib-bias, printed", b.value, float(np.quantile(gap, 0.95)), b.vacuous)

    bins, top = 100, 1.1 * float(moved.max())
    drift = float(np.linalg.norm(dirty.histogram(top, bins) - clean.histogram(top, bins)))
    density = sqrt(2 / (pi * noise))
    for constant in ("printed", "corrected"):
        b = histogram_drift(bins, density, energy, length, constant)
        yield Measured(f"lem:hist-lip, {constant}", b.value, drift, b.vacuous)


def samples(bins: int, size: int, rng: np.random.Generator) -> Iterator[Measured]:
    """Yield the bounds on samples of histograms: 80 honest clients, 20 that send zeros, no training error."""
    law = Scores(np.ones(1), np.ones(1)).histogram(4.0, bins)
    honest = rng.multinomial(size, law, size=80) / size
    radius = honest_radius(size, bins, 80)
    strays = np.linalg.norm(honest - law, axis=1)
    one = histogram_radius(size, bins)
    yield Measured("lem:hist-concentration", one, float(np.quantile(strays, 0.95)), one >= sqrt(2))
    yield Measured("eq:rb-def", radius, float(strays.max()), radius >= sqrt(2))
    zeros = np.eye(bins)[0]
    separation = float(np.linalg.norm(zeros - law))
    gap = float(np.linalg.norm(honest - zeros, axis=1).min())
    least = margin(separation, radius, 0.0)
    yield Measured("prop:margin (from below)", gap, max(least, 0.0) or np.nan, least <= 0)
    found = detection_condition(100, 20, separation, radius)
    scores = np.linalg.norm(honest[:, None] - honest[None], axis=-1)
    to_zeros = np.linalg.norm(honest - zeros, axis=1)
    theirs = np.sort(np.concatenate([to_zeros, np.zeros(19)]))[-79:].sum()
    ours = max(
        np.sort(np.concatenate([row, np.full(20, t)]))[-79:].sum() for row, t in zip(scores, to_zeros, strict=True)
    )
    wrong = float(ours >= theirs)
    yield Measured("thm:detection (misfiltering)", misfiltering(found), wrong, not found.holds)
    coverage = [
        Scores(np.ones(1), np.ones(1)).below(float(np.quantile(np.abs(rng.standard_normal(80 * size)), LEVEL)))
        for _ in range(40)
    ]
    off = max(abs(c - LEVEL) for c in coverage)
    bounds = paper_bounds(100, 20, size, bins)
    yield Measured("cor:coverage-bounds", max(bounds.delta_lower, bounds.delta_upper), off, bounds.vacuous)
    bounds = prism_bounds(100, 20, size, bins, found)
    yield Measured("cor:prism-bounds", max(bounds.delta_lower, bounds.delta_upper), off, bounds.vacuous)


def grid() -> list[Measured]:
    """Return every bound at every point."""
    rng = np.random.default_rng(1)
    found: list[Measured] = []
    for dimension, spread, noise, length in product((5, 50), (0.2, 1.2), (0.005, 0.025), (1e-8, 1e-5, 1e-3, 0.03, 0.6)):
        found += world(dimension, spread, noise, length, rng)
    for bins, size in product((10, 30, 100), (100, 1000, 10_000, 100_000)):
        found += samples(bins, size, rng)
    return found


def main() -> None:
    found = grid()
    print("| label | points | bound / truth: least, median, most | vacuous at | broken at |")
    print("|---|---|---|---|---|")
    for label in dict.fromkeys(m.label for m in found):
        own = [m for m in found if m.label == label]
        ratios = np.array([m.bound / m.truth for m in own if m.truth > 0 and np.isfinite(m.truth)])
        broken = sum(m.bound < m.truth * (1 - 1e-9) for m in own)
        told = f"{ratios.min():.3g}, {np.median(ratios):.3g}, {ratios.max():.3g}" if len(ratios) else "-"
        print(f"| {label} | {len(own)} | {told} | {sum(m.vacuous for m in own)} | {broken} |")


if __name__ == "__main__":
    main()
