"""Comma, semicolon and tab separated files, read in pieces of whole rows.

A piece without quotation marks is cut into cells by `str.split`, any other by the csv module; both give the same cells,
and `float` reads them. That keeps pace with numpy.loadtxt, and a cell that is no number can be named.
"""

from __future__ import annotations

import csv
import gzip
import os
import zlib
from collections.abc import Iterator, Sequence
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final

import numpy as np
from numpy.typing import NDArray

from prism_fcp import io
from prism_fcp.data.wanted import MEND, Blocks, Column, Wanted, cell, choose, need_modest, need_names, short
from prism_fcp.errors import DataError, SettingError, counted

if TYPE_CHECKING:
    import _csv

PIECE: Final = 2**18  # bytes read at a time: larger ones are slower, they leave the cache
MAX_ROW: Final = 2**20  # bytes
DELIMITERS: Final = (",", ";", "\t")


def read_delimited(path: Path, wanted: Wanted, delimiter: str | None = None) -> Blocks:
    """Yield the wanted columns of a text file with a header, a piece at a time."""
    if delimiter is not None and (len(delimiter) != 1 or delimiter in '"\r\n.+-_ ' or delimiter.isalnum()):
        raise SettingError(f"delimiter={delimiter!r}; must be one character, such as ',' ';' or a tab")
    with io.reading(path) as file:
        total = os.fstat(file.fileno()).st_size
        texts = _whole_rows(path, _unpacked(path, file))
        table: _Table | None = None
        for text in texts:
            if table is None:
                if not text.strip():
                    continue
                table, text = _open_table(path, text, wanted, delimiter)
            block = table.block(text)
            wanted.progress(file.tell(), total)
            yield block
        if table is None:
            raise DataError(f"{path}: empty file; a header and one row for each score are needed")


def _unpacked(path: Path, file: BinaryIO) -> Iterator[bytes]:
    if not path.name.lower().endswith(".gz"):
        yield from iter(lambda: file.read(PIECE), b"")
        return
    source, size = gzip.GzipFile(fileobj=file, mode="rb"), 0
    try:
        while piece := source.read(PIECE):
            size += len(piece)
            need_modest(path, file.tell(), size)
            yield piece
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise DataError(f"{path}: broken gzip file ({error}); copy it again") from error


def _whole_rows(path: Path, pieces: Iterator[bytes]) -> Iterator[str]:
    """Yield the file as text, cut where a row ends outside of quotation marks."""
    rest = b""
    for number, piece in enumerate(pieces):
        if number == 0:
            piece = piece.removeprefix(b"\xef\xbb\xbf")
        rest += piece
        cut = _end_of_rows(rest)
        if cut:
            yield _decoded(path, rest[:cut])
            rest = rest[cut:]
        if len(rest) > MAX_ROW:
            raise DataError(f"{path}: a row longer than {MAX_ROW:,} bytes; is it a table, is a quotation mark open?")
    if rest:
        yield _decoded(path, rest + b"\n")


def _end_of_rows(data: bytes) -> int:
    if b'"' not in data:
        return data.rfind(b"\n") + 1
    codes = np.frombuffer(data, dtype=np.uint8)
    inside = np.cumsum(codes == ord('"'), dtype=np.uint8) & 1  # that it wraps round leaves the parity
    ends = np.flatnonzero((codes == ord("\n")) & (inside == 0))
    return int(ends[-1]) + 1 if len(ends) else 0


def _decoded(path: Path, data: bytes) -> str:
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: not a UTF-8 text file; is it the right file? if so, save it as UTF-8") from error
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text


def _open_table(path: Path, text: str, wanted: Wanted, delimiter: str | None) -> tuple[_Table, str]:
    """Read the header, and return the table with the text that follows."""
    options = [delimiter] if delimiter else ["\t"] if ".tsv" in path.name.lower() else DELIMITERS
    found, trouble = [], None
    for option in options:
        reader = _reader(text, option)
        try:
            names = [name.strip() for name in next(row for row in reader if row)]
        except csv.Error as error:  # quoted names, say, between other delimiters
            trouble = error
            continue
        known = sum(name in names for name in wanted.named)
        found.append((known, len(names), option, names, reader.line_num))
    if not found:
        raise DataError(f"{path}: the header cannot be read ({trouble}); check its quotation marks") from trouble
    known, width, option, names, lines = max(found, key=lambda told: told[:2])
    if not known and all(map(_is_number, names)):
        raise DataError(f"{path}: the first row holds {short(names[0])}; it must be a header, with names of columns")
    places = choose(path, names, wanted)
    end = 0
    for _ in range(lines):
        end = text.index("\n", end) + 1
    return _Table(path, option, width, [(place, names[place]) for place in places], wanted), text[end:]


