"""Columns come back as they were written, from every kind of file; a bad cell is named; memory stays bounded."""

from __future__ import annotations

import csv
import gzip
import io
import math
import os
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prism_fcp.data import delimited, wanted
from prism_fcp.data.columns import open_columns
from prism_fcp.errors import DataError, MissingExtraError, PrismError, SettingError

Y = np.array([0.1, -2.5, 1e300, 5e-324, 0.0])
P = np.array([1 / 3, 2.0, -1e-7, 123456789.123456789, -0.0])
WHO = ["north", "south, west", "Zürich", "a_1", "7"]


def read(path: Path, columns: Any = None, **settings: Any) -> list[list[Any]]:
    """Return whole columns as lists."""
    blocks = list(open_columns(path, columns, **settings))
    return [[value for part in column for value in part.tolist()] for column in zip(*blocks, strict=True)]


def refused(path: Path, columns: Any = None, **settings: Any) -> str:
    """Return the one line with which a file is refused, without its path."""
    with pytest.raises(DataError) as told:
        read(path, columns, **settings)
    line = str(told.value)
    assert "\n" not in line and len(line) < 300 and str(path) in line
    return line.replace(f"{path}: ", "")


def put(path: Path, text: str | bytes) -> Path:
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def write_csv(path: Path, delimiter: str = ",", end: str = "\n", start: str = "", quoted: bool = False) -> None:
    text = io.StringIO()
    quoting = csv.QUOTE_ALL if quoted else csv.QUOTE_MINIMAL
    writer = csv.writer(text, delimiter=delimiter, lineterminator=end, quoting=quoting)
    writer.writerows([("id", "y", "prediction", "client"), *zip(range(5), Y.tolist(), P.tolist(), WHO, strict=True)])
    whole = (start + text.getvalue()).encode()
    path.write_bytes(gzip.compress(whole) if path.suffix == ".gz" else whole)


def write_parquet(path: Path) -> None:
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    client = arrow.array(WHO).dictionary_encode()
    table = arrow.table({"id": np.arange(5), "y": Y, "prediction": P, "client": client})
    parquet.write_table(table, path, row_group_size=2)


KINDS: dict[str, Callable[[Path], None]] = {
    "plain.csv": write_csv,
    "semicolon.csv": lambda path: write_csv(path, ";"),
    "excel.csv": lambda path: write_csv(path, ";", "\r\n", "\ufeff"),
    "old-mac.csv": lambda path: write_csv(path, end="\r"),
    "quoted.csv": lambda path: write_csv(path, quoted=True),
    "quoted-semicolon.csv": lambda path: write_csv(path, ";", quoted=True),
    "TABS.TSV": lambda path: write_csv(path, "\t"),
    "packed.csv.gz": write_csv,
    "a.npz": lambda path: np.savez(path, y=Y, prediction=P, client=np.array(WHO), id=np.arange(5)),
    "packed.npz": lambda path: np.savez_compressed(path, y=Y, prediction=P, client=np.array(WHO)),
    "a.parquet": write_parquet,
}


@pytest.mark.parametrize("block", [1, 2, 5, 65_536])
@pytest.mark.parametrize("name", KINDS)
def test_columns_come_back_to_the_last_digit(tmp_path: Path, name: str, block: int) -> None:
    KINDS[name](tmp_path / name)
    blocks = list(open_columns(tmp_path / name, ["prediction", "client", "y"], text=["client"], block=block))
    assert all(1 <= len(column) <= block for part in blocks for column in part)
    prediction, client, y = (np.concatenate(parts) for parts in zip(*blocks, strict=True))
    assert prediction.dtype == y.dtype == np.float64 and client.dtype.kind == "U"
    assert prediction.tobytes() == P.tobytes() and y.tobytes() == Y.tobytes() and client.tolist() == WHO


