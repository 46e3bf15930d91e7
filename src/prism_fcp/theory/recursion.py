"""One round of training as a linear map of second moments: Algorithm 1 with the mean, exactly.

Clients come in kinds, alike within one, so a federation of any size is small. The state holds what the next round
needs: the second moments of the global error, of each kind's local error, of what a participant starts the next round
from (its `held` model), of two different clients, and between these. docs/theory.md has the derivation.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from prism_fcp.errors import SettingError
from prism_fcp.theory.echo import Moves, echo
from prism_fcp.theory.modes import (
    Inputs,
    Real,
    Shape,
    average,
    blend,
    block,
    columns,
    masked,
    rows,
    square_block,
    step_left,
    weigh,
)
from prism_fcp.train.settings import Coordination, Download


@dataclass(frozen=True, kw_only=True, slots=True)
class Kinds:
    """Clients that are alike, by kind: how many there are, what they observe, which share of them is Byzantine."""

    counts: Real  # (G,)
    variances: Real  # (G,) s_k^2
    means: Real  # (G,) m_k
    noise_variances: Real  # (G,)
    byzantine: Real  # (G,)


MODELLED: Final = ("same", "previous", "independent", "full")  # downloads the recursion describes


@dataclass(frozen=True, kw_only=True, slots=True)
class Training:
    """What the recursion depends on. `noise` and `attack` switch its two sources off."""

    kinds: Kinds
    dimension: int
    num_shared: int
    num_participants: int
    step_size: float
    attack_variance: float = 0.0
    attack_probability: float = 0.0
    coordination: Coordination = "client"
    download: Download = "same"
    idle_learning: bool = True

    def __post_init__(self) -> None:
        """Refuse a protocol whose server this recursion does not describe."""
        if self.download not in MODELLED:
            raise SettingError(
                f"download={self.download!r}; the recursion knows {', '.join(MODELLED)}: clients that download nothing "
                "until the end have no steady state of the mean"
            )

    @property
    def shape(self) -> Shape:
        """Return D and M."""
        return Shape(self.dimension, self.num_shared)

    @property
    def inputs(self) -> Inputs:
        """Return the law of a learning step."""
        squares = self.kinds.means**2
        along = self.kinds.variances + self.dimension * squares
        eigenvalues = np.stack([self.kinds.variances if self.dimension > 1 else along, along])
        return Inputs(self.dimension, self.step_size, eigenvalues, squares, self.kinds.noise_variances)


class State(NamedTuple):
    """Second moments in modes: `own` of one client, `pair` of two different ones. The server's error is `server`."""

    server: Real  # (2,)
    to_local: Real  # (2, G) server with local
    to_held: Real  # (2, G) server with held
    own_local: Real  # (2, G)
    own_held: Real  # (2, G)
    pair_local: Real  # (2, G, G)
    pair_mixed: Real  # (2, G, G) local of the first, held of the second
    pair_held: Real  # (2, G, G)

    def flat(self) -> Real:
        """Return all numbers in one row."""
        return np.concatenate([part.ravel() for part in self])

    @classmethod
    def of(cls, flat: Real, kinds: int) -> State:
        """Undo `flat`."""
        one, line, table = 2, 2 * kinds, 2 * kinds * kinds
        lines = flat[one : one + 4 * line].reshape(4, 2, kinds)
        tables = flat[one + 4 * line : one + 4 * line + 3 * table].reshape(3, 2, kinds, kinds)
        return cls(flat[:one], *lines, *tables)

    @classmethod
    def start(cls, energy: float, dimension: int, kinds: int) -> State:
        """Return the state of models that are all zero, far from a truth of this squared norm."""
        one = np.full(2, energy / dimension)
        many, table = np.repeat(one[:, None], kinds, 1), np.full((2, kinds, kinds), energy / dimension)
        return cls(one, many, many, many, many, table, table, table)


