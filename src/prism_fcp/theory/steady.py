"""Where training under the mean settles: the deviation of its models and errors, and what it is made of.

Paper: lem:ms-convergence; lem:steady-state-mse; rem:mse-decomposition.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

import numpy as np

from prism_fcp.errors import SettingError
from prism_fcp.theory.krylov import arnoldi, fixed_point, modes_of, spectral_radius
from prism_fcp.theory.modes import Real, trace
from prism_fcp.theory.recursion import State, Training, mean_round, play
from prism_fcp.types import BoolArray

SLOWEST: Final = 3e-9  # a growth nearer to 1 than this is lost to rounding
SCANNED: Final = 1e-6  # residual of a solution that is one of many
LOOKS: Final = 400  # places at which a gap is looked at


class Parts(NamedTuple):
    """A steady-state figure and its three causes, which add up.

    Paper: eq:steady-state-mse.
    """

    noise: float  # observation noise that went through learning
    byzantine: float
    irreducible: float  # what learning does not touch: the target's own noise; 0 for a deviation of models

    @property
    def total(self) -> float:
        """Return the sum."""
        return self.noise + self.byzantine + self.irreducible


@dataclass(frozen=True, slots=True)
class Steady:
    """A steady state: squared deviations from the truth, and squared errors of predictions."""

    server: Parts  # of the global model
    local: Parts  # of the local models, mean over clients
    error: Parts  # of a local model's prediction for its own client, mean over clients
    server_error: Parts  # of the global model's prediction
    excess: Real  # (G,) by kind: E(x.e)^2 of a local model
    server_excess: Real  # (G,)
    state: State
    correlation: float  # of two clients' local errors, mean over pairs


def steady_state(training: Training) -> Steady:
    """Return the steady state; a step size that has none, or takes for ever, is a `SettingError` with the limit.

    The recursion is linear and its sources are independent, so it is solved for each source alone.

    Paper: lem:steady-state-mse; eq:steady-state-mse.
    """
    growth = growth_rate(training)
    if growth > 1 - SLOWEST:
        limit = stability_limit(training)
        if training.step_size < limit and growth < 1 + SLOWEST:
            raise SettingError(
                f"step_size={training.step_size:g}; takes hundreds of millions of rounds or more to settle, too many "
                f"to compute; raise step_size: it converges below {limit:.4g}, and fastest at about half of that"
            )
        raise SettingError(
            f"step_size={training.step_size:g}; must lie below {limit:.4g}, where the mean-square deviation of "
            "these clients stops converging; lower step_size"
        )
    return _combined(training, _settle(training, 1.0, 0.0), _settle(training, 0.0, 1.0))


def growth_rate(training: Training) -> float:
    """Return by which factor second moments grow a round, in the long run; below 1 they settle.

    Paper: lem:ms-convergence.
    """
    kinds = len(training.kinds.counts)
    start = State.start(1.0, 1, kinds).flat()
    return spectral_radius(lambda flat: _homogeneous(training, flat), start)


def stability_limit(training: Training, tolerance: float = 1e-4) -> float:
    """Return the step size from which on the mean-square deviation no longer converges.

    Paper: lem:ms-convergence.
    """
    across, along = training.inputs.eigenvalues
    alone = 1 / float(((training.dimension - 1) * across + along).max())
    return _last_below_one(lambda step: growth_rate(replace(training, step_size=step)), alone, tolerance)


def _last_below_one(growth: Callable[[float], float], guess: float, tolerance: float = 1e-4) -> float:
    """Return the largest step size, to this much of it, with a growth below 1.

    Growth less 1, over the step size, is nearly a line: both ends of a bracket are drawn in to where it crosses zero.
    """

    def rise(step: float) -> float:
        return (growth(step) - 1) / step

    low = high = guess
    below = above = rise(guess)
    factor = 1.5
    while below >= 0:
        high, above, low = low, below, low / factor
        below, factor = rise(low), factor * 1.5
    while above < 0:
        low, below, high = high, above, high * factor
        above, factor = rise(high), factor * 1.5
    last = 0.0
    while high - low > tolerance * high:
        nudge = 0.4 * tolerance * high
        middle = min(max(low - below * (high - low) / (above - below), low + nudge), high - nudge)
        there = rise(middle)
        if there * last > 0:  # the same end moved twice: the other one counts half, and will follow
            below, above = (below, above / 2) if there < 0 else (below / 2, above)
        low, below, high, above = (middle, there, high, above) if there < 0 else (low, below, middle, there)
        last = there
    return low


def mean_stability_limit(training: Training) -> float:
    """Return the step size from which on even the mean of the models no longer converges.

    It is larger than `stability_limit` and says little by itself: between the two the mean is right and the spread
    grows without bound. Below min over clients of 2 / lambda_max(R_k) the mean converges whatever the masks.

    Paper: lem:mean-conv.
    """
    safe = float((2 / training.inputs.eigenvalues.max(axis=0)).min())
    return _last_below_one(lambda step: mean_growth_rate(replace(training, step_size=step)), 0.999 * safe)


def mean_growth_rate(training: Training) -> float:
    """Return by which factor the models' mean error grows a round, in the long run; below 1 it vanishes.

    Paper: lem:mean-conv.
    """
    kinds = len(training.kinds.counts)
    found = []
    for mode in range(2):
        table = np.stack([mean_round(training, row, mode) for row in np.eye(1 + 2 * kinds)], axis=1)
        found.append(float(np.abs(np.linalg.eigvals(table)).max()))
    return max(found)


def deviations(training: Training, rounds: int, energy: float = 1.0) -> tuple[Real, Real]:
    """Return the squared deviation of global and local models after each round, from models of zero.

    `energy` is the squared norm of the truth.
    """
    state = State.start(energy, training.dimension, len(training.kinds.counts))
    found = []
    for _ in range(rounds):
        state = play(training, state)
        found.append(_deviation(training, state))
    table = np.array(found).reshape(-1, 2)
    return table[:, 0], table[:, 1]


def rounds_to_settle(
    training: Training, energy: float = 1.0, decibels: float = 0.5, steady: Steady | None = None
) -> int:
    """Return after how many rounds from models of zero the local deviation stays within so many dB of its steady state.

    Rates of decay are taken on a Krylov space, which holds the slow ones. `steady` saves solving for it again.
    """
    kinds = len(training.kinds.counts)
    end = (steady or steady_state(training)).state
    start = State.start(energy, training.dimension, kinds)
    space = arnoldi(lambda flat: _homogeneous(training, flat), start.flat() - end.flat())
    read = np.array([_deviation(training, State.of(row, kinds))[1] for row in space.basis])
    level = _deviation(training, end)[1]
    allowed = (10 ** (decibels / 10) - 1) * max(level, 1e-300)

    rates, sizes = modes_of(space, read)
    stays = np.abs(rates) < 1  # rounding again, as the steady state exists
    rates, sizes = rates[stays], sizes[stays]

    def outside(numbers: Real) -> BoolArray:
        return np.asarray(np.abs((sizes * rates ** numbers[:, None]).sum(axis=1)) > allowed)

    most = 1.0
    while (np.abs(sizes) * np.abs(rates) ** most).sum() > allowed and most < 2**60:
        most *= 2
    places = np.unique(np.geomspace(1, most, LOOKS).round())  # the gap may close and open again: look everywhere
    last = np.flatnonzero(outside(places))
    if not len(last):
        return 1
    low, high = places[last[-1]], places[min(last[-1] + 1, len(places) - 1)]
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if outside(np.array([middle]))[0] else (low, middle)
    return int(high)


class Settled(NamedTuple):
    """A steady state that is not split: what a scan over many settings needs."""

    server: float  # deviations
    local: float
    excess: Real  # (G,) of the local models' predictions
    server_excess: Real
    correlation: float


def settled(training: Training) -> Settled | None:
    """Return the steady state as a whole, or None where there is none.

    A map that keeps covariances covariances has a largest eigenvalue below 1 just where its fixed point is one.
    """
    state = _settle(training, 1.0, 1.0, SCANNED)
    server, local = _deviation(training, state)
    if not (min(server, local) > 0 and (state.own_local > 0).all()):
        return None
    excess, theirs = _excess(training, state.own_local), _excess(training, state.server[:, None])
    return Settled(server, local, excess, theirs, _correlation(training, state))


def alone_excess(training: Training) -> Real:
    """Return by how much the predictions of a client that never shares err, by kind (G,); infinite if it diverges."""
    inputs, kinds = training.inputs, len(training.kinds.counts)
    basis = [inputs.square(np.repeat(row[:, None], kinds, 1)) for row in np.eye(2)]
    found = np.full((2, kinds), np.inf)
    for kind in range(kinds):
        step = np.stack([column[:, kind] for column in basis], axis=1)
        if np.abs(np.linalg.eigvals(step)).max() < 1:
            found[:, kind] = np.linalg.solve(np.eye(2) - step, inputs.noise[:, kind])
    return np.where(np.isfinite(found).all(axis=0), _excess(training, np.nan_to_num(found, posinf=0)), np.inf)


def _homogeneous(training: Training, flat: Real) -> Real:
    return play(training, State.of(flat, len(training.kinds.counts)), noise=0.0, attack=0.0).flat()


def _settle(training: Training, noise: float, attack: float, tolerance: float = 1e-10) -> State:
    kinds = len(training.kinds.counts)
    nothing = State.of(np.zeros(2 + 8 * kinds + 6 * kinds**2), kinds)
    source = play(training, nothing, noise=noise, attack=attack).flat()
    return State.of(fixed_point(lambda flat: _homogeneous(training, flat), source, tolerance=tolerance), kinds)


def _combined(training: Training, noise: State, attack: State) -> Steady:
    counts, kinds = training.kinds.counts, training.kinds
    share = counts / counts.sum()
    own, theirs = _deviation(training, noise), _deviation(training, attack)
    excess = [_excess(training, state.own_local) for state in (noise, attack)]
    server_excess = [_excess(training, state.server[:, None]) for state in (noise, attack)]
    floor = float(share @ kinds.noise_variances)
    both = State(*(a + b for a, b in zip(noise, attack, strict=True)))
    return Steady(
        server=Parts(own[0], theirs[0], 0.0),
        local=Parts(own[1], theirs[1], 0.0),
        error=Parts(float(share @ excess[0]), float(share @ excess[1]), floor),
        server_error=Parts(float(share @ server_excess[0]), float(share @ server_excess[1]), floor),
        excess=excess[0] + excess[1],
        server_excess=server_excess[0] + server_excess[1],
        state=both,
        correlation=_correlation(training, both),
    )


def _deviation(training: Training, state: State) -> tuple[float, float]:
    counts, d = training.kinds.counts, training.dimension
    return float(trace(state.server, d)), float(trace(state.own_local, d) @ counts / counts.sum())


def _excess(training: Training, modes: Real) -> Real:
    """Return tr(R_k A) for each kind: what an error of second moment A adds to the squared error of a prediction."""
    across, along = training.inputs.eigenvalues
    return np.asarray((training.dimension - 1) * across * modes[0] + along * modes[1])


def _correlation(training: Training, state: State) -> float:
    counts, d = training.kinds.counts, training.dimension
    sizes = np.sqrt(np.maximum(trace(state.own_local, d), 1e-300))
    pairs = counts[:, None] * counts[None, :] - np.diag(counts)
    if pairs.sum() <= 0:
        return 1.0
    return float(np.clip((trace(state.pair_local, d) / np.outer(sizes, sizes) * pairs).sum() / pairs.sum(), 0, 1))
