"""How often each calibration filter names the liars and nobody else: simulated federations, and real data.

    python benchmarks/filters.py [--quick] [--only simulated|real] [--clients K ...]

Every number is a share of seeds (or a mean over them), so it does not depend on the machine.
"""

from __future__ import annotations

import os

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

import argparse  # noqa: E402
import sys  # noqa: E402
from collections.abc import Callable, Sequence  # noqa: E402

import numpy as np  # noqa: E402

from prism_fcp.calibrate import FilterContext, characterize, known_count, mad  # noqa: E402
from prism_fcp.calibrate.cautious import cautious  # noqa: E402
from prism_fcp.calibrate.cells import cells, coarsen  # noqa: E402

OCTAVES = np.ldexp(1 + np.arange(64) / 64, np.arange(-30, 30)[:, None]).ravel()
EDGES = np.concatenate(([0.0], OCTAVES, [2.0**30, np.inf]))
FILTERS = {"cautious": cautious(), "mad": mad(), "known_count": known_count()}
Rows = list[np.ndarray]


def counts_of(rows: Rows) -> np.ndarray:
    bins = len(EDGES) - 1
    return np.array([np.bincount(np.searchsorted(EDGES, own, side="right") - 1, minlength=bins) for own in rows])


# Attacks: (own scores, mean and sd of all honest scores, generator) -> reported scores
ATTACKS: dict[str, Callable[[np.ndarray, float, float, np.random.Generator], np.ndarray]] = {
    "none": lambda own, mean, sd, rng: own,
    "zeros": lambda own, mean, sd, rng: np.zeros_like(own),
    "10x mean": lambda own, mean, sd, rng: np.full_like(own, 10 * mean),
    "random": lambda own, mean, sd, rng: np.maximum(own + 0.5 * sd * rng.standard_normal(len(own)), 0),
    "random, 1 sd": lambda own, mean, sd, rng: np.maximum(own + sd * rng.standard_normal(len(own)), 0),
    "|r+noise|": lambda own, mean, sd, rng: np.abs(own + 0.5 * sd * rng.standard_normal(len(own))),
    "30 % zeros": lambda own, mean, sd, rng: np.where(rng.random(len(own)) < 0.3, 0, own),
    "30 % 10x mean": lambda own, mean, sd, rng: np.where(rng.random(len(own)) < 0.3, 10 * mean, own),
    "near 10x mean": lambda own, mean, sd, rng: 10 * mean * np.exp(0.2 * rng.standard_normal(len(own))),
    "own x 3": lambda own, mean, sd, rng: 3 * own,
}


def draw(clients: int, size: int | None, variety: str, rng: np.random.Generator) -> Rows:
    """Draw scores: |normal| of a client's own scale, or tails that differ; size None is log-uniform, 5 to 5,000."""
    sizes = [size or int(np.exp(rng.uniform(np.log(5), np.log(5000)))) for _ in range(clients)]
    rows = []
    for n in sizes:
        if variety == "beta":
            rows.append(rng.beta(2, 5, n))
        elif variety == "tails differ":
            rows.append(np.abs(rng.standard_t(rng.choice([3, 5, 30]), n)) * np.exp(0.1 * rng.standard_normal()))
        else:
            sd = {"alike": 0.0, "scales 10 %": 0.1, "scales 30 %": 0.3}[variety]
            rows.append(np.abs(rng.standard_normal(n)) * np.exp(sd * rng.standard_normal()))
    return rows


def judged(rows: Rows, liars: np.ndarray) -> dict[str, tuple[bool, float, int]]:
    """Return for each filter: exactly right, share of liars found, honest clients left out."""
    counts = counts_of(rows)
    sizes = counts.sum(axis=1)
    shares = characterize(coarsen(counts, cells(counts, sizes)))
    context = FilterContext(suspects=int(liars.sum()))
    found = {}
    for name, rule in FILTERS.items():
        out = rule.weigh(shares, sizes, context).weights == 0
        recall = float(out[liars].mean()) if liars.any() else 1.0
        found[name] = (bool((out == liars).all()), recall, int((out & ~liars).sum()))
    return found


def attacked(rows: Rows, liars: np.ndarray, attack: str, rng: np.random.Generator) -> Rows:
    honest = np.concatenate([own for own, lies in zip(rows, liars, strict=True) if not lies])
    forge = ATTACKS[attack]
    mean, sd = float(honest.mean()), float(honest.std())
    return [forge(own, mean, sd, rng) if lies else own for own, lies in zip(rows, liars, strict=True)]


def line(label: str, runs: Sequence[dict[str, tuple[bool, float, int]]]) -> str:
    columns = []
    for name in FILTERS:
        exact, recall, false = np.mean([run[name] for run in runs], axis=0)
        columns.append(f"{100 * exact:5.1f} {100 * recall:5.1f} {false:6.3f}")
    return f"{label:46s} | " + " | ".join(columns)


