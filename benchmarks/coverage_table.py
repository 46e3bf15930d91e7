"""Coverage over repeated draws against the certificate, for every attack: `python benchmarks/coverage_table.py`.

Each draw makes a federation's scores anew, counts them on the default grid, filters, takes the radius and asks for the
certificate of the number of liars that were kept. True coverage of the honest clients' mixtures is computed from their
distributions (half-normals), not from test scores.
"""

from __future__ import annotations

import argparse
import sys
import time
from math import erf, log, sqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from prism_fcp.calibrate.certificate import Bounds, worst_case
from prism_fcp.calibrate.filter import known_count, mad
from prism_fcp.calibrate.guard import guard
from prism_fcp.calibrate.judgement import Filter, FilterContext
from prism_fcp.calibrate.masses import pool_counts
from prism_fcp.calibrate.quantile import bracket_from_histogram

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]
Flags = NDArray[np.bool_]

# The octaves of the default grid that are occupied, its other bins joined to the first and the last, until the grid has
# its module: then EDGES and `count` are that grid's.
LOWEST, HIGHEST, STEPS = -8, 5, 64
INNER = (2.0 ** np.arange(LOWEST, HIGHEST)[:, None] * (1 + np.arange(STEPS) / STEPS)).reshape(-1)
EDGES = np.concatenate(([0.0], INNER, [2.0**HIGHEST, np.inf]))
BINS = len(EDGES) - 1
FIRST = ((1023 + LOWEST) << 6) - 1  # a float's exponent and first six binary digits number the bins
LEVEL, CONFIDENCE = 0.9, 0.95
CLIENTS = 100
ATTACKS = ("zeros", "maxima", "random")


class Setting(NamedTuple):
    name: str
    sizes: Counts
    spread: float  # of the clients' scales, as the sd of their logarithm


class Tally(NamedTuple):
    kept: list[float]  # coverage of the kept honest mixture
    everyone: list[float]  # of all honest clients
    bounds: list[Bounds]  # of the kept
    wide: list[Bounds]  # of everyone
    twentieth: list[float]  # width of the bounds of the kept if 5 % of the mass lies
    liars: list[int]
    guarded: list[float]  # coverage with the guarded radius of all clients, nobody filtered
    price: list[float]

    @classmethod
    def empty(cls) -> Tally:
        return cls(*([] for _ in cls._fields))

    def add(self, counts: Counts, cap: Floats, liar: Flags, sizes: Counts, scale: Floats, chosen: Filter) -> None:
        """Take in one draw: its certificate for the number of liars that were kept, and what is true."""
        weights = chosen.weigh(counts / sizes[:, None], sizes, FilterContext()).weights * cap
        inside = int((liar & (weights > 0)).sum())
        options = {"liars": (inside,), "fractions": (0.05,), "confidence": CONFIDENCE, "as_if_kept": cap}
        row, twentieth = worst_case(counts, weights, EDGES, LEVEL, **options)
        radius = radius_at(counts, weights)
        self.kept.append(covered(radius, scale, weights * ~liar * sizes))
        self.everyone.append(covered(radius, scale, cap * ~liar * sizes))
        self.bounds.append(row.kept)
        self.wide.append(row.everyone)
        self.twentieth.append(twentieth.kept.most - twentieth.kept.least)
        self.liars.append(inside)
        # The guard's promise is for a given set: nobody is filtered, and it is told the mass the liars hold.
        mass = cap * sizes
        guarded = guard(counts, cap, EDGES, LEVEL, min(float(mass[liar].sum() / mass.sum()) * (1 + 1e-9), 0.999))
        self.guarded.append(covered(guarded.radius, scale, mass * ~liar))
        self.price.append(guarded.price)


def covered(radius: float, scale: Floats, masses: Floats) -> float:
    """Return the chance that a score of this mixture of half-normals lies below the radius."""
    return float(masses @ [erf(radius / s / sqrt(2)) for s in scale.tolist()] / masses.sum())


def settings() -> list[Setting]:
    rng = np.random.default_rng(0)
    mixed = np.exp(rng.uniform(log(5), log(5000), CLIENTS)).astype(np.int64)
    mixed[:2] = 5, 5000
    return [
        Setting("alike, n_k = 1000", np.full(CLIENTS, 1000), 0.0),
        Setting("unlike, n_k = 1000", np.full(CLIENTS, 1000), 0.25),
        Setting("alike, n_k 5-5000", mixed, 0.0),
        Setting("unlike, n_k 5-5000", mixed, 0.25),
    ]


