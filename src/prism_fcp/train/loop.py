"""Algorithm 1, phase 1, readable. This loop *is* the readable engine and the oracle of every faster one.

All arms (ways of training) run side by side on one data stream: same samples, participants, masks and attacks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import DTypeLike

from prism_fcp import streams
from prism_fcp.errors import SettingError
from prism_fcp.streams import Role
from prism_fcp.train.aggregate import RULES
from prism_fcp.train.attack import UPDATE_ATTACKS
from prism_fcp.train.round import Means, Round, aggregate, average, descend, learn, receive, upload
from prism_fcp.train.settings import Arm, Federation
from prism_fcp.train.sharing import MaskDeck, hits, participants
from prism_fcp.types import BoolArray, FloatArray, Ledger, Model, Rule, UpdateAttack

CHECK_EVERY: Final = 50  # rounds between looks for divergence
# Training has diverged where some model is this many times farther from the truth, squared, than a model of zeros is
# (than 1, for a truth smaller than that). At K=100, D=50 the tables' arms stay below 10, and Gaussian noise of variance
# 100 from every attacker in every round leaves 5e3 under the mean and 8e4 under the worst rule and mask. Twice the
# paper's step size crosses it within 450 rounds in 20 of 20 trials; what grows more slowly is refused before training
# by `Population.stability_limits`.
DIVERGED: Final = 1e5
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


@runtime_checkable
class Batches(Protocol):
    """What training asks of clients that hold data, and train a model on batches of it."""

    @property
    def key(self) -> int:
        """Return the key all of this trial's draws hang on."""
        ...

    @property
    def model(self) -> Model:
        """Return what is trained."""
        ...

    @property
    def start(self) -> FloatArray:
        """Return the parameters (P,) that everybody starts with."""
        ...

    @property
    def truth(self) -> FloatArray:
        """Return the parameters (P,) that divergence is measured from."""
        ...

    @property
    def byzantine(self) -> BoolArray:
        """Return which clients attack (K,)."""
        ...

    def batches(self, round_number: int, steps: int, size: int) -> tuple[FloatArray, FloatArray]:
        """Return inputs (K, steps, size, D) and targets (K, steps, size) of a round."""
        ...


Clients: TypeAlias = Stream | Batches


@dataclass(frozen=True, slots=True)
class Draws:
    """Standard normals handed to an engine instead of its own, so that engines can be compared number by number."""

    inputs: FloatArray  # (rounds, K, D); clients that hold data need none of it
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
    global_msd: float  # mean over the last rounds of ||w_n - w*||^2; where nobody knows w*, from the first model
    local_msd: float  # the same for the local models, mean over clients
    coordinates_per_round: float  # coordinates all participants together uploaded, mean over rounds
    injections: int  # uploads that carried an attack
    injected_energy: float  # sum over them of the squared norm of what they added, masked
    refusals: int  # uploads a rule refused
    weakened_rounds: int  # rounds whose admitted uploads were fewer than the rule's settings need
    diverged_at: int | None  # the round at which divergence was seen; everything above is then meaningless
    ledger: Ledger | None = None  # whom a rule with memory left out, when and why; an entry for each client

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
    speeds: FloatArray
    sums: FloatArray = field(default_factory=lambda: np.zeros(3))  # a-posteriori, global and local deviation
    coordinates: int = 0
    injections: int = 0
    energy: float = 0.0
    refusals: int = 0
    weakened: int = 0
    diverged_at: int | None = None
    ledger: Ledger | None = None
    averaged: FloatArray | None = None  # sum of the global models that count in the average, in float64
    means: Means | None = None  # of the clients' models, where they upload these


def check_arms(federation: Federation, arms: Sequence[Arm]) -> None:
    """Raise `SettingError` for the first setting that cannot work; engines call this before they start."""
    federation.check()
    for arm in arms:
        arm.masks.check(federation.dimension)
        arm.rule.build(RULES, "rule").check(federation.num_participants)


def check_shapes(population: Clients, federation: Federation, draws: Draws | None) -> None:
    """Raise `SettingError` where population or draws are not of the federation's size."""
    for what, found, name in (
        ("clients", len(population.byzantine), "num_clients"),
        ("coordinates", len(population.truth), "dimension"),
    ):
        wanted = getattr(federation, name)
        if found != wanted:
            raise SettingError(f"the population has {found} {what}, but {name}={wanted}; make them equal")
    if not isinstance(population, Batches):
        for name, one in (("local_steps", 1), ("batch_size", 1), ("momentum", 0)):
            if getattr(federation, name) != one:
                raise SettingError(
                    f"{name}={getattr(federation, name)}; clients that observe one sample a round take one plain step "
                    f"on it: {name}={one}, or give them data of their own"
                )
    if draws is not None and not isinstance(population, Batches):
        cells = (federation.rounds, federation.num_clients)
        full = (*cells, federation.dimension)
        for name, shape in (("inputs", full), ("noise", cells), ("perturbations", full)):
            found_shape = getattr(draws, name).shape
            if found_shape != shape:
                raise SettingError(f"draws.{name} has shape {found_shape}; the federation's settings need {shape}")


