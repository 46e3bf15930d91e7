"""Our file formats: every file this package reads or writes goes through here.

A file appears whole or not at all (written beside its place, flushed to the disk, then renamed), carries a format name
and a schema version, and is checked when read. What cannot be written or read is one line with the path and a remedy.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import tempfile
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from prism_fcp.errors import DataError, OutputError

SCHEMA: Final = 1
ELSEWHERE: Final = "choose another folder with --out"  # the remedy where a file cannot be written


def write_bytes(path: Path, payload: bytes, remedy: str = ELSEWHERE) -> None:
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
        raise _unwritable(path, error, remedy) from error
    finally:
        if temporary is not None:
            Path(temporary).unlink(missing_ok=True)


def write_text(path: Path, text: str, remedy: str = ELSEWHERE) -> None:
    """Put a whole UTF-8 file in its place, or leave what was there."""
    write_bytes(path, text.encode(), remedy)


def read_text(path: Path) -> str:
    """Return a file's text, without the mark that some editors put before it."""
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: not a UTF-8 text file; is it the right file?") from error
    except OSError as error:
        raise _unreadable(path, error) from error


def read_toml(path: Path) -> dict[str, Any]:
    """Return a TOML file as a dictionary."""
    text = read_text(path)
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path}: not valid TOML: {_problem(error)}") from error


def digest(files: Mapping[str, Path]) -> str:
    """Return a digest of the names and contents of files, whatever their order."""
    told = hashlib.sha256()
    try:
        for name, path in sorted(files.items()):
            told.update(name.encode() + b"\0" + hashlib.sha256(path.read_bytes()).digest())
    except OSError as error:
        raise _unreadable(path, error) from error
    return told.hexdigest()[:16]


def to_json(body: Any, *, compact: bool = False, ascii_only: bool = False) -> str:
    """Return strict JSON: a NaN or Inf left inside is a bug, not a file."""
    layout: dict[str, Any] = {"separators": (",", ":")} if compact else {"indent": 2}
    return json.dumps(body, allow_nan=False, ensure_ascii=ascii_only, **layout) + "\n"


def write_json(path: Path, kind: str, body: Mapping[str, Any], *, compact: bool = False) -> None:
    """Write one of our JSON files: format and schema version first; `compact` for long lists of numbers."""
    write_text(path, to_json({"format": f"prism-fcp/{kind}", "schema": SCHEMA, **body}, compact=compact))


def read_json(path: Path, kind: str) -> dict[str, Any]:
    """Return the body of one of our JSON files, format and schema checked."""
    text = read_text(path)
    try:
        body = json.loads(text, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path}: broken JSON ({_problem(error)}); delete it and run the experiment again") from error
    _check_format(path, body, kind)
    return dict(body)


def check_folder(folder: Path, remedy: str = ELSEWHERE) -> list[Path]:
    """Make `folder`, prove that a file can be written there, and return the folders made, the deepest first."""
    made: list[Path] = []
    try:
        for place in (*reversed(folder.parents), folder):
            if not place.exists():
                place.mkdir(exist_ok=True)
                made.insert(0, place)
        handle, name = tempfile.mkstemp(prefix=".prism-fcp-", dir=folder)
        os.close(handle)
        os.unlink(name)
    except OSError as error:
        remove_empty(made)
        raise _unwritable(folder, error, remedy) from error
    return made


