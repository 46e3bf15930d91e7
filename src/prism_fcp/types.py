"""The shared nouns: what travels between the rooms of the house. NumPy only."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, Protocol, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from prism_fcp.errors import SettingError, did_you_mean
from prism_fcp.registry import find, names

FloatArray: TypeAlias = NDArray[np.floating[Any]]
IntArray: TypeAlias = NDArray[np.integer[Any]]
BoolArray: TypeAlias = NDArray[np.bool_]
T = TypeVar("T")
NORMAL: Final = 1.4826  # MAD times this estimates the standard deviation of normal data


@dataclass(frozen=True, slots=True)
class Choice:
    """A named member of a registry with its arguments, as experiments write it: `{name = "krum", suspects = 2}`."""

    name: str
    options: Mapping[str, Any] = field(default_factory=dict, hash=False)

    @classmethod
    def of(cls, value: object, what: str) -> Choice:
        """Let a bare name stand for a choice without options."""
        if isinstance(value, str):
            return cls(value)
        if not isinstance(value, Choice):
            raise SettingError(f"{what}={value!r}; give a name, or Choice(name, options)")
        return value

    def build(self, registry: Mapping[str, Callable[..., T]], kind: str) -> T:
        """Call the factory of this name; a wrong name or argument is a `SettingError` that names the right one."""
        factory = find(registry, kind, self.name)
        if factory is None:
            raise SettingError(f"unknown {kind} {self.name!r}{did_you_mean(self.name, names(registry, kind))}")
        known = inspect.signature(factory).parameters
        for option in self.options:
            if option not in known:
                raise SettingError(f"{kind} {self.name!r} has no option {option!r}{did_you_mean(option, known)}")
        named = {n: p for n, p in known.items() if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)}
        needed = [n for n, p in named.items() if p.default is p.empty and n not in self.options]
        if needed:
            raise SettingError(f"{kind} {self.name!r} needs {', '.join(needed)}")
        return factory(**self.options)

    def members(self, kind: str) -> list[tuple[str, str]]:
        """Return (kind, name) of this choice and of those in its options: a rule may name the one that follows it."""
        inner = [option for option in self.options.values() if isinstance(option, Choice)]
        return [(kind, self.name), *(member for option in inner for member in option.members(kind))]


class Layer(NamedTuple):
    """A named stretch of a model's flat vector."""

    name: str
    start: int
    stop: int

    @property
    def size(self) -> int:
        """Return how many parameters it has."""
        return self.stop - self.start


class Model(Protocol):
    """What is trained: a flat vector of parameters that predicts one number for each input.

    Leading axes broadcast: `predict` takes models (..., P) and inputs (..., n, D) to (..., n), `gradient` takes targets
    (..., n) too and returns (..., P), the gradient of half the mean squared error.
    """

    @property
    def name(self) -> str:
        """Return the kind of model, as settings name it."""
        ...

    @property
    def layers(self) -> tuple[Layer, ...]:
        """Return the stretches of the flat vector, in order; the last one's stop is its length."""
        ...

    def init(self, key: int) -> FloatArray:
        """Return the parameters (P,) training starts from."""
        ...

    def predict(self, models: FloatArray, inputs: FloatArray) -> FloatArray:
        """Return predictions."""
        ...

    def gradient(self, models: FloatArray, inputs: FloatArray, targets: FloatArray) -> FloatArray:
        """Return the gradient of half the mean squared error."""
        ...


