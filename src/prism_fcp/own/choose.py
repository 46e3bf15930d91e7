"""Settings of training that a project left open, chosen from the number of clients, rows and parameters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import numpy as np

from prism_fcp.data.clients import ClientData

CHOOSABLE: Final = ("num_participants", "rounds", "local_steps", "batch_size", "step_size")
EVERYBODY: Final = 20  # so many clients take part in every round
ROUNDS: Final = 300
MOST_STEPS: Final = 10  # a round; about one pass through a client's rows where they are few


class Chosen(NamedTuple):
    """The settings of training, those that were given among them, and a sentence that says which were chosen."""

    settings: dict[str, Any]
    share: float  # M/D, where neither share nor num_shared is given
    sentence: str


def choose_training(clients: ClientData, given: Mapping[str, Any]) -> Chosen:
    """Return settings that suit these clients; those that are given stay."""
    sizes, count = clients.train_sizes, len(clients.train_sizes)
    parameters = clients.model.layers[-1].stop
    batch = _whole(given, "batch_size", int(min(32, sizes.min())))
    own = {
        "num_participants": count if count <= EVERYBODY else max(EVERYBODY, -(-count // 5)),
        "rounds": ROUNDS,
        "local_steps": int(np.clip(-(-int(np.median(sizes)) // batch), 1, MOST_STEPS)),
        "batch_size": batch,
        "step_size": _step_size(clients, batch),
    }
    share = 0.3 if parameters >= 20 else 0.5
    settings = {**own, **given}
    told = ", ".join(f"{key} {value}" for key, value in own.items() if key not in given)
    size = f"{sizes.min()}" if sizes.min() == sizes.max() else f"{sizes.min()} to {sizes.max()}"
    about = f"{count} clients with {size} training rows and {parameters:,} parameters"
    return Chosen(settings, share, f"chosen for {about}: {told}" if told else "")


def _step_size(clients: ClientData, batch: int) -> float:
    """Return a step every client can stand: 1/(largest eigenvalue + trace/batch) of its inputs' second moments.

    That is half of where a client alone begins to diverge. Such a bound is known for the linear model alone; others get
    0.05, which suits standardised data.
    """
    if clients.model.name != "linear":
        return 0.05
    worst = 0.0
    for rows, size in zip(clients.train, clients.train_sizes, strict=True):
        inputs = clients.features[rows[:size]].astype(np.float64)
        moments = inputs.T @ inputs / len(inputs)
        worst = max(worst, float(np.linalg.eigvalsh(moments)[-1] + np.trace(moments) / batch))
    return float(f"{1 / worst:.2g}") if worst > 0 else 0.05


def _whole(given: Mapping[str, Any], key: str, default: int) -> int:
    value = given.get(key, default)
    return value if isinstance(value, int) and value > 0 else default  # what it may be is checked with all others
