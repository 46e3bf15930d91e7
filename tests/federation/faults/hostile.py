"""A federation in one process in which somebody misbehaves on the wire, with Flower's own messages and no mock."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import Message

from prism_fcp.federation import Agreement
from prism_fcp.federation.agreement import Patience, Training
from prism_fcp.federation.apps import client_app
from prism_fcp.federation.conduct import Conductor
from prism_fcp.federation.grid import InProcessGrid
from prism_fcp.federation.keys import SecretKeys
from prism_fcp.federation.project import file_site, read_settings
from prism_fcp.federation.scaffold import scaffold
from prism_fcp.federation.sites.example import write_example
from prism_fcp.federation.store import MemoryStore

CLIENTS = ("north", "east", "south", "west", "mallory")
ROUNDS = 6
Change = Callable[[Message], "Message | None"]  # None: no answer ever comes


@dataclass
class Told:
    """What a run left."""

    result: Mapping[str, Any]
    events: list[dict[str, Any]]
    model: bytes
    seconds: float

    def refusals(self, client: str = "mallory") -> list[str]:
        """Return why this client was refused or missed, in order."""
        whats = ("refused", "silent", "node refused")
        return [one["reason"] for one in self.events if one["event"] in whats and one.get("client", client) == client]

    def entry(self, client: str = "mallory") -> Mapping[str, Any]:
        """Return the roster's row."""
        return next(row for row in self.result["roster"] if row["client"] == client)


class HostileGrid(InProcessGrid):
    """The last node's replies to messages of one type are changed."""

    def __init__(self, *args: Any, kind: str, change: Change, bad: int) -> None:
        super().__init__(*args)
        self._kind, self._change, self._bad = kind, change, bad

    def _answer(self, message: Message) -> Message:
        reply = super()._answer(message)
        if message.metadata.dst_node_id == self._bad and message.metadata.message_type == self._kind:
            changed = self._change(reply)
            assert changed is None or changed.metadata is not None
            return changed if changed is not None else _NEVER
        return reply

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        pushed = list(super().push_messages(messages))
        self._replies = {name: reply for name, reply in self._replies.items() if reply is not _NEVER}
        return pushed


_NEVER: Any = object()


def play(folder: Path, kind: str, change: Change, nodes: Iterable[str] = CLIENTS) -> Told:
    """Run the example federation, the last node misbehaving, and return what it left."""
    project = scaffold(folder / "project", write_example, clients=CLIENTS, rounds=ROUNDS)
    told = Agreement.load(project.folder / "federation.toml")
    agreed = Agreement(
        name=told.name, clients=told.clients, target=told.target, calibration=told.calibration,
        training=Training(rounds=ROUNDS, local_steps=20, batch_size=16, step_size=0.05, share=0.5),
        patience=Patience(wait=0.0, deadline=1.0, offences=2, aside=1),
    )  # fmt: skip
    own = {name: read_settings(project.folder / "sites" / f"{name}.toml", name) for name in CLIENTS}
    stores = {name: MemoryStore() for name in CLIENTS}
    app = client_app(file_site, settings=lambda name, context: own[name], stores=stores)
    configs = [{"client": name} for name in nodes]
    grid = HostileGrid(app, configs, {}, kind=kind, change=change, bad=len(configs))
    began = time.monotonic()
    result = Conductor(agreed, folder / "run", keys=SecretKeys.seeded(7)).run(grid)
    seconds = time.monotonic() - began
    lines = (folder / "run" / "events.jsonl").read_text().splitlines()
    with np.load(folder / "run" / "checkpoint.npz") as kept:
        model = kept["model"].tobytes()
    return Told(result, [json.loads(line) for line in lines], model, seconds)