def remove_empty(folders: Sequence[Path]) -> None:
    """Remove those of these folders, the deepest first, in which nothing lies."""
    for folder in folders:
        try:
            folder.rmdir()
        except OSError:
            return


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

    def read(self) -> tuple[dict[str, Any] | None, list[Any]]:
        """Return the header (None where no record was finished yet) and the records."""
        if not self.path.exists():
            return None, []
        lines = read_text(self.path).split("\n")[:-1]  # what follows the last newline was never finished
        if len(lines) < 2:
            return None, []
        told = []
        for number, line in enumerate(lines, 1):
            try:
                told.append(json.loads(line))
            except (ValueError, RecursionError) as error:
                raise DataError(
                    f"{self.path}: broken line {number} ({_problem(error)}); start over with --fresh"
                ) from error
        header, *records = told
        _check_format(self.path, header, self._kind)
        return dict(header), records

    @contextmanager
    def writing(self, header: Mapping[str, Any], *, fresh: bool) -> Iterator[JournalWriter]:
        """Open for appending, one writer at a time; `fresh` empties it first. Without a record a failure removes it."""
        handle = self._locked()
        try:
            whole = os.pread(handle, os.fstat(handle).st_size, 0)
            complete = whole.rfind(b"\n") + 1
            if fresh or whole.count(b"\n") < 2:  # a header alone is nobody's
                complete = 0
            os.ftruncate(handle, complete)
            writer = JournalWriter(self.path, handle)
            try:
                if complete == 0:
                    writer.append({"format": f"prism-fcp/{self._kind}", "schema": SCHEMA, **header})
                yield writer
            except BaseException:
                if os.pread(handle, os.fstat(handle).st_size, 0).count(b"\n") < 2:
                    self.path.unlink(missing_ok=True)
                raise
        finally:
            os.close(handle)

    def _locked(self) -> int:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            while True:
                handle = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o666)
                try:
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    if self.path.exists() and os.path.samestat(os.fstat(handle), self.path.stat()):
                        return handle
                except BaseException:
                    os.close(handle)
                    raise
                os.close(handle)  # removed by another run between opening and locking: make it anew
        except BlockingIOError as error:
            raise OutputError(
                f"{self.path} is being written by another run; wait for it or choose another --out"
            ) from error
        except OSError as error:
            raise _unwritable(self.path, error) from error


class JournalWriter:
    """Appends whole lines."""

    def __init__(self, path: Path, handle: int) -> None:
        """Take an open, locked file."""
        self._path, self._handle = path, handle

    def append(self, record: Mapping[str, Any]) -> None:
        """Add one record and see it onto the disk, or leave the file as it was."""
        line = memoryview((json.dumps(record, separators=(",", ":")) + "\n").encode())
        before = os.fstat(self._handle).st_size
        try:
            while line:  # a disk that fills up takes a part
                line = line[os.write(self._handle, line) :]
            os.fsync(self._handle)
        except BaseException as error:
            if line or isinstance(error, OSError):  # interrupted after the whole line, it stays
                os.ftruncate(self._handle, before)
            if isinstance(error, OSError):
                raise _unwritable(self._path, error) from error
            raise


def _check_format(path: Path, body: Any, kind: str) -> None:
    found = body.get("format") if isinstance(body, dict) else None
    if found != f"prism-fcp/{kind}":
        raise DataError(f"{path}: format {found!r}; expected 'prism-fcp/{kind}'; is it the right file?")
    if body.get("schema") != SCHEMA:
        raise DataError(
            f"{path}: schema {body.get('schema')!r}; this version reads {SCHEMA}; run the experiment again with --fresh"
        )


def _unreadable(path: Path, error: OSError) -> OutputError:
    return OutputError(f"cannot read {path}: {error.strerror or error}; check the path and its rights")


def _unwritable(path: Path, error: OSError, remedy: str = ELSEWHERE) -> OutputError:
    if error.errno == errno.ENAMETOOLONG:
        shown = f"{str(path)[:60]}..." if len(str(path)) > 120 else str(path)
        return OutputError(f"cannot write {shown}: {error.strerror}; shorten the name")
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        remedy = f"make room, or {remedy}"
    return OutputError(f"cannot write {path}: {error.strerror or error}; {remedy}")


def _problem(error: BaseException) -> str:
    if isinstance(error, RecursionError):
        return "brackets within brackets, too deep to read"
    return "a whole number of thousands of digits" if "integer string conversion" in str(error) else str(error)


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON number")


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
