"""What a client may send that it should not: refused by name, the others' work untouched."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord, Error, Message, MetricRecord, RecordDict

from prism_fcp.calibrate import wire
from prism_fcp.federation.payload import pack_document, unpack_document
from tests.federation.faults.conftest import Saw
from tests.federation.faults.hostile import CLIENTS, ROUNDS, Change, Told, play

OTHERS = len(CLIENTS) - 1


def bytes_of(message: Message) -> bytes:
    data = message.content["p"]["b"]
    assert isinstance(data, bytes)
    return data


def answer(message: Message, content: RecordDict) -> Message:
    message.content = content
    return message


def bent(change: Callable[[bytes], bytes]) -> Change:
    """Return a change of the bytes alone."""
    return lambda message: answer(message, RecordDict({"p": ConfigRecord({"b": change(bytes_of(message))})}))


def value(number: float) -> Callable[[bytes], bytes]:
    return lambda data: np.concatenate([[np.float32(number)], np.frombuffer(data, "<f4")[1:]]).astype("<f4").tobytes()


def renamed(message: Message) -> Message:
    return answer(message, RecordDict({"weights": ConfigRecord({"b": bytes_of(message)})}))


def wrong_field(message: Message) -> Message:
    return answer(message, RecordDict({"p": ConfigRecord({"x": bytes_of(message)})}))


def metrics(message: Message) -> Message:
    return answer(message, RecordDict({"p": MetricRecord({"b": 1e15})}))


def pickled(message: Message) -> Message:
    body = b"\x80\x04\x95" + bytes(200)
    return answer(message, RecordDict({"p": ArrayRecord({"b": Array("object", (1,), "numpy.ndarray", body)})}))


def failed(message: Message) -> Message:
    return Message(Error(code=2, reason="ZeroDivisionError: division by zero"), reply_to=message_of(message))


def message_of(reply: Message) -> Message:
    """Return a message that this reply answers."""
    asked = Message(RecordDict(), 1, "train")
    asked.metadata.__dict__["_message_id"] = reply.metadata.reply_to_message_id
    return asked


TRAINING: dict[str, tuple[Change, str]] = {
    "NaN": (bent(value(np.nan)), "1 of 5 values are NaN or Inf"),
    "Inf": (bent(value(-np.inf)), "1 of 5 values are NaN or Inf"),
    "a value of 1e38": (bent(value(1e38)), "a value beyond"),
    "wrong shape": (bent(lambda data: data[:-4]), "16 bytes; 5 float32 values are 20"),
    "nothing": (bent(lambda data: b""), "0 bytes; 5 float32 values are 20"),
    "not whole values": (bent(lambda data: data + b"x"), "21 bytes"),
    "wrong key": (renamed, "records ['weights']; must be 'p' alone"),
    "wrong field": (wrong_field, "fields ['x']; must be 'b' alone"),
    "metrics in place of bytes": (metrics, "must be bytes"),
    "garbage bytes": (pickled, "203 bytes; at most 40 are looked at"),
    "oversize message": (bent(lambda data: bytes(50_000_000)), "50,000,000 bytes; at most 40 are looked at"),
    "no answer": (lambda message: None, "no answer within 1 s"),
    "a client that raises": (failed, "ZeroDivisionError"),
}


@pytest.fixture(scope="module")
def silent(tmp_path_factory: pytest.TempPathFactory) -> Told:
    """Return the run in which the bad client never answers a round."""
    return play(tmp_path_factory.mktemp("silent"), "train", lambda message: None)


@pytest.mark.parametrize("fault", TRAINING)
def test_a_bad_upload_is_refused_by_name_and_changes_nothing(
    fault: str, tmp_path: Path, silent: Told, saw: Saw
) -> None:
    change, reason = TRAINING[fault]
    told = play(tmp_path, "train", change)
    why = told.refusals()
    assert why and all(reason in one for one in why), why
    rounds = [one for one in told.events if one["event"] == "round"]
    assert [one["accepted"] for one in rounds] == [OTHERS] * ROUNDS and all(one["counted"] for one in rounds)
    entry = told.entry()
    assert entry["answers"] == 0 and entry["refused"] + entry["silent"] == len(why) and entry["times_aside"] >= 1
    assert reason in "".join(entry["reasons"])
    # Whatever it sent, the model is the one the others make without it, to the last bit.
    assert told.model == silent.model
    assert all(told.entry(name)["answers"] == ROUNDS for name in CLIENTS[:-1])
    saw(fault, f"refused each time it was asked: {why[0]}", told.seconds)


def hello(**facts: object) -> Change:
    return bent(lambda data: pack_document(unpack_document(data, "hello")[0] | facts))


JOINING: dict[str, tuple[Change, str]] = {
    "count of 1e15": (hello(samples=10**15), "samples=1000000000000000; must lie in 1..1,000,000,000,000"),
    "negative count": (hello(samples=-5), "samples=-5"),
    "a count that is no number": (hello(samples="many"), "samples='many'"),
    "an undeclared name": (hello(client="eve"), "'eve' is not among the declared clients"),
    "duplicate identity": (hello(client="north"), "a second node says it is 'north'; the first stays"),
    "another model": (hello(layers=[["linear", 3]]), "stretch"),
    "garbage on joining": (bent(lambda data: b"\xff" * 300), "hello"),
    "a name of 1 MB": (hello(client="x" * 1_000_000), "is not among the declared clients"),
    "units of 1e300": (hello(description={"count": 1, "names": ["a"], "target": "y", "mean": [1e300, 0], "sd": [1, 1]}),
                       "must be numbers within"),
}  # fmt: skip


@pytest.mark.parametrize("fault", JOINING)
def test_a_bad_hello_keeps_its_node_out(fault: str, tmp_path: Path, saw: Saw) -> None:
    change, reason = JOINING[fault]
    told = play(tmp_path, "query.hello", change)
    why = [one["reason"] for one in told.events if one["event"] in ("node refused", "refused")]
    assert why and all(reason in one for one in why), why
    assert all(len(one) < 400 for one in why)
    assert told.entry()["answers"] == 0
    assert told.entry("north")["answers"] == ROUNDS
    assert [one["accepted"] for one in told.events if one["event"] == "round"] == [OTHERS] * ROUNDS
    saw(fault, f"never let in: {why[0][:160]}", told.seconds)


def test_a_second_node_with_anothers_name_gets_nothing(tmp_path: Path, saw: Saw) -> None:
    told = play(tmp_path, "train", lambda message: None, nodes=(*CLIENTS, "north"))
    refused = [one for one in told.events if one["event"] == "node refused"]
    assert refused and {one["node"] for one in refused} == {"6"}
    assert "a second node says it is 'north'; the first stays" in refused[0]["reason"]
    assert [one["accepted"] for one in told.events if one["event"] == "round"] == [len(CLIENTS)] * ROUNDS
    saw("two nodes, one client", refused[0]["reason"], told.seconds)


def claiming(size: str) -> Change:
    """Return a change of the number of scores a summary says it is made of."""

    def bend(data: bytes) -> bytes:
        length = int.from_bytes(data[:8], "little")
        header = json.loads(data[8 : 8 + length])
        header["__metadata__"]["n"] = size
        told = json.dumps(header, sort_keys=True, separators=(",", ":")).encode()
        told += b" " * (-len(told) % 8)
        return len(told).to_bytes(8, "little") + told + data[8 + length :]

    return bent(bend)


def flood(size: int) -> Change:
    """Return a well-formed summary of so many scores, all of them in one bin."""

    def bend(data: bytes) -> bytes:
        summary = wire.decode(data)
        counts = np.zeros_like(summary.counts)
        counts[1] = size
        return wire.encode(replace(summary, counts=counts))

    return bent(bend)


SUMMARIES: dict[str, tuple[Change, str]] = {
    "garbage summary": (bent(lambda data: b"\x00" * 500), ""),
    "a summary's count of 1e15": (claiming("1000000000000000"), "n"),
    "a summary's negative count": (claiming("-100"), "n"),
    "half a summary": (bent(lambda data: data[: len(data) // 2]), ""),
    "no summary": (lambda message: None, "no answer within 1 s"),
}


@pytest.mark.parametrize("fault", SUMMARIES)
def test_a_bad_summary_is_refused_and_the_others_calibrate(fault: str, tmp_path: Path, saw: Saw) -> None:
    change, reason = SUMMARIES[fault]
    told = play(tmp_path, "query.calibrate", change)
    (why,) = [one["reason"] for one in told.events if one.get("what") == "calibrate"]
    assert reason in why
    body = json.loads((tmp_path / "run" / "calibration.json").read_text())
    assert {row["client"] for row in body["clients"]} == set(CLIENTS[:-1])
    assert [row["client"] for row in body["refused"]] == ["mallory"]
    assert any("calibration: " in one for one in told.entry()["reasons"])
    saw(fault, f"not counted: {why[:160]}", told.seconds)


def test_a_summary_in_anothers_name_is_refused(tmp_path: Path, saw: Saw) -> None:
    told = play(tmp_path, "query.calibrate", bent(lambda data: wire.encode(replace(wire.decode(data), client="north"))))
    (why,) = [one["reason"] for one in told.events if one.get("what") == "calibrate"]
    assert "a client speaks for itself alone" in why
    body = json.loads((tmp_path / "run" / "calibration.json").read_text())
    assert [row["client"] for row in body["clients"]].count("north") == 1
    saw("a summary in another's name", why, told.seconds)


@pytest.mark.parametrize("size", [2**32 - 1, 100_000_000])
def test_a_summary_that_would_drown_the_others_does_not_count(size: int, tmp_path: Path, saw: Saw) -> None:
    told = play(tmp_path, "query.calibrate", flood(size))
    honest = play(tmp_path / "honest", "query.calibrate", lambda message: None)
    assert told.result["levels"] == honest.result["levels"]
    why = {**told.result["left_out"], **told.result["refused"]}["mallory"]
    saw(f"a summary of {size:.0e} scores in one bin", why[:160], told.seconds)


def evaluation(**facts: object) -> Change:
    return bent(lambda data: pack_document(unpack_document(data, "evaluate")[0] | facts))


EVALUATIONS: dict[str, tuple[Change, str]] = {
    "evaluation of 1e15 rows": (evaluation(rows=10**15), "rows=1000000000000000"),
    "evaluation of -1 rows": (evaluation(rows=-1), "rows=-1"),
    "more covered than rows": (evaluation(covered=[10**6]), "cannot be"),
}


@pytest.mark.parametrize("fault", EVALUATIONS)
def test_a_bad_evaluation_does_not_count(fault: str, tmp_path: Path, saw: Saw) -> None:
    change, reason = EVALUATIONS[fault]
    told = play(tmp_path, "query.evaluate", change)
    (why,) = [one["reason"] for one in told.events if one.get("what") == "evaluate"]
    assert reason in why
    assert "mallory" not in told.result["evaluation"]["clients"]
    assert told.result["evaluation"]["rows"] == 100 * OTHERS
    saw(fault, f"not counted: {why[:160]}", told.seconds)
