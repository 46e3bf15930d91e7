"""A project is a TOML file whose `data` is a table's path: what to predict, who holds which rows, how to train.

It becomes an experiment, so that the same checks, words and defaults hold; the experiment's trials are the drill, and
its first method is what is trained in earnest.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from prism_fcp.calibrate.filter import FILTERS
from prism_fcp.calibrate.names import check_name
from prism_fcp.calibrate.quantile import Level
from prism_fcp.calibrate.spec import level_text
from prism_fcp.data.partition import LEAST, Rows
from prism_fcp.errors import DataError, PrismError, SettingError, counted
from prism_fcp.exchange.document import DEFAULT_FILTER
from prism_fcp.io import read_toml
from prism_fcp.lab import checks, plugins
from prism_fcp.lab.spec import Experiment, parse, table_data
from prism_fcp.lab.typed import build, check_keys, choice, convert, plain, shown
from prism_fcp.own.choose import CHOOSABLE, Chosen, choose_training
from prism_fcp.tables import Prepared, TableData
from prism_fcp.types import Choice

_ABOUT: Final = ("name", "title", "seed", "plugins")
_COLUMNS: Final = ("data", "target", "client", "drop", "standardise", "calibration_share", "test_share")
_TABLES: Final = ("partition", "model", "training", "calibration", "drill")
_METHOD: Final = ("share", "num_shared", "layers", "coordination", "download", "rule")
_TRAINING: Final = (*CHOOSABLE, "momentum", "idle_learning", *_METHOD)
SHARE: Final = 0.25  # of a client's rows: for calibration, and again for the test
BINS: Final = 40  # of the drill's histograms, as many as a filter compares in earnest
ATTACKS: Final = ("efficiency", "coverage", "random")


@dataclass(frozen=True, kw_only=True, slots=True)
class Calibrating:
    """What `[calibration]` says: levels, who judges, and which share of liars the radii shall allow for."""

    levels: tuple[str, ...] = ("0.9",)
    filter: Choice = field(default_factory=lambda: Choice(DEFAULT_FILTER))
    guard: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Drill:
    """What `[drill]` says: how many of the clients are played as attackers, how often, and how they attack."""

    num_byzantine: int = 0  # 0: no drill
    trials: int = 20
    attacks: tuple[Choice, ...] = tuple(Choice(name) for name in ATTACKS)
    training_attack: Choice = field(default_factory=lambda: Choice("gaussian"))


@dataclass(frozen=True, kw_only=True)
class Project:
    """A project, checked, its table read and dealt."""

    where: str
    title: str
    table: TableData
    ready: Prepared
    clients: tuple[str, ...]
    held: list[Rows]
    calibration: Calibrating
    drill: Drill
    chosen: Chosen  # what the file left open, and why it is so
    experiment: Experiment  # the drill; its first method and federation are what is trained in earnest

    @property
    def name(self) -> str:
        """Return the name of the folder that takes the results."""
        return self.experiment.name.removesuffix(DRILL)

    @property
    def settings(self) -> dict[str, Any]:
        """Return every setting, defaults written out."""
        told = {key: value for key, value in self.experiment.resolved.items() if key not in ("name", "title")}
        return {**told, "title": self.title, "levels": list(self.calibration.levels), "guard": self.calibration.guard}

    @property
    def fingerprint(self) -> str:
        """Return a hash of the settings that decide what is trained and calibrated, the drill's apart."""
        apart = ("trials", "attacks", "explain", "figures")
        told = {key: value for key, value in self.settings.items() if key not in apart}
        return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:16]


DRILL: Final = " drill"


def is_project(document: Mapping[str, Any]) -> bool:
    """Tell a project from an experiment, whose `data` is a table of settings."""
    return not isinstance(document.get("data", {}), Mapping) or "target" in document


def load(path: Path) -> Project:
    """Read and check a project, and the table it names."""
    return read(read_toml(path), str(path))


