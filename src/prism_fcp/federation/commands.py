"""`prism-fcp federate`: what each action does."""

from __future__ import annotations

import os
import shlex
import sys
from argparse import Namespace
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from flwr.app import Context, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import ServerApp

from prism_fcp import io
from prism_fcp.errors import DataError, SettingError
from prism_fcp.exchange.telling import say
from prism_fcp.federation import checkpoint
from prism_fcp.federation.agreement import Agreement
from prism_fcp.federation.conclude import KIND, RESULT
from prism_fcp.federation.conduct import forget
from prism_fcp.federation.deploy.local import run_local
from prism_fcp.federation.events import listening
from prism_fcp.federation.grid import InProcessGrid
from prism_fcp.federation.project import AGREEMENT, FOLDER, SITES
from prism_fcp.federation.scaffold import scaffold
from prism_fcp.federation.showing import outcome, standing
from prism_fcp.federation.sites.example import write_example
from prism_fcp.federation.watching import Watcher

HOW: Final = "run.json"  # how a run was begun, so that it is resumed the same way
HOW_KIND: Final = "federation-run"


def init(options: Namespace) -> int:
    """Write a project."""
    if options.client and options.sites is not None:
        raise SettingError("--client and --sites: name the sites, or say how many")
    names = options.client
    if names is None and options.sites is not None:
        names = [f"site-{k}" for k in range(1, options.sites + 1)]
    kept = {} if names is None else {"clients": names}
    made = scaffold(options.project, write_example, rounds=options.rounds, seed=options.seed, **kept)
    told = [str(path.relative_to(made.folder)) for path in made.files]
    text = (
        f"{made.folder}: {', '.join(sorted({path.split(os.sep)[0] for path in told}))}\n"
        f"next: prism-fcp federate run {shlex.quote(str(options.project))}"
    )
    say(options, text, {"folder": str(made.folder), "package": made.package, "files": told})
    return 0


def run(options: Namespace) -> int:
    """Run a project in this process."""
    project, agreement, folder = _opened(options)
    if _finished(folder, agreement, options.fresh):
        return show(options)
    _note(folder, {"how": "run", "project": str(project)}, options.fresh)
    server, client = _apps(project)
    nodes = [{"client": name, "site": str(project / SITES / f"{name}.toml")} for name in agreement.clients]
    config = _config(project) | {"project": str(project), "folder": str(folder)}
    watcher = Watcher()
    try:
        with listening(watcher):
            server(InProcessGrid(client, nodes, config), Context(1, 0, {}, RecordDict(), config))
    finally:
        watcher.close()
    return _told(options, folder)


def local(options: Namespace) -> int:
    """Run a project on a deployment that is raised for it and taken down again."""
    project, agreement, folder = _opened(options)
    if _finished(folder, agreement, options.fresh):
        return show(options)
    names = agreement.clients if options.sites is None else agreement.clients[: options.sites]
    if options.sites is not None and not 1 <= options.sites <= len(agreement.clients):
        raise SettingError(f"--sites {options.sites}; must lie in 1..{len(agreement.clients)}, the declared clients")
    how = {"how": "local", "project": str(project), "sites": options.sites, "plain": options.plain}
    _note(folder, how, options.fresh)
    sites = {name: project / SITES / f"{name}.toml" for name in names}
    watcher = Watcher()
    try:
        done = run_local(
            project, folder, sites, tls=not options.plain, watch=watcher,
            tell=lambda text: print(text, file=sys.stderr, flush=True),
        )  # fmt: skip
    finally:
        watcher.close()
    print(
        f"deployed for {done.seconds:.0f} s; the SuperLink counted {done.bytes_in:,} bytes in, {done.bytes_out:,} out",
        file=sys.stderr,
    )
    return _told(options, folder)


def resume(options: Namespace) -> int:
    """Go on with a run as it was begun."""
    _, _, folder = _opened(options)
    if not (folder / HOW).exists():
        raise SettingError(f"{folder}: no run was begun here; begin one: prism-fcp federate run, or local")
    how = io.read_json(folder / HOW, HOW_KIND)
    options.fresh, options.folder = False, folder
    options.sites, options.plain = how.get("sites"), how.get("plain", False)
    return local(options) if how["how"] == "local" else run(options)


