"""Errors a user can act on: the value, the limit and the remedy, in one line."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable
from numbers import Integral, Real


class PrismError(ValueError):
    """Base of every error this package raises on purpose; the CLI prints it and exits with `code`."""

    code = 2


class SettingError(PrismError):
    """A setting, name or key that cannot be used."""


class DataError(PrismError):
    """Data, scores or weights that cannot be used."""


class DivergedError(PrismError):
    """Training left the region where its numbers mean anything."""


class OutputError(PrismError):
    """A file or folder that cannot be read or written."""


class DeviceMemoryError(PrismError):
    """A CPU or GPU that has too little memory for what it was given at once."""


class MissingExtraError(PrismError):
    """An optional dependency is not installed."""


def did_you_mean(name: object, known: Iterable[str]) -> str:
    """Return ` (did you mean 'x'?)` for a near miss, else the list of what is known."""
    options = sorted(known)
    if not options:
        return "; it takes no options"
    close = difflib.get_close_matches(str(name), options, n=1, cutoff=0.6)
    return f"; did you mean {close[0]!r}?" if close else f"; known: {', '.join(options)}"


def counted(number: int, what: str) -> str:
    """Return `1 trial`, `2 trials`.

    >>> counted(1, "trial"), counted(0, "trial")
    ('1 trial', '0 trials')
    """
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def need_number(what: str, value: object, *, integer: bool = False) -> None:
    """Raise `SettingError` unless `value` is a finite real number, or integer; True and text are neither."""
    kind = Integral if integer else Real
    good = isinstance(value, kind) and not isinstance(value, bool)
    if isinstance(value, Integral):
        good = good and abs(int(value)) < 2**100  # a longer one is a mistake, and would overflow a float
    elif isinstance(value, Real):
        good = good and math.isfinite(value)
    if not good:
        shown = repr(value) if len(repr(value)) <= 40 else repr(value)[:37] + "..."
        raise SettingError(f"{what}={shown}; must be {'an integer' if integer else 'a finite number'}")