def check_attack(attack: UpdateAttack, population: Clients) -> None:
    """Raise `SettingError` for an attack that needs what this population does not have."""
    if "truth" in attack.sees and isinstance(population, Batches):
        raise SettingError(
            f"training attack {attack.name!r} knows the true model, and clients with rows of a table have none; "
            "choose another attack"
        )


def deviation_limit(truth: FloatArray) -> float:
    """Return the squared distance from the truth beyond which a model has diverged."""
    return DIVERGED * max(1.0, float(np.square(truth, dtype=np.float64).sum()))


def train_readable(
    population: Clients,
    federation: Federation,
    arms: Sequence[Arm],
    draws: Draws | None = None,
    dtype: DTypeLike = np.float32,
) -> list[Trained]:
    """Train every arm on one data stream with NumPy.

    Paper: Alg. 1, phase 1.
    """
    check_arms(federation, arms)
    check_shapes(population, federation, draws)
    attack = federation.attack.build(UPDATE_ATTACKS, "training attack")
    shape = (federation.num_clients, federation.dimension)
    deck, truth = MaskDeck(population.key, federation.dimension), population.truth.astype(dtype)
    check_attack(attack, population)
    runs = []
    holding = population if isinstance(population, Batches) else None
    learner = holding.model if holding else None
    start = holding.start.astype(dtype) if holding else np.zeros(shape[1], dtype)
    for arm in arms:
        rule = arm.rule.build(RULES, "rule")
        local, speeds = np.tile(start, (shape[0], 1)), np.zeros(shape if federation.momentum else (0, 0), dtype)
        runs.append(_Progress(arm, rule, rule.init(shape[1]), start, local, speeds))

    dealt = _data(population, federation, draws, dtype)
    for now in _rounds(population, federation, attack, draws, dtype, dealt):
        with np.errstate(over="ignore", invalid="ignore"):  # divergence is looked for, and said, below
            for run in runs:
                if run.diverged_at is None:
                    _play_round(run, now, federation, attack, deck, truth, learner)
                    if now.number % CHECK_EVERY == 0 or now.number == federation.rounds:
                        run.diverged_at = now.number if _has_diverged(run, truth) else None
    return [_finish(run, federation) for run in runs]


def _data(
    population: Clients, federation: Federation, draws: Draws | None, dtype: DTypeLike
) -> Callable[[int], tuple[FloatArray, FloatArray]]:
    """Return what deals the inputs and targets of a round: from the clients' own rows, or from a law."""
    if isinstance(population, Batches):
        holding = population

        def batches(n: int) -> tuple[FloatArray, FloatArray]:
            inputs, targets = holding.batches(n, federation.local_steps, federation.batch_size)
            return inputs.astype(dtype, copy=False), targets.astype(dtype, copy=False)

        return batches
    stream, shape = population, (federation.num_clients, federation.dimension)
    held: int = getattr(population, "fixed_samples", 0)

    def samples(n: int) -> tuple[FloatArray, FloatArray]:
        n = 1 + (n - 1) % held if held else n  # a client that holds few samples goes through them again and again
        if draws is None:
            normals = _normals(streams.child(stream.key, Role.INPUTS, n), (shape[0], shape[1] + 1))
            normals = normals.astype(dtype, copy=False)
            inputs, noise = normals[:, :-1], normals[:, -1]
        else:
            inputs, noise = draws.inputs[n - 1].astype(dtype), draws.noise[n - 1].astype(dtype)
        inputs = stream.inputs(inputs)
        return inputs, stream.targets(inputs, noise)

    return samples


