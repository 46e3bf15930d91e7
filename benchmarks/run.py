"""`make bench`: measure what the issues set limits to, print each with its limit, exit 1 if one is missed.

CPU time of one thread; what is compared takes turns in one run.

    python benchmarks/run.py [--quick] [--only NAME ...]
"""

from __future__ import annotations

import os

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

import argparse  # noqa: E402
import sys  # noqa: E402
import time  # noqa: E402
from collections.abc import Callable  # noqa: E402

import files  # noqa: E402
import networks  # noqa: E402
import predictors  # noqa: E402
import simulation  # noqa: E402
import start  # noqa: E402
from timing import Line, machine, table  # noqa: E402

BENCHMARKS: dict[str, Callable[[bool], list[Line]]] = {
    "normals": simulation.normal_generators,
    "synthetic": simulation.table_synthetic,
    "engines": simulation.engines,
    "arms": simulation.arms,
    "compiling": simulation.compiling,
    "startup": start.startup,
    "demo": start.demo,
    "plan": start.plan,
    "all-tables": start.all_tables,
    "summarize": files.summarize,
    "conclude": files.conclude,
    "predictors": predictors.predictors,
    "net": networks.engines,
    "table-uci": networks.table_uci,
}


def main() -> int:
    """Run the benchmarks asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer trials and repeats: about half a minute")
    parser.add_argument("--only", nargs="+", choices=BENCHMARKS, metavar="NAME", help=", ".join(BENCHMARKS))
    options = parser.parse_args()
    print(machine(), flush=True)
    lines: list[Line] = []
    for name in options.only or BENCHMARKS:
        began = time.perf_counter()
        print(f"{name} ...", end=" ", file=sys.stderr, flush=True)
        lines += BENCHMARKS[name](options.quick)
        print(f"{time.perf_counter() - began:.0f} s", file=sys.stderr, flush=True)
    print(f"\n{table(lines)}")
    missed = [line for line in lines if line.verdict == "MISSED"]
    for line in missed:
        print(f"missed: {line.name}, {line.measured}: {line.value:.3g} {line.unit}, limit {line.limit:g}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
