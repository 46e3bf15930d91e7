"""The superconductivity table: found, checked, cached; its twin always at hand."""

from __future__ import annotations

import io as memory
import urllib.error
import urllib.request
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from prism_fcp.data import superconductivity as data
from prism_fcp.errors import DataError


def csv_of(table: Any) -> bytes:
    text = memory.StringIO()
    np.savetxt(
        text, np.column_stack([table.features, table.target]), "%.6g", ",", comments="",
        header=",".join([*table.names, data.TARGET]),
    )  # fmt: skip
    return text.getvalue().encode()


def scaled() -> Any:
    """A made-up table with the published size and target moments, which is all that can be checked without rows."""
    made = data.twin()
    target = (made.target - made.target.mean()) / made.target.std() * data.SD + data.MEAN
    return data.Table(made.features, target, made.names, data.TARGET)


class Answer(memory.BytesIO):
    def __init__(self, content: bytes) -> None:
        super().__init__(content)
        self.headers = {"Content-Length": str(len(content))}


@pytest.fixture
def no_variable(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.delenv(data.VARIABLE, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path


def archive_of(content: bytes, name: str = data.MEMBER) -> bytes:
    packed = memory.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(name, content)
    return packed.getvalue()


def test_the_real_table(superconductivity: Path) -> None:
    """With the variable set this runs, and a file that cannot be read makes it red."""
    table = data.load()
    assert table.features.shape[1] == data.FEATURES and len(table.target) >= 21_000
    assert abs(table.target.mean() - data.MEAN) < 0.2


def test_the_twin_has_the_tables_shape_and_is_the_same_each_time() -> None:
    twin = data.twin()
    assert twin.features.shape == (data.ROWS, data.FEATURES) and twin.target_name == data.TARGET
    assert (twin.target > 0).all() and np.median(twin.target) < twin.target.mean()
    correlations = np.abs(np.corrcoef(twin.features[:, :20].T) - np.eye(20))
    assert correlations.max() > 0.5
    np.testing.assert_array_equal(twin.target[:5], data.twin().target[:5])


def test_it_is_downloaded_once_and_kept(no_variable: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    packed, asked, told = archive_of(csv_of(scaled())), [], []
    monkeypatch.setattr(urllib.request, "urlopen", lambda address, timeout: asked.append(address) or Answer(packed))
    first = data.load(progress=lambda done, total: told.append((done, total)))
    again = data.load()
    assert asked == [data.ADDRESS] and len(first.target) == data.ROWS
    np.testing.assert_array_equal(first.target, again.target)
    assert (len(packed), len(packed)) in told


def test_a_cache_that_changed_is_refused(no_variable: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    packed = archive_of(csv_of(scaled()))
    monkeypatch.setattr(urllib.request, "urlopen", lambda address, timeout: Answer(packed))
    kept = data.located()
    kept.write_bytes(kept.read_bytes().replace(b"1", b"2", 1))
    with pytest.raises(DataError, match="is not what was downloaded .* delete it and run again"):
        data.load()


@pytest.mark.parametrize(
    "answer",
    [urllib.error.URLError("Name or service not known"), TimeoutError("timed out"), b"<html>", archive_of(b"", "x")],
    ids=["no network", "slow network", "no archive", "another archive"],
)
def test_without_network_one_line_says_how_to_get_it(
    no_variable: Path, monkeypatch: pytest.MonkeyPatch, answer: Any
) -> None:
    def urlopen(address: str, timeout: float) -> Any:
        if isinstance(answer, Exception):
            raise answer
        return Answer(answer)

    monkeypatch.setattr(urllib.request, "urlopen", urlopen)
    with pytest.raises(DataError) as told:
        data.load()
    line = str(told.value)
    assert "\n" not in line and "--data FILE, or PRISM_FCP_SUPERCONDUCTIVITY=FILE" in line and "UCI 464" in line
    assert not data.cache_folder().exists() or not any(data.cache_folder().iterdir())


def test_a_file_that_is_not_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(data.VARIABLE, str(tmp_path / "gone.csv"))
    with pytest.raises(DataError, match=r"gone\.csv: no such file; get superconductivity data"):
        data.load()
    with pytest.raises(DataError, match=r"other\.npz: no such file; get"):
        data.load(tmp_path / "other.npz")


def test_another_table_is_told_from_it(tmp_path: Path) -> None:
    path = tmp_path / "train.csv"
    path.write_bytes(csv_of(data.twin(300)))
    with pytest.raises(DataError, match=r"300 rows, 81 features, .* superconductivity data have 21,263, 81"):
        data.load(path)
