"""A client's side of every message, as a function from bytes to bytes around its site and its store. No engine here.

It believes the server no more than the server believes it: every message is checked before it is used, and one of
another experiment, or of a round that is behind it, is refused in words. What fails at the site itself is told by its
kind alone: an error's text may quote rows or name files, so it goes to the site's own log.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from prism_fcp.calibrate import wire
from prism_fcp.calibrate.signing import Signer
from prism_fcp.calibrate.spec import CalibrationSpec
from prism_fcp.calibrate.summary import summarize
from prism_fcp.errors import DataError, PrismError, SettingError
from prism_fcp.federation.agreement import Common
from prism_fcp.federation.coordinates import received, shared, taken
from prism_fcp.federation.drill import Drill
from prism_fcp.federation.payload import (
    AGAIN,
    pack_document,
    pack_values,
    unpack_document,
    unpack_task,
    unpack_values,
)
from prism_fcp.federation.site import Describing, Keyed, Remembering, Site
from prism_fcp.federation.store import MEAN, MEAN_WEIGHT, State, Store
from prism_fcp.train.round import Means, average
from prism_fcp.train.settings import Masks
from prism_fcp.types import Choice, FloatArray

_LOG: Final = logging.getLogger("prism_fcp")
MakeSite: TypeAlias = Callable[[str, Mapping[str, Any], Common], Site]
MOST_RADII: Final = 1000  # asked of one evaluation: more would trace out the residuals one by one
OURS: Final = "/"  # begins the names of what is not the site's own in its memory
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
        parts: dict[str, Callable[[bytes], bytes]] = {
            "hello": self._hello, "setup": self._setup, "train": self._train, "calibrate": self._calibrate,
            "evaluate": self._evaluate,
        }  # fmt: skip
        if kind not in parts:
            raise SettingError(f"unknown message {kind!r}")
        try:
            return parts[kind](data)
        except PrismError:
            raise
        except Exception as error:  # a header whose entries are of other types or ranges than ours
            _LOG.error("%s: a %s message cannot be used", self.name, kind, exc_info=error)
            raise DataError(f"{kind}: the message cannot be used ({type(error).__name__})") from error

    def _hello(self, data: bytes) -> bytes:
        """Say who this is and what its models look like; with a key, prove it."""
        asked, _ = unpack_document(data, "hello")
        site = self._site_for(Common.from_json(_part(asked, "agreement", dict), "the server's agreement"))
        with self._telling("description"):
            told: dict[str, Any] = {
                "client": self.name,
                "layers": [[layer.name, int(layer.size)] for layer in site.layers],
                "samples": int(site.samples),
                "description": site.describe() if isinstance(site, Describing) else None,
            }
        state = self._load()
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
        self._check_round(task.round)
        if task.round < state.round:
            raise DataError(
                f"round {task.round} was asked for, but this client has learned round {state.round}; resume the "
                "federation from its last checkpoint"
            )
        place = shared(task.up, masks, size)
        if task.round > state.round:
            down = received(task.down, masks, size)
            values = unpack_values(tail, len(down), f"round {task.round}: download")
            local, mean = self._catch_up(site, state, task.round)
            before = _moved(local, down, values, float(state.told["mixing"]))
            local = self._stepped(site, before, task.round)
            state = self._after(site, state, local, task.round, self._averaged(state, mean, local, task.round))
            if self.drill is not None:
                rule = Choice(_part(state.told, "rule", str))
                state.memory[FORGED] = self.drill.upload(state.sent, before, task.round, place, rule)
            self.store.save(state)
        # A round that is asked for again is answered as the first time.
        return pack_values(taken(state.memory.get(FORGED, state.sent), place))

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
        self._check_round(rounds)
        if rounds > state.round:
            local, mean = self._catch_up(site, state, rounds + 1)
            state = self._after(site, state, local, rounds, mean)
        state.final = state.parameters if told.get("scoring") == "local" else final
        self.store.save(state)
        with self._telling("scores"):
            scores = np.asarray(site.scores(state.final), dtype=np.float64)
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
        if not 1 <= len(radii) <= MOST_RADII:
            raise DataError(f"evaluate: {len(radii)} radii; must be 1 to {MOST_RADII}")
        with self._telling("evaluation"):
            found = [site.evaluate(state.final, radius) for radius in radii]
            return pack_document(
                {"covered": [int(one[0]) for one in found], "rows": int(found[0][1]), "error": float(found[0][2])}
            )

    def _site_for(self, agreement: Common) -> Site:
        if self._made is None or self._made[0] != agreement:
            with self._telling("making"):
                self._made, self._ready = (agreement, self.make_site(self.name, self.settings, agreement)), ""
        return self._made[1]

    def _begin(self, told: Mapping[str, Any], state: State | None = None) -> Site:
        """Return the site as it was told to be on joining, its memory taken up."""
        experiment = _part(told, "experiment", str)
        if self._made is not None and self._ready == experiment and state is not None:
            site = self._made[1]
        else:
            site = self._site_for(Common.from_json(_part(told, "agreement", dict), "the server's agreement"))
            key = int(_part(told, "key", str), 16)
            units = _part(told, "units", dict) if isinstance(site, Describing) else {}
            with self._telling("setting up"):
                if isinstance(site, Keyed):
                    site.draw_from(key)
                if isinstance(site, Describing):
                    site.standardise(units)
            if self.drill is not None:
                self.drill.begin(told)
            self._ready = experiment
        if isinstance(site, Remembering) and state is not None:
            with self._telling("memory"):
                site.recall({name: kept for name, kept in state.memory.items() if not name.startswith(OURS)})
        return site

    def _after(self, site: Site, state: State, local: FloatArray, number: int, mean: Means | None) -> State:
        """Return the state behind a round's learning."""
        with self._telling("memory"):
            kept = dict(site.memory()) if isinstance(site, Remembering) else {}
        if mean is not None:
            kept |= {MEAN: mean.models, MEAN_WEIGHT: np.array([mean.weight])}
        return State(state.experiment, state.told, local, number, kept, state.final)

    def _state(self, experiment: bytes) -> State:
        state = self._load()
        if state is None or state.experiment != experiment:
            held = "none" if state is None else state.experiment.hex()
            raise DataError(f"experiment {experiment.hex()} is not known here (held: {held}); {AGAIN}")
        return state

    def _load(self) -> State | None:
        with self._telling("state"):
            return self.store.load()

    def _check_round(self, number: int) -> None:
        """Refuse a round beyond the agreed ones: to catch up with it would take for ever."""
        most = self._made[0].training.rounds if self._made is not None else 0
        if not 0 <= number <= most:
            raise DataError(f"round {number} was asked for; {most} were agreed on")

    @contextmanager
    def _telling(self, what: str) -> Iterator[None]:
        """Tell the server the kind of what fails here, and the site's log the rest."""
        try:
            yield
        except Exception as error:
            trace = None if isinstance(error, PrismError) else error
            _LOG.error("%s: the site's %s failed: %s", self.name, what, error, exc_info=trace)
            raise DataError(f"the site's {what} failed ({type(error).__name__}); its own log says why") from error

    def _catch_up(self, site: Site, state: State, until: int) -> tuple[FloatArray, Means | None]:
        """Return the parameters, and their mean if it is what is sent, before round `until`.

        With idle learning a step was taken in each round that was missed; the mean counts every round.
        """
        local, mean = state.parameters, state.mean
        idle = self._made is not None and self._made[0].training.idle_learning
        for missed in range(state.round + 1, until):
            local = self._stepped(site, local, missed) if idle else local
            mean = self._averaged(state, mean, local, missed)
        return local, mean

    def _averaged(self, state: State, mean: Means | None, local: FloatArray, number: int) -> Means | None:
        """Return the mean with this round's parameters in it, where it was agreed that means are sent."""
        power = float(state.told.get("client_averaging", 0))
        if not power:
            return None
        return average(mean, local, number, power)

    def _stepped(self, site: Site, local: FloatArray, number: int) -> FloatArray:
        with self._telling("step"):
            learned = np.asarray(site.step(local, number), dtype=np.float32)
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


def _moved(local: FloatArray, down: NDArray[np.int64], values: FloatArray, mixing: float) -> FloatArray:
    """Return the parameters after a download: what `train.round.receive` does, for the coordinates that came alone."""
    if not len(down):
        return local
    told = values
    if mixing != 1:
        held = taken(local, down)
        told = held + held.dtype.type(mixing) * (values - held)
    if len(down) == len(local):
        return told
    moved = local.copy()
    moved[down] = told
    return moved


def _part(body: Mapping[str, Any], key: str, kind: type[Any]) -> Any:
    value = body.get(key)
    if not isinstance(value, kind) or isinstance(value, bool):
        raise DataError(f"{key} is missing from the message, or no {kind.__name__}")
    return value
