"""A client's side: what a server may make it do, what it tells, and what stays at the site."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prism_fcp.calibrate import wire
from prism_fcp.calibrate.grid import LinearGrid
from prism_fcp.calibrate.spec import CalibrationSpec
from prism_fcp.errors import PrismError, SettingError
from prism_fcp.federation.agreement import Agreement, Training
from prism_fcp.federation.client import MOST_RADII, ClientWork
from prism_fcp.federation.payload import (
    TrainTask,
    pack_document,
    pack_task,
    pack_values,
    unpack_document,
    unpack_values,
)
from prism_fcp.federation.site import Site
from prism_fcp.federation.store import FileStore, MemoryStore, Store
from tests.federation.small import DIMENSION, NAMES, pulls
from tests.federation.test_payload import TABLES

EXPERIMENT = b"12345678"
AGREED = Agreement(name="trial", clients=NAMES, training=Training(rounds=9, protocol="paper", num_shared=3))
KINDS = ("hello", "setup", "train", "calibrate", "evaluate")
HELLO = {"agreement": AGREED.common.to_json(), "experiment": EXPERIMENT.hex(), "nonce": "n"}
SETUP: dict[str, Any] = {
    "experiment": EXPERIMENT.hex(), "agreement": AGREED.common.to_json(), "index": 0, "key": "00ff", "rule": "mean",
    "masks": {"num_shared": 3, "layers": [], "coordination": "client", "download": "same"}, "mixing": 1.0,
    "units": None,
}  # fmt: skip
SPEC = CalibrationSpec(title="trial", model="0" * 64, grid=LinearGrid(8.0, 20), clients=NAMES)


def task(number: int, up: int = 5, experiment: bytes = EXPERIMENT, values: int = 3) -> bytes:
    return pack_task(TrainTask(experiment, number, up, up, np.full(values, 0.5, np.float32)))


def calibrate(**changes: Any) -> bytes:
    told = {"experiment": EXPERIMENT.hex(), "spec": SPEC.to_json(), "rounds": 9, "scoring": "global"} | changes
    return pack_document(told, pack_values(np.zeros(DIMENSION, np.float32)))


def evaluate(*radii: Any, **changes: Any) -> bytes:
    return pack_document({"experiment": EXPERIMENT.hex(), "radii": list(radii)} | changes)


def work(store: Store | None = None, make: Callable[..., Site] | None = None) -> ClientWork:
    return ClientWork("north", make or pulls(), store or MemoryStore())


def joined(store: Store | None = None, make: Callable[..., Site] | None = None) -> ClientWork:
    made = work(store, make)
    told, _ = unpack_document(made.handle("hello", pack_document(HELLO)), "hello")
    assert told == {"client": "north", "layers": [["one", 3], ["two", 5]], "samples": 40, "description": None,
                    "round": None}  # fmt: skip
    made.handle("setup", pack_document(SETUP))
    return made


def refused(made: ClientWork, kind: str, data: bytes, why: str) -> None:
    with pytest.raises(PrismError, match=why):
        made.handle(kind, data)


def test_a_round_asked_for_twice_is_answered_the_same(tmp_path: Path) -> None:
    store = FileStore(tmp_path / "north.npz")
    made = joined(store)
    first = made.handle("train", task(1))
    before = (tmp_path / "north.npz").read_bytes()
    assert made.handle("train", task(1)) == first
    assert work(store).handle("train", task(1)) == first  # another process
    assert (tmp_path / "north.npz").read_bytes() == before
    assert len(first) == 12


def test_missed_rounds_are_caught_up_with() -> None:
    made, alone = joined(), pulls()("north", {}, AGREED.common)
    sent = unpack_values(
        made.handle("train", pack_task(TrainTask(EXPERIMENT, 5, 5, None, np.zeros(0, np.float32)))), 3, ""
    )
    parameters = np.zeros(DIMENSION, np.float32)
    for number in range(1, 6):
        parameters = alone.step(parameters, number)
    state = made.store.load()
    assert state is not None and state.round == 5 and state.parameters.tobytes() == parameters.tobytes()
    assert set(sent.tolist()) <= set(parameters.tolist())


def test_rounds_behind_or_beyond_are_refused() -> None:
    made = joined()
    made.handle("train", task(4))
    refused(made, "train", task(3), "round 3 was asked for, but this client has learned round 4; resume the federation")
    refused(made, "train", task(10), "round 10 was asked for; 9 were agreed on")
    refused(made, "train", task(2**32 - 1), "9 were agreed on")
    refused(made, "calibrate", calibrate(rounds=10**15), "9 were agreed on")
    refused(made, "calibrate", calibrate(rounds=-1), "9 were agreed on")
    refused(made, "train", task(5, experiment=b"xxxxxxxx"), "not known here .*; set this client up again")
    refused(made, "train", task(5, values=2), r"round 5: download: 8 bytes; 3 float32 values are 12")
    assert made.store.load().round == 4  # type: ignore[union-attr]


def test_nobody_learns_before_it_is_set_up() -> None:
    for kind, data in (("train", task(1)), ("calibrate", calibrate()), ("evaluate", evaluate(1.0))):
        refused(work(), kind, data, r"not known here \(held: none\); set this client up again")
    refused(joined(), "evaluate", evaluate(1.0), "this client has not calibrated yet")
    refused(work(), "dance", b"", "unknown message 'dance'")


def test_calibration_and_evaluation() -> None:
    made = joined()
    made.handle("train", task(1))
    summary = wire.decode(made.handle("calibrate", calibrate()))
    assert (summary.client, summary.size, summary.spec) == ("north", 40, SPEC.hash)
    assert wire.decode(made.handle("calibrate", calibrate())).counts.tolist() == summary.counts.tolist()
    told, _ = unpack_document(made.handle("evaluate", evaluate(0.0, 1.0, 9.0)), "it")
    assert told["covered"] == sorted(told["covered"]) and told["covered"][0] == 0 and told["covered"][2] == 40
    refused(made, "evaluate", evaluate(), f"0 radii; must be 1 to {MOST_RADII}")
    refused(made, "evaluate", evaluate(*[0.1] * (MOST_RADII + 1)), "1001 radii")


WRONG_SETUPS: list[dict[str, Any]] = [
    {"experiment": "zz"}, {"experiment": 3}, {"agreement": []}, {"agreement": {"name": "x"}}, {"key": "zz"},
    {"key": None}, {"masks": None}, {"masks": {}}, {"masks": SETUP["masks"] | {"num_shared": 10**9}},
    {"masks": SETUP["masks"] | {"num_shared": "3"}}, {"masks": SETUP["masks"] | {"layers": 3}},
    {"masks": SETUP["masks"] | {"layers": [[1]]}}, {"masks": SETUP["masks"] | {"coordination": "x"}},
    {"masks": SETUP["masks"] | {"download": 4}}, {"mixing": None}, {"mixing": "much"},
]  # fmt: skip


@pytest.mark.parametrize("change", WRONG_SETUPS, ids=str)
def test_a_setup_that_cannot_be_followed(change: dict[str, Any]) -> None:
    store = MemoryStore()
    made = work(store)
    with pytest.raises(PrismError):
        made.handle("setup", pack_document(SETUP | change))
        made.handle("train", task(1))


@given(st.sampled_from(KINDS), st.booleans(), st.binary(max_size=80) | TABLES.map(pack_document))
def test_whatever_a_server_sends_is_answered_or_a_prism_error(kind: str, set_up: bool, data: bytes) -> None:
    made = joined() if set_up else work()
    try:
        assert isinstance(made.handle(kind, data), bytes)
    except PrismError as error:
        assert len(str(error)) < 400


ENTRIES = st.none() | st.integers() | st.text(max_size=4) | st.lists(st.integers(), max_size=2)


@given(st.dictionaries(st.sampled_from([*SETUP, "spec", "rounds", "radii", "nonce"]), ENTRIES), st.sampled_from(KINDS))
def test_whatever_entries_a_header_has(change: dict[str, Any], kind: str) -> None:
    made = joined()
    whole = {"hello": HELLO, "setup": SETUP, "train": {}, "evaluate": {"experiment": EXPERIMENT.hex(), "radii": [1.0]},
             "calibrate": unpack_document(calibrate(), "it")[0]}[kind]  # fmt: skip
    try:
        made.handle(kind, pack_document(whole | change, bytes(4 * DIMENSION)))
    except PrismError:
        return


SECRET = "Jane Doe, 4.2 in private/rows.csv"


def leak() -> Any:
    raise RuntimeError(SECRET)


def prism_leak() -> Any:
    raise SettingError(SECRET)


@pytest.mark.parametrize("fails", [leak, prism_leak])
@pytest.mark.parametrize(("part", "kind"), [("step", "train"), ("scores", "calibrate"), ("evaluate", "evaluate")])
def test_the_server_is_told_the_kind_of_a_site_s_failure_and_its_log_the_rest(
    part: str, kind: str, fails: Callable[[], Any], caplog: pytest.LogCaptureFixture
) -> None:
    parts: dict[str, Callable[[], Any]] = {}
    made = joined(make=pulls({"north": parts}))
    if kind == "evaluate":
        made.handle("calibrate", calibrate())
    parts[part] = fails
    data = {"train": task(1), "calibrate": calibrate(), "evaluate": evaluate(1.0)}[kind]
    with caplog.at_level(logging.ERROR), pytest.raises(PrismError) as told:
        made.handle(kind, data)
    assert "Jane" not in str(told.value) and "private" not in str(told.value)
    assert ("RuntimeError" if fails is leak else "SettingError") in str(told.value)
    assert "its own log says why" in str(told.value)
    assert SECRET in caplog.text and "north" in caplog.text


def test_a_site_that_cannot_be_made_tells_no_path() -> None:
    made = work(make=pulls({"north": {"make": prism_leak}}))
    refused(made, "hello", pack_document(HELLO), r"the site's making failed \(SettingError\); its own log says why$")


def test_a_damaged_state_is_told_by_kind(tmp_path: Path) -> None:
    (tmp_path / "north.npz").write_bytes(b"garbage")
    made = work(FileStore(tmp_path / "north.npz"))
    refused(made, "hello", pack_document(HELLO), r"^the site's state failed \(DataError\); its own log says why$")


@pytest.mark.parametrize(
    ("gives", "why"),
    [
        (lambda: np.zeros(3, np.float32), r"step returned shape \(3,\); must be \(8,\)"),
        (lambda: np.full(8, np.nan), "step returned NaN or Inf; lower step_size"),
        (lambda: "text", "step failed"),
        (lambda: None, "step"),
    ],
)
def test_what_a_step_returns_is_looked_at(gives: Callable[[], Any], why: str) -> None:
    parts = {"step": gives}
    made = joined(make=pulls({"north": parts}))
    refused(made, "train", task(1), why)
    assert made.store.load().round == 0  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("part", "gives"),
    [
        ("scores", lambda: np.array([1.0, np.nan])), ("scores", lambda: np.zeros(0)), ("scores", lambda: "text"),
        ("evaluate", lambda: (1, 2)), ("evaluate", lambda: (1, 2, float("nan"))), ("evaluate", lambda: None),
    ],
)  # fmt: skip
def test_what_scores_and_evaluate_return_is_looked_at(part: str, gives: Callable[[], Any]) -> None:
    parts: dict[str, Callable[[], Any]] = {}
    made = joined(make=pulls({"north": parts}))
    if part == "evaluate":
        made.handle("calibrate", calibrate())
    parts[part] = gives
    with pytest.raises(PrismError, match="its own log says why"):
        made.handle("calibrate" if part == "scores" else "evaluate", calibrate() if part == "scores" else evaluate(1.0))


def test_an_upload_is_the_masked_entries_and_nothing_else() -> None:
    made = joined()
    sent = unpack_values(made.handle("train", task(1, up=77)), 3, "it")
    from prism_fcp.federation.client import masks_of
    from prism_fcp.federation.coordinates import shared

    state = made.store.load()
    assert state is not None
    assert sent.tobytes() == state.parameters[shared(77, masks_of(state.told), DIMENSION)].tobytes()