def mean_round(training: Training, errors: Real, mode: int) -> Real:
    """Return the mean errors after a round: of the server, each kind's local model, and what each kind holds.

    `mode` is 0 for what lies across the direction 1, 1 for what lies along it.

    Paper: lem:mean-conv.
    """
    counts, kinds = training.kinds.counts, len(training.kinds.counts)
    shape, one, q = training.shape, training.shape.one, training.inputs.mean_step[mode]
    server, local, held = errors[0], errors[1 : kinds + 1], errors[kinds + 1 :]
    chosen, _ = _chances(training)
    echo = weigh(training.inputs.mean_step, one, shape.two, training.dimension)[mode]
    if training.download == "same":
        after = q * (one * server + (1 - one) * local)
        added = (echo - one) * server + (one * q - echo) * local
    else:
        after = q * held
        added = one * (after - server)
    new = server + chosen * (added @ counts) / training.num_participants
    near = chosen * after + (1 - chosen) * (q if training.idle_learning else 1.0) * local
    source = new
    if training.download == "previous" and training.coordination == "common":
        source = chosen * (after @ counts) / training.num_participants
    let = 1.0 if training.download == "full" else one
    return np.concatenate([[new], near, let * source + (1 - let) * near])


class _Learnt(NamedTuple):
    """Moments after learning: y of those selected, u of the others, z what a selected one adds to the sum."""

    yy: Real  # (2, G) one client
    y0: Real
    uu: Real
    u0: Real
    zz: Real
    zy: Real
    z0: Real
    pair_yy: Real  # (2, G, G) two clients
    pair_uy: Real
    pair_uu: Real
    pair_zz: Real
    pair_zy: Real
    pair_zu: Real


def play(training: Training, state: State, *, noise: float = 1.0, attack: float = 1.0) -> State:
    """Return the second moments after one more round; `noise` and `attack` scale what is added anew.

    Paper: Alg. 1, phase 1; the preliminaries' recursion.
    """
    if training.download == "same":
        learnt = _learn_same(training, state, noise, attack)
        return _hold(training, state, learnt, attack)
    learnt = _learn_held(training, state, noise, attack, training.shape)
    if training.download == "previous" and training.coordination == "common":
        whole = _learn_held(training, state, noise, attack, Shape(training.dimension, training.dimension))
        return _hold(training, state, learnt, attack, whole)
    return _hold(training, state, learnt, attack)


def _learn_held(training: Training, state: State, noise: float, attack: float, shape: Shape) -> _Learnt:
    """Return the moments where the upload's mask is independent of what is held."""
    inputs, common = training.inputs, training.coordination == "common"
    q = inputs.mean_step
    still = q if training.idle_learning else np.ones_like(q)
    yy = inputs.square(state.own_held) + noise * inputs.noise
    uu = inputs.square(state.own_local) + noise * inputs.noise if training.idle_learning else state.own_local
    y0, u0, zero = q * state.to_held, still * state.to_local, state.server[:, None]
    pair_yy = q[:, :, None] * state.pair_held * q[:, None, :]
    pair_uy = still[:, :, None] * state.pair_mixed * q[:, None, :]
    pair_uu = still[:, :, None] * state.pair_local * still[:, None, :]
    moved = pair_yy - y0[:, :, None] - y0[:, None, :] + zero[:, :, None]
    zz = masked(yy - 2 * y0 + zero, shape) + _attack(training, shape, attack)
    pair_zz = masked(moved, shape) if common else shape.one**2 * moved
    pair_zy = shape.one * (pair_yy - y0[:, None, :])
    pair_zu = shape.one * (np.swapaxes(pair_uy, 1, 2) - u0[:, None, :])
    return _Learnt(
        yy, y0, uu, u0, zz, shape.one * (yy - y0), shape.one * (y0 - zero),
        pair_yy, pair_uy, pair_uu, pair_zz, pair_zy, pair_zu,
    )  # fmt: skip