def _rounds(
    population: Clients,
    federation: Federation,
    attack: UpdateAttack,
    draws: Draws | None,
    dtype: DTypeLike,
    dealt: Callable[[int], tuple[FloatArray, FloatArray]],
) -> Iterator[Round]:
    """Deal the rounds. Every draw hangs on its own key, so that no client's depends on what another one does."""
    key, shape = population.key, (federation.num_clients, federation.dimension)
    for n in range(1, federation.rounds + 1):
        selected = participants(key, n, shape[0], federation.num_participants)
        honest = ~population.byzantine[selected]
        attacking = ~honest & hits(key, n, selected, attack.probability)
        perturbations = None
        if draws is not None:
            perturbations = draws.perturbations[n - 1, selected[attacking]].astype(dtype)
        elif "normals" in attack.sees:
            parent = streams.child(key, Role.PERTURBATION, n)
            drawn = [_normals(streams.child(parent, k), shape[1:]) for k in selected[attacking]]
            perturbations = np.array(drawn, dtype).reshape(-1, shape[1])
        inputs, targets = dealt(n)
        if attack.target_factor != 1:
            targets = targets.copy()
            targets[population.byzantine] *= targets.dtype.type(attack.target_factor)
        steady = n > federation.rounds - federation.window
        rule_key = streams.child(key, Role.RULE, n)
        yield Round(n, selected, honest, attacking, perturbations, inputs, targets, rule_key, steady)


def _normals(key: int, shape: tuple[int, ...]) -> FloatArray:
    return streams.generator(key).standard_normal(shape, dtype=np.float32)


def _play_round(
    run: _Progress,
    now: Round,
    federation: Federation,
    attack: UpdateAttack,
    deck: MaskDeck,
    truth: FloatArray,
    learner: Model | None,
) -> None:
    """Play one round of one arm: receive, learn, upload, aggregate."""
    arm, previous, who = run.arm, run.model, now.selected
    held, down = run.local, None
    if arm.exchange:
        down = deck.download(arm.masks, now.number, who)
        held = run.local.copy()
        held[who] = receive(held[who], previous, down, arm.mixing)

    if learner is None:
        run.local = learn(held, now, federation.step_size, federation.idle_learning)
    else:
        run.local, run.speeds = descend(learner, held, run.speeds, now, federation)

    if arm.exchange:
        source = run.local
        if arm.client_averaging:
            run.means = average(run.means, run.local, now.number, arm.client_averaging)
            source = run.means.models
        clean, sent = source[who], deck.upload(arm.masks, now.number, who)
        uploads = upload(clean, sent, previous, now, attack, arm.rule, truth)
        run.rule_state, run.model, info = aggregate(run.rule, run.rule_state, uploads, now.rule_key)
        run.coordinates += len(uploads.values)
        if now.attacking.any():
            run.injections += int(now.attacking.sum())
            run.energy += float(np.square(uploads.values - clean[sent], dtype=np.float64).sum())
        run.refusals += len(info.refused)
        run.weakened += info.weakened is not None
        run.ledger = info.ledger or run.ledger
        if now.number >= arm.averaged_from(federation.rounds):
            run.averaged = run.model.astype(np.float64) + (0 if run.averaged is None else run.averaged)

    if now.steady:
        run.sums += _measure(run, now, down, previous, truth, learner)


def _measure(
    run: _Progress,
    now: Round,
    down: BoolArray | None,
    previous: FloatArray,
    truth: FloatArray,
    learner: Model | None,
) -> tuple[float, float, float]:
    """Return the a-posteriori error, and the deviations of the global model and, on average, of the local ones."""
    blended = run.local
    if down is not None:
        blended = run.local.copy()
        blended[now.selected] = receive(blended[now.selected], previous, down, run.arm.mixing)
    if learner is None:
        after = now.targets - np.einsum("kd,kd->k", blended, now.inputs)
    else:
        after = now.targets[:, -1] - learner.predict(blended, now.inputs[:, -1])
    return (
        float(np.square(after).mean(dtype=np.float64)),
        float(np.square(run.model - truth).sum(dtype=np.float64)),
        float(np.square(run.local - truth).sum(dtype=np.float64)) / len(run.local),
    )


def _has_diverged(run: _Progress, truth: FloatArray) -> bool:
    limit = deviation_limit(truth)  # a NaN is not within it
    return not all((np.square(models - truth).sum(axis=-1) <= limit).all() for models in (run.model, run.local))


def _finish(run: _Progress, federation: Federation) -> Trained:
    a_posteriori, global_msd, local_msd = run.sums / min(federation.window, federation.rounds)
    model = run.model
    if run.averaged is not None:
        count = federation.rounds + 1 - run.arm.averaged_from(federation.rounds)
        model = (run.averaged / count).astype(model.dtype)
    return Trained(
        global_model=model,
        local_models=run.local,
        a_posteriori_mse=float(a_posteriori),
        global_msd=float(global_msd),
        local_msd=float(local_msd),
        coordinates_per_round=run.coordinates / federation.rounds,
        injections=run.injections,
        injected_energy=run.energy,
        refusals=run.refusals,
        weakened_rounds=run.weakened,
        diverged_at=run.diverged_at,
        ledger=run.ledger.spread(federation.num_clients) if run.ledger else None,
    )