@pytest.mark.parametrize("name", KINDS)
def test_every_kind_says_what_it_lacks(tmp_path: Path, name: str) -> None:
    KINDS[name](tmp_path / name)
    assert refused(tmp_path / name, ["predictoin"]) == "no column 'predictoin'; did you mean 'prediction'?"
    assert "say which to read" in refused(tmp_path / name)
    assert "client" in refused(tmp_path / name, ["y", "client"])


@pytest.mark.parametrize("name", KINDS)
def test_progress_grows_to_the_whole(tmp_path: Path, name: str) -> None:
    KINDS[name](tmp_path / name)
    told: list[tuple[int, int]] = []
    read(tmp_path / name, "y", block=2, progress=lambda done, total: told.append((done, total)))
    assert told == sorted(told) and told[-1][0] == told[-1][1] > 0


@pytest.mark.parametrize("dtype", ["<f8", ">f8", "<f4", "<f2", "<i8", ">i2", "|u1", np.longdouble])
@pytest.mark.parametrize("order", ["C", "F"])
def test_a_npy_table_of_any_numbers(tmp_path: Path, dtype: Any, order: Any) -> None:
    table = np.asarray(np.arange(21).reshape(7, 3), dtype=dtype, order=order)
    np.save(tmp_path / "a.npy", table)
    assert read(tmp_path / "a.npy", ["2", "0"], block=3) == [table[:, 2].tolist(), table[:, 0].tolist()]
    np.save(tmp_path / "b.npy", np.ascontiguousarray(table[:, 1]))
    assert read(tmp_path / "b.npy", block=3) == read(tmp_path / "b.npy", ["0"]) == [table[:, 1].tolist()]


def test_blocks_may_be_written_to(tmp_path: Path) -> None:
    for name, write in KINDS.items():
        write(tmp_path / name)
        for y, prediction in open_columns(tmp_path / name, ["y", "prediction"]):
            np.subtract(y, prediction, out=y)  # refused where an array is a view of foreign bytes


@given(
    rows=st.lists(
        st.tuples(
            st.floats(allow_nan=False, allow_infinity=False),
            st.text(st.sampled_from('ab ",;\t\nü_'), max_size=6),
            st.integers(-(2**60), 2**60),
        ),
        min_size=1,
        max_size=30,
    ),
    delimiter=st.sampled_from([",", ";", "\t"]),
    end=st.sampled_from(["\n", "\r\n"]),
    piece=st.integers(1, 40),
)
def test_any_table_is_read_as_the_csv_module_reads_it(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[float, str, int]], delimiter: str, end: str, piece: int
) -> None:
    text = io.StringIO()
    csv.writer(text, delimiter=delimiter, lineterminator=end).writerows([("x", "note", "n"), *rows])
    path = put(tmp_path_factory.mktemp("any") / "a.csv", text.getvalue())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(delimited, "PIECE", piece)  # rows are cut at every place
        x, n = read(path, ["x", "n"], block=7)
    assert x == [row[0] for row in rows] and n == [float(row[2]) for row in rows]


