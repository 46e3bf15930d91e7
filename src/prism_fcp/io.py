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
import sqlite3
import stat
import tempfile
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Final

from prism_fcp.errors import DataError, OutputError

SCHEMA: Final = 1
ELSEWHERE: Final = "choose another folder with --out"  # the remedy where a file cannot be written


def write_bytes(path: Path, payload: bytes, remedy: str = ELSEWHERE, *, private: bool = False) -> None:
    """Put a whole file in its place, or leave what was there; a `private` one is for its owner alone."""
    with replacing(path, remedy, private=private) as file:
        file.write(payload)


def write_text(path: Path, text: str, remedy: str = ELSEWHERE) -> None:
    """Put a whole UTF-8 file in its place, or leave what was there."""
    write_bytes(path, text.encode(), remedy)


def write_secret(path: Path, payload: bytes) -> None:
    """Make a new file that its owner alone may read, from its first moment; one that is there is never replaced."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as error:
        if isinstance(error, FileExistsError) and os.path.lexists(path):  # and not a file where a folder should be
            raise OutputError(f"{path} is there already and is never overwritten; choose another name") from error
        raise _unwritable(path, error, "choose another place") from error
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(payload)
            file.flush()
            os.fsync(file.fileno())
    except BaseException as error:
        path.unlink(missing_ok=True)  # half a secret is none
        if isinstance(error, OSError):
            raise _unwritable(path, error, "choose another place") from error
        raise


def read_bytes(path: Path, limit: int, *, secret: bool = False) -> bytes:
    """Return a file of at most `limit` bytes, no more of it read than that; a `secret` others may read is refused."""
    try:
        with path.open("rb") as file:
            about = os.fstat(file.fileno())
            rights = stat.S_IMODE(about.st_mode)
            if secret and rights & 0o077:
                raise OutputError(f"{path} is open to others (mode {rights:04o}); it must be 0600: chmod 600 it")
            # A buffer of what is asked for is made at once: of the file's size, where it is a file, not of the limit's.
            whole = file.read(min(limit, about.st_size if stat.S_ISREG(about.st_mode) else limit) + 1)
    except OSError as error:
        raise _unreadable(path, error) from error
    if len(whole) > limit:
        raise DataError(f"{path}: longer than {limit:,} bytes; is it the right file?")
    return whole


def listing(folder: Path) -> list[Path]:
    """Return what lies in a folder, by name, hidden files left out."""
    try:
        return sorted(place for place in folder.iterdir() if not place.name.startswith("."))
    except OSError as error:
        raise _unreadable(folder, error) from error


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold a folder, made if it is missing, for one who reads files there and writes them anew."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT, 0o666)
    except OSError as error:
        raise _unwritable(folder, error, "choose another folder") from error
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise OutputError(f"{folder} is being changed by another command; try again when it is done") from error
        except OSError as error:
            raise _unwritable(folder, error, "choose another folder") from error
        yield
    finally:
        os.close(handle)


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


def file_digest(path: Path) -> str:
    """Return the sha256 of a file's bytes in hex, read in pieces."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise _unreadable(path, error) from error


@contextmanager
def reading(path: Path) -> Iterator[BinaryIO]:
    """Open a regular file to read it piece by piece; what the system refuses, then or later, is one line."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):  # a pipe would be waited for
            raise DataError(f"cannot read {path}: {'a folder' if path.is_dir() else 'no file'}; name a file")
        with path.open("rb") as file:
            yield file
    except OSError as error:
        raise _unreadable(path, error) from error


@contextmanager
def replacing(path: Path, remedy: str = ELSEWHERE, *, private: bool = False) -> Iterator[BinaryIO]:
    """Open a new file beside `path`; it takes the place of `path` when the block ends well, and is removed else."""
    temporary: str | None = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        with os.fdopen(handle, "w+b") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o600 if private else 0o666 & ~_umask())
        os.replace(temporary, path)
        temporary = None
    except OSError as error:
        raise _unwritable(path, error, remedy) from error
    finally:
        if temporary is not None:
            Path(temporary).unlink(missing_ok=True)


def to_json(body: Any, *, compact: bool = False, ascii_only: bool = False) -> str:
    """Return strict JSON: a NaN or Inf left inside is a bug, not a file."""
    layout: dict[str, Any] = {"separators": (",", ":")} if compact else {"indent": 2}
    return json.dumps(body, allow_nan=False, ensure_ascii=ascii_only, **layout) + "\n"


def write_json(path: Path, kind: str, body: Mapping[str, Any], *, compact: bool = False) -> None:
    """Write one of our JSON files: format and schema version first; `compact` for long lists of numbers."""
    write_text(path, to_json({"format": f"prism-fcp/{kind}", "schema": SCHEMA, **body}, compact=compact))


def read_json(
    path: Path, kind: str, *, remedy: str = "run the experiment again with --fresh", most_bytes: int | None = None
) -> dict[str, Any]:
    """Return the body of one of our JSON files, format and schema checked; none larger than `most_bytes` is read."""
    try:
        size = path.stat().st_size
    except OSError as error:
        raise _unreadable(path, error) from error
    if most_bytes is not None and size > most_bytes:
        raise DataError(f"{path}: {size} bytes; a {kind} file has at most {most_bytes}; is it the right file?")
    text = read_text(path)
    try:
        body = json.loads(text, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path}: broken JSON ({_problem(error)}); {remedy}") from error
    _check_format(path, body, kind, remedy)
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


def database(path: Path | None, tables: str) -> sqlite3.Connection:
    """Open an SQLite file with these tables, in memory without a path; what is committed is on the disk."""
    where = path or "an SQLite database in memory"
    with database_errors(where):
        if path is not None:
            check_folder(path.parent, "choose another file")
        file = sqlite3.connect(path or ":memory:", timeout=30, isolation_level=None)
        try:
            file.execute("PRAGMA journal_mode = WAL")
            file.execute("PRAGMA synchronous = FULL")
            file.executescript(tables)
        except BaseException:
            file.close()
            raise
    return file


@contextmanager
def database_errors(where: object = "the state file") -> Iterator[None]:
    """Turn what SQLite cannot do into one line."""
    try:
        yield
    except sqlite3.DatabaseError as error:
        raise OutputError(
            f"{where}: {error}; is it an SQLite file, in a folder that can be written, on a disk with room?"
        ) from error


def _check_format(path: Path, body: Any, kind: str, remedy: str = "run the experiment again with --fresh") -> None:
    found = body.get("format") if isinstance(body, dict) else None
    if found != f"prism-fcp/{kind}":
        raise DataError(f"{path}: format {found!r}; expected 'prism-fcp/{kind}'; is it the right file?")
    if body.get("schema") != SCHEMA:
        raise DataError(f"{path}: schema {body.get('schema')!r}; this version reads {SCHEMA}; {remedy}")


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
