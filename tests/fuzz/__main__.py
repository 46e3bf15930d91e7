"""`python -m tests.fuzz --cases 200000 --seed 1`: mutated and valid summaries, in a child with bounded memory.

    python -m tests.fuzz --quick                       5,000 cases and 500 valid ones: about ten seconds
    python -m tests.fuzz --seed 1 --case 1593          one case again, with what came before it in its batch

Exits with 1 where a case failed.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

MEMORY = 200 * 2**20  # bytes a child may use beyond what it starts with


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=int, default=200_000)
    parser.add_argument("--valid", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--quick", action="store_true", help="5,000 cases and 500 valid ones")
    parser.add_argument("--case", type=int, help="run this one's batch up to it, and print it")
    parser.add_argument("--child", choices=("mutated", "valid"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.quick:
        given.cases, given.valid = 5000, 500
    if given.child:
        print(json.dumps(child(given.child, given.seed, given.cases if given.child == "mutated" else given.valid)))
        return 0
    if given.case is not None:
        return again(given.seed, given.case)
    failed = 0
    for what, number in (("mutated", given.cases), ("valid", given.valid)):
        if number:
            start = time.perf_counter()
            command = [sys.executable, "-m", "tests.fuzz", "--child", what, "--seed", str(given.seed)]
            done = subprocess.run([*command, "--cases", str(number), "--valid", str(number)], stdout=subprocess.PIPE)
            if done.returncode:
                print(f"{what}: the child ended with {done.returncode}")
                return 1
            failed += show(what, given.seed, json.loads(done.stdout), time.perf_counter() - start)
    return 1 if failed else 0


def child(what: str, seed: int, number: int) -> dict[str, Any]:
    """Run here, with no more memory than what is there now and the limit."""
    from tests.fuzz.campaign import campaign
    from tests.fuzz.valid import accept_all
    from tests.fuzz.worlds import worlds

    worlds()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + MEMORY, size + MEMORY))
    with tempfile.TemporaryDirectory() as folder:
        report = (
            campaign(seed, range(number), Path(folder), watched=True)
            if what == "mutated"
            else accept_all(seed, number, Path(folder))
        )
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    if peak - before > MEMORY:
        report.fail(number, "memory", f"{(peak - before) / 1e6:.0f} MB beyond the start")
    kinds = {kind: dict(told) for kind, told in report.kinds.items()}
    used = time.process_time()
    return {**vars(report), "kinds": kinds, "before": before, "peak": peak, "cpu": used}


def show(what: str, seed: int, told: dict[str, Any], wall: float) -> int:
    """Print what came of it; return the number of failures."""
    print(f"\n{told['cases']:,} {what} summaries, seed {seed}: {told['cpu']:.0f} CPU-s, {wall:.0f} s")
    if told["kinds"]:
        columns = ("cases", "decoded", "unsigned taken", "signed taken")
        print(f"{'kind':20}" + "".join(f"{name:>16}" for name in columns))
        for kind, counts in told["kinds"].items():
            print(f"{kind:20}" + "".join(f"{counts.get(name, 0):16,}" for name in columns))
        print(f"{'all':20}" + "".join(f"{sum(c.get(n, 0) for c in told['kinds'].values()):16,}" for n in columns))
    for call, (cpu, case) in told["slowest"].items():
        wall = told["longest"][call][0]
        print(f"{call:28} at most {cpu * 1000:6.1f} ms CPU (case {case}), {wall * 1000:7.1f} ms wall")
    more = told["peak"] - told["before"]
    print(f"memory: {told['before'] / 1e6:.0f} MB at the start, {more / 1e6:.0f} MB more at most")
    for line in told["failures"][:20]:
        print("FAILED", line)
    print(f"{len(told['failures'])} failures")
    return len(told["failures"])


def again(seed: int, case: int) -> int:
    from tests.fuzz.campaign import BATCH, campaign, make

    kind, world, data = make(seed, case)
    print(f"case {case}: {kind}, world {world}, {len(data)} bytes: {data[:2000]!r}")
    report = campaign(seed, range(case - case % BATCH, case + 1))
    print("\n".join(report.failures) or "no failure")
    return 1 if report.failures else 0


if __name__ == "__main__":
    raise SystemExit(main())
