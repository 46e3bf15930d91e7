"""The server's side as a state machine: who is in, what a round asks, what is believed, and the next global model.

Nothing here knows what carries the messages. Whatever a client sends is checked before it is used; what fails is
refused by name with a reason, and the round goes on without it.
"""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from prism_fcp import streams
from prism_fcp.calibrate.trust import Trust
from prism_fcp.errors import DataError, SettingError, counted
from prism_fcp.federation.agreement import Agreement, Terms
from prism_fcp.federation.coordinates import mask_keys, received, shared, taken
from prism_fcp.federation.joining import Hello, read_hello
from prism_fcp.federation.keys import Keys
from prism_fcp.federation.payload import (
    VALUE_BYTES,
    TrainTask,
    pack_document,
    pack_task,
    pack_values,
    unpack_values,
)
from prism_fcp.federation.roster import Roster
from prism_fcp.streams import Role
from prism_fcp.train.aggregate import RULES
from prism_fcp.train.aggregate.lift import LARGEST
from prism_fcp.train.round import aggregate
from prism_fcp.types import FloatArray, Layer, Ledger, Uploads

NO_COLUMNS: Final = "it does not say which columns it has, as the other clients do"


class Closed(NamedTuple):
    """What became of a round."""

    number: int
    asked: int
    accepted: int
    counted: bool  # were there enough answers?
    weakened: str | None
    ledger: Ledger | None


