"""Which version of the code computed a number: a digest of the sources that decide it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Final

from prism_fcp import io, registry
from prism_fcp.lab import plugins

_PACKAGE: Final = Path(__file__).parents[1]
# What decides no number of a trial. A new room counts until it is listed here.
_APART: Final = {
    "lab", "federation", "report", "theory", "cli.py", "errors.py", "io.py", "predict.py", "__init__.py", "__main__.py",
}  # fmt: skip


def digest(loaded: Sequence[str], members: Iterable[tuple[str, str]] = ()) -> str:
    """Return a digest of the package below the lab, of these loaded plugins' own files, and of other packages' code.

    `members` are the (kind, name) of the rules, attacks and filters in use, of which some may be other packages'.
    """
    others = {**plugins.files(loaded), **registry.files(members)}
    return f"{_own()}+{io.digest(others)}" if others else _own()


@cache
def _own() -> str:
    sources = {path.relative_to(_PACKAGE): path for path in _PACKAGE.rglob("*.py")}
    return io.digest({str(name): path for name, path in sources.items() if name.parts[0] not in _APART})
