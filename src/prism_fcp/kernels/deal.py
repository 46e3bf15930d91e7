"""What a round deals out: samples, participants, masks and attackers, each from its own keyed stream."""

# mypy: allow-untyped-defs
from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from prism_fcp.kernels import codes
from prism_fcp.kernels._jit import inlined
from prism_fcp.kernels.normals import fill_normals
from prism_fcp.kernels.words import extend, fill_ranks, uniform
from prism_fcp.streams import EVERYONE, Role

_PARTICIPANTS: Final = int(Role.PARTICIPANTS)
_UPLOAD_MASK: Final = int(Role.UPLOAD_MASK)
_DOWNLOAD_MASK: Final = int(Role.DOWNLOAD_MASK)
_HITS: Final = int(Role.HITS)
_INPUTS: Final = int(Role.INPUTS)
_PERTURBATION: Final = int(Role.PERTURBATION)
NOBODY: Final = np.int32(2**31 - 1)  # the rank of padding: never shared


class Plan(NamedTuple):
    """What all arms share."""

    key: np.uint64
    dimension: int
    num_participants: int
    rounds: int
    window: int
    check_every: int
    deviation_limit: np.float32  # a model farther from the truth, squared, has diverged
    largest: np.float32  # an upload with a value beyond it is refused
    step_size: np.float32
    idle_learning: bool
    attack: int
    probability: float
    strength: np.float32  # standard deviation of the Gaussian attack, z of codes.ALIE, ...
    exact_strength: float  # the same, before it is rounded
    asleep: int  # rounds in which a shift does not happen yet
    target_factor: np.float32  # of what Byzantine clients learn from
    fixed_samples: int  # how many samples a client has; 0: a new one each round


class Clients(NamedTuple):
    """The population; vectors over coordinates are padded with zeros to `width`."""

    truth: NDArray[np.float32]  # (width,)
    means: NDArray[np.float32]  # (K,)
    spreads: NDArray[np.float32]  # (K,)
    noises: NDArray[np.float32]  # (K,)
    byzantine: NDArray[np.bool_]  # (K,)
    own_truths: NDArray[np.float32]  # (K, width), or none: all clients share the truth


class Arms(NamedTuple):
    """Where arms differ. A deck is a way of dealing masks; arms with the same one share its sorted words."""

    table: NDArray[np.int64]  # (A, codes.ARM_COLUMNS)
    decks: NDArray[np.int64]  # (Q, 3)
    unit_of: NDArray[np.int64]  # (Q, D): the unit (coordinate or layer) of each coordinate
    numbers: NDArray[np.float64]  # (A, codes.NUMBERS)


class Supplied(NamedTuple):
    """Samples and perturbations from outside, for these rounds; empty arrays: the kernel draws its own."""

    inputs: NDArray[np.float32]  # (rounds, K, D)
    targets: NDArray[np.float32]  # (rounds, K)
    perturbations: NDArray[np.float32]  # (rounds, K, D)


@inlined
def draw_samples(plan, clients, supplied, n, first, half, inside, normals, x, y):
    """Fill x (K, width) and y (K,) with round n's samples: `population.inputs` and `population.targets`."""
    _draw_samples(plan, clients, supplied, n, first, half, inside, normals, x, y)
    if plan.target_factor != np.float32(1):
        for k in range(len(y)):
            y[k] = plan.target_factor * y[k] if clients.byzantine[k] else y[k]


@inlined
def _draw_samples(plan, clients, supplied, n, first, half, inside, normals, x, y):
    num_clients, width = x.shape
    dimension = plan.dimension
    if len(supplied.inputs):
        for k in range(num_clients):
            y[k] = supplied.targets[n - first, k]
            for j in range(dimension):
                x[k, j] = supplied.inputs[n - first, k, j]
        return
    sample = n if plan.fixed_samples == 0 else 1 + (n - 1) % plan.fixed_samples
    fill_normals(extend(extend(plan.key, _INPUTS), sample), half, normals)
    for k in range(num_clients):
        mean, spread = clients.means[k], clients.spreads[k]
        row = normals[k * dimension : k * dimension + width]  # an index the compiler sees is not negative
        for j in range(width):
            x[k, j] = (mean + spread * row[j]) * inside[j]
        target = np.float32(0)
        if len(clients.own_truths):
            for j in range(width):
                target += x[k, j] * clients.own_truths[k, j]
        else:
            for j in range(width):
                target += x[k, j] * clients.truth[j]
        y[k] = target + clients.noises[k] * normals[num_clients * dimension + k]


@inlined
def draw_participants(plan, n, unit_ranks, heads, selected, place):
    """Fill `selected` with round n's participants, ascending, and `place` (K,) with where they stand in it, or -1."""
    fill_ranks(extend(extend(plan.key, _PARTICIPANTS), n), len(place), heads, unit_ranks)
    found = 0
    for k in range(len(place)):
        place[k] = -1
        if unit_ranks[k] < plan.num_participants:
            selected[found], place[k] = k, found
            found += 1


@inlined
def draw_ranks(plan, arms, n, selected, unit_ranks, heads, ranks):
    """Fill ranks (Q, n, width): a coordinate is in the mask of M units where its rank is below M."""
    for q in range(len(arms.decks)):
        kind, common, units = arms.decks[q, codes.KIND], arms.decks[q, codes.COMMON] != 0, arms.decks[q, codes.UNITS]
        if kind == codes.EVERYTHING:
            continue
        role = _DOWNLOAD_MASK if kind == codes.RECEIVE else _UPLOAD_MASK
        parent = extend(extend(plan.key, role), n - 1 if kind == codes.SEND_LAST_ROUND else n)
        for i in range(len(selected)):
            if common and i > 0:
                for j in range(plan.dimension):
                    ranks[q, i, j] = ranks[q, 0, j]
                continue
            key = extend(parent, EVERYONE if common else selected[i])
            if units == plan.dimension:
                fill_ranks(key, units, heads, ranks[q, i])
            else:
                fill_ranks(key, units, heads, unit_ranks)
                for j in range(plan.dimension):
                    ranks[q, i, j] = unit_ranks[arms.unit_of[q, j]]


@inlined
def draw_attackers(plan, clients, supplied, n, first, selected, acting, scratch, perturbations):
    """Mark which participants attack in round n and fill their rows of perturbations."""
    for i in range(len(selected)):
        k = selected[i]
        acting[i] = clients.byzantine[k] and uniform(extend(extend(extend(plan.key, _HITS), n), k)) < plan.probability
        if acting[i] and plan.attack == codes.GAUSSIAN:
            if len(supplied.perturbations):
                for j in range(plan.dimension):
                    perturbations[i, j] = supplied.perturbations[n - first, k, j]
            else:
                key = extend(extend(extend(plan.key, _PERTURBATION), n), k)
                fill_normals(key, len(scratch) // 2, scratch)
                for j in range(plan.dimension):
                    perturbations[i, j] = scratch[j]
