"""Stopped anywhere and taken up again, a run ends as one that was never stopped."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("flwr")

from prism_fcp.errors import DataError  # noqa: E402
from prism_fcp.federation.local import run_in_process  # noqa: E402
from prism_fcp.federation.store import FileStore, MemoryStore  # noqa: E402
from tests.federation.small import (  # noqa: E402
    KEYS,
    PROTOCOLS,
    agreement,
    attacker,
    events,
    play,
    pulls,
    synthetic,
    worth,
    zeros,
)


def failing() -> Any:
    """Return a client whose step fails now and then, by the round: its refusals must not count twice."""
    raise DataError("rows 3 and 4 are odd")


def run(protocol: str, folder: Path, **options: Any) -> dict[str, Any]:
    sites = pulls({"east": {"step": failing}})
    return play(agreement(PROTOCOLS[protocol]), folder, sites, drills={"coast": attacker()}, **options)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], dict[str, Any]]:
    """Return what an uninterrupted run of a protocol comes to; each is played once."""
    known: dict[str, dict[str, Any]] = {}

    def found(protocol: str) -> dict[str, Any]:
        if protocol not in known:
            folder = tmp_path_factory.mktemp(protocol)
            run(protocol, folder)
            known[protocol] = worth(folder)
        return known[protocol]

    return found


def at(kind: str, number: int | None = None) -> Callable[[Mapping[str, Any]], None]:
    def hook(event: Mapping[str, Any]) -> None:
        if event["event"] == kind and (number is None or event["round"] == number):
            raise KeyboardInterrupt

    return hook


STOPS = {
    "began": at("began"),
    "joined": at("joined"),
    "training": at("training"),
    "first round": at("round", 1),
    "refused": at("refused"),
    "fifth round": at("round", 5),
    "last round": at("round", 9),
    "calibrated": at("calibrated"),
    "evaluated": at("evaluated"),
}


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_run_that_is_stopped_at_every_turn_ends_as_one_that_is_not(
    protocol: str, tmp_path: Path, whole: Callable[[str], dict[str, Any]]
) -> None:
    for hook in STOPS.values():
        with pytest.raises(KeyboardInterrupt):
            run(protocol, tmp_path, hooks=[hook])
    run(protocol, tmp_path)
    assert worth(tmp_path) == whole(protocol)
    assert {one["event"] for one in events(tmp_path)} >= {"resumed", "stopped", "put aside"}


@contextmanager
def stopped_at_line(count: int) -> Iterator[None]:
    """Raise KeyboardInterrupt at the so-manyth line that the federation's core runs."""
    left = count

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal left
        if "prism_fcp/federation/" not in frame.f_code.co_filename:
            return None
        if event == "line":
            left -= 1
            if not left:
                sys.settrace(None)
                raise KeyboardInterrupt
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield
    finally:
        sys.settrace(before)


@pytest.mark.slow
@settings(max_examples=30)
@given(count=st.integers(1, 22_000), protocol=st.sampled_from(["paper", "follow"]), remembered=st.booleans())
def test_whatever_line_it_is_stopped_at(
    count: int, protocol: str, remembered: bool, whole: Callable[[str], dict[str, Any]]
) -> None:
    with TemporaryDirectory() as name:
        folder = Path(name)
        # Clients whose memory outlives the server, as other processes' does, or files: the states must agree with both.
        stores = {name: MemoryStore() for name in agreement().clients} if remembered else None
        try:
            with stopped_at_line(count):
                run(protocol, folder, stores=stores)
        except KeyboardInterrupt:
            run(protocol, folder, stores=stores)
        assert worth(folder) == whole(protocol)


def test_states_in_memory_come_back_with_the_checkpoint(tmp_path: Path) -> None:
    agreed, sites = agreement(PROTOCOLS["default"]), synthetic()
    run_in_process(agreed, sites, tmp_path / "whole", keys=KEYS)
    with pytest.raises(KeyboardInterrupt):
        run_in_process(agreed, sites, tmp_path / "cut", keys=KEYS, hooks=[at("round", 4)], every=1e9)
    run_in_process(agreed, sites, tmp_path / "cut", keys=KEYS)
    assert worth(tmp_path / "cut") == worth(tmp_path / "whole")


KILLED = """
import os, signal, sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from tests.federation.test_resume import run
def hook(event):
    if event["event"] == "round" and event["round"] == 5:
        os.kill(os.getpid(), signal.SIGKILL)
run("follow", Path(sys.argv[1]), hooks=[hook])
"""


def test_a_server_killed_between_a_round_and_its_checkpoint_plays_it_again(
    tmp_path: Path, root: Path, whole: Callable[[str], dict[str, Any]]
) -> None:
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", KILLED, str(tmp_path), str(root)], check=False)
    assert done.returncode == -signal.SIGKILL
    assert FileStore(tmp_path / "state" / "north.npz").load() is not None
    run("follow", tmp_path)
    told = [one["round"] for one in events(tmp_path) if one["event"] == "round"]
    assert told == [1, 2, 3, 4, 5, 5, 6, 7, 8, 9]
    assert worth(tmp_path) == whole("follow")


def test_a_finished_run_is_not_trained_again(tmp_path: Path) -> None:
    run("paper", tmp_path)
    before = worth(tmp_path)
    run("paper", tmp_path)
    assert worth(tmp_path) == before
    assert sum(one["event"] == "round" for one in events(tmp_path)) == 9


def test_other_settings_do_not_go_on_from_it(tmp_path: Path) -> None:
    run("paper", tmp_path)
    with pytest.raises(DataError, match="belongs to other settings; restore federation.toml, or begin anew"):
        run("fedavg", tmp_path)
    run("fedavg", tmp_path, fresh=True)
    assert sum(one["event"] == "round" for one in events(tmp_path)) == 9


def test_a_start_that_fails_has_begun_nothing(tmp_path: Path) -> None:
    def broken(layers: Any) -> Any:
        return np.full(layers[-1].stop, np.nan)

    for _ in range(2):
        with pytest.raises(ValueError, match="finite numbers"):
            run("paper", tmp_path, start=broken)
        assert not (tmp_path / "checkpoint.npz").exists()
    run("paper", tmp_path, start=zeros)


def test_a_client_that_lost_its_state_joins_anew(tmp_path: Path) -> None:
    stores = {name: MemoryStore() for name in agreement().clients}

    def loses(event: Mapping[str, Any]) -> None:
        if event["event"] == "round" and event["round"] == 3:
            stores["north"].state = None

    told = play(agreement(), tmp_path, hooks=[loses], stores=stores)
    entry = next(row for row in told["roster"] if row["client"] == "north")
    assert entry["refused"] == 1 and "set this client up again" in entry["reasons"][0]
    assert "north" in told["kept"] and told["evaluation"]["clients"]["north"]["rows"] == 40
    assert stores["north"].state is not None and stores["north"].state.round >= 9