def read(document: Mapping[str, Any], where: str) -> Project:
    """Check a project's dictionary; `where` opens every message."""
    check_keys(document, (*_ABOUT, *_COLUMNS, *_TABLES), where)
    for key in ("data", "target"):
        if not convert(document.get(key, ""), str, f"{where}: {key}"):
            raise SettingError(f'{where}: {key} is missing; write {key} = "..."{_HINTS[key]}')
    name = convert(document.get("name", Path(where).stem), str, f"{where}: name")
    checks.name(name, where)
    own = convert(document.get("plugins", []), tuple[str, ...], f"{where}: plugins")
    plugins.load(own, where)
    table, wanted = _table(document, where)
    held_by = _num_clients(table, wanted, where)
    held = _naming(lambda: table.deal(held_by, None, _key(document)), where)
    clients = tuple(table.client_names(held_by))
    for client in clients:
        _naming(lambda client=client: check_name(client), where)
    calibrating = _calibrating(document, where)
    training = _section(document, "training", where)
    check_keys(training, _TRAINING, f"{where} [training]")
    drill = _drill(document, held_by, where)
    drawn, ready, rows = table.whole_clients(held_by, 0, _key_seed(document), 0)
    chosen = choose_training(drawn, {key: training[key] for key in CHOOSABLE if key in training})
    share = {} if {"share", "num_shared"} & set(training) else {"share": chosen.share}
    told: dict[str, Any] = {
        "name": f"{name}{DRILL}",
        "title": f"Had {drill.num_byzantine} of {held_by} clients been compromised",
        "plugins": list(own),
        "trials": max(1, drill.trials),
        "seed": document.get("seed", 1),
        "data": {**plain(table)},
        "federation": {
            "num_clients": held_by, "num_byzantine": drill.num_byzantine,
            "attack": plain(drill.training_attack), **chosen.settings,
            **{key: training[key] for key in ("momentum", "idle_learning") if key in training},
        },
        "calibration": {
            "confidence_level": float(calibrating.levels[0]), "bins": BINS, "beyond_range": "exact",
            "samples": max(len(own[1]) for own in rows), "test_samples": max(len(own[2]) for own in rows),
        },
        "attacks": [plain(attack) for attack in drill.attacks],
        "methods": _methods({**share, **{key: training[key] for key in _METHOD if key in training}}, calibrating),
    }  # fmt: skip
    experiment = _renamed(lambda: parse(told, where))
    title = convert(document.get("title", f"{table.target} of {Path(table.name).name}"), str, f"{where}: title")
    return Project(
        where=where, title=title, table=table, ready=ready, clients=clients, held=held, calibration=calibrating,
        drill=drill, chosen=chosen, experiment=experiment,
    )  # fmt: skip


_HINTS: Final = {"data": ", a CSV, TSV, Parquet or npz file", "target": ", the column to predict"}


def _table(document: Mapping[str, Any], where: str) -> tuple[TableData, int]:
    """Return which table this is and who holds what; and how many clients are asked for, 0 where nobody says."""
    partition = _section(document, "partition", where)
    if "partition" not in document and not document.get("client"):
        raise SettingError(
            f'{where}: whose row is which? Name the column that says so, client = "...", or let rows be dealt: '
            'partition = { name = "iid", clients = 10 }'
        )
    wanted = convert(partition.pop("clients", 0), int, f"{where} [partition]: clients")
    partition.setdefault("name", "column" if document.get("client") else "dirichlet")
    if document.get("client") and partition["name"] != "column":
        raise SettingError(
            f"{where}: client = {document['client']!r} and partition {partition['name']!r} both say who holds what; "
            "leave one of them out"
        )
    if partition["name"] == "dirichlet":
        partition.setdefault("overlap", False)
    dropped = convert(document.get("drop", []), tuple[str, ...], f"{where}: drop")
    for key in ("client", "target"):
        if document.get(key) in dropped:
            raise SettingError(f"{where}: {key} = {document[key]!r} stands in drop too; leave it out there")
    if document.get("client") == document["target"]:
        raise SettingError(f"{where}: client and target are both {document['target']!r}; name two columns")
    told = {key: document[key] for key in _COLUMNS[1:] if key in document}
    defaults = {"standardise": "federated", "calibration_share": SHARE, "test_share": SHARE}
    table = {**defaults, **told, "name": document["data"], "partition": partition}
    if "model" in document:
        table["model"] = document["model"]
    if not Path(document["data"]).suffix:
        raise SettingError(f"{where}: data = {document['data']!r} names no kind of file; a CSV, TSV, Parquet or npz")
    return _renamed(lambda: table_data({"data": table}, where)), wanted


def _num_clients(table: TableData, wanted: int, where: str) -> int:
    rows, names = _naming(lambda: _read(table), where)
    if table.partition.name == "column":
        if wanted and wanted != len(names):
            raise SettingError(f"{where} [partition]: clients = {wanted}, but {len(names)} are named; leave it out")
        wanted = len(names)
    elif not wanted:
        raise SettingError(f"{where} [partition]: clients is missing; say how many shall hold rows: clients = 10")
    if wanted < 2:
        raise SettingError(f"{where}: {counted(wanted, 'client')}; at least 2 are needed for a federation")
    if LEAST * wanted > rows and table.partition.name != "column":  # which client it is, is told when rows are dealt
        raise DataError(
            f"{where}: {wanted} clients for {rows} rows; at least {LEAST} rows a client are needed to train, "
            "calibrate and test: take fewer clients"
        )
    return wanted


