"""Code of the user's own that an experiment names: importing it registers rules, filters and attacks.

Every worker process imports the same modules and files, so that what they register is known whatever the jobs.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Sequence
from pathlib import Path

from prism_fcp.errors import SettingError


def load(names: Sequence[str], where: str) -> tuple[str, ...]:
    """Import modules by name and files by path (relative to the file `where`), each once; return them resolved."""
    return tuple(_load_file(name, where) if name.endswith(".py") else _load_module(name, where) for name in names)


def files(loaded: Sequence[str]) -> dict[str, Path]:
    """Return the source files of what `load` returned, each under its place in the list."""
    sources = [sys.modules[name].__file__ for name in loaded]
    return {f"plugin {place}": Path(source) for place, source in enumerate(sources) if source}


def _load_module(name: str, where: str) -> str:
    try:
        importlib.import_module(name)
    except (Exception, SystemExit) as error:
        raise _failed(
            name, where, error, "it must be on Python's path; a file is named by a path ending in .py"
        ) from error
    return name


def _load_file(name: str, where: str) -> str:
    path = (Path(where).parent / name).resolve()
    if str(path) in sys.modules:
        return str(path)
    spec = importlib.util.spec_from_file_location(str(path), path)
    if not path.is_file() or spec is None or spec.loader is None:
        raise SettingError(
            f"{where}: plugins: no file {path}; a path is relative to the experiment file, or "
            "without one to the current folder"
        )
    module = sys.modules[str(path)] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[str(path)]
        raise _failed(name, where, error, "mend it, or take it off the list") from error
    return str(path)


def _failed(name: str, where: str, error: BaseException, remedy: str) -> SettingError:
    return SettingError(f"{where}: plugins: cannot import {name!r} ({type(error).__name__}: {error}); {remedy}")
