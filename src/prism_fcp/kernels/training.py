"""Training of every arm over a stretch of rounds: `train/loop.py`, compiled. Same names, same order of play."""

# mypy: allow-untyped-defs
from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from prism_fcp.kernels import codes, rules
from prism_fcp.kernels._jit import inlined, kernel
from prism_fcp.kernels.deal import NOBODY, draw_attackers, draw_participants, draw_ranks, draw_samples
from prism_fcp.kernels.forge import forge, imitate, imitates
from prism_fcp.kernels.table import Tables, consult, judge, keep_trusted, remember
from prism_fcp.kernels.words import padded


class State(NamedTuple):
    """What the rounds change."""

    models: NDArray[np.float32]  # (A, width)
    locals: NDArray[np.float32]  # (K, A, width)
    sums: NDArray[np.float64]  # (A, 4)
    counts: NDArray[np.int64]  # (A, codes.COUNTS)
    averaged: NDArray[np.float64]  # (A, width): sum of the global models that count in the average
    usual: NDArray[np.float64]  # (A,): running median norm of an update; nan before the first
    means: NDArray[np.float32]  # (K, arms that upload them, width): the clients' averaged models
    gains: NDArray[np.float64]  # (A,): sum of the weights in them
    tables: Tables


@inlined
def _receive(local, model, a, selected, ranks, shared, mixing):
    """Equal `local[selected] = where(down, previous, local[selected])`, or a step towards it."""
    if mixing != np.float32(1):
        for i in range(len(selected)):
            k = selected[i]
            for j in range(local.shape[2]):
                theirs, own = model[a, j], local[k, a, j]
                local[k, a, j] = own + mixing * (theirs - own) if ranks[i, j] < shared else own
        return
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
def _average(state, a, slot, n, power):
    """Equal `average` of `train/round.py`: take this round's models into the clients' means."""
    gain = np.float64(n) ** power
    state.gains[a] += gain
    share = np.float32(gain / state.gains[a])
    for k in range(len(state.locals)):
        for j in range(state.locals.shape[2]):
            state.means[k, slot, j] += share * (state.locals[k, a, j] - state.means[k, slot, j])


@inlined
def _upload(
    plan,
    clients,
    state,
    a,
    models,
    at,
    number,
    selected,
    acting,
    perturbations,
    ranks,
    shared,
    forged,
    rows,
    sent,
    owner,
):
    """Fill rows and sent with the uploads of `models[:, at]` that the server admits, and return how many.

    A NaN or a huge value is refused.
    """
    width = rows.shape[1]
    asked, known = False, False
    n = 0
    for i in range(len(selected)):
        k = selected[i]
        for j in range(width):
            rows[n, j] = models[k, at, j]
        if acting[i]:
            state.counts[a, codes.INJECTIONS] += 1
            if imitates(plan.attack) and not asked:
                asked = True
                known = imitate(
                    plan.attack, plan.strength, clients.byzantine, models, at, selected, state.models[a], forged
                )
            if known or not imitates(plan.attack):
                own = models[k, at]
                forge(
                    plan,
                    number,
                    own,
                    state.models[a],
                    clients.truth,
                    perturbations[i],
                    ranks[i],
                    shared,
                    forged,
                    rows[n],
                )
                energy = 0.0
                for j in range(width):
                    added = np.float64(rows[n, j] - own[j])
                    energy += added * added if ranks[i, j] < shared else 0.0
                state.sums[a, codes.ENERGY] += energy
        coordinates, broken = np.int32(0), np.int32(0)
        for j in range(width):
            given = ranks[i, j] < shared
            value, kept = rows[n, j], state.models[a, j]
            sent[n, j] = np.int32(given)
            coordinates = np.int32(coordinates + np.int32(given))
            broken = np.int32(broken + np.int32(given & (not abs(value) <= plan.largest)))
            rows[n, j] = value if given else kept
        state.counts[a, codes.COORDINATES] += coordinates
        owner[n] = k
        if broken == 0:
            n += 1
        else:
            state.counts[a, codes.REFUSALS] += 1
    return n


@inlined
def _clip(factor, rows, previous, a, n, usual, norms):
    """Shrink the changes of the n rows to `factor` times the running median norm, as `clipped_median` does."""
    width = rows.shape[1]
    for i in range(n):
        total = 0.0
        for j in range(width):
            change = np.float64(rows[i, j] - previous[a, j])
            total += change * change
        norms[i] = np.sqrt(total)
    now = np.median(norms[:n])
    known = usual[a] > 0  # neither NaN, before the first round, nor 0, which no factor would ever lift
    usual[a] = usual[a] * (1 + codes.CLIP_RATE * np.sign(now - usual[a])) if known else now
    for i in range(n):
        if norms[i] > factor * usual[a]:
            shrink = np.float32(factor * usual[a] / norms[i])
            for j in range(width):
                rows[i, j] = previous[a, j] + shrink * (rows[i, j] - previous[a, j])