def _read(table: TableData) -> tuple[int, set[str]]:
    from prism_fcp.tables import prepare

    found = prepare(table).table
    return len(found.target), set() if found.owners is None else {str(name) for name in found.owners}


def _calibrating(document: Mapping[str, Any], where: str) -> Calibrating:
    table, at = _section(document, "calibration", where), f"{where} [calibration]"
    levels = table.get("levels", ["0.9"])
    if not isinstance(levels, list) or not levels:
        raise SettingError(f"{at}: levels = {shown(levels)}; must be a list such as [0.9, 0.95]")
    table["levels"] = [_level(level, at) for level in levels]
    if "guard" in table:
        table["guard"] = _level(table["guard"], f"{at}: guard")
    table["filter"] = choice(table.get("filter", DEFAULT_FILTER), FILTERS, "filter", f"{at}: filter")
    made: Calibrating = build(Calibrating, table, at)
    return made


def _level(level: Level, at: str) -> str:
    try:
        return level_text(level)
    except SettingError as error:
        raise SettingError(f"{at}: {error}") from error


def _drill(document: Mapping[str, Any], clients: int, where: str) -> Drill:
    """Read `[drill]`, or `drill = false`; a fifth of the clients attack unless told otherwise."""
    wanted = document.get("drill", {})
    table, at = {} if isinstance(wanted, bool) else _section(document, "drill", where), f"{where} [drill]"
    off = wanted is False or (clients < 3 and "num_byzantine" not in table)  # of two clients nobody is the majority
    none = Drill(num_byzantine=0, trials=0, training_attack=Choice("none"))
    rows = table.pop("attacks", list(ATTACKS))
    made: Drill = build(Drill, {"num_byzantine": max(1, clients // 5), **table}, at)
    if off:
        return none
    if not 0 <= made.num_byzantine < clients / 2:
        raise SettingError(
            f"{at}: num_byzantine = {made.num_byzantine}; must be less than half of the {clients} clients"
        )
    if made.trials < 0 or not isinstance(rows, list):
        raise SettingError(f"{at}: trials = {made.trials}; must be 0 (no drill) or more, and attacks a list")
    attacks = tuple(convert(row, Choice, f"{at}: attacks") for row in rows)
    if made.trials == 0 or made.num_byzantine == 0:
        return none
    return Drill(
        num_byzantine=made.num_byzantine, trials=made.trials, attacks=attacks, training_attack=made.training_attack
    )


def _methods(own: Mapping[str, Any], calibrating: Calibrating) -> list[dict[str, Any]]:
    """Return the project's own protocol, the undefended one, clients alone, and one centre with all honest rows."""
    judged = {"filter": plain(calibrating.filter)}
    return [
        {"method": "PRISM-FCP", "variant": "yours", "scoring_model": "global", **own, **judged},
        {"method": "FCP", "variant": "undefended", "scoring_model": "global", "filter": "keep_all"},
        {"method": "Local", "training": "local", **judged},
        {"method": "Floor", "training": "oracle", **judged},
    ]


def _section(document: Mapping[str, Any], key: str, where: str) -> dict[str, Any]:
    table = document.get(key, {})
    if key == "partition" and isinstance(table, str):
        return {"name": table}
    if not isinstance(table, Mapping):
        raise SettingError(f"{where}: {key} = {shown(table)}; must be a table: write [{key}] above its keys")
    return dict(table)


def _key_seed(document: Mapping[str, Any]) -> int:
    seed = document.get("seed", 1)
    checks.seed(seed)
    return int(seed)


def _key(document: Mapping[str, Any]) -> int:
    from prism_fcp import streams

    return streams.key(_key_seed(document))


def _naming(task: Any, where: str) -> Any:
    """Run a task whose errors name no file, and name the project's."""
    try:
        return task()
    except PrismError as error:
        raise type(error)(f"{where}: {error}") from error


def _renamed(task: Any) -> Any:
    """Run a task whose errors speak of an experiment's tables, and let them speak of a project's."""
    try:
        return task()
    except PrismError as error:
        told = (
            str(error).replace("[federation]", "[training]").replace(" [data]: name", ": data").replace(" [data]", "")
        )
        for number in (1, 2, 3, 4):
            told = told.replace(f"[[methods]] {number}", "[training]")
        raise type(error)(told) from error
