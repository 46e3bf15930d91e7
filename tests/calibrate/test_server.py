from __future__ import annotations

import multiprocessing
import os
import signal
import sqlite3
import subprocess
import sys
import textwrap
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest
from tests.calibrate.sites import NOW, scores, spec, summaries

from prism_fcp.calibrate import keep_all, server
from prism_fcp.calibrate.server import CalibrationServer
from prism_fcp.calibrate.signing import Signer, generate
from prism_fcp.calibrate.spec import CalibrationSpec
from prism_fcp.calibrate.summary import summarize
from prism_fcp.calibrate.trust import Trust
from prism_fcp.calibrate.wire import decode, digest, encode, sign
from prism_fcp.errors import DataError, OutputError, SettingError

AGREED = spec(quorum=3)
SENT = [encode(summary) for summary in summaries(scores(), AGREED)]


def opened(agreed: CalibrationSpec = AGREED, path: Path | None = None, **settings: object) -> CalibrationServer:
    return CalibrationServer(agreed, path=path, now=lambda: NOW, **settings)  # type: ignore[arg-type]


def test_summaries_in_any_order_give_one_result() -> None:
    with opened() as one, opened() as other:
        for data in SENT:
            assert one.submit(data).status == "accepted"
        for data in reversed(SENT):
            other.submit(data)
        first, second = one.finalise(), other.finalise()
    assert first.levels == second.levels and first.client_ids == second.client_ids and first.version == 1
    assert first.spec == AGREED.hash and first.model == AGREED.model


def test_a_receipt_says_what_became_of_it() -> None:
    with opened() as desk:
        receipt = desk.submit(SENT[0])
        assert receipt.to_json() == {
            "status": "accepted", "client": "site-0", "digest": digest(SENT[0]), "at": "2026-11-19T12:00:00Z",
            "late": False, "reason": "accepted",
        }  # fmt: skip
        again = desk.submit(SENT[0])
        assert again.status == "repeated" and again.accepted and "nothing changed" in again.reason
        other = summarize(np.ones(50), AGREED, "site-0", created=NOW)
        second = desk.submit(encode(other))
        assert second.status == "refused" and "a second summary" in second.reason
        broken = desk.submit(b"nonsense")
        assert broken.status == "refused" and broken.client == "" and "not a summary" in broken.reason
        assert [told.status for told in desk.receipts()] == ["accepted", "repeated", "refused", "refused"]
        assert desk.clients == ("site-0",)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"round": 2}, "another calibration"),
        ({"model": "cd" * 32}, "another calibration"),
        ({"cells": 5}, "another cal"),
    ],
)
def test_a_summary_of_another_round_is_refused(settings: dict[str, object], said: str) -> None:
    with opened(spec(**settings)) as desk:
        receipt = desk.submit(SENT[0])
    assert receipt.status == "refused" and said in receipt.reason and receipt.client == "site-0"


def test_withdrawn_bytes_never_come_back() -> None:
    with opened() as desk:
        desk.submit(SENT[0])
        with pytest.raises(SettingError, match="no summary of client 'nobody'"):
            desk.withdraw("nobody", "x")
        desk.withdraw("site-0", "wrong model")
        replay = desk.submit(SENT[0])
        assert (
            replay.status == "refused" and "a replay: withdrawn at 2026-11-19T12:00:00Z (wrong model)" in replay.reason
        )
        assert desk.submit(encode(summarize(np.ones(50), AGREED, "site-0", created=NOW))).status == "accepted"


@pytest.mark.parametrize(("late", "status"), [("accept", "accepted"), ("refuse", "refused")])
def test_what_comes_late_makes_a_new_version_or_is_refused(late: str, status: str) -> None:
    agreed = spec(quorum=3, deadline="2026-11-19T12:00:30Z", late=late)
    sent = [encode(summary) for summary in summaries(scores(), agreed)]
    clock = [NOW]
    with CalibrationServer(agreed, now=lambda: clock[-1]) as desk:
        for data in sent[:-1]:
            assert not desk.submit(data).late
        first = desk.finalise()
        clock.append(NOW + timedelta(minutes=1))
        receipt = desk.submit(sent[-1])
        assert (receipt.status, receipt.late) == (status, True) and "due by 2026-11-19T12:00:30Z" in receipt.reason
        second = desk.finalise()
        assert desk.finalise().version == second.version  # nothing new, nothing changed
    assert first.version == 1 and second.version == (2 if late == "accept" else 1)
    assert len(second.client_ids) == len(first.client_ids) + (late == "accept")
    assert ("site-7" in second.refused) == (late == "refuse")


def test_no_quorum_is_one_line() -> None:
    with opened() as desk:
        desk.submit(SENT[0])
        desk.submit(encode(replace(decode(SENT[1]), spec="0" * 64)))
        with pytest.raises(
            DataError,
            match="no quorum: 1 of 2 summaries can be used; the spec needs 3: wait for more, .*; client 'site-1'",
        ):
            desk.finalise()


def test_who_is_awaited_and_who_is_a_stranger() -> None:
    agreed = spec(clients=("site-0", "site-1", "site-2"))
    sent = [encode(summary) for summary in summaries(scores(), agreed)]
    with opened(agreed) as desk:
        assert desk.submit(sent[1]).accepted
        assert desk.awaited == ("site-0", "site-2")
        assert "unknown client 'site-5'" in desk.submit(sent[5]).reason