@pytest.mark.parametrize("piece", [5, 2**18])
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "empty file; a header and one row for each score are needed"),
        ("\n\n", "empty file; a header and one row for each score are needed"),
        ("y\n", "0 rows; at least one score is needed"),
        ("y", "0 rows; at least one score is needed"),
        ("y\n\n\n", "0 rows; at least one score is needed"),
        ("0.5\n0.6\n", "the first row holds '0.5'; it must be a header, with names of columns"),
        ("x\n1\n", "no column 'y'; known: x"),
        ("y,y\n1,2\n", "2 columns are called 'y'; rename all but one"),
        ("y\n1\n2\nn/a\n4\n", "row 3, column 'y': 'n/a' is no number; mend or drop this row"),
        ('y\n"1"\n2\n"n/a"\n4\n', "row 3, column 'y': 'n/a' is no number; mend or drop this row"),
        ("y\n1_000\n", "row 1, column 'y': '1_000' is no number; mend or drop this row"),
        ("a;y\n1;2,5\n", "row 1, column 'y': '2,5' is no number; write decimals with a point"),
        ("y\n1\nnan\n", "row 2, column 'y': 'nan' is no finite number; mend or drop this row"),
        ("y\n1\n-inf\n", "row 2, column 'y': '-inf' is no finite number; mend or drop this row"),
        ("y\n1e999\n", "row 1, column 'y': '1e999' is no finite number; mend or drop this row"),
        ("a,y\n1,2\n1,\n", "row 2, column 'y': empty; a number is needed"),
        ("a,y\n1,2\n,  \n", "row 2, column 'y': empty; a number is needed"),
        ("y\n1\n\n2\n", "row 2 is empty, and others follow; fill or remove it"),
        ("a,y\n1,2\n\n\n3,4\n", "row 2 is empty, and others follow; fill or remove it"),
        ("a,y\n1,2\n1,2,3\n", "row 2 has 3 cells, the header 2; check its delimiters and quotation marks"),
        ("a,y\n1,2\n1\n", "row 2 has 1 cell, the header 2; check its delimiters and quotation marks"),
        ("a,y\n1,2\n1\n1,2,3\n", "row 2 has 1 cell, the header 2; check its delimiters and quotation marks"),
        ('a,y\n1,2\n"x,3\n', "row 2: unexpected end of data; check its quotation marks"),
        ('"y\n1\n', "the header cannot be read (unexpected end of data); check its quotation marks"),
        (b"y\n\xff\xfe\n", "not a UTF-8 text file; is it the right file? if so, save it as UTF-8"),
        ("y\n" + "9" * 400 + "\n", f"row 1, column 'y': '{'9' * 36}... is no finite number; mend or drop this row"),
    ],
)
def test_a_text_file_is_refused_by_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str | bytes, said: str, piece: int
) -> None:
    monkeypatch.setattr(delimited, "PIECE", piece)
    assert refused(put(tmp_path / "a.csv", text), ["y"] if said[:2] != "th" else None) == said


def test_the_row_that_is_named_counts_over_pieces(tmp_path: Path) -> None:
    lines = ["0.25,a"] * 200_000
    lines[123_456] = "x,b"
    assert refused(put(tmp_path / "a.csv", "y,c\n" + "\n".join(lines)), "y").startswith("row 123,457, column 'y': 'x'")
    lines[123_456] = '"0.5","b"'
    values = read(put(tmp_path / "a.csv", "y,c\n" + "\n".join(lines)), "y")[0]
    assert len(values) == 200_000 and values[123_456] == 0.5 and math.fsum(values) == 200_000 / 4 + 0.25


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("y,c\n1,\n", "row 1, column 'c': empty"),
        ("y,c\n1,a\n1," + "n" * 101 + "\n", "row 2, column 'c': 'nnnnnnnnnn"),
    ],
)
def test_a_client_needs_a_name(tmp_path: Path, text: str, said: str) -> None:
    assert refused(put(tmp_path / "a.csv", text), ["y", "c"], text=["c"]).startswith(said)


def test_what_text_files_may_do(tmp_path: Path) -> None:
    assert read(put(tmp_path / "a.csv", "\n y , b\n 1 , 2 \n3,4\n\n\n"), ["b", "y"]) == [[2.0, 4.0], [1.0, 3.0]]
    assert read(put(tmp_path / "a.csv", 'y,"b\n(mm)"\n1,2'), ["b\n(mm)"]) == [[2.0]]
    assert read(put(tmp_path / "a.csv", 'y,note\n1,"5"" pipe, 6""\n7"\n3,x'), "y") == [[1.0, 3.0]]
    assert read(put(tmp_path / "a.csv", "score\n1\n2\n")) == [[1.0, 2.0]]
    assert read(put(tmp_path / "a.csv", "y|b\n1|2\n"), "b", delimiter="|") == [[2.0]]
    assert read(put(tmp_path / "a.csv", "a;b,c\n1;2\n"), "b,c") == [[2.0]]  # the delimiter under which the names exist


