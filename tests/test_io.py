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


def test_a_digest_follows_names_and_contents_and_nothing_else(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    one.write_text("a")
    two.write_text("b")
    first = io.digest({"x": one, "y": two})
    assert io.digest({"y": two, "x": one}) == first != io.digest({"x": two, "y": one})
    one.write_text("ab")
    assert io.digest({"x": one, "y": two}) != first
    with pytest.raises(OutputError, match="nowhere"):
        io.digest({"x": tmp_path / "nowhere"})


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
    assert journal.read() == (None, [])  # a header alone is nobody's
    with journal.writing({"seed": 3}, fresh=False) as writer:
        writer.append({"trial": 1})
    assert journal.read() == ({"format": "prism-fcp/trials", "schema": 1, "seed": 3}, [{"trial": 1}])


def test_a_short_write_is_continued_and_a_failed_one_leaves_the_journal_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal, write = io.Journal(tmp_path / "j.jsonl", "trials"), os.write
    with journal.writing({}, fresh=False) as writer:
        monkeypatch.setattr(os, "write", lambda handle, data: write(handle, data[:3]))
        writer.append({"trial": 0})
        room = [5]

        def filling(handle: int, data: memoryview) -> int:
            if not room[0]:
                raise OSError(28, "No space left on device")
            return room.pop() and room.insert(0, 0) or write(handle, data[:5])

        monkeypatch.setattr(os, "write", filling)
        with pytest.raises(OutputError, match="No space left on device; make room"):
            writer.append({"trial": 1})
        monkeypatch.setattr(os, "write", write)
        writer.append({"trial": 2})
    assert [record["trial"] for record in journal.read()[1]] == [0, 2]


def test_a_journal_without_a_record_is_removed_when_its_run_fails(tmp_path: Path) -> None:
    journal = io.Journal(tmp_path / "j.jsonl", "trials")
    with pytest.raises(ZeroDivisionError), journal.writing({}, fresh=False):
        raise ZeroDivisionError
    assert os.listdir(tmp_path) == []
    with pytest.raises(ZeroDivisionError), journal.writing({}, fresh=False) as writer:
        writer.append({"trial": 0})
        raise ZeroDivisionError
    assert journal.read()[1] == [{"trial": 0}]


@pytest.mark.parametrize(
    "text",
    ["9" * 5000, "[" * 20_000 + "]" * 20_000, "NaN", '{"a": Infinity}'],
    ids=["digits", "brackets", "nan", "inf"],
)
def test_what_the_parser_chokes_on_is_a_broken_file(tmp_path: Path, text: str) -> None:
    path = tmp_path / "a"
    path.write_text(text)
    with pytest.raises(DataError, match="broken JSON") as told:
        io.read_json(path, "thing")
    assert "\n" not in str(told.value) and len(str(told.value)) < 300
    if text[0] in "9[":
        path.write_text(f"x = {text}")
        with pytest.raises(DataError, match="not valid TOML"):
            io.read_toml(path)
        path.write_text(f'{{"format": "prism-fcp/trials", "schema": 1}}\n{text}\n')
        with pytest.raises(DataError, match="broken line 2"):
            io.Journal(path, "trials").read()


def test_a_byte_order_mark_is_not_a_key(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_bytes(b'\xef\xbb\xbfname = "x"\n')
    assert io.read_toml(tmp_path / "a.toml") == {"name": "x"}


def test_folders_that_are_made_are_told_and_taken_away_while_empty(tmp_path: Path) -> None:
    made = io.check_folder(tmp_path / "a" / "b")
    assert made == [tmp_path / "a" / "b", tmp_path / "a"]
    assert io.check_folder(tmp_path / "a" / "b") == []
    (tmp_path / "a" / "kept").touch()
    io.remove_empty(made)
    assert sorted(os.listdir(tmp_path / "a")) == ["kept"]
    with pytest.raises(OutputError, match="shorten the name"):
        io.check_folder(tmp_path / "c" / ("n" * 300))
    assert not (tmp_path / "c").exists()


def test_a_file_written_in_parts_appears_at_the_end(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "a"
    with pytest.raises(KeyboardInterrupt), io.replacing(path) as file:
        file.write(b"half")
        raise KeyboardInterrupt
    assert os.listdir(path.parent) == []
    with io.replacing(path) as file:
        file.write(b"whole")
        assert not path.exists()
    assert path.read_bytes() == b"whole" and os.listdir(path.parent) == ["a"]


def test_what_cannot_be_read_in_parts_is_one_line(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for name, said in (("", "a folder"), ("pipe", "no file"), ("none", "No such file")):
        with pytest.raises((DataError, OutputError), match=said), io.reading(tmp_path / name):
            pass
    (tmp_path / "a").write_text("x")
    with pytest.raises(OutputError, match="Input/output error"), io.reading(tmp_path / "a"):
        raise OSError(5, "Input/output error")  # a disk that fails midway


def test_a_generous_limit_costs_no_memory(tmp_path: Path) -> None:
    import tracemalloc

    (tmp_path / "small").write_bytes(b"x" * 3_000_000)
    tracemalloc.start()
    assert len(io.read_bytes(tmp_path / "small", 2**40)) == 3_000_000
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 20_000_000
    for limit, fits in ((3_000_000, True), (2_999_999, False), (2**20, False)):
        if fits:
            assert len(io.read_bytes(tmp_path / "small", limit)) == limit
        else:
            with pytest.raises(DataError, match=f"longer than {limit:,} bytes"):
                io.read_bytes(tmp_path / "small", limit)