def test_signed_only(tmp_path: Path) -> None:
    signers = {}
    for client in ("site-0", "site-1", "site-2"):
        made = generate(tmp_path / f"{client}.pem", client)
        trust = Trust.add(tmp_path / "trust", client, made.line)
        signers[client] = Signer.load(made.path)
    own = {summary.client: summary for summary in summaries(scores(), AGREED)}
    with opened(trust=trust) as desk:
        assert "not signed" in desk.submit(encode(own["site-0"])).reason
        for client, signer in signers.items():
            assert desk.submit(encode(sign(own[client], signer))).status == "accepted"
        foreign = encode(sign(own["site-3"], signers["site-0"]))
        assert "unknown client 'site-3'" in desk.submit(foreign).reason
        stolen = encode(replace(sign(own["site-0"], signers["site-0"]), client="site-1"))
        assert desk.submit(stolen).status == "refused"
        altered = sign(own["site-0"], signers["site-0"])
        counts = altered.counts.copy()
        counts[counts.argmax()] += 1
        assert "does not fit" in desk.submit(encode(replace(altered, counts=counts))).reason
        assert len(desk.finalise().client_ids) == 3
    revoked = Trust.revoke(tmp_path / "trust", signers["site-2"].fingerprint, "laptop stolen", NOW)
    agreed = replace(AGREED, quorum=2)
    own = {summary.client: summary for summary in summaries(scores(), agreed)}
    with opened(agreed, trust=trust, path=tmp_path / "state.sqlite") as desk:
        for client, signer in signers.items():
            desk.submit(encode(sign(own[client], signer)))
    with opened(agreed, trust=revoked, path=tmp_path / "state.sqlite") as desk:  # what was accepted counts no more
        told = desk.finalise()
    assert told.client_ids == ("site-0", "site-1") and "laptop stolen" in told.refused["site-2"]


def test_the_file_is_the_spec_s_own(tmp_path: Path) -> None:
    with opened(path=tmp_path / "state.sqlite") as desk:
        desk.submit(SENT[0])
    with opened(path=tmp_path / "state.sqlite") as desk:
        assert desk.clients == ("site-0",) and desk.submit(SENT[0]).status == "repeated"
    with pytest.raises(DataError, match="belongs to another calibration"):
        opened(spec(), path=tmp_path / "state.sqlite")
    (tmp_path / "text").write_text("no database at all, and longer than a header of one would have to be" * 40)
    with pytest.raises(OutputError, match="is it an SQLite file"):
        opened(path=tmp_path / "text")
    with pytest.raises(OutputError):
        opened(path=tmp_path / "text" / "below" / "state")


def test_refusals_do_not_fill_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "MOST_REFUSALS", 5)
    with opened() as desk:
        desk.submit(SENT[0])
        for number in range(50):
            desk.submit(b"nonsense %d" % number)
        assert [told.status for told in desk.receipts()] == ["accepted", *["refused"] * 5]
        assert desk.receipts("refused")[-1].digest == digest(b"nonsense 49")


FEED = """
import sys
from pathlib import Path
from prism_fcp.calibrate.server import CalibrationServer
from prism_fcp.calibrate.spec import CalibrationSpec

folder = Path(sys.argv[1])
desk = CalibrationServer(CalibrationSpec.load(folder / "spec.json"), path=folder / "state.sqlite")
for place in sorted(folder.glob("*.summary")):
    receipt = desk.submit(place.read_bytes())
    print(receipt.client, receipt.status, flush=True)
"""


@pytest.mark.slow
def test_no_accepted_summary_is_lost_when_the_process_is_killed(tmp_path: Path) -> None:
    """Killed with SIGKILL after different numbers of receipts; what was acknowledged is always there."""
    agreed = spec()
    agreed.save(tmp_path / "spec.json")
    for place, summary in enumerate(summaries(scores(300, 20), agreed)):
        (tmp_path / f"{place:03}.summary").write_bytes(encode(summary))
    (tmp_path / "feed.py").write_text(textwrap.dedent(FEED))
    acknowledged: set[str] = set()
    for stop in (1, 2, 5, 17, 40, 90):
        process = subprocess.Popen(
            [sys.executable, str(tmp_path / "feed.py"), str(tmp_path)], stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        for _, line in zip(range(len(acknowledged) + stop), process.stdout, strict=False):
            client, status = line.split()
            assert status == ("repeated" if client in acknowledged else "accepted") or client not in acknowledged
            acknowledged.add(client)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        process.stdout.close()
        with CalibrationServer(agreed, path=tmp_path / "state.sqlite") as desk:
            held = set(desk.clients)
            assert acknowledged <= held
            assert {receipt.client for receipt in desk.receipts("accepted")} == held  # both or neither
            desk.finalise()
    with sqlite3.connect(tmp_path / "state.sqlite") as file:
        assert file.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    file.close()


def _feed(path: Path, sent: list[bytes]) -> None:
    with opened(path=path) as desk:
        for data in sent:
            desk.submit(data)


def test_two_processes_share_a_file(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=_feed, args=(tmp_path / "state.sqlite", own)) for own in (SENT, SENT[::-1])]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
        assert worker.exitcode == 0
    with opened(path=tmp_path / "state.sqlite", filter=keep_all()) as desk:
        assert len(desk.clients) == len(SENT)
        assert len(desk.receipts("accepted")) == len(SENT) == len(desk.receipts("repeated"))
