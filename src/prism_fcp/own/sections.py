"""The tables of a project file: who holds what, how to calibrate, how to drill. Each key is checked where it stands."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np

from prism_fcp.calibrate.filter import FILTERS
from prism_fcp.calibrate.judgement import FilterContext
from prism_fcp.calibrate.quantile import Level
from prism_fcp.calibrate.spec import level_text
from prism_fcp.data.partition import LEAST
from prism_fcp.errors import DataError, PrismError, SettingError, counted
from prism_fcp.exchange.document import DEFAULT_FILTER
from prism_fcp.lab.spec import table_data
from prism_fcp.lab.typed import build, choice, convert, shown
from prism_fcp.tables import TableData, prepare
from prism_fcp.types import Choice

COLUMNS: Final = ("data", "target", "client", "drop", "standardise", "calibration_share", "test_share")
SHARE: Final = 0.25  # of a client's rows: for calibration, and again for the test
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


NO_DRILL: Final = Drill(trials=0, training_attack=Choice("none"))


def section(document: Mapping[str, Any], key: str, where: str) -> dict[str, Any]:
    """Return one of the file's tables, empty where it is not there; a bare name will do for a choice."""
    table = document.get(key, {})
    if key == "partition" and isinstance(table, str):
        return {"name": table}
    if not isinstance(table, Mapping):
        raise SettingError(f"{where}: {key} = {shown(table)}; must be a table: write [{key}] above its keys")
    return dict(table)


def read_table(document: Mapping[str, Any], where: str) -> tuple[TableData, int]:
    """Return which table this is and how many clients hold its rows."""
    partition = section(document, "partition", where)
    client = document.get("client", "")
    if "partition" not in document and not client:
        raise SettingError(
            f'{where}: whose row is which? Name the column that says so, client = "...", or let rows be dealt: '
            'partition = { name = "iid", clients = 10 }'
        )
    wanted = convert(partition.pop("clients", 0), int, f"{where} [partition]: clients")
    partition.setdefault("name", "column" if client else "dirichlet")
    if client and partition["name"] != "column":
        raise SettingError(
            f"{where}: client = {client!r} and partition {partition['name']!r} both say who holds what; leave one of "
            "them out"
        )
    if partition["name"] == "dirichlet":
        partition.setdefault("overlap", False)
    dropped = convert(document.get("drop", []), tuple[str, ...], f"{where}: drop")
    for key in ("client", "target"):
        if document.get(key) in dropped:
            raise SettingError(f"{where}: {key} = {document[key]!r} stands in drop too; leave it out there")
    if client == document["target"]:
        raise SettingError(f"{where}: client and target are both {client!r}; name two columns")
    if not Path(document["data"]).suffix:
        raise SettingError(f"{where}: data = {document['data']!r} names no kind of file; a CSV, TSV, Parquet or npz")
    table = {
        "standardise": "federated", "calibration_share": SHARE, "test_share": SHARE,
        **{key: document[key] for key in (*COLUMNS[1:], "model") if key in document},
        "name": document["data"], "partition": partition,
    }  # fmt: skip
    with in_project_words():
        made = table_data({"data": table}, where)
    return made, _num_clients(made, wanted, where)


def _num_clients(table: TableData, wanted: int, where: str) -> int:
    with naming(where):
        found = prepare(table).table
    rows = len(found.target)
    if table.partition.name == "column" and found.owners is not None:
        named = len(np.unique(found.owners))
        if wanted not in (0, named):
            raise SettingError(f"{where} [partition]: clients = {wanted}, but {named} are named; leave it out")
        wanted = named
    elif not wanted:
        raise SettingError(f"{where} [partition]: clients is missing; say how many shall hold rows: clients = 10")
    elif LEAST * wanted > rows:
        raise DataError(
            f"{where}: {wanted} clients for {rows} rows; at least {LEAST} rows a client are needed to train, calibrate "
            "and test: take fewer clients"
        )
    if wanted < 2:
        raise SettingError(f"{where}: {counted(wanted, 'client')}; at least 2 are needed for a federation")
    return wanted


def calibrating(document: Mapping[str, Any], clients: tuple[str, ...], where: str) -> Calibrating:
    """Read `[calibration]`; a filter that cannot judge these clients is refused before anything is trained."""
    table, at = section(document, "calibration", where), f"{where} [calibration]"
    levels = table.get("levels", ["0.9"])
    if not isinstance(levels, list) or not levels:
        raise SettingError(f"{at}: levels = {shown(levels)}; must be a list such as [0.9, 0.95]")
    with naming(at):
        table["levels"] = [level_text(level) for level in levels]
    if "guard" in table:
        with naming(f"{at}: guard"):
            table["guard"] = level_text(_number(table["guard"]))
    table["filter"] = choice(table.get("filter", DEFAULT_FILTER), FILTERS, "filter", f"{at}: filter")
    made: Calibrating = build(Calibrating, table, at)
    with naming(at):
        shares = np.full((len(clients), 2), 0.5)
        made.filter.build(FILTERS, "filter").weigh(shares, np.full(len(clients), 100), FilterContext(clients))
    return made


def drill(document: Mapping[str, Any], clients: int, where: str) -> Drill:
    """Read `[drill]`, or `drill = false`; a fifth of the clients attack unless told otherwise."""
    wanted = document.get("drill", {})
    table, at = {} if isinstance(wanted, bool) else section(document, "drill", where), f"{where} [drill]"
    off = wanted is False or (clients < 3 and "num_byzantine" not in table)  # of two clients nobody is the majority
    rows = table.pop("attacks", list(ATTACKS))
    if not isinstance(rows, list):
        raise SettingError(f"{at}: attacks = {shown(rows)}; must be a list such as {list(ATTACKS)}")
    attacks = tuple(convert(row, Choice, f"{at}: attacks") for row in rows)
    made: Drill = build(Drill, {"num_byzantine": max(1, clients // 5), **table, "attacks": attacks}, at)
    if off:
        return NO_DRILL
    if not 0 <= made.num_byzantine < clients / 2:
        raise SettingError(
            f"{at}: num_byzantine = {made.num_byzantine}; must be less than half of the {clients} clients"
        )
    if made.trials < 0:
        raise SettingError(f"{at}: trials = {made.trials}; must be 0 (no drill) or more")
    return made if made.trials and made.num_byzantine else NO_DRILL


@contextmanager
def naming(where: str) -> Iterator[None]:
    """Let errors that name no file name the project's."""
    try:
        yield
    except PrismError as error:
        raise type(error)(f"{where}: {error}") from error


@contextmanager
def in_project_words() -> Iterator[None]:
    """Let errors that speak of an experiment's tables speak of a project's."""
    try:
        yield
    except PrismError as error:
        told = str(error)
        for theirs, ours in _WORDS:
            told = told.replace(theirs, ours)
        raise type(error)(told) from error


_WORDS: Final = (
    ("[federation]", "[training]"), (" [data]: name", ": data"), (" [data]", ""), ("[[methods]] 1 (", "[training] ("),
    ("[[methods]] 1", "[training]"), ("[[attacks]]", "[drill] attacks"),
)  # fmt: skip


def _number(value: Any) -> Level:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise SettingError(f"{shown(value)} is no share; write a number such as 0.05")
    return value
