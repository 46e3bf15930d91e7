"""Parquet files, read and written batch by batch; pyarrow is imported when one is met."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from prism_fcp import io
from prism_fcp.data.wanted import Blocks, Column, Wanted, cell, choose, need_finite, need_names
from prism_fcp.errors import DataError, MissingExtraError


def pyarrow() -> Any:
    """Return pyarrow, its parquet module loaded."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise MissingExtraError(
            "Parquet files need the package pyarrow; install it with: pip install 'prism-fcp[tables]'"
        ) from error
    return pyarrow


def read_parquet(path: Path, wanted: Wanted) -> Blocks:
    """Yield the wanted columns of a Parquet file."""
    arrow = pyarrow()
    broken = (arrow.ArrowException, OSError, UnicodeDecodeError)  # the last from names with altered bytes
    with io.reading(path) as file:
        total, before = os.fstat(file.fileno()).st_size, 0
        try:
            # A buffer, and none filled ahead: else a row group of any size would be fetched whole.
            table = arrow.parquet.ParquetFile(file, buffer_size=2**20, pre_buffer=False)
            schema, rows = table.schema_arrow, table.metadata.num_rows
            known = schema.names
        except broken as error:
            raise _broken(path, error) from error
        names = [known[place] for place in choose(path, known, wanted)]
        for name in names:
            _need_type(arrow, path, name, schema.field(name).type, wanted)
        batches = table.iter_batches(wanted.block, columns=list(dict.fromkeys(names)), use_threads=False)
        while True:
            try:
                if (batch := next(batches, None)) is None:
                    return
                block = tuple(_column(arrow, path, name, batch.column(name), wanted, before) for name in names)
            except broken as error:
                raise _broken(path, error) from error
            before += batch.num_rows
            wanted.progress(total * before // max(rows, before, 1), total)
            yield block


def _need_type(arrow: Any, path: Path, name: str, kind: Any, wanted: Wanted) -> None:
    types = arrow.types
    if types.is_dictionary(kind):
        kind = kind.value_type
    whole = types.is_integer(kind)
    if wanted.is_text(name):
        if not (whole or types.is_string(kind) or types.is_large_string(kind)):
            raise DataError(f"{path}: column {name!r} holds {kind}; names are text or whole numbers")
    elif not (whole or types.is_floating(kind)):
        raise DataError(f"{path}: column {name!r} holds {kind}; numbers are needed")


def _column(arrow: Any, path: Path, name: str, cells: Any, wanted: Wanted, before: int) -> Column:
    if cells.null_count:
        empty = before + cells.is_null().index(True).as_py() + 1
        raise cell(path, empty, name, "empty")
    if wanted.is_text(name):
        words = [word.strip() for word in cells.cast(arrow.string()).to_pylist()]
        need_names(path, name, words, before)
        return np.array(words, dtype=np.str_)
    numbers = np.array(cells.to_numpy(zero_copy_only=False), dtype=np.float64)
    need_finite(path, name, numbers, before)
    return numbers


def _broken(path: Path, error: BaseException) -> DataError:
    reason = (str(error).splitlines() or [""])[0][:100]
    return DataError(f"{path}: no whole Parquet file ({reason}); copy or save it again")
