"""Whose signatures a server believes: a folder of text files that people can read, compare and keep under git.

`NAME.keys` holds one client's keys, a line each (`keys.py`); `revoked` holds `FINGERPRINT TIME REASON` lines. Blank
lines and lines that begin with # are free. Whatever else stands there is an error with file and line: a mistake in
these files must not turn into trust, or into a revocation that nobody obeys.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from types import MappingProxyType
from typing import Final, NamedTuple

from prism_fcp import io
from prism_fcp.calibrate.keys import (
    SIGNATURE_BYTES,
    PublicKey,
    is_fingerprint,
    library,
    need_aware,
    parse_line,
    parse_time,
    told_time,
)
from prism_fcp.calibrate.names import check_name
from prism_fcp.errors import DataError, SettingError

MOST_BYTES: Final = 1_048_576  # of one file
LONGEST_REASON: Final = 200
REVOKED: Final = "revoked"
_ENDING: Final = ".keys"
_REMEDY: Final = "check the rights of the trust folder"


class Revocation(NamedTuple):
    """When a key was withdrawn, and why."""

    at: datetime
    reason: str


@dataclass(frozen=True, slots=True)
class Trust:
    """What a trust folder said when it was read. Load it again to see what changed."""

    folder: Path
    clients: Mapping[str, tuple[PublicKey, ...]]
    revoked: Mapping[str, Revocation]

    @classmethod
    def load(cls, folder: Path) -> Trust:
        """Read a trust folder, every line of it."""
        library()  # a server without it says so when it starts, not at the first summary
        clients: dict[str, tuple[PublicKey, ...]] = {}
        revoked: dict[str, Revocation] = {}
        owners: dict[str, str] = {}
        for path in io.listing(folder):
            if path.name == REVOKED and path.is_file():
                revoked = _read_revoked(path)
            elif path.suffix == _ENDING and path.is_file():
                client = check_name(path.name.removesuffix(_ENDING), f"{ascii(str(path))}: client name")
                clients[client] = _read_keys(path, client, owners)
            else:
                raise DataError(
                    f"{ascii(str(path))}: a trust folder holds NAME{_ENDING} and {REVOKED} only; move it away"
                )
        return cls(folder, MappingProxyType(clients), MappingProxyType(revoked))

    def verify(self, client: str, fingerprint: str, message: bytes, signature: bytes, at: datetime) -> str | None:
        """Return None where the client signed this message with a key valid at that moment, else why not, in one line.

        `at` is the server's own time of arrival, never one that the summary claims. A revoked key fits nothing, at
        whatever time: a server that asks again about what it accepted before sees the revocation.
        """
        need_aware(at)
        try:
            check_name(client)
        except DataError as error:
            return str(error)
        if client not in self.clients:
            return f"unknown client {client!r}; the trust folder has no key of it"
        if not is_fingerprint(fingerprint):
            return f"client {client!r} names no key; the fingerprint of one is needed"
        key = next((own for own in self.clients[client] if own.fingerprint == fingerprint), None)
        if key is None:
            return f"unknown key {fingerprint}; the trust folder has no such key of client {client!r}"
        told = f"key {fingerprint} of client {client!r}"
        if fingerprint in self.revoked:
            gone = self.revoked[fingerprint]
            return f"{told} was revoked at {told_time(gone.at)}: {gone.reason}"
        if key.not_before and at < key.not_before:
            return f"{told} is not valid before {told_time(key.not_before)}"
        if key.not_after and at > key.not_after:
            return f"{told} expired at {told_time(key.not_after)}; sign with the client's newer key"
        if len(signature) != SIGNATURE_BYTES:
            return f"the signature has {len(signature)} bytes; it must have {SIGNATURE_BYTES}"
        if not key.fits(message, signature):
            return f"the signature does not fit {told}: the summary was altered, or signed with another key"
        return None

    @classmethod
    def add(cls, folder: Path, client: str, line: str) -> Trust:
        """Add a client's key to the folder, which is made if it is missing, and return what it then says."""
        path, key = _path(folder, client), _new_key(line)
        with io.locked(folder):
            known = cls.load(folder)
            known._refuse_known(client, key)
            _append(path, key.line)
            return cls.load(folder)

    @classmethod
    def rotate(cls, folder: Path, client: str, line: str, until: datetime) -> Trust:
        """Add a client's new key and let its other keys end at `until`, those that end sooner as they are."""
        path, key = _path(folder, client), _new_key(line)
        if key.not_after and key.not_after <= need_aware(until):
            raise SettingError(
                f"rotate: the new key ends at {told_time(key.not_after)}, not after until={told_time(until)}; "
                "nothing would be left to sign with"
            )
        with io.locked(folder):
            known = cls.load(folder)
            if not known.clients.get(client):
                raise SettingError(f"rotate: client {client!r} has no key yet; add its first one")
            known._refuse_known(client, key)
            kept = [_limited(text, until) for text in io.read_text(path).split("\n")]
            _write(path, _ended("\n".join(kept)) + key.line + "\n")
            return cls.load(folder)

    @classmethod
    def revoke(cls, folder: Path, fingerprint: str, reason: str, at: datetime) -> Trust:
        """Withdraw a key for good: what it signed is refused from now on, what was accepted before included."""
        if not is_fingerprint(fingerprint):
            raise SettingError(f"revoke: {fingerprint[:60]!a} is no fingerprint; one is like SHA256: and 32 hex digits")
        written = f"{fingerprint} {told_time(at)} {' '.join(reason.split())}"
        _parse_revoked(written)
        with io.locked(folder):
            known = cls.load(folder)
            if fingerprint in known.revoked:
                since = known.revoked[fingerprint]
                raise SettingError(f"revoke: {fingerprint} was revoked at {told_time(since.at)}: {since.reason}")
            if not any(fingerprint == key.fingerprint for own in known.clients.values() for key in own):
                raise SettingError(f"revoke: no client has a key {fingerprint}; is a digit wrong?")
            _append(folder / REVOKED, written)
            return cls.load(folder)

    def _refuse_known(self, client: str, key: PublicKey) -> None:
        alike = [name for name in self.clients if name != client and name.casefold() == client.casefold()]
        if alike:
            raise SettingError(f"client {client!r} differs from {alike[0]!r} in upper and lower case only; rename one")
        if key.fingerprint in self.revoked:
            raise SettingError(f"key {key.fingerprint} was revoked; make a new one by keygen")
        for name, own in self.clients.items():
            if key.fingerprint in {known.fingerprint for known in own}:
                raise SettingError(f"key {key.fingerprint} is client {name!r}'s already; make a new one by keygen")


