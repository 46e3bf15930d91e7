"""SuperLink and SuperNodes on the loopback address: raised, tended, taken down with all that they left.

Everything lies in the run's folder: `deploy/` (keys, certificates, Flower's own state) while it runs, `logs/` for good.
"""

from __future__ import annotations

import shutil
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

from prism_fcp import io
from prism_fcp.federation.deploy.certificates import Certificates, make_certificates
from prism_fcp.federation.deploy.control import Control, write_settings
from prism_fcp.federation.deploy.leash import descendants
from prism_fcp.federation.deploy.nodekeys import make_node_key
from prism_fcp.federation.deploy.program import (
    DeploymentError,
    Program,
    await_release,
    command_line,
    environment,
    free_ports,
    guarded,
    listening,
    stop_all,
)
from prism_fcp.federation.deploy.supervisor import Supervised, Tell

START: Final = 60.0  # seconds a SuperLink may take to listen
LEFTOVERS: Final = 30.0  # seconds the programs of a killed run may take to end
SERVER_APP: Final = "flwr-serverapp"


@dataclass
class Deployment:
    """One SuperLink and its SuperNodes on the loopback address, in a folder. Use it as a context."""

    folder: Path
    sites: Mapping[str, Mapping[str, str | int | float | bool]]  # a SuperNode's settings, by the site's name
    tls: bool = True
    tell: Tell = print
    port: int = 0
    link: Supervised = field(init=False)
    nodes: dict[str, Supervised] = field(init=False, default_factory=dict)
    control: Control = field(init=False)
    certificates: Certificates | None = field(init=False, default=None)
    _extra: list[Program] = field(init=False, default_factory=list)

    def __enter__(self) -> Deployment:
        """Raise it; what cannot be raised leaves nothing behind."""
        try:
            self._raise()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        """End every program and remove Flower's state, keys and certificates."""
        self.close()

    @property
    def place(self) -> Path:
        """Return where keys, certificates and Flower's state lie."""
        return self.folder / "deploy"

    @property
    def logs(self) -> Path:
        """Return where the programs' messages lie."""
        return self.folder / "logs"

    @property
    def hold(self) -> Path:
        """Return the file that is locked while a program is there."""
        return self.place / ".programs"

    @property
    def address(self) -> str:
        """Return where the SuperLink listens."""
        return f"127.0.0.1:{self.port}"

    def tend(self) -> bool:
        """Start again what has ended; return whether the SuperLink had."""
        fallen = self.link.tend()
        for node in self.nodes.values():
            node.tend()
        return fallen

    def await_link(self) -> None:
        """Wait until the SuperLink listens; if its port was taken meanwhile, the log says so."""
        end = time.monotonic() + START
        while not listening(self.port):
            assert self.link.program is not None
            if self.link.program.poll() is not None or time.monotonic() > end:
                raise DeploymentError(f"the SuperLink does not listen: {self.link.program.last_words()}")
            time.sleep(0.05)

    def follow(self, run: str) -> Program:
        """Copy the server app's messages into `logs/server.log` until the run ends."""
        program = self.control.follow(run, self.logs / "server.log", self.hold)
        self._extra.append(program)
        return program

    def server_app(self) -> int | None:
        """Return the process of the server app, if it can be seen."""
        assert self.link.program is not None
        seen = [pid for pid in descendants(self.link.program.pid) if SERVER_APP in command_line(pid)]
        return seen[0] if seen else None

    def close(self) -> None:
        """End every program, and remove what only they needed."""
        programs = [one.program for one in [*self.nodes.values(), *([self.link] if hasattr(self, "link") else [])]]
        with _undisturbed():
            stop_all([program for program in [*self._extra, *programs] if program is not None])
            shutil.rmtree(self.place, ignore_errors=True)

    def _raise(self) -> None:
        await_release(self.hold, LEFTOVERS)
        for old in self.place.iterdir():
            if old != self.hold and old.name != ".lock":
                shutil.rmtree(old) if old.is_dir() else old.unlink()
        for name in ("link", "control", "tmp", *(f"nodes/{site}" for site in self.sites)):
            io.check_folder(self.place / name)
        self.certificates = make_certificates(self.place / "certificates") if self.tls else None
        self.port = free_ports(1)[0]
        self.link = Supervised("SuperLink", self._start_link, self.tell)
        self.link.begin()
        authority = self.certificates.authority if self.certificates else None
        log = self.logs / "control.log"
        self.control = Control.connect(self.place / "control", self.place / "tmp", log, self.address, authority)
        keys = {site: make_node_key(self.place / "keys" / site) for site in self.sites} if self.tls else {}
        self.await_link()
        for key in keys.values():
            self.control.register(key.public)
        for site, settings in self.sites.items():
            write_settings(self.place / "nodes" / site / "node.toml", settings)
            self.nodes[site] = Supervised(f"SuperNode {site}", partial(self.start_node, site), self.tell)
            self.nodes[site].begin()

    def _start_link(self) -> Program:
        home = self.place / "link"
        secure = ["--insecure"]
        if self.certificates is not None:
            told = self.certificates
            secure = [
                "--ssl-ca-certfile", str(told.authority), "--ssl-certfile", str(told.server),
                "--ssl-keyfile", str(told.server_key), "--enable-supernode-auth",
            ]  # fmt: skip
        command = [
            *guarded("flower-superlink"), "--host", "127.0.0.1", "--port", str(self.port),
            "--database", str(home / "state.db"), "--disable-runtime-dependency-installation", *secure,
        ]  # fmt: skip
        return self._program("superlink", command, home)

    def start_node(self, site: str) -> Program:
        """Start a site's SuperNode."""
        home = self.place / "nodes" / site
        secure = ["--insecure"]
        if self.certificates is not None:
            secure = [
                "--root-certificates", str(self.certificates.authority),
                "--auth-supernode-private-key", str(self.place / "keys" / site),
            ]  # fmt: skip
        command = [
            *guarded("flower-supernode"), "--superlink", self.address, "--host", "127.0.0.1",
            "--port", str(free_ports(1)[0]), "--node-config", str(home / "node.toml"), *secure,
        ]  # fmt: skip
        return self._program(f"sites/{site}", command, home)

    def _program(self, name: str, command: Sequence[str], home: Path) -> Program:
        env = environment(home, self.place / "tmp")
        return Program(name, command, self.logs / f"{name}.log", env, cwd=home, hold=self.hold)


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Put off signals for the few seconds that taking down needs."""
    numbers = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
