"""What a client may be called. A name comes from outside and becomes part of file names, messages and pages."""

from __future__ import annotations

import unicodedata
from typing import Final

from prism_fcp.errors import DataError

LONGEST: Final = 100  # characters
MOST_BYTES: Final = 200  # in UTF-8, so that NAME.keys and its temporary file stay below a file system's 255
# Python calls these printable, and yet nothing is seen of them: two names would look alike.
_UNSEEN: Final = frozenset(
    [0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x180B, 0x180C, 0x180D, 0x180F, 0x2800, 0xFFFC, 0x16FE4, 0x1D159]
    + [*range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0)]
)


def check_name(name: object, what: str = "client name") -> str:
    """Return a name that can be a file's, shown to people, and told from others; raise `DataError` for any other.

    It must be its own NFKC form: one spelling for each letter, and no slash in disguise. Letters of any script are
    allowed, so names of two scripts can still look alike: a trust folder, not the eye, says who is known.

    >>> check_name("Universitätsspital Zürich")
    'Universitätsspital Zürich'
    """
    if not isinstance(name, str):
        raise DataError(f"{what} is {type(name).__name__}; it must be text")
    if len(name) > LONGEST:
        raise DataError(f"{what} {name[:20]!a}... has {len(name)} characters; at most {LONGEST} are allowed")
    unseen = any(not letter.isprintable() or ord(letter) in _UNSEEN for letter in name)
    if unseen or not name or name != name.strip() or name[0] in ".-" or "/" in name or "\\" in name:
        raise DataError(
            f"{what} {name!a}; must be usable as a file's name: 1 to {LONGEST} printable characters, without / and \\, "
            "not beginning with . or -, no blanks around it"
        )
    if unicodedata.normalize("NFKC", name) != name or unicodedata.category(name[0]).startswith("M"):
        raise DataError(f"{what} {name!a} can be spelt in more than one way; use {_plain(name)}")
    if len(name.encode()) > MOST_BYTES:
        raise DataError(
            f"{what} {name[:20]!a}... has {len(name.encode())} bytes; at most {MOST_BYTES} are allowed: shorten it"
        )
    return name


def _plain(name: str) -> str:
    normal = unicodedata.normalize("NFKC", name)
    return f"{normal!a}" if normal != name else "a name that begins with a letter"
