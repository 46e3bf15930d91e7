"""Hold one program and everything it starts: when the holder is told to, or its parent is gone, nothing stays behind.

A program by itself, run by its path and on the standard library alone, so that it costs 10 MB and no start-up time:
`python leash.py [--grace SECONDS] [--hold FILE] -- COMMAND...`. Its standard input is the lifeline: whoever holds the
other end says "stop" by closing it, and the system closes it for one who was killed. Then the program gets SIGTERM,
after the grace SIGKILL, and so does every process below it, those in sessions of their own too: the holder adopts
orphans (Linux; elsewhere they are found as long as their parent lives). Until then it holds a shared lock on FILE, by
which a later run sees that something is still there. The exit status is the program's, 128 + n for signal n.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import select
import signal
import subprocess
import sys
import time
from types import FrameType

_PR_SET_PDEATHSIG = 1  # linux/prctl.h
_PR_SET_CHILD_SUBREAPER = 36
_LINUX = sys.platform == "linux"


def parents() -> dict[int, int]:
    """Return `process -> parent` for all processes that are seen."""
    if not os.path.isdir("/proc/self"):
        listed = subprocess.run(["ps", "-axo", "pid=,ppid="], capture_output=True, text=True, check=True).stdout
        return {int(pid): int(parent) for pid, parent in (line.split() for line in listed.splitlines())}
    found = {}
    for name in os.listdir("/proc"):
        if name.isdecimal():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:
                    fields = file.read().rpartition(b")")[2].split()  # a name may hold anything, brackets too
            except OSError:  # gone since
                continue
            if fields[0] != b"Z":
                found[int(name)] = int(fields[1])
    return found


def descendants(ancestor: int) -> list[int]:
    """Return the living processes below one, the nearest first."""
    below: dict[int, list[int]] = {}
    for pid, parent in parents().items():
        below.setdefault(parent, []).append(pid)
    found, front = [], [ancestor]
    while front:
        front = [child for parent in front for child in below.get(parent, [])]
        found += front
    return found


def main(arguments: list[str]) -> int:
    """Run the command after `--` on the leash and return its exit status."""
    options, command = arguments[: arguments.index("--")], arguments[arguments.index("--") + 1 :]
    grace = float(options[options.index("--grace") + 1]) if "--grace" in options else 5.0
    if "--hold" in options:
        held = os.open(options[options.index("--hold") + 1], os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(held, fcntl.LOCK_SH)
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    wake, told = os.pipe()
    os.set_blocking(told, False)
    signal.set_wakeup_fd(told, warn_on_full_buffer=False)
    stopping = []
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda number, frame: stopping.append(number))
    signal.signal(signal.SIGCHLD, _heard)
    program = subprocess.Popen(command, stdin=subprocess.DEVNULL, preexec_fn=_die_with_parent)
    while program.poll() is None and not stopping:
        ready, _, _ = select.select([0, wake], [], [])
        if wake in ready:
            os.read(wake, 4096)
        if 0 in ready and not os.read(0, 4096):
            break
        _bury(program.pid)
    if program.poll() is None:
        program.terminate()
        try:
            program.wait(grace)
        except subprocess.TimeoutExpired:
            program.kill()
            program.wait()
    _clear(1.0)
    return program.returncode if program.returncode >= 0 else 128 - program.returncode


def _clear(grace: float) -> None:
    """End all that is left below: the polite way first, for sub-programs that watch their parent anyway."""
    end = time.monotonic() + grace
    while left := descendants(os.getpid()):
        for pid in left:
            try:
                os.kill(pid, signal.SIGTERM if time.monotonic() < end else signal.SIGKILL)
            except ProcessLookupError:
                continue
        time.sleep(0.05)
        _bury(None)
    _bury(None)


def _bury(but: int | None) -> None:
    """Take note of the deaths of adopted orphans, but leave the program's own to `subprocess`."""
    while True:
        try:
            dead = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return
        if dead is None or dead.si_pid == but:
            return
        os.waitpid(dead.si_pid, 0)


def _heard(number: int, frame: FrameType | None) -> None:
    """Do nothing: that a child died is told by the wake-up pipe, which needs some handler."""


def _die_with_parent() -> None:
    """Should the holder itself be killed, the program is killed with it."""
    _prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL))


def _prctl(option: int, value: int) -> None:
    if _LINUX and ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
