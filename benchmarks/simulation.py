"""The paper's tables: compiled against NumPy's normals, against the readable engine, and ten arms against one."""

from __future__ import annotations

import numpy as np

from prism_fcp.engines import ENGINES
from prism_fcp.kernels.normals import normals
from prism_fcp.lab.catalog import named
from prism_fcp.pipeline import run_trial
from timing import Line, medians, turns

TRIALS = 100
NORMALS = 500_000_000


def normal_generators(quick: bool) -> list[Line]:
    """Nanoseconds a normal: ours and NumPy's."""
    rng, size = np.random.default_rng(0), 1_000_000
    normals(np.uint64(0), 16)
    tasks = [lambda i: normals(np.uint64(i), size // 2), lambda i: rng.standard_normal(size, dtype=np.float32)]
    ours, numpys = medians(lambda: [s / (10 * size) * 1e9 for s in turns(tasks, 10)], 3 if quick else 7)
    return [
        Line("normals, float32", "ours", ours, "ns", 0.8),
        Line("normals, float32", "NumPy standard_normal", numpys, "ns"),
    ]


def table_synthetic(quick: bool) -> list[Line]:
    """Training and calibration of table-synthetic at 100 trials against NumPy's 500,000,000 normals; turn by turn."""
    setup, trials = named("table-synthetic").setup, 20 if quick else TRIALS
    rng = np.random.default_rng(0)
    arms, federation = setup.arms(), setup.federation
    run_trial(setup, 1, 0, ENGINES["compiled"])

    def train(i: int) -> object:
        population = setup.population.draw(federation.num_clients, federation.dimension, federation.num_byzantine, 1, i)
        return ENGINES["compiled"](population, federation, arms)

    tasks = [
        lambda i: run_trial(setup, 1, i, ENGINES["compiled"]),
        lambda i: rng.standard_normal(NORMALS // TRIALS, dtype=np.float32),
        train,
    ]
    scale = TRIALS / trials
    whole, numpys, training = medians(lambda: [s * scale for s in turns(tasks, trials)], 1 if quick else 3)
    note = f"{trials} trials measured, for 100"
    return [
        Line("table-synthetic", "CPU time / 500M NumPy normals", whole / numpys, "x", 0.7, note=note),
        Line("table-synthetic", "100 trials, all of it", whole, "CPU-s", note=note),
        Line("table-synthetic", f"100 trials, training of its {len(arms)} arms", training, "CPU-s", note=note),
        Line("table-synthetic", "500M NumPy normals", numpys, "CPU-s", note=note),
    ]


def engines(quick: bool) -> list[Line]:
    """The compiled engine against the readable one, whole trials of table-synthetic, turn by turn."""
    setup, trials = named("table-synthetic").setup, 3 if quick else 10
    run_trial(setup, 1, 0, ENGINES["compiled"])
    tasks = [lambda i, name=name: run_trial(setup, 1, i, ENGINES[name]) for name in ("readable", "compiled")]
    readable, compiled = medians(lambda: turns(tasks, trials), 1 if quick else 3)
    note = f"{trials} trials of each, the cost a trial does not depend on their number"
    return [Line("table-synthetic", "readable / compiled", readable / compiled, "x", 6, at_least=True, note=note)]


def arms(quick: bool) -> list[Line]:
    """The ten training arms of table-gaussian on one data stream against single arms, each with its own."""
    setup, trials = named("table-gaussian").setup, 5 if quick else 20
    federation, ten = setup.federation, [arm for arm in setup.arms() if arm.exchange]
    populations = [
        setup.population.draw(federation.num_clients, federation.dimension, federation.num_byzantine, 1, i)
        for i in range(trials)
    ]
    groups = [ten, *([arm] for arm in ten)]
    tasks = [lambda i, group=group: ENGINES["compiled"](populations[i], federation, group) for group in groups]
    for task in tasks:
        task(0)
    together, *alone = medians(lambda: turns(tasks, trials), 3 if quick else 7)
    names = [f"{arm.rule.name} M={arm.masks.num_shared}" for arm in ten]
    cheapest = min(range(len(ten)), key=alone.__getitem__)
    return [
        Line("table-gaussian", f"{len(ten)} arms / one arm, the mean one", together / np.mean(alone), "x", 5),
        Line("table-gaussian", f"{len(ten)} arms / one arm, the cheapest", together / alone[cheapest], "x", 5,
             note=names[cheapest]),
        Line("table-gaussian", f"100 trials, training of {len(ten)} arms", together / trials * 100, "CPU-s"),
    ]  # fmt: skip


def compiling(quick: bool) -> list[Line]:
    """What the first large job of an installation waits for, and every later process."""
    from start import PROBE_ENGINE, with_empty_cache

    cold, warm = with_empty_cache(PROBE_ENGINE)
    return [
        Line("compiled engine", "first use ever: compiling", cold, "CPU-s", 20),
        Line("compiled engine", "first use in a process: from the cache", warm, "CPU-s"),
    ]
