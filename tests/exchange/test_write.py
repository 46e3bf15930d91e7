"""A table of predictions comes back as it was given, or the file that stood there stays."""

from __future__ import annotations

import csv
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from prism_fcp.data.columns import open_columns
from prism_fcp.errors import DataError, OutputError, SettingError
from prism_fcp.exchange.write import SUFFIXES, write_table

NAMES = ["id", "prediction", "lower_90"]


def blocks(rows: int = 10) -> Iterator[tuple[np.ndarray[Any, Any], ...]]:
    """Three columns in blocks of four rows."""
    point = np.random.default_rng(5).normal(size=rows) * 10.0 ** np.arange(rows)
    for first in range(0, rows, 4):
        part = slice(first, min(first + 4, rows))
        yield np.arange(rows)[part], point[part], (point / 3)[part]


@pytest.mark.parametrize("suffix", [*SUFFIXES, ".CSV"])
def test_numbers_come_back_to_the_last_digit(tmp_path: Path, suffix: str) -> None:
    if suffix == ".parquet":
        pytest.importorskip("pyarrow")
    path = tmp_path / f"deep/a{suffix}"
    assert write_table(path, NAMES, blocks()) == 10
    assert os.listdir(path.parent) == [path.name]
    read = open_columns(path, ["0", "1", "2"] if suffix == ".npy" else NAMES)
    found = np.concatenate([np.stack(part) for part in read], axis=1)
    assert found.tobytes() == np.concatenate([np.stack(part) for part in blocks()], axis=1).tobytes()


def test_numpy_and_pyarrow_read_what_is_written(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    write_table(tmp_path / "a.npy", NAMES, blocks())
    assert np.load(tmp_path / "a.npy", allow_pickle=False).shape == (10, 3)
    words = (np.array(["a", "ü"]), np.array([1.5, np.inf], dtype=np.float32), np.array([2, 3], dtype=np.uint8))
    write_table(tmp_path / "a.parquet", NAMES, [words, tuple(part[:0] for part in words), words])
    table = parquet.read_table(tmp_path / "a.parquet")
    assert list(map(str, table.schema.types)) == ["string", "double", "uint64"]
    assert table.column("prediction").to_pylist() == [1.5, np.inf] * 2


def test_text_is_quoted_where_it_must_be(tmp_path: Path) -> None:
    words = ["plain", "a,b", 'say "x"', "two\nlines", "", " edge", "ü;", "tab\t"]
    for suffix, delimiter in ((".csv", ","), (".tsv", "\t")):
        write_table(tmp_path / f"a{suffix}", ["who, where", "x"], [(words, range(8))])
        with (tmp_path / f"a{suffix}").open(newline="", encoding="utf-8") as file:
            rows = list(csv.reader(file, delimiter=delimiter, strict=True))
        assert rows == [["who, where", "x"], *([word, str(x)] for x, word in enumerate(words))]


def test_infinite_ends_are_written(tmp_path: Path) -> None:
    write_table(tmp_path / "a.csv", ["lower", "upper"], [([-np.inf], [np.inf])])
    assert (tmp_path / "a.csv").read_text() == "lower,upper\n-inf,inf\n"


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_no_rows_give_an_empty_table(tmp_path: Path, suffix: str) -> None:
    if suffix == ".parquet":
        pytest.importorskip("pyarrow")
    assert write_table(tmp_path / f"a{suffix}", NAMES, []) == 0
    with pytest.raises(DataError, match="0 rows"):
        list(open_columns(tmp_path / f"a{suffix}", "0" if suffix == ".npy" else "id"))


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("failure", [KeyboardInterrupt, ZeroDivisionError, OSError(28, "No space left on device")])
def test_an_interruption_leaves_what_was_there(tmp_path: Path, suffix: str, failure: Any) -> None:
    if suffix == ".parquet":
        pytest.importorskip("pyarrow")
    path = tmp_path / f"a{suffix}"

    def interrupted() -> Iterator[tuple[np.ndarray[Any, Any], ...]]:
        yield from blocks()
        raise failure

    with pytest.raises(OutputError if isinstance(failure, OSError) else failure):
        write_table(path, NAMES, interrupted())
    assert os.listdir(tmp_path) == []
    path.write_text("old")
    with pytest.raises(OutputError if isinstance(failure, OSError) else failure):
        write_table(path, NAMES, interrupted())
    assert os.listdir(tmp_path) == [path.name] and path.read_text() == "old"


@pytest.mark.parametrize(
    ("name", "columns", "block", "said"),
    [
        ("a.xlsx", ["x"], [[1.0]], "unknown kind of file '.xlsx'; known: .csv"),
        ("a.csv", [], [], "at least one, each name once"),
        ("a.csv", ["x", "x"], [[1.0], [1.0]], "at least one, each name once"),
        ("a.csv", ["x", "y"], [[1.0]], "1 array for 2 columns"),
        ("a.csv", ["x", "y"], [[1.0], [1.0, 2.0]], r"column 'y' has shape \(2,\); \(1,\) is needed"),
        ("a.csv", ["x"], [[[1.0]]], r"column 'x' has shape \(1, 1\)"),
        ("a.csv", ["x"], [[1j]], "column 'x' holds complex128"),
        ("a.csv", ["x"], [np.array([None])], "column 'x' holds object"),
        ("a.npy", ["x"], [["a"]], "holds text, .npy numbers only"),
    ],
)
def test_what_cannot_be_written(tmp_path: Path, name: str, columns: list[str], block: Any, said: str) -> None:
    with pytest.raises((DataError, SettingError), match=said):
        write_table(tmp_path / name, columns, [block])
    assert os.listdir(tmp_path) == []


def test_a_column_keeps_its_type(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="columns of kinds 'f' after 'i'"):
        write_table(tmp_path / "a.csv", ["x"], [([1],), ([0.5],)])
