"""`federate init`: a project that runs at once, in words a person can change.

Its folder is a Flower app. What the federation agrees on is federation.toml; what a site alone knows is its own file
in sites/, which is no part of the app and is sent nowhere.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from string import Template
from typing import Final

from prism_fcp import io
from prism_fcp.calibrate.names import check_name
from prism_fcp.errors import OutputError, SettingError
from prism_fcp.lab import checks

CLIENTS: Final = ("north", "east", "south", "west")
MOST: Final = 1000
WriteData = Callable[[Path, Sequence[str], int], object]

_PYPROJECT: Final = Template("""\
# The Flower app of this federation. `flwr run .` finds its two halves here.
[project]
name = "$name"
version = "1.0.0"
description = "A federation that trains, calibrates and predicts with intervals"
license = "Apache-2.0"
dependencies = ["prism-fcp[flower]"]

[tool.flwr.app]
publisher = "$package"
fab-include = ["$package/*.py", "federation.toml"] # what is sent to the sites: no data, no keys, no results

[tool.flwr.app.components]
serverapp = "$package.server_app:app"
clientapp = "$package.client_app:app"

[tool.flwr.app.config] # what `flwr run --run-config` may say; empty: as in the project's folder
project = "" # this folder, where the server app runs elsewhere
federation = "" # another federation.toml
folder = "" # where the run's files go; else runs/NAME
trust = "" # a folder of the clients' public keys, for calibration.signed
""")
_FEDERATION: Final = Template("""\
# What this federation agrees on. Everybody is told all of it; nothing secret belongs here.
name = "$name"
clients = [$clients]
target = $target # the column to predict
model = "linear"

[training]
protocol = "default" # masks and rule that resist attackers; "paper": as published; "fedavg": neither
rounds = $rounds
local_steps = 20 # gradient steps a client takes in a round
batch_size = 16
step_size = 0.05
share = 0.3 # of the model's parameters, sent each round

[calibration]
levels = ["0.9"] # of the intervals

[patience]
deadline = 60.0 # seconds a round waits for answers
wait = 300.0 # seconds the clients are waited for before the first round
""")
_SITE: Final = Template("""\
# What $client alone knows. This file stays at the site; its paths are taken from its own folder.
data = $data # CSV, TSV, Parquet or npz
state = "../state" # what the client remembers between rounds
# key = $key # signs its summary; made by: prism-fcp keygen $client -o keys/$client.pem
# score_attack = "efficiency" # a drill: play an attacker, whom the audit page should name
# attack = "sign_flip" # a drill in training: the rule should withstand it; no page need name it
""")
_SERVER: Final = '''\
"""The server's half: rounds, calibration, predictor, audit page, as federation.toml says."""

from prism_fcp.federation import server_app

app = server_app()
'''
_CLIENT: Final = '''\
"""A client's half. For a model of your own, give `client_app` a function that makes your site."""

from prism_fcp.federation import client_app

app = client_app()
'''
_IGNORE: Final = "# What is never committed\n/data/\n/keys/\n/runs/\n/state/\n__pycache__/\n"


@dataclass(frozen=True, slots=True)
class Scaffold:
    """Where a new project lies, what its package is called, and which files were written."""

    folder: Path
    package: str
    files: tuple[Path, ...]


def scaffold(
    folder: Path,
    write_data: WriteData,
    *,
    clients: Sequence[str] = CLIENTS,
    rounds: int = 10,
    target: str = "y",
    seed: int = 1,
) -> Scaffold:
    """Write a project into a new or empty folder; `write_data(folder, clients, seed)` writes the example tables."""
    if not 2 <= len(clients) <= MOST:
        raise SettingError(f"clients: {len(clients)} named; must be 2 to {MOST}")
    for client in clients:
        check_name(client)
        if clients.count(client) > 1:
            raise SettingError(f"clients: {client!r} stands twice; name every client once")
    if rounds < 1:
        raise SettingError(f"rounds={rounds}; must be at least 1")
    if folder.exists() and (not folder.is_dir() or io.listing(folder)):
        raise OutputError(f"{folder} is there already and not empty; choose another folder, nothing is overwritten")
    package = package_name(folder.resolve().name)
    name = package.replace("_", "-")
    checks.name(name, "federation")
    told = {
        "name": name, "package": package, "target": _quoted(target), "rounds": rounds,
        "clients": ", ".join(map(_quoted, clients)),
    }  # fmt: skip
    texts = {
        "pyproject.toml": _PYPROJECT.substitute(told),
        "federation.toml": _FEDERATION.substitute(told),
        ".gitignore": _IGNORE,
        f"{package}/__init__.py": f'"""The Flower app of {name}."""\n',
        f"{package}/server_app.py": _SERVER,
        f"{package}/client_app.py": _CLIENT,
        **{
            f"sites/{client}.toml": _SITE.substitute(
                client=client, data=_quoted(f"../data/{client}.csv"), key=_quoted(f"../keys/{client}.pem")
            )
            for client in clients
        },
    }
    for place, text in texts.items():
        io.write_text(folder / place, text, "choose another folder")
    write_data(folder / "data", clients, seed)
    return Scaffold(folder, package, tuple(folder / place for place in texts))


def package_name(name: str) -> str:
    """Return a name for the app's package that Python can import and that hides no other package.

    >>> package_name("My federation"), package_name("json"), package_name("2026")
    ('my_federation', 'json_app', 'app_2026')
    """
    word = re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_") or "federation_app"
    word = word if word[0].isalpha() else f"app_{word}"
    spec = find_spec(word)  # without an origin it is a mere folder, such as the new one
    taken = word in sys.stdlib_module_names or (spec is not None and spec.origin is not None)
    return f"{word[:40]}_app" if taken else word[:40]


def _quoted(text: str) -> str:
    """Return text as TOML writes it."""
    return json.dumps(text, ensure_ascii=False)
