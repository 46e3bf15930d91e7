"""Files appear whole or not at all, and a broken one is one line with its path."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from prism_fcp import io
from prism_fcp.errors import DataError, OutputError


def test_a_written_file_comes_back(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "a.json"
    io.write_json(path, "thing", {"x": [1, None, "ü"]})
    assert io.read_json(path, "thing")["x"] == [1, None, "ü"]
    assert os.listdir(path.parent) == ["a.json"]  # no temporary file stays


def test_a_failed_write_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.txt"
    io.write_text(path, "old")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OutputError, match="No space left") as told:
        io.write_text(path, "new")
    assert "\n" not in str(told.value) and str(path) in str(told.value)
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["a.txt"]


def test_json_is_strict(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="JSON"):
        io.write_json(tmp_path / "a.json", "thing", {"x": float("nan")})
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "broken JSON"),
        ("[]", "expected 'prism-fcp/thing'"),
        ('{"format": "prism-fcp/other", "schema": 1}', "expected 'prism-fcp/thing'"),
        ('{"format": "prism-fcp/thing", "schema": 99}', "schema 99"),
    ],
)
def test_a_wrong_file_is_refused_by_name(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "a.json"
    path.write_text(text)
    with pytest.raises(DataError, match=said) as told:
        io.read_json(path, "thing")
    assert str(path) in str(told.value)


def test_binary_and_missing_files(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(DataError, match="UTF-8"):
        io.read_toml(tmp_path / "a.toml")
    with pytest.raises(OutputError, match="No such file"):
        io.read_toml(tmp_path / "b.toml")


def test_a_file_where_a_folder_should_be(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("")
    with pytest.raises(OutputError, match="--out"):
        io.check_folder(tmp_path / "taken" / "results")


def test_a_torn_last_line_is_dropped_and_written_over(tmp_path: Path) -> None:
    journal = io.Journal(tmp_path / "j.jsonl", "trials")
    with journal.writing({"seed": 1}, fresh=False) as writer:
        writer.append({"trial": 0})
    with (tmp_path / "j.jsonl").open("a") as file:
        file.write('{"trial": 1, "cel')  # the machine went down here
    header, records = journal.read()
    assert header is not None and header["seed"] == 1 and records == [{"trial": 0}]
    with journal.writing({"seed": 1}, fresh=False) as writer:
        writer.append({"trial": 1})
    assert [record["trial"] for record in journal.read()[1]] == [0, 1]


def test_a_broken_line_inside_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "j.jsonl").write_text('{"format": "prism-fcp/trials", "schema": 1}\n{"tri\n{"trial": 1}\n')
    with pytest.raises(DataError, match="--fresh"):
        io.Journal(tmp_path / "j.jsonl", "trials").read()


def test_fresh_empties_and_two_writers_do_not_mix(tmp_path: Path) -> None:
    journal = io.Journal(tmp_path / "j.jsonl", "trials")
    with journal.writing({}, fresh=False) as writer:
        writer.append({"trial": 0})
        with pytest.raises(OutputError, match="another run"), journal.writing({}, fresh=True):
            pass
    with journal.writing({"seed": 2}, fresh=True):
        pass
    assert journal.read() == ({"format": "prism-fcp/trials", "schema": 1, "seed": 2}, [])
