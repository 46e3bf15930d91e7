"""Processes that die, hang or are killed in a real deployment: the run goes on, or is taken up again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from prism_fcp.federation.deploy import LocalRun, run_local
from tests.federation.deploy.real import SITES, events, nothing_left, processes, project, sites, until
from tests.federation.faults.conftest import Saw

pytestmark = [
    pytest.mark.faults,
    pytest.mark.slow,
    pytest.mark.timeout(1200),
    pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc"),
]


class Watch:
    """Does something once, when the first round is over, and keeps the times at which things happened."""

    def __init__(self, act: Callable[[], None]) -> None:
        self._act, self.acted, self.told, self.began = act, 0.0, list[str](), time.monotonic()
        self.since: dict[str, float] = {}

    def __call__(self, event: Mapping[str, Any]) -> None:
        name = str(event["event"])
        if self.acted:
            self.since.setdefault(name, time.monotonic() - self.acted)
        if name == "round" and not self.acted:
            self.acted = time.monotonic()
            self._act()

    def tell(self, text: str) -> None:
        self.told.append(text)


def kill(folder: Path, word: str, home: str = "") -> Callable[[], None]:
    """Return what kills -9 the program of this name, in one site's home if it is named, but not the leash it is on."""

    def act() -> None:
        found = [
            pid for pid in processes(folder, word)
            if b"leash.py" not in Path(f"/proc/{pid}/cmdline").read_bytes()
            and home.encode() in Path(f"/proc/{pid}/environ").read_bytes()
        ]  # fmt: skip
        assert found, f"no {word} to kill"
        for pid in found:
            os.kill(pid, signal.SIGKILL)

    return act


def order(folder: Path, name: str, word: str) -> Callable[[], None]:
    """Return what makes a site's client obey at its next message."""
    return lambda: (folder / "orders" / name).write_text(word) and None


def deploy(folder: Path, watch: Watch, **settings: Any) -> tuple[LocalRun, dict[str, Any], Path]:
    place = project(folder, **settings)
    run = place / "runs" / "demo"
    done = run_local(place, run, sites(place), tell=watch.tell, watch=watch)
    nothing_left(folder, run)
    return done, json.loads((run / "federation.json").read_text()), run


