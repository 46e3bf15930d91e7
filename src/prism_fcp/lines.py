"""Files of JSON lines that only grow, beside `prism_fcp.io`: one writes, any number read along while it does."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from prism_fcp.errors import DataError, OutputError

BLOCK: Final = 65_536  # bytes looked through at once


def append(path: Path, record: Mapping[str, Any]) -> None:
    """Add one object as a line, in one write, so that readers see it whole; the file is made if it is missing.

    Half a line at the end, of a writer that was killed or a disk that was full, is cut off first.
    """
    line = (json.dumps(record, separators=(",", ":"), allow_nan=False, default=str) + "\n").encode()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o666)
        try:
            _mend(handle)
            written = os.write(handle, line)
            if written < len(line):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        finally:
            os.close(handle)
    except OSError as error:
        raise OutputError(f"cannot write {path}: {error.strerror}; choose another folder") from error


def _mend(handle: int) -> None:
    """Cut off what stands behind the last whole line."""
    size = os.fstat(handle).st_size
    if not size or os.pread(handle, 1, size - 1) == b"\n":
        return
    end = size
    while end:
        start = max(0, end - BLOCK)
        place = os.pread(handle, end - start, start).rfind(b"\n")
        if place >= 0:
            end = start + place + 1
            break
        end = start
    os.ftruncate(handle, end)


def read(path: Path, since: int = 0) -> tuple[list[dict[str, Any]], int]:
    """Return the objects of the whole lines behind a byte of the file, and the byte behind the last of them."""
    if not path.exists():
        return [], since
    try:
        with path.open("rb") as file:
            file.seek(since)
            whole = file.read()
    except OSError as error:
        raise OutputError(f"cannot read {path}: {error.strerror}") from error
    end = whole.rfind(b"\n") + 1
    try:
        return [json.loads(line) for line in whole[:end].splitlines() if line], since + end
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path}: a broken line ({str(error)[:60]})") from error
