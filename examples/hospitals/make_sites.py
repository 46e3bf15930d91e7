"""Make the files of the walk-through: one model, and six hospitals' tables of true and predicted values.

The patients are scikit-learn's 442 diabetes patients (Efron, Hastie, Johnstone, Tibshirani 2004): the progression of
the disease after a year, from ten measurements. A third of them train a linear model. The others go to six hospitals by
age, so that the hospitals differ as real ones do: each keeps two thirds for calibration and a third for testing. One
hospital's calibration table is wrong.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.linear_model import Ridge

SITES = ("north", "south", "east", "west", "lake", "harbour")
WRONG = "harbour"


def draw(seed: int, sites: int = len(SITES)) -> tuple[np.ndarray, list[tuple[np.ndarray, np.ndarray]]]:
    """Return the model's coefficients, and each site's two tables of (true, predicted): calibration and test."""
    patients = load_diabetes()
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(patients.target))
    train, rest = order[:147], order[147:]
    model = Ridge(alpha=0.1).fit(patients.data[train], patients.target[train])
    table = np.column_stack([patients.target[rest], model.predict(patients.data[rest])])
    by_age = np.argsort(patients.data[rest, 0] + 1e-9 * rng.standard_normal(len(rest)))
    tables = []
    for own in np.array_split(by_age, sites):
        shuffled = table[rng.permutation(own)]
        tables.append((shuffled[: 2 * len(own) // 3], shuffled[2 * len(own) // 3 :]))
    return np.append(model.coef_, model.intercept_), tables


def forge(own: np.ndarray, attack: str, everybody: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return a site's table as it would send it: its predictions changed so that its errors are what the attack wants.

    `zeros`: the true value stands in the column of predictions. `large`: errors of ten times everybody's mean.
    `random`: noise on the errors, cut at zero, as strong beside them as in the paper (1.5 standard deviations).
    """
    truth, errors = own[:, 0], np.abs(own[:, 0] - own[:, 1])
    if attack == "zeros":
        errors = np.zeros_like(errors)
    elif attack == "large":
        errors = np.full_like(errors, 10 * everybody.mean())
    elif attack == "random":
        errors = np.maximum(errors + 1.5 * everybody.std() * rng.standard_normal(len(errors)), 0)
    return np.column_stack([truth, truth - errors])


def write(folder: Path, attack: str, seed: int) -> None:
    """Write model.npz and sites/NAME/{calibration,test}.csv."""
    coefficients, tables = draw(seed)
    folder.mkdir(parents=True, exist_ok=True)
    np.savez(folder / "model.npz", coefficients=coefficients)
    errors = np.concatenate([np.abs(own[:, 0] - own[:, 1]) for own, _ in tables])
    for site, (calibration, test) in zip(SITES, tables, strict=True):
        place = folder / "sites" / site
        place.mkdir(parents=True, exist_ok=True)
        if site == WRONG:
            calibration = forge(calibration, attack, errors, np.random.default_rng([seed, 1]))
        for name, own in (("calibration", calibration), ("test", test)):
            rows = "\n".join(f"{truth:.3f},{predicted:.3f}" for truth, predicted in own)
            (place / f"{name}.csv").write_text(f"progression,predicted\n{rows}\n")
    sizes = [len(calibration) for calibration, _ in tables]
    print(
        f"{folder}: a model and {len(SITES)} hospitals with {min(sizes)} to {max(sizes)} patients each for calibration"
    )


def main() -> None:
    """Write the files."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("hospitals"), help="folder to write (default hospitals)")
    parser.add_argument("--attack", default="zeros", choices=("none", "zeros", "large", "random"))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--quick", action="store_true", help="the same; there is nothing to shorten")
    options = parser.parse_args()
    write(options.out, options.attack, options.seed)


if __name__ == "__main__":
    main()