def header(title: str) -> str:
    top = f"{title:46s} | " + " | ".join(f"{name:18s}" for name in FILTERS)
    return top + "\n" + " " * 46 + " | " + " | ".join("exact found  false" for _ in FILTERS)


def simulated(quick: bool, wanted: Sequence[int]) -> None:
    print(header("clients, scores each, variety, attack"))
    for clients in wanted:
        seeds = 10 if quick else 200 if clients <= 10 else 40
        liars = np.arange(clients) < (1 if clients < 10 else clients // 5)
        for size in (50, 200, 1000, None):
            for variety in ("alike", "scales 10 %", "scales 30 %", "tails differ"):
                for attack in ATTACKS:
                    runs = []
                    for seed in range(seeds):
                        rng = np.random.default_rng([seed, clients])
                        rows = draw(clients, size, variety, rng)
                        mine = liars & (attack != "none")
                        runs.append(judged(attacked(rows, mine, attack, rng), mine))
                    label = f"{clients:3d} {size or '5-5000':>6} {variety:13s} {attack}"
                    print(line(label, runs), flush=True)
    for size in (200, 1000, 5000):
        runs = []
        for seed in range(10 if quick else 40):
            rng = np.random.default_rng(seed)
            rows = draw(100, size, "beta", rng)
            liars = np.arange(100) < 20
            rows = [rng.beta(2, 3.5, size) if lies else own for own, lies in zip(rows, liars, strict=True)]
            runs.append(judged(rows, liars))
        print(line(f"100 {size:6d} Beta(2, 5)    Beta(2, 3.5)", runs), flush=True)


def tables() -> dict[str, tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Return real regression tables: inputs, target, and the covariate that says which site a row belongs to.

    The target is the disease's progression, the cells' smoothness, and the ink in an image's lower half.
    """
    from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits

    diabetes, cancer, digits = load_diabetes(), load_breast_cancer(), load_digits()
    ink = digits.data.reshape(-1, 2, 32)
    size = cancer.data[:, 0]
    return {
        "diabetes/bmi": (diabetes.data, diabetes.target, diabetes.data[:, 2]),
        "diabetes/age": (diabetes.data, diabetes.target, diabetes.data[:, 0]),
        "cancer/radius": (np.delete(cancer.data, 4, axis=1), cancer.data[:, 4], size),
        "digits/digit": (ink[:, 0], ink[:, 1].sum(axis=1), digits.target.astype(float)),
    }


def real(quick: bool) -> None:
    """Train on a third, or half, of a real table; the rest are sites by a covariate, and one of them lies."""
    from sklearn.ensemble import GradientBoostingRegressor
    from sklearn.linear_model import Ridge

    print(header("table, model, sites (scores each), attack"))
    attacks = ("none", "zeros", "10x mean", "random", "random, 1 sd")
    for name, (inputs, target, covariate) in tables().items():
        for model, seeds in ((Ridge, 200), (GradientBoostingRegressor, 40)):
            kept: dict[tuple[int, str], list[dict[str, tuple[bool, float, int]]]] = {}
            sizes: dict[int, list[int]] = {}
            for seed in range(5 if quick else seeds):
                rng = np.random.default_rng(seed)
                order = rng.permutation(len(target))
                train, rest = order[: len(order) // 3], order[len(order) // 3 :]
                options = {} if model is Ridge else {"n_estimators": 60, "random_state": 0, "subsample": 0.5}
                fitted = model(**options).fit(inputs[train], target[train])
                scores = np.abs(target[rest] - fitted.predict(inputs[rest]))
                by = covariate[rest] + 1e-9 * rng.standard_normal(len(rest))
                for sites in (5, 6, 8, 10):
                    groups = np.array_split(np.argsort(by), sites)
                    sizes[sites] = [len(group) for group in groups]
                    for attack in attacks:
                        liars = (np.arange(sites) == rng.integers(sites)) & (attack != "none")
                        rows = attacked([scores[group] for group in groups], liars, attack, rng)
                        kept.setdefault((sites, attack), []).append(judged(rows, liars))
            for (sites, attack), runs in kept.items():
                short = "linear" if model is Ridge else "boosted"
                print(line(f"{name} {short} {sites} ({min(sizes[sites])}) {attack}", runs), flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="10 seeds, or 5: a few minutes")
    parser.add_argument("--only", choices=("simulated", "real"))
    parser.add_argument("--clients", type=int, nargs="+", default=[5, 7, 10, 30, 100], help="simulated federations")
    arguments = parser.parse_args()
    if arguments.only != "real":
        simulated(arguments.quick, arguments.clients)
    if arguments.only != "simulated":
        real(arguments.quick)
    return 0


if __name__ == "__main__":
    sys.exit(main())