def test_a_row_without_end_and_a_quotation_mark_left_open(tmp_path: Path) -> None:
    assert refused(put(tmp_path / "a.csv", "y\n" + "1" * 2**21), "y").startswith("a row longer than 1,048,576 bytes")
    stray = 'y,note\n1,5" pipe\n' + "1,2\n" * 2**19
    assert "is a quotation mark open?" in refused(put(tmp_path / "a.csv", stray), "y")
    wide = ",".join(map(str, range(10_001))) + ",y\n"
    assert refused(put(tmp_path / "a.csv", wide), "y").startswith("10,002 columns; at most 10,000 are read")


@pytest.mark.parametrize("cut", [5, 30, -3])
def test_a_broken_gzip_file(tmp_path: Path, cut: int) -> None:
    whole = gzip.compress(b"y\n" + b"0.123\n" * 1000)
    assert refused(put(tmp_path / "a.csv.gz", whole[:cut]), "y").startswith("broken gzip file")
    assert refused(put(tmp_path / "a.csv.gz", b"y\n1\n"), "y").startswith("broken gzip file")


def test_a_gzip_bomb_is_refused_when_it_has_grown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = put(tmp_path / "a.csv.gz", gzip.compress(b"y\n" + b"0.5\n" * 2**20))
    assert len(read(path)[0]) == 2**20
    monkeypatch.setattr(wanted, "UNSUSPECTED", 2**20)
    assert refused(path) == "unpacks to more than 200 times its size; unpack it first"


@pytest.mark.parametrize(
    ("array", "said"),
    [
        (
            np.array([{"a": 1}, None], dtype=object),
            "holds Python objects, which are not read; save an array of numbers",
        ),
        (np.array([True, False]), "holds bool; an array of real numbers is needed"),
        (np.array([1j]), "holds complex128; an array of real numbers is needed"),
        (np.array(["a"]), "column '0' holds text; numbers are needed"),
        (np.zeros(2, dtype=[("a", "f8"), ("b", "f8")]), "holds [('a', '<f8'), ('b', '<f8')]; an array of"),
        (np.array(1.0), "an array of shape (); one or two dimensions are read"),
        (np.zeros((2, 2, 2)), "an array of shape (2, 2, 2); one or two dimensions are read"),
        (np.zeros((2, 10_001)), "10,001 columns; at most 10,000 are read; does it lie on its side?"),
        (np.zeros((2, 3)), "3 columns ('0', '1', '2'); say which to read"),
        (np.zeros(0), "0 rows; at least one score is needed"),
        (np.zeros((0, 1)), "0 rows; at least one score is needed"),
        (np.zeros((1, 0)), "0 columns (none); say which to read"),
        (np.array([1.0, np.nan]), "row 2, column '0': nan is no finite number; mend or drop this row"),
        (
            np.array([[1.0], [np.inf]], dtype=np.float32),
            "row 2, column '0': inf is no finite number; mend or drop this row",
        ),
    ],
)
def test_a_npy_file_is_refused(tmp_path: Path, array: np.ndarray[Any, Any], said: str) -> None:
    np.save(tmp_path / "a.npy", array)
    assert said in refused(tmp_path / "a.npy")


