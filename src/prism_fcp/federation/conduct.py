"""A whole run, whatever the grid: gather, agree, train, calibrate, evaluate, save. Stopped anywhere, it goes on there.

What a run leaves lies in its folder: checkpoint.npz and events.jsonl while it trains, then model, spec, calibration,
predictor, page and federation.json.
"""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
from flwr.app import ArrayRecord
from flwr.serverapp import Grid

from prism_fcp import io
from prism_fcp.calibrate.trust import Trust
from prism_fcp.errors import DataError, SettingError
from prism_fcp.federation import checkpoint
from prism_fcp.federation.agreement import Agreement
from prism_fcp.federation.conclude import KIND, RESULT, calibrate, choice_model, conclude, evaluate
from prism_fcp.federation.coordinator import Coordinator
from prism_fcp.federation.events import FILE as EVENTS
from prism_fcp.federation.events import Events, Hook
from prism_fcp.federation.keys import SECRET_BYTES, Keys, SecretKeys
from prism_fcp.federation.sites.agree import agree_on
from prism_fcp.federation.store import State
from prism_fcp.federation.strategy import PrismStrategy
from prism_fcp.streams import Role
from prism_fcp.types import FloatArray, Layer

SECRET: Final = "secret.key"
Start: TypeAlias = Callable[[tuple[Layer, ...]], FloatArray]


@dataclass
class Conductor:
    """What a run needs beside its grid."""

    agreement: Agreement
    folder: Path
    keys: Keys | None = None  # None: from a secret of the folder's own
    start: Start | None = None  # the first parameters, for models the sites bring
    trust: Trust | None = None  # clients must sign their hello with a key it knows
    hooks: Sequence[Hook] = ()
    fresh: bool = False  # forget a run that is in the folder
    states: Callable[[], Mapping[str, State]] | None = None  # of clients that live in this process
    restore: Callable[[Mapping[str, State]], None] = field(default=lambda states: None)
    every: float = 0.0  # seconds between checkpoints at least; 0: one a round

    def run(self, grid: Grid) -> dict[str, Any]:
        """Play the run from where its checkpoint stands, unless it has ended; return what it came to."""
        logging.getLogger("flwr").setLevel(logging.WARNING)  # events tell what happens
        with io.locked(self.folder):
            if self.fresh:
                forget(self.folder)
            coordinator = self._coordinator()
            if coordinator.done and (self.folder / RESULT).exists():
                return io.read_json(self.folder / RESULT, KIND)
            events = Events(self.folder / EVENTS, self.hooks)
            strategy = PrismStrategy(coordinator, events, self._keeper(coordinator))
            try:
                return self._play(strategy, grid)
            except BaseException as error:
                if coordinator.terms is not None and coordinator.whole:
                    self._keep(coordinator)
                events.tell(
                    "stopped", round=coordinator.round, reason=f"{type(error).__name__}: {error}"[:300].rstrip(": ")
                )
                raise

    def _play(self, strategy: PrismStrategy, grid: Grid) -> dict[str, Any]:
        coordinator, events = strategy.coordinator, strategy.events
        resumed = coordinator.terms is not None
        events.tell("resumed" if resumed else "began", name=self.agreement.name, round=coordinator.round)
        strategy.gather(grid)
        if not resumed:
            for client, why in coordinator.prepare().items():
                events.tell("refused", client=coordinator.name(client), what="joining", reason=why)
                strategy.nodes = {node: k for node, k in strategy.nodes.items() if k != client}
            strategy.set_up(grid, list(strategy.nodes.values()))
            self._keep(coordinator)
        left = self.agreement.training.rounds - coordinator.round
        if left:
            deadline = self.agreement.patience.deadline
            strategy.start(grid, ArrayRecord(), num_rounds=left, timeout=deadline)
        self._keep(coordinator)
        strategy.greet(grid, again=True)
        coordinator.roster.hold()
        body = calibrate(strategy, grid, self.folder)
        worth = evaluate(strategy, grid, body)
        told = conclude(strategy, self.folder, body, worth)
        coordinator.roster.release()  # not before the result is written: until then all of it is done again
        self._keep(coordinator)
        events.tell("finished", folder=self.folder.name)
        return told

    def _coordinator(self) -> Coordinator:
        keys = self.keys or SecretKeys(self._secret())
        if self.agreement.calibration.signed and self.trust is None:
            raise SettingError("calibration: signed = true, but no trust folder is given; run config: trust = ...")
        if self.agreement.model is None and self.start is None:
            raise SettingError("the sites bring their own models: give the first parameters, server_app(start=...)")
        made = Coordinator(self.agreement, keys, secrets.token_bytes(8), self.start or _zeros, self.trust, agree_on)
        if self.start is None:
            made.start = lambda layers: first_parameters(made, layers)
        if (self.folder / checkpoint.FILE).exists():
            self.restore(checkpoint.restore(self.folder / checkpoint.FILE, made))
        return made

    def _secret(self) -> bytes:
        path = self.folder / SECRET
        if not path.exists():
            io.write_secret(path, secrets.token_bytes(SECRET_BYTES))
        return io.read_bytes(path, SECRET_BYTES, secret=True)

    def _keeper(self, coordinator: Coordinator) -> Callable[[], None]:
        clock = [time.monotonic()]

        def kept() -> None:
            if time.monotonic() - clock[0] >= self.every or coordinator.done:
                self._keep(coordinator)
                clock[0] = time.monotonic()

        return kept

    def _keep(self, coordinator: Coordinator) -> None:
        checkpoint.save(self.folder / checkpoint.FILE, coordinator, self.states() if self.states else None)


def forget(folder: Path) -> None:
    """Remove what a run left that is no longer true once another begins; the secret too, for masks must not repeat."""
    names = (
        checkpoint.FILE,
        EVENTS,
        RESULT,
        SECRET,
        *(f"summaries.sqlite{end}" for end in ("", "-wal", "-shm")),
        *("model.json", "model.npz", "spec.json", "calibration.json", "predictor.json", "page.html"),
    )
    for name in names:
        io.discard(folder / name)


def first_parameters(coordinator: Coordinator, layers: tuple[Layer, ...]) -> FloatArray:
    """Return what everybody starts with, for a model of this package."""
    choice, units = coordinator.agreement.model, coordinator.units
    if choice is None or units is None:
        return _zeros(layers)
    model = choice_model(choice, len(units["names"]))
    if [layer.size for layer in model.layers] != [layer.size for layer in layers]:
        raise DataError(f"the sites' model is not the agreed {choice.name!r} with {len(units['names'])} features")
    return np.asarray(model.init(coordinator.keys.of(Role.START)), dtype=np.float32)


def _zeros(layers: tuple[Layer, ...]) -> FloatArray:
    return np.zeros(layers[-1].stop, np.float32)