def row(told: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    return next(one for one in told["roster"] if one["client"] == name)


@pytest.mark.parametrize(("fault", "word"), [("client process dies", "die"), ("no answer in time", "60")])
def test_a_client_that_dies_or_hangs_misses_a_round(fault: str, word: str, tmp_path: Path, saw: Saw) -> None:
    watch = Watch(order(tmp_path, "north", word))
    done, told, run = deploy(tmp_path, watch, rounds=6, deadline=30.0)
    assert told["rounds"] == 6 and done.attempts == 1
    rounds = events(run, "round")
    assert all(one["counted"] and one["accepted"] >= 3 for one in rounds)
    north = row(told, "north")
    assert north["silent"] >= 1 and north["answers"] >= 2 and north["refused"] == 0, north
    assert rounds[-1]["accepted"] == 4  # it is back
    assert all(row(told, name)["answers"] == 6 for name in SITES[1:])
    first = next(one for one in events(run, "silent"))
    back = next(one["round"] for one in rounds[1:] if one["accepted"] == 4)
    saw(
        fault, f"{first['reason'][:90]}; the round counted without it, back in round {back} of 6", watch.since["silent"]
    )


def test_a_killed_supernode_comes_back(tmp_path: Path, saw: Saw) -> None:
    watch = Watch(kill(tmp_path, "flower-supernode", "nodes/north"))
    done, told, run = deploy(tmp_path, watch, rounds=10, deadline=30.0)
    assert done.attempts == 1 and done.restarts["SuperNode north"] >= 1
    rounds = events(run, "round")
    assert all(one["counted"] and one["accepted"] >= 3 for one in rounds)
    assert rounds[-1]["accepted"] == 4
    assert all(row(told, name)["answers"] == 10 for name in SITES[1:])
    missed = [one["round"] for one in rounds if one["accepted"] == 3]
    first = next((one["reason"] for one in events(run, "silent", "left")), "")
    saw(
        "SuperNode kill -9 in a round",
        f"{first[:90]}; restarted {done.restarts['SuperNode north']} times with back-off, missed rounds {missed} of 10",
        sum(one["seconds"] for one in rounds if one["round"] in missed),
    )


@pytest.mark.parametrize(
    ("fault", "word"), [("SuperLink kill -9 in a round", "flower-superlink"), ("server app kill -9", "flwr-serverapp")]
)
def test_a_killed_server_goes_on_from_its_checkpoint(fault: str, word: str, tmp_path: Path, saw: Saw) -> None:
    watch = Watch(kill(tmp_path, word))
    done, told, run = deploy(tmp_path, watch, rounds=4)
    assert done.attempts == 2 and any("goes on from its last checkpoint" in text for text in watch.told)
    assert done.restarts["SuperLink"] == (1 if word == "flower-superlink" else 0)
    (resumed,) = events(run, "resumed")
    assert resumed["round"] >= 1  # nothing accepted is lost
    counted = [one["round"] for one in events(run, "round")]
    assert counted == sorted(set(counted)) == [1, 2, 3, 4]
    assert all(one["accepted"] == 4 for one in events(run, "round"))
    same_as_uninterrupted(tmp_path, run)
    lost = next(text for text in watch.told if "checkpoint" in text)
    saw(fault, f"{lost.split(';')[0]}; resumed at round {resumed['round']} by itself, same model to the last bit",
        watch.since["resumed"])  # fmt: skip


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_stopping_the_command_leaves_nothing_but_a_run_that_resumes(
    number: signal.Signals, tmp_path: Path, saw: Saw
) -> None:
    place = project(tmp_path, rounds=3)
    run = place / "runs" / "demo"
    command = [sys.executable, "-m", "prism_fcp", "federate"]
    with subprocess.Popen([*command, "local", str(place)], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        assert until(lambda: events(run, "round") or running.poll() is not None, 300.0)
        began = time.monotonic()
        running.send_signal(number)
        _, messages = running.communicate(timeout=60.0)
    assert running.returncode == (-signal.SIGKILL if number == signal.SIGKILL else 130), messages[-1000:]
    assert until(lambda: not processes(tmp_path), 30.0)
    seconds = time.monotonic() - began
    left = {path.name for path in (run / "deploy").glob("*")}
    assert number == signal.SIGKILL or left <= {".lock", ".programs"}
    done = subprocess.run([*command, "resume", str(place)], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-2000:]
    nothing_left(tmp_path, run)
    (resumed,) = events(run, "resumed")
    assert resumed["round"] >= 1
    assert [one["round"] for one in events(run, "round")] == [1, 2, 3]
    same_as_uninterrupted(tmp_path, run)
    saw(f"the command gets {number.name}", "every process gone; resumed by hand, same model to the last bit", seconds)


def same_as_uninterrupted(folder: Path, run: Path) -> None:
    """Assert that one process with the same secret, never stopped, makes the same model."""
    from prism_fcp.federation import Agreement
    from prism_fcp.federation.apps import client_app
    from prism_fcp.federation.conduct import Conductor
    from prism_fcp.federation.grid import InProcessGrid
    from prism_fcp.federation.keys import SecretKeys
    from prism_fcp.federation.project import file_site, read_settings
    from prism_fcp.federation.store import MemoryStore

    agreed = Agreement.load(folder / "demo" / "federation.toml")
    own = {name: read_settings(folder / "demo" / "sites" / f"{name}.toml", name) for name in agreed.clients}
    stores = {name: MemoryStore() for name in agreed.clients}
    app = client_app(file_site, settings=lambda name, context: own[name], stores=stores)
    grid = InProcessGrid(app, [{"client": name} for name in agreed.clients], {})
    Conductor(agreed, folder / "again", keys=SecretKeys((run / "secret.key").read_bytes())).run(grid)
    with np.load(run / "checkpoint.npz") as one, np.load(folder / "again" / "checkpoint.npz") as other:
        np.testing.assert_array_equal(one["model"], other["model"])
