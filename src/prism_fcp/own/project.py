"""A project is a TOML file whose `data` is a table's path: what to predict, who holds which rows, how to train.

It becomes an experiment, so that the same checks, words and defaults hold; the experiment's trials are the drill, and
its first method is what is trained in earnest.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from prism_fcp.calibrate.names import check_name
from prism_fcp.data.clients import ClientData
from prism_fcp.data.partition import Rows
from prism_fcp.errors import SettingError
from prism_fcp.lab import checks, plugins
from prism_fcp.lab.spec import Experiment, parse
from prism_fcp.lab.typed import check_keys, convert, plain
from prism_fcp.own.choose import CHOOSABLE, Chosen, choose_training
from prism_fcp.own.sections import (
    COLUMNS,
    Calibrating,
    Drill,
    calibrating,
    drill,
    in_project_words,
    naming,
    read_table,
    section,
)
from prism_fcp.tables import Prepared, TableData

ABOUT: Final = ("name", "title", "seed", "plugins")
TABLES: Final = ("partition", "model", "training", "calibration", "drill")
METHOD: Final = ("share", "num_shared", "layers", "coordination", "download", "rule")
LOCAL: Final = ("momentum", "idle_learning")
TRAINING: Final = (*CHOOSABLE, *LOCAL, *METHOD)
BINS: Final = 40  # of the drill's histograms, as many as a filter compares in earnest


@dataclass(frozen=True, kw_only=True)
class Project:
    """A project, checked, its table read and dealt."""

    name: str
    title: str
    where: str  # the file
    table: TableData
    clients: tuple[str, ...]
    drawn: ClientData  # the clients in earnest: nobody attacks
    ready: Prepared
    rows: list[tuple[Rows, Rows, Rows]]  # what each trains on, calibrates with and is tested on
    calibration: Calibrating
    drill: Drill
    chosen: Chosen  # what the file left open
    experiment: Experiment  # the drill; its first method and federation are what is trained in earnest

    @property
    def held(self) -> list[int]:
        """Return how many rows each client holds."""
        return [sum(map(len, own)) for own in self.rows]

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


def is_project(document: Mapping[str, Any]) -> bool:
    """Tell a project from an experiment, whose `data` is a table of settings."""
    return not isinstance(document.get("data", {}), Mapping) or "target" in document


def read(document: Mapping[str, Any], where: str) -> Project:
    """Check a project's dictionary, and read and deal the table it names; `where` opens every message."""
    check_keys(document, (*ABOUT, *COLUMNS, *TABLES), where)
    for key, hint in (("data", "a CSV, TSV, Parquet or npz file"), ("target", "the column to predict")):
        if not convert(document.get(key, ""), str, f"{where}: {key}"):
            raise SettingError(f'{where}: {key} is missing; write {key} = "...", {hint}')
    name = convert(document.get("name", Path(where).stem), str, f"{where}: name")
    checks.name(name, where)
    seed = document.get("seed", 1)
    with naming(where):
        checks.seed(seed)
    training = section(document, "training", where)
    check_keys(training, TRAINING, f"{where} [training]")
    plugins.load(convert(document.get("plugins", []), tuple[str, ...], f"{where}: plugins"), where)
    table, count = read_table(document, where)
    with naming(where):
        drawn, ready, rows = table.whole_clients(count, 0, seed, 0)
        clients = tuple(map(check_name, table.client_names(count)))
    judging, drilled = calibrating(document, clients, where), drill(document, count, where)
    chosen = choose_training(drawn, {key: training[key] for key in CHOOSABLE if key in training})
    if not {"share", "num_shared"} & set(training):
        training["share"] = chosen.share
    with in_project_words():
        experiment = parse(_experiment(document, name, table, rows, judging, drilled, chosen, training), where)
    title = convert(document.get("title", f"{table.target} of {Path(table.name).name}"), str, f"{where}: title")
    return Project(
        name=name, title=title, where=where, table=table, clients=clients, drawn=drawn, ready=ready, rows=rows,
        calibration=judging, drill=drilled, chosen=chosen, experiment=experiment,
    )  # fmt: skip


def _experiment(
    document: Mapping[str, Any],
    name: str,
    table: TableData,
    rows: list[tuple[Rows, Rows, Rows]],
    judging: Calibrating,
    drilled: Drill,
    chosen: Chosen,
    training: Mapping[str, Any],
) -> dict[str, Any]:
    """Return the drill as an experiment file would say it."""
    told = {
        "name": f"{name} drill",
        "title": f"Had {drilled.num_byzantine} of {len(rows)} clients been compromised",
        "trials": max(1, drilled.trials),
        "data": plain(table),
        "federation": {
            "num_clients": len(rows), "num_byzantine": drilled.num_byzantine,
            "attack": plain(drilled.training_attack), **chosen.settings,
            **{key: training[key] for key in LOCAL if key in training},
        },
        "calibration": {
            "confidence_level": float(judging.levels[0]), "bins": BINS, "beyond_range": "exact",
            "samples": max(len(own[1]) for own in rows), "test_samples": max(len(own[2]) for own in rows),
        },
        "attacks": [plain(attack) for attack in drilled.attacks],
        "methods": _methods({key: training[key] for key in METHOD if key in training}, judging),
    }  # fmt: skip
    return told | {key: document[key] for key in ("seed", "plugins") if key in document}


def _methods(own: Mapping[str, Any], judging: Calibrating) -> list[dict[str, Any]]:
    """Return the project's own protocol, the undefended one, clients alone, and one centre with all honest rows."""
    judged = {"filter": plain(judging.filter)}
    return [
        {"method": "PRISM-FCP", "variant": "yours", "scoring_model": "global", **own, **judged},
        {"method": "FCP", "variant": "undefended", "scoring_model": "global", "filter": "keep_all"},
        {"method": "Local", "training": "local", **judged},
        {"method": "Floor", "training": "oracle", **judged},
    ]
