"""Training of every arm over a stretch of rounds: `train/loop.py`, compiled. Same names, same order of play."""

# mypy: allow-untyped-defs
from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from prism_fcp.kernels import codes, rules
from prism_fcp.kernels._jit import inlined, kernel
from prism_fcp.kernels.deal import NOBODY, draw_attackers, draw_participants, draw_ranks, draw_samples
from prism_fcp.kernels.words import padded


class State(NamedTuple):
    """What the rounds change."""

    models: NDArray[np.float32]  # (A, width)
    locals: NDArray[np.float32]  # (K, A, width)
    sums: NDArray[np.float64]  # (A, 4)
    counts: NDArray[np.int64]  # (A, codes.COUNTS)


@inlined
def _receive(local, model, a, selected, ranks, shared):
    """Equal `local[selected] = where(down, previous, local[selected])`."""
    for i in range(len(selected)):
        k = selected[i]
        for j in range(local.shape[2]):
            theirs, own = model[a, j], local[k, a, j]  # both read beforehand: no branch, so a vector loop
            local[k, a, j] = theirs if ranks[i, j] < shared else own


@inlined
def _learn(local, k, a, x, y, step_size):
    """Equal `lms_step` of one client."""
    width = x.shape[1]
    guess = np.float32(0)
    for j in range(width):
        guess += local[k, a, j] * x[k, j]
    pull = step_size * (y[k] - guess)
    for j in range(width):
        local[k, a, j] += pull * x[k, j]


@inlined
def _imitate(clients, local, a, selected, z, forged):
    """Write ALIE's upload, `honest.mean(axis=0) - z * honest.std(axis=0)`; return whether any were honest."""
    width = local.shape[2]
    honest = 0
    for i in range(len(selected)):
        honest += not clients.byzantine[selected[i]]
    if honest == 0:
        return False
    count = np.float32(honest)
    for j in range(width):
        forged[0, j] = np.float32(0)
        forged[1, j] = np.float32(0)
    for i in range(len(selected)):
        if not clients.byzantine[selected[i]]:
            for j in range(width):
                forged[0, j] += local[selected[i], a, j] / count
    for i in range(len(selected)):
        if not clients.byzantine[selected[i]]:
            for j in range(width):
                difference = local[selected[i], a, j] - forged[0, j]
                forged[1, j] += difference * difference
    for j in range(width):
        forged[0, j] -= z * np.sqrt(forged[1, j] / count)
    return True


@inlined
def _forge(plan, state, a, i, k, perturbations, ranks, shared, forged, rows, n):
    """Overwrite row n by what client k, the i-th participant, forges; return the energy it adds where it is sent."""
    width = rows.shape[1]
    for j in range(width):
        rows[n, j] = forged[0, j] if plan.attack == codes.ALIE else rows[n, j] + plan.strength * perturbations[i, j]
    energy = 0.0
    for j in range(width):
        added = np.float64(rows[n, j] - state.locals[k, a, j])
        energy += added * added if ranks[i, j] < shared else 0.0
    return energy


@inlined
def _upload(plan, clients, state, a, selected, acting, perturbations, ranks, shared, forged, rows, sent):
    """Fill rows and sent with the uploads the server admits, and return how many; a NaN or a huge value is refused."""
    width = rows.shape[1]
    asked, imitates = False, False
    n = 0
    for i in range(len(selected)):
        k = selected[i]
        for j in range(width):
            rows[n, j] = state.locals[k, a, j]
        if acting[i]:
            state.counts[a, codes.INJECTIONS] += 1
            if plan.attack == codes.ALIE and not asked:
                asked, imitates = True, _imitate(clients, state.locals, a, selected, plan.strength, forged)
            if plan.attack == codes.GAUSSIAN or imitates:
                state.sums[a, codes.ENERGY] += _forge(
                    plan, state, a, i, k, perturbations, ranks, shared, forged, rows, n
                )
        coordinates, broken = np.int32(0), np.int32(0)
        for j in range(width):
            given = ranks[i, j] < shared
            value, kept = rows[n, j], state.models[a, j]
            sent[n, j] = np.int32(given)
            coordinates = np.int32(coordinates + np.int32(given))
            broken = np.int32(broken + np.int32(given & (not abs(value) <= plan.largest)))
            rows[n, j] = value if given else kept
        state.counts[a, codes.COORDINATES] += coordinates
        if broken == 0:
            n += 1
        else:
            state.counts[a, codes.REFUSALS] += 1
    return n


@inlined
def _aggregate(arm, rows, sent, n, previous, a, ordered, count, start, squared, scores, fresh):
    """Write the rule's model into `previous[a]`; with no upload left the model stays as it was."""
    if n == 0:
        return
    rule = arm[codes.RULE]
    if rule == codes.MEAN:
        rules.mean(rows, n, fresh)
    elif rule == codes.MEAN_OF_SHARERS:
        rules.mean_of_sharers(rows, sent, previous[a], n, count, fresh)
    elif rule == codes.TRIMMED_MEAN:
        rules.trimmed_mean(rows, sent, previous[a], n, min(n, arm[codes.TRIM]), ordered, start, count, fresh)
    else:
        rules.krum(rows, n, arm[codes.SUSPECTS], arm[codes.CLOSEST], arm[codes.SELECTED], squared, scores, fresh)
    for j in range(len(fresh)):
        previous[a, j] = fresh[j]


