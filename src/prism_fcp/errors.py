"""Errors a user can act on: the value, the limit and the remedy, in one line."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


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


class MissingExtraError(PrismError):
    """An optional dependency is not installed."""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return ` (did you mean 'x'?)` for a near miss, else the list of what is known."""
    options = sorted(known)
    close = difflib.get_close_matches(name, options, n=1, cutoff=0.6)
    return f"; did you mean {close[0]!r}?" if close else f"; known: {', '.join(options)}"
