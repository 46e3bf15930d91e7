"""A foreign program on a leash: started with its log in a file, stopped with all that it started."""

from __future__ import annotations

import fcntl
import os
import shlex
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Final

from prism_fcp.errors import MissingExtraError, PrismError
from prism_fcp.federation.deploy.logs import appending, tail

LEASH: Final = Path(__file__).with_name("leash.py")
GUARD: Final = Path(__file__).with_name("guard.py")
GRACE: Final = 6.0  # seconds between SIGTERM and SIGKILL: a SuperNode that says goodbye can come back at once
_STARTED: Final = "$ "  # before the command line that a log begins with
TAIL: Final = 4096  # bytes of a log that are read for its last line
QUIET: Final = {
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",  # else `uv sync` runs before every round
    "FLWR_SUPEREXEC_TASK_POLL_INTERVAL": "0.5",  # seconds; of the default, 1, half is lost in every round
    "RAY_USAGE_STATS_ENABLED": "0",
    "NO_COLOR": "1",
    "PYTHONUNBUFFERED": "1",
}


class DeploymentError(PrismError):
    """A part of a deployment that does not start, or does not go on."""


def find(name: str) -> str:
    """Return the path of one of Flower's programs: beside this interpreter, else on PATH."""
    beside = Path(sys.executable).with_name(name)
    found = str(beside) if beside.exists() else shutil.which(name)
    if found is None:
        raise MissingExtraError(f"there is no program {name}: pip install 'prism-fcp[flower]'")
    return found


def guarded(name: str) -> list[str]:
    """Return the words that start one of Flower's servers for this user alone."""
    find(name)  # which is missed in words, not in a log
    return [sys.executable, "-P", str(GUARD), name]


def environment(home: Path, temporary: Path, more: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return an environment in which Flower writes to `home` and `temporary` alone and calls nobody."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("FLWR_", "COV_", "PYTEST_"))}
    path = os.pathsep.join([str(Path(sys.executable).parent), kept.get("PATH", os.defpath)])
    return kept | QUIET | {"FLWR_HOME": str(home), "TMPDIR": str(temporary), "PATH": path} | dict(more or {})


def free_ports(count: int) -> list[int]:
    """Return so many ports of the loopback address that nobody uses at the moment."""
    with ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [int(one.getsockname()[1]) for one in sockets]


def listening(port: int, host: str = "127.0.0.1") -> bool:
    """Return whether somebody accepts connections at a port."""
    with socket.socket() as probe:
        probe.settimeout(1.0)
        return probe.connect_ex((host, port)) == 0


def command_line(pid: int) -> str:
    """Return the words a process was started with, nothing where that cannot be seen."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


class Program:
    """One program. Closing the pipe to its leash ends it; the system closes the pipe should this process die."""

    def __init__(
        self, name: str, command: Sequence[str], log: Path, env: Mapping[str, str], *, cwd: Path, hold: Path
    ) -> None:
        """Start it; what it prints is added to `log`, and as long as anything of it is there, `hold` is locked."""
        self.name, self.log = name, log
        self.started = time.monotonic()
        leash = [sys.executable, "-I", "-S", str(LEASH), "--grace", f"{GRACE:g}", "--hold", str(hold)]
        holder = [*leash, "--", *command]
        with appending(log) as file:
            file.write((_STARTED + shlex.join(command).replace("\n", " ") + "\n").encode())
            file.flush()
            self._holder = subprocess.Popen(
                holder, stdin=subprocess.PIPE, stdout=file, stderr=file, env=dict(env), cwd=cwd, start_new_session=True
            )

    @property
    def pid(self) -> int:
        """Return the leash's process: all of the program's are below it."""
        return self._holder.pid

    def poll(self) -> int | None:
        """Return the exit status, 128 + n for signal n; None while it runs."""
        if self._holder.poll() is not None:
            self.release()
        return self._holder.returncode

    def wait(self, seconds: float) -> int | None:
        """Wait so long at most, and return as `poll`."""
        try:
            self._holder.wait(seconds)
        except subprocess.TimeoutExpired:
            return None
        return self.poll()

    def release(self) -> None:
        """Tell it to end, without waiting for it."""
        assert self._holder.stdin is not None
        with suppress(BrokenPipeError):
            self._holder.stdin.close()

    def stop(self) -> None:
        """End it and all that it started."""
        self.release()
        if self.wait(GRACE + 10.0) is None:
            self._holder.kill()  # the program below it is killed with it
            self._holder.wait()
        self.poll()

    def last_words(self) -> str:
        """Return the last line it wrote, for a message."""
        lines = [line.strip() for line in tail(self.log, TAIL).splitlines() if line.strip()]
        return lines[-1][:300] if lines and not lines[-1].startswith(_STARTED) else "it wrote nothing"


def await_release(hold: Path, seconds: float) -> None:
    """Wait until nothing is left of programs that hold a file: those of a run that was killed end by themselves."""
    end = time.monotonic() + seconds
    with appending(hold) as file:
        while True:
            try:
                fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except BlockingIOError:
                if time.monotonic() > end:
                    raise DeploymentError(
                        f"programs of an earlier run in {hold.parent} are still there after {seconds:g} s; end them: "
                        "they hold " + str(hold)
                    ) from None
                time.sleep(0.1)


def stop_all(programs: Sequence[Program]) -> None:
    """End programs together, those named first a moment earlier."""
    for program in programs:
        program.release()
    for program in programs:
        program.stop()


def run_to_end(command: Sequence[str], log: Path, env: Mapping[str, str], *, cwd: Path, seconds: float) -> str:
    """Run a short program and return what it printed; its messages go to the log."""
    with appending(log) as file:
        try:
            done = subprocess.run(
                list(command), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=file, env=dict(env), cwd=cwd,
                timeout=seconds, check=False, text=True,
            )  # fmt: skip
        except subprocess.TimeoutExpired as error:
            raise DeploymentError(
                f"{Path(command[0]).name} {command[1]} did not answer within {seconds:g} s; see {log}"
            ) from error
        file.write(done.stdout.encode())
        return done.stdout
