"""Algorithm 1, phase 1, readable. This loop *is* the readable engine and the oracle of every faster one.

All arms (ways of training) run side by side on one data stream: same samples, participants, masks and attacks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import DTypeLike

from prism_fcp import streams
from prism_fcp.streams import Role
from prism_fcp.train.aggregate import RULES
from prism_fcp.train.attack import UPDATE_ATTACKS
from prism_fcp.train.local import lms_step
from prism_fcp.train.settings import Arm, Federation
from prism_fcp.train.sharing import MaskDeck, hits, participants
from prism_fcp.types import AttackView, BoolArray, FloatArray, IntArray, Rule, UpdateAttack, Uploads

CHECK_EVERY = 50  # rounds between looks for divergence
BLOW_UP = 1e6  # a model entry beyond this, for a truth of unit norm, has diverged
BYTES_PER_VALUE = 4


class Stream(Protocol):
    """What training asks of a population of clients."""

    @property
    def key(self) -> int:
        """Return the key all of this trial's draws hang on."""
        ...

    @property
    def truth(self) -> FloatArray:
        """Return the true model (D,), which deviations are measured from."""
        ...

    @property
    def byzantine(self) -> BoolArray:
        """Return which clients attack (K,)."""
        ...

    def inputs(self, normals: FloatArray) -> FloatArray:
        """Turn standard normals (K, D) into one input a client."""
        ...

    def targets(self, inputs: FloatArray, normals: FloatArray) -> FloatArray:
        """Return one target a client (K,) for inputs (K, D) and standard normals (K,)."""
        ...


@dataclass(frozen=True, slots=True)
class Draws:
    """Standard normals handed to an engine instead of its own, so that engines can be compared number by number."""

    inputs: FloatArray  # (rounds, K, D)
    noise: FloatArray  # (rounds, K)
    perturbations: FloatArray  # (rounds, K, D)

    @classmethod
    def sample(cls, federation: Federation, seed: int, dtype: DTypeLike = np.float32) -> Draws:
        """Draw one full set."""
        rng = streams.generator(streams.key(seed))
        shape = (federation.rounds, federation.num_clients)
        full = (*shape, federation.dimension)
        return cls(*(rng.standard_normal(s, dtype=np.float32).astype(dtype) for s in (full, shape, full)))


@dataclass(frozen=True, slots=True)
class Trained:
    """What an arm's training left behind."""

    global_model: FloatArray  # (D,)
    local_models: FloatArray  # (K, D)
    a_posteriori_mse: float  # mean over clients and the last rounds, see READINGS on "MSE (dB)" in PAPER.md
    global_msd: float  # mean over the last rounds of ||w_n - w*||^2
    local_msd: float  # the same for the local models, mean over clients
    coordinates_per_round: float  # coordinates all participants together uploaded, mean over rounds
    injections: int  # uploads that carried an attack
    injected_energy: float  # sum over them of the squared norm of what they added, masked
    refusals: int  # uploads a rule refused
    diverged_at: int | None  # the round at which divergence was seen; everything above is then meaningless

    @property
    def bytes_up_per_round(self) -> float:
        """Return the payload all participants upload in a round: float32 values, masks known to both sides."""
        return BYTES_PER_VALUE * self.coordinates_per_round


@dataclass(slots=True)
class _Progress:
    """An arm in flight."""

    arm: Arm
    rule: Rule
    rule_state: Any
    model: FloatArray
    local: FloatArray
    rng: np.random.Generator
    sums: FloatArray = field(default_factory=lambda: np.zeros(3))  # a-posteriori, global and local deviation
    coordinates: int = 0
    injections: int = 0
    energy: float = 0.0
    refusals: int = 0
    diverged_at: int | None = None


def check_arms(federation: Federation, arms: Sequence[Arm]) -> None:
    """Raise `SettingError` for the first setting that cannot work; engines call this before they start."""
    federation.check()
    federation.attack.build(UPDATE_ATTACKS, "training attack")
    for arm in arms:
        arm.masks.check(federation.dimension)
        arm.rule.build(RULES, "rule").check(federation.num_participants)