@dataclass(frozen=True, slots=True)
class Uploads:
    """What the server received in one round: who sent which value for which coordinate.

    Ragged and packed: client i sent `values[offsets[i]:offsets[i+1]]`, each standing for the coordinate at the
    same place of `coordinates`. A bare matrix could not tell "not shared" from zero.
    """

    client_ids: IntArray
    values: FloatArray
    coordinates: IntArray
    offsets: IntArray
    previous: FloatArray

    @classmethod
    def from_dense(cls, client_ids: IntArray, rows: FloatArray, sent: BoolArray, previous: FloatArray) -> Uploads:
        """Pack the rows (n, D) at the coordinates where `sent` (n, D) is True."""
        offsets = np.concatenate(([0], np.cumsum(sent.sum(axis=1))))
        return cls(np.asarray(client_ids), rows[sent], np.nonzero(sent)[1], offsets, previous)

    def __len__(self) -> int:
        """Return the number of clients that sent something."""
        return len(self.client_ids)

    @property
    def whole(self) -> bool:
        """Return whether everybody sent every coordinate, in order: then `values` are the rows, one after another."""
        n, dimension = len(self.client_ids), self.previous.shape[-1]
        if len(self.values) != n * dimension or not n:
            return False
        return bool((self.coordinates.reshape(n, dimension) == np.arange(dimension)).all())

    def dense(self) -> tuple[FloatArray, BoolArray]:
        """Return `(rows, sent)`, both (n, D): rows hold the previous model where nothing was sent."""
        n, dimension = len(self.client_ids), self.previous.shape[-1]
        owner = np.repeat(np.arange(n), np.diff(self.offsets))
        sent = np.zeros((n, dimension), dtype=np.bool_)
        sent[owner, self.coordinates] = True
        rows = np.broadcast_to(self.previous, (n, dimension)).copy()
        rows[owner, self.coordinates] = self.values
        return rows, sent

    def select(self, keep: BoolArray) -> Uploads:
        """Return the uploads of the clients where `keep` is True."""
        owner = np.repeat(np.arange(len(self.client_ids)), np.diff(self.offsets))
        entry = keep[owner]
        offsets = np.concatenate(([0], np.cumsum(np.diff(self.offsets)[keep])))
        return Uploads(self.client_ids[keep], self.values[entry], self.coordinates[entry], offsets, self.previous)


class LeftOut(NamedTuple):
    """One client that a rule with memory left out: when, and why. None: not known, or no finite number."""

    client: int
    byzantine: bool | None  # which nobody knows outside a simulation
    now: bool  # is it left out at the end?
    first_round: int
    times: int  # at how many of the looks
    looks: int
    distance: float | None
    limit: float | None
    aligned: float | None

    @property
    def reason(self) -> str:
        """Return it as a sentence."""

        def told(value: float | None, text: str) -> str:
            return "" if value is None else text.format(f"{value:.3g}")

        return (
            f"client {self.client}: {'left out' if self.now else 'back in'}; its averaged uploads lie "
            + (told(self.distance, "{} times as far from the others' as usual") or "at no distance that can be told")
            + told(self.limit, ", limit {}")
            + told(self.aligned, ", and {} spreads out in the direction most rows share")
            + f"; left out at {self.times} of {self.looks} looks, first in round {self.first_round}"
        )


class Ledger(NamedTuple):
    """What a rule with memory holds against clients, one entry each: who is left out, since when, and why."""

    client_ids: IntArray
    excluded: BoolArray  # is it left out now?
    distance: FloatArray  # how far from the others, 1 being usual; nan: it never sent anything
    limit: float  # the distance beyond which it is left out
    aligned: FloatArray  # how far out it lies in the direction that most rows share, in spreads; nan: not judged
    first_excluded: IntArray  # the first round it was left out in, 0: never
    times_excluded: IntArray  # at how many looks it was
    looks: int

    def spread(self, num_clients: int) -> Ledger:
        """Return the same with an entry for each of the clients 0..num_clients-1."""

        def wide(values: Any, empty: Any) -> Any:
            found = np.full(num_clients, empty, dtype=np.asarray(values).dtype)
            found[self.client_ids] = values
            return found

        return Ledger(
            np.arange(num_clients), wide(self.excluded, False), wide(self.distance, np.nan), self.limit,
            wide(self.aligned, np.nan), wide(self.first_excluded, 0), wide(self.times_excluded, 0), self.looks,
        )  # fmt: skip

    def suspicion(self) -> dict[int | str, float]:
        """Return how suspect each client is: evidence for calibration's filters, infinite for whoever is left out now.

        For the others it is the larger of log distance, in 1.4826 MADs from the median, and alignment. Clients that
        sent nothing are not named; before the first look nobody is.
        """
        sent = np.isfinite(self.distance)
        if not sent.any():
            return {}
        logs = np.log(np.maximum(self.distance[sent], np.finfo(np.float64).tiny))
        beyond = logs - np.median(logs)
        spread = NORMAL * float(np.median(np.abs(beyond)))
        far = beyond / spread if spread > 0 else np.zeros(len(beyond))
        worst = np.where(self.excluded[sent], np.inf, np.fmax(far, self.aligned[sent]))  # nan: not judged
        return dict(zip(self.client_ids[sent].tolist(), worst.tolist(), strict=True))

    def left_out(self, byzantine: BoolArray | None = None) -> tuple[LeftOut, ...]:
        """Return an entry for each client that was ever left out; `byzantine` (of all ids) says which of them lied."""

        def finite(value: float) -> float | None:
            return float(value) if np.isfinite(value) else None

        return tuple(
            LeftOut(
                client=int(self.client_ids[k]),
                byzantine=None if byzantine is None else bool(byzantine[self.client_ids[k]]),
                now=bool(self.excluded[k]),
                first_round=int(self.first_excluded[k]),
                times=int(self.times_excluded[k]),
                looks=self.looks,
                distance=finite(self.distance[k]),
                limit=finite(self.limit),
                aligned=finite(self.aligned[k]),
            )
            for k in np.flatnonzero(self.times_excluded)
        )

    def reasons(self) -> dict[int, str]:
        """Return a sentence for each client that was ever left out."""
        return {entry.client: entry.reason for entry in self.left_out()}


