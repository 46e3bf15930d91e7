"""A program that ends is started again: at growing pauses, from the first one on when it has run for long."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from prism_fcp.federation.deploy.program import Program
from prism_fcp.federation.deploy.supervisor import HEALTHY, LONGEST_PAUSE, Supervised


def ends(tmp_path: Path, name: str, command: str) -> Program:
    env = dict(os.environ)
    program = Program(name, ["sh", "-c", command], tmp_path / "log", env, cwd=tmp_path, hold=tmp_path / "hold")
    assert program.wait(10.0) is not None
    return program


def test_pauses_double_up_to_the_longest(tmp_path: Path) -> None:
    told: list[str] = []
    now = 0.0
    one = Supervised("north", lambda: ends(tmp_path, "north", "echo no >&2; exit 7"), told.append, lambda: now)
    one.begin()
    assert one.program is not None
    now = one.program.started + 5.0
    waited = []
    for _ in range(6):
        assert one.tend() is True
        before = now
        while one.restarts == len(waited):
            now += 0.5
            assert one.tend() is False
        waited.append(now - before)
        now += 5.0
    assert waited == [1.0, 2.0, 4.0, 8.0, LONGEST_PAUSE, LONGEST_PAUSE]
    assert told[0] == "north ended after 5 s (exit status 7: no); again in 1 s"


def test_one_that_ran_for_long_is_started_soon(tmp_path: Path) -> None:
    told: list[str] = []
    now = 0.0
    one = Supervised("north", lambda: ends(tmp_path, "north", "kill -9 $$"), told.append, lambda: now)
    one.begin()
    assert one.program is not None
    for pause in (1, 2, 4):
        now = max(now, one.program.started) + 1.0
        assert one.tend()
        assert told[-1].endswith(f"again in {pause} s")
        now += pause
        one.tend()
    now += HEALTHY + 10
    assert one.tend()
    assert told[-1].endswith("again in 1 s")
    assert f"killed by signal {signal.SIGKILL}" in told[-1]
