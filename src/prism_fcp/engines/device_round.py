"""All rounds of one trial on the device: receive, learn, upload, aggregate, for every arm on one data stream.

Traced under 64-bit mode: words are uint64, sums float64, models and samples float32 by name.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from prism_fcp.engines import device_rules as rules
from prism_fcp.engines.device_words import Deal, child, normals, once, participants, uniform
from prism_fcp.errors import SettingError
from prism_fcp.streams import EVERYONE, Role
from prism_fcp.train.attack import UPDATE_ATTACKS
from prism_fcp.train.loop import CHECK_EVERY
from prism_fcp.train.settings import Arm, Federation
from prism_fcp.types import Model

STEADY: Final = 4  # sums kept over the last rounds: a-posteriori error, global and local deviation, injected energy


class Problem(NamedTuple):
    """What decides the program: everything but the numbers in the arrays."""

    federation: Federation
    arms: tuple[Arm, ...]
    model: Model | None  # None: one LMS step on one sample a round
    given: bool  # are normals handed over?
    rows: bool  # do clients hold rows of a table?
    shared: bool  # ... which all trials share?
    platform: str
    local: tuple[bool, ...]  # for each arm: are its local models asked for?


def play(problem: Problem, own: dict[str, Any], rounds: dict[str, Any]) -> Any:
    """Play all rounds of one trial."""
    size, arms = problem.federation, problem.arms
    clients, dimension = size.num_clients, size.dimension
    local = jnp.broadcast_to(own["start"], (clients, dimension)).astype(jnp.float32)
    speed = jnp.zeros((clients, dimension) if size.momentum else (0,), jnp.float32)
    arm = {
        "model": own["start"].astype(jnp.float32), "local": local, "speed": speed,
        "sums": jnp.zeros(STEADY, jnp.float64), "counts": jnp.zeros(4, jnp.int64),
        "diverged": jnp.zeros((), jnp.int32),
    }  # fmt: skip
    state, _ = jax.lax.scan(
        lambda before, now: (_round(problem, own, before, now), None), tuple(dict(arm) for _ in arms), rounds
    )
    return tuple(
        {name: value for name, value in arm.items() if name != "speed" and (name != "local" or asked)}
        for arm, asked in zip(state, problem.local, strict=True)
    )


def _round(problem: Problem, own: dict[str, Any], before: Any, now: dict[str, Any]) -> Any:
    """Play one round of every arm."""
    size, n, key = problem.federation, now["number"], own["key"]
    attack = UPDATE_ATTACKS[size.attack.name](**size.attack.options)
    who = participants(child(key, Role.PARTICIPANTS, n), size.num_clients, size.num_participants)
    honest = ~own["byzantine"][who]
    attacking = ~honest & (uniform(child(child(key, Role.HITS, n), who)) < attack.probability)
    samples = _batches(problem, own, n) if problem.rows else _samples(problem, own, now)
    forged = _perturbations(problem, own, now, who, attacking) if "normals" in attack.sees else None
    dealt: dict[Any, Any] = {}
    after, seen = [], []
    for arm, held in zip(problem.arms, before, strict=True):
        state, down = _arm_round(problem, arm, held, own, n, who, honest, attacking, samples, forged, dealt)
        after.append(state)
        seen.append((state["model"], state["local"], held["model"], down))
    if not after:
        return ()
    # Of all arms together: a condition stops the launching of kernels on a GPU until the device has answered.
    steady = n > size.rounds - size.window
    looked = (n % CHECK_EVERY == 0) | (n == size.rounds)
    figures = jax.lax.cond(
        steady,
        lambda: jnp.stack([_measure(problem, own, *arm, who, samples) for arm in seen]),
        lambda: jnp.zeros((len(seen), STEADY), jnp.float64),
    )
    lost = jax.lax.cond(
        looked,
        lambda: jnp.stack([_lost(own, model, local) for model, local, _, _ in seen]),
        lambda: jnp.zeros(len(seen), bool),
    )
    return tuple(
        {
            **state,
            "sums": state["sums"] + figures[a],
            "diverged": jnp.where((state["diverged"] == 0) & lost[a], n.astype(jnp.int32), state["diverged"]),
        }
        for a, state in enumerate(after)
    )


def _masks(problem: Problem, arm: Arm, role: Role, key: Any, n: Any, back: int, who: Any, dealt: dict[Any, Any]) -> Any:
    """Return the masks (S, P) of `back` rounds ago; arms that deal alike share the words and their order."""
    masks, dimension = arm.masks, problem.federation.dimension
    units, shape = len(masks.layers) or dimension, (problem.federation.num_participants, dimension)
    if masks.num_shared == units:
        return jnp.ones(shape, bool)
    address = (role, back, masks.coordination, units)
    if address not in dealt:
        to = jnp.array([EVERYONE]) if masks.coordination == "common" else who
        dealt[address] = Deal.of(child(child(key, role, n - back), to), units)
    cut = (*address, masks.num_shared, masks.layers)
    if cut not in dealt:
        chosen = dealt[address].smallest(masks.num_shared)
        if masks.layers:
            chosen = jnp.repeat(chosen, np.array(masks.layers), axis=-1, total_repeat_length=dimension)
        dealt[cut] = jnp.broadcast_to(chosen, shape)
    return dealt[cut]


def _samples(problem: Problem, own: dict[str, Any], now: dict[str, Any]) -> tuple[Any, Any]:
    """Return one input (K, D) and target (K,) a client, from its law."""
    clients, dimension = problem.federation.num_clients, problem.federation.dimension
    if problem.given:
        inputs, noise = now["inputs"], now["noise"]
    else:
        keys = child(child(own["key"], Role.INPUTS, now["number"]), jnp.arange(clients))
        drawn = normals(keys, dimension + 1)
        inputs, noise = drawn[:, :-1], drawn[:, -1]
    inputs = own["means"][:, None] + own["spreads"][:, None] * inputs
    return inputs, inputs @ own["truth"] + own["noises"] * noise


def _batches(problem: Problem, own: dict[str, Any], n: Any) -> tuple[Any, Any]:
    """Return this round's inputs (K, steps, batch, D) and targets of the clients' rows."""
    size = problem.federation
    count = size.local_steps * size.batch_size
    at = ((n - 1) * count + jnp.arange(count)) % own["sizes"][:, None]
    rows = jnp.take_along_axis(own["train"], at.astype(jnp.int32), axis=1)
    rows = rows.reshape(-1, size.local_steps, size.batch_size)
    return own["features"], (own["target"], rows)  # gathered only for those who learn


def _perturbations(problem: Problem, own: dict[str, Any], now: dict[str, Any], who: Any, attacking: Any) -> Any:
    """Return standard normals (S, P) for those who attack; on a CPU none are drawn for the others."""
    size = problem.federation
    shape = (size.num_participants, size.dimension)
    if problem.given:
        return now["perturbations"][who]
    keys = child(child(own["key"], Role.PERTURBATION, now["number"]), who)
    if problem.platform != "cpu":
        return once(normals(keys, size.dimension))
    order = jnp.argsort(~attacking, stable=True)

    def draw(place: Any, rows: Any) -> Any:
        return rows.at[order[place]].set(normals(keys[order[place]], size.dimension))

    return jax.lax.fori_loop(0, attacking.sum(), draw, jnp.zeros(shape, jnp.float32))


def _arm_round(
    problem: Problem,
    arm: Arm,
    held: dict[str, Any],
    own: dict[str, Any],
    n: Any,
    who: Any,
    honest: Any,
    attacking: Any,
    samples: Any,
    forged: Any,
    dealt: dict[Any, Any],
) -> tuple[dict[str, Any], Any]:
    """Play one round of one arm: receive, learn, upload, aggregate. Return its state and the download masks."""
    size, key, previous = problem.federation, own["key"], held["model"]
    local, down = held["local"], None
    mine = local[who]
    if arm.exchange:
        if arm.masks.download == "full":
            down = jnp.ones(mine.shape, bool)
        else:
            role = Role.DOWNLOAD_MASK if arm.masks.download == "independent" else Role.UPLOAD_MASK
            down = _masks(problem, arm, role, key, n, int(arm.masks.download == "previous"), who, dealt)
        mine = jnp.where(down, previous, mine)
    local, mine, speed = _learn(problem, held, local, mine, who, samples)
    model, sums, counts = previous, held["sums"], held["counts"]
    if arm.exchange:
        sent = _masks(problem, arm, Role.UPLOAD_MASK, key, n, 0, who, dealt)
        rows = rules.forge(size.attack, mine, honest, attacking, forged)
        if problem.platform != "cpu":
            rows = once(rows)  # many read them
        model, refused, weakened = rules.step(arm.rule, rows, sent, previous)
        forgery = jnp.where(attacking[:, None] & sent, rows - mine, 0).astype(jnp.float64)
        sums = sums.at[3].add(rules.total(jnp.square(forgery)))
        entries = rules.total(sent.astype(jnp.int32))
        counts = counts + jnp.stack([entries, attacking.sum(), refused, weakened]).astype(jnp.int64)
    return {**held, "model": model, "local": local, "speed": speed, "sums": sums, "counts": counts}, down


def _learn(problem: Problem, held: dict[str, Any], local: Any, mine: Any, who: Any, samples: Any) -> tuple[Any, ...]:
    """Return (all local models, the participants' own, speeds) after this round's steps."""
    size, model = problem.federation, problem.model
    if model is None:
        inputs, targets = samples
        if size.idle_learning:
            local = _lms(_put(local, who, mine), inputs, targets, size.step_size)
            return local, local[who], held["speed"]
        mine = _lms(mine, inputs[who], targets[who], size.step_size)
        return _put(local, who, mine), mine, held["speed"]
    features, (target, rows) = samples
    if size.idle_learning:
        local, speed = _descend(size, model, _put(local, who, mine), held["speed"], features[rows], target[rows])
        return local, local[who], speed
    speeds = held["speed"][who] if size.momentum else held["speed"]
    mine, moved = _descend(size, model, mine, speeds, features[rows[who]], target[rows[who]])
    speed = _put(held["speed"], who, moved) if size.momentum else held["speed"]
    return _put(local, who, mine), mine, speed


def _put(held: Any, who: Any, rows: Any) -> Any:
    """Return what all clients hold with the rows of these, whose ids ascend, replaced."""
    return held.at[who].set(rows, indices_are_sorted=True, unique_indices=True, mode="promise_in_bounds")


def _lms(models: Any, inputs: Any, targets: Any, step_size: float) -> Any:
    errors = targets - (models * inputs).sum(-1)
    return models + (jnp.float32(step_size) * errors)[:, None] * inputs


def _descend(size: Federation, model: Any, models: Any, speeds: Any, inputs: Any, targets: Any) -> tuple[Any, Any]:
    """Take the local steps on batches: inputs (n, steps, batch, D)."""
    slope = gradient_of(model)
    for step in range(size.local_steps):
        moved = slope(models, inputs[:, step], targets[:, step])
        if size.momentum:
            speeds = moved = jnp.float32(size.momentum) * speeds + moved
        models = models - jnp.float32(size.step_size) * moved
    return models, speeds


def gradient_of(model: Any) -> Any:
    """Return (models (n, P), inputs (n, b, D), targets (n, b)) -> gradients (n, P) of half the mean squared error."""
    if hasattr(model, "device_gradient"):
        return jax.vmap(model.device_gradient)
    if hasattr(model, "parts"):
        # By parts, which are then joined: through views of the flat vector, it would be a sum of padded vectors.

        def measured(parts: Any, inputs: Any, targets: Any) -> Any:
            return 0.5 * jnp.square(model.through(jnp, parts, inputs)[-1][..., 0] - targets).mean(-1).sum()

        def by_parts(models: Any, inputs: Any, targets: Any) -> Any:
            slopes = jax.tree.leaves(jax.grad(measured)(model.parts(models), inputs, targets))
            return jnp.concatenate([slope.reshape(*models.shape[:-1], -1) for slope in slopes], axis=-1)

        return by_parts

    def loss(models: Any, inputs: Any, targets: Any) -> Any:
        return 0.5 * jnp.square(predict_of(model)(models, inputs) - targets).mean(-1).sum()

    return jax.grad(loss)


def predict_of(model: Any) -> Any:
    """Return (models (n, P), inputs (n, b, D)) -> predictions (n, b), in JAX."""
    if hasattr(model, "device_predict"):
        return jax.vmap(model.device_predict)
    if hasattr(model, "forward"):
        return lambda models, inputs: model.forward(jnp, models, inputs)[-1][..., 0]
    if model.name == "linear":
        return lambda models, inputs: jnp.einsum("...d,...bd->...b", models, inputs)
    raise SettingError(f"engine 'xla' cannot run model {model.name!r}; give it forward(xp, models, inputs)")


def _measure(
    problem: Problem, own: dict[str, Any], model: Any, local: Any, previous: Any, down: Any, who: Any, last: Any
) -> Any:
    """Return the a-posteriori error, and the deviations of the global model and, on average, of the local ones."""
    blended = local if down is None else _put(local, who, jnp.where(down, previous, local[who]))
    if problem.model is None:
        inputs, targets = last
        after = targets - (blended * inputs).sum(-1)
    else:
        features, (target, rows) = last
        after = target[rows[:, -1]] - predict_of(problem.model)(blended, features[rows[:, -1]])
    far = jnp.square(local - own["truth"]).sum() / len(local)
    return jnp.stack([jnp.square(after).mean(), jnp.square(model - own["truth"]).sum(), far, jnp.float32(0)]).astype(
        jnp.float64
    )


def _lost(own: dict[str, Any], model: Any, local: Any) -> Any:
    within = (jnp.square(local - own["truth"]).sum(-1) <= own["limit"]).all()
    return ~(within & (jnp.square(model - own["truth"]).sum() <= own["limit"]))
