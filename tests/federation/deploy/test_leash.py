"""Whatever a program on the leash starts ends with it: stopped, ended by itself, or its parent killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from prism_fcp.federation.deploy.leash import descendants
from prism_fcp.federation.deploy.program import LEASH, DeploymentError, Program, await_release, stop_all

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="orphans are adopted on Linux only")
# Starts a program in a session of its own, as a SuperLink does, and one whose parent is gone; then waits.
FAMILY = """
import os, subprocess, sys, time
subprocess.Popen(["sleep", "MARK"], start_new_session=True)
orphan = "import subprocess; subprocess.Popen(['sleep', 'MARK'], start_new_session=True)"
subprocess.Popen([sys.executable, "-c", orphan]).wait()
print("ready", flush=True)
time.sleep(1000)
"""


def until(true: Callable[[], bool], seconds: float = 10.0) -> bool:
    end = time.monotonic() + seconds
    while not true() and time.monotonic() < end:
        time.sleep(0.02)
    return true()


def sleepers(mark: str) -> list[int]:
    """Return the processes that sleep for so long, zombies left out."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                if (entry / "cmdline").read_bytes().split(b"\0")[:2] == [b"sleep", mark.encode()]:
                    found.append(int(entry.name))
            except OSError:
                continue
    return found


@pytest.fixture
def mark(request: pytest.FixtureRequest) -> str:
    """Return a number of seconds no other test sleeps for."""
    return f"{100_000 + os.getpid()}.{abs(hash(request.node.name)) % 10_000:04d}1"


def family(tmp_path: Path, mark: str, more: str = "") -> Program:
    code = more + FAMILY.replace("MARK", mark)
    command = [sys.executable, "-c", code]
    return Program("family", command, tmp_path / "log", dict(os.environ), cwd=tmp_path, hold=tmp_path / "hold")


def test_stopping_ends_orphans_in_sessions_of_their_own(tmp_path: Path, mark: str) -> None:
    program = family(tmp_path, mark)
    assert until(lambda: len(sleepers(mark)) == 2 and "\nready\n" in (tmp_path / "log").read_text())
    assert set(sleepers(mark)) < set(descendants(program.pid))
    with pytest.raises(DeploymentError, match="still there after 0.1 s"):
        await_release(tmp_path / "hold", 0.1)
    began = time.monotonic()
    program.stop()
    assert time.monotonic() - began < 3.0  # SIGTERM was enough
    assert sleepers(mark) == []
    assert program.poll() == 128 + signal.SIGTERM
    await_release(tmp_path / "hold", 0.1)


def test_a_program_that_ends_or_is_killed_takes_its_own_along(tmp_path: Path, mark: str) -> None:
    program = family(tmp_path, mark)
    assert until(lambda: len(sleepers(mark)) == 2)
    os.kill(descendants(program.pid)[0], signal.SIGKILL)
    assert program.wait(10.0) == 128 + signal.SIGKILL
    assert sleepers(mark) == []


@pytest.mark.parametrize("status", [0, 3])
def test_the_exit_status_and_the_last_words_are_the_programs(tmp_path: Path, status: int) -> None:
    command = ["sh", "-c", f"echo one; echo two >&2; exit {status}"]
    program = Program("short", command, tmp_path / "log", dict(os.environ), cwd=tmp_path, hold=tmp_path / "hold")
    assert program.wait(10.0) == status
    assert program.last_words() == "two"
    assert (tmp_path / "log").read_text().startswith("$ sh -c ")
    assert oct((tmp_path / "log").stat().st_mode)[-3:] == "600"


def test_one_that_does_not_listen_is_killed(tmp_path: Path, mark: str) -> None:
    command = [sys.executable, "-I", str(LEASH), "--grace", "0.3", "--", sys.executable, "-c"]
    deaf = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + FAMILY.replace("MARK", mark)
    with subprocess.Popen([*command, deaf], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as leash:
        assert leash.stdout is not None and leash.stdin is not None
        assert leash.stdout.readline() == b"ready\n"
        leash.stdin.close()
        assert leash.wait(10.0) == 128 + signal.SIGKILL
    assert sleepers(mark) == []


def test_the_death_of_the_one_who_started_it_ends_it(tmp_path: Path, mark: str) -> None:
    code = f"""
import os, sys, time
from pathlib import Path
from tests.federation.deploy.test_leash import family
family(Path({str(tmp_path)!r}), {mark!r})
print("started", flush=True)
time.sleep(1000)
"""
    root = Path(__file__).resolve().parents[3]
    with subprocess.Popen([sys.executable, "-c", code], cwd=root, stdout=subprocess.PIPE) as starter:
        assert starter.stdout is not None and starter.stdout.readline() == b"started\n"
        assert until(lambda: len(sleepers(mark)) == 2)
        starter.kill()
    await_release(tmp_path / "hold", 10.0)
    assert sleepers(mark) == []


def test_the_death_of_the_leash_ends_the_program(tmp_path: Path, mark: str) -> None:
    command = ["sleep", mark]
    program = Program("sleep", command, tmp_path / "log", dict(os.environ), cwd=tmp_path, hold=tmp_path / "hold")
    assert until(lambda: len(sleepers(mark)) == 1)
    os.kill(program.pid, signal.SIGKILL)
    assert until(lambda: sleepers(mark) == [])
    program.stop()


def test_several_are_stopped_together(tmp_path: Path, mark: str) -> None:
    environment = dict(os.environ)
    programs = [
        Program(f"p{k}", ["sh", "-c", f"trap 'sleep 0.5; exit 0' TERM; sleep {mark} & wait"], tmp_path / "log",
                environment, cwd=tmp_path, hold=tmp_path / "hold")
        for k in range(6)
    ]  # fmt: skip
    assert until(lambda: len(sleepers(mark)) == 6)
    began = time.monotonic()
    stop_all(programs)
    assert time.monotonic() - began < 0.5 * 6
    assert sleepers(mark) == []


def test_a_program_that_wrote_nothing_has_no_last_words(tmp_path: Path) -> None:
    program = Program("mute", ["true"], tmp_path / "log", dict(os.environ), cwd=tmp_path, hold=tmp_path / "hold")
    assert program.wait(10.0) == 0 and program.last_words() == "it wrote nothing"
    assert (tmp_path / "log").read_text() == "$ true\n"
