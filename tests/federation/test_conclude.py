"""Calibration and evaluation when clients misbehave: each speaks for itself alone, and the audit names who did not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("flwr")

from flwr.app import ConfigRecord, Message, RecordDict  # noqa: E402

from prism_fcp import io  # noqa: E402
from prism_fcp.calibrate import wire  # noqa: E402
from prism_fcp.calibrate.signing import generate  # noqa: E402
from prism_fcp.calibrate.trust import Trust  # noqa: E402
from prism_fcp.errors import SettingError  # noqa: E402
from prism_fcp.federation.grid import InProcessGrid  # noqa: E402
from prism_fcp.federation.payload import pack_document, unpack_document  # noqa: E402
from prism_fcp.federation.showing import clients as shown  # noqa: E402
from prism_fcp.federation.showing import outcome  # noqa: E402
from tests.federation.small import NAMES, agreement, events, play, pulls  # noqa: E402

LIAR = "coast"


def bending(kind: str, change: Callable[[bytes], bytes]) -> type[InProcessGrid]:
    """Return a grid on which the last client's answers to one kind of message are changed."""

    class Bent(InProcessGrid):
        def _answer(self, message: Message) -> Message:
            reply = super()._answer(message)
            if message.metadata.dst_node_id == len(NAMES) and message.metadata.message_type == f"query.{kind}":
                data = reply.content["p"]["b"]
                assert isinstance(data, bytes)
                reply.content = RecordDict({"p": ConfigRecord({"b": change(data)})})
            return reply

    return Bent


def renamed(data: bytes) -> bytes:
    return wire.encode(replace(wire.decode(data), client="north"))


def of_another_model(data: bytes) -> bytes:
    return wire.encode(replace(wire.decode(data), model="f" * 64))


SUMMARIES: list[tuple[Callable[[bytes], bytes], str]] = [
    (renamed, "its summary says it is 'north''s; a client speaks for itself alone"),
    (of_another_model, "model"),
    (lambda data: data[:-1], "not a summary"),
    (lambda data: b"", "not a summary"),
    (lambda data: bytes(wire.MOST_BYTES + 1), "are looked at"),
]


@pytest.mark.parametrize(("change", "why"), SUMMARIES)
def test_a_summary_that_is_none_of_its_client_s_is_named_in_the_audit(
    change: Callable[[bytes], bytes], why: str, tmp_path: Path
) -> None:
    told = play(agreement(), tmp_path, grid=bending("calibrate", change))
    body = io.read_json(tmp_path / "calibration.json", "calibration")
    assert {row["client"] for row in body["clients"]} == set(NAMES) - {LIAR}
    (refused,) = body["refused"]
    assert refused["client"] == LIAR and why in refused["reason"]
    assert why in told["refused"][LIAR] and LIAR not in told["kept"]
    assert any(one["event"] == "refused" and one.get("what") == "calibrate" for one in events(tmp_path))
    (heard,) = [one for one in events(tmp_path) if one["event"] == "calibrated"]
    assert (heard["clients"], heard["refused"]) == (len(NAMES) - 1, 1)
    line = next(line for line in shown(told).splitlines() if line.startswith(LIAR))
    assert "refused" in line and "kept" not in line
    assert LIAR in (tmp_path / "page.html").read_text()
    # Its test rows count for nobody but itself.
    assert told["evaluation"]["rows"] == 40 * (len(NAMES) - 1)


def counted(**changes: Any) -> Callable[[bytes], bytes]:
    return lambda data: pack_document(unpack_document(data, "it")[0] | changes)


EVALUATIONS = [
    (counted(rows=0), "rows=0; must lie in 1..1,000,000,000,000"),
    (counted(rows=10**15), "rows=1000000000000000"),
    (counted(rows=True), "rows=True"),
    (counted(covered=[41]), "covered=[41] of 40 rows cannot be"),
    (counted(covered=[-1]), "covered=[-1] of 40 rows cannot be"),
    (counted(covered=[True]), "cannot be"),
    (counted(covered=[1, 2]), "must be a count for each of 1 levels"),
    (counted(covered=None), "must be a count for each"),
    (counted(error=-1), "error=-1; must be a number in 0..1e+300"),
    (counted(error=True), "error=True"),
    (counted(error=10**400), "error=1000"),
    (counted(error="x"), "error='x'"),
    (lambda data: b"\x02\0\0\0{}", "rows=None"),
    (lambda data: b"", "evaluation: a header"),
]


