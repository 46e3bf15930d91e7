"""A measured stand-in where there is no theory: the rule is run on a small federation like the one asked about.

It is a simulation of a few hundred clients' rounds, not a prediction, and every answer made from it says so.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final, NamedTuple

import numpy as np

from prism_fcp.data.synthetic import SyntheticLinear
from prism_fcp.errors import DivergedError
from prism_fcp.theory.kinds import kinds_of
from prism_fcp.theory.modes import Real
from prism_fcp.theory.recursion import Kinds
from prism_fcp.train.loop import train_readable
from prism_fcp.train.settings import Arm, Federation, Masks
from prism_fcp.types import Choice

CLIENTS: Final = 50
DIMENSION: Final = 50
ROUNDS: Final = 600
SEED: Final = 1


class Surrogate(NamedTuple):
    """What one small run left behind."""

    kinds: Kinds
    excess: Real  # (K',) of the local models
    server_excess: Real
    local_deviation: float
    server_deviation: float
    told: str


def measured(federation: Federation, masks: Masks, law: SyntheticLinear, rule: Choice) -> Surrogate:
    """Train at most 50 clients, more only to have the participants, of at most 50 coordinates for at most 600 rounds.

    Shares, participants, the product of step size and dimension, and the energy of an attack stay as they are.
    """
    clients = max(min(federation.num_clients, CLIENTS), federation.num_participants)
    dimension = min(federation.dimension, DIMENSION)
    scale = federation.dimension / dimension
    options = federation.attack.options
    byzantine = min(round(federation.num_byzantine * clients / federation.num_clients), clients - 1)
    small = replace(
        federation, num_clients=clients, dimension=dimension, num_byzantine=byzantine,
        rounds=min(federation.rounds, ROUNDS), window=min(federation.rounds, ROUNDS) // 4 + 1,
        step_size=federation.step_size * scale,
        attack=Choice("gaussian", {**options, "variance": options.get("variance", 0.1) * scale}),
    )  # fmt: skip
    population = law.draw(clients, dimension, byzantine, SEED)
    shared = max(1, round(masks.num_shared / scale))
    (out,) = train_readable(population, small, [Arm(masks=replace(masks, num_shared=shared), rule=rule)])
    if out.diverged_at is not None:
        raise DivergedError(
            f"rule {rule.name!r} with step_size={federation.step_size:g} diverged by round {out.diverged_at} of a "
            "small federation like this one; lower step_size or choose another rule"
        )

    def excess(errors: Real) -> Real:
        lengths = population.variances * np.square(errors).sum(-1)
        return np.asarray(lengths + (population.means * errors.sum(-1)) ** 2, dtype=np.float64)

    told = (
        f"measured surrogate: {rule.name} run once on {clients} clients, {dimension} coordinates, {small.rounds} rounds"
    )
    return Surrogate(
        kinds_of(population),
        excess(out.local_models - population.truth),
        excess(np.broadcast_to(out.global_model - population.truth, (clients, dimension))),
        out.local_msd,
        out.global_msd,
        told,
    )
