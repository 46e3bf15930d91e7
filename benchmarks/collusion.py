"""What calibration filters do not see: liars close to the honest, reflected noise, and a majority of liars.

    python benchmarks/collusion.py [--quick] [--seeds 20] [--best [--seed 1]]

--best prints one table alone: near-honest collusion beside the best possible test of scores, which knows the liars'
distribution, every honest client's, and how many lie. It orders clients by the likelihood of their scores under the
one, over their mean likelihood under the others (Neyman and Pearson; where honest clients differ, its Bayes form).
What the ledger of training tells in the federation "joint" it does not know.

100 clients on the default grid, filters as `calibrate` runs them. "recall" is the share of the liars left out, less
what leaving out as many clients at random would catch; "coverage" is that of a new honest score at level 0.9.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats
from scipy.special import logsumexp

from prism_fcp.calibrate import Filter, FilterContext, cautious, known_count, mad, mixture, ordered, vigilant
from prism_fcp.calibrate.attack import collusion
from prism_fcp.calibrate.cells import compared
from prism_fcp.calibrate.combine import radii
from prism_fcp.calibrate.grid import LogGrid
from prism_fcp.calibrate.spec import CalibrationSpec
from prism_fcp.lab.scenes import REGIMES, Scene
from prism_fcp.theory.contamination import coverage_bounds

FINE = 2000  # cells on which the best possible test sees scores
Draw = Callable[[np.random.Generator, tuple[int, int]], NDArray[np.float64]]
CLIENTS = 100
SPEC = CalibrationSpec(title="collusion", model="0" * 64, grid=LogGrid())
HONEST = stats.beta(2, 5)


class Row(NamedTuple):
    """A federation: how many lie, how, with how many scores each."""

    name: str
    lie: Draw
    liars: int
    scores: int


def beta(a: float, b: float) -> Draw:
    return lambda rng, shape: rng.beta(a, b, shape)


def noisy(sd: float, reflect: bool) -> Draw:
    def draw(rng: np.random.Generator, shape: tuple[int, int]) -> NDArray[np.float64]:
        noise = rng.beta(2, 5, shape) + sd * rng.standard_normal(shape)
        return np.abs(noise) if reflect else np.maximum(noise, 0)

    return draw


def zeros(rng: np.random.Generator, shape: tuple[int, int]) -> NDArray[np.float64]:
    return np.zeros(shape)


def ones(rng: np.random.Generator, shape: tuple[int, int]) -> NDArray[np.float64]:
    return np.ones(shape)


def tables(sizes: tuple[int, ...]) -> dict[str, list[Row]]:
    near = [("Beta(2,3)", beta(2, 3)), ("Beta(2,3.5)", beta(2, 3.5)), ("Beta(2,4)", beta(2, 4))]
    folded = [
        (f"{'|r + eta|' if reflect else 'max(0, r + eta)'}, sd {sd}", noisy(sd, reflect))
        for sd in (0.1, 0.25, 0.5)
        for reflect in (False, True)
    ]
    many = [("all zero", zeros), ("all one", ones), ("Beta(2,3)", beta(2, 3))]
    return {
        "20 of 100 collude near the honest Beta(2,5)": [Row(*own, 20, n) for own in near for n in sizes],
        "20 of 100 add noise": [Row(*own, 20, n) for own in folded for n in sizes[1:2]],
        "55 of 100 lie (known_count is told 49, the most it takes)": [Row(*own, 55, sizes[1]) for own in many],
    }


def filters(liars: int) -> list[Filter]:
    """Return the filters compared."""
    count = min(liars, (CLIENTS - 1) // 2)
    return [known_count(count), mad(), cautious()]


def measure(row: Row, seeds: int) -> list[tuple[float, ...]]:
    """Return for each filter recall less chance, share of honest clients lost, coverage, and the bound on it."""
    found: list[list[tuple[float, ...]]] = [[] for _ in filters(row.liars)]
    for seed in range(seeds):
        rng = np.random.default_rng(seed)
        scores = rng.beta(2, 5, (CLIENTS, row.scores))
        lying = np.zeros(CLIENTS, dtype=bool)
        lying[rng.permutation(CLIENTS)[: row.liars]] = True
        scores[lying] = row.lie(rng, (row.liars, row.scores))
        counts = np.array([SPEC.grid.count(own) for own in scores])
        sizes = counts.sum(axis=1)
        cells = compared(counts, sizes, SPEC.cells)
        for place, filter in enumerate(filters(row.liars)):
            weights = np.asarray(filter(cells, sizes, FilterContext()).weights)
            out = weights == 0
            kept = float(weights @ lying / weights.sum())
            radius = radii(counts, weights, SPEC)[0].radius
            low, high = coverage_bounds(kept, 0.9) if kept < 1 else (0.0, 1.0)
            covered = float(HONEST.cdf(radius))
            found[place].append((out[lying].mean() - out.mean(), out[~lying].mean(), covered, kept, low, high))
    return [tuple(np.mean(own, axis=0)) for own in found]


def best_possible(scene: Scene, reported: NDArray[np.float64], shape: float) -> NDArray[np.float64]:
    """Return each client's log-likelihood ratio for colluders of this shape, from the laws themselves."""
    honest = ~scene.lying
    edges = np.quantile(scene.scores[honest], np.linspace(0, 1, FINE + 1)[1:-1])
    below = np.array([scene.share_below(float(edge)) for edge in edges])
    ends = np.vstack([np.zeros(len(honest)), below, np.ones(len(honest))])
    mixture_below = ends[:, honest].mean(axis=1)
    colluders = np.diff(stats.beta(2, shape).cdf(HONEST.ppf(mixture_below)))
    counts = np.array([np.bincount(np.searchsorted(edges, own), minlength=FINE) for own in reported])
    each = counts @ np.log(np.maximum(np.diff(ends, axis=0)[:, honest], 1e-300))
    return counts @ np.log(np.maximum(colluders, 1e-300)) - (logsumexp(each, axis=1) - np.log(honest.sum()))