def show(options: Namespace) -> int:
    """Tell what a run came to, or where it stands."""
    _, agreement, folder = _opened(options)
    if (folder / RESULT).exists():
        return _told(options, folder)
    if not (folder / checkpoint.FILE).exists():
        raise SettingError(f"{folder}: no run was begun here; begin one: prism-fcp federate run, or local")
    head = checkpoint.head(folder / checkpoint.FILE)
    again = "".join(f" {shlex.quote(str(word))}" for word in _words(options))
    text = standing(agreement.name, head["round"], agreement.training.rounds, head["roster"], folder, again)
    say(options, text, {"name": agreement.name, "round": head["round"], "roster": head["roster"]})
    return 0


COMMANDS: Final = {"init": init, "run": run, "local": local, "resume": resume, "show": show}


def federate(options: Namespace) -> int:
    """Do what was asked for."""
    return COMMANDS[options.action](options)


def _opened(options: Namespace) -> tuple[Path, Agreement, Path]:
    """Return the project's folder, its agreement, and the run's folder."""
    project = options.project.absolute()
    if not (project / AGREEMENT).exists():
        raise SettingError(
            f"{project / AGREEMENT}: no such file; make a project: prism-fcp federate init "
            f"{shlex.quote(str(options.project))}"
        )
    told = _config(project)
    agreement = Agreement.load(project / (told.get("federation") or AGREEMENT))
    folder = options.folder.absolute() if options.folder else project / (told.get("folder") or f"runs/{agreement.name}")
    return project, agreement, folder


def _words(options: Namespace) -> list[object]:
    """Return what names the same run on another command line."""
    return [options.project, *(["--folder", options.folder] if options.folder else [])]


def _finished(folder: Path, agreement: Agreement, fresh: bool) -> bool:
    """Return whether the run is over; one of other settings is neither shown as this one's nor overwritten."""
    if fresh or not (folder / RESULT).exists():
        return False
    if io.read_json(folder / RESULT, KIND).get("agreement") != agreement.to_json():
        raise SettingError(f"{folder}: holds a run of other settings; restore {AGREEMENT}, or begin anew with --fresh")
    return True


def _note(folder: Path, how: dict[str, Any], fresh: bool) -> None:
    """Write how a run was begun; begun anew, the last one is forgotten."""
    io.check_folder(folder)
    with io.locked(folder):  # not while another command runs here
        if fresh:
            forget(folder)
        io.write_json(folder / HOW, HOW_KIND, how)


def _told(options: Namespace, folder: Path) -> int:
    body = io.read_json(folder / RESULT, KIND)
    say(options, outcome(body, folder), body)
    return 0


def _app(project: Path) -> dict[str, Any]:
    """Return what the project's pyproject.toml says of its Flower app."""
    path = project / "pyproject.toml"
    table: Any = io.read_toml(path) if path.exists() else {}
    for key in ("tool", "flwr", "app"):
        table = table.get(key, {})
        if not isinstance(table, dict):
            raise SettingError(f"{path}: {key} in [tool.flwr.app] is no table")
    return dict(table)


def _config(project: Path) -> dict[str, Any]:
    """Return the run config that Flower would start the app with."""
    return dict(_app(project).get("config", {}))


def _apps(project: Path) -> tuple[ServerApp, ClientApp]:
    """Return the two apps that the project's pyproject.toml names."""
    told = _app(project).get("components", {})
    os.environ[FOLDER] = str(project)
    sys.path.insert(0, str(project))
    found: list[Any] = []
    for key, kind in (("serverapp", ServerApp), ("clientapp", ClientApp)):
        place = told.get(key)
        if not isinstance(place, str) or ":" not in place:
            raise SettingError(
                f'{project / "pyproject.toml"}: [tool.flwr.app.components] {key} is missing; {key} = "a.b:app"'
            )
        module, _, name = place.partition(":")
        try:
            made = getattr(import_module(module), name, None)
        except ModuleNotFoundError as error:
            if error.name != module.split(".")[0] and error.name != module:
                raise
            raise DataError(f"{project}: no module {module!r}, which {key} names") from error
        if not isinstance(made, kind):
            raise DataError(f"{project}: {place} is no Flower {kind.__name__}; write app = ... there")
        found.append(made)
    return found[0], found[1]
