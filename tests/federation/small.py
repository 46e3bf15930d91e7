"""A small federation in one process, for tests: sites with few parameters, states in memory or in files."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from prism_fcp import io
from prism_fcp.calibrate.grid import LinearGrid
from prism_fcp.calibrate.trust import Trust
from prism_fcp.data.synthetic import SyntheticLinear
from prism_fcp.federation.agreement import Agreement, Calibrating, Common, Patience, Training
from prism_fcp.federation.apps import client_app
from prism_fcp.federation.conduct import Conductor
from prism_fcp.federation.drill import Drill
from prism_fcp.federation.events import Hook
from prism_fcp.federation.grid import InProcessGrid
from prism_fcp.federation.keys import SecretKeys
from prism_fcp.federation.site import Site
from prism_fcp.federation.sites.synthetic import SyntheticClients
from prism_fcp.federation.store import FileStore, State, Store
from prism_fcp.train.attack import UPDATE_ATTACKS
from prism_fcp.types import Choice, FloatArray, Layer

NAMES = ("north", "east", "south", "west", "centre", "coast")
DIMENSION, ROUNDS = 8, 9
KEYS = SecretKeys.seeded(11)
PROTOCOLS = {
    "paper": Training(protocol="paper", share=0.4),
    "default": Training(protocol="default", share=0.4, rounds=ROUNDS, step_size=0.9),
    "follow": Training(protocol="follow", share=0.4),
    "fedavg": Training(protocol="fedavg"),
}


def agreement(training: Training = PROTOCOLS["paper"], **changes: Any) -> Agreement:
    """Return an agreement of six clients, four of them in a round."""
    told: dict[str, Any] = {
        "name": "small", "clients": NAMES, "calibration": Calibrating(grid=LinearGrid(8.0, 50)),
        "patience": Patience(wait=0.0, deadline=5.0, offences=2, aside=2),
        "training": replace(training, rounds=ROUNDS, participants=4),
    }  # fmt: skip
    return Agreement(**told | changes)


@dataclass
class Pull:
    """A site that pulls its parameters towards its own point; each of its parts can be made to fail."""

    point: FloatArray
    fails: Mapping[str, Callable[[], Any]]
    speed: FloatArray

    @property
    def layers(self) -> tuple[Layer, ...]:
        return (Layer("one", 0, 3), Layer("two", 3, len(self.point)))

    @property
    def samples(self) -> int:
        return 40

    def step(self, parameters: FloatArray, round_number: int) -> FloatArray:
        if "step" in self.fails:
            return self.fails["step"]()  # type: ignore[no-any-return]
        self.speed = (np.float32(0.5) * self.speed + np.float32(0.1) * (self.point - parameters)).astype(np.float32)
        return np.asarray(parameters + self.speed + np.float32(0.001) * np.float32(round_number), np.float32)

    def scores(self, parameters: FloatArray) -> NDArray[Any]:
        if "scores" in self.fails:
            return self.fails["scores"]()  # type: ignore[no-any-return]
        return np.linspace(0, 1, 40) + float(np.abs(parameters - self.point).mean())

    def evaluate(self, parameters: FloatArray, radius: float) -> tuple[int, int, float]:
        if "evaluate" in self.fails:
            return self.fails["evaluate"]()  # type: ignore[no-any-return]
        found = self.scores(parameters)
        return int((found <= radius).sum()), len(found), float(found.mean())

    def memory(self) -> dict[str, FloatArray]:
        return {"speed": self.speed}

    def recall(self, memory: Mapping[str, FloatArray]) -> None:
        self.speed = np.array(memory.get("speed", np.zeros_like(self.point)))


def pulls(fails: Mapping[str, Mapping[str, Callable[[], Any]]] | None = None) -> Callable[..., Site]:
    """Return what makes such sites; `fails` says, by client, what fails and how."""

    def make(name: str, settings: Mapping[str, Any], common: Common) -> Site:
        if "make" in (fails or {}).get(name, {}):
            (fails or {})[name]["make"]()
        place = NAMES.index(name)
        point = np.linspace(-1, 1, DIMENSION, dtype=np.float32) + np.float32(0.02 * place)
        return Pull(point, (fails or {}).get(name, {}), np.zeros(DIMENSION, np.float32))

    return make


def synthetic(names: Sequence[str] = NAMES) -> Callable[..., Site]:
    """Return what makes the paper's synthetic clients."""
    return SyntheticClients(SyntheticLinear().draw(len(names), DIMENSION, 0, seed=5), tuple(names)).site


def play(
    agreed: Agreement,
    folder: Path,
    make_site: Callable[..., Site] | None = None,
    *,
    hooks: Sequence[Hook] = (),
    stores: Mapping[str, Store] | None = None,
    drills: Mapping[str, Drill] | None = None,
    trust: Trust | None = None,
    settings: Mapping[str, Mapping[str, Any]] | None = None,
    grid: type[InProcessGrid] = InProcessGrid,
    nodes: Sequence[str] | None = None,
    **options: Any,
) -> dict[str, Any]:
    """Play a federation whose clients are made anew, as their processes would be, and keep their states in files."""
    kept = stores or {name: FileStore(folder / "state" / f"{name}.npz") for name in agreed.clients}
    app = client_app(
        make_site or pulls(), settings=lambda name, context: (settings or {}).get(name, {}), stores=kept, drills=drills
    )
    made = grid(app, [{"client": name} for name in nodes or agreed.clients], {})
    told: dict[str, Any] = {"keys": KEYS, "start": zeros} | options
    return Conductor(agreed, folder, hooks=hooks, trust=trust, **told).run(made)


def zeros(layers: tuple[Layer, ...]) -> FloatArray:
    return np.zeros(layers[-1].stop, np.float32)


def attacker() -> Drill:
    return Drill(UPDATE_ATTACKS["gaussian"](variance=4.0, probability=0.7))


def worth(folder: Path) -> dict[str, Any]:
    """Return what must not hang on how often a run was stopped: the models, the radii, the verdicts, the roster."""
    with np.load(folder / "checkpoint.npz") as kept:
        arrays = {name: kept[name].tobytes() for name in kept.files if name not in ("head",) and "client-" not in name}
    told = io.read_json(folder / "federation.json", "federation-result")
    body = io.read_json(folder / "calibration.json", "calibration")
    clients = [{key: row[key] for key in row if key != "received"} for row in body["clients"]]
    names = ("roster", "evaluation", "training_ledger", "bytes_up", "bytes_down", "levels", "rounds")
    return {"arrays": arrays, "levels": body["levels"], "clients": clients} | {name: told[name] for name in names}


def events(folder: Path) -> list[dict[str, Any]]:
    from prism_fcp.federation.events import read

    return read(folder / "events.jsonl")[0]


__all__ = ["Choice", "State", "agreement", "attacker", "events", "play", "pulls", "synthetic", "worth"]
