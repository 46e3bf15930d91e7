"""Members of the registries that other packages bring: entry points, looked up only when a name is not found here.

A package's pyproject.toml says `[project.entry-points."prism_fcp.rules"]` and below it `mine = "my_package:factory"`;
once it is installed, `mine` is a rule wherever a rule is named. Our own names come first and are never looked up.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, MutableMapping
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

from prism_fcp.errors import SettingError

T = TypeVar("T")
# what a setting's kind is called in messages -> the group of entry points that adds to it
GROUPS: Final[dict[str, str]] = {
    "rule": "prism_fcp.rules",
    "training attack": "prism_fcp.attacks",
    "filter": "prism_fcp.filters",
    "score attack": "prism_fcp.score_attacks",
}


class Origin(NamedTuple):
    """Where a member comes from that is not ours."""

    package: str  # name and version
    module: str


_ORIGINS: Final[dict[tuple[str, str], Origin]] = {}  # of what was loaded, by kind and name


def find(registry: Mapping[str, Callable[..., T]], kind: str, name: str) -> Callable[..., T] | None:
    """Return the factory of this name: ours, or another package's, which joins the registry; None if nobody has it."""
    if name in registry or kind not in GROUPS or not isinstance(registry, MutableMapping):
        return registry.get(name)
    found = _entries(kind, name)
    if not found:
        return None
    offered = dict.fromkeys(_package(entry) for entry in found)
    if len(offered) > 1:
        raise SettingError(
            f"{kind} {name!r} is offered by {' and by '.join(offered)}; uninstall one, or name a file in plugins"
        )
    entry = found[0]
    try:
        factory = entry.load()
    except (Exception, SystemExit) as error:
        told = f"{type(error).__name__}: {error}".replace("\n", " ")
        raise SettingError(
            f"{kind} {name!r} of package {_package(entry)} cannot be loaded from {entry.value!r} ({told}); mend the "
            "package, or uninstall it"
        ) from error
    if not callable(factory):
        raise SettingError(
            f"{kind} {name!r} of package {_package(entry)}: {entry.value!r} is of type {type(factory).__name__}; must "
            "be a factory, a function that returns one"
        )
    made: Callable[..., T] = factory
    registry[name] = made
    _ORIGINS[kind, name] = Origin(_package(entry), entry.module)
    return made


def names(registry: Mapping[str, object], kind: str) -> list[str]:
    """Return the names in a registry and those that other packages offer, which are not imported for it."""
    return [*registry, *sorted({entry.name for entry in _entries(kind)} - set(registry))]


def origin(kind: str, name: str) -> Origin | None:
    """Return the package a member was loaded from, if it is not ours or the program's own."""
    return _ORIGINS.get((kind, name))


def files(wanted: Iterable[tuple[str, str]]) -> dict[str, Path]:
    """Return the sources of the packages that these members, (kind, name), come from, each under a name of its own.

    Of a module in a package all of the package's Python files, else the module's own.
    """
    found: dict[str, Path] = {}
    for kind, name in dict.fromkeys(wanted):
        known = _ORIGINS.get((kind, name))
        source = getattr(sys.modules.get(known.module), "__file__", None) if known else None
        if known is None or source is None:
            continue
        path, depth = Path(source), known.module.count(".")
        if path.name != "__init__.py" and not depth:
            found[f"{known.package} {path.name}"] = path
            continue
        top = path.parents[depth if path.name == "__init__.py" else depth - 1]
        found |= {f"{known.package} {own.relative_to(top).as_posix()}": own for own in sorted(top.rglob("*.py"))}
    return found


def _entries(kind: str, name: str | None = None) -> list[Any]:
    from importlib.metadata import entry_points  # a tenth of a second where much is installed: not before it is needed

    if kind not in GROUPS:
        return []
    offered = entry_points(group=GROUPS[kind])
    return [entry for entry in offered if name is None or entry.name == name]


def _package(entry: Any) -> str:
    return f"{entry.dist.name} {entry.dist.version}" if entry.dist else entry.value.partition(":")[0]