def _learn_same(training: Training, state: State, noise: float, attack: float) -> _Learnt:
    """Return the moments where one mask serves both ways: what is shared depends on what was received."""
    inputs, shape = training.inputs, training.shape
    q, one = inputs.mean_step, shape.one
    still = q if training.idle_learning else np.ones_like(q)
    uu = inputs.square(state.own_local) + noise * inputs.noise if training.idle_learning else state.own_local
    u0 = still * state.to_local
    pair_uu = still[:, :, None] * state.pair_local * still[:, None, :]

    many = np.ones(len(training.kinds.counts))
    zero, near = block(state.server[:, None] * many, shape), block(state.to_local, shape)
    held_zero = rows(zero, near)
    held = rows(columns(zero, near), columns(near, block(state.own_local, shape)))
    after = square_block(held, inputs, shape) + block(noise * inputs.noise, shape)
    after_zero = step_left(held_zero, inputs, shape)
    change = after - after_zero - after_zero.transposed + zero
    zz = average(change.shared_rows.transposed.shared_rows, shape) + _attack(training, shape, attack)
    zy = average((after - after_zero.transposed).shared_rows, shape)
    z0 = average((after_zero - zero).shared_rows, shape)

    # Means over a client's own mask: y = of_server·server + of_local·local, and z likewise.
    of_server, of_local = one * q, (1 - one) * q
    echo = weigh(q, one, shape.two, training.dimension)  # E[S Q S]
    z_server, z_local = echo - one, one * q - echo
    y0 = of_server * state.server[:, None] + of_local * state.to_local
    local0 = state.to_local
    pair_uy = still[:, :, None] * (of_server[:, None, :] * local0[:, :, None] + of_local[:, None, :] * state.pair_local)
    pair_zu = (z_server[:, :, None] * local0[:, None, :] + z_local[:, :, None] * state.pair_local) * still[:, None, :]
    if training.coordination == "client":
        pair_yy = _product((of_server, of_local), (of_server, of_local), state)
        pair_zy = _product((z_server, z_local), (of_server, of_local), state)
        pair_zz = _product((z_server, z_local), (z_server, z_local), state)
    else:
        pair_yy, pair_zy, pair_zz = _common_pairs(training, state)
    return _Learnt(average(after, shape), y0, uu, u0, zz, zy, z0, pair_yy, pair_uy, pair_uu, pair_zz, pair_zy, pair_zu)


def _product(left: tuple[Real, Real], right: tuple[Real, Real], state: State) -> Real:
    """Return the moments of two clients' sums of the server's error and their own, under independent masks."""
    a, b = (part[:, :, None] for part in left)
    c, d = (part[:, None, :] for part in right)
    zero, near = state.server[:, None, None], state.to_local
    return np.asarray(a * (c * zero + d * near[:, None, :]) + b * (c * near[:, :, None] + d * state.pair_local))


def _common_pairs(training: Training, state: State) -> tuple[Real, Real, Real]:
    """Return the moments yy, zy, zz of two clients that share one mask, which also serves both ways."""
    inputs, shape = training.inputs, training.shape
    zero = block(state.server[:, None, None], shape)
    first = block(state.to_local[:, :, None], shape)  # the first client's local error with the server's
    second = block(state.to_local[:, None, :], shape)
    held = rows(columns(zero, second), columns(first, block(state.pair_local, shape)))
    after_zero = step_left(rows(zero, first), inputs, shape)
    after = step_left(step_left(held, inputs, shape).transposed, inputs, shape, second=True).transposed
    moved = after - after_zero.other_client.transposed
    change = moved - after_zero + zero
    return (
        average(after, shape),
        average(moved.shared_rows, shape),
        average(change.shared_rows.transposed.shared_rows, shape),
    )


def _attack(training: Training, shape: Shape, scale: float) -> Real:
    """Return what attackers add to the second moment of one upload: the same in every direction."""
    energy = scale * training.attack_probability * training.attack_variance * shape.one
    return np.asarray(np.stack([energy * training.kinds.byzantine] * 2))


class _Sums(NamedTuple):
    """The server's new error: with itself, with the old one, and with each kind's new local error."""

    server: Real
    before: Real
    to_local: Real


