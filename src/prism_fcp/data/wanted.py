"""What a reader of tables is asked for, and the complaints all of them share."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from prism_fcp.errors import DataError, counted, did_you_mean

Column: TypeAlias = "NDArray[np.float64] | NDArray[np.str_]"
Blocks: TypeAlias = Generator[tuple[Column, ...], None, None]
Progress: TypeAlias = Callable[[int, int], None]
Pick: TypeAlias = Callable[[Sequence[str]], Sequence[str]]  # which of a table's columns, once their names are known
MAX_COLUMNS: Final = 10_000  # a wider table is one that lies on its side
MAX_TEXT: Final = 100  # characters of a client's name: arrays of text are as wide as their longest
MEND: Final = "; mend or drop this row"

MAX_RATIO: Final = 200  # unpacked to packed: numbers do not shrink like that
UNSUSPECTED: Final = 2**30  # unpacked bytes up to which the ratio does not matter


class Wanted(NamedTuple):
    """Which columns, which of them as text, and in blocks of how many rows at most."""

    columns: tuple[str, ...] | Pick | None  # None: the only one
    text: frozenset[str]
    block: int
    progress: Progress

    @property
    def named(self) -> tuple[str, ...]:
        """Return the columns asked for by name."""
        return () if self.columns is None or callable(self.columns) else self.columns

    def is_text(self, name: str) -> bool:
        """Tell whether this column holds names and not numbers."""
        return name in self.text


def choose(path: Path, names: Sequence[str], wanted: Wanted) -> list[int]:
    """Return the places of the wanted columns among the table's."""
    if len(names) > MAX_COLUMNS:
        raise DataError(f"{path}: {len(names):,} columns; at most {MAX_COLUMNS:,} are read; does it lie on its side?")
    if wanted.columns is None:
        if len(names) != 1:
            raise DataError(f"{path}: {counted(len(names), 'column')} ({_listed(names)}); say which to read")
        return [0]
    asked = wanted.columns(names) if callable(wanted.columns) else wanted.columns
    for name in asked:
        if name not in names:
            raise DataError(f"{path}: no column {name!r}{did_you_mean(name, names[:20])}")
        if names.count(name) > 1:
            raise DataError(f"{path}: {names.count(name)} columns are called {name!r}; rename all but one")
    return [names.index(name) for name in asked]


def need_modest(where: object, packed: int, unpacked: int) -> None:
    """Refuse what would unpack to very much more than is there."""
    if unpacked > max(UNSUSPECTED, MAX_RATIO * packed):
        raise DataError(f"{where}: unpacks to more than {MAX_RATIO} times its size; unpack it first")


class CellError(DataError):
    """One cell that cannot be used."""

    column = ""


def cell(path: Path, row: int, name: str, trouble: str) -> CellError:
    """Return the complaint about one cell; rows count from 1, below the header."""
    error = CellError(f"{path}: row {row:,}, column {name!r}: {trouble}")
    error.column = name
    return error


def short(value: object) -> str:
    """Return a value as it is shown in an error.

    >>> short("n/a"), len(short("x" * 1000))
    ("'n/a'", 40)
    """
    shown = repr(value)
    return shown if len(shown) <= 40 else shown[:37] + "..."


def need_finite(path: Path, name: str, values: NDArray[np.float64], before: int) -> None:
    """Refuse NaN and infinity, by the first row that holds one; `before` rows went ahead of these."""
    good = np.isfinite(values)
    if not good.all():
        first = int(np.argmin(good))
        raise cell(path, before + first + 1, name, f"{values[first]} is no finite number{MEND}")


def need_names(path: Path, name: str, values: Sequence[str], before: int) -> None:
    """Refuse names that are empty or too long to be one."""
    if "" not in values and max(map(len, values), default=0) <= MAX_TEXT:
        return
    for row, value in enumerate(values, before + 1):
        if not value:
            raise cell(path, row, name, "empty")
        if len(value) > MAX_TEXT:
            raise cell(path, row, name, f"{short(value)} is longer than {MAX_TEXT} characters; is it a name?")


def _listed(names: Sequence[str]) -> str:
    return ", ".join(short(name) for name in names[:8]) + (", ..." if len(names) > 8 else "") if names else "none"
