"""Files of JSON lines that only grow, beside `prism_fcp.io`: one writes, any number read along while it does."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from prism_fcp.errors import DataError, OutputError


def append(path: Path, record: Mapping[str, Any]) -> None:
    """Add one object as a line, in one write, so that readers see it whole; the file is made if it is missing."""
    line = json.dumps(record, separators=(",", ":"), allow_nan=False, default=str) + "\n"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
        try:
            os.write(handle, line.encode())
        finally:
            os.close(handle)
    except OSError as error:
        raise OutputError(f"cannot write {path}: {error.strerror}; choose another folder") from error


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
