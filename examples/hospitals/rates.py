"""How often the compromised hospital is found, and no other: many draws of the walk-through, through real bytes.

python examples/hospitals/rates.py [--seeds 200] [--quick]
"""

from __future__ import annotations

import argparse
import sys
import warnings

import numpy as np
from make_sites import draw, forge

from prism_fcp.calibrate import FILTERS, CalibrationServer, CalibrationSpec, encode, model_hash, summarize

SPEC = CalibrationSpec(title="rates", model=model_hash({"none": np.zeros(1)}))


def left_out(errors: list[np.ndarray], filter: str) -> set[str]:
    """Return whom a server leaves out, from the bytes of their summaries."""
    with CalibrationServer(SPEC, filter=FILTERS[filter]()) as server:
        for place, own in enumerate(errors):
            receipt = server.submit(encode(summarize(own, SPEC, f"site-{place}")))
            assert receipt.accepted, receipt.reason
        return {str(client) for client in server.finalise().left_out}


def rate(sites: int, attack: str, seeds: int, filter: str) -> tuple[float, float]:
    """Return the share of runs in which exactly the liar was left out, and honest sites left out a run."""
    exact, accused = 0, 0
    for seed in range(seeds):
        rng = np.random.default_rng([seed, 7])
        tables = [calibration for calibration, _ in draw(seed, sites)[1]]
        everybody = np.concatenate([np.abs(own[:, 0] - own[:, 1]) for own in tables])
        liar = int(rng.integers(sites)) if attack != "none" else -1
        sent = [forge(own, attack if place == liar else "none", everybody, rng) for place, own in enumerate(tables)]
        out = left_out([np.abs(own[:, 0] - own[:, 1]) for own in sent], filter)
        right = {f"site-{liar}"} if attack != "none" else set()
        exact += out == right
        accused += len(out - right)
    return exact / seeds, accused / seeds


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=200)
    parser.add_argument("--quick", action="store_true", help="five seeds")
    options = parser.parse_args()
    seeds = 5 if options.quick else options.seeds
    warnings.simplefilter("ignore")  # few scores make some radii infinite; verdicts are what is asked here
    print(f"exactly right (honest sites left out a run), {seeds} draws")
    print(f"{'sites':>5}  {'attack':8}" + "".join(f"{name:>20}" for name in ("cautious", "mad")))
    for sites in (5, 6, 8):
        for attack in ("none", "zeros", "large", "random"):
            told = [rate(sites, attack, seeds, filter) for filter in ("cautious", "mad")]
            cells = "".join(f"{100 * right:12.1f} % ({wrong:.2f})" for right, wrong in told)
            print(f"{sites:5d}  {attack:8}{cells}")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
