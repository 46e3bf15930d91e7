"""A whole federation on this machine: a deployment is raised, the app is run on it, and nothing of it stays.

What Flower keeps of a run cannot be resumed, so each start raises a new SuperLink; the federation's own checkpoint says
where it goes on.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any, Final

from prism_fcp import io
from prism_fcp.errors import SettingError
from prism_fcp.federation.deploy.control import RunStatus
from prism_fcp.federation.deploy.deployment import START, Deployment
from prism_fcp.federation.deploy.program import DeploymentError, listening
from prism_fcp.federation.deploy.supervisor import Tell
from prism_fcp.federation.events import FILE, Hook
from prism_fcp.federation.events import read as read_events

ATTEMPTS: Final = 5  # times a run is started before somebody must ask for it
_TRIES: Final = 3
_BEAT: Final = 0.2  # seconds between two looks at the programs


@dataclass(frozen=True, slots=True)
class LocalRun:
    """How a run ended."""

    folder: Path
    seconds: float
    attempts: int  # 1, and one more for each time it was taken up again
    restarts: Mapping[str, int]  # of each SuperNode, and of the SuperLink
    bytes_in: int  # what the SuperLink received for the run, as it counts
    bytes_out: int


def run_local(
    project: Path,
    folder: Path,
    sites: Mapping[str, Path],
    *,
    tls: bool = True,
    config: Mapping[str, str | int | float | bool] | None = None,
    tell: Tell = print,
    watch: Hook | None = None,
    attempts: int = ATTEMPTS,
) -> LocalRun:
    """Run the app in `project` on a deployment of its own, one SuperNode for each site's file, and take it down.

    A run that has a checkpoint in `folder` goes on from it. If the SuperLink or the server app is killed it is taken up
    again by itself, at most `attempts` times in all. `watch` is given each line of the run's events. Ctrl-C, SIGTERM
    and an error leave a state that can be resumed, and no program; so does the death of this process.
    """
    project, folder = project.resolve(), folder.resolve()
    for site, path in sites.items():
        if not path.is_file():
            raise SettingError(f"site {site}: there is no file {path}; write it, or do not name the client")
    began = time.monotonic()
    settings = {site: {"client": site, "site": str(path.resolve())} for site, path in sites.items()}
    told = {"project": str(project), "folder": str(folder), **(config or {})}
    pump = _pump(folder / FILE, watch)
    with ExitStack() as held:
        held.enter_context(_stoppable())
        held.enter_context(io.locked(folder / "deploy"))
        tell(f"raising a SuperLink and {len(sites)} SuperNodes on 127.0.0.1{'' if tls else ', in plain text, no keys'}")
        deployment = held.enter_context(Deployment(folder, settings, tls, tell))
        for attempt in range(1, attempts + 1):
            status, lost = _attempt(deployment, project, told, pump)
            if status.completed or not lost:
                break
            if attempt < attempts:
                tell(f"{lost}; the run goes on from its last checkpoint")
        if not status.completed:
            why = lost or status.details or deployment.link.name
            raise DeploymentError(
                f"the run ended as {status.status}: {why}; see {deployment.logs / 'server.log'}, then resume {folder}"
            )
        restarts = {one.name: one.restarts for one in [deployment.link, *deployment.nodes.values()]}
        return LocalRun(folder, time.monotonic() - began, attempt, restarts, status.bytes_in, status.bytes_out)


def _attempt(
    deployment: Deployment, project: Path, config: Mapping[str, Any], pump: Callable[[], None]
) -> tuple[RunStatus, str]:
    """Start a run and stay with it to its end; return its status, and what was lost if it is no fault of the app."""
    _until_back(deployment)
    before = deployment.link.restarts
    run = deployment.control.start(project, config)
    log = deployment.follow(run)
    app: int | None = None
    gone = False
    while log.poll() is None and not gone and deployment.link.restarts == before:
        time.sleep(_BEAT)
        pump()
        deployment.tend()
        app, last = deployment.server_app(), app
        if last is not None and app != last:
            time.sleep(1.0)  # at the end of a run it is gone a moment before the run is over
            gone = not _status(deployment, run).finished
    pump()
    log.stop()
    status = _status(deployment, run)
    lost = "the server app was lost" if gone else ""
    if deployment.link.restarts > before:
        lost = "the SuperLink was lost"
    elif not status.finished:
        lost = lost or "the connection to the run was lost"
    if not status.finished:
        deployment.control.cancel(run)
        status = _status(deployment, run)
    return status, lost


def _status(deployment: Deployment, run: str) -> RunStatus:
    """Return a run's status; a SuperLink that has just died is waited for."""
    for _ in range(_TRIES):
        _until_back(deployment)
        try:
            return deployment.control.status(run)
        except DeploymentError as error:
            problem = error
            time.sleep(1.0)
    raise problem


def _until_back(deployment: Deployment) -> None:
    """Wait until the SuperLink is there, again if it must be."""
    end = time.monotonic() + START
    while not listening(deployment.port):
        if time.monotonic() > end:
            raise DeploymentError(f"the SuperLink does not come back; see {deployment.logs / 'superlink.log'}")
        time.sleep(_BEAT)
        deployment.tend()


def _pump(path: Path, watch: Hook | None) -> Callable[[], None]:
    """Return what hands each new event of a file to `watch`; those of an earlier run are not new."""
    since = path.stat().st_size if path.exists() else 0

    def pump() -> None:
        nonlocal since
        events, since = read_events(path, since)
        if watch is not None:
            for event in events:
                watch(event)

    return pump


@contextmanager
def _stoppable() -> Iterator[None]:
    """Treat SIGTERM and SIGHUP as Ctrl-C: an exception, so that every block is left as it should be."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt(f"signal {number}")

    before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
