"""Where a trial's clients come from when they hold rows of a table: which table, who holds what, which model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache, partial
from pathlib import Path
from typing import Final, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from prism_fcp import io, streams
from prism_fcp.data import superconductivity
from prism_fcp.data.clients import ClientData
from prism_fcp.data.friedman import friedman
from prism_fcp.data.partition import PARTITIONERS, Rows, check_sizes
from prism_fcp.data.standardise import Moments, Scaler
from prism_fcp.data.table import Table, read_table
from prism_fcp.errors import DataError, SettingError, did_you_mean, need_number
from prism_fcp.models import MODELS
from prism_fcp.streams import Role
from prism_fcp.types import Choice, FloatArray, Model

Standardise: TypeAlias = Literal["central", "federated"]
SUPERCONDUCTIVITY: Final = "superconductivity"
TWIN: Final = "superconductivity-twin"
FRIEDMAN: Final = "friedman"
NAMED: Final[dict[str, int]] = {SUPERCONDUCTIVITY: 81, TWIN: 81, FRIEDMAN: 10}  # name -> features


class Prepared(NamedTuple):
    """A table in standardised units."""

    features: NDArray[np.float32]
    target: NDArray[np.float32]
    scaler: Scaler  # of the features, and of the target last
    table: Table

    @property
    def scale(self) -> float:
        """Return one standardised unit of the target, in its own."""
        return float(self.scaler.sd[-1])


@dataclass(frozen=True, kw_only=True, slots=True)
class TableData:
    """Clients that hold rows of a table. `samples`: how many each trains on.

    `name` is a data set's name or a file's path; `friedman` is drawn anew for each client and trial. With
    `calibration_share` and `test_share` every client holds the same rows in all trials, all that are dealt to it, and a
    trial cuts them anew into these parts and the training rows.

    Paper: sec:real-world
    """

    name: str = SUPERCONDUCTIVITY
    target: str = ""
    client: str = ""  # the column that names the client, for partition "column"
    drop: tuple[str, ...] = ()  # columns that are no features
    partition: Choice = field(default_factory=lambda: Choice("dirichlet"))
    samples: int = 1000
    calibration_share: float = 0.0
    test_share: float = 0.0
    standardise: Standardise = "central"
    original_units: bool = True  # widths in the target's own unit, not in standard deviations of it
    model: Choice = field(default_factory=lambda: Choice("linear"))

    def __post_init__(self) -> None:
        """Take partition and model by their names."""
        object.__setattr__(self, "partition", Choice.of(self.partition, "partition"))
        object.__setattr__(self, "model", Choice.of(self.model, "model"))

    @property
    def whole(self) -> bool:
        """Return whether clients hold all rows dealt to them, whatever their number."""
        return self.calibration_share > 0 or self.test_share > 0

    def check(self) -> None:
        """Raise `SettingError` for the first setting that cannot work, without reading the data."""
        for name in ("calibration_share", "test_share"):
            need_number(name, getattr(self, name))
        if self.whole:
            self._check_shares()
        need_number("samples", self.samples, integer=True)
        if not 1 <= self.samples <= 10_000_000:
            raise SettingError(f"samples={self.samples}; must lie in 1..10,000,000 training samples a client")
        self.partition.build(PARTITIONERS, "partition")
        if self.name not in NAMED:
            if not self.target:
                raise SettingError(f"data {self.name!r}: target is missing; name the column to predict")
            if not Path(self.name).suffix:  # a misspelt name more likely than a file
                raise SettingError(f"unknown data {self.name!r}{did_you_mean(self.name, NAMED)}; or a file's path")
        if self.partition.name == "column" and not self.client:
            raise SettingError("partition 'column' needs client: the column that names each row's client")
        if self.standardise not in ("central", "federated"):
            raise SettingError(
                f"unknown standardise {self.standardise!r}{did_you_mean(self.standardise, ('central', 'federated'))}"
            )

    def _check_shares(self) -> None:
        parts = (self.calibration_share, self.test_share)
        if not (min(parts) > 0 and sum(parts) < 1):
            raise SettingError(
                f"calibration_share={parts[0]:g}, test_share={parts[1]:g}; both must be positive, and their sum below 1"
            )
        if self.name == FRIEDMAN:
            raise SettingError("friedman is drawn for each client; calibration_share and test_share need a table")
        if self.partition.name == "dirichlet" and self.partition.options.get("overlap", True):
            raise SettingError(
                "partition 'dirichlet': overlap=true gives a row to several clients, so that one trains on what "
                "another is tested on; with calibration_share write overlap = false"
            )

    def learner(self) -> Model:
        """Return the model for this table's features; reads the table where its width is not known beforehand."""
        width = NAMED[self.name] if self.name in NAMED and not self.drop else prepare(self).features.shape[1]
        return _learner(self.model, width, MODELS.get(self.model.name))

    def deal(self, num_clients: int, samples: int | None, key: int) -> list[Rows]:
        """Return the rows of each client; refuse one that has too few, where all are dealt."""
        rng = streams.generator(streams.child(key, Role.PARTITION))
        table = prepare(self).table
        held = self.partition.build(PARTITIONERS, "partition")(table, num_clients, samples, rng)
        if samples is None:
            check_sizes(held, self.client_names(num_clients))
            if len(np.unique(np.concatenate(held))) < sum(map(len, held)):
                raise SettingError(
                    f"partition {self.partition.name!r} gives a row to several clients, so that one trains on what "
                    "another is tested on; give each row one owner"
                )
        return held

    def client_names(self, num_clients: int) -> list[str]:
        """Return what clients are called: as their column says, or by number."""
        if self.partition.name == "column" and (owners := prepare(self).table.owners) is not None:
            return [str(name) for name in np.unique(owners)]
        return [f"client-{place:0{len(str(num_clients))}d}" for place in range(1, num_clients + 1)]

    def cut(self, held: list[Rows], key: int) -> list[tuple[Rows, Rows, Rows]]:
        """Cut each client's rows at random into those it trains on, calibrates with and is tested on."""
        told, names = [], self.client_names(len(held))
        for client, own in enumerate(held):
            mixed = streams.generator(streams.child(key, Role.PARTITION, client)).permutation(own)
            sizes = [max(1, round(share * len(own))) for share in (self.calibration_share, self.test_share)]
            calibration, test, train = np.split(mixed, np.cumsum(sizes))
            if not len(train):
                raise DataError(
                    f"client {names[client]!r}: of its {len(own)} rows {sizes[0]} go to calibration and {sizes[1]} to "
                    "the test, and none is left to train on; lower calibration_share or test_share"
                )
            told.append((train, calibration, test))
        return told

    def whole_clients(
        self, num_clients: int, num_byzantine: int, seed: int, trial: int
    ) -> tuple[ClientData, Prepared, list[tuple[Rows, Rows, Rows]]]:
        """Draw the clients of a trial with all the rows they hold; also the units they train in, and who holds what."""
        key = streams.key(seed, trial)
        rows = self.cut(self.deal(num_clients, None, streams.key(seed)), key)
        ready = prepare(self)
        if self.standardise == "federated":
            ready = _standardised(ready.table, [own[0] for own in rows], self)
        scale = ready.scale if self.original_units else 1.0
        drawn = ClientData.of(key, self.learner(), ready.features, ready.target, rows, num_byzantine, scale)
        return drawn, ready, rows

    def draw(
        self, num_clients: int, num_byzantine: int, seed: int, trial: int, calibration: int, test: int
    ) -> ClientData:
        """Draw one trial's clients."""
        if self.whole:
            return self.whole_clients(num_clients, num_byzantine, seed, trial)[0]
        key, model = streams.key(seed, trial), self.learner()
        each = (self.samples, calibration, test)
        cuts = np.cumsum(each)[:-1]
        if self.name == FRIEDMAN:
            made = friedman(num_clients * sum(each), streams.generator(streams.child(key, Role.SAMPLES)))
            ready = _standardised(made, [np.arange(len(made.target))], self)
            held = np.split(np.arange(len(made.target)), num_clients)
        else:
            ready = prepare(self)
            held = self.deal(num_clients, sum(each), key)
            if self.standardise == "federated":
                ready = _standardised(ready.table, [np.split(own, cuts)[0] for own in held], self)
        rows = [tuple(np.split(own, cuts)) for own in held]
        return ClientData.of(
            key, model, ready.features, ready.target, rows, num_byzantine,  # type: ignore[arg-type]
            ready.scale if self.original_units else 1.0,
        )  # fmt: skip