def _aggregate(training: Training, state: State, learnt: _Learnt) -> _Sums:
    """Return the moments of the mean over the participants."""
    counts, n = training.kinds.counts, training.num_participants
    chosen, both = _chances(training)
    pairs = counts[:, None] * counts[None, :] - np.diag(counts)  # ordered pairs of two different clients
    others = counts[:, None] - np.eye(len(counts))  # the others of the first kind beside one of the second
    gained = chosen * (learnt.z0 @ counts) / n
    server = state.server + 2 * gained + (chosen * (learnt.zz @ counts)) / n**2
    server = server + both * np.einsum("ckj,kj->c", learnt.pair_zz, pairs) / n**2
    local = chosen * learnt.y0 + (1 - chosen) * learnt.u0 + chosen * learnt.zy / n
    local = local + both * np.einsum("cjk,jk->ck", learnt.pair_zy, others) / n
    local = local + (chosen - both) * np.einsum("cjk,jk->ck", learnt.pair_zu, others) / n
    return _Sums(server, state.server + gained, local)


def _hold(training: Training, state: State, learnt: _Learnt, attack: float, whole: _Learnt | None = None) -> State:
    """Return the new state: aggregate, and let every client hold what it would start the next round from."""
    shape, common = training.shape, training.coordination == "common"
    chosen, both = _chances(training)
    sums = _aggregate(training, state, learnt)
    server, near = sums.server, sums.to_local
    own = chosen * learnt.yy + (1 - chosen) * learnt.uu
    mixed = learnt.pair_uy + np.swapaxes(learnt.pair_uy, 1, 2)
    pair = both * learnt.pair_yy + (chosen - both) * mixed + (1 - 2 * chosen + both) * learnt.pair_uu
    if training.download == "same":  # what is held is decided within the round
        return State(server, near, near, own, own, pair, pair, pair)
    many = np.ones(len(training.kinds.counts))
    if training.download == "full":
        to_held = server[:, None] * many
        table = to_held[:, :, None] * many
        return State(server, near, to_held, own, to_held, pair, near[:, :, None] * many, table)
    if whole is None:  # the mask that comes down is a fresh one
        source, to_source, old_source, old_local = server, near, None, near
    else:  # it is the one that went up: it lets the plain mean of the participants through
        totals = _aggregate(training, state, whole)
        source, to_source, old_source = totals.server, totals.to_local, totals.before[:, None]
        old_local = chosen * learnt.y0 + (1 - chosen) * learnt.u0
    line, one = source[:, None], shape.one
    if old_source is None:
        to_held = one * line + (1 - one) * near
    else:
        to_held = blend(line, to_source, old_source, old_local, shape, common=True)
    own_held = blend(line, to_source, to_source, own, shape, common=True)
    first, second = to_source[:, :, None], to_source[:, None, :]
    pair_held = blend(source[:, None, None], second, first, pair, shape, common=common)
    pair_mixed = one * first + (1 - one) * pair
    if training.download == "previous" and not common:
        more = echo(_moves(training, state, learnt, attack), training.kinds.counts, training.num_participants, shape)
        to_held, own_held = to_held + more.to_held, own_held + more.own_held
        pair_mixed, pair_held = pair_mixed + more.pair_mixed, pair_held + more.pair_held
    return State(server, near, to_held, own, own_held, pair, pair_mixed, pair_held)


def _moves(training: Training, state: State, learnt: _Learnt, attack: float) -> Moves:
    one, unmasked = training.shape.one, Shape(training.dimension, training.dimension)
    return Moves(
        dd=learnt.yy - 2 * learnt.y0 + state.server[:, None] + _attack(training, unmasked, attack),
        dy=learnt.zy / one,
        d0=learnt.z0 / one,
        pair_dd=learnt.pair_zz / one**2,
        pair_dy=learnt.pair_zy / one,
        pair_du=learnt.pair_zu / one,
    )


def _chances(training: Training) -> tuple[float, float]:
    """Return the chance that one client participates, and that two given ones do."""
    clients, n = float(training.kinds.counts.sum()), training.num_participants
    return n / clients, n * (n - 1) / (clients * max(clients - 1, 1))