@pytest.mark.parametrize(("change", "why"), EVALUATIONS)
def test_counts_that_cannot_be_are_refused(change: Callable[[bytes], bytes], why: str, tmp_path: Path) -> None:
    told = play(agreement(), tmp_path, grid=bending("evaluate", change))
    (reason,) = [one["reason"] for one in events(tmp_path) if one.get("what") == "evaluate"]
    assert why in reason
    assert told["evaluation"]["rows"] == 40 * (len(NAMES) - 1) and LIAR not in told["evaluation"]["clients"]
    assert LIAR in told["kept"]


def fails() -> Any:
    raise KeyError("row 17: Jane Doe")


def test_a_site_whose_scores_and_evaluation_fail_stops_nobody(tmp_path: Path) -> None:
    told = play(agreement(), tmp_path, pulls({LIAR: {"scores": fails, "evaluate": fails}}))
    assert told["refused"][LIAR].endswith("says: the site's scores failed (KeyError); its own log says why")
    assert set(told["kept"]) == set(NAMES) - {LIAR}
    written = "".join(path.read_text() for path in tmp_path.iterdir() if path.suffix in (".json", ".jsonl", ".html"))
    assert "Jane" not in written


def signers(folder: Path, known: tuple[str, ...]) -> tuple[Trust, dict[str, dict[str, Any]]]:
    (folder / "trust").mkdir()
    for name in NAMES:
        made = generate(folder / f"{name}.pem", name)
        if name in known:
            Trust.add(folder / "trust", name, made.line)
    return Trust.load(folder / "trust"), {name: {"key": str(folder / f"{name}.pem")} for name in NAMES}


def test_signed_summaries_and_who_has_no_key(tmp_path: Path) -> None:
    trust, settings = signers(tmp_path, NAMES[:-1])
    signed = replace(agreement().calibration, signed=True)
    told = play(agreement(calibration=signed), tmp_path / "run", trust=trust, settings=settings)
    assert set(told["kept"]) == set(NAMES) - {LIAR}
    assert any(one["event"] == "node refused" and "no key of it" in one["reason"] for one in events(tmp_path / "run"))


def test_an_unsigned_summary_is_refused_where_they_are_signed(tmp_path: Path) -> None:
    trust, settings = signers(tmp_path, NAMES)

    def unsigned(data: bytes) -> bytes:
        return wire.encode(replace(wire.decode(data), signature="", key=""))

    signed = replace(agreement().calibration, signed=True)
    told = play(
        agreement(calibration=signed), tmp_path / "run", trust=trust, settings=settings,
        grid=bending("calibrate", unsigned),
    )  # fmt: skip
    assert "not signed" in told["refused"][LIAR] and set(told["kept"]) == set(NAMES) - {LIAR}


def test_signed_without_a_trust_folder_is_refused_before_anything_begins(tmp_path: Path) -> None:
    signed = replace(agreement().calibration, signed=True)
    with pytest.raises(SettingError, match="signed = true, but no trust folder is given"):
        play(agreement(calibration=signed), tmp_path)


def test_the_model_s_stretches_are_written_by_name(tmp_path: Path) -> None:
    play(agreement(), tmp_path)
    with np.load(tmp_path / "model.npz") as found:
        assert {name: found[name].shape for name in found.files} == {"one": (3,), "two": (5,)}


def test_the_training_ledger_names_clients_and_says_how_it_stands_with_them() -> None:
    told = {
        "name": "x", "rounds": 3, "parameters": 4, "num_shared": 2, "rule": "table", "protocol": "asked for",
        "bytes_up": 1, "bytes_down": 1, "levels": [{"confidence_level": 0.9, "radius": 1.0}], "turned_away": [],
        "evaluation": {"levels": [{"confidence_level": 0.9, "coverage": 0.9}], "rows": 10, "clients": {}},
        "roster": [{"client": "east", "samples": 9, "answers": 3, "refused": 0, "silent": 0}],
        "training_ledger": {"east": "back in; its averaged uploads lie 1.4 times as far"},
        "left_out": {"east": "left out: far"}, "refused": {},
    }  # fmt: skip
    text = outcome(told, Path("runs"))
    assert "east, in training: back in; its averaged uploads" in text  # both judgements stand, neither hides the other
    assert "east: left out: far" in text
    (row,) = [line for line in text.splitlines() if line.startswith("east ")]
    assert "back in" in row and "left out" in row
