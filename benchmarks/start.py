"""How long one waits before anything happens: import, help, demo; and what all tables take together."""

from __future__ import annotations

import os
import tempfile

from prism_fcp.lab.catalog import NAMES, named
from timing import Line, child, medians

# A trial of two rounds: what is measured is the engine's own start.
PROBE_ENGINE = (
    "from prism_fcp.engines import ENGINES\n"
    "from prism_fcp.data.synthetic import SyntheticLinear\n"
    "from prism_fcp.train.settings import Arm, Federation, Masks\n"
    "f = Federation(rounds=2)\n"
    "p = SyntheticLinear().draw(f.num_clients, f.dimension, f.num_byzantine, 1)\n"
    "ENGINES['compiled'](p, f, [Arm(masks=Masks(num_shared=15))])\n"
)


def with_empty_cache(code: str) -> tuple[float, float]:
    """Return the CPU seconds of two processes that run this code, the first with nothing compiled yet."""
    with tempfile.TemporaryDirectory() as folder:
        environment = os.environ | {"NUMBA_CACHE_DIR": folder}
        return child(["-c", code], environment)[0], child(["-c", code], environment)[0]


def startup(quick: bool) -> list[Line]:
    """Import and help, less what an empty interpreter takes; CPU time, so a busy machine does not count."""
    repeats = 3 if quick else 9

    def measure() -> list[float]:
        empty, imported, helped = (child(a)[0] for a in (["-c", ""], ["-c", "import prism_fcp"], _cli("--help")))
        return [empty, imported, helped]

    empty, imported, helped = medians(measure, repeats)
    return [
        Line("start", "import prism_fcp, interpreter included", imported, "CPU-s", 0.3, note=f"empty: {empty:.2f}"),
        Line("start", "prism-fcp --help", helped, "CPU-s", 0.5),
    ]


def demo(quick: bool) -> list[Line]:
    """The demo with nothing cached: no bytecode, no font list of matplotlib, no compiled code."""
    with tempfile.TemporaryDirectory() as folder:
        caches = ("MPLCONFIGDIR", "PYTHONPYCACHEPREFIX", "NUMBA_CACHE_DIR")
        empty = {name: os.path.join(folder, name) for name in caches}
        for path in empty.values():
            os.mkdir(path)
        environment = os.environ | empty
        environment.pop("PYTHONDONTWRITEBYTECODE", None)  # where it is set, nothing is ever warm
        arguments = _cli("demo", "--out", os.path.join(folder, "out"))
        cold_cpu, cold, _ = child(arguments, environment)
        warm_cpu, warm, _ = child(arguments, environment)
    return [
        Line("demo", "cold caches: Python's, matplotlib's, numba's", cold, "s", 15, note=f"{cold_cpu:.1f} CPU-s"),
        Line("demo", "again, caches filled", warm, "s", note=f"{warm_cpu:.1f} CPU-s"),
    ]


def plan(quick: bool) -> list[Line]:
    """The planner's answer from the command line, interpreter included, for the paper's size and for a million."""
    found = []
    for size, options in (("50", ()), ("1,000,000", ("--dimension", "1000000", "--attack-variance", "1e-6"))):
        line = _cli("plan", "--share", "0.1", "--step-size", "best", *options)
        (cpu,) = medians(lambda line=line: [child(line)[0]], 1 if quick else 5)
        found.append(Line("plan", f"K = 100, D = {size}", cpu, "CPU-s", 2))
    return found


def all_tables(quick: bool) -> list[Line]:
    """Every linear experiment at 100 trials on two cores, from the command line: for an idle machine."""
    if quick:
        return []
    linear = [name for name in NAMES if "data" not in named(name).resolved]
    with tempfile.TemporaryDirectory() as folder:
        arguments = ["reproduce", *linear, "--trials", "100", "--jobs", "2", "--out", folder]
        cpu, wall, memory = child(_cli(*arguments))
    return [
        Line(
            "all linear experiments",
            "100 trials, two jobs",
            wall,
            "s",
            90,
            note=f"{cpu:.0f} CPU-s; needs two idle cores",
        ),
        Line("all linear experiments", "peak memory of the largest process", memory, "GB", 1.5),
    ]


def _cli(*arguments: str) -> list[str]:
    return ["-m", "prism_fcp", *arguments]