def _path(folder: Path, client: str) -> Path:
    return folder / f"{check_name(client)}{_ENDING}"


def _read_keys(path: Path, client: str, owners: dict[str, str]) -> tuple[PublicKey, ...]:
    """Return the keys of one file; a key that stands twice could be held to two dates, or sign for two clients."""
    keys: list[PublicKey] = []
    for where, line in _lines(path):
        try:
            key = parse_line(line)
        except DataError as error:
            raise DataError(f"{where}: {error}") from error
        if key.fingerprint in owners:
            owner = owners[key.fingerprint]
            raise DataError(f"{where}: key {key.fingerprint} is there already, for client {owner!r}; remove one")
        owners[key.fingerprint] = client
        keys.append(key)
    return tuple(keys)


def _read_revoked(path: Path) -> dict[str, Revocation]:
    found: dict[str, Revocation] = {}
    for where, line in _lines(path):
        try:
            fingerprint, revocation = _parse_revoked(line)
        except DataError as error:
            raise DataError(f"{where}: {error}") from error
        if fingerprint in found:
            raise DataError(f"{where}: {fingerprint} is revoked twice; remove one line")
        found[fingerprint] = revocation
    return found


def _parse_revoked(line: str) -> tuple[str, Revocation]:
    words = line.split(maxsplit=2)
    if len(words) < 3 or not is_fingerprint(words[0]):
        raise DataError("no revocation; a line is: FINGERPRINT TIME REASON, the fingerprint like SHA256: and 32 digits")
    if len(words[2]) > LONGEST_REASON or not words[2].isprintable():
        raise DataError(f"the reason must be one line of at most {LONGEST_REASON} printable characters")
    return words[0], Revocation(parse_time(words[1]), words[2])


def _lines(path: Path) -> Iterator[tuple[str, str]]:
    """Yield place and text of each line that says something; what cannot be seen in an editor is refused everywhere."""
    try:
        text = io.read_bytes(path, MOST_BYTES).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: not a UTF-8 text file; is it the right file?") from error
    for number, line in enumerate(text.split("\n"), 1):
        plain = line.removesuffix("\r").replace("\t", " ")
        if not plain.isprintable():
            raise DataError(f"{path}, line {number}: has characters that cannot be seen; type the line anew")
        if plain.strip() and not plain.lstrip().startswith("#"):
            yield f"{path}, line {number}", plain


def _new_key(line: str) -> PublicKey:
    text = line.strip()
    if not text.isprintable() or not text:
        raise DataError(f"public line {line[:40]!a}; must be one line as keygen prints it")
    return parse_line(text)


def _limited(line: str, until: datetime) -> str:
    if not line.strip() or line.lstrip().startswith("#"):
        return line
    key = parse_line(line)
    if key.not_after and key.not_after <= until:
        return line
    if key.not_before and key.not_before > until:
        raise SettingError(
            f"rotate: key {key.fingerprint} is valid from {told_time(key.not_before)} only, after until="
            f"{told_time(until)}; remove its line first"
        )
    return replace(key, not_after=until).line


def _append(path: Path, line: str) -> None:
    before = io.read_text(path) if path.exists() else ""
    _write(path, _ended(before) + line + "\n")


def _write(path: Path, text: str) -> None:
    if len(text.encode()) > MOST_BYTES:
        raise DataError(f"{path}: would be longer than {MOST_BYTES:,} bytes; remove lines that are no longer needed")
    io.write_text(path, text, _REMEDY)


def _ended(text: str) -> str:
    """Return a text whose last line is finished: what comes after must not become a part of it."""
    return text if not text or text.endswith("\n") else text + "\n"
