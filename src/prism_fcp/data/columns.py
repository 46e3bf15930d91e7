"""Columns of score files, in blocks: a file of any length passes through bounded memory.

Scores may come as CSV, TSV, Parquet or NumPy files: one column of scores, or a column each of outcomes and predictions,
with the name of the client beside them where a file holds many. A cell that is no finite number is an error that names
file, row and column.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Final

from prism_fcp.data.arrays import read_npy, read_npz
from prism_fcp.data.delimited import read_delimited
from prism_fcp.data.parquet import read_parquet
from prism_fcp.data.wanted import Blocks, Column, Pick, Progress, Wanted
from prism_fcp.errors import DataError, SettingError, counted, did_you_mean, need_number

TEXTS: Final = (".csv", ".tsv", ".csv.gz", ".tsv.gz")
SUFFIXES: Final = (*TEXTS, ".parquet", ".npy", ".npz")


def open_columns(
    path: Path | str,
    columns: Sequence[str] | Pick | None = None,
    *,
    text: Collection[str] = (),
    block: int = 65_536,
    delimiter: str | None = None,
    progress: Progress | None = None,
) -> Iterator[tuple[Column, ...]]:
    """Yield blocks of columns, at most `block` rows each: float64, or str for those named in `text`.

    Without `columns` the file must hold only one; a function chooses among the names it has. Those of a two-dimensional
    `.npy` file are called '0', '1', ... The delimiter of a text file is read off its header unless given; `progress` is
    called with bytes done and in all.
    """
    place = Path(path)
    names: tuple[str, ...] | Pick | None
    if columns is None or callable(columns):
        names = columns
    else:
        names = (columns,) if isinstance(columns, str) else tuple(columns)
    need_number("open_columns: block", block, integer=True)
    if block < 1:
        raise SettingError(f"open_columns: block={block}; must be at least 1 row")
    if names == ():
        raise SettingError("open_columns: no columns; name at least one")
    wanted = Wanted(names, frozenset(text), block, progress or (lambda done, total: None))
    for name in () if callable(names) else text:
        if name not in wanted.named:
            raise SettingError(
                f"open_columns: text column {name!r} is none of those to read{did_you_mean(name, wanted.named)}"
            )
    low = place.name.lower()
    if delimiter is not None and not low.endswith(TEXTS):
        raise SettingError(f"{place}: delimiter={delimiter!r}; only text files ({', '.join(TEXTS)}) have one")
    if low.endswith(TEXTS):
        return _cut(place, read_delimited(place, wanted, delimiter), block)
    if low.endswith((".parquet", ".npy", ".npz")):
        read = {"t": read_parquet, "y": read_npy, "z": read_npz}[low[-1]]
        return _cut(place, read(place, wanted), block)
    raise DataError(f"{place}: unknown kind of file {place.suffix!r}; known: {', '.join(SUFFIXES)}")


def _cut(path: Path, blocks: Blocks, block: int) -> Iterator[tuple[Column, ...]]:
    """Yield no more than `block` rows at a time, and refuse a table without any."""
    rows = 0
    with closing(blocks):
        for columns in blocks:
            count = len(columns[0])
            for first in range(0, count, block):
                yield tuple(column[first : first + block] for column in columns)
            rows += count
    if not rows:
        raise DataError(f"{path}: {counted(0, 'row')}; at least one score is needed")
