"""NumPy files, read in blocks: `.npy` of one or two dimensions, `.npz` with one array a column.

Nothing is unpickled, and nothing is believed: the header must match the bytes that follow it.
"""

from __future__ import annotations

import math
import os
import struct
import tokenize
import warnings
import zipfile
import zlib
from contextlib import ExitStack
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from prism_fcp import io
from prism_fcp.data.wanted import (
    MAX_COLUMNS,
    MAX_TEXT,
    Blocks,
    Column,
    Wanted,
    choose,
    need_finite,
    need_modest,
    need_names,
)
from prism_fcp.errors import DataError

MAX_BLOCK: Final = 2**22  # bytes of a table with many columns
# What numpy's header reader and zipfile raise on bytes that are no header and no archive.
BROKEN: Final = (
    *(ValueError, TypeError, KeyError, IndexError, SyntaxError, OverflowError, RecursionError, MemoryError, EOFError),
    *(NotImplementedError, tokenize.TokenError, struct.error, zipfile.BadZipFile, zlib.error),
)


class _Header(NamedTuple):
    shape: tuple[int, ...]
    fortran: bool
    dtype: np.dtype[Any]


def read_npy(path: Path, wanted: Wanted) -> Blocks:
    """Yield columns of a `.npy` file; those of a two-dimensional one are called '0', '1', ..."""
    with io.reading(path) as file:
        total = os.fstat(file.fileno()).st_size
        header = _header(file, str(path), total)
        if len(header.shape) not in (1, 2):
            raise DataError(f"{path}: an array of shape {header.shape}; one or two dimensions are read")
        rows, width = header.shape if len(header.shape) == 2 else (*header.shape, 1)
        names = [str(place) for place in range(min(width, MAX_COLUMNS + 1))]
        places = choose(path, names, wanted)
        start = file.tell()
        by_column = header.fortran or width == 1
        for first in range(0, rows, step := _step(wanted, header.dtype, len(places) if by_column else width)):
            count = min(step, rows - first)
            if by_column:
                cells = np.empty((count, len(places)), dtype=header.dtype, order="F")
                for k, place in enumerate(places):
                    file.seek(start + (place * rows + first) * header.dtype.itemsize)
                    _fill(file, cells[:, k], str(path))
            else:
                table = np.empty((count, width), dtype=header.dtype)
                _fill(file, table.reshape(-1), str(path))
                cells = table[:, places]
            wanted.progress(start + (total - start) * (first + count) // rows, total)
            yield tuple(_column(path, names[place], cells[:, k], wanted, first) for k, place in enumerate(places))


def read_npz(path: Path, wanted: Wanted) -> Blocks:
    """Yield arrays of a `.npz` file by their names; one dimension each, all of one length."""
    with io.reading(path) as file, ExitStack() as opened:
        try:
            archive = opened.enter_context(zipfile.ZipFile(file))
            members = [info for info in archive.infolist() if info.filename.endswith(".npy")]
        except BROKEN as error:
            raise _broken(str(path), error) from error
        names = [info.filename.removesuffix(".npy") for info in members]
        places = choose(path, names, wanted)
        streams, headers = [], []
        for place in places:
            where, info = f"{path}: array {names[place]!r}", members[place]
            need_modest(where, info.compress_size, info.file_size)
            try:
                stream: Any = opened.enter_context(archive.open(info))
            except (*BROKEN, RuntimeError) as error:  # RuntimeError: it asks for a password
                raise _broken(where, error) from error
            streams.append(stream)
            headers.append(_header(stream, where, info.file_size))
            if len(headers[-1].shape) != 1:
                raise DataError(f"{where} has the shape {headers[-1].shape}; one dimension is read")
        lengths = {header.shape[0] for header in headers}
        if len(lengths) > 1:
            told = ", ".join(f"{names[p]!r} {h.shape[0]:,}" for p, h in zip(places, headers, strict=True))
            raise DataError(f"{path}: arrays of different lengths ({told}); each row needs all of them")
        rows = lengths.pop()
        total = sum(members[place].file_size for place in places)
        for first in range(0, rows, wanted.block):
            block: list[Column] = []
            for place, stream, header in zip(places, streams, headers, strict=True):
                cells = np.empty(min(wanted.block, rows - first), dtype=header.dtype)
                _fill(stream, cells, f"{path}: array {names[place]!r}")
                block.append(_column(path, names[place], cells, wanted, first))
            wanted.progress(total * min(first + wanted.block, rows) // rows, total)
            yield tuple(block)


def _header(stream: BinaryIO, where: str, size: int) -> _Header:
    """Return what an array's header says, once it agrees with the size of the file."""
    try:
        version = np.lib.format.read_magic(stream)
        readers = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Python 2 wrote its whole numbers with an L
            header = _Header(*readers[version](stream))
    except BROKEN as error:
        raise _broken(where, error) from error
    if header.dtype.hasobject:
        raise DataError(f"{where} holds Python objects, which are not read; save an array of numbers")
    if header.dtype.kind not in "fiuU":
        raise DataError(f"{where} holds {header.dtype}; an array of real numbers is needed")
    if min(header.shape, default=0) < 0:
        raise DataError(f"{where} has the shape {header.shape}; save it again")
    said, there = math.prod(header.shape) * header.dtype.itemsize, size - stream.tell()
    if said != there:
        raise DataError(f"{where} is {'cut short' if there < said else 'too long'}: {there:,} bytes of {said:,}")
    return header


def _fill(stream: BinaryIO, cells: NDArray[Any], where: str) -> None:
    """Read as many bytes as `cells` holds; one dimension, contiguous."""
    room = cells.view(np.uint8)
    try:
        got = stream.readinto(room.data)  # type: ignore[attr-defined]
    except BROKEN as error:
        raise _broken(where, error) from error
    if got != len(room):
        raise DataError(f"{where} is cut short; copy it again")


def _column(path: Path, name: str, cells: NDArray[Any], wanted: Wanted, before: int) -> Column:
    if wanted.is_text(name):
        if cells.dtype.kind == "f":
            raise DataError(f"{path}: column {name!r} holds {cells.dtype}; names are text or whole numbers")
        if cells.dtype.itemsize > 4 * MAX_TEXT:
            raise DataError(f"{path}: column {name!r} holds text wider than {MAX_TEXT} characters; are these names?")
        words = [word.strip() for word in cells.astype(np.str_).tolist()]
        need_names(path, name, words, before)
        return np.array(words, dtype=np.str_)
    if cells.dtype.kind == "U":
        raise DataError(f"{path}: column {name!r} holds text; numbers are needed")
    with np.errstate(over="ignore"):  # a long double out of range becomes infinite, and is refused as such
        numbers = np.ascontiguousarray(cells, dtype=np.float64)
    need_finite(path, name, numbers, before)
    return numbers


def _step(wanted: Wanted, dtype: np.dtype[Any], width: int) -> int:
    return max(1, min(wanted.block, MAX_BLOCK // max(1, width * dtype.itemsize)))


def _broken(where: str, error: BaseException) -> DataError:
    reason = (str(error).splitlines() or [""])[0][:100] or type(error).__name__
    return DataError(f"{where}: no whole NumPy file ({reason}); save it again")
