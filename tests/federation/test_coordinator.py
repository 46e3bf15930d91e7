"""The server believes nothing: who is let in, whose answers count, and when a round counts."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prism_fcp.calibrate.signing import Signer, generate
from prism_fcp.calibrate.trust import Trust
from prism_fcp.errors import DataError, SettingError
from prism_fcp.federation.agreement import Agreement, Patience, Training
from prism_fcp.federation.client import hello_message
from prism_fcp.federation.coordinator import Coordinator
from prism_fcp.federation.keys import SecretKeys
from prism_fcp.federation.payload import pack_document, pack_values, unpack_document, unpack_task
from prism_fcp.federation.sites.agree import agree_on
from tests.federation.small import NAMES, zeros
from tests.federation.test_payload import TABLES

LAYERS = [["one", 3], ["two", 5]]
COLUMNS = {"count": 9, "names": ["a", "b"], "target": "y", "mean": [0.0, 1.0, 2.0], "sd": [1.0, 1.0, 1.0]}


def body(name: str = "north", **changes: Any) -> dict[str, Any]:
    return {"client": name, "layers": LAYERS, "samples": 9, "description": None, "round": None} | changes


def coordinator(trust: Trust | None = None, **patience: Any) -> Coordinator:
    agreed = Agreement(name="trial", clients=NAMES, training=Training(rounds=9, protocol="paper", share=0.5),
                       patience=Patience(**patience))  # fmt: skip
    return Coordinator(agreed, SecretKeys.seeded(2), b"12345678", zeros, trust, agree_on)


def begun(names: tuple[str, ...] = NAMES, **patience: Any) -> Coordinator:
    made = coordinator(**patience)
    for name in names:
        made.join(made.read_hello(pack_document(body(name)), "n"))
    made.prepare()
    return made


def answer(made: Coordinator, client: int, value: float = 1.0) -> bytes:
    task, tail = unpack_task(made.task(client))
    assert task.round == made.round + 1 and task.up == task.down
    return pack_values(np.full(len(tail) // 4, value, np.float32))


WRONG_HELLOS: list[tuple[dict[str, Any], str]] = [
    ({"client": "nobody"}, "'nobody' is not among the declared clients"),
    ({"client": None}, "None is not among"),
    ({"client": ["north"]}, "is not among"),
    ({"client": "x" * 10**6}, "is not among"),
    ({"samples": 0}, "samples=0; must lie in 1..1,000,000,000,000"),
    ({"samples": -3}, "samples=-3"),
    ({"samples": 10**15}, "samples=1000000000000000"),
    ({"samples": True}, "samples=True"),
    ({"samples": 2.0}, "samples=2.0"),
    ({"samples": None}, "samples=None"),
    ({"round": -1}, "round=-1; must be a round"),
    ({"round": True}, "round=True"),
    ({"description": [1]}, "its description is no table"),
    ({"layers": []}, "no list of names and sizes"),
    ({"layers": [["a", 0]]}, "no list of names and sizes"),
    ({"layers": [["a", True]]}, "no list of names and sizes"),
    ({"layers": [["a", 2**31]]}, "no list of names and sizes"),
    ({"layers": [["a" * 201, 3]]}, "no list of names and sizes"),
    ({"layers": [["\x1b[2J", 3]]}, "no list of names and sizes"),
    ({"layers": [["\ud800", 3]]}, "no list of names and sizes"),
    ({"layers": [["a", 3, 4]]}, "no list of names and sizes"),
    ({"layers": {"a": 3}}, "no list of names and sizes"),
    ({"layers": [["a", 1]] * 10_001}, "no list of names and sizes"),
    ({"layers": [["a", 1], ["a", 1]]}, "two of its model's stretches have one name"),
    ({"layers": [["a", 2**31 - 1], ["b", 1]]}, "a model of 2,147,483,648 parameters; at most 2,147,483,647"),
]


@pytest.mark.parametrize(("change", "told"), WRONG_HELLOS, ids=[told[:40] for _, told in WRONG_HELLOS])
def test_a_hello_that_cannot_be_believed(change: dict[str, Any], told: str) -> None:
    made = coordinator()
    with pytest.raises(DataError) as error:
        made.read_hello(pack_document(body(**change)), "n")
    assert told in str(error.value) and len(str(error.value)) < 250 and str(error.value).isprintable()


@given(st.binary(max_size=200) | TABLES.map(pack_document) | TABLES.map(lambda table: pack_document(body(**table))))
def test_any_bytes_are_a_hello_or_a_data_error(data: bytes) -> None:
    try:
        found = coordinator().read_hello(data, "n")
    except DataError:
        return
    assert found.client == 0 and found.samples == 9


@given(st.dictionaries(st.sampled_from(list(body())), st.recursive(st.none() | st.integers() | st.text(), st.lists)))
def test_any_claims_are_believed_or_a_data_error(change: dict[str, Any]) -> None:
    try:
        found = coordinator().read_hello(pack_document(body(**change)), "n")
    except DataError:
        return
    assert 0 < found.samples <= 10**12 and found.layers[-1].stop > 0


def signed(signer: Signer, name: str, nonce: str, experiment: str = b"12345678".hex()) -> dict[str, Any]:
    signature = signer.sign(hello_message(nonce, experiment, name)).hex()
    return body(name, key=signer.fingerprint, signature=signature)


def test_who_must_sign_and_how(tmp_path: Path) -> None:
    (tmp_path / "trust").mkdir()
    for name in ("north", "east", "stranger"):
        made_key = generate(tmp_path / f"{name}.key", name)
        if name != "stranger":
            Trust.add(tmp_path / "trust", name, made_key.line)
    north, east, stranger = (Signer.load(tmp_path / f"{name}.key") for name in ("north", "east", "stranger"))
    trust = Trust.load(tmp_path / "trust")
    made = coordinator(trust)

    def refused(told: dict[str, Any], nonce: str, why: str) -> None:
        with pytest.raises(DataError, match=why):
            made.read_hello(pack_document(told), nonce)

    assert made.read_hello(pack_document(signed(north, "north", "n1")), "n1").client == 0
    refused(body(), "n1", "not signed; this federation takes signed clients only")
    refused(signed(north, "north", "n1"), "n2", "does not fit")  # replayed
    refused(signed(north, "north", "n1", "00"), "n1", "does not fit")  # of another experiment
    refused(signed(north, "east", "n1"), "n1", "unknown key")  # another's name
    refused(signed(north, "north", "n1") | {"key": east.fingerprint}, "n1", "unknown key")
    refused(signed(stranger, "north", "n1"), "n1", "unknown key")
    refused(signed(north, "south", "n1"), "n1", "no key of it")
    refused(signed(north, "north", "n1") | {"signature": "zz"}, "n1", "no hex")
    refused(signed(north, "north", "n1") | {"signature": "ab"}, "n1", "must have 64")
    refused(signed(north, "north", "n1") | {"signature": 4}, "n1", "not signed")
    refused(signed(north, "north", "n1") | {"key": "\x1b[2J"}, "n1", "names no key")
    assert made.nonce() != made.nonce() and len(made.nonce()) == 32
    assert trust.verify("north", north.fingerprint, b"x", b"y" * 64, datetime.now(UTC)) is not None


def test_most_clients_decide_the_model_s_stretches() -> None:
    made = coordinator()
    for name in NAMES:
        odd = {"layers": [["one", 8]]} if name in ("east", "coast") else {}
        made.join(made.read_hello(pack_document(body(name, **odd)), "n"))
    out = made.prepare()
    assert {made.name(client) for client in out} == {"east", "coast"}
    assert all("other stretches (8 parameters) than most clients'" in why for why in out.values())
    assert made.layers[-1].stop == 8 and len(made.layers) == 2 and not made.roster[1].joined
    with pytest.raises(DataError, match="east: its model has 8 parameters in 1 stretch; this federation's has 8 in 2"):
        made.join(made.read_hello(pack_document(body("east", layers=[["one", 8]])), "n"))
    assert set(made.begin()) == {0, 2, 3, 4}


def test_half_of_the_clients_do_not_decide_how_large_the_model_is() -> None:
    made = coordinator()
    for name in NAMES:
        huge = {"layers": [["one", 2**31 - 1]]} if name in NAMES[:3] else {}
        made.join(made.read_hello(pack_document(body(name, **huge)), "n"))
    with pytest.raises(DataError, match="of 6 clients at most 3 have the same model; .* 8, 2,147,483,647"):
        made.prepare()
    assert not len(made.model)


def test_a_liar_s_count_of_rows_does_not_move_the_terms() -> None:
    made = coordinator()
    for name in NAMES:
        made.join(made.read_hello(pack_document(body(name, samples=10**12 if name == "east" else 9)), "n"))
    made.prepare()
    assert made.samples == 9


def test_who_comes_late_or_again_must_have_the_agreed_columns() -> None:
    made = coordinator()
    for name in NAMES[:-1]:
        told = COLUMNS if name != "east" else COLUMNS | {"names": ["a", "c"]}
        made.join(made.read_hello(pack_document(body(name, description=told)), "n"))
    out = made.prepare()
    assert list(out) == [1] and "lacks column 'b'" in out[1]

    def late(told: Any) -> None:
        made.join(made.read_hello(pack_document(body("coast", description=told)), "n"))

    with pytest.raises(DataError, match="coast: it does not say which columns it has"):
        late(None)
    with pytest.raises(DataError, match="coast: its columns are not those that most clients have"):
        late(COLUMNS | {"names": ["a", "c"]})
    with pytest.raises(DataError, match="must be numbers within"):
        late(COLUMNS | {"mean": [1e300, 0, 0]})
    late(COLUMNS | {"names": ["b", "a"]})
    assert made.roster[5].joined and not made._hellos


def test_nobody_there_is_an_error_that_says_what_to_do() -> None:
    with pytest.raises(DataError, match="nobody has joined; start the clients, or wait longer: patience.wait"):
        coordinator().prepare()
    with pytest.raises(SettingError, match="has not begun"):
        _ = coordinator().settled


WRONG_ANSWERS = [
    (b"", "0 bytes; 4 float32 values are 16"),
    (bytes(17), "17 bytes"),
    (pack_values(np.array([1, np.nan, np.inf, 1], np.float32)), "2 of 4 values are NaN or Inf"),
    (pack_values(np.array([1, 3e38, 1, 1], np.float32)), "a value beyond 1e"),
]


@pytest.mark.parametrize(("data", "why"), WRONG_ANSWERS)
def test_an_answer_that_cannot_be_used_is_none(data: bytes, why: str) -> None:
    made = begun()
    made.begin()
    made.task(0)
    with pytest.raises(DataError, match=f"north: upload: {why}"):
        made.take(0, data)
    made.take(0, answer(made, 0))
    with pytest.raises(DataError, match="north: a second answer in round 1; the first one counts"):
        made.take(0, answer(made, 0, 5.0))
    assert made.roster[0].answers == 1 and made.roster[0].bytes_up == 16


def test_who_was_not_asked_has_no_say() -> None:
    made = begun(NAMES[:-1])
    assert made.begin() == (0, 1, 2, 3, 4)
    with pytest.raises(DataError, match="coast: not asked in round 1"):
        made.take(5, bytes(16))


def test_a_round_without_a_quorum_changes_nothing_and_is_counted() -> None:
    made = begun(quorum=4)
    for void in (1, 2):
        for client in made.begin()[:3]:
            made.take(client, answer(made, client))
        closed = made.close()
        assert (closed.asked, closed.accepted, closed.counted, made.void) == (6, 3, False, void)
        assert not made.model.any() and made.round == void
    for client in made.begin()[:4]:
        made.take(client, answer(made, client))
    assert made.close().counted and made.void == 0 and made.model.any()


def test_one_client_that_alone_stayed_decides_nothing() -> None:
    made = begun()
    for client in range(1, 6):
        made.leave(client)
    assert made.begin() == (0,)
    made.take(0, answer(made, 0, 1e6))
    assert not made.close().counted and not made.model.any()


def test_a_late_joiner_is_asked_from_then_on() -> None:
    made = begun(NAMES[:-1])
    made.begin()
    made.close()
    made.join(made.read_hello(pack_document(body("coast")), "n"))
    assert made.begin() == (0, 1, 2, 3, 4, 5)
    told, tail = unpack_document(made.setup(5), "setup")
    assert told["index"] == 5 and told["experiment"] == b"12345678".hex() and tail == b""
    assert told["key"] != unpack_document(made.setup(0), "setup")[0]["key"]


def test_what_a_client_is_told_is_not_what_others_hang_on() -> None:
    made = begun()
    told = [unpack_document(made.setup(client), "setup")[0] for client in range(6)]
    assert len({one["key"] for one in told}) == 6
    assert all(name not in str(one) for one in told for name in NAMES)
    made.begin()
    assert len({unpack_task(made.task(client))[0].up for client in range(6)}) == 6