def train_readable(
    population: Stream,
    federation: Federation,
    arms: Sequence[Arm],
    draws: Draws | None = None,
    dtype: DTypeLike = np.float32,
) -> list[Trained]:
    """Train every arm on one data stream with NumPy.

    Paper: Alg. 1, phase 1.
    """
    check_arms(federation, arms)
    attack = federation.attack.build(UPDATE_ATTACKS, "training attack")
    shape = (federation.num_clients, federation.dimension)
    key, truth = population.key, population.truth.astype(dtype)
    runs = []
    for arm in arms:
        rule = arm.rule.build(RULES, "rule")
        model, local = np.zeros(shape[1], dtype), np.zeros(shape, dtype)
        rng = streams.generator(streams.child(key, Role.RULE))
        runs.append(_Progress(arm, rule, rule.init(shape[1]), model, local, rng))
    deck = MaskDeck(key, federation.dimension)
    data_rng = streams.generator(streams.child(key, Role.INPUTS))
    noise_rng = streams.generator(streams.child(key, Role.PERTURBATION))

    for n in range(1, federation.rounds + 1):
        if draws is None:
            normals = data_rng.standard_normal((shape[0], shape[1] + 1), dtype=np.float32).astype(dtype, copy=False)
            inputs = population.inputs(normals[:, :-1])
            targets = population.targets(inputs, normals[:, -1])
        else:
            inputs = population.inputs(draws.inputs[n - 1].astype(dtype))
            targets = population.targets(inputs, draws.noise[n - 1].astype(dtype))
        selected = participants(key, n, shape[0], federation.num_participants)
        attackers = selected[population.byzantine[selected] & hits(key, n, selected, attack.probability)]
        if draws is None:
            perturbations = noise_rng.standard_normal((len(attackers), shape[1]), dtype=np.float32).astype(dtype)
        else:
            perturbations = draws.perturbations[n - 1, attackers].astype(dtype)
        steady = n > federation.rounds - federation.window
        with np.errstate(over="ignore", invalid="ignore"):  # divergence is looked for, and said, below
            for run in runs:
                if run.diverged_at is None:
                    _play_round(
                        run, n, federation, population, attack, deck, selected, attackers, perturbations, inputs,
                        targets, truth, steady,
                    )  # fmt: skip
                    if n % CHECK_EVERY == 0 or n == federation.rounds:
                        run.diverged_at = n if _has_diverged(run) else None
    return [_finish(run, federation) for run in runs]


def _play_round(
    run: _Progress,
    n: int,
    federation: Federation,
    population: Stream,
    attack: UpdateAttack,
    deck: MaskDeck,
    selected: IntArray,
    attackers: IntArray,
    perturbations: FloatArray,
    inputs: FloatArray,
    targets: FloatArray,
    truth: FloatArray,
    steady: bool,
) -> None:
    """Play one round of one arm: receive, learn, upload, aggregate."""
    previous = run.model
    start = run.local.copy()
    down = np.zeros((len(selected), len(previous)), dtype=np.bool_)
    if run.arm.exchange:
        down = deck.download(run.arm.masks, n, selected)
        start[selected] = np.where(down, previous, start[selected])
    if federation.idle_learning:
        run.local = lms_step(start, inputs, targets, federation.step_size)
    else:
        run.local = start
        run.local[selected] = lms_step(start[selected], inputs[selected], targets[selected], federation.step_size)

    if run.arm.exchange:
        sent = deck.upload(run.arm.masks, n, selected)
        rows = run.local[selected]
        acting = np.isin(selected, attackers)
        if len(attackers):
            honest = rows[~population.byzantine[selected]] if "honest" in attack.sees else None
            seen = sent[acting] if "masks" in attack.sees else None
            view = AttackView(n, attackers, rows[acting], previous, perturbations, honest, seen)
            forged = attack.forge(view)
            run.injections += len(attackers)
            run.energy += float(np.square(np.where(sent[acting], forged - rows[acting], 0)).sum(dtype=np.float64))
            rows[acting] = forged
        uploads = Uploads.from_dense(selected, rows, sent, previous)
        run.rule_state, run.model, info = run.rule.step(run.rule_state, uploads, run.rng)
        run.coordinates += len(uploads.values)
        run.refusals += len(info.refused)

    if steady:
        blended = run.local.copy()
        blended[selected] = np.where(down, previous, blended[selected])
        after = targets - np.einsum("kd,kd->k", blended, inputs)
        run.sums += (
            np.square(after).mean(dtype=np.float64),
            np.square(run.model - truth).sum(dtype=np.float64),
            np.square(run.local - truth).sum(dtype=np.float64) / len(run.local),
        )


def _has_diverged(run: _Progress) -> bool:
    return not bool(max(np.abs(run.model).max(), np.abs(run.local).max()) < BLOW_UP)  # a NaN is not below either


def _finish(run: _Progress, federation: Federation) -> Trained:
    a_posteriori, global_msd, local_msd = run.sums / min(federation.window, federation.rounds)
    return Trained(
        global_model=run.model,
        local_models=run.local,
        a_posteriori_mse=float(a_posteriori),
        global_msd=float(global_msd),
        local_msd=float(local_msd),
        coordinates_per_round=run.coordinates / federation.rounds,
        injections=run.injections,
        injected_energy=run.energy,
        refusals=run.refusals,
        diverged_at=run.diverged_at,
    )
