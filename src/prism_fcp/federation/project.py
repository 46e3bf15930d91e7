"""A project's folder: federation.toml, and for each site a file sites/NAME.toml that says where its rows lie.

A SuperNode is told its client and its site's file; in a simulation, where Flower numbers its nodes, the agreement's
order says who is who.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from flwr.app import Context

from prism_fcp import io
from prism_fcp.errors import SettingError
from prism_fcp.federation.agreement import Agreement, Common
from prism_fcp.federation.drill import Drill
from prism_fcp.federation.site import Site
from prism_fcp.federation.sites import table_site
from prism_fcp.federation.sites.file import SiteFile

AGREEMENT: Final = "federation.toml"
SITES: Final = "sites"
STATE: Final = "state"
FOLDER: Final = "PRISM_FCP_PROJECT"  # the environment variable that names the folder where nothing else does


def folder_of(context: Context) -> Path:
    """Return the project's folder: the run config's `project`, or PRISM_FCP_PROJECT, or where the process runs."""
    return Path(str(context.run_config.get("project") or os.environ.get(FOLDER) or "."))


def name_of(context: Context) -> str:
    """Return which client this node is."""
    told = context.node_config
    if told.get("client"):
        return str(told["client"])
    if "partition-id" not in told:
        raise SettingError("the node config names no client; start the SuperNode with --node-config 'client=...'")
    named = str(context.run_config.get("federation") or AGREEMENT)
    path = folder_of(context) / named
    place, clients = int(str(told["partition-id"])), _clients(path, path.stat().st_mtime_ns if path.exists() else 0)
    if not 0 <= place < len(clients):
        raise SettingError(
            f"the simulation has a node {place + 1}, and the federation {len(clients)} clients: set "
            f"options.num-supernodes to {len(clients)}"
        )
    return clients[place]


@lru_cache(maxsize=4)
def _clients(path: Path, modified: int) -> tuple[str, ...]:
    """Return the clients an agreement declares; a simulation asks with every message."""
    return Agreement.load(path).clients


def settings_of(name: str, context: Context) -> dict[str, Any]:
    """Return a site's settings from its file: the node config's `site`, or sites/NAME.toml of the project."""
    named = context.node_config.get("site")
    return read_settings(Path(str(named)) if named else folder_of(context) / SITES / f"{name}.toml", name)


def read_settings(path: Path, name: str) -> dict[str, Any]:
    """Return what a client app must know of a site's file."""
    file = SiteFile.load(path)
    passphrase = None
    if file.passphrase_file is not None:
        passphrase = io.read_text(Path(file.passphrase_file)).split("\n", 1)[0].rstrip("\r")
    folder = Path(file.state) if file.state else path.absolute().parent.parent / STATE
    return {
        "file": file, "state": folder / f"{name}.npz", "key": file.key, "passphrase": passphrase,
        "drill": Drill.of(file.attack, file.score_attack),
    }  # fmt: skip


def file_site(name: str, settings: Mapping[str, Any], agreement: Common) -> Site:
    """Return a site that trains the agreement's model on the rows of its file."""
    if agreement.model is None:
        raise SettingError("the federation's sites bring their own models: give client_app a function that makes one")
    file, told = settings["file"], agreement.training
    rows = file.rows(name, agreement.target)
    return table_site(
        rows, agreement.model, step_size=told.step_size, local_steps=told.local_steps, batch_size=told.batch_size,
        momentum=told.momentum,
    )  # fmt: skip
