"""A client's side of every message, as a function from bytes to bytes around its site and its store. No engine here.

It believes the server no more than the server believes it: every message is checked before it is used, and one of
another experiment, or of a round that is behind it, is refused in words.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, TypeAlias

import numpy as np

from prism_fcp.calibrate import wire
from prism_fcp.calibrate.signing import Signer
from prism_fcp.calibrate.spec import CalibrationSpec
from prism_fcp.calibrate.summary import summarize
from prism_fcp.errors import DataError, PrismError, SettingError
from prism_fcp.federation.agreement import Common
from prism_fcp.federation.coordinates import received, shared
from prism_fcp.federation.drill import Drill
from prism_fcp.federation.payload import (
    pack_document,
    pack_values,
    unpack_document,
    unpack_task,
    unpack_values,
)
from prism_fcp.federation.site import Describing, Keyed, Remembering, Site
from prism_fcp.federation.store import State, Store
from prism_fcp.train.round import receive
from prism_fcp.train.settings import Masks
from prism_fcp.types import Choice, FloatArray

MakeSite: TypeAlias = Callable[[str, Mapping[str, Any], Common], Site]
FORGED: Final = "/forged"  # what a drill sends in place of the parameters; no site's memory can have the name
HELLO: Final = b"prism-fcp hello\0"  # no summary begins so: its first bytes are a length far below this one's


@dataclass
class ClientWork:
    """What a client does, whatever carries the messages."""

    name: str
    make_site: MakeSite
    store: Store
    settings: Mapping[str, Any] = field(default_factory=dict)  # the site's own
    signer: Signer | None = None
    drill: Drill | None = None  # plays an attacker, where somebody wants to see what would happen
    _made: tuple[Common, Site] | None = None
    _ready: str = ""  # the experiment the site's units and the drill are set for

    def handle(self, kind: str, data: bytes) -> bytes:
        """Answer a message; what is wrong with it, or with the site, is a `PrismError`."""
        match kind:
            case "hello":
                return self._hello(data)
            case "setup":
                return self._setup(data)
            case "train":
                return self._train(data)
            case "calibrate":
                return self._calibrate(data)
            case "evaluate":
                return self._evaluate(data)
        raise SettingError(f"unknown message {kind!r}")

    def _hello(self, data: bytes) -> bytes:
        """Say who this is and what its models look like; with a key, prove it."""
        asked, _ = unpack_document(data, "hello")
        site = self._site_for(Common.from_json(_part(asked, "agreement", dict), "the server's agreement"))
        told: dict[str, Any] = {
            "client": self.name,
            "layers": [[layer.name, layer.size] for layer in site.layers],
            "samples": site.samples,
            "description": site.describe() if isinstance(site, Describing) else None,
        }
        state = self.store.load()
        known = state is not None and state.experiment.hex() == _part(asked, "experiment", str)
        told["round"] = state.round if state is not None and known else None
        if self.signer is not None:
            message = hello_message(_part(asked, "nonce", str), asked["experiment"], self.name)
            told |= {"key": self.signer.fingerprint, "signature": self.signer.sign(message).hex()}
        return pack_document(told)

    def _setup(self, data: bytes) -> bytes:
        """Begin an experiment: keep what was agreed and the parameters everybody starts with."""
        told, tail = unpack_document(data, "setup")
        experiment = bytes.fromhex(_part(told, "experiment", str))
        site = self._begin(told)
        size = site.layers[-1].stop
        start = unpack_values(tail, size, "setup: start") if tail else np.zeros(size, np.float32)
        masks_of(told).check(size)
        self.store.save(State(experiment, told, start))
        return pack_document({"ready": size})

    def _train(self, data: bytes) -> bytes:
        """Play one round: catch up with the rounds it was not asked in, receive, learn, upload.

        Paper: Alg. 1, phase 1
        """
        task, tail = unpack_task(data)
        state = self._state(task.experiment)
        site, size = self._begin(state.told, state), len(state.parameters)
        masks = masks_of(state.told)
        if task.round < state.round:
            raise DataError(
                f"round {task.round} was asked for, but this client has learned round {state.round}; resume the "
                "federation from its last checkpoint"
            )
        place = shared(task.up, masks, size)
        if task.round > state.round:
            down = received(task.down, masks, size)
            values = unpack_values(tail, len(down), f"round {task.round}: download")
            before = _moved(self._catch_up(site, state, task.round), down, values, float(state.told["mixing"]))
            local = self._stepped(site, before, task.round)
            state = self._after(site, state, local, task.round)
            if self.drill is not None:
                rule = Choice(_part(state.told, "rule", str))
                state.memory[FORGED] = self.drill.upload(local, before, task.round, place, rule)
            self.store.save(state)
        # A round that is asked for again is answered as the first time.
        return pack_values(state.memory.get(FORGED, state.parameters)[place])

    def _calibrate(self, data: bytes) -> bytes:
        """Score the calibration rows and count the scores: the summary of the file workflow, signed with a key.

        Paper: Alg. 1, phase 2
        """
        told, tail = unpack_document(data, "calibrate")
        state = self._state(bytes.fromhex(_part(told, "experiment", str)))
        site = self._begin(state.told, state)
        final = unpack_values(tail, len(state.parameters), "calibrate: model")
        spec = CalibrationSpec.from_json(_part(told, "spec", dict))
        rounds = _part(told, "rounds", int)
        if rounds > state.round:
            state = self._after(site, state, self._catch_up(site, state, rounds + 1), rounds)
        state.final = state.parameters if told.get("scoring") == "local" else final
        self.store.save(state)
        scores = np.asarray(site.scores(state.final))
        if self.drill is not None:
            scores = self.drill.report(scores, spec)
        summary = summarize(scores, spec, self.name, created=datetime.now(UTC))
        return wire.encode(wire.sign(summary, self.signer) if self.signer else summary)

    def _evaluate(self, data: bytes) -> bytes:
        """Count how many of its test rows the radii cover."""
        told, _ = unpack_document(data, "evaluate")
        state = self._state(bytes.fromhex(_part(told, "experiment", str)))
        if state.final is None:
            raise DataError("evaluate: this client has not calibrated yet")
        site = self._begin(state.told, state)
        radii = [float(radius) for radius in _part(told, "radii", list)]
        found = [site.evaluate(state.final, radius) for radius in radii]
        return pack_document(
            {"covered": [int(one[0]) for one in found], "rows": int(found[0][1]), "error": float(found[0][2])}
        )

    def _site_for(self, agreement: Common) -> Site:
        if self._made is None or self._made[0] != agreement:
            self._made, self._ready = (agreement, self.make_site(self.name, self.settings, agreement)), ""
        return self._made[1]

    def _begin(self, told: Mapping[str, Any], state: State | None = None) -> Site:
        """Return the site as it was told to be on joining, its memory taken up."""
        experiment = _part(told, "experiment", str)
        if self._made is not None and self._ready == experiment and state is not None:
            site = self._made[1]
        else:
            site = self._site_for(Common.from_json(_part(told, "agreement", dict), "the server's agreement"))
            if isinstance(site, Keyed):
                site.draw_from(int(_part(told, "key", str), 16))
            if isinstance(site, Describing):
                site.standardise(_part(told, "units", dict))
            if self.drill is not None:
                self.drill.begin(told)
            self._ready = experiment
        if isinstance(site, Remembering) and state is not None:
            site.recall({name: kept for name, kept in state.memory.items() if name != FORGED})
        return site

    def _after(self, site: Site, state: State, local: FloatArray, number: int) -> State:
        """Return the state behind a round's learning."""
        kept = site.memory() if isinstance(site, Remembering) else {}
        return State(state.experiment, state.told, local, number, dict(kept), state.final)

    def _state(self, experiment: bytes) -> State:
        state = self.store.load()
        if state is None or state.experiment != experiment:
            held = "none" if state is None else state.experiment.hex()
            raise DataError(f"experiment {experiment.hex()} is not known here (held: {held}); set this client up again")
        return state

    def _catch_up(self, site: Site, state: State, until: int) -> FloatArray:
        """Return the parameters before round `until`: with idle learning, behind a step for each missed round."""
        local = state.parameters
        if self._made is not None and self._made[0].training.idle_learning:
            for missed in range(state.round + 1, until):
                local = self._stepped(site, local, missed)
        return local

    def _stepped(self, site: Site, local: FloatArray, number: int) -> FloatArray:
        try:
            learned = np.asarray(site.step(local, number), dtype=np.float32)
        except PrismError:
            raise
        except Exception as error:  # the site's code is the user's: the server is told what failed, and goes on
            raise DataError(f"round {number}: the site's step failed ({type(error).__name__}: {error})") from error
        if learned.shape != local.shape:
            raise DataError(f"round {number}: the site's step returned shape {learned.shape}; must be {local.shape}")
        if not np.isfinite(learned).all():
            raise DataError(f"round {number}: the site's step returned NaN or Inf; lower step_size")
        return learned


def hello_message(nonce: str, experiment: str, client: str) -> bytes:
    """Return what a client signs to prove who it is."""
    return HELLO + f"{nonce}\0{experiment}\0{client}".encode()


def masks_of(told: Mapping[str, Any]) -> Masks:
    """Return the masks that were agreed, from the message that set the client up."""
    masks = _part(told, "masks", dict)
    try:
        return Masks(
            num_shared=masks["num_shared"], layers=tuple(masks["layers"]), coordination=masks["coordination"],
            download=masks["download"],
        )  # fmt: skip
    except (KeyError, TypeError) as error:
        raise DataError(f"setup: masks are not whole ({error})") from error


def _moved(local: FloatArray, down: Any, values: FloatArray, mixing: float) -> FloatArray:
    if not len(down):
        return local
    moved = local.copy()
    moved[down] = receive(local[down], values, np.ones(len(down), dtype=np.bool_), mixing)
    return moved


def _part(body: Mapping[str, Any], key: str, kind: type[Any]) -> Any:
    value = body.get(key)
    if not isinstance(value, kind) or isinstance(value, bool):
        raise DataError(f"{key} is missing from the message, or no {kind.__name__}")
    return value
