"""The logs of foreign programs: they have no format of ours, so they are not among `io`'s files; errors read alike."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from prism_fcp.errors import OutputError


@contextmanager
def appending(path: Path) -> Iterator[BinaryIO]:
    """Open a log that its owner alone may read, to add to it; it is made, with its folder, if missing."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    except OSError as error:
        raise OutputError(f"cannot write {path}: {error.strerror}; choose another folder") from error
    with os.fdopen(handle, "ab") as file:
        yield file


def tail(path: Path, most: int) -> str:
    """Return the end of a log, at most so many bytes of it; nothing where there is none yet."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - most))
            return file.read(most).decode(errors="replace")
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise OutputError(f"cannot read {path}: {error.strerror}; check the path and its rights") from error