@dataclass
class Coordinator:
    """The server's state. `start` gives the parameters everybody starts with, for a model of these stretches."""

    agreement: Agreement
    keys: Keys
    experiment: bytes
    start: Callable[[tuple[Layer, ...]], FloatArray]
    trust: Trust | None = None
    agree: Callable[[Mapping[str, Mapping[str, Any]]], tuple[Mapping[str, Any], Mapping[str, str]]] | None = None
    roster: Roster = field(init=False)
    round: int = 0  # the last one that is closed
    void: int = 0  # rounds without a quorum in a row
    layers: tuple[Layer, ...] = ()
    units: Mapping[str, Any] | None = None
    samples: int | None = None
    terms: Terms | None = None
    first: FloatArray = field(default_factory=lambda: np.zeros(0, np.float32))
    model: FloatArray = field(default_factory=lambda: np.zeros(0, np.float32))
    averaged: FloatArray | None = None  # sum of the global models that count in the average, in float64
    rule_state: Any = None
    ledger: Ledger | None = None
    _hellos: dict[int, Hello] = field(default_factory=dict)
    _asked: tuple[int, ...] = ()
    _answers: dict[int, FloatArray] = field(default_factory=dict)
    _places: dict[int, NDArray[np.int64]] = field(default_factory=dict)  # of those asked in the open round
    whole: bool = True  # False while a round is being closed: what stands here then belongs to no round

    def __post_init__(self) -> None:
        """Begin with nobody there."""
        self.roster = Roster(self.agreement.clients, self.agreement.patience)

    # Joining

    def hello(self, nonce: str) -> bytes:
        """Return the question who is there."""
        body = {"agreement": self.agreement.common.to_json(), "experiment": self.experiment.hex(), "nonce": nonce}
        return pack_document(body)

    @staticmethod
    def nonce() -> str:
        """Return something to sign that was never signed before."""
        return secrets.token_hex(16)

    def read_hello(self, data: bytes, nonce: str) -> Hello:
        """Return what a client said of itself; what cannot be believed is a `DataError`."""
        return read_hello(data, nonce, self.experiment.hex(), self.roster.places, self.trust)

    def join(self, hello: Hello) -> None:
        """Take a client in. Once training has begun its models and columns must be those of the others."""
        if self.layers and hello.layers != self.layers:
            raise DataError(
                f"{self.name(hello.client)}: its model has {hello.layers[-1].stop:,} parameters in "
                f"{counted(len(hello.layers), 'stretch')}; this federation's has {self.layers[-1].stop:,} in "
                f"{len(self.layers)}"
            )
        if self.terms is None:
            self._hellos[hello.client] = hello  # what all of them say is settled together
        else:
            self._check_columns(hello)
        self.roster[hello.client].joined, self.roster[hello.client].samples = True, hello.samples

    def leave(self, client: int) -> None:
        """Note that a client is not connected any more."""
        self.roster[client].joined, self.roster[client].node = False, ""

    def prepare(self) -> dict[int, str]:
        """Settle sizes, units and terms once all are there; return who cannot take part, and why.

        What more than half of them say of the model's stretches holds, so that no single one decides.
        """
        if not self._hellos:
            raise DataError("nobody has joined; start the clients, or wait longer: patience.wait")
        out: dict[int, str] = {}
        usual, count = Counter(hello.layers for hello in self._hellos.values()).most_common(1)[0]
        if 2 * count <= len(self._hellos):
            sizes = sorted({hello.layers[-1].stop for hello in self._hellos.values()})
            raise DataError(
                f"of {counted(len(self._hellos), 'client')} at most {count} have the same model; more than half must "
                f"(parameters: {', '.join(f'{size:,}' for size in sizes[:5])}): do all have the same columns?"
            )
        for client, hello in self._hellos.items():
            if hello.layers != usual:
                out[client] = f"its model has other stretches ({hello.layers[-1].stop:,} parameters) than most clients'"
        told = {
            self.name(client): hello.description
            for client, hello in self._hellos.items()
            if client not in out and hello.description is not None
        }
        if told:
            if self.agree is None:
                raise SettingError("the sites describe their columns, and nothing agrees on units; give `agree`")
            self.units, strange = self.agree(told)
            out |= {self.roster.places[name]: why for name, why in strange.items()}
            silent = [k for k, hello in self._hellos.items() if hello.description is None and k not in out]
            out |= dict.fromkeys(silent, NO_COLUMNS)
        for client in out:
            self.leave(client)
            self.roster.note(client, 0, out[client])
            del self._hellos[client]
        if not self._hellos:
            raise DataError(f"no client can take part: {next(iter(out.values()))}")
        # Half the clients have fewer rows and half have more: no liar moves that far.
        self.samples = int(np.median([hello.samples for hello in self._hellos.values()]))
        self.layers = usual
        terms = self._terms()
        self.first = self._started()
        self.model = self.first.copy()
        self.rule_state = terms.arm.rule.build(RULES, "rule").init(len(self.model))
        self._hellos.clear()
        self.terms = terms  # last: a start that fails has not begun anything
        return out

    def settle(self) -> None:
        """Work out the terms for models of the agreed stretches."""
        self.terms = self._terms()

    def setup(self, client: int) -> bytes:
        """Return what a client is told before its first round."""
        terms = self.settled
        masks = terms.arm.masks
        body = {
            "experiment": self.experiment.hex(), "agreement": self.agreement.common.to_json(), "index": client,
            "key": f"{self.keys.of(Role.INPUTS, client):016x}", "rule": terms.arm.rule.name,
            "masks": {"num_shared": masks.num_shared, "layers": list(masks.layers),
                      "coordination": masks.coordination, "download": masks.download},
            "mixing": terms.arm.mixing, "client_averaging": terms.arm.client_averaging, "units": self.units,
        }  # fmt: skip
        return pack_document(body, pack_values(self.first) if self.first.any() else b"")

    # Rounds

    def begin(self) -> tuple[int, ...]:
        """Open the next round and return whom it asks.

        Paper: Alg. 1, phase 1, S_n
        """
        number, total = self.round + 1, len(self.agreement.clients)
        drawn = streams.subset(self.keys.of(Role.PARTICIPANTS, number), total, self.agreement.participants)
        self._asked = tuple(int(k) for k in np.flatnonzero(drawn) if self.roster.asked(int(k), number))
        self._answers, self._places = {}, {}
        self.roster.hold()
        return self._asked

    def task(self, client: int) -> bytes:
        """Return what this round asks of a client."""
        number, masks = self.round + 1, self.settled.arm.masks
        up, down = mask_keys(self.keys, masks, number, client)
        coming = self._place(client) if down == up else received(down, masks, len(self.model))
        values = taken(self.model, coming)
        data = pack_task(TrainTask(self.experiment, number, up, down, values))
        self.roster[client].bytes_down += len(data)
        return data

    def take(self, client: int, data: bytes) -> None:
        """Take a client's answer; one that cannot be used is a `DataError`, and nothing of it is kept."""
        name = self.name(client)
        if client not in self._asked:
            raise DataError(f"{name}: not asked in round {self.round + 1}")
        if client in self._answers:
            raise DataError(f"{name}: a second answer in round {self.round + 1}; the first one counts")
        values = unpack_values(data, len(self._place(client)), f"{name}: upload", LARGEST)
        self._answers[client] = values
        self.roster.answered(client, VALUE_BYTES * len(values))

    def close(self) -> Closed:
        """Aggregate what came, if enough did, and close the round.

        Paper: Alg. 1, phase 1
        """
        number, terms = self.round + 1, self.settled
        who = sorted(self._answers)
        enough = len(who) >= self.agreement.quorum
        rule_state, model, averaged, ledger, weakened = self.rule_state, self.model, self.averaged, self.ledger, None
        if enough:
            places = [self._place(k) for k in who]
            offsets = np.concatenate(([0], np.cumsum([len(place) for place in places])))
            uploads = Uploads(
                np.array(who), np.concatenate([self._answers[k] for k in who]), np.concatenate(places), offsets,
                self.model,
            )  # fmt: skip
            rule = terms.arm.rule.build(RULES, "rule")
            key = self.keys.of(Role.RULE, number)
            rule_state, model, info = aggregate(rule, rule_state, uploads, key)
            model, ledger, weakened = model.astype(np.float32, copy=False), info.ledger or ledger, info.weakened
        if number >= terms.arm.averaged_from(terms.federation.rounds):
            averaged = model.astype(np.float64) + (0 if averaged is None else averaged)
        asked, accepted = len(self._asked), len(who)
        self.whole = False  # stopped between these lines, nothing is kept: the last checkpoint stands
        self.rule_state, self.model, self.averaged, self.ledger = rule_state, model, averaged, ledger
        self.round, self.void = number, 0 if enough else self.void + 1
        self._asked, self._answers, self._places = (), {}, {}
        self.roster.release()
        self.whole = True
        return Closed(number, asked, accepted, enough, weakened, self.ledger)

    def _place(self, client: int) -> NDArray[np.int64]:
        """Return the coordinates of a client's upload in the open round, worked out once."""
        if client not in self._places:
            up, _ = mask_keys(self.keys, self.settled.arm.masks, self.round + 1, client)
            self._places[client] = shared(up, self.settled.arm.masks, len(self.model))
        return self._places[client]

    @property
    def final(self) -> FloatArray:
        """Return the model training ends with: the last one, or the average of the last ones."""
        if self.averaged is None:
            return self.model
        count = self.settled.federation.rounds + 1 - self.settled.arm.averaged_from(self.settled.federation.rounds)
        return (self.averaged / count).astype(np.float32)

    @property
    def settled(self) -> Terms:
        """Return the terms; before they are settled there are none."""
        if self.terms is None:
            raise SettingError("the federation has not begun; call prepare() when the clients are there")
        return self.terms

    @property
    def done(self) -> bool:
        """Return whether all rounds are closed."""
        return self.round >= self.agreement.training.rounds

    def name(self, client: int) -> str:
        """Return what a client is called."""
        return self.agreement.clients[client]

    def _terms(self) -> Terms:
        model = self.agreement.model
        linear = model is not None and model.name == "linear"
        fixed = self.samples if model is not None else None
        return self.agreement.terms(self.layers, samples=fixed, linear=linear, correlated=self.units is not None)

    def _check_columns(self, hello: Hello) -> None:
        """Refuse one that comes later, or again, and has other columns than were agreed on."""
        if self.units is None or self.agree is None:
            return
        name = self.name(hello.client)
        if hello.description is None:
            raise DataError(f"{name}: {NO_COLUMNS}")
        own, strange = self.agree({name: hello.description})
        if strange:
            raise DataError(f"{name}: {strange[name]}")
        if (sorted(own["names"]), own["target"]) != (sorted(self.units["names"]), self.units["target"]):
            raise DataError(f"{name}: its columns are not those that most clients have")

    def _started(self) -> FloatArray:
        start = np.asarray(self.start(self.layers), dtype=np.float32)
        if start.shape != (self.layers[-1].stop,) or not np.isfinite(start).all():
            raise SettingError(f"the start has shape {start.shape}; must be ({self.layers[-1].stop},) finite numbers")
        return start