class _Table:
    """Turns pieces of text into columns, and counts rows for complaints."""

    def __init__(
        self, path: Path, delimiter: str, width: int, columns: Sequence[tuple[int, str]], wanted: Wanted
    ) -> None:
        self._path, self._delimiter, self._width = path, delimiter, width
        self._columns, self._wanted = columns, wanted
        self._before = 0  # rows in the pieces before this one
        self._gap: int | None = None  # the first row of those at the end that were empty

    def block(self, text: str) -> tuple[Column, ...]:
        """Return the wanted columns of some whole rows."""
        block: list[Column] | None = None
        step = self._width + 1
        if self._gap is None and (cells := self._split(text)) is not None:
            block = self._converted([cells[place:-1:step] for place, _ in self._columns])
        if block is None:
            rows = self._rows(text)
            block = self._converted([[row[place] for row in rows] for place, _ in self._columns])
            if block is None:
                raise self._trouble(rows)
        self._before += len(block[0])
        return tuple(block)

    def _split(self, text: str) -> list[str] | None:
        """Return all cells in one list, a line end after each row's last; None unless that is surely right."""
        if '"' in text:
            return None
        rows, step = text.count("\n"), self._width + 1
        cells = text.replace("\n", f"{self._delimiter}\n{self._delimiter}").split(self._delimiter)
        even = len(cells) == rows * step + 1 and cells[self._width :: step].count("\n") == rows
        return cells if even else None

    def _rows(self, text: str) -> list[list[str]]:
        """Return the rows cell by cell; empty lines may stand at the end of the file only."""
        rows: list[list[str]] = []
        try:
            rows.extend(_reader(text, self._delimiter))  # keeps what came before an error
        except csv.Error as error:
            row = self._before + len(rows) + 1
            raise DataError(f"{self._path}: row {row:,}: {error}; check its quotation marks") from error
        lines = len(rows)
        while rows and not rows[-1]:
            rows.pop()
        if rows and self._gap is not None:
            raise DataError(f"{self._path}: row {self._gap:,} is empty, and others follow; fill or remove it")
        for number, cells in enumerate(rows, self._before + 1):
            if not cells:
                raise DataError(f"{self._path}: row {number:,} is empty, and others follow; fill or remove it")
            if len(cells) != self._width:
                raise DataError(
                    f"{self._path}: row {number:,} has {counted(len(cells), 'cell')}, the header {self._width}; "
                    "check its delimiters and quotation marks"
                )
        if len(rows) < lines and self._gap is None:
            self._gap = self._before + len(rows) + 1
        return rows

    def _converted(self, columns: Sequence[Sequence[str]]) -> list[Column] | None:
        """Return arrays, or None where a cell is no finite number."""
        made: list[Column] = []
        for (_, name), cells in zip(self._columns, columns, strict=True):
            if self._wanted.is_text(name):
                words = [word.strip() for word in cells]
                need_names(self._path, name, words, self._before)
                made.append(np.array(words, dtype=np.str_))
                continue
            numbers = _numbers(cells)
            if numbers is None:
                return None
            made.append(numbers)
        return made

    def _trouble(self, rows: Sequence[Sequence[str]]) -> DataError:
        """Return the complaint about the first cell that is no finite number."""
        for number, row in enumerate(rows, self._before + 1):
            for place, name in self._columns:
                if self._wanted.is_text(name) or _numbers([row[place]]) is not None:
                    continue
                if not row[place].strip():
                    return cell(self._path, number, name, "empty; a number is needed")
                kind = "no finite number" if _is_number(row[place]) else "no number"
                remedy = "; write decimals with a point" if "," in row[place] else MEND
                return cell(self._path, number, name, f"{short(row[place])} is {kind}{remedy}")
        raise AssertionError("a piece was refused, and each of its cells accepted")


def _reader(text: str, delimiter: str) -> _csv.Reader:
    return csv.reader(StringIO(text, newline=""), delimiter=delimiter, strict=True, skipinitialspace=True)


def _numbers(cells: Sequence[str]) -> NDArray[np.float64] | None:
    try:
        numbers = np.fromiter(map(float, cells), dtype=np.float64, count=len(cells))
    except ValueError:
        return None
    if not np.isfinite(numbers).all() or "_" in "".join(cells):  # `float` reads 1_000
        return None
    return numbers


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return "_" not in word
