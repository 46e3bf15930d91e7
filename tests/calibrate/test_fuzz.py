"""A short run of `python -m tests.fuzz`, and whether it would notice."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.fuzz import campaign as running
from tests.fuzz.campaign import campaign, make
from tests.fuzz.mutations import MUTATIONS
from tests.fuzz.valid import accept_all

from prism_fcp.calibrate import wire
from prism_fcp.calibrate.keys import PublicKey
from prism_fcp.calibrate.summary import ClientSummary


def test_mutated_summaries_do_no_harm(tmp_path: Path) -> None:
    report = campaign(3, range(2000))
    assert report.failures == []
    assert report.cases == 2000 and set(report.kinds) == set(MUTATIONS)
    assert sum(told["unsigned taken"] for told in report.kinds.values()) > 30
    assert sum(told["signed taken"] for told in report.kinds.values()) > 10
    assert campaign(3, range(2000, 2100), tmp_path).failures == []  # the second batch keeps its state in files
    assert list(tmp_path.iterdir())


def test_valid_summaries_of_every_shape_are_taken(tmp_path: Path) -> None:
    report = accept_all(3, 150, tmp_path)
    assert report.cases == 150 and report.failures == []


def test_a_case_can_be_made_again() -> None:
    assert make(1, 77) == make(1, 77) and make(1, 77) != make(2, 77)


def lenient(data: bytes) -> ClientSummary:
    """Decode as `wire.decode` does, without asking for the canonical form."""
    try:
        return wire._decode(data)
    except (ValueError, KeyError, TypeError, RecursionError, OverflowError) as error:
        raise wire.DataError(str(error)) from error


def hasty(data: bytes) -> ClientSummary:
    """Decode without catching what the parts of a header may be."""
    return wire._decode(data)


@pytest.mark.parametrize(("decode", "said"), [(lenient, "decode accepted"), (hasty, "decode: ")])
def test_the_fuzz_notices_a_weaker_decode(monkeypatch: pytest.MonkeyPatch, decode: Any, said: str) -> None:
    monkeypatch.setattr(running, "decode", decode)
    assert any(said in failure for failure in campaign(3, range(400)).failures)


def test_the_fuzz_notices_signatures_that_nobody_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PublicKey, "fits", lambda *_: True)
    assert any("signed" in failure and "accepted" in failure for failure in campaign(3, range(400)).failures)