def test_a_npy_file_must_be_as_long_as_it_says(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", Y)
    whole = (tmp_path / "a.npy").read_bytes()
    assert refused(put(tmp_path / "b.npy", whole[:-1])).endswith("b.npy is cut short: 39 bytes of 40")
    assert refused(put(tmp_path / "b.npy", whole + b"12")).endswith("b.npy is too long: 42 bytes of 40")
    assert "no whole NumPy file" in refused(put(tmp_path / "b.npy", whole[:50]))
    assert "no whole NumPy file" in refused(put(tmp_path / "b.npy", b""))
    assert "no whole NumPy file" in refused(put(tmp_path / "b.npy", b"y\n1\n2\n"))
    for shape in ("(9999999999999999999999,)", "(-5,)", "(5, -1)"):
        forged = whole.replace(b"(5,), }" + b" " * (len(shape) - 4), shape.encode() + b", }")
        assert len(forged) == len(whole) and forged != whole
        assert refused(put(tmp_path / "b.npy", forged))
    nested = b"{'descr': " + b"[" * 5000 + b"]" * 4000 + b"\n"
    assert "no whole NumPy file" in refused(
        put(tmp_path / "b.npy", b"\x93NUMPY\x02\x00" + len(nested).to_bytes(4, "little") + nested)
    )


def test_a_npz_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    np.savez(path, y=Y, short=P[:3], table=np.zeros((5, 2)), thing=np.array([None] * 5, dtype=object))
    assert refused(path, ["y", "short"]).startswith("arrays of different lengths ('y' 5, 'short' 3)")
    assert refused(path, ["table"]) == "array 'table' has the shape (5, 2); one dimension is read"
    assert refused(path, ["y", "thing"]).startswith("array 'thing' holds Python objects")
    assert refused(path, ["y"], text=["y"]) == "column 'y' holds float64; names are text or whole numbers"
    np.savez_compressed(path, y=np.arange(10_000.0))
    whole = path.read_bytes()
    assert "no whole NumPy file" in refused(put(path, whole[:-30]))
    middle = len(whole) // 2
    assert refused(put(path, whole[:middle] + bytes(64) + whole[middle + 64 :]))  # the archive's checksum notices
    assert "no whole NumPy file" in refused(put(path, b"PK"))
    np.savez(path, client=np.array(["x" * 101]))
    assert "wider than 100" in refused(path, ["client"], text=["client"])


def test_a_zip_bomb_is_refused_before_it_is_unpacked(tmp_path: Path) -> None:
    path, rows = tmp_path / "a.npz", 2**28
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f8", "fortran_order": False, "shape": (rows,)})
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("y.npy", header.getvalue() + bytes(2**20))
    whole = bytearray(path.read_bytes())
    central = whole.rindex(b"PK\x01\x02")
    whole[central + 24 : central + 28] = (2**31).to_bytes(4, "little")  # what it says it unpacks to
    assert "unpacks to more than 200 times its size" in refused(put(path, bytes(whole)))


def test_a_parquet_file_is_refused(tmp_path: Path) -> None:
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "a.parquet"
    words = arrow.array(["1", "2", "3"])
    table = {
        "y": [1.0, 2.0, None],
        "s": words,
        "d": words.dictionary_encode(),
        "b": [True] * 3,
        "n": [1.0, 2.0, np.nan],
    }
    parquet.write_table(arrow.table(table), path)
    assert refused(path, "y", block=2) == "row 3, column 'y': empty"
    assert refused(path, "s") == "column 's' holds string; numbers are needed"
    assert refused(path, "d") == "column 'd' holds string; numbers are needed"
    assert refused(path, "b") == "column 'b' holds bool; numbers are needed"
    assert refused(path, ["n"], text=["n"]) == "column 'n' holds double; names are text or whole numbers"
    assert refused(path, "n", block=2) == "row 3, column 'n': nan is no finite number; mend or drop this row"
    assert read(path, ["d", "s"], text=["d", "s"]) == [["1", "2", "3"]] * 2
    whole = path.read_bytes()
    for broken in (whole[:-1], whole[: len(whole) // 2], b"", b"PAR1", b"PAR1PAR1", b"y\n1\n"):
        assert "no whole Parquet file" in refused(put(path, broken), "y")
    parquet.write_table(arrow.table({"y": arrow.array([], arrow.float64())}), path)
    assert refused(path) == "0 rows; at least one score is needed"
    parquet.write_table(arrow.table([[1.0], [2.0]], names=["y", "y"]), path)
    assert refused(path, "y") == "2 columns are called 'y'; rename all but one"


def test_parquet_without_pyarrow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'prism-fcp\[tables\]'"):
        read(put(tmp_path / "a.parquet", b"PAR1"), "y")


def test_files_that_are_none(tmp_path: Path) -> None:
    (tmp_path / "folder.csv").mkdir()
    os.mkfifo(tmp_path / "pipe.csv")
    for name, said in (("folder.csv", "a folder"), ("pipe.csv", "no file"), ("none.csv", "No such file")):
        with pytest.raises(PrismError, match=said) as told:
            read(tmp_path / name, "y")
        assert str(tmp_path / name) in str(told.value) and "\n" not in str(told.value)
    assert refused(tmp_path / "a.xlsx", "y").startswith("unknown kind of file '.xlsx'; known: .csv, .tsv")


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"columns": []}, "no columns"),
        ({"columns": ["y"], "text": ["x"]}, "'x' is none of those"),
        ({"block": 0}, "block=0; must be at least 1"),
        ({"block": 1.5}, "block=1.5; must be an integer"),
        ({"delimiter": ", "}, "must be one character"),
        ({"delimiter": "1"}, "must be one character"),
        ({"path": "a.npy", "delimiter": ","}, "only text files"),
    ],
)
def test_settings_out_of_range(tmp_path: Path, settings: dict[str, Any], said: str) -> None:
    path = put(tmp_path / settings.pop("path", "a.csv"), "y\n1\n")
    with pytest.raises(SettingError, match=said):
        list(open_columns(path, settings.pop("columns", None), **settings))


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="counts open files in /proc")
def test_a_reader_left_early_closes_its_file(tmp_path: Path) -> None:
    opened = lambda: len(os.listdir("/proc/self/fd"))  # noqa: E731
    before = opened()
    for name, write in KINDS.items():
        write(tmp_path / name)
        blocks = open_columns(tmp_path / name, "y", block=1)
        next(blocks)
        blocks.close()  # type: ignore[attr-defined]
    assert opened() == before