@inlined
def _measure(state, a, exchange, selected, place, ranks, shared, before, truth, x, y):
    """Add one steady round to the arm's sums; `before` is the model the clients received."""
    num_clients, width = x.shape
    after, deviation, total = 0.0, 0.0, np.float32(0)
    for k in range(num_clients):
        guess, distance = np.float32(0), np.float32(0)
        for j in range(width):
            value = state.locals[k, a, j]
            guess += value * x[k, j]
            distance += (value - truth[j]) * (value - truth[j])
        if exchange and place[k] >= 0:
            guess = np.float32(0)
            for j in range(width):
                theirs, own = before[j], state.locals[k, a, j]
                guess += (theirs if ranks[place[k], j] < shared else own) * x[k, j]
        error = np.float64(y[k] - guess)
        after += error * error
        deviation += np.float64(distance)
    for j in range(width):
        total += (state.models[a, j] - truth[j]) * (state.models[a, j] - truth[j])
    state.sums[a, codes.A_POSTERIORI] += after / num_clients
    state.sums[a, codes.GLOBAL_MSD] += np.float64(total)
    state.sums[a, codes.LOCAL_MSD] += deviation / num_clients


@inlined
def _deviation(model, truth):
    """Equal `np.square(model - truth).sum()`."""
    total = np.float32(0)
    for j in range(len(truth)):
        total += (model[j] - truth[j]) * (model[j] - truth[j])
    return total


@inlined
def _has_diverged(state, a, truth, limit):
    """Equal the readable engine's of this name; a NaN is not within the limit."""
    beyond = not _deviation(state.models[a], truth) <= limit
    for k in range(len(state.locals)):
        beyond |= not _deviation(state.locals[k, a], truth) <= limit
    return beyond


@kernel
def play(plan, clients, arms, supplied, first, last, state):
    """Play rounds first..last of every arm that has not diverged: `_play_round` of `train/loop.py` for each."""
    num_clients, num_arms, width = state.locals.shape
    chosen = plan.num_participants
    samples = num_clients * (plan.dimension + 1)
    # Samples, and room to read a whole padded row behind the last.
    half = padded((samples + 1) // 2)
    normals = np.zeros(2 * half + width, np.float32)
    scratch = np.empty(2 * width, np.float32)
    inside = np.zeros(width, np.float32)  # 1 where there is a coordinate, 0 in the padding
    for j in range(plan.dimension):
        inside[j] = np.float32(1)
    x, y = np.zeros((num_clients, width), np.float32), np.empty(num_clients, np.float32)
    most = max(num_clients, plan.dimension)
    unit_ranks, heads = np.empty(padded(most), np.int32), np.empty(padded(most), np.uint32)
    selected, place = np.empty(chosen, np.int64), np.empty(num_clients, np.int64)
    acting = np.zeros(chosen, np.bool_)
    perturbations = np.zeros((chosen, width), np.float32)
    ranks = np.zeros((len(arms.decks), chosen, width), np.int32)
    for q in range(len(arms.decks)):
        for i in range(chosen):
            for j in range(plan.dimension, width):
                ranks[q, i, j] = NOBODY
    rows, ordered = np.zeros((chosen, width), np.float32), np.empty((chosen, width), np.float32)
    sent = np.zeros((chosen, width), np.int32)
    count, start = np.empty(width, np.int32), np.empty(width, np.int32)
    squared = np.zeros((chosen, padded(chosen)), np.float64)
    scores = np.empty(chosen, np.float64)
    forged, before, fresh = np.zeros((2, width), np.float32), np.empty(width, np.float32), np.empty(width, np.float32)

    for n in range(first, last + 1):
        draw_samples(plan, clients, supplied, n, first, half, inside, normals, x, y)
        draw_participants(plan, n, unit_ranks, heads, selected, place)
        draw_attackers(plan, clients, supplied, n, first, selected, acting, scratch, perturbations)
        draw_ranks(plan, arms, n, selected, unit_ranks, heads, ranks)

        for a in range(num_arms):
            arm = arms.table[a]
            if state.counts[a, codes.DIVERGED_AT] == 0 and arm[codes.EXCHANGE] != 0:
                shared = np.int32(arm[codes.NUM_SHARED])
                _receive(state.locals, state.models, a, selected, ranks[arm[codes.DOWNLOAD]], shared)
        for k in range(num_clients):
            if plan.idle_learning or place[k] >= 0:
                for a in range(num_arms):
                    if state.counts[a, codes.DIVERGED_AT] == 0:
                        _learn(state.locals, k, a, x, y, plan.step_size)
        for a in range(num_arms):
            if state.counts[a, codes.DIVERGED_AT] != 0:
                continue
            arm = arms.table[a]
            exchange, shared = arm[codes.EXCHANGE] != 0, np.int32(arm[codes.NUM_SHARED])
            for j in range(width):
                before[j] = state.models[a, j]
            if exchange:
                deck = ranks[arm[codes.UPLOAD]]
                admitted = _upload(
                    plan, clients, state, a, selected, acting, perturbations, deck, shared, forged, rows, sent
                )
                state.counts[a, codes.WEAKENED] += admitted < arm[codes.LEAST]
                _aggregate(arm, rows, sent, admitted, state.models, a, ordered, count, start, squared, scores, fresh)
            if n > plan.rounds - plan.window:
                _measure(
                    state, a, exchange, selected, place, ranks[arm[codes.DOWNLOAD]], shared, before, clients.truth, x, y
                )
            if n % plan.check_every == 0 or n == plan.rounds:
                if _has_diverged(state, a, clients.truth, plan.deviation_limit):
                    state.counts[a, codes.DIVERGED_AT] = n