def count(flat: Floats, sizes: Counts) -> Counts:
    """Return (K, H) counts of scores that lie one client after the other."""
    cells = np.clip((flat.view(np.int64) >> 46) - FIRST, 0, BINS - 1)
    cells += np.repeat(np.arange(len(sizes)) * BINS, sizes)
    return np.bincount(cells, minlength=len(sizes) * BINS).reshape(-1, BINS)


def attacked(name: str, own: Floats, largest: float, rng: np.random.Generator) -> Floats:
    """Return what liars send for these scores: 0, twice the largest of all, or max(0, r + N(0, .5²))."""
    if name == "random":
        return np.maximum(0.0, own + rng.normal(0, 0.5, own.shape))
    return np.full_like(own, {"zeros": 0.0, "maxima": 2 * largest}[name])


def radius_at(counts: Counts, weights: Floats) -> float:
    pool = pool_counts(counts, weights)
    return bracket_from_histogram(pool.counts, EDGES, pool.rank(LEVEL))[1]


def table(setting: Setting, draws: int) -> dict[tuple[str, str], Tally]:
    """Return a tally for each attack by B of 100 clients; the filter is MAD, and every fourth time known count."""
    sizes = setting.sizes
    owner = np.repeat(np.arange(CLIENTS), sizes)
    cap = np.minimum(1, 3 * np.median(sizes) / sizes)
    tallies = {("0 %", "none"): Tally.empty()} | {(f"{b} %", a): Tally.empty() for b in (1, 20) for a in ATTACKS}
    for draw in range(draws):
        rng = np.random.default_rng([int(sizes.sum()), int(1000 * setting.spread), draw])
        scale = np.exp(rng.normal(0, setting.spread, CLIENTS))
        flat = np.abs(rng.standard_normal(len(owner))) * scale[owner]
        honest_counts, order = count(flat, sizes), rng.permutation(CLIENTS)
        for (hostile, name), tally in tallies.items():
            number = int(hostile.split()[0])
            liar = np.isin(np.arange(CLIENTS), order[:number])
            counts = honest_counts.copy()
            if number:
                counts[liar] = count(attacked(name, flat[liar[owner]], flat.max(), rng), sizes[liar])
            tally.add(counts, cap, liar, sizes, scale, known_count(number) if draw % 4 == 3 else mad())
    return tallies


def share_inside(coverage: list[float], bounds: list[Bounds]) -> float:
    return float(np.mean([low <= c <= high for c, (low, high) in zip(coverage, bounds, strict=True)]))


def main(arguments: list[str] | None = None) -> int:
    """Print the table; exit 1 where the certificate, or the guard, breaks its promise."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--draws", type=int, default=1000)
    draws = parser.parse_args(arguments).draws
    start, broken = time.process_time(), 0
    columns = "B | attack | liars kept | kept: mean (min-max) | certificate | width | inside | width at b = 5 %"
    columns += " | all honest: mean (min-max) | certificate | width | inside | guarded (price)"
    for setting in settings():
        print(f"\n**{setting.name}, K = {CLIENTS}, {draws} draws**\n")
        print(f"| {columns} |\n|{' --- |' * (columns.count('|') + 1)}")
        for (hostile, name), t in table(setting, draws).items():
            lows, highs = np.mean(t.bounds, axis=0)
            wide_low, wide_high = np.mean(t.wide, axis=0)
            inside = share_inside(t.kept, t.bounds), share_inside(t.everyone, t.wide)
            short = LEVEL - 4 * np.std(t.guarded) / sqrt(draws)  # four standard errors
            broken += min(inside) < CONFIDENCE or np.mean(t.guarded) < short
            print(
                f"| {hostile} | {name} | {np.mean(t.liars):.2f} "
                f"| {np.mean(t.kept):.4f} ({min(t.kept):.4f}-{max(t.kept):.4f}) "
                f"| {lows:.4f}-{highs:.4f} | {100 * (highs - lows):.2f} | {100 * inside[0]:.1f} % "
                f"| {100 * np.mean(t.twentieth):.2f} "
                f"| {np.mean(t.everyone):.4f} ({min(t.everyone):.4f}-{max(t.everyone):.4f}) "
                f"| {wide_low:.4f}-{wide_high:.4f} | {100 * (wide_high - wide_low):.2f} | {100 * inside[1]:.1f} % "
                f"| {np.mean(t.guarded):.4f} ({np.mean(t.price):.3f}) |"
            )
    print(f"\n{time.process_time() - start:.0f} CPU-seconds; {broken} rows break their promise", file=sys.stderr)
    return int(broken > 0)


if __name__ == "__main__":
    sys.exit(main())
