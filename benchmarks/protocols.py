"""The default protocol on data: beside the paper's, full sharing's median and local only, with attackers and without.

    python benchmarks/protocols.py [--quick] [--trials 5] [--only superconductivity | alike | net]

Federations as the experiments table-uci (a linear model of the superconductivity data, 20 of 81 coefficients travel)
and table-nonlinear (a net of 4,929 parameters, 30 % of them travel) set them up, under five training attacks; "alike"
is the former with rows dealt without regard to the target.
Attackers shrink their calibration scores to zero in every attacked federation; the filter is `cautious`, which is not
told how many they are. Width in the target's own units, coverage of honest clients' test rows at level 0.9. Bytes: all
of the training, all clients together, the final model's broadcast included. A row in which a trial diverged has no
number and says so.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from dataclasses import replace
from typing import Final

from prism_fcp.engines import ENGINES
from prism_fcp.errors import DivergedError
from prism_fcp.lab.catalog import named
from prism_fcp.lab.gauntlet import bytes_down
from prism_fcp.pipeline import run_trial
from prism_fcp.setup import Method, Setup
from prism_fcp.train.loop import BYTES_PER_VALUE
from prism_fcp.train.settings import Arm, Federation, Masks
from prism_fcp.types import Choice

DATA: Final = {
    "superconductivity": ("table-uci", 20, "K"),
    "alike": ("table-uci", 20, "K"),
    "net": ("table-nonlinear", 1479, ""),
}
ALIKE: Final = Choice("dirichlet", {"concentration": 1e4, "bins": 10, "overlap": True})
ATTACKS: Final[dict[str, Choice | None]] = {  # None: the experiment's own
    "none": Choice("none"),
    "gaussian": None,
    "ALIE 1.5": Choice("alie", {"z": 1.5}),
    "inner 2": Choice("inner_product", {"strength": 2.0}),
    "label flip": Choice("label_flip"),
}


def methods(setup: Setup, num_shared: int) -> list[Method]:
    """Return the rows: what the default chose comes first, and what it did not choose last."""
    size, masks = setup.federation, Masks(num_shared=num_shared)

    def of(name: str) -> Method:
        return Method.of(name, setup.population, size, masks, name=name)

    default = of("default")
    other = "follow" if default.why.startswith("stay") else "stay"
    full = Masks(num_shared=size.dimension)
    scored_globally = replace(default, name="default, global model", scoring_model="global")
    alone = Arm(masks=full, exchange=False)
    return [
        default,
        of("paper"),
        Method(name="CWMed, full sharing", arm=Arm(masks=full, rule=Choice("median")), filter=default.filter,
               scoring_model="global"),
        Method(name="local only", arm=alone, filter=default.filter),
        replace(of(other), name=f"{other} (not chosen)"),
        *([scored_globally] if default.scoring_model == "local" else []),
    ]  # fmt: skip


def sent(method: Method, federation: Federation) -> tuple[float, float]:
    """Return the bytes that all clients together upload and download in the whole training."""
    arm, size = method.arm, federation.dimension
    if arm is None or not arm.exchange:
        return 0.0, 0.0
    up = BYTES_PER_VALUE * federation.num_participants * arm.masks.expected_coordinates(size) * federation.rounds
    down = bytes_down(arm, federation) * federation.rounds
    if method.scoring_model == "global":
        down += BYTES_PER_VALUE * size * federation.num_clients  # everybody scores with the last model
    return up, down


def table(data: str, trials: int, seed: int = 1) -> None:
    """Print one data set's table."""
    name, num_shared, unit = DATA[data]
    setup = named(name).setup
    if data == "alike":
        setup = replace(setup, population=replace(setup.population, partition=ALIKE))
    rows = methods(setup, num_shared)
    print(f"\n{data} ({name}), {trials} trials, seed {seed}; the default took {rows[0].why}\n")
    print("| protocol | " + " | ".join(ATTACKS) + " | MB up | MB down |")
    print("|---" * (len(ATTACKS) + 3) + "|")
    for method in rows:
        told = []
        for label, attack in ATTACKS.items():
            federation = replace(setup.federation, attack=attack or setup.federation.attack)
            scores = ("none", Choice("none")) if label == "none" else ("efficiency", Choice("efficiency"))
            own = replace(setup, federation=federation, methods=(method,), attacks=(scores,))
            cells, lost = [], 0
            for trial in range(trials):
                try:
                    cells += run_trial(own, seed, trial, ENGINES["readable"])
                except DivergedError:
                    lost += 1
            if lost:
                told.append(f"{lost} diverged")
                continue
            width, coverage = (statistics.fmean(getattr(c, w) for c in cells) for w in ("width", "coverage"))
            told.append(f"{width:.4g}{unit and ' ' + unit} ({100 * coverage:.1f} %)")
        up, down = (f"{count / 1e6:.3g}" for count in sent(method, setup.federation))
        print(f"| {method.name} | " + " | ".join(told) + f" | {up} | {down} |", flush=True)


def main() -> int:
    """Print the tables asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="1 trial")
    parser.add_argument("--trials", type=int, default=5)
    parser.add_argument("--only", choices=DATA)
    options = parser.parse_args()
    for data in [options.only] if options.only else DATA:
        began = time.process_time()
        table(data, 1 if options.quick else options.trials)
        print(f"{time.process_time() - began:.0f} s of CPU", file=sys.stderr)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
