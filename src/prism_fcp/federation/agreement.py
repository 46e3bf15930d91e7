"""What a federation agrees on: who takes part, how they train, how long anybody waits, how they calibrate.

`federation.toml` says it; clients are told it as JSON when they join. Nothing of the server's own (its secret, its
seed) is in it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

from prism_fcp import io
from prism_fcp.calibrate.filter import FILTERS
from prism_fcp.calibrate.grid import LinearGrid, LogGrid, grid_from_json
from prism_fcp.calibrate.masses import exact_fraction
from prism_fcp.calibrate.names import check_name
from prism_fcp.calibrate.quantile import exact_level
from prism_fcp.errors import PrismError, SettingError, did_you_mean, need_number
from prism_fcp.exchange.document import DEFAULT_FILTER
from prism_fcp.lab import checks
from prism_fcp.lab.typed import build, check_keys, convert, plain
from prism_fcp.train.aggregate import RULES
from prism_fcp.train.protocol import PROTOCOLS, Known, Protocol, overridden, protocol
from prism_fcp.train.settings import Arm, Coordination, Download, Federation, Masks
from prism_fcp.types import Choice, Layer

MOST_CLIENTS: Final = 100_000
LONGEST: Final = 30 * 24 * 3600.0  # seconds anybody may be waited for
MASKS: Final = ("coordination", "download")  # what overrides a protocol's masks,
ARM: Final = ("rule", "mixing", "averaging", "client_averaging")  # and its other settings
TABLES: Final = "follow: columns of a table go together; where inputs vary little a client alone does not arrive"
FEDAVG: Final = "fedavg"  # the row to compare with: everything shared, the plain mean, nobody filtered
OWN: Final = "own"  # the model's name where the sites bring theirs


@dataclass(frozen=True, kw_only=True, slots=True)
class Training:
    """What `[training]` says. `protocol` sets masks and rule; the keys below it override what it sets."""

    rounds: int = 200
    participants: int | None = None  # in a round; nobody said: everybody
    step_size: float = 0.05
    local_steps: int = 1
    batch_size: int = 1
    momentum: float = 0.0
    idle_learning: bool = True  # a client that was not asked in a round takes its local step all the same
    protocol: str = "default"
    share: float | None = None  # M/D; 0.3 unless told
    num_shared: int | None = None  # M, in place of share
    layers: bool = False  # whole named tensors travel, M of them
    coordination: Coordination | None = None
    download: Download | None = None
    rule: Choice | None = None
    mixing: float | None = None
    averaging: float | None = None
    client_averaging: float | None = None
    scoring_model: Literal["local", "global"] | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Calibrating:
    """What `[calibration]` says: levels, who judges, and which share of liars the radii shall allow for."""

    levels: tuple[str, ...] = ("0.9",)
    filter: Choice = field(default_factory=lambda: Choice(DEFAULT_FILTER))
    suspects: int | None = None  # how many attack, for the filter known_count
    guard: str | None = None
    grid: LogGrid | LinearGrid = LogGrid()
    signed: bool = False  # summaries count only with a signature that the server's trust folder knows


@dataclass(frozen=True, kw_only=True, slots=True)
class Patience:
    """What `[patience]` says: how long anybody is waited for, and what becomes of those who do not answer."""

    deadline: float = 60.0  # seconds a round's answers are awaited
    wait: float = 300.0  # seconds the declared clients are awaited before the first round
    quorum: int | None = None  # answers a round needs to count; nobody said: more than half of a full round's
    offences: int = 3  # refused or missing answers in a row before a client is put aside
    aside: int = 5  # rounds it is then not asked; twice as many each further time
    void_rounds: int = 10  # rounds in a row without a quorum after which the run stops, to be resumed


class Terms(NamedTuple):
    """The agreement for models of a known size: which coordinates travel, which rule, which model scores, and why."""

    arm: Arm
    scoring_model: Literal["local", "global"]
    why: str
    federation: Federation


@dataclass(frozen=True, kw_only=True, slots=True)
class Common:
    """What every client is told of the agreement: what it trains and how, and not who else there is."""

    name: str
    model: Choice | None
    target: str
    training: Training

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON says it."""
        return {key: value for key, value in plain(self).items() if value is not None}

    @classmethod
    def from_json(cls, body: Mapping[str, Any], where: str) -> Common:
        """Return what the server told; anything else is one line that says so."""
        check_keys(body, list(cls.__dataclass_fields__), where)
        training = body.get("training")
        if not isinstance(training, Mapping):
            raise SettingError(f"{where}: training must be a table")
        model = body.get("model")
        return cls(
            name=convert(body.get("name"), str, f"{where}: name"),
            model=None if model is None else convert(model, Choice, f"{where}: model"),
            target=convert(body.get("target", ""), str, f"{where}: target"),
            training=build(Training, _without_none(training), f"{where} [training]"),
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Agreement:
    """A federation's settings, checked."""

    name: str
    clients: tuple[str, ...]
    model: Choice | None = field(default_factory=lambda: Choice("linear"))  # None: the sites bring their own
    target: str = ""  # the column to predict, where sites read tables
    training: Training = field(default_factory=Training)
    calibration: Calibrating = field(default_factory=Calibrating)
    patience: Patience = field(default_factory=Patience)

    def __post_init__(self) -> None:
        """Refuse what cannot work, whatever the models will be."""
        checks.name(self.name, "federation")
        if not 2 <= len(self.clients) <= MOST_CLIENTS:
            raise SettingError(f"clients: {len(self.clients)} named; must be 2 to {MOST_CLIENTS:,}")
        for client in self.clients:
            check_name(client)
        if len(set(self.clients)) < len(self.clients):
            twice = next(name for name in self.clients if self.clients.count(name) > 1)
            raise SettingError(f"clients: {twice!r} stands twice; name every client once")
        self._check_training()
        self._check_patience()
        self._check_calibration()

    @property
    def participants(self) -> int:
        """Return how many clients a round asks."""
        return self.training.participants or len(self.clients)

    @property
    def quorum(self) -> int:
        """Return how many answers a round needs to count."""
        return self.patience.quorum or self.participants // 2 + 1

    @property
    def digest(self) -> str:
        """Return a hash of all of it."""
        return hashlib.sha256(json.dumps(self.to_json(), sort_keys=True).encode()).hexdigest()

    @property
    def common(self) -> Common:
        """Return the part that clients are told."""
        return Common(name=self.name, model=self.model, target=self.target, training=self.training)

    def terms(
        self, layers: tuple[Layer, ...], *, samples: int | None = None, linear: bool = False, correlated: bool = False
    ) -> Terms:
        """Return what this comes to for models with these stretches.

        `samples`: the training rows of a usual client; `correlated`: they are columns of a table.

        Paper: Alg. 1, phase 1 (`protocol = "paper"`)
        """
        told, dimension = self.training, layers[-1].stop
        units = tuple(layer.size for layer in layers) if told.layers else ()
        masks = Masks(num_shared=self._num_shared(len(units) or dimension), layers=units)
        federation = self.federation(dimension)
        known = Known.of(federation, masks, samples=samples, linear=linear, correlated=correlated)
        chosen = self._protocol(known)
        arm = chosen.arm
        own = {name: getattr(told, name) for name in MASKS if getattr(told, name) is not None}
        own_arm = {name: getattr(told, name) for name in ARM if getattr(told, name) is not None}
        arm = replace(arm, masks=replace(arm.masks, **own), **own_arm)
        arm.masks.check(dimension)
        arm.rule.build(RULES, "rule").check(self.participants)
        why = overridden(chosen.why, [*own, *own_arm, *(["scoring_model"] if told.scoring_model else [])])
        return Terms(arm, told.scoring_model or chosen.scoring_model, why, federation)

    def federation(self, dimension: int) -> Federation:
        """Return the settings a simulation of the same training would have; nobody is known to attack."""
        told = self.training
        return Federation(
            num_clients=len(self.clients), dimension=dimension, num_participants=self.participants, num_byzantine=0,
            rounds=told.rounds, step_size=told.step_size, attack=Choice("none"), idle_learning=told.idle_learning,
            local_steps=told.local_steps, batch_size=told.batch_size, momentum=told.momentum,
        )  # fmt: skip

    def to_json(self) -> dict[str, Any]:
        """Return every setting, defaults written out."""
        body: dict[str, Any] = {**plain(self), "model": {"name": OWN} if self.model is None else plain(self.model)}
        body["calibration"] = {**body["calibration"], "grid": self.calibration.grid.to_json()}
        return body

    @classmethod
    def from_json(cls, body: Mapping[str, Any], where: str = "federation") -> Agreement:
        """Return the agreement of a file's or a message's table; what is wrong with it is one line."""
        check_keys(body, list(cls.__dataclass_fields__), where)
        told = dict(body)
        parts: dict[str, type[Any]] = {"training": Training, "calibration": Calibrating, "patience": Patience}
        for key, kind in parts.items():
            table = told.pop(key, {})
            if not isinstance(table, Mapping):
                raise SettingError(f"{where}: {key} must be a table: write [{key}] above its keys")
            own, at = dict(table), f"{where} [{key}]"
            try:
                grid = {"grid": grid_from_json(own.pop("grid"))} if "grid" in own else {}
            except PrismError as error:
                raise SettingError(f"{at}: {error}") from error
            if "levels" in own and isinstance(own["levels"], list):
                own["levels"] = [str(level) for level in own["levels"]]
            if isinstance(own.get("guard"), float):
                own["guard"] = str(own["guard"])
            made = build(kind, _without_none(own), at)
            told[key] = replace(made, **grid) if grid else made
        for key in ("name", "clients"):
            if key not in told:
                raise SettingError(f"{where}: {key} is missing")
        told["clients"] = convert(told["clients"], tuple[str, ...], f"{where}: clients")
        told["name"] = convert(told["name"], str, f"{where}: name")
        told["target"] = convert(told.get("target", ""), str, f"{where}: target")
        told["model"] = convert(told["model"], Choice, f"{where}: model") if "model" in told else None
        if "model" not in body:
            told["model"] = Choice("linear")
        elif told["model"] is not None and told["model"].name == OWN:
            told["model"] = None
        try:
            return cls(**told)
        except PrismError as error:
            raise SettingError(f"{where}: {error}") from error

    @classmethod
    def load(cls, path: Path) -> Agreement:
        """Read federation.toml."""
        return cls.from_json(io.read_toml(path), str(path))

    def _num_shared(self, units: int) -> int:
        told = self.training
        if self.training.protocol == FEDAVG:
            return units
        if told.num_shared is not None:
            return told.num_shared
        return max(1, round((0.3 if told.share is None else told.share) * units))

    def _protocol(self, known: Known) -> Protocol:
        if self.training.protocol != FEDAVG:
            chosen = protocol(self.training.protocol, known)
            if self.training.protocol == "default" and chosen.scoring_model == "local":
                # One model comes out of a federation, to be calibrated and handed on, unless it is asked otherwise.
                return chosen._replace(scoring_model="global", why=TABLES)
            return chosen
        masks = Masks(num_shared=known.num_shared, layers=known.layers, coordination="common", download="full")
        return Protocol(FEDAVG, Arm(masks=masks), "global", "asked for: everything shared, the plain mean")

    def _check_training(self) -> None:
        told = self.training
        names = [*PROTOCOLS, FEDAVG]
        if told.protocol not in names:
            raise SettingError(f"training: unknown protocol {told.protocol!r}{did_you_mean(told.protocol, names)}")
        if told.share is not None and told.num_shared is not None:
            raise SettingError(f"training: share={told.share} and num_shared={told.num_shared}; keep one of them")
        if told.share is not None and not 0 < told.share <= 1:
            raise SettingError(f"training: share={told.share}; must lie in (0, 1], the part of the model that travels")
        if told.participants is not None and not 1 <= told.participants <= len(self.clients):
            raise SettingError(
                f"training: participants={told.participants}; must lie in 1..{len(self.clients)}, the number of clients"
            )
        if told.rule is not None:
            told.rule.build(RULES, "rule")
        self.federation(max(1, told.num_shared or 1))  # checks the numbers

    def _check_calibration(self) -> None:
        """Refuse now what would stop the run when all its training is done."""
        told = self.calibration
        if not told.levels or len({exact_level(level) for level in told.levels}) < len(told.levels):
            raise SettingError(f"calibration: levels={list(told.levels)}; at least one, none twice")
        told.filter.build(FILTERS, "filter")
        if told.guard is not None:
            exact_fraction(told.guard, "calibration: guard")
        suspects = told.filter.options.get("suspects", told.suspects)
        most = (len(self.clients) - 1) // 2
        if told.filter.name == "known_count" and (suspects is None or not 0 <= suspects <= most):
            raise SettingError(f"calibration: filter known_count with suspects={suspects}; must lie in 0..{most}")

    def _check_patience(self) -> None:
        told = self.patience
        for name, least in (("deadline", 0.1), ("wait", 0.0)):
            value = getattr(told, name)
            need_number(f"patience: {name}", value)
            if not least <= value <= LONGEST:
                raise SettingError(f"patience: {name}={value}; must lie in {least:g}..{LONGEST:,.0f} seconds")
        for name in ("offences", "aside", "void_rounds"):
            if getattr(told, name) < 1:
                raise SettingError(f"patience: {name}={getattr(told, name)}; must be at least 1")
        if told.quorum is not None and not 1 <= told.quorum <= self.participants:
            raise SettingError(
                f"patience: quorum={told.quorum}; must lie in 1..{self.participants}, the clients a round asks"
            )


def _without_none(table: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in table.items() if value is not None}
