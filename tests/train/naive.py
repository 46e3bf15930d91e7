"""Algorithm 1 of the paper with nothing but loops over scalars: the oracle of the readable engine."""

from __future__ import annotations

import math
import statistics

import numpy as np

from prism_fcp import streams
from prism_fcp.streams import EVERYONE, Role


def smallest(key: int, total: int, count: int) -> set[int]:
    drawn = [int(w) for w in streams.words(key, total)]
    return set(sorted(range(total), key=lambda i: (drawn[i], i))[:count])


def naive_mask(key, masks, dimension, role, n, client):
    who = EVERYONE if masks.coordination == "common" else client
    return smallest(streams.child(key, role, n, who), dimension, masks.num_shared)


def naive_train(population, federation, masks, rule, draws, variance=0.0, probability=0.0):
    """Return (global model, local models, a-posteriori mse) for the mean or the median."""
    big_k, big_d, mu = federation.num_clients, federation.dimension, federation.step_size
    key, truth = population.key, population.truth
    w = [0.0] * big_d
    local = [[0.0] * big_d for _ in range(big_k)]
    squares = []
    for n in range(1, federation.rounds + 1):
        selected = smallest(streams.child(key, Role.PARTICIPANTS, n), big_k, federation.num_participants)
        uploads = {}
        round_squares = 0.0
        for k in range(big_k):
            x = [
                population.means[k] + math.sqrt(population.variances[k]) * float(draws.inputs[n - 1, k, d])
                for d in range(big_d)
            ]
            y = sum(truth[d] * x[d] for d in range(big_d))
            y += math.sqrt(population.noise_variances[k]) * float(draws.noise[n - 1, k])
            up, down = set(), set()
            if k in selected:
                up = naive_mask(key, masks, big_d, Role.UPLOAD_MASK, n, k)
                down = {
                    "same": lambda up=up: up,
                    "previous": lambda n=n, k=k: naive_mask(key, masks, big_d, Role.UPLOAD_MASK, n - 1, k),
                    "independent": lambda n=n, k=k: naive_mask(key, masks, big_d, Role.DOWNLOAD_MASK, n, k),
                    "full": lambda: set(range(big_d)),
                }[masks.download]()
            bar = [w[d] if d in down else local[k][d] for d in range(big_d)]
            error = y - sum(bar[d] * x[d] for d in range(big_d))
            local[k] = [bar[d] + mu * x[d] * error for d in range(big_d)]
            if k in selected:
                uploads[k] = {d: local[k][d] for d in up}
                u = float(streams.uniforms(streams.words(streams.child(key, Role.HITS, n, k), 1))[0])
                if population.byzantine[k] and u < probability:
                    for d in up:
                        uploads[k][d] += math.sqrt(variance) * float(draws.perturbations[n - 1, k, d])
            blended = [w[d] if d in down else local[k][d] for d in range(big_d)]
            round_squares += (y - sum(blended[d] * x[d] for d in range(big_d))) ** 2 / big_k
        squares.append(round_squares)
        if rule == "mean":
            w = [statistics.fmean(u.get(d, w[d]) for u in uploads.values()) for d in range(big_d)]
        else:
            sent = [[u[d] for u in uploads.values() if d in u] for d in range(big_d)]
            w = [statistics.median(s) if s else w[d] for d, s in enumerate(sent)]
    return np.array(w), np.array(local), statistics.fmean(squares[-federation.window :])