@inlined
def _remember(arm, numbers, tables, n, dimension, rows, sent, owner, admitted):
    """Put the round into the arm's table, and look at the clients when it is time; return this round's weight."""
    t, gain = arm[codes.SLOT], np.float64(n) ** numbers[codes.POWER]
    remember(tables, t, rows, sent, owner, admitted, gain)
    first, cutoff = arm[codes.FIRST_LOOK], numbers[codes.CUTOFF]
    if cutoff > 0 and n >= first and (n - first) % arm[codes.EVERY] == 0:
        judge(tables, t, n, gain, cutoff, numbers[codes.ALIGNED], dimension)
    return gain


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
def _measure(state, a, exchange, selected, place, ranks, shared, mixing, before, truth, x, y):
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
            if mixing != np.float32(1):
                guess = np.float32(0)
                for j in range(width):
                    theirs, own = before[j], state.locals[k, a, j]
                    guess += (own + mixing * (theirs - own) if ranks[place[k], j] < shared else own) * x[k, j]
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
    owner, values, weights = np.empty(chosen, np.int64), np.empty(num_clients), np.empty(num_clients)
    forged, before, fresh = np.zeros((2, width), np.float32), np.empty(width, np.float32), np.empty(width, np.float32)

    for n in range(first, last + 1):
        draw_samples(plan, clients, supplied, n, first, half, inside, normals, x, y)
        draw_participants(plan, n, unit_ranks, heads, selected, place)
        draw_attackers(plan, clients, supplied, n, first, selected, acting, scratch, perturbations)
        draw_ranks(plan, arms, n, selected, unit_ranks, heads, ranks)

        for a in range(num_arms):
            arm = arms.table[a]
            if state.counts[a, codes.DIVERGED_AT] == 0 and arm[codes.EXCHANGE] != 0:
                shared, mixing = np.int32(arm[codes.DOWN_SHARED]), np.float32(arms.numbers[a, codes.MIXING])
                _receive(state.locals, state.models, a, selected, ranks[arm[codes.DOWNLOAD]], shared, mixing)
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
                deck, models, at = ranks[arm[codes.UPLOAD]], state.locals, a
                if arm[codes.MEAN_SLOT] >= 0:
                    models, at = state.means, arm[codes.MEAN_SLOT]
                    _average(state, a, at, n, arms.numbers[a, codes.CLIENT_POWER])
                admitted = _upload(
                    plan,
                    clients,
                    state,
                    a,
                    models,
                    at,
                    n,
                    selected,
                    acting,
                    perturbations,
                    deck,
                    shared,
                    forged,
                    rows,
                    sent,
                    owner,
                )
                state.counts[a, codes.WEAKENED] += admitted < arm[codes.LEAST]
                if arm[codes.SLOT] >= 0:
                    gain = _remember(arm, arms.numbers[a], state.tables, n, plan.dimension, rows, sent, owner, admitted)
                    if arm[codes.RULE] == codes.TABLE:
                        consult(state.tables, arm[codes.SLOT], sent, admitted, gain, values, weights, state.models[a])
                    else:
                        admitted = keep_trusted(state.tables, arm[codes.SLOT], rows, sent, owner, admitted)
                if arm[codes.RULE] != codes.TABLE:
                    if arms.numbers[a, codes.CLIP] > 0 and admitted > 0:
                        _clip(arms.numbers[a, codes.CLIP], rows, state.models, a, admitted, state.usual, scores)
                    _aggregate(
                        arm, rows, sent, admitted, state.models, a, ordered, count, start, squared, scores, fresh
                    )
                if n >= arm[codes.AVERAGED_FROM]:
                    for j in range(width):
                        state.averaged[a, j] += np.float64(state.models[a, j])
            if n > plan.rounds - plan.window:
                down, mixing = np.int32(arm[codes.DOWN_SHARED]), np.float32(arms.numbers[a, codes.MIXING])
                _measure(
                    state, a, exchange, selected, place, ranks[arm[codes.DOWNLOAD]], down, mixing, before,
                    clients.truth, x, y,
                )  # fmt: skip
            if n % plan.check_every == 0 or n == plan.rounds:
                if _has_diverged(state, a, clients.truth, plan.deviation_limit):
                    state.counts[a, codes.DIVERGED_AT] = n
