"""One round of Algorithm 1's training: receive, learn, upload, aggregate; each a function of arrays.

The first three are a client's side. A simulation calls them for all participants at once, a real client for itself:
then `Round` holds one id.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from prism_fcp import streams
from prism_fcp.train.local import lms_step, sgd_steps
from prism_fcp.train.settings import Federation
from prism_fcp.types import (
    AttackView,
    BoolArray,
    Choice,
    FloatArray,
    IntArray,
    Model,
    Rule,
    RuleInfo,
    UpdateAttack,
    Uploads,
)


class Round(NamedTuple):
    """What a round deals to every arm alike: n participants, b of which attack, and a sample for each of K clients."""

    number: int
    selected: IntArray  # (n,) ids of the participants, ascending
    honest: BoolArray  # (n,) which of them are not Byzantine
    attacking: BoolArray  # (n,) which of them attack in this round
    perturbations: FloatArray | None  # (b, D) the attackers' standard normals, if the attack sees them
    inputs: FloatArray  # (K, D), or (K, steps, batch, D) where clients train a model of their own on batches
    targets: FloatArray  # (K,), or (K, steps, batch)
    rule_key: int  # where the rules' own draws of this round hang
    steady: bool  # is it one of the last rounds, over which figures are averaged?


def receive(local: FloatArray, model: FloatArray, down: BoolArray, mixing: float = 1.0) -> FloatArray:
    """Return the local models (n, D), their coordinates of the mask `down` moved to, or towards, the server's model."""
    if mixing != 1:
        model = local + local.dtype.type(mixing) * (model - local)
    return np.where(down, model, local)


def learn(local: FloatArray, now: Round, step_size: float, idle_learning: bool) -> FloatArray:
    """Return the local models (K, D) after a step on this round's samples: everybody's, or the participants'."""
    if idle_learning:
        return lms_step(local, now.inputs, now.targets, step_size)
    learned, who = local.copy(), now.selected
    learned[who] = lms_step(local[who], now.inputs[who], now.targets[who], step_size)
    return learned


def descend(
    learner: Model, local: FloatArray, speeds: FloatArray, now: Round, federation: Federation
) -> tuple[FloatArray, FloatArray]:
    """Return local models (K, P) and speeds after this round's batches: everybody's, or the participants'."""
    step_size, momentum = federation.step_size, federation.momentum
    if federation.idle_learning:
        return sgd_steps(learner, local, speeds, now.inputs, now.targets, step_size, momentum)
    who, learned, moved = now.selected, local.copy(), speeds
    own = speeds[who] if momentum else speeds
    learned[who], own = sgd_steps(learner, local[who], own, now.inputs[who], now.targets[who], step_size, momentum)
    if momentum:
        moved = speeds.copy()
        moved[who] = own
    return learned, moved


class Means(NamedTuple):
    """The clients' models, averaged over the rounds so far."""

    models: FloatArray  # (K, D)
    weight: float  # the sum of the rounds' weights


def average(before: Means | None, local: FloatArray, number: int, power: float) -> Means:
    """Take this round's models (K, D) into their means, round n weighing n**power; who rested counts as it stands."""
    gain = float(number) ** power
    models, weight = (np.zeros_like(local), 0.0) if before is None else before
    return Means(models + local.dtype.type(gain / (weight + gain)) * (local - models), weight + gain)


def upload(
    local: FloatArray,
    sent: BoolArray,
    previous: FloatArray,
    now: Round,
    attack: UpdateAttack,
    rule: Choice,
    truth: FloatArray | None = None,
) -> Uploads:
    """Return what the participants send of their models (n, D): the masked entries, forged by those who attack."""
    rows = local
    if now.attacking.any():
        rows = local.copy()
        rows[now.attacking] = attack.forge(_view(local, sent, previous, now, attack, rule, truth))
    return Uploads.from_dense(now.selected, rows, sent, previous)


def aggregate(rule: Rule, state: Any, uploads: Uploads, key: int) -> tuple[Any, FloatArray, RuleInfo]:
    """Return the rule's new state, the new global model, and what it tells about this round."""
    rng: Any = streams.generator(key) if rule.uses_rng else None
    return rule.step(state, uploads, rng)


def _view(
    local: FloatArray,
    sent: BoolArray,
    previous: FloatArray,
    now: Round,
    attack: UpdateAttack,
    rule: Choice,
    truth: FloatArray | None,
) -> AttackView:
    own, honest = now.attacking, now.honest
    told: dict[str, Any] = {}
    if "honest" in attack.sees:
        told |= {"honest": local[honest], "honest_ids": now.selected[honest]}
    if "masks" in attack.sees:
        told |= {"masks": sent[own], "honest_masks": sent[honest]}
    if "normals" in attack.sees:
        told |= {"normals": now.perturbations}
    if "truth" in attack.sees:
        told |= {"truth": truth}
    return AttackView(now.number, now.selected[own], local[own], previous, rule, **told)
