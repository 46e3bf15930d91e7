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
from prism_fcp.kernels.table import Tables
from prism_fcp.kernels.training import State, play
from prism_fcp.kernels.words import LANES
from prism_fcp.streams import Role
from prism_fcp.train.aggregate.lift import LARGEST
from prism_fcp.train.loop import CHECK_EVERY, Draws, Stream, Trained, check_arms, check_shapes, deviation_limit
from prism_fcp.train.settings import Arm, Federation
from prism_fcp.types import FloatArray, Ledger

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
    tables = Arms(*encode_arms(arms, federation.dimension, federation.rounds))
    state = State(
        models=np.zeros((len(arms), width), np.float32),
        locals=np.zeros((federation.num_clients, len(arms), width), np.float32),
        sums=np.zeros((len(arms), 4)),
        counts=np.zeros((len(arms), codes.COUNTS), np.int64),
        averaged=np.zeros((len(arms), width)),
        usual=np.full(len(arms), np.nan),
        means=np.zeros(
            (federation.num_clients, int(tables.table[:, codes.MEAN_SLOT].max(initial=-1)) + 1, width), np.float32
        ),
        gains=np.zeros(len(arms)),
        tables=_tables(int(tables.table[:, codes.SLOT].max(initial=-1)) + 1, federation.num_clients, width),
    )
    plan = _plan(population, federation)
    for first, last, supplied in _stretches(population, federation, draws):
        play(plan, clients, tables, supplied, first, last, state)
    return [_finish(state, a, tables, federation) for a in range(len(arms))]


def _plan(population: Stream, federation: Federation) -> Plan:
    attack = encode_attack(federation.attack)
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
        attack=attack.code,
        probability=float(attack.probability),
        strength=np.float32(attack.strength),
        exact_strength=float(attack.strength),
        asleep=attack.asleep,
        target_factor=np.float32(attack.target_factor),
        fixed_samples=_fixed_samples(population),
    )


def _clients(population: Stream, federation: Federation, width: int) -> Clients:
    truth = np.zeros(width, np.float32)
    truth[: federation.dimension] = population.truth
    byzantine = np.array(population.byzantine, np.bool_)
    if not isinstance(population, Population):  # its samples are made outside the kernel
        nothing = np.zeros(0, np.float32)
        return Clients(truth, nothing, nothing, nothing, byzantine, nothing.reshape(0, 0))
    own = np.zeros((0, 0), np.float32)
    if population.own_truths is not None:
        own = np.zeros((federation.num_clients, width), np.float32)
        own[:, : federation.dimension] = population.own_truths
    return Clients(
        truth,
        _plain(population.means),
        _plain(np.sqrt(population.variances)),
        _plain(np.sqrt(population.noise_variances)),
        byzantine,
        own,
    )


def _stretches(population: Stream, federation: Federation, draws: Draws | None) -> Iterator[tuple[int, int, Supplied]]:
    """Yield (first round, last round, samples): all rounds at once where the kernel draws for itself."""
    rounds, shape = federation.rounds, (federation.num_clients, federation.dimension)
    if draws is None and type(population) is Population:
        yield 1, rounds, Supplied(np.zeros((0, *shape), np.float32), np.zeros((0, 0), np.float32), _no_rows(shape))
        return
    step = max(1, STRETCH_BYTES // (4 * math.prod(shape)))
    held = _fixed_samples(population) or rounds
    for first in range(1, rounds + 1, step):
        last = min(rounds, first + step - 1)
        if draws is None:
            made = [_own_normals(population, 1 + (n - 1) % held, shape) for n in range(first, last + 1)]
            inputs = population.inputs(np.stack([m[0] for m in made]))
            targets = population.targets(inputs, np.stack([m[1] for m in made]))
        else:
            part = np.arange(first - 1, last) % held
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


def _fixed_samples(population: Stream) -> int:
    return int(getattr(population, "fixed_samples", 0))


def _tables(count: int, num_clients: int, width: int) -> Tables:
    values, clients = (count, num_clients, width), (count, num_clients)
    return Tables(
        average=np.zeros(values),
        weight=np.zeros(values),
        excluded=np.zeros(clients, np.bool_),
        distance=np.full(clients, np.nan),
        aligned=np.full(clients, np.nan),
        first_excluded=np.zeros(clients, np.int64),
        times_excluded=np.zeros(clients, np.int64),
        limit=np.full(count, np.inf),
        looks=np.zeros(count, np.int64),
    )


def _ledger(tables: Tables, t: int) -> Ledger:
    return Ledger(
        np.arange(tables.excluded.shape[1]),
        tables.excluded[t].copy(),
        tables.distance[t].copy(),
        float(tables.limit[t]),
        tables.aligned[t].copy(),
        tables.first_excluded[t].copy(),
        tables.times_excluded[t].copy(),
        int(tables.looks[t]),
    )


def _no_rows(shape: tuple[int, int]) -> FloatArray:
    return np.zeros((0, *shape), np.float32)


def _plain(values: FloatArray) -> FloatArray:
    return np.array(values, np.float32, order="C")  # a copy: for a read-only array numba would compile once more


def _finish(state: State, a: int, arms: Arms, federation: Federation) -> Trained:
    dimension, arm = federation.dimension, arms.table[a]
    model, count = state.models[a, :dimension].copy(), federation.rounds + 1 - arm[codes.AVERAGED_FROM]
    if count > 0 and arm[codes.EXCHANGE]:
        model = (state.averaged[a, :dimension] / count).astype(np.float32)
    means = state.sums[a] / min(federation.window, federation.rounds)
    counts = state.counts[a]
    return Trained(
        global_model=model,
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
        ledger=_ledger(state.tables, arm[codes.SLOT]) if arm[codes.SLOT] >= 0 else None,
    )
