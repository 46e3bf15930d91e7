"""Tables of predictions, written block by block; the file appears when the last block is in, or not at all."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator, Sequence
from io import StringIO
from pathlib import Path
from typing import Any, BinaryIO, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from prism_fcp import io
from prism_fcp.data.parquet import pyarrow
from prism_fcp.errors import DataError, SettingError, counted

SUFFIXES: Final = (".csv", ".tsv", ".npy", ".parquet")
SPECIAL: Final = re.compile('[",;\t\r\n]|^ | $')  # what makes a name need quotation marks

Block = tuple[NDArray[Any], ...]


def write_table(path: Path | str, columns: Sequence[str], blocks: Iterable[Sequence[ArrayLike]]) -> int:
    """Write columns of numbers or text that come in blocks; return how many rows they were.

    The suffix says how: `.csv` and `.tsv` with every digit of a float, `.parquet`, or `.npy`, a table of float64
    whose columns have no names. An error or an interruption leaves what was there before.
    """
    place, names = Path(path), list(columns)
    if not names or len(set(names)) < len(names):
        raise SettingError(f"write_table: columns {', '.join(names) or 'none'}; at least one, each name once")
    write = {".csv": _write_csv, ".tsv": _write_tsv, ".npy": _write_npy, ".parquet": _write_parquet}
    if place.suffix.lower() not in write:
        raise SettingError(f"{place}: unknown kind of file {place.suffix!r}; known: {', '.join(SUFFIXES)}")
    with io.replacing(place) as file:
        return write[place.suffix.lower()](file, names, _checked(place, names, blocks))


def _checked(path: Path, names: Sequence[str], blocks: Iterable[Sequence[ArrayLike]]) -> Iterator[Block]:
    """Yield blocks as arrays: one for each column, of numbers or text, all of one length."""
    kinds = ""
    for block in blocks:
        arrays = tuple(np.asarray(column) for column in block)
        if len(arrays) != len(names):
            raise DataError(f"{path}: {counted(len(arrays), 'array')} for {counted(len(names), 'column')}")
        for name, array in zip(names, arrays, strict=True):
            if array.shape != (len(arrays[0]),):
                raise DataError(f"{path}: column {name!r} has shape {array.shape}; ({len(arrays[0])},) is needed")
            if array.dtype.kind not in "fiuU":
                raise DataError(f"{path}: column {name!r} holds {array.dtype}; numbers or text can be written")
            if array.dtype.kind == "U" and path.suffix.lower() == ".npy":
                raise DataError(f"{path}: column {name!r} holds text, .npy numbers only; leave it out or write .csv")
        found = "".join(array.dtype.kind for array in arrays)
        kinds = kinds or found
        if found != kinds:
            raise DataError(f"{path}: columns of kinds {found!r} after {kinds!r}; each must keep its type")
        yield arrays


def _write_csv(file: BinaryIO, names: Sequence[str], blocks: Iterator[Block], delimiter: str = ",") -> int:
    rows = 0
    file.write(f"{delimiter.join(map(_quoted, names))}\n".encode())
    for block in blocks:
        lines = map(delimiter.join, zip(*map(_words, block), strict=True))
        file.write("".join(f"{line}\n" for line in lines).encode())
        rows += len(block[0])
    return rows


def _write_tsv(file: BinaryIO, names: Sequence[str], blocks: Iterator[Block]) -> int:
    return _write_csv(file, names, blocks, "\t")


def _words(cells: NDArray[Any]) -> Iterable[str]:
    """Return cells as text; a float by the shortest digits that give it back."""
    return map(_quoted if cells.dtype.kind == "U" else repr, cells.tolist())


def _quoted(word: str) -> str:
    if word and not SPECIAL.search(word):
        return word
    line = StringIO()
    csv.writer(line, quoting=csv.QUOTE_ALL, lineterminator="").writerow([word])
    return line.getvalue()


def _write_npy(file: BinaryIO, names: Sequence[str], blocks: Iterator[Block]) -> int:
    def header(rows: int) -> None:
        told = {"descr": "<f8", "fortran_order": False, "shape": (rows, len(names))}
        np.lib.format.write_array_header_1_0(file, told)

    header(0)
    start, rows = file.tell(), 0
    for block in blocks:
        file.write(np.stack(block, axis=1).astype("<f8").tobytes())
        rows += len(block[0])
    file.seek(0)
    header(rows)  # numpy pads it, so that a longer count takes no more room
    if file.tell() != start:
        raise AssertionError(f"the header of a .npy file took {file.tell()} bytes in place of {start}")
    return rows


def _write_parquet(file: BinaryIO, names: Sequence[str], blocks: Iterator[Block]) -> int:
    arrow, rows, writer = pyarrow(), 0, None
    kinds = {"f": arrow.float64(), "i": arrow.int64(), "u": arrow.uint64(), "U": arrow.string()}
    try:
        for block in blocks:
            cells = [
                arrow.array(column.tolist() if column.dtype.kind == "U" else column, kinds[column.dtype.kind])
                for column in block
            ]
            table = arrow.table(cells, names=names)
            writer = writer or arrow.parquet.ParquetWriter(file, table.schema)
            writer.write_table(table)
            rows += len(block[0])
        if writer is None:
            writer = arrow.parquet.ParquetWriter(file, arrow.schema([(name, arrow.float64()) for name in names]))
    finally:
        if writer is not None:
            writer.close()
    return rows