class RuleInfo(NamedTuple):
    """What a rule tells about one round; never needed by its next step."""

    refused: dict[int, str]  # client id -> why its upload was not used
    selected: tuple[int, ...] = ()  # client ids a selecting rule kept
    weakened: str | None = None  # why the rule could not do all it promises: fewer uploads than its settings need
    ledger: Ledger | None = None  # of a rule that remembers clients


class Rule(NamedTuple):
    """An aggregation rule: `init(dimension) -> state`, `step(state, uploads, rng) -> (state, model, info)`.

    `step` is pure: the state holds what the next step needs, diagnostics go into info. `check(num_uploads)` raises
    `SettingError` when the rule's settings cannot stand that many uploads. A rule that says it does not use `rng` is
    handed None: a generator for each round and arm costs a tenth of the round. One that `remembers` clients knows them
    by id from round to round.
    """

    name: str
    init: Callable[[int], Any]
    step: Callable[[Any, Uploads, np.random.Generator], tuple[Any, FloatArray, RuleInfo]]
    check: Callable[[int], None] = lambda num_uploads: None
    uses_rng: bool = True
    remembers: bool = False


SEES: Final = ("honest", "masks", "normals", "truth")


@dataclass(frozen=True, slots=True)
class AttackView:
    """What an update attacker is handed. An attack declares in `sees` which optional parts it is given."""

    round: int
    client_ids: IntArray  # the attackers that act in this round (b,)
    own: FloatArray  # their clean local models (b, D)
    previous: FloatArray  # the global model they received it from (D,)
    rule: Choice  # the aggregation rule in force
    normals: FloatArray | None = None  # "normals": (b, D) standard normals of this (client, round), its randomness
    honest: FloatArray | None = None  # "honest": full local models of the honest participants (h, D)
    honest_ids: IntArray | None = None  # "honest": who they are (h,)
    masks: BoolArray | None = None  # "masks": the attackers' upload masks (b, D)
    honest_masks: BoolArray | None = None  # "masks": the honest participants' (h, D)
    truth: FloatArray | None = None  # "truth": the true model (D,), which no real attacker knows


@dataclass(frozen=True, slots=True)
class UpdateAttack:
    """A training attack: with `probability` a selected Byzantine client uploads `forge(view)`, masked.

    One on the data multiplies the targets that Byzantine clients learn from by `target_factor`, in every round.
    """

    name: str
    probability: float
    sees: frozenset[str]  # subset of `SEES`
    forge: Callable[[AttackView], FloatArray]
    target_factor: float = 1.0

    def __post_init__(self) -> None:
        """Refuse what is no probability, and a part of the view that does not exist."""
        if not 0 <= self.probability <= 1:
            raise SettingError(f"{self.name} attack: probability={self.probability}; must lie in [0, 1]")
        for part in self.sees:
            if part not in SEES:
                raise SettingError(f"{self.name} attack: sees unknown part {part!r}{did_you_mean(part, SEES)}")


@dataclass(frozen=True, slots=True)
class Verdict:
    """A calibration filter's judgement, one entry per client in the order given."""

    weights: FloatArray  # 1 kept, 0 left out, between: down-weighted
    scores: FloatArray  # maliciousness, larger is worse
    threshold: float  # the score at which weight is lost; nan where the rule has none
    reasons: tuple[str, ...]  # one sentence per client

    @property
    def kept(self) -> BoolArray:
        """Return which clients still count."""
        return np.asarray(self.weights > 0)
