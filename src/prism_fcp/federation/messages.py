"""Our bytes in Flower's messages, and back: one field of one record. Whatever else a message holds is not looked at."""

from __future__ import annotations

from typing import Final

from flwr.app import Array, ArrayRecord, ConfigRecord, Message, RecordDict

from prism_fcp.errors import DataError

RECORD: Final = "p"  # short names: they travel with every message
FIELD: Final = "b"
PROBLEM: Final = "e"  # in place of an answer: why there is none
LARGE: Final = 8192  # bytes from which a payload travels as an array: copied less often, and sent in pieces
LONGEST_PROBLEM: Final = 300


def wrap(data: bytes) -> RecordDict:
    """Return a message's content."""
    if len(data) < LARGE:
        return RecordDict({RECORD: ConfigRecord({FIELD: data})})
    return RecordDict({RECORD: ArrayRecord({FIELD: Array("uint8", (len(data),), "prism-fcp", data)})})


def wrap_problem(text: str) -> RecordDict:
    """Return the content of an answer that says why there is none."""
    return RecordDict({RECORD: ConfigRecord({PROBLEM: text[:LONGEST_PROBLEM]})})


def printable(text: str) -> str:
    r"""Return another's text as one line without control characters: it is shown on terminals.

    >>> printable("red \x1b[31m and\nmore")
    'red ?[31m and more'
    """
    words = " ".join(text[: 4 * LONGEST_PROBLEM].split())
    return "".join(one if one.isprintable() else "?" for one in words)[:LONGEST_PROBLEM]


def unwrap(message: Message, most: int) -> bytes:
    """Return a message's bytes, at most so many; anything else in their place is a `DataError` in plain words."""
    if message.has_error():
        told = message.error.reason or ""
        raise DataError(f"no answer: the engine says {printable(told)[:200] or 'nothing'} ({message.error.code})")
    if not message.has_content():
        raise DataError("an empty message")
    content = message.content
    if list(content) != [RECORD]:
        raise DataError(f"records {sorted(map(str, content))!r:.100}; must be {RECORD!r} alone")
    record = content[RECORD]
    if isinstance(record, ConfigRecord) and list(record) == [PROBLEM]:
        problem = record[PROBLEM]
        raise DataError(f"says: {printable(problem) if isinstance(problem, str) else type(problem).__name__}")
    if list(record) != [FIELD]:
        raise DataError(f"fields {sorted(map(str, record))!r:.100}; must be {FIELD!r} alone")
    data = record[FIELD]
    if isinstance(data, Array):
        data = data.data
    if not isinstance(data, bytes):
        raise DataError(f"its field is a {type(data).__name__}; must be bytes")
    if len(data) > most:
        raise DataError(f"{len(data):,} bytes; at most {most:,} are looked at")
    return data
