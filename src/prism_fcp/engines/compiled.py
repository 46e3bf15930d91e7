"""The compiled engine: Algorithm 1's training in machine code, every arm of a trial in one pass over its samples.

Models are float32, sums float64. The kernel holds no lock, so trials may run in threads; a trial's numbers
depend on its key alone. On the readable engine's draws it gives the readable engine's numbers, to rounding.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from prism_fcp import streams
from prism_fcp.data.synthetic import Population
from prism_fcp.engines.encode import check_known, encode_arms, encode_attack
from prism_fcp.kernels import codes
from prism_fcp.kernels.deal import Arms, Clients, Plan, Supplied
from prism_fcp.kernels.normals import normals
from prism_fcp.kernels.training import State, play
from prism_fcp.kernels.words import LANES
from prism_fcp.streams import Role
from prism_fcp.train.aggregate.lift import LARGEST
from prism_fcp.train.loop import CHECK_EVERY, Draws, Stream, Trained, check_arms, check_shapes, deviation_limit
from prism_fcp.train.settings import Arm, Federation
from prism_fcp.types import FloatArray

STRETCH_BYTES = 4_000_000  # samples made outside the kernel are handed over in stretches of rounds of about this size


def train(population: Stream, federation: Federation, arms: Sequence[Arm], draws: Draws | None = None) -> list[Trained]:
    """Train every arm on one data stream; see `train_readable`.

    Paper: Alg. 1, phase 1.
    """
    check_arms(federation, arms)
    check_shapes(population, federation, draws)
    check_known(federation, arms)
    width = -(-federation.dimension // LANES) * LANES
    clients = _clients(population, federation, width)
    tables = Arms(*encode_arms(arms, federation.dimension))
    state = State(
        models=np.zeros((len(arms), width), np.float32),
        locals=np.zeros((federation.num_clients, len(arms), width), np.float32),
        sums=np.zeros((len(arms), 4)),
        counts=np.zeros((len(arms), codes.COUNTS), np.int64),
    )
    plan = _plan(population, federation)
    for first, last, supplied in _stretches(population, federation, draws):
        play(plan, clients, tables, supplied, first, last, state)
    return [_finish(state, a, federation) for a in range(len(arms))]


def _plan(population: Stream, federation: Federation) -> Plan:
    code, probability, strength = encode_attack(federation.attack)
    return Plan(
        key=np.uint64(population.key),
        dimension=federation.dimension,
        num_participants=federation.num_participants,
        rounds=federation.rounds,
        window=federation.window,
        check_every=CHECK_EVERY,
        deviation_limit=np.float32(deviation_limit(population.truth)),
        largest=np.float32(LARGEST),
        step_size=np.float32(federation.step_size),
        idle_learning=bool(federation.idle_learning),
        attack=code,
        probability=float(probability),
        strength=np.float32(strength),
    )


def _clients(population: Stream, federation: Federation, width: int) -> Clients:
    truth = np.zeros(width, np.float32)
    truth[: federation.dimension] = population.truth
    byzantine = np.array(population.byzantine, np.bool_)
    if not isinstance(population, Population):  # its samples are made outside the kernel
        nothing = np.zeros(0, np.float32)
        return Clients(truth, nothing, nothing, nothing, byzantine)
    return Clients(
        truth,
        _plain(population.means),
        _plain(np.sqrt(population.variances)),
        _plain(np.sqrt(population.noise_variances)),
        byzantine,
    )


def _stretches(population: Stream, federation: Federation, draws: Draws | None) -> Iterator[tuple[int, int, Supplied]]:
    """Yield (first round, last round, samples): all rounds at once where the kernel draws for itself."""
    rounds, shape = federation.rounds, (federation.num_clients, federation.dimension)
    if draws is None and type(population) is Population:
        yield 1, rounds, Supplied(np.zeros((0, *shape), np.float32), np.zeros((0, 0), np.float32), _no_rows(shape))
        return
    step = max(1, STRETCH_BYTES // (4 * math.prod(shape)))
    for first in range(1, rounds + 1, step):
        last = min(rounds, first + step - 1)
        if draws is None:
            made = [_own_normals(population, n, shape) for n in range(first, last + 1)]
            inputs = population.inputs(np.stack([m[0] for m in made]))
            targets = population.targets(inputs, np.stack([m[1] for m in made]))
        else:
            part = slice(first - 1, last)
            inputs = population.inputs(draws.inputs[part].astype(np.float32))
            targets = population.targets(inputs, draws.noise[part].astype(np.float32))
        rows = _no_rows(shape) if draws is None else draws.perturbations[first - 1 : last]
        yield first, last, Supplied(_plain(inputs), _plain(targets), _plain(rows))


def _own_normals(population: Stream, n: int, shape: tuple[int, int]) -> tuple[FloatArray, FloatArray]:
    """Return the normals (K, D) and (K,) that the kernel would draw in round n."""
    cells = math.prod(shape)
    half = -(-(cells + shape[0]) // (2 * LANES)) * LANES
    drawn = normals(np.uint64(streams.child(population.key, Role.INPUTS, n)), half)
    return drawn[:cells].reshape(shape), drawn[cells : cells + shape[0]]


def _no_rows(shape: tuple[int, int]) -> FloatArray:
    return np.zeros((0, *shape), np.float32)


def _plain(values: FloatArray) -> FloatArray:
    return np.array(values, np.float32, order="C")  # a copy: for a read-only array numba would compile once more


def _finish(state: State, a: int, federation: Federation) -> Trained:
    dimension = federation.dimension
    means = state.sums[a] / min(federation.window, federation.rounds)
    counts = state.counts[a]
    return Trained(
        global_model=state.models[a, :dimension].copy(),
        local_models=state.locals[:, a, :dimension].copy(),
        a_posteriori_mse=float(means[codes.A_POSTERIORI]),
        global_msd=float(means[codes.GLOBAL_MSD]),
        local_msd=float(means[codes.LOCAL_MSD]),
        coordinates_per_round=int(counts[codes.COORDINATES]) / federation.rounds,
        injections=int(counts[codes.INJECTIONS]),
        injected_energy=float(state.sums[a, codes.ENERGY]),
        refusals=int(counts[codes.REFUSALS]),
        weakened_rounds=int(counts[codes.WEAKENED]),
        diverged_at=int(counts[codes.DIVERGED_AT]) or None,
    )
