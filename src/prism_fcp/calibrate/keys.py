"""The public half of a signing key: its line in a text file, its fingerprint, and whether a signature fits it.

A line is `ed25519 KEY [not-before=TIME] [not-after=TIME] [comment]`: KEY is the 32 bytes of RFC 8032 in base64, TIME
like 2026-12-31T23:59:59Z. No word of a comment may hold an `=`, lest a mistyped option be taken for one, except after
a word that begins with `#`.
"""

from __future__ import annotations

import base64
import hashlib
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from types import ModuleType
from typing import Final

from prism_fcp.errors import DataError, MissingExtraError, SettingError

PREFIX: Final = b"prism-fcp summary v1\0"  # what is signed begins so: no signature made for something else fits
SIGNATURE_BYTES: Final = 64
FINGERPRINT_DIGITS: Final = 32  # 128 bits: nobody finds a second key with the same ones, and people can compare them
_FINGERPRINT: Final = re.compile(rf"SHA256:[0-9a-f]{{{FINGERPRINT_DIGITS}}}")
_TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d)?(Z|[+-]\d\d:\d\d)", re.ASCII)
_OPTIONS: Final = ("not-before", "not-after")

_P: Final = 2**255 - 19  # the field of the curve: RFC 8032, section 5.1
# y of the points whose order divides 8. Under such a key a signature can be made to fit without any secret, and yet
# cryptography 50 loads all of them.
_EIGHTH: Final = 0x7A03AC9277FDC74EC6CC392CFA53202A0F67100D760B3CBA4FD84D3D706A17C7
_SMALL_ORDER: Final = frozenset({0, 1, _P - 1, _EIGHTH, _P - _EIGHTH})


@dataclass(frozen=True, slots=True)
class PublicKey:
    """A key that a client may sign with, and when; both ends of its time belong to it."""

    raw: bytes
    not_before: datetime | None = None
    not_after: datetime | None = None
    comment: str = ""

    def __post_init__(self) -> None:
        """Refuse what is no key, or never valid."""
        _check_point(self.raw)
        if self.not_before and self.not_after and self.not_before > self.not_after:
            raise DataError(
                f"not-before={told_time(self.not_before)} is later than not-after={told_time(self.not_after)}: "
                "the key would never be valid"
            )

    @property
    def fingerprint(self) -> str:
        """Return `SHA256:` and the first 32 hex digits of the SHA-256 of the key's 32 bytes."""
        return "SHA256:" + hashlib.sha256(self.raw).hexdigest()[:FINGERPRINT_DIGITS]

    @property
    def line(self) -> str:
        """Return the line that says all of this."""
        times = zip(_OPTIONS, (self.not_before, self.not_after), strict=True)
        options = [f"{name}={told_time(time)}" for name, time in times if time]
        return " ".join(["ed25519", base64.b64encode(self.raw).decode(), *options, *self.comment.split()])

    def fits(self, message: bytes, signature: bytes) -> bool:
        """Say whether the owner of this key signed the message; when is not asked."""
        public = library().Ed25519PublicKey.from_public_bytes(self.raw)
        from cryptography.exceptions import InvalidSignature

        try:
            public.verify(signature, PREFIX + message)
        except InvalidSignature:
            return False
        return True


def parse_line(line: str) -> PublicKey:
    """Return the key that one line says; whatever it cannot be is a `DataError`."""
    words = line.split()
    if len(words) < 2 or words.pop(0) != "ed25519":
        raise DataError("no key; a line is: ed25519 KEY [not-before=TIME] [not-after=TIME] [comment]")
    raw = _decode(words.pop(0))
    times: dict[str, datetime] = {}
    while words and words[0].partition("=")[0] in _OPTIONS and "=" in words[0]:
        name, _, value = words.pop(0).partition("=")
        if name in times:
            raise DataError(f"{name} is said twice; keep one")
        times[name] = parse_time(value)
    for word in words:
        if word.startswith("#"):
            break
        if "=" in word:
            raise DataError(
                f"option {word[:40]!a} is not known; known: {', '.join(_OPTIONS)}, right after the key; "
                "a comment with an = begins with #"
            )
    return PublicKey(raw, times.get("not-before"), times.get("not-after"), " ".join(words))


def parse_time(text: str) -> datetime:
    """Return a moment written with date, time and offset; a bare date could mean its first or its last second."""
    try:
        if not _TIME.fullmatch(text):
            raise ValueError
        return datetime.fromisoformat(text).astimezone(UTC)
    except (ValueError, OverflowError):  # such as February 30
        raise DataError(f"time {text[:40]!a}; must be like 2026-12-31T23:59:59Z") from None


def told_time(time: datetime) -> str:
    """Return a moment as it is written in the files, in UTC and whole seconds."""
    return need_aware(time).astimezone(UTC).replace(microsecond=0, tzinfo=None).isoformat() + "Z"


def need_aware(time: datetime) -> datetime:
    """Raise `SettingError` for a time without an offset, which means another moment on another machine."""
    if time.tzinfo is None:
        raise SettingError(f"time {time.isoformat()} has no offset; give one, such as datetime.now(UTC)")
    return time


def is_fingerprint(text: object) -> bool:
    """Say whether this is written as a fingerprint."""
    return isinstance(text, str) and _FINGERPRINT.fullmatch(text) is not None


def library() -> ModuleType:
    """Return the module that signs and verifies, which nothing but signatures needs."""
    try:
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ImportError as error:
        raise MissingExtraError("signatures need the package cryptography: pip install 'prism-fcp[signing]'") from error
    return ed25519


def _decode(text: str) -> bytes:
    try:
        raw = base64.b64decode(text, validate=True)
    except ValueError:
        raw = b""
    if len(raw) != 32 or base64.b64encode(raw).decode() != text:
        raise DataError(f"key {text[:50]!a} is not the base64 of 32 bytes; copy the whole line that keygen printed")
    return raw


def _check_point(raw: bytes) -> None:
    """Refuse a point of small order, and a second spelling of any; 32 bytes off the curve merely fit no signature."""
    y = int.from_bytes(raw, "little") & ~(1 << 255)  # the highest bit is the sign of x
    if len(raw) != 32 or y >= _P:
        raise DataError("the bytes are no Ed25519 key; copy the whole line that keygen printed")
    if y in _SMALL_ORDER:
        raise DataError("the key is a point of small order, for which anybody can sign; make one by keygen")
