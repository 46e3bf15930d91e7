"""Our file formats: every file this package reads or writes goes through here.

A file appears whole or not at all (written beside its place, flushed to the disk, then renamed), carries a format name
and a schema version, and is checked when read. What cannot be written or read is one line with the path and a remedy.
"""

from __future__ import annotations

import fcntl
import json
import os
import tempfile
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from prism_fcp.errors import DataError, OutputError

SCHEMA: Final = 1


def write_bytes(path: Path, payload: bytes) -> None:
    """Put a whole file in its place, or leave what was there."""
    temporary: str | None = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        with os.fdopen(handle, "wb") as file:
            file.write(payload)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, path)
        temporary = None
    except OSError as error:
        raise _unwritable(path, error) from error
    finally:
        if temporary is not None:
            Path(temporary).unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Put a whole UTF-8 file in its place, or leave what was there."""
    write_bytes(path, text.encode())


def read_text(path: Path) -> str:
    """Return a file's text."""
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: not a UTF-8 text file; is it the right file?") from error
    except OSError as error:
        raise OutputError(f"cannot read {path}: {error.strerror or error}; check the path and its rights") from error


def read_toml(path: Path) -> dict[str, Any]:
    """Return a TOML file as a dictionary."""
    try:
        return tomllib.loads(read_text(path))
    except tomllib.TOMLDecodeError as error:
        raise DataError(f"{path}: not valid TOML: {error}") from error


def to_json(body: Any, *, compact: bool = False) -> str:
    """Return strict JSON: a NaN or Inf left inside is a bug, not a file."""
    layout: dict[str, Any] = {"separators": (",", ":")} if compact else {"indent": 2}
    return json.dumps(body, allow_nan=False, ensure_ascii=False, **layout) + "\n"


def write_json(path: Path, kind: str, body: Mapping[str, Any], *, compact: bool = False) -> None:
    """Write one of our JSON files: format and schema version first; `compact` for long lists of numbers."""
    write_text(path, to_json({"format": f"prism-fcp/{kind}", "schema": SCHEMA, **body}, compact=compact))


def read_json(path: Path, kind: str) -> dict[str, Any]:
    """Return the body of one of our JSON files, format and schema checked."""
    try:
        body = json.loads(read_text(path))
    except json.JSONDecodeError as error:
        raise DataError(f"{path}: broken JSON ({error}); delete it and run the experiment again") from error
    _check_format(path, body, kind)
    return dict(body)


def check_folder(folder: Path) -> None:
    """Make `folder` and prove that a file can be written there, before hours of work are spent on it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=".prism-fcp-", dir=folder)
        os.close(handle)
        os.unlink(name)
    except OSError as error:
        raise _unwritable(folder, error) from error


def discard(path: Path) -> None:
    """Remove a file that is no longer true, if it is there."""
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise _unwritable(path, error) from error


class Journal:
    """A file of JSON lines that only grows: a header, then one record a line, each flushed to the disk.

    A last line torn by a crash is dropped when the journal is opened; anything else unreadable is an error.
    """

    def __init__(self, path: Path, kind: str) -> None:
        """Name the file; nothing is opened yet."""
        self.path, self._kind = path, kind

    def read(self) -> tuple[dict[str, Any] | None, list[dict[str, Any]]]:
        """Return the header (None where there is no journal yet) and the records."""
        if not self.path.exists():
            return None, []
        lines = read_text(self.path).split("\n")[:-1]  # what follows the last newline was never finished
        if not lines:
            return None, []
        try:
            header, *records = (json.loads(line) for line in lines)
        except json.JSONDecodeError as error:
            raise DataError(f"{self.path}: broken line ({error}); start over with --fresh") from error
        _check_format(self.path, header, self._kind)
        return dict(header), records

    @contextmanager
    def writing(self, header: Mapping[str, Any], *, fresh: bool) -> Iterator[JournalWriter]:
        """Open for appending, one writer at a time; `fresh` empties it first."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            handle = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o666)
        except OSError as error:
            raise _unwritable(self.path, error) from error
        try:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise OutputError(
                    f"{self.path} is being written by another run; wait for it or choose another --out"
                ) from error
            whole = os.pread(handle, os.fstat(handle).st_size, 0)
            os.ftruncate(handle, 0 if fresh else whole.rfind(b"\n") + 1)
            writer = JournalWriter(self.path, handle)
            if os.fstat(handle).st_size == 0:
                writer.append({"format": f"prism-fcp/{self._kind}", "schema": SCHEMA, **header})
            yield writer
        finally:
            os.close(handle)


class JournalWriter:
    """Appends whole lines."""

    def __init__(self, path: Path, handle: int) -> None:
        """Take an open, locked file."""
        self._path, self._handle = path, handle

    def append(self, record: Mapping[str, Any]) -> None:
        """Add one record and see it onto the disk."""
        try:
            os.write(self._handle, (json.dumps(record, separators=(",", ":")) + "\n").encode())
            os.fsync(self._handle)
        except OSError as error:
            raise _unwritable(self._path, error) from error


def _check_format(path: Path, body: Any, kind: str) -> None:
    found = body.get("format") if isinstance(body, dict) else None
    if found != f"prism-fcp/{kind}":
        raise DataError(f"{path}: format {found!r}; expected 'prism-fcp/{kind}'; is it the right file?")
    if body.get("schema") != SCHEMA:
        raise DataError(
            f"{path}: schema {body.get('schema')!r}; this version reads {SCHEMA}; run the experiment again with --fresh"
        )


def _unwritable(path: Path, error: OSError) -> OutputError:
    return OutputError(f"cannot write {path}: {error.strerror or error}; choose another folder with --out")


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