def origin(data: TableData) -> str:
    """Return which data these are, so that trials of one file are never continued with another's."""
    if data.name in (FRIEDMAN, TWIN):
        return data.name
    path = superconductivity.located() if data.name == SUPERCONDUCTIVITY else Path(data.name)
    return f"{data.name}: {io.file_digest(path)[:16]}"


@lru_cache(maxsize=4)
def prepare(data: TableData) -> Prepared:
    """Read and standardise a table once a process."""
    match data.name:
        case "superconductivity":
            table = superconductivity.load()
        case "superconductivity-twin":
            table = superconductivity.twin()
        case "friedman":
            raise SettingError("friedman is drawn for each trial; there is no table to prepare")
        case path:
            table = read_table(Path(path), data.target, client=data.client or None, drop=data.drop)
    return _standardised(table, [np.arange(len(table.target))], data)


def _standardised(table: Table, parts: list[Rows], data: TableData) -> Prepared:
    """Standardise by the rows of these parts: all of them, or the clients' training rows, added up as sums."""
    columns = np.column_stack([table.features, table.target])
    try:
        told = [Moments.of(columns[own], columns[parts[0]].mean(axis=0)) for own in parts]
        scaler = Scaler.federated(told, constant=data.whole)  # rare values may all lie in test rows
        if scaler.sd[-1] == 1 and np.ptp(columns[np.concatenate(parts), -1]) == 0:
            raise DataError(f"target {table.target_name!r} is constant over all training rows; nothing can be learnt")
    except DataError as error:
        raise DataError(f"{data.name}: {error}") from error
    units: FloatArray = scaler.apply(columns).astype(np.float32)
    return Prepared(units[:, :-1].copy(), units[:, -1].copy(), scaler, table)


def factories(width: int) -> dict[str, Callable[..., Model]]:
    """Return the models' factories with the number of features filled in."""
    return {name: partial(factory, width) for name, factory in MODELS.items()}


@lru_cache(maxsize=16)
def _learner(model: Choice, width: int, factory: Callable[..., Model] | None) -> Model:
    """Build a model once a process: a JAX model made anew would be compiled anew in every trial."""
    return model.build(factories(width), "model")
