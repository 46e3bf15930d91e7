"""Predicted against simulated steady states over a grid of settings; the table of docs/theory.md.

`python benchmarks/steady_state.py [--quick]` simulates each setting with noise and attack, with noise alone and with
the attack alone, and prints by how many dB the prediction misses. `--quick` takes every ninth setting and few rounds.
"""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from itertools import product

import numpy as np

from prism_fcp import Arm, Choice, Federation, Masks, SyntheticLinear, streams
from prism_fcp.data.synthetic import Population
from prism_fcp.engines import train
from prism_fcp.theory.kinds import kinds_of
from prism_fcp.theory.recursion import MODELLED, Training
from prism_fcp.theory.steady import rounds_to_settle, stability_limit, steady_state
from prism_fcp.train.settings import COORDINATIONS

PROTOCOLS = list(product(COORDINATIONS, MODELLED))
SETTINGS = 72


def setting(number: int) -> tuple[Training, Population]:
    """Return one point of the grid: protocols in turn, all else drawn, clients that differ in all they can."""
    rng = np.random.default_rng([7, number])
    coordination, download = PROTOCOLS[number % len(PROTOCOLS)]
    clients, dimension = int(rng.choice([10, 20, 40])), int(rng.choice([10, 20, 50]))
    share = float(rng.choice([0.1, 0.2, 0.3, 0.5, 0.8, 1.0]))
    participants = max(1, int(clients * rng.choice([0.1, 0.25, 0.5, 1.0])))
    byzantine = int(clients * rng.choice([0.1, 0.2, 0.4]))
    means = float(rng.choice([0.0, 0.1, 0.5]))
    law = SyntheticLinear(means=(-means, means), variances=(0.2, float(rng.choice([1.2, 3.0]))))
    population = law.draw(clients, dimension, byzantine, seed=100 + number)
    training = Training(
        kinds=kinds_of(population),
        dimension=dimension,
        num_shared=max(1, round(share * dimension)),
        num_participants=participants,
        step_size=1e-6,
        attack_variance=float(rng.choice([0.01, 0.1, 0.5])),
        attack_probability=float(rng.choice([0.1, 0.2, 0.5, 1.0])),
        coordination=coordination,
        download=download,
        idle_learning=bool(rng.random() < 0.75) or download == "same",
    )
    part = float(rng.choice([0.08, 0.15, 0.3, 0.5]))
    return replace(training, step_size=part * stability_limit(training)), population


def simulate(training: Training, population: Population, trials: int, rounds: int, seed: int = 5) -> np.ndarray:
    """Return the mean squared deviations of the global and the local models."""
    kinds = training.kinds
    window, rounds = rounds, rounds + rounds_to_settle(training, decibels=0.05)  # what models of zero leave is gone
    federation = Federation(
        num_clients=len(kinds.counts),
        dimension=training.dimension,
        num_participants=training.num_participants,
        num_byzantine=int(population.byzantine.sum()),
        rounds=rounds,
        window=window,
        step_size=training.step_size,
        attack=Choice("gaussian", {"variance": training.attack_variance, "probability": training.attack_probability}),
        idle_learning=training.idle_learning,
    )
    masks = Masks(num_shared=training.num_shared, coordination=training.coordination, download=training.download)
    found = []
    for trial in range(trials):
        own = replace(population, key=streams.key(seed, trial))
        (out,) = train(own, federation, [Arm(masks=masks)], engine="compiled")
        found.append((out.global_msd, out.local_msd))
    return np.mean(found, axis=0)


def predicted(training: Training) -> np.ndarray:
    """Return noise, Byzantine and all together, of the global and of the local models: (3, 2)."""
    steady = steady_state(training)
    both = (steady.server, steady.local)
    return np.array([[p.noise for p in both], [p.byzantine for p in both], [p.total for p in both]])


def compare(number: int, trials: int, rounds: int) -> tuple[Training, np.ndarray]:
    """Return the setting and the prediction over the simulation in dB (3, 2)."""
    training, population = setting(number)
    quiet = replace(population, noise_variances=np.zeros_like(population.noise_variances))
    simulated = np.array(
        [
            simulate(replace(training, attack_variance=0.0), population, trials, rounds),
            simulate(replace(training, kinds=kinds_of(quiet)), quiet, trials, rounds),
            simulate(training, population, trials, rounds),
        ]
    )
    return training, 10 * np.log10(predicted(training) / simulated)


def main() -> None:
    quick = "--quick" in sys.argv[1:]
    numbers = range(0, SETTINGS, 9) if quick else range(SETTINGS)
    trials, rounds, began, worst = (
        (2, 4_000, time.process_time(), []) if quick else (4, 40_000, time.process_time(), [])
    )
    print("K D M |S| B p_a s2_B mu idle masks: miss in dB, noise | attack | both, global/local")
    for number in numbers:
        t, miss = compare(number, trials, rounds)
        told = " | ".join(f"{a:+.2f}/{b:+.2f}" for a, b in miss)
        b = int(t.kinds.byzantine.sum())
        print(
            f"{len(t.kinds.counts)} {t.dimension} {t.num_shared} {t.num_participants} {b} {t.attack_probability} "
            f"{t.attack_variance} {t.step_size:.3g} {int(t.idle_learning)} {t.coordination}/{t.download}: {told}",
            flush=True,
        )
        worst.append(np.abs(miss))
    table = np.array(worst)
    print(f"{len(table)} settings; largest miss {table.max():.3f} dB, with both sources {table[:, 2].max():.3f} dB, ")
    print(f"root mean square {np.sqrt((table**2).mean()):.3f} dB; {time.process_time() - began:.0f} CPU-seconds")


if __name__ == "__main__":
    main()