def beside_the_best(seeds: int, seed: int) -> None:
    """Print recall of filters that are told 20, and of one that is not, beside the best possible test."""
    told = {
        "histogram distance": known_count(),
        "ordered": ordered("told"),
        "mixture": mixture("told"),
        "vigilant": vigilant("told"),
        "vigilant, not told": vigilant(),
    }
    print(f"\nrecall of 20 colluders in 100 told 20 (chance: 0.20); mean of {seeds} trials, seed {seed}")
    print(f"| federation | colluders | best possible | {' | '.join(told)} |")
    print("|---" * (len(told) + 3) + "|")
    names = ["beta-25", "beta-50", "beta-50-bins", "beta-200", "scales-50", "scales-200", "linear-truth", "linear"]
    for name in (*names, "joint-blind", "joint"):
        for shape in (3.5, 8.0):
            attack, found = collusion(shape), []
            for trial in range(seeds):
                scene = REGIMES[name].draw(seed, trial)
                reported = scene.scores.copy()
                reported[scene.lying] = attack.report(scene.view(attack))
                counts = np.array([scene.grid.count(own) for own in reported])
                sizes = counts.sum(axis=1)
                cells = compared(counts, sizes, scene.cells)
                ratio = best_possible(scene, reported, shape)
                outs = [np.argsort(np.argsort(-ratio)) < 20]
                context = FilterContext(suspects=20, evidence=scene.evidence)
                outs += [f(cells, sizes, context).weights == 0 for f in told.values()]
                found.append([out[scene.lying].mean() for out in outs])
            row = " | ".join(f"{value:.2f}" for value in np.mean(found, axis=0))
            print(f"| {name} | Beta(2,{shape:g}) | {row} |", flush=True)


def main() -> int:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="2 seeds")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--best", action="store_true", help="colluders beside the best possible test, alone")
    parser.add_argument("--seed", type=int, default=1, help="of --best's federations")
    given = parser.parse_args()
    warnings.simplefilter("ignore")  # a radius in the grid's last bin is among the results
    seeds = 2 if given.quick else given.seeds
    if given.best:
        beside_the_best(seeds, given.seed)
        return 0
    for title, rows in tables((50, 200, 1000)).items():
        print(f"\n{title}; mean of seeds 0 to {seeds - 1}")
        print("| liars report | n | filter | recall less chance | honest lost | liars' share kept | coverage | bound |")
        print("|---|---|---|---|---|---|---|---|")
        for row in rows:
            for filter, told in zip(filters(row.liars), measure(row, seeds), strict=True):
                recall, lost, covered, kept, low, high = told
                print(
                    f"| {row.name} | {row.scores} | {filter.name} | {recall:.2f} | {lost:.3f} | {kept:.3f} "
                    f"| {covered:.3f} | {low:.3f} to {high:.3f} |"
                )
            sys.stdout.flush()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