@pytest.mark.parametrize("name", ["plain.csv", "quoted.csv", "packed.csv.gz", "a.npy", "packed.npz", "a.parquet"])
def test_altered_bytes_end_in_a_table_or_in_one_line(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    if name == "a.npy":
        np.save(path, Y)
    else:
        KINDS[name](path)
    whole, rng, refusals = path.read_bytes(), np.random.default_rng(7), 0
    columns = None if name == "a.npy" else ["y", "client"]
    for _ in range(400):
        altered = bytearray(whole)
        for place in rng.integers(len(whole), size=rng.integers(1, 5)):
            altered[place] = rng.integers(256)
        path.write_bytes(altered[: rng.integers(len(whole))] if rng.random() < 0.1 else altered)
        try:
            read(path, columns, text=["client"] if columns else [])
        except PrismError as error:
            assert "\n" not in str(error) and len(str(error)) < 400
            refusals += 1
    assert refusals > 40


STREAM = r"""
import re, sys
from prism_fcp.data.columns import open_columns
rows = sum(len(block[0]) for block in open_columns(sys.argv[1], sys.argv[2:] or None))
print(rows, re.search(r"VmHWM:\s+(\d+)", open("/proc/self/status").read())[1])
"""


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads the peak memory from /proc")
def test_a_large_file_passes_through_little_memory(tmp_path: Path) -> None:
    part = np.random.default_rng(3).exponential(size=500_000)
    np.save(tmp_path / "a.npy", np.resize(part, 40_000_000))  # 320 MB
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.write(tmp_path / "a.npy", "y.npy")
    lines = ("\n".join(map(repr, part.tolist())) + "\n").encode()
    with (tmp_path / "a.csv").open("wb") as file:
        file.write(b"y\n")
        for _ in range(8):  # 77 MB
            file.write(lines)
    for name, rows in (("a.npy", 40_000_000), ("a.npz", 40_000_000), ("a.csv", 4_000_000)):
        done = subprocess.run(
            [sys.executable, "-c", STREAM, tmp_path / name], capture_output=True, text=True, check=True
        )
        read_rows, peak = done.stdout.split()
        assert int(read_rows) == rows
        assert int(peak) < 60_000, f"{name}: {peak} kB; the interpreter with numpy takes about 30 MB"
        (tmp_path / name).unlink()
