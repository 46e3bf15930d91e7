"""Events reach the file, the hooks and the terminal; what fails on the way is told and stops nothing."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prism_fcp import lines
from prism_fcp.errors import DataError, OutputError, PrismError
from prism_fcp.federation.events import Events, listening, read


def test_a_hook_that_fails_is_told_of_once_and_not_called_again(tmp_path: Path) -> None:
    heard, calls = [], []

    def good(event: Mapping[str, Any]) -> None:
        heard.append(event["event"])

    def bad(event: Mapping[str, Any]) -> None:
        calls.append(event["event"])
        raise ZeroDivisionError("tracker")

    events = Events(tmp_path / "run" / "events.jsonl", [bad, good])
    for name in ("a", "b"):
        events.tell(name)
    told, _ = read(tmp_path / "run" / "events.jsonl")
    assert calls == ["a"] and sorted(heard) == ["a", "b", "hook failed"]
    assert [one["event"] for one in told] == ["a", "hook failed", "b"]
    assert told[1]["hook"] == "bad" and told[1]["reason"] == "ZeroDivisionError: tracker"


def test_a_hook_may_stop_the_run_in_words_of_ours(tmp_path: Path) -> None:
    def stop(event: Mapping[str, Any]) -> None:
        raise PrismError("enough")

    with pytest.raises(PrismError, match="enough"):
        Events(None, [stop]).tell("a")


def test_whoever_listens_hears_runs_that_begin_meanwhile() -> None:
    heard: list[Mapping[str, Any]] = []
    with listening(heard.append):
        events = Events()
    Events().tell("later")
    events.tell("a", number=3)
    assert [(one["event"], one["number"]) for one in heard] == [("a", 3)]


@given(
    st.lists(st.dictionaries(st.text(max_size=5), st.text(max_size=9) | st.integers()), max_size=8), st.integers(0, 9)
)
def test_lines_are_read_along_while_they_are_written(
    tmp_path_factory: pytest.TempPathFactory, records: list[dict[str, Any]], half: int
) -> None:
    path = tmp_path_factory.mktemp("lines") / "events.jsonl"
    found, since = [], 0
    for record in records:
        lines.append(path, record)
        with path.open("ab") as file:
            file.write(b'{"half": "' + b"x" * half)  # a writer that was killed
        more, since = lines.read(path, since)
        found += more
    assert found == records


def test_half_a_line_of_any_length_is_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.write_bytes(b'{"a":1}\n' + b"y" * (2 * lines.BLOCK + 3))
    lines.append(path, {"b": 2})
    assert path.read_bytes() == b'{"a":1}\n{"b":2}\n'
    path.write_bytes(b"z" * (lines.BLOCK + 1))
    lines.append(path, {"b": 2})
    assert lines.read(path) == ([{"b": 2}], 8)


def test_what_cannot_be_read_or_written_says_which_file(tmp_path: Path) -> None:
    (tmp_path / "events.jsonl").write_text("{]\n")
    with pytest.raises(DataError, match=r"events.jsonl: a broken line"):
        lines.read(tmp_path / "events.jsonl")
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match="cannot write .*; choose another folder"):
        lines.append(tmp_path / "file" / "events.jsonl", {})
    assert lines.read(tmp_path / "none", 7) == ([], 7)


def test_events_are_lines_of_ascii(tmp_path: Path) -> None:
    Events(tmp_path / "e").tell("refused", reason="\x1b[31m ü\n")
    (line,) = (tmp_path / "e").read_bytes().splitlines()
    assert line.isascii() and json.loads(line)["reason"] == "\x1b[31m ü\n"
